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
    memory, cpu = facts.get("memory"), facts.get("cpu")
    if not isinstance(memory, Mapping) or not isinstance(cpu, Mapping):
        raise HplError(f"{name}: its facts lack memory or cpu; run the module hpl_facts on it again")
    usable = memory.get("usable_bytes")
    if usable is None:
        raise HplError(f"{name}: usable memory is unknown; it has neither MemAvailable nor MemFree")
    count = cpu.get("usable_cores", cpu.get("physical_cores"))
    cores = None if count is None else as_count(f"{name}: usable_cores", count)
    address = str(entry.get("address") or name)
    limits = [memory[k] for k in ("limit_bytes", "total_bytes") if memory.get(k) is not None]
    classes = cpu.get("core_classes") or []
    chosen: Mapping[str, Any] = next((c for c in classes if c.get("chosen")), {})
    blas, mpi = facts.get("blas") or {}, facts.get("mpi")
    network = facts.get("network") or {}
    able, library, kernel = cpu.get("dp_flops_per_cycle"), blas.get("library"), blas.get("kernel")
    better = better_kernel(library, kernel, able, facts.get("machine"))
    measured = entry.get("dgemm_gflops", facts.get("dgemm_gflops"))
    numa = cpu.get("numa") or ()
    return Node(
        name=name,
        address=address,
        cores=cores,
        usable_bytes=as_count(f"{name}: usable memory in bytes", usable),
        microarchitecture=cpu.get("microarchitecture"),
        core_gflops=_core_gflops(name, cores, cpu, measured, options),
        rpeak_gflops=cpu.get("rpeak_gflops"),
        rpeak_max_gflops=cpu.get("rpeak_max_gflops"),
        domains={
            "l3": cpu.get("cores_per_l3") or (),
            "numa": [node["cores"] for node in numa if node.get("cores")],
            "socket": cpu.get("cores_per_socket") or (),
        },
        numa=numa,
        gpus=facts.get("gpus") or (),
        mbit=network.get("fastest_mbit"),
        link=network.get("kind"),
        idle_cores=sum(c.get("cores") or 0 for c in classes if not c.get("chosen")),
        core_class=chosen.get("name"),
        cpus=chosen.get("cpus") if len(classes) > 1 else None,
        blas=library,
        kernel=kernel,
        dp_flops_per_cycle=able,
        better_kernel=better,
        mpi=(str(mpi.get("family")), str(mpi.get("version")), str(mpi.get("path"))) if mpi else None,
        swap_used_bytes=facts.get("swap_used_bytes") or 0,
        nofile=facts.get("nofile"),
        identity={
            "name": name,
            "address": address,
            "memory": min(limits) if limits else None,
            "cores": cores,
            "model": cpu.get("model"),
            "gpus": len(facts.get("gpus") or ()),
        },
    )


def _core_gflops(
    name: str, cores: int | None, cpu: Mapping[str, Any], measured: Any, options: Mapping[str, Any]
) -> float | None:
    """HPL GFLOPS of a core: as asked for, else from a measured DGEMM rate, else from Rpeak."""
    if "gflops_per_core" in options:
        return float(options["gflops_per_core"])
    if not cores:
        return None
    if measured is not None:
        return as_positive(f"{name}: dgemm_gflops", measured) * SHARE_OF_DGEMM / cores
    share = float(options.get("efficiency") or hpl_efficiency(cpu.get("microarchitecture")))
    rpeak = cpu.get("rpeak_gflops")
    return rpeak * share / cores if rpeak else None


def some(names: Sequence[str]) -> str:
    """``a has``, ``a and b have``, ``a, b and 7 others have``."""
    if len(names) == 1:
        return f"{names[0]} has"
    if len(names) <= 3:
        return f"{', '.join(names[:-1])} and {names[-1]} have"
    return f"{', '.join(names[:2])} and {len(names) - 2} others have"
