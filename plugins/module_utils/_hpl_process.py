# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command in a session of its own, so that it can be ended with everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

GRACE_SECONDS = 5.0
"""Time between SIGTERM, on which mpirun ends the ranks of other nodes, and SIGKILL."""

LOOK_SECONDS = 1.0
"""How often a watcher looks at the output of a command."""

TAIL_BYTES = 4096

LONGEST_PAUSE = 0.1

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit status (negative: the signal), wall time, output, and whether time ran
    out.
    """

    rc: int
    seconds: float
    stdout: str
    stderr: str
    timed_out: bool


def run(
    argv: Sequence[str],
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    watch: Callable[[str, float], None] | None = None,
) -> Outcome:
    """Run ``argv`` with ``env`` added to the environment; end its whole process group after ``timeout``
    seconds.

    ``watch`` gets the end of the output so far and the seconds since the start, every LOOK_SECONDS.

    The group is ended as well when this process is told to stop (SIGTERM, SIGHUP, SIGINT) or fails. Raises
    OSError when the command cannot be started.
    """
    # files, not pipes: a rank that outlives mpirun would hold a pipe open and the reader with it
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, signals_raise():
        begin = time.monotonic()
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            _wait(process, out.fileno(), begin, timeout, watch)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            end_group(process)
        seconds = time.monotonic() - begin
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
        return Outcome(process.returncode, round(seconds, 3), texts[0], texts[1], timed_out)


def _wait(
    process: subprocess.Popen[bytes],
    output: int,
    begin: float,
    timeout: float | None,
    watch: Callable[[str, float], None] | None,
) -> None:
    """Wait for the leader of the group. Raises TimeoutExpired when the time is over."""
    if watch is None:
        wait_ended(process, timeout)
        return
    while True:
        elapsed = time.monotonic() - begin
        left = LOOK_SECONDS if timeout is None else min(LOOK_SECONDS, timeout - elapsed)
        with suppress(subprocess.TimeoutExpired):
            wait_ended(process, left)
            return
        elapsed = time.monotonic() - begin
        if timeout is not None and elapsed >= timeout:
            raise subprocess.TimeoutExpired(process.args, timeout)
        # pread: the offset of the file is the command's, which writes there
        end = os.fstat(output).st_size
        watch(os.pread(output, TAIL_BYTES, max(0, end - TAIL_BYTES)).decode("utf-8", "replace"), elapsed)


def wait_ended(process: subprocess.Popen[bytes], timeout: float | None = None) -> None:
    """Wait until ``process`` ended. Raises TimeoutExpired when it has not after ``timeout`` seconds.

    Popen.wait cannot be used where a signal raises: when that happens inside of it, its lock is never given
    back, and the next wait, the one that cleans up, waits for ever.
    """
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.001
    while True:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
        try:
            ended = process.poll() is not None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if ended:
            return
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, timeout or 0.0)
            pause = min(pause, left)
        time.sleep(pause)
        pause = min(2 * max(pause, 0.001), LONGEST_PAUSE)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group: the leader, or ranks that outlived it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            wait_ended(process, GRACE_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    wait_ended(process)


@contextmanager
def signals_raise() -> Iterator[None]:
    """Turn signals that would end this process into SystemExit, so that the group is ended first."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def error_lines(text: str, most: int = 6) -> str:
    """Return the last ``most`` lines of ``text`` that say something, joined; mpirun frames its messages
    with dashes.
    """
    lines = [line.strip() for line in text.splitlines()]
    return " / ".join([line for line in lines if line.strip("-*= ")][-most:])
