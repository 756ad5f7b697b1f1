# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HPL.dat: written from a plan, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._hpl import LOOKAHEAD_DEPTH
from ._hpl_values import HplError, as_count, as_number

MAX_VALUES = 20
"""HPL_MAX_PARAM: HPL takes no more values of one parameter than this."""


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
_LISTS = frozenset(line.key for line in _LAYOUT if line.counter) | {"q"}

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


def hpl_dat(plan: Mapping[str, Any]) -> str:
    """Return the HPL.dat of ``plan``: its N, NB, P and Q, and HPL's usual algorithm (1rM broadcast, lookahead
    1).

    Raises HplError when the plan lacks one of the four.
    """
    missing = [key for key in ("n", "nb", "p", "q") if not isinstance(plan, Mapping) or plan.get(key) is None]
    if missing:
        raise HplError(f"not a plan: it has no {', '.join(missing)}")
    return render({**_DEFAULTS, **{key: [plan[key]] for key in ("n", "nb", "p", "q")}})


def render(parameters: Mapping[str, Any]) -> str:
    """Return the HPL.dat that holds ``parameters``, as parse_hpl_dat returns them.

    Raises HplError for a missing parameter, a value HPL refuses, more than 20 values, or unequal numbers of P
    and Q.
    """
    name = str(parameters.get("output_file", ""))
    if not name or name.split() != [name]:
        raise HplError(f"output_file must be a file name without blanks, not {name!r}")
    lines = ["HPLinpack benchmark input file", "nodesmith.cluster", f"{name:<12} output file name (if any)"]
    for line in _LAYOUT:
        values = _checked(line, parameters.get(line.key))
        if line.key == "q" and len(values) != len(parameters["p"]):
            raise HplError(f"{len(parameters['p'])} values of P but {len(values)} of Q")
        if line.counter:
            lines.append(f"{len(values):<12} {line.counter}")
        lines.append(f"{' '.join(str(value) for value in values):<12} {line.description}")
    return "\n".join(lines) + "\n"


def parse_hpl_dat(text: str) -> dict[str, Any]:
    """Read an HPL.dat (or the part of an hpccinf.txt that HPL reads).

    Returns output_file (str), lists of integers n, nb, p, q, pfact, nbmin, ndiv, rfact, bcast and depth, the
    float threshold, and the integers device_out, pmap, swap, swap_threshold, l1, u, equilibration and
    alignment. As in HPL, what follows the values on a line, and the lines after the last one, are comments.

    Raises HplError with the line number when a value is missing or HPL would refuse it.
    """
    lines = text.splitlines()
    names = lines[2].split() if len(lines) > 2 else []
    if not names:
        raise HplError("HPL.dat line 3: the output file name is missing")
    result: dict[str, Any] = {"output_file": names[0]}
    at = 3
    count = 1
    for line in _LAYOUT:
        if line.counter:
            count = _count(line, lines, at)
            at += 1
        elif line.key not in _LISTS:
            count = 1
        tokens = lines[at].split()[:count] if at < len(lines) else []
        if len(tokens) < count:
            raise HplError(
                f"HPL.dat line {at + 1}: {count} values of {line.description} expected, {len(tokens)} found"
            )
        try:
            values = _checked(line, tokens if line.key in _LISTS else tokens[0])
        except HplError as error:
            raise HplError(f"HPL.dat line {at + 1}: {error}") from None
        result[line.key] = values if line.key in _LISTS else values[0]
        at += 1
    return result


def _count(line: _Line, lines: list[str], at: int) -> int:
    tokens = lines[at].split() if at < len(lines) else []
    try:
        count = as_count(line.counter or "", tokens[0] if tokens else None)
    except HplError as error:
        raise HplError(f"HPL.dat line {at + 1}: {error}") from None
    if count > MAX_VALUES:
        raise HplError(
            f"HPL.dat line {at + 1}: {count} values of {line.description}; HPL takes {MAX_VALUES} at most"
        )
    return count


def _checked(line: _Line, value: Any) -> list[Any]:
    """The values of one line, as HPL would take them."""
    if line.key == "threshold":
        return [as_number("threshold", value)]
    values = list(value) if line.key in _LISTS and isinstance(value, (list, tuple)) else [value]
    if not 1 <= len(values) <= MAX_VALUES:
        raise HplError(f"{line.key} has {len(values)} values; HPL takes 1 to {MAX_VALUES}")
    checked = [as_count(line.key, entry, line.least) for entry in values]
    if max(checked) > line.most:
        raise HplError(f"{line.key} must be at most {line.most}, not {max(checked)}")
    return checked
