# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of a rocHPL run on AMD GPUs: one rank a GPU (a GCD, where a card has two)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_gpus import fp64_tflops, rochpl_nb
from ._hpl_nodes import Node
from ._hpl_order import choose_order
from ._hpl_size import DOUBLE, flops, grid, local_grid, rochpl_rank_bytes
from ._hpl_values import HplError, gib

MEMORY_SHARE = 0.98
"""Share of a GPU's memory that a plan fills: matrix, panels and workspace.

Nothing else runs there and nothing can page, so the sizes that AMD publishes for rocHPL fill 97 to 100 % by
the same count; with 98 % every one of them is met within 2 % (tests/unit/hpl/test_rochpl.py).
"""

EFFICIENCY = 0.42
"""rocHPL's share of the FP64 matrix peak: AMD publishes 161.97 TFLOPS for four MI250X of 95.7 TFLOPS each."""

DEFAULT_NB = 384
"""NB of rocHPL where none is given."""

UNIFIED = ("MI300A",)
"""Models whose memory is the host's too: what the system uses is not there for the GPUs."""

IGNORED = ("layout", "heterogeneous", "gflops_per_core")


@dataclass(frozen=True)
class _Gpus:
    """The GPUs of one node that the plan uses; memory_bytes is that of the smallest."""

    node: Node
    gpus: Sequence[Mapping[str, Any]]
    memory_bytes: int
    threads: int

    @property
    def ranks(self) -> int:
        return len(self.gpus)


def rochpl_plan(hosts: Sequence[Node], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Size a rocHPL run: the keys of _hpl.plan() (but key), and local_p and local_q.

    Memory figures of ``hosts`` and rank_bytes are of the GPUs; host memory is checked for the panels that
    rocHPL 6 keeps there. The threads of a rank, which factor panels in rocHPL 6, are the cores of the GPU's
    NUMA node divided by its GPUs.

    Raises HplError when a node has no AMD GPU, or when no run is possible.
    """
    for name in IGNORED:
        if name in chosen and chosen[name] != "weakest":
            raise HplError(f"{name} is for CPU plans: with device=gpu a rank is a GPU; leave it out")
    warnings: list[str] = []
    nodes = [_gpus(host, chosen, warnings) for host in hosts]
    ranks = sum(node.ranks for node in nodes)
    p, q = _grid(ranks, nodes, chosen)
    local = local_grid(p, q, nodes[0].ranks) if len({node.ranks for node in nodes}) == 1 else None
    if local is None:
        raise HplError(
            f"rocHPL needs P x Q = {p} x {q} to divide into equal parts for the nodes, whose ranks are "
            f"{sorted({node.ranks for node in nodes})}; set ranks_per_node, p and q"
        )
    nb, nb_source = _block_size(nodes, chosen, warnings)
    share = float(chosen.get("memory_share", MEMORY_SHARE))
    rpeak = _rpeak(nodes, warnings)
    gflops = None if rpeak is None else rpeak * float(chosen.get("efficiency", EFFICIENCY))
    smallest = min(nodes, key=lambda node: (node.memory_bytes, node.node.name))
    n = choose_order(
        lambda n: sum(rochpl_rank_bytes(n, nb, p, q)),
        share * smallest.memory_bytes,
        f"a GPU of {smallest.node.name} has {gib(share * smallest.memory_bytes)} "
        f"({share:.0%} of {gib(smallest.memory_bytes)})",
        (nb, p, q),
        chosen,
        None if gflops is None else lambda n: flops(n) / gflops / 1e9,
        warnings,
    )
    matrix, panels = rochpl_rank_bytes(n, nb, p, q)
    _check_host_memory(nodes, n, nb, p)
    per_rank = matrix + panels
    return {
        "device": "gpu",
        "n": n,
        "nb": nb,
        "nb_source": nb_source,
        "p": p,
        "q": q,
        "local_p": local[0],
        "local_q": local[1],
        "ranks": ranks,
        "threads_per_rank": min(node.threads for node in nodes),
        "layout": "gpu",
        "binding": "each rank to one GPU and the cores of its NUMA node",
        "hosts": [
            {
                "name": node.node.name,
                "address": node.node.address,
                "slots": node.ranks,
                "threads": min(other.threads for other in nodes),
                "memory_bytes": node.ranks * node.memory_bytes,
                "planned_bytes": node.ranks * per_rank,
                "matrix_bytes": node.ranks * matrix,
            }
            for node in nodes
        ],
        "rank_bytes": {"matrix": matrix, "panels": panels, "runtime": 0},
        "matrix_bytes": DOUBLE * n * n,
        "memory_usable_bytes": sum(node.ranks * node.memory_bytes for node in nodes),
        "memory_share": round(per_rank / smallest.memory_bytes, 4),
        "flops": flops(n),
        "expected_gflops": None if gflops is None else round(gflops, 3),
        "expected_seconds": None if gflops is None else round(flops(n) / gflops / 1e9, 1),
        "network_seconds": None,
        "rpeak_gflops": rpeak,
        "rpeak_max_gflops": rpeak,
        "heterogeneous": None,
        "mpi": None,
        "warnings": warnings,
    }


def _gpus(host: Node, chosen: Mapping[str, Any], warnings: list[str]) -> _Gpus:
    amd = [gpu for gpu in host.gpus if gpu.get("vendor") == "amd"]
    if not amd:
        found = f"; it has {len(host.gpus)} of another maker" if host.gpus else ""
        raise HplError(f"{host.name} has no AMD GPU{found}: rocHPL needs one; plan it with device=cpu")
    ranks = chosen.get("ranks_per_node", len(amd))
    if ranks > len(amd):
        raise HplError(f"{host.name} has {len(amd)} GPUs, too few for {ranks} ranks; lower ranks_per_node")
    used = amd[:ranks]
    sizes = [gpu["memory_bytes"] for gpu in used if gpu.get("memory_bytes")]
    if len(sizes) < ranks:
        raise HplError(f"{host.name}: the memory of a GPU is unknown; is the driver amdgpu loaded?")
    if max(sizes) != min(sizes):
        warnings.append(f"{host.name} has GPUs of {gib(min(sizes))} and {gib(max(sizes))}: the smaller bind")
    if any(gpu.get("name") in UNIFIED for gpu in used):
        sizes = [min(*sizes, host.usable_bytes // ranks)]
    return _Gpus(host, used, min(sizes), chosen.get("threads_per_rank") or _threads(host, used))


def _threads(host: Node, gpus: Sequence[Mapping[str, Any]]) -> int:
    """Cores of the NUMA node of a GPU, divided by its GPUs; the least over all of them."""
    cores: dict[Any, int] = {node["node"]: node["cores"] for node in host.numa}
    where = [gpu.get("numa_node") for gpu in gpus]
    if where and all(cores.get(node) for node in where):
        return max(1, min(cores[node] // where.count(node) for node in where))
    return max(1, (host.cores or 1) // len(gpus))


def _grid(ranks: int, nodes: Sequence[_Gpus], chosen: Mapping[str, Any]) -> tuple[int, int]:
    p, q = chosen.get("p"), chosen.get("q")
    if p is None and q is None:
        squarest, per_node = grid(ranks)[0], nodes[0].ranks
        fitting = (
            rows
            for rows in range(squarest, 0, -1)
            if ranks % rows == 0 and local_grid(rows, ranks // rows, per_node)
        )
        p = next(fitting, squarest)
        return p, ranks // p
    p, q = p or ranks // (q or 1), q or ranks // (p or 1)
    if p * q != ranks:
        raise HplError(
            f"p x q = {p} x {q} = {p * q} processes, but the nodes have {ranks} GPUs to plan; "
            "change p and q, or set ranks_per_node"
        )
    return p, q


def _block_size(nodes: Sequence[_Gpus], chosen: Mapping[str, Any], warnings: list[str]) -> tuple[int, str]:
    if "nb" in chosen:
        return chosen["nb"], "given"
    found = {rochpl_nb(gpu) for node in nodes for gpu in node.gpus}
    known = sorted((nb, source) for nb, source in found if nb)
    nb, source = known[0] if known else (DEFAULT_NB, "rocHPL's own default")
    if len({nb for nb, _source in found}) > 1 or not known:
        warnings.append(f"no one recommended NB for these GPUs: using {nb} ({source}); try others with nb")
    return nb, source


def _rpeak(nodes: Sequence[_Gpus], warnings: list[str]) -> float | None:
    """FP64 GFLOPS of all GPUs; the slowest sets the pace, as each has the same share of the matrix."""
    rates = [(fp64_tflops(gpu), node.node.name) for node in nodes for gpu in node.gpus]
    silent = sorted({f"{name}: {source}" for (rate, source), name in rates if not rate})
    if silent:
        warnings.append(f"Rpeak is unknown: {'; '.join(silent[:3])}")
        return None
    known = [rate for (rate, _source), _name in rates if rate]
    if max(known) > 1.01 * min(known):
        warnings.append(f"GPUs of {min(known):g} and {max(known):g} TFLOPS: the slower set the pace")
    return round(1000.0 * len(known) * min(known), 3)


def _check_host_memory(nodes: Sequence[_Gpus], n: int, nb: int, p: int) -> None:
    """rocHPL 6 factors panels on the host, where a rank keeps up to two of N/P x NB; 7 does so on the GPU."""
    blocks = -(-n // nb)
    rows = -(-blocks // p) * nb
    for node in nodes:
        needed = node.ranks * 2 * DOUBLE * rows * nb
        if needed > node.node.usable_bytes:
            raise HplError(
                f"{node.node.name} has {gib(node.node.usable_bytes)} of host memory for the {gib(needed)} of "
                f"panels that {node.ranks} ranks keep there; lower n or nb, or free memory"
            )
