# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of HPL and of the DGEMM benchmark, read from what they print."""

from __future__ import annotations

import math
import re
from typing import Any

from ._hpl_size import flops
from ._hpl_values import HplError

# T/V, N, NB, P, Q, time, GFLOPS. AMD's Zen HPL has SWP behind T/V; NVIDIA's adds the GFLOPS "( per GPU)"; a
# launcher may put its tag before the line.
_ROW = re.compile(
    r"(?:^|[\s:>])(?P<tv>W[RC]\w+)\s+(?:\S+\s+)??(?P<n>\d{1,12})\s+(?P<nb>\d{1,9})\s+(?P<p>\d{1,9})\s+"
    r"(?P<q>\d{1,9})\s+(?P<seconds>\S+)\s+(?P<gflops>\S+)(?:\s+\([^)]*\))?\s*$",
    re.ASCII,
)
_BROKEN_ROW = re.compile(r"(?:^|[\s:>])W[RC]C?\d\w*\s+\S", re.ASCII)
_RESIDUAL = re.compile(r"\|\|Ax-b\|\|_oo\s*/[^=]{1,120}=\s*(\S{1,40}?)\s*\.{3,}\s*(PASSED|FAILED)")
_COUNTS = {
    name: re.compile(rf"(?<!\d)(\d{{1,9}}) tests {words}", re.ASCII)
    for name, words in (
        ("passed", "completed and passed residual checks"),
        ("failed", "completed and failed residual checks"),
        ("unchecked", "completed without checking"),
        ("skipped", "skipped because of illegal input values"),
    )
}
_CAUSES = (
    (r"\bsignal:? 9\b|out of memory|oom[-_ ]kill|: Killed$", "a process was killed: out of memory?"),
    (r"memory allocation failed", "the matrix does not fit in memory: choose a smaller N"),
    (r"\bsignal:? 4\b", "a process met an illegal instruction: HPL or its BLAS is built for another CPU"),
    (r"\bsignal:? (7|11)\b", "a process crashed (signal {})"),
    (r"not enough slots available|are already filled", "the host file has fewer slots than there are ranks"),
    (
        r"unable to reliably start|daemon failed to report back|Launch proxy failed",
        "MPI's daemon did not start on a node: check ssh to it and that it has the same MPI",
    ),
    (r"lost communication with a remote daemon", "a node was lost: is it, or its network, down?"),
    (
        r"could not\s+access\s+(?:or execute\s+)?an executable|execvp error on file",
        "the program is missing on a node",
    ),
    (r"error while loading shared libraries: ([^\s:]+)", "a node lacks the library {}"),
    (
        r"time limit for job execution has been reached|DUE TO TIME LIMIT|application time(?:out|d out)",
        "the time limit ended it",
    ),
    (r"^HPL ERROR: (.{1,200})$", "HPL says: {}"),  # NVIDIA's
    (r">>>\s*([^<>]{1,400}?)\s*<<<", "HPL says: {}"),  # HPL_pwarn and HPL_pabort
)
"""Words in the output of HPL, of mpirun, mpiexec and srun, and what they mean to a person."""
_DGEMM = re.compile(
    r"^DGEMM ranks=(?P<ranks>\d{1,9}) n=(?P<n>\d{1,9}) gflops_sum=(?P<gflops_sum>\S+) "
    r"gflops_min=(?P<gflops_min>\S+) gflops_max=(?P<gflops_max>\S+)\s*$",
    re.MULTILINE | re.ASCII,
)


def parse_results(text: str) -> dict[str, Any]:
    """Read the output of HPL 1.0 to 2.3, of the HPL in hpcc (hpccoutf.txt), rocHPL, NVIDIA's HPC-Benchmarks,
    Intel's oneMKL or AMD's Zen HPL.

    Returns ``rows``, ``passed`` and ``reason``. A row has tv (the T/V code, such as WR11C2R4), n, nb, p, q,
    seconds, gflops, residual (the largest one; null when it was not checked or is not finite), passed and
    reason. ``passed`` is true only when there is a row, every row's residual passed, no test was skipped, and
    the output is complete; else ``reason`` says why. HPL itself exits with 0 whatever its residuals say.
    """
    rows: list[dict[str, Any]] = []
    unread = ""
    for line in text.splitlines():
        found = _ROW.search(line)
        if found:
            rows.append(_row(found))
            continue
        residual = _RESIDUAL.search(line)
        if residual and rows:
            _judge(rows[-1], residual.group(1), residual.group(2))
        elif _BROKEN_ROW.search(line) and not unread:
            unread = line.strip()
    reason = _reason(rows, unread, text)
    if reason:
        reason += _why(text)
    return {"rows": rows, "passed": not reason, "reason": reason}


def parse_dgemm(text: str) -> dict[str, Any]:
    """Read ``DGEMM ranks=R n=N gflops_sum=S gflops_min=L gflops_max=H``: the GFLOPS of R ranks that ran at
    once.

    Raises HplError when the line is missing or holds a rate that is not a positive number.
    """
    found = _DGEMM.search(text)
    if not found:
        raise HplError(f"the output has no DGEMM line{_why(text) or _tail(text)}")
    result: dict[str, Any] = {"ranks": int(found["ranks"]), "n": int(found["n"])}
    for name in ("gflops_sum", "gflops_min", "gflops_max"):
        result[name] = _float(found[name])
        if not (math.isfinite(result[name]) and result[name] > 0):
            raise HplError(f"DGEMM printed {name}={found[name]}: not a rate")
    return result


def _row(found: re.Match[str]) -> dict[str, Any]:
    seconds, gflops = _float(found["seconds"]), _float(found["gflops"])
    sound = math.isfinite(seconds) and math.isfinite(gflops) and seconds >= 0 and gflops > 0
    sound = sound and _agree(int(found["n"]), seconds, gflops)
    return {
        "tv": found["tv"],
        **{name: int(found[name]) for name in ("n", "nb", "p", "q")},
        "seconds": seconds if sound else None,
        "gflops": gflops if sound else None,
        "residual": None,
        "passed": False,
        "reason": "its residual was not checked"
        if sound
        else f"time or GFLOPS cannot be: {found[0].strip():.200}",
    }


def _agree(n: int, seconds: float, gflops: float) -> bool:
    """Tell whether the rate is what N and the time give; in a line that was cut, columns stand for others.

    The time has two decimals, the rate as few as two digits.
    """
    work = flops(n) / 1e9
    return work / (seconds + 0.006) <= 1.05 * gflops and 0.95 * gflops * (seconds - 0.006) <= work


def _judge(row: dict[str, Any], printed: str, verdict: str) -> None:
    """Add one residual line to its row: HPL 2 prints one, HPL 1 three, and each must pass."""
    residual = _float(printed)
    if row["gflops"] is None or (row["reason"] and row["reason"].startswith("residual")):
        return
    if not (math.isfinite(residual) and residual >= 0):
        row.update(residual=None, passed=False, reason=f"residual is {printed}: the solution is not a number")
    elif verdict == "FAILED":
        row.update(
            residual=residual, passed=False, reason=f"residual {printed} is above the threshold: FAILED"
        )
    else:
        row.update(residual=max(residual, row["residual"] or 0.0), passed=True, reason=None)


def _reason(rows: list[dict[str, Any]], unread: str, text: str) -> str:
    """Why the run does not count; empty when it does."""
    counts = {name: sum(int(c) for c in pattern.findall(text)) for name, pattern in _COUNTS.items()}
    for row in rows:
        if not row["passed"] and row["reason"] and "not checked" not in row["reason"]:
            return f"N={row['n']} NB={row['nb']} {row['p']}x{row['q']}: {row['reason']}"
    if unread:
        return f"a result line cannot be read: {unread[:200]}"
    if counts["failed"]:
        return f"{counts['failed']} tests failed their residual check"
    if counts["skipped"]:
        return f"{counts['skipped']} tests were skipped because of illegal input values or lack of memory"
    if not rows and "Final Score:" in text:
        return "no result: this is only what rocHPL shows on the terminal; its results are in HPL.out"
    if not rows:
        return f"no result: HPL printed no result line{'' if _why(text) else _tail(text)}"
    if "End of Tests" not in text or not any(counts.values()):
        return f"the output ends early, after {len(rows)} results: HPL did not finish"
    if not all(row["passed"] for row in rows):
        return "a residual was not checked: the threshold in HPL.dat must be above 0"
    if counts["passed"] != len(rows):
        return f"HPL counts {counts['passed']} passed tests, but {len(rows)} results are in its output"
    return ""


def _why(text: str) -> str:
    """What the output says of the cause, to add to a reason."""
    said = []
    for pattern, words in _CAUSES:
        found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
        if found:
            said.append("; " + words.format(*(" ".join(group.split()) for group in found.groups())))
    return "".join(said)


def _float(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return math.nan


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it ends with: {lines[-1][:200]}" if lines else "; it is empty"
