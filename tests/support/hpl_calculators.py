"""What other calculators make of a cluster, by their published formulas.

Each takes (bytes of memory a node, nodes, cores a node) and returns (N, NB, P, Q), None for what it does not
compute. Sources: geerlingguy/top500-benchmark (README and HPL.dat template), Advanced Clustering's "How do I
tune my HPL.dat file?", hmxlabs-hplx 0.4.3, stackhpc/ansible-slurm-appliance role hpctests, the Phoronix Test
Suite's pts/hpl-1.0.0, Ramble's hpl application, redhat-performance/autohpl-wrapper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

GIB = 2**30
Sizes = tuple[int, int, int, int]


def _squarest(ranks: int) -> tuple[int, int]:
    p = max(d for d in range(1, math.isqrt(ranks) + 1) if ranks % d == 0)
    return p, ranks // p


def top500_benchmark(node: int, nodes: int, cores: int) -> Sizes:
    """75 % of the first node's memory in whole GB, times 0.9; not a multiple of its fixed NB."""
    whole = int(node / 2**20 / 1024 * 0.75)
    return int(math.sqrt(whole * GIB * nodes / 8) * 0.9), 256, 1, 4


def advanced_clustering(node: int, nodes: int, cores: int) -> Sizes:
    """80 % of all memory for the matrix, an even number of blocks."""
    blocks = int(math.sqrt(0.8 * node * nodes / 8) / 192) // 2 * 2
    return 192 * blocks, 192, *_squarest(nodes * cores)


def slurm_appliance(node: int, nodes: int, cores: int) -> Sizes:
    """80 % of one node's memory (its default is 30 %), per node."""
    return int(math.sqrt(node * 0.8 / 8) / 192) * 192, 192, *_squarest(cores)


def phoronix(node: int, nodes: int, cores: int) -> Sizes:
    """60 % of one node's memory; NB is 256 less what the ranks leave of it, 0 beyond 256 ranks."""
    nb = 256 - 256 % cores
    return int(math.sqrt(0.6 * node / 8) / nb) * nb if nb else 0, nb, *_squarest(cores)


def ramble(node: int, nodes: int, cores: int) -> Sizes:
    """85 % of all memory, a multiple of NB lcm(P, Q)."""
    p, q = _squarest(nodes * cores)
    unit = 384 * math.lcm(p, q)
    return int(math.sqrt(nodes * node * 0.85 / 8) / unit) * unit, 384, p, q


def hplx(node: int, nodes: int, cores: int) -> Sizes:
    """80 % of one node's memory in thousands; NB is the root of N, between 32 and 256."""
    n = math.isqrt(int(0.8 * node / 8)) // 1000 * 1000
    return n, min(256, max(32, int(math.sqrt(n)))), *_squarest(cores)


CALCULATORS: dict[str, Callable[[int, int, int], Sizes]] = {
    "top500-benchmark": top500_benchmark,
    "Advanced Clustering": advanced_clustering,
    "slurm-appliance (0.8)": slurm_appliance,
    "Phoronix": phoronix,
    "Ramble": ramble,
    "hplx": hplx,
}
SINGLE_NODE = {"slurm-appliance (0.8)", "Phoronix", "hplx"}
"""These size one node, whatever the number of nodes."""

CLUSTERS: tuple[tuple[float, int, int], ...] = (
    (0.4, 1, 4),
    (4, 1, 4),
    (4, 8, 4),
    (8, 4, 4),
    (16, 1, 4),
    (16, 1, 7),
    (64, 1, 16),
    (128, 1, 32),
    (256, 2, 64),
    (512, 4, 128),
    (768, 1, 192),
    (1536, 1, 384),
)
"""(GiB of memory a node, nodes, cores a node)."""

PRINTED: tuple[tuple[str, tuple[float, int, int], tuple[int, ...]], ...] = (
    # what the calculators themselves print for a cluster: N, then NB, P, Q where they say
    ("Advanced Clustering", (384000 / 1024, 1, 36), (200448, 192, 6, 6)),
    ("Advanced Clustering", (384000 / 1024, 2, 36), (283776, 192, 8, 9)),
    ("Advanced Clustering", (384000 / 1024, 4, 36), (401280, 192, 12, 12)),
    ("Advanced Clustering", (384000 / 1024, 8, 36), (567552, 192, 16, 18)),
    ("Advanced Clustering", (4, 8, 4), (58368, 192, 4, 8)),
    ("Advanced Clustering", (8000 / 1024, 4, 4), (57600, 192, 4, 4)),
    ("hplx", (16, 1, 4), (41000, 202, 2, 2)),
)
