"""Running commands: into a log file, and to the terminal where a person follows along."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


def run_logged(
    argv: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str], append: bool = False
) -> int:
    """Run a command with all its output in ``log``; return its exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab" if append else "wb") as stream:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode


def run_live(argv: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str]) -> int:
    """Run a command with its output on the terminal and, without colours, in ``log``; return its exit status.

    On an interrupt the command, which got the same signal, is waited for, so that it can clean up.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as child,
    ):
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        for line in child.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            stream.write(_ANSI.sub(b"", line))
            stream.flush()
        return child.wait()


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last ``count`` lines of a log, fewer when it is shorter, none when it is missing."""
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
