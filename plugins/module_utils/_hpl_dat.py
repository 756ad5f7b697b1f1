# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPL.dat: written from plans, and read back as HPL's own reader reads it.

Five dialects are known. Their first 31 lines are the same (HPL_pdinfo.c of HPL 2.0 to 2.3):

- ``netlib``: these lines, and nothing more.
- ``hpcc``: hpccinf.txt. Line 32 is ignored, lines 33 to 36 hold further sizes and block sizes for PTRANS.
  hpcc always writes hpccoutf.txt, whatever the output file and device are, and stops at a threshold of 0 or
  less (io.c of hpcc 1.5).
- ``intel``: oneMKL's. Its xhpl takes -n, -b, -p, -q and, for unlike nodes, -f and -c on the command line, and
  then wants column-major mapping (oneMKL Developer Guide). It adds nothing to the file.
- ``nvidia``: NVIDIA's HPC-Benchmarks. It prints that it ignores pfact, bcast, depth, l1, u, equilibration and
  alignment.
- ``rochpl``: AMD's rocHPL reads the file only with -i, or when it is given no size at all, and needs depth 1,
  swap 1, u 0 and equilibration 0 (its HPL_pdinfo.cpp). How the update is split and the grid within a node are
  options of its command line (-f, -p, -q), not lines of the file.

AMD's Zen HPL reads the netlib dialect too. Its own additions (several three-digit values of SWAP, and MXSWP
in line 32, says its README) are not written; when read, the first are refused and the second is a comment.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_size import LOOKAHEAD_DEPTH
from ._hpl_values import HplError, as_count, as_number

MAX_VALUES = 20
"""HPL_MAX_PARAM: HPL takes no more values of one parameter than this."""

_LINE_LENGTH = 252
"""Bytes of a line without its end: HPL reads with fgets(line, HPL_LINE_MAX - 2), HPL_LINE_MAX being 256."""

_MARKS: Mapping[str, str] = {"intel": "Intel", "nvidia": "NVIDIA", "rochpl": "rocHPL"}
"""Dialects without lines of their own, by the name that stands in one of the two free lines."""

DIALECTS = ("netlib", "hpcc", *_MARKS)


@dataclass(frozen=True)
class _Line:
    """One line of values in HPL.dat: the key in the parameters, its description, and what it may hold.

    ``counter`` describes the line before it that says how many values follow; without one the line holds one
    value.
    """

    key: str
    description: str
    counter: str | None = None
    least: int = 1
    most: int = 2**31 - 1


# The order of HPL_pdinfo.c, HPL 2.0 to 2.3. P and Q share one counter.
_LAYOUT = (
    _Line("device_out", "device out (6=stdout,7=stderr,file)", least=0),
    _Line("n", "Ns", "# of problems sizes (N)", least=0),
    _Line("nb", "NBs", "# of NBs"),
    _Line("pmap", "PMAP process mapping (0=Row-,1=Column-major)", least=0, most=1),
    _Line("p", "Ps", "# of process grids (P x Q)"),
    _Line("q", "Qs"),
    _Line("threshold", "threshold"),
    _Line("pfact", "PFACTs (0=left, 1=Crout, 2=Right)", "# of panel fact", 0, 2),
    _Line("nbmin", "NBMINs (>= 1)", "# of recursive stopping criterium"),
    _Line("ndiv", "NDIVs", "# of panels in recursion", least=2),
    _Line("rfact", "RFACTs (0=left, 1=Crout, 2=Right)", "# of recursive panel fact.", 0, 2),
    _Line("bcast", "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)", "# of broadcast", 0, 5),
    _Line("depth", "DEPTHs (>=0)", "# of lookahead depth", least=0),
    _Line("swap", "SWAP (0=bin-exch,1=long,2=mix)", least=0, most=2),
    _Line("swap_threshold", "swapping threshold", least=0),
    _Line("l1", "L1 in (0=transposed,1=no-transposed) form", least=0, most=1),
    _Line("u", "U  in (0=transposed,1=no-transposed) form", least=0, most=1),
    _Line("equilibration", "Equilibration (0=no,1=yes)", least=0, most=1),
    _Line("alignment", "memory alignment in double (> 0)"),
)
_PTRANS = (
    _Line("ptrans_n", "values of N", "number of additional problem sizes for PTRANS"),
    _Line("ptrans_nb", "values of NB", "number of additional blocking sizes for PTRANS"),
)
_LISTS = frozenset(line.key for line in (*_LAYOUT, *_PTRANS) if line.counter) | {"q"}
_SIZES = ("n", "nb", "p", "q")

_DEFAULTS: Mapping[str, Any] = {
    "output_file": "HPL.out",
    "device_out": 6,
    "pmap": 0,
    "threshold": 16.0,
    "pfact": [2],
    "nbmin": [4],
    "ndiv": [2],
    "rfact": [1],
    "bcast": [1],
    "depth": [LOOKAHEAD_DEPTH],
    "swap": 2,
    "swap_threshold": 64,
    "l1": 0,
    "u": 0,
    "equilibration": 1,
    "alignment": 8,
}
_ROCHPL_NEEDS: Mapping[str, Any] = {"depth": [1], "swap": 1, "u": 0, "equilibration": 0}
# rocHPL's scripts/HPL.dat
_ROCHPL_DEFAULTS: Mapping[str, Any] = {"pmap": 1, "nbmin": [32], "rfact": [2], "bcast": [0], **_ROCHPL_NEEDS}


def hpl_dat(plans: Mapping[str, Any] | Sequence[Mapping[str, Any]], dialect: str | None = None) -> str:
    """Return the HPL.dat of one plan, or of a list of plans that HPL runs one after the other.

    A plan gives n, nb, p and q; its optional ``dat`` replaces other parameters, by the keys that
    parse_hpl_dat() returns. The rest is HPL's usual algorithm (1rM broadcast, lookahead 1), or rocHPL's.
    HPL runs, grid by grid, every N with every NB: a list must hold each of these combinations once.
    ``dialect`` is one of DIALECTS; by default ``rochpl`` for plans of the device ``gpu``, else ``netlib``.

    Raises HplError when a plan lacks one of the four, for an unknown key or dialect, for a value that HPL
    refuses, and for a list that is not every combination of its sizes or has plans with different parameters.
    """
    listed = [plans] if isinstance(plans, Mapping) else plans
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise HplError(f"a plan or a list of plans is needed, not {plans!r:.80}")
    first = listed[0]
    for plan in listed:
        missing = [key for key in _SIZES if not isinstance(plan, Mapping) or plan.get(key) is None]
        if missing:
            raise HplError(f"not a plan: it has no {', '.join(missing)}")
        for key in ("dat", "device"):
            if plan.get(key) != first.get(key):
                raise HplError(
                    f"the plans differ in {key}: {first.get(key)!r:.80} and {plan.get(key)!r:.80}; "
                    "write an HPL.dat for each"
                )
    if dialect is None:
        dialect = "rochpl" if first.get("device") == "gpu" else "netlib"
    changed = first.get("dat") or {}
    known = [*_DEFAULTS, *(line.key for line in _PTRANS if dialect == "hpcc")]
    unknown = sorted(map(str, set(changed) - set(known))) if isinstance(changed, Mapping) else [repr(changed)]
    if unknown:
        raise HplError(f"unknown in dat: {', '.join(unknown)}; known are {', '.join(known)}")
    usual = {**_DEFAULTS, **(_ROCHPL_DEFAULTS if dialect == "rochpl" else {})}
    return render({**usual, **changed, **_sweep(listed), "dialect": dialect})


def _sweep(plans: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The lists of N, NB, P and Q that make HPL run ``plans``, or HplError when no lists do."""
    combinations = Counter(
        (
            as_count("n", plan["n"], 0),
            as_count("nb", plan["nb"]),
            as_count("p", plan["p"]),
            as_count("q", plan["q"]),
        )
        for plan in plans
    )
    ns = list(dict.fromkeys(n for n, _nb, _p, _q in combinations))
    nbs = list(dict.fromkeys(nb for _n, nb, _p, _q in combinations))
    grids = list(dict.fromkeys((p, q) for _n, _nb, p, q in combinations))
    for n, nb, (p, q) in itertools.product(ns, nbs, grids):
        times = combinations[n, nb, p, q]
        if times != 1:
            raise HplError(
                f"HPL runs every N with every NB on every grid once, but N={n} NB={nb} {p}x{q} is "
                f"{f'{times} times' if times else 'not'} among the plans; "
                "list every combination once, or write an HPL.dat for each plan"
            )
    return {"n": ns, "nb": nbs, "p": [p for p, _q in grids], "q": [q for _p, q in grids]}


def render(parameters: Mapping[str, Any]) -> str:
    """Return the HPL.dat that holds ``parameters``, as parse_hpl_dat returns them.

    Raises HplError for a missing parameter, an unknown dialect, a value that HPL or the dialect refuses, more
    than 20 values, or unequal numbers of P and Q.
    """
    dialect = parameters.get("dialect", "netlib")
    if dialect not in DIALECTS:
        raise HplError(f"no dialect {dialect!r:.40} of HPL.dat; known are {', '.join(DIALECTS)}")
    name = str(parameters.get("output_file", ""))
    if not re.fullmatch(r"[!-~]{1,200}", name):
        raise HplError(f"output_file must be 1 to 200 ASCII characters without blanks, not {name!r:.80}")
    lines = [
        "HPLinpack benchmark input file",
        f"nodesmith.cluster {_MARKS.get(dialect, '')}".strip(),
        f"{name:<12} output file name (if any)",
    ]
    for line in _LAYOUT:
        values = _checked(line, parameters.get(line.key))
        if line.key == "q" and len(values) != len(_checked(line, parameters["p"])):
            raise HplError(f"{len(parameters['p'])} values of P but {len(values)} of Q")
        lines += _written(line, values)
    _check_dialect(dialect, parameters)
    if dialect == "hpcc":
        lines.append("##### hpcc ignores this line #####")
        for line in _PTRANS:
            lines += _written(line, _checked(line, parameters.get(line.key) or [], least_values=0))
    return "\n".join(lines) + "\n"


def _written(line: _Line, values: Sequence[Any]) -> list[str]:
    counter = [f"{len(values):<12} {line.counter}"] if line.counter else []
    return [*counter, f"{' '.join(str(value) for value in values):<12} {line.description}"]


def _check_dialect(dialect: str, parameters: Mapping[str, Any]) -> None:
    """Refuse what netlib's HPL accepts but this dialect's does not."""
    if dialect == "hpcc" and as_number("threshold", parameters["threshold"]) <= 0:
        raise HplError(f"hpcc needs a threshold above 0, not {parameters['threshold']!r:.40}")
    for line in _LAYOUT if dialect == "rochpl" else ():
        needed = _ROCHPL_NEEDS.get(line.key)
        if needed is not None and set(_checked(line, parameters[line.key])) != set(_checked(line, needed)):
            raise HplError(f"rocHPL needs {line.key} {needed}, not {parameters[line.key]!r:.80}")


def parse_hpl_dat(text: str) -> dict[str, Any]:
    """Read an HPL.dat or an hpccinf.txt.

    Returns dialect, output_file (str), lists of integers n, nb, p, q, pfact, nbmin, ndiv, rfact, bcast and
    depth, the float threshold, and the integers device_out, pmap, swap, swap_threshold, l1, u, equilibration
    and alignment; of an hpccinf.txt also the lists ptrans_n and ptrans_nb. The dialect is ``hpcc`` where
    lines for PTRANS follow, else the one that the two free lines name, else ``netlib``.

    As in HPL, what follows the values on a line, and the lines after the last one, are comments; neither has
    to be there. HPL looks for a value one character behind the end of the one before it, so leading and
    doubled blanks make it read the tail of a number again: hpcc runs ``   100 200`` as 100 and 0.

    Raises HplError with the line number when a value is missing, when HPL would refuse it or take another
    one in its place, and when HPL would not read what is written.
    """
    lines = text.split("\n")  # only this ends a line for fgets
    if "\0" in text:
        raise HplError(
            f"HPL.dat line {text[: text.index(chr(0))].count(chr(10)) + 1}: it holds a NUL character"
        )
    names = _tokens(lines[2]) if len(lines) > 2 else []
    if not names:
        raise HplError("HPL.dat line 3: the output file name is missing")
    result: dict[str, Any] = {"output_file": names[0]}
    at = _parse_lines(_LAYOUT, lines, 3, result)
    for number, line in enumerate(lines[:at]):
        if len(line.encode(errors="replace")) > _LINE_LENGTH:
            raise HplError(
                f"HPL.dat line {number + 1} is longer than {_LINE_LENGTH} bytes, and HPL takes the rest for "
                "its next line: shorten it"
            )
    free = " ".join(lines[:2]).lower()
    marked = [dialect for dialect, mark in _MARKS.items() if mark.lower() in free]
    dialect = marked[0] if marked else "netlib"
    if any("ptrans" in line.lower() for line in lines[at + 1 :]):
        dialect = "hpcc"
        _parse_lines(_PTRANS, lines, at + 1, result)
    _check_dialect(dialect, result)
    return {"dialect": dialect, **result}


def _parse_lines(layout: Sequence[_Line], lines: Sequence[str], at: int, result: dict[str, Any]) -> int:
    """Read the lines of ``layout`` from index ``at`` on into ``result``; return the index behind them."""
    count = 1
    for line in layout:
        if line.counter:
            count = _count(line, lines, at)
            at += 1
        elif line.key not in _LISTS:
            count = 1
        try:
            tokens = _values(line, lines[at] if at < len(lines) else "", count)
            values = _checked(line, tokens if line.key in _LISTS else tokens[0], least_values=0)
        except HplError as error:
            raise HplError(f"HPL.dat line {at + 1}: {error}") from None
        result[line.key] = values if line.key in _LISTS else values[0]
        at += 1
    return at


def _count(line: _Line, lines: Sequence[str], at: int) -> int:
    name = line.counter or ""
    tokens = _tokens(lines[at]) if at < len(lines) else []
    try:
        count = as_count(name, _number(name, tokens[0]) if tokens else None, 0 if line in _PTRANS else 1)
    except HplError as error:
        raise HplError(f"HPL.dat line {at + 1}: {error}") from None
    if count > MAX_VALUES:
        raise HplError(
            f"HPL.dat line {at + 1}: {count} values of {line.description}; HPL takes {MAX_VALUES} at most"
        )
    return count


def _values(line: _Line, text: str, count: int) -> list[str]:
    """The first ``count`` numbers of a line, which HPL must read as they stand there."""
    tokens = _tokens(text)[:count]
    if len(tokens) < count:
        raise HplError(f"{count} values of {line.description} expected, {len(tokens)} found")
    at = 0
    for token in tokens if line not in _PTRANS else ():
        # sscanf skips blanks, but HPL moves on by the length of the value and one
        found = _tokens(text[at:])[:1]
        if found != [token]:
            raise HplError(
                f"HPL reads {found[0] if found else 'nothing'!r} where {token!r} is meant: write the values "
                "from the start of the line, with one blank between them"
            )
        at += len(token) + 1
    return [_number(line.key, token) for token in tokens]


def _tokens(text: str) -> list[str]:
    """What sscanf's %s would find: C's blanks separate, not Unicode's."""
    return re.findall(r"[^ \t\v\f\r\n]+", text)


def _number(name: str, token: str) -> str:
    """The number that atoi (atof for the threshold) takes from the start of ``token``."""
    pattern = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?" if name == "threshold" else r"[+-]?\d+"
    found = re.match(pattern, token, re.ASCII)
    if not found:
        raise HplError(f"{name} must be a number, not {token!r:.80}")
    # 16.0d0, 8.0 and 6device are what they seem to be, while 1e5 is 1 and 1.6d1 is 1.6 to HPL
    if re.search(r"[1-9]", token[found.end() :]):
        raise HplError(f"HPL takes {found.group()} from {token!r:.80}: write {name} in plain digits")
    return found.group()


def _checked(line: _Line, value: Any, least_values: int = 1) -> list[Any]:
    """The values of one line, as HPL would take them."""
    if line.key == "threshold":
        return [as_number("threshold", value)]
    values = list(value) if line.key in _LISTS and isinstance(value, (list, tuple)) else [value]
    if not least_values <= len(values) <= MAX_VALUES:
        raise HplError(f"{line.key} has {len(values)} values; HPL takes {least_values} to {MAX_VALUES}")
    checked = [as_count(line.key, entry, line.least) for entry in values]
    if max(checked, default=0) > line.most:
        raise HplError(f"{line.key} must be at most {line.most}, not {max(checked)}")
    return checked
