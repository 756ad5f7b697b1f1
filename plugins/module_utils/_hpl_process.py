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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

GRACE_SECONDS = 5.0
"""Time between SIGTERM, on which mpirun ends the ranks of other nodes, and SIGKILL."""

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
) -> Outcome:
    """Run ``argv`` with ``env`` added to the environment; end its whole process group after ``timeout``
    seconds.

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
            process.wait(timeout)
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


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group: the leader, or ranks that outlived it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
