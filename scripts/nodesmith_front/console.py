"""What a person sees: one line per stage, aligned tables, one clear line per failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_COLOURS = {"green": "32", "red": "31", "bold": "1"}


class Failure(Exception):
    """An expected failure. Its text is one line that names the cause and the remedy."""


def colour(text: str, name: str) -> str:
    """Return ``text`` in a colour when the output is a terminal and NO_COLOR is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{_COLOURS[name]}m{text}\033[0m"


def say(line: str) -> None:
    """Print a line at once, in step with the output of child processes."""
    print(line, flush=True)


def duration(seconds: float) -> str:
    """Return a time as a person says it: ``4.2 s``, ``3 min 07 s``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines with aligned columns; the last column is not padded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    return [
        "  ".join([c.ljust(w) for c, w in zip(row, widths, strict=False)] + [row[-1]]).rstrip()
        for row in rows
    ]


def one_line(text: str, limit: int = 400) -> str:
    """Return ``text`` on one line, shortened to ``limit`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
