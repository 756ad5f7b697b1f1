# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order N of a plan: the largest that fits, the largest in a time budget, or a given one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ._hpl_size import largest
from ._hpl_values import HplError, mib


def choose_order(
    size_of: Callable[[int], float],
    budget: float,
    room: str,
    blocks: tuple[int, int, int],
    chosen: Mapping[str, Any],
    seconds_of: Callable[[int], float] | None,
    warnings: list[str],
) -> int:
    """The N of a plan: fixed, the largest in the time budget, or the largest whose rank fits ``budget``.

    ``size_of(n)`` are the bytes of the fullest rank, ``room`` says in words where ``budget`` comes from,
    ``blocks`` is (NB, P, Q), and ``seconds_of(n)`` the expected time (None where unknown).
    """
    nb, p, q = blocks
    unit = nb * math.lcm(p, q) if chosen.get("align") == "grid" else nb
    most = largest(lambda count: size_of(count * unit) <= budget)
    if most == 0:
        raise HplError(
            f"{room}, but even N = {'NB' if unit == nb else f'NB lcm({p}, {q})'} = {unit} needs "
            f"{mib(size_of(unit))} a rank; free memory, lower nb or ranks_per_node, or raise memory_share"
        )
    if "n" in chosen:
        wanted: int = chosen["n"]
        if wanted < unit:
            raise HplError(
                f"N={wanted} is smaller than {'NB' if unit == nb else f'NB lcm({p}, {q})'}={unit}; "
                "raise n or lower nb"
            )
        count = wanted // unit
        if count > most:
            raise HplError(f"N={wanted} does not fit: {room}, which holds N={most * unit} at most")
        if wanted % unit:
            warnings.append(
                f"N={wanted} is no multiple of {'NB' if unit == nb else f'NB lcm({p}, {q})'}={unit}: "
                f"using {count * unit}"
            )
        return count * unit
    if "time_budget_seconds" not in chosen:
        return most * unit
    if seconds_of is None:
        raise HplError("time_budget_seconds needs a rate, but Rpeak is unknown: set gflops_per_core or n")
    seconds = float(chosen["time_budget_seconds"])
    quick = largest(lambda count: seconds_of(count * unit) <= seconds, most)
    if quick == 0:
        raise HplError(
            f"no N of at least {unit} ends in {seconds:g} s: that one takes {seconds_of(unit):.3g} s; "
            "raise time_budget_seconds"
        )
    return quick * unit
