# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formulas behind a plan: operations, memory of a rank, process grids, and time on the network."""

from __future__ import annotations

import math
from collections.abc import Callable

DOUBLE = 8
"""Bytes of one matrix element."""

LOOKAHEAD_DEPTH = 1
"""Lookahead depth of a plan; HPL keeps depth + 1 panels at a time."""


def flops(n: int) -> float:
    """Floating point operations that HPL credits a run of order ``n`` with: (2/3)N^3 + (3/2)N^2
    (HPL_pdtest.c).
    """
    return 2.0 / 3.0 * float(n) ** 3 + 1.5 * float(n) ** 2


def rank_bytes(n: int, nb: int, p: int, q: int) -> tuple[int, int]:
    """Bytes of the fullest rank: (its part of the matrix, HPL's panels and buffers).

    The block-cyclic layout gives a rank ceil(blocks / P) block rows and ceil(blocks / Q) block columns at
    most, and one column more for the right-hand side. Each of the depth + 1 panels holds L2 (local rows x
    NB), L1 (NB x NB), the pivots and, when P > 1, U (NB x local columns), as HPL_pdpanel_init allocates them.
    """
    blocks = -(-n // nb)
    rows = -(-blocks // p) * nb
    columns = -(-blocks // q) * nb + 1
    panel = rows * nb + nb * nb + nb + 1 + (nb * columns if p > 1 else 0)
    return DOUBLE * rows * columns, DOUBLE * (LOOKAHEAD_DEPTH + 1) * panel


def rochpl_rank_bytes(n: int, nb: int, p: int, q: int) -> tuple[int, int]:
    """Bytes of rocHPL's fullest rank in the memory of its GPU: (its part of the matrix, panels and
    workspace).

    Two panels of L2, L1 and U, a workspace of max(2 N/P, NB^2), and a second U for the split update, as
    HPL_pdpanel_new.cpp allocates them, without padding (under 1 %).
    """
    blocks = -(-n // nb)
    rows, columns = -(-blocks // p) * nb, -(-blocks // q) * nb
    panels = 2 * (nb * rows + 2 * nb * nb + nb * columns)
    return DOUBLE * rows * columns, DOUBLE * (panels + max(2 * rows, nb * nb) + nb * columns)


def grid(ranks: int) -> tuple[int, int]:
    """P x Q for ``ranks``: the largest divisor that is at most the square root, and what it leaves (P <= Q).

    netlib's HPL FAQ: as square as possible, Q a little larger than P.
    """
    p = math.isqrt(ranks)
    while ranks % p:
        p -= 1
    return p, ranks // p


def squarer_grid(ranks: int) -> tuple[int, int]:
    """P x Q of the most ranks up to ``ranks`` for which Q <= 2 P."""
    p, q = grid(ranks)
    while q > 2 * p:
        ranks -= 1
        p, q = grid(ranks)
    return p, q


def local_grid(p: int, q: int, ranks: int) -> tuple[int, int] | None:
    """The part p x q of a P x Q grid that the ``ranks`` of one node form, or None where there is none.

    rocHPL wants P % p = 0, Q % q = 0 and p q = ranks per node. The widest one is taken, as rocHPL's launcher
    does: then the panel's broadcast, along a row, stays inside the node as far as it can.
    """
    for width in range(min(q, ranks), 0, -1):
        if ranks % width == 0 and q % width == 0 and p % (ranks // width) == 0:
            return ranks // width, width
    return None


def network_seconds(
    n: int, nb: int, p: int, q: int, ranks_per_node: int, mbit: float, latency: float
) -> float:
    """Seconds on the network that no implementation can save, for a node with a link of ``mbit`` Mbit/s.

    Every panel of L has to reach each node that holds another part of its rows, and every panel of U each
    node that holds another part of its columns: N^2/(2P) elements a process row and N^2/(2Q) a process
    column, once per node and not per rank. Rows and columns that lie wholly inside a node cost nothing.
    (Ranks go row by row, so a node holds ``ranks_per_node`` neighbours of a row.) The pivot search adds
    N ((NB + 1) log2 P + P) / NB messages of ``latency`` seconds: netlib's "HPL Scalability Analysis".
    """
    size = float(n)
    row_inside, column_inside = ranks_per_node >= q, ranks_per_node >= p * q
    elements = 0.0 if row_inside else size * size / (2 * p)
    if not column_inside and p > 1:
        elements += min(ranks_per_node, q) * size * size / (2 * q)
    messages = 0.0 if column_inside else size * ((nb + 1) * math.log2(p) + p) / nb
    return DOUBLE * 8 * elements / (mbit * 1e6) + messages * latency


def largest(holds: Callable[[int], bool], most: int | None = None) -> int:
    """The largest count >= 0 (and <= most) for which ``holds`` is true; it must stay false once it is."""
    low, high = 0, 1
    while (most is None or high <= most) and holds(high):
        low, high = high, high * 2
    if most is not None:
        high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
