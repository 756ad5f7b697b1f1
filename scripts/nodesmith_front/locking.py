"""One run at a time where two would fight over the same files."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .console import Failure, say


@contextmanager
def exclusive(path: Path, what: str, *, wait: bool) -> Iterator[None]:
    """Hold the lock file ``path`` while the body runs; the kernel drops it with the process.

    With ``wait`` a second run says so and waits, else it raises Failure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise Failure(
                    f"another run is busy with {what}: wait for it to end, then run again"
                ) from None
            say(f"waiting for another run that is busy with {what}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
