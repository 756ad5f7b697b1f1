# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How ranks are dealt to nodes that differ, so that each is about as fast, and has about as much memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ._hpl_size import squarer_grid

SPEED_TOLERANCE, MEMORY_TOLERANCE = 1.01, 1.05
"""Nodes whose ranks are this much alike are equal: clocks and free memory are never the same to a digit."""

LEVELS = 8
"""Speeds, and for each of them memory sizes, that are tried for a rank."""

MEMORY_STEP = 2**28
"""Nodes whose memory is the same in these steps of bytes are one kind."""

Worth = Callable[[int, int, float, "float | None", int], "tuple[float, int] | None"]


def unequal(budgets: Sequence[float], rates: Sequence[float | None]) -> bool:
    """Tell whether ranks differ in memory (``budgets`` in bytes a rank) or in speed (``rates`` in GFLOPS)."""
    known = [rate for rate in rates if rate is not None]
    faster = max(known) > SPEED_TOLERANCE * min(known) if known else False
    return faster or max(budgets) > MEMORY_TOLERANCE * min(budgets)


def deal_in_proportion(
    cores: Sequence[int], rates: Sequence[float | None], memory: Sequence[float], worth: Worth
) -> tuple[list[int], list[int]] | None:
    """Return (ranks, threads of a rank) of each node, or None when nothing fits.

    ``cores``, ``rates`` (GFLOPS of a core; taken as equal where one is unknown) and ``memory`` (bytes that a
    plan may use) are by node. A rank is to have a speed u and a memory m: a node of slow cores gives it more
    threads, and gets no more ranks than its cores and its memory carry. The u and m that are tried come from
    the nodes themselves; ``worth(p, q, bytes a rank, GFLOPS of the slowest rank, most ranks of a node)``
    gives the GFLOPS to expect and N, or None where nothing fits; of equals, the fewest threads are taken.
    """
    known = all(rates)
    kinds: dict[tuple[int, float, int], list[int]] = {}
    for at, (count, rate, size) in enumerate(zip(cores, rates, memory)):
        kind = count, round(rate or 1.0, 6) if known else 1.0, int(size / MEMORY_STEP)
        kinds.setdefault(kind, []).append(at)
    least = {kind: min(memory[at] for at in members) for kind, members in kinds.items()}
    best = None
    for speed in _levels(rate * t for count, rate, _size in kinds for t in (1, 2, 4) if t <= count):
        threads = {kind: max(1, math.ceil(speed / kind[1] - 1e-9)) for kind in kinds}
        able = {kind: kind[0] // threads[kind] for kind in kinds}
        for size in _levels(least[kind] / count for kind, count in able.items() if count):
            slots = {kind: min(count, int(least[kind] / size + 1e-9)) for kind, count in able.items()}
            used = [kind for kind, count in slots.items() if count]
            ranks = sum(slots[kind] * len(kinds[kind]) for kind in used)
            if not ranks:
                continue
            p, q = squarer_grid(ranks)
            value = worth(
                p,
                q,
                min(least[kind] / slots[kind] for kind in used),
                min(kind[1] * threads[kind] for kind in used) if known else None,
                max(slots[kind] for kind in used),
            )
            if value is not None and (best is None or _better(value, best[0])):
                best = value, slots, threads, ranks - p * q
    return None if best is None else _by_node(kinds, *best[1:], memory)


def _better(new: tuple[float, int], old: tuple[float, int]) -> bool:
    """Tell whether GFLOPS, or at the same GFLOPS N, are better by more than the estimate is good for."""
    return new[0] > 1.005 * old[0] or (new[0] > 0.999 * old[0] and new[1] > 1.02 * old[1])


def _by_node(
    kinds: dict[tuple[int, float, int], list[int]],
    slots: dict[tuple[int, float, int], int],
    threads: dict[tuple[int, float, int], int],
    spare: int,
    memory: Sequence[float],
) -> tuple[list[int], list[int]]:
    """Spread the kinds over their nodes; those with the tightest memory do without the ``spare`` ranks."""
    count, each = [0] * len(memory), [1] * len(memory)
    for kind, members in kinds.items():
        for at in members:
            count[at], each[at] = slots[kind], threads[kind]
    while spare:
        at = min((a for a in range(len(count)) if count[a]), key=lambda a: (memory[a] / count[a], a))
        count[at] -= 1
        spare -= 1
    return count, each


def _levels(values: Iterable[float]) -> list[float]:
    """At most LEVELS of the distinct ``values``, evenly chosen, with the least and the greatest."""
    distinct = sorted(set(values))
    if len(distinct) <= LEVELS:
        return distinct
    return [distinct[round(step * (len(distinct) - 1) / (LEVELS - 1))] for step in range(LEVELS)]
