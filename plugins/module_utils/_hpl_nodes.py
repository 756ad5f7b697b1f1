# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a plan: the facts of the module hpl_facts, checked, with the rate to expect of a core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_blas import better_kernel
from ._hpl_cpu import hpl_efficiency
from ._hpl_values import HplError, as_count, as_positive

SHARE_OF_DGEMM = 0.90
"""HPL's share of the DGEMM rate of all cores at once: 0.88 to 0.93, measured on the lab
(docs/performance.md).
"""

DOMAINS = ("l3", "numa", "socket")
"""Parts of a node that a rank may be given."""


@dataclass(frozen=True)
class Node:
    """One node, as the planner sees it; None and empty where the facts do not tell."""

    name: str
    address: str
    cores: int | None
    usable_bytes: int
    microarchitecture: str | None
    core_gflops: float | None
    """HPL GFLOPS to expect of one core."""
    rpeak_gflops: float | None
    rpeak_max_gflops: float | None
    domains: Mapping[str, Sequence[int]]
    """Usable cores in each domain, by kind of domain."""
    numa: Sequence[Mapping[str, Any]]
    gpus: Sequence[Mapping[str, Any]]
    mbit: float | None
    link: str | None
    idle_cores: int
    """Cores of the classes that a plan leaves out."""
    core_class: str | None
    cpus: str | None
    """CPUs of the chosen class, where there are several classes."""
    blas: str | None
    kernel: str | None
    dp_flops_per_cycle: int | None
    better_kernel: str | None
    """OpenBLAS kernel to ask for, as it selects a slow one by itself."""
    mpi: tuple[str, str, str] | None
    swap_used_bytes: int
    nofile: int | None
    identity: Mapping[str, Any]


def read_nodes(nodes: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[Node]:
    """Return the nodes sorted by name, so that their order does not matter.

    Raises HplError for an empty list, a name twice, or facts that lack what a plan cannot do without.
    """
    hosts = sorted((_node(entry, options) for entry in nodes), key=lambda host: host.name)
    if not hosts:
        raise HplError("no hosts to plan for: the list of nodes is empty")
    for first, second in zip(hosts, hosts[1:]):
        if first.name == second.name:
            raise HplError(f"the host {first.name} is listed twice")
    return hosts


def _node(entry: Mapping[str, Any], options: Mapping[str, Any]) -> Node:
    name = str(entry["name"]) if isinstance(entry, Mapping) and entry.get("name") else ""
    facts = entry.get("facts") if name else None
    if not name or not isinstance(facts, Mapping):
        raise HplError(f"each node needs a name and the facts of the module hpl_facts, not {entry!r:.200}")
    if not facts.get("memory") or not facts.get("cpu"):
        raise HplError(f"{name}: its facts lack memory or cpu; run the module hpl_facts on it again")
    memory, cpu, blas, network, mpi = (
        _mapping(f"{name}: {part}", facts.get(part)) for part in ("memory", "cpu", "blas", "network", "mpi")
    )
    usable = _count(f"{name}: usable memory in bytes", memory.get("usable_bytes"), 1)
    if usable is None:
        raise HplError(f"{name}: usable memory is unknown; it has neither MemAvailable nor MemFree")
    cores = _count(f"{name}: usable_cores", cpu.get("usable_cores", cpu.get("physical_cores")), 1)
    address = str(entry.get("address") or name)
    limits = [_count(f"{name}: {k}", memory.get(k)) for k in ("limit_bytes", "total_bytes")]
    classes = _mappings(f"{name}: core_classes", cpu.get("core_classes"))
    chosen: Mapping[str, Any] = next((c for c in classes if c.get("chosen")), {})
    numa = _numa(name, cpu.get("numa"))
    gpus = _mappings(f"{name}: gpus", facts.get("gpus"))
    able = _count(f"{name}: dp_flops_per_cycle", cpu.get("dp_flops_per_cycle"))
    library, kernel, cpu_name, machine = (
        _text(f"{name}: {key}", value)
        for key, value in (
            ("blas.library", blas.get("library")),
            ("blas.kernel", blas.get("kernel")),
            ("microarchitecture", cpu.get("microarchitecture")),
            ("machine", facts.get("machine")),
        )
    )
    rpeak, rpeak_max, mbit, measured = (
        _positive(f"{name}: {key}", value)
        for key, value in (
            ("rpeak_gflops", cpu.get("rpeak_gflops")),
            ("rpeak_max_gflops", cpu.get("rpeak_max_gflops")),
            ("network.fastest_mbit", network.get("fastest_mbit")),
            ("dgemm_gflops", entry.get("dgemm_gflops")),
        )
    )
    return Node(
        name=name,
        address=address,
        cores=cores,
        usable_bytes=usable,
        microarchitecture=cpu_name,
        core_gflops=_core_gflops(cores, cpu_name, rpeak, measured, options),
        rpeak_gflops=rpeak,
        rpeak_max_gflops=rpeak_max,
        domains={
            "l3": _counts(f"{name}: cores_per_l3", cpu.get("cores_per_l3")),
            "numa": [node["cores"] for node in numa if node["cores"]],
            "socket": _counts(f"{name}: cores_per_socket", cpu.get("cores_per_socket")),
        },
        numa=numa,
        gpus=[_gpu(name, gpu) for gpu in gpus],
        mbit=mbit,
        link=_text(f"{name}: network.kind", network.get("kind")),
        idle_cores=sum(
            _count(f"{name}: core_classes", c.get("cores")) or 0 for c in classes if not c.get("chosen")
        ),
        core_class=_text(f"{name}: core_classes", chosen.get("name")),
        cpus=_text(f"{name}: core_classes", chosen.get("cpus")) if len(classes) > 1 else None,
        blas=library,
        kernel=kernel,
        dp_flops_per_cycle=able,
        better_kernel=better_kernel(library, kernel, able, machine),
        mpi=(str(mpi.get("family")), str(mpi.get("version")), str(mpi.get("path"))) if mpi else None,
        swap_used_bytes=_count(f"{name}: swap_used_bytes", facts.get("swap_used_bytes")) or 0,
        nofile=_count(f"{name}: nofile", facts.get("nofile")),
        identity={
            "name": name,
            "address": address,
            "memory": min((limit for limit in limits if limit is not None), default=None),
            "cores": cores,
            "model": _text(f"{name}: model", cpu.get("model")),
            "gpus": len(gpus),
        },
    )


def _numa(name: str, value: Any) -> list[dict[str, Any]]:
    return [
        {
            "node": _count(f"{name}: numa node", node.get("node")),
            "cores": _count(f"{name}: cores of a numa node", node.get("cores")) or 0,
            "memory_bytes": _count(f"{name}: memory_bytes of a numa node", node.get("memory_bytes")),
        }
        for node in _mappings(f"{name}: numa", value)
    ]


def _gpu(name: str, gpu: Mapping[str, Any]) -> dict[str, Any]:
    texts = {key: _text(f"{name}: {key} of a GPU", gpu.get(key)) for key in ("vendor", "name", "target")}
    counts = {
        key: _count(f"{name}: {key} of a GPU", gpu.get(key))
        for key in ("memory_bytes", "numa_node", "compute_units")
    }
    return {**texts, **counts}


def _mapping(label: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise HplError(f"{label} must be a dictionary, not {value!r:.80}; record the facts again")
    return value


def _sequence(label: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise HplError(f"{label} must be a list, not {value!r:.80}; record the facts again")
    return value


def _mappings(label: str, value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(label, item) for item in _sequence(label, value)]


def _counts(label: str, value: Any) -> list[int]:
    return [as_count(label, item, 0) for item in _sequence(label, value)]


def _count(label: str, value: Any, least: int = 0) -> int | None:
    return None if value is None else as_count(label, value, least)


def _positive(label: str, value: Any) -> float | None:
    return None if value is None else as_positive(label, value)


def _text(label: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise HplError(f"{label} must be text, not {value!r:.80}; record the facts again")
    return value


def _core_gflops(
    cores: int | None,
    microarchitecture: str | None,
    rpeak: float | None,
    measured: float | None,
    options: Mapping[str, Any],
) -> float | None:
    """HPL GFLOPS of a core: as asked for, else from a measured DGEMM rate, else from Rpeak."""
    if "gflops_per_core" in options:
        return float(options["gflops_per_core"])
    if not cores:
        return None
    if measured is not None:
        return measured * SHARE_OF_DGEMM / cores
    share = float(options.get("efficiency") or hpl_efficiency(microarchitecture))
    return rpeak * share / cores if rpeak else None


def some(names: Sequence[str]) -> str:
    """``a has``, ``a and b have``, ``a, b and 7 others have``."""
    if len(names) == 1:
        return f"{names[0]} has"
    if len(names) <= 3:
        return f"{', '.join(names[:-1])} and {names[-1]} have"
    return f"{', '.join(names[:2])} and {len(names) - 2} others have"
