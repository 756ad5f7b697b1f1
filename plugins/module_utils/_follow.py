# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of a long task: how it is shown, when, and how HPL reports it.

Progress is a dict with the keys ``phase`` (str), ``done`` and ``total`` (numbers), ``elapsed`` and
``estimate`` (seconds passed and left) and ``line`` (the last line of a log). Any of them may be missing or
null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

PLAIN_SECONDS = 15.0
"""Least time between two plain lines of one host in one phase."""

PLAIN_WIDTH = 120
"""Columns of a line that does not go to a terminal."""

_TITLE_LEAST = 8

_HPL_REPORT = re.compile(r"Column=\s*(\d+)\s+Fraction=\s*([\d.]+)%\s+Gflops=\s*([\d.]+e[+-]?\d+)")


def clock(seconds: float) -> str:
    """Return ``seconds`` as ``M:SS`` or ``H:MM:SS``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _number(value: Any) -> float | None:
    """Return ``value`` when it is a finite number of at least 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return value
    return None


def _printable(text: str) -> str:
    """Return ``text`` in ASCII, which takes one column for each character and moves no cursor."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)


def _count(progress: Mapping[str, Any]) -> str:
    done, total = _number(progress.get("done")), _number(progress.get("total"))
    if done is None:
        return ""
    if not total:
        return f"{done:.0f}"
    return f"{done:.0f}/{total:.0f} {min(100, int(100 * done / total))} %"


def render(host: str, title: str, progress: Mapping[str, Any], width: int, log_line: bool = False) -> str:
    """Return one line of at most ``width`` columns: host, title, phase, count, percent and times.

    The title gives way first, as the numbers say more. With ``log_line`` the last line of the log follows.
    """
    parts = [_printable(str(progress.get("phase") or "running")), _count(progress)]
    for name, key in (("elapsed", "elapsed"), ("left", "estimate")):
        seconds = _number(progress.get(key))
        parts.append(f"{name} {clock(seconds)}" if seconds is not None else "")
    text = "  ".join(part for part in parts if part)
    host, title = _printable(host), _printable(title)
    space = width - len(host) - len(text) - 4
    if title and space >= _TITLE_LEAST:
        text = f"{title[:space]}  {text}"
    line = f"{host}  {text}"
    if log_line and progress.get("line"):
        line += "  | " + _printable(str(progress["line"]).strip())
    return line[: max(width, 0)]


class PlainPace:
    """Decides when a host's next plain line is due: at each new phase, else every PLAIN_SECONDS."""

    def __init__(self) -> None:
        self._phase: Any = None
        self._last = -math.inf

    def due(self, phase: Any, now: float) -> bool:
        """Return whether to print at the monotonic time ``now``; if so, the waiting starts anew."""
        if phase == self._phase and now - self._last < PLAIN_SECONDS:
            return False
        self._phase, self._last = phase, now
        return True


def waits(longest: float) -> Iterator[float]:
    """Yield the seconds to wait before each question: 0.5 at first, as many tasks end soon, then longer."""
    wait = min(0.5, longest)
    while True:
        yield wait
        wait = min(1.25 * wait, longest)


def hpl_progress(text: str) -> dict[str, Any] | None:
    """Return the progress that the last report in ``text`` tells, or None when there is none yet.

    HPL built with ``-DHPL_PROGRESS_REPORT`` prints ``Column=000000192 Fraction= 1.0% Gflops=5.3e+01``, the
    rate being that since the start of this solve (HPL 2.3, src/pgesv/HPL_pdgesv0.c). ``done`` and ``total``
    are columns, ``estimate`` the seconds left of this solve: 2/3 (N-j)^3 operations remain after column j.
    N comes from the fraction, which has one decimal: the first estimates are rough.
    """
    reports = list(_HPL_REPORT.finditer(text))
    if not reports:
        return None
    report = reports[-1]
    column, fraction, gflops = int(report[1]), float(report[2]) / 100, float(report[3])
    progress: dict[str, Any] = {"phase": "solve", "done": column, "total": None, "estimate": None}
    if fraction > 0 and gflops > 0:
        total = round(column / fraction)
        progress.update(total=total, estimate=2 / 3 * (total - column) ** 3 / (gflops * 1e9))
    return {**progress, "line": report[0]}
