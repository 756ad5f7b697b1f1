# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of HPL and of the DGEMM benchmark, read from what they print."""

from __future__ import annotations

import math
import re
from typing import Any

from ._hpl_values import HplError

_COUNTS = {
    "passed": re.compile(r"(\d+) tests completed and passed residual checks"),
    "failed": re.compile(r"(\d+) tests completed and failed residual checks"),
    "unchecked": re.compile(r"(\d+) tests completed without checking"),
    "skipped": re.compile(r"(\d+) tests skipped because of illegal input values"),
}
_RESIDUAL = re.compile(r"\|\|Ax-b\|\|_oo\s*/.*=\s*(\S+?)\s*\.{3,}\s*(PASSED|FAILED)")
_ERROR = re.compile(r">>>\s*(.+?)\s*<<<", re.DOTALL)
_DGEMM = re.compile(
    r"^DGEMM ranks=(?P<ranks>\d+) n=(?P<n>\d+) gflops_sum=(?P<gflops_sum>\S+) "
    r"gflops_min=(?P<gflops_min>\S+) gflops_max=(?P<gflops_max>\S+)\s*$",
    re.MULTILINE,
)


def parse_results(text: str) -> dict[str, Any]:
    """Read the output of HPL 2.0 to 2.3 or of hpcc's HPL.

    Returns ``rows``, ``passed`` and ``reason``. A row has tv (the T/V code, such as WR11C2R4), n, nb, p, q,
    seconds, gflops, residual (the largest one; null when it was not checked or is not finite), passed and
    reason. ``passed`` is true only when there is a row, every row's residual passed, no test was skipped, and
    the output is complete; else ``reason`` says why. HPL itself exits with 0 whatever its residuals say.
    """
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        row = _row(line)
        if row is not None:
            rows.append(row)
            continue
        found = _RESIDUAL.search(line)
        if found and rows:
            _judge(rows[-1], found.group(1), found.group(2))
    reason = _reason(rows, text)
    return {"rows": rows, "passed": not reason, "reason": reason}


def parse_dgemm(text: str) -> dict[str, Any]:
    """Read ``DGEMM ranks=R n=N gflops_sum=S gflops_min=L gflops_max=H``: the GFLOPS of R ranks that ran at
    once.

    Raises HplError when the line is missing or holds a rate that is not a positive number.
    """
    found = _DGEMM.search(text)
    if not found:
        raise HplError(f"the output has no DGEMM line{_tail(text)}")
    result: dict[str, Any] = {"ranks": int(found["ranks"]), "n": int(found["n"])}
    for name in ("gflops_sum", "gflops_min", "gflops_max"):
        result[name] = _float(found[name])
        if not (math.isfinite(result[name]) and result[name] > 0):
            raise HplError(f"DGEMM printed {name}={found[name]}: not a rate")
    return result


def _row(line: str) -> dict[str, Any] | None:
    """A result line: T/V, N, NB, P, Q, then (AMD's build: further columns, then) time and GFLOPS."""
    tokens = line.split()
    if len(tokens) < 7 or not re.match(r"W[RC]\w+$", tokens[0]) or not all(t.isdigit() for t in tokens[1:5]):
        return None
    seconds, gflops = _float(tokens[-2]), _float(tokens[-1])
    n, nb, p, q = (int(token) for token in tokens[1:5])
    sound = math.isfinite(seconds) and math.isfinite(gflops) and seconds >= 0 and gflops > 0
    return {
        "tv": tokens[0],
        "n": n,
        "nb": nb,
        "p": p,
        "q": q,
        "seconds": seconds if sound else None,
        "gflops": gflops if sound else None,
        "residual": None,
        "passed": False,
        "reason": "its residual was not checked" if sound else f"time or GFLOPS cannot be: {line.strip()}",
    }


def _judge(row: dict[str, Any], printed: str, verdict: str) -> None:
    """Add one residual line to its row: HPL 2 prints one, HPL 1 three, and each must pass."""
    residual = _float(printed)
    if row["gflops"] is None or (row["reason"] and row["reason"].startswith("residual")):
        return
    if not math.isfinite(residual):
        row.update(residual=None, passed=False, reason=f"residual is {printed}: the solution is not a number")
    elif verdict == "FAILED":
        row.update(
            residual=residual, passed=False, reason=f"residual {printed} is above the threshold: FAILED"
        )
    else:
        row.update(residual=max(residual, row["residual"] or 0.0), passed=True, reason=None)


def _reason(rows: list[dict[str, Any]], text: str) -> str:
    """Why the run does not count; empty when it does."""
    errors = _ERROR.findall(text)
    said = f"; HPL says: {' '.join(errors[0].split())}" if errors else ""
    counts = {name: sum(int(c) for c in pattern.findall(text)) for name, pattern in _COUNTS.items()}
    for row in rows:
        if not row["passed"] and row["reason"] and "not checked" not in row["reason"]:
            return f"N={row['n']} NB={row['nb']} {row['p']}x{row['q']}: {row['reason']}"
    if counts["failed"]:
        return f"{counts['failed']} tests failed their residual check{said}"
    if counts["skipped"]:
        return (
            f"{counts['skipped']} tests were skipped because of illegal input values or lack of memory{said}"
        )
    if not rows:
        return f"no result: HPL printed no result line{said or _tail(text)}"
    if "End of Tests" not in text or not any(counts.values()):
        return f"the output ends early, after {len(rows)} results: HPL did not finish{said}"
    if not all(row["passed"] for row in rows):
        return "a residual was not checked: the threshold in HPL.dat must be above 0"
    if counts["passed"] != len(rows):
        return f"HPL counts {counts['passed']} passed tests, but {len(rows)} results are in its output"
    return ""


def _float(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return math.nan


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it ends with: {lines[-1][:200]}" if lines else "; it is empty"
