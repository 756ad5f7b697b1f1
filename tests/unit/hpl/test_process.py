"""Running a command and ending it, with a signal at the worst moment."""

from __future__ import annotations

import signal
import subprocess

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_process import (
    end_group,
    run,
    signals_raise,
    wait_ended,
)


class Lock:
    """Popen's lock, with SIGTERM arriving between taking it and the code that gives it back."""

    def __init__(self, lock) -> None:
        self._lock = lock
        self.hit = False

    def acquire(self, *arguments) -> bool:
        taken = self._lock.acquire(*arguments)
        if not self.hit:
            self.hit = True
            signal.raise_signal(signal.SIGTERM)
        return taken

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *reason) -> None:
        self.release()


@pytest.fixture
def alarm():
    """End a test that waits for ever."""

    def late(number, frame):
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_inside_a_wait_does_not_block_the_next_one(alarm):
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    process._waitpid_lock = Lock(process._waitpid_lock)
    with signals_raise():
        with pytest.raises(SystemExit):
            wait_ended(process)
        assert process._waitpid_lock.hit
        end_group(process)
    assert process.returncode == -signal.SIGTERM


def test_time_runs_out(alarm):
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with pytest.raises(subprocess.TimeoutExpired):
        wait_ended(process, 0.05)
    end_group(process)


def test_a_watcher_sees_the_output_grow(alarm):
    seen = []
    outcome = run(
        ["sh", "-c", "echo one; sleep 1.5; echo two"], watch=lambda text, _elapsed: seen.append(text)
    )
    assert seen[0] == "one\n"
    assert outcome.stdout == "one\ntwo\n"
    assert (outcome.rc, outcome.timed_out) == (0, False)
