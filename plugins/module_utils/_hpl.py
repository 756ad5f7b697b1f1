# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes have to the size of an HPL run: N, NB, P x Q, ranks, binding, memory and expected time.

Pure arithmetic on plain dicts: no files, no clock, no Ansible. The formulas are in _hpl_size, the nodes in
_hpl_nodes, the GPU plan in _hpl_rochpl.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_blas import kernel_flops
from ._hpl_cpu import recommended_nb
from ._hpl_deal import deal_in_proportion, unequal
from ._hpl_nodes import DOMAINS, Node, read_nodes, some
from ._hpl_order import choose_order
from ._hpl_rochpl import rochpl_plan
from ._hpl_size import DOUBLE, flops, grid, network_seconds, rank_bytes, squarer_grid
from ._hpl_values import HplError, as_count, as_positive, gib, mib

MEMORY_SHARE = 0.80
"""Share of a node's usable memory that a plan may fill.

The operating system, sshd, the MPI daemons and the page cache of the binaries need the rest. A run that pages
moves the matrix at disk speed, a thousand times slower than memory, so it never ends; and in a container the
kernel kills it instead. 80 % is what the HPL FAQ of netlib and the usual calculators recommend.
"""

RUNTIME_BYTES_PER_RANK = 32 * 2**20
"""Allowance per rank for what is not HPL's: MPI's buffers and shared segments, and the packing buffers of
the BLAS. A rank of the lab took 6 MiB beyond its matrix and panels; a fabric and threads take more.
"""

DEFAULT_NB = 192
"""NB where the CPU has no row; inside the range 32 to 256 that the HPL FAQ of netlib gives."""

LATENCY_SECONDS = {"ethernet": 30e-6, "infiniband": 2e-6}
"""Time of a small message between nodes: TCP over Ethernet, and InfiniBand verbs; allowances."""

LAYOUTS = ("core", *DOMAINS, "node")
"""What a rank may be given: a core, the cores of an L3 group, a NUMA node, a socket, or the whole node."""

MANY_RANKS = 4096
"""More ranks than this, one a core, are worth fewer ranks with threads: panels and messages grow with P and
Q.
"""

_COUNTS = ("n", "nb", "p", "q", "ranks_per_node", "threads_per_rank")
_NUMBERS = ("memory_share", "time_budget_seconds", "gflops_per_core", "efficiency")
_CHOICES = {
    "layout": LAYOUTS,
    "align": ("nb", "grid"),
    "heterogeneous": ("weakest", "proportional"),
    "device": ("cpu", "gpu"),
}
_DEALING = ("layout", "ranks_per_node", "threads_per_rank", "p", "q")
"""Options that say how ranks are dealt, which heterogeneous=proportional decides itself."""

OPTIONS = (*_COUNTS, *_NUMBERS, *_CHOICES)


def plan(nodes: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Size one HPL run over ``nodes``.

    ``nodes`` is a list of ``{"name", "address", "facts"}`` with the facts of the module hpl_facts, and
    optionally ``"dgemm_gflops"``, the measured DGEMM rate of all the node's cores; the order does not matter.
    ``options``, all optional (None counts as not given):

    - ``device``: ``cpu``, or ``gpu`` for rocHPL on AMD GPUs (see _hpl_rochpl);
    - ``memory_share``: share of usable memory to fill (see MEMORY_SHARE);
    - ``n``, ``nb``, ``p``, ``q``: fixed sizes; N is rounded down to a multiple of NB;
    - ``align``: ``nb`` (N is a multiple of NB) or ``grid`` (of NB lcm(P, Q): every rank has the same blocks);
    - ``layout``: what each rank is given, one of LAYOUTS; or ``ranks_per_node`` and ``threads_per_rank``;
    - ``heterogeneous``: ``weakest`` (each node gets the ranks its cores give; the node with the least memory
      per rank and the slowest rank bind) or ``proportional`` (ranks are dealt by speed and memory);
    - ``time_budget_seconds``: the largest N that is expected to end in that time;
    - ``gflops_per_core``: HPL rate of one core to expect; default the measured DGEMM rate, else Rpeak x
      ``efficiency``.

    Returns a dict: device, n, nb, nb_source, p, q, ranks, threads_per_rank, layout, binding, hosts (name,
    address, slots, threads, cpus where a class of cores was chosen, env where the ranks need it, and in bytes
    memory_bytes = usable, planned_bytes, matrix_bytes), rank_bytes (matrix, panels, runtime), matrix_bytes
    (8 N^2), memory_usable_bytes, memory_share (used, of the fullest node), flops, expected_gflops,
    expected_seconds, network_seconds (part of them), rpeak_gflops at the base and rpeak_max_gflops at the
    maximum clock (null where unknown), heterogeneous (null where the nodes are alike), mpi (of all nodes,
    null where they differ), warnings and key. ``key`` identifies the request: it depends on what the nodes
    are and on the options, not on the memory that happens to be free, so that a finished run is found again.

    Raises HplError when no run is possible.
    """
    chosen = _options(options)
    hosts = read_nodes(nodes, chosen)
    key = _key(hosts, chosen)
    if chosen.get("device") == "gpu":
        return {**rochpl_plan(hosts, chosen), "key": key}
    warnings: list[str] = []
    sizing, comparison = _size(hosts, *_slots(hosts, chosen), chosen, warnings), None
    if unequal(sizing.budgets, sizing.rates):
        sizing, comparison, warnings = _compare(sizing, warnings, hosts, chosen)
    _warn(sizing, hosts, warnings)
    return _described(sizing, chosen, comparison, warnings) | {"key": key}


@dataclass(frozen=True)
class _Sizing:
    """A plan's figures for one way of dealing the ranks; every list is by host."""

    hosts: Sequence[Node]
    slots: Sequence[int]
    threads: Sequence[int]
    budgets: Sequence[float]
    """Bytes that each rank may use."""
    rates: Sequence[float | None]
    """GFLOPS of each rank."""
    n: int
    nb: int
    nb_source: str
    p: int
    q: int
    gflops: float | None
    """What all ranks compute at the pace of the slowest, before the network."""
    network: float | None

    @property
    def ranks(self) -> int:
        return sum(self.slots)

    @property
    def seconds(self) -> float | None:
        return None if self.gflops is None else _seconds(self.n, self.gflops, self.network)

    @property
    def expected_gflops(self) -> float | None:
        return None if self.seconds is None else flops(self.n) / self.seconds / 1e9

    @property
    def planned(self) -> int:
        """Bytes of the fullest rank with all it needs."""
        return _rank_total(self.n, self.nb, self.p, self.q)


def _rank_total(n: int, nb: int, p: int, q: int) -> int:
    """Bytes of the fullest rank with all it needs."""
    return sum(rank_bytes(n, nb, p, q)) + RUNTIME_BYTES_PER_RANK


def _seconds(n: int, gflops: float, network: float | None) -> float:
    return flops(n) / gflops / 1e9 + (network or 0.0)


def _options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    given = options or {}
    if not isinstance(given, Mapping):
        raise HplError(f"options must be a dictionary, not {given!r}")
    unknown = sorted(str(name) for name in given if name not in OPTIONS)
    if unknown:
        raise HplError(f"unknown option {', '.join(unknown)}; known are {', '.join(OPTIONS)}")
    checked: dict[str, Any] = {}
    for name, value in sorted(given.items()):
        if value is None:
            continue
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise HplError(f"{name} must be one of {', '.join(_CHOICES[name])}, not {value!r:.80}")
            checked[name] = value
        else:
            checked[name] = as_count(name, value) if name in _COUNTS else as_positive(name, value)
    for name in ("memory_share", "efficiency"):
        if checked.get(name, 0) > 1:
            raise HplError(f"{name} is a share and must be at most 1, not {checked[name]:g}")
    _clashes(checked)
    return checked


def _clashes(chosen: Mapping[str, Any]) -> None:
    for one, others in (
        ("layout", ("ranks_per_node", "threads_per_rank")),
        ("heterogeneous", _DEALING),
    ):
        both = [name for name in others if name in chosen]
        if both and chosen.get(one, "weakest") != "weakest":
            raise HplError(f"{one}={chosen[one]} decides {' and '.join(both)} too: give one or the other")


def _slots(hosts: Sequence[Node], chosen: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """(ranks, threads of a rank) of each host."""
    fixed = chosen.get("ranks_per_node")
    processes = chosen.get("p", 0) * chosen.get("q", 0)
    if fixed is None and "layout" not in chosen and processes and processes % len(hosts) == 0:
        whole = sum((host.cores or 0) // chosen.get("threads_per_rank", 1) for host in hosts)
        fixed = processes // len(hosts) if processes != whole else None
    slots, threads = [], []
    for host in hosts:
        count, each = _layout(host, chosen, fixed)
        slots.append(count)
        threads.append(each)
    return slots, threads


def _layout(host: Node, chosen: Mapping[str, Any], fixed: int | None) -> tuple[int, int]:
    layout, cores = chosen.get("layout", "core"), host.cores
    if cores is None:
        if fixed is None:
            raise HplError(f"{host.name}: the number of physical cores is unknown; set ranks_per_node")
        return fixed, chosen.get("threads_per_rank", 1)
    if layout in DOMAINS:
        sizes = [count for count in host.domains[layout] if count]
        if not sizes:
            raise HplError(f"{host.name} does not tell its {layout} domains; set ranks_per_node instead")
        # a CPU quota may leave fewer cores than the domains have
        count, threads = len(sizes), min(*sizes, cores // len(sizes))
    elif layout == "node":
        count, threads = 1, cores
    else:
        threads = chosen.get("threads_per_rank") or (max(1, cores // fixed) if fixed else 1)
        count = cores // threads if fixed is None else fixed
    if not 0 < count * threads <= cores:
        raise HplError(
            f"{host.name} has {cores} physical cores, too few for {max(count, 1)} ranks x {max(threads, 1)} "
            "threads; lower ranks_per_node, threads_per_rank or p x q"
        )
    return count, threads


def _size(
    hosts: Sequence[Node],
    slots: Sequence[int],
    threads: Sequence[int],
    chosen: Mapping[str, Any],
    warnings: list[str],
) -> _Sizing:
    ranks = sum(slots)
    p, q = _grid(ranks, chosen, warnings)
    nb, nb_source = _block_size(hosts, slots, chosen, warnings)
    share = float(chosen.get("memory_share", MEMORY_SHARE))
    budgets = [share * host.usable_bytes / count for host, count in zip(hosts, slots)]
    rates = [None if h.core_gflops is None else h.core_gflops * t for h, t in zip(hosts, threads)]
    known = [rate for rate in rates if rate is not None]
    gflops = ranks * min(known) if len(known) == len(rates) else None
    network = _network(hosts, slots, nb, p, q, warnings)
    weakest = min(range(len(hosts)), key=lambda at: (budgets[at], hosts[at].name))
    n = choose_order(
        lambda n: _rank_total(n, nb, p, q),
        budgets[weakest],
        f"{hosts[weakest].name} gives each of its {slots[weakest]} ranks {mib(budgets[weakest])} "
        f"({share:.0%} of {gib(hosts[weakest].usable_bytes)} usable memory)",
        (nb, p, q),
        chosen,
        None if gflops is None else lambda n: _seconds(n, gflops, network(n) if network else None),
        warnings,
    )
    return _Sizing(
        hosts, slots, threads, budgets, rates, n, nb, nb_source, p, q, gflops, network(n) if network else None
    )


def _grid(ranks: int, chosen: Mapping[str, Any], warnings: list[str]) -> tuple[int, int]:
    p, q = chosen.get("p"), chosen.get("q")
    if p is None and q is None:
        p, q = grid(ranks)
        if q > 4 * p and ranks > 3:
            best_p, best_q = squarer_grid(ranks)
            warnings.append(
                f"{ranks} ranks leave only a {p} x {q} grid, and a flat grid communicates more; "
                f"{best_p * best_q} ranks as {best_p} x {best_q} may be faster (set p and q, or "
                "ranks_per_node)"
            )
        return p, q
    given = p or q or 1
    if p is None or q is None:
        if ranks % given:
            raise HplError(f"{'p' if p else 'q'}={given} does not divide the {ranks} ranks")
        p, q = p or ranks // given, q or ranks // given
    if p * q != ranks:
        raise HplError(
            f"p x q = {p} x {q} = {p * q} processes, but the nodes give {ranks} ranks; "
            "change p and q, or set ranks_per_node"
        )
    if p > q:
        warnings.append(f"P={p} is larger than Q={q}; HPL is usually faster with P <= Q")
    return p, q


def _block_size(
    hosts: Sequence[Node], slots: Sequence[int], chosen: Mapping[str, Any], warnings: list[str]
) -> tuple[int, str]:
    if "nb" in chosen:
        return chosen["nb"], "given"
    ranks_by_cpu: Counter[tuple[str, str]] = Counter()
    for host, count in zip(hosts, slots):
        ranks_by_cpu[(host.microarchitecture or "", host.blas or "")] += count
    cpu, blas = min(ranks_by_cpu, key=lambda pair: (-ranks_by_cpu[pair], pair))
    nb, source = recommended_nb(cpu, blas)
    if nb is None:
        warnings.append(f"{source}: using {DEFAULT_NB}; try others with nb")
        return DEFAULT_NB, "middle of the range of netlib's HPL FAQ, 32 to 256"
    if len(ranks_by_cpu) > 1:
        warnings.append(f"the nodes have different CPUs; NB={nb} suits {cpu}, which has most of the ranks")
    return nb, source


def _network(
    hosts: Sequence[Node], slots: Sequence[int], nb: int, p: int, q: int, warnings: list[str]
) -> Callable[[int], float] | None:
    """Seconds on the network by N; None for one node, and where a node does not tell its link."""
    if len(hosts) == 1:
        return None
    link = _link(hosts)
    if link is None:
        silent = [host.name for host in hosts if not host.mbit]
        warnings.append(
            f"{some(silent)} no link speed known: the expected time counts computing only, so expect less"
        )
        return None
    most = max(slots)
    return lambda n: network_seconds(n, nb, p, q, most, *link)


def _link(hosts: Sequence[Node]) -> tuple[float, float] | None:
    """(Mbit/s, seconds of latency) of the slowest node's link, or None where one is unknown."""
    if not all(host.mbit for host in hosts):
        return None
    latency = (LATENCY_SECONDS.get(host.link or "", LATENCY_SECONDS["ethernet"]) for host in hosts)
    return min(float(host.mbit or 0) for host in hosts), max(latency)


def _compare(
    weakest: _Sizing, said: list[str], hosts: Sequence[Node], chosen: Mapping[str, Any]
) -> tuple[_Sizing, dict[str, Any], list[str]]:
    """The sizing that was asked for, what each choice gives up, and the warnings."""
    wanted = chosen.get("heterogeneous", "weakest")
    sizings = {"weakest": (weakest, said)}
    if not set(_DEALING) & set(chosen):
        proportional = _in_proportion(hosts, chosen)
        if proportional:
            sizings["proportional"] = proportional
    if wanted not in sizings:
        raise HplError("no way to deal the ranks in proportion fits; use heterogeneous=weakest")
    rates = [(host.core_gflops or 0.0) * (host.cores or 0) for host in hosts]
    ideal = sum(rates) if all(rates) else None
    room = float(chosen.get("memory_share", MEMORY_SHARE)) * sum(host.usable_bytes for host in hosts)
    sizing, warnings = sizings[wanted]
    told = {}
    for name, (choice, _said) in sizings.items():
        told[name] = _given_up(choice, room, ideal)
        lost = told[name]["given_up_gflops"]
        warnings.append(
            f"the nodes differ: {name}{' (chosen)' if name == wanted else ''} plans N={choice.n} on "
            f"{choice.ranks} ranks and gives up {'' if lost is None else f'{lost:,.0f} GFLOPS and '}"
            f"{gib(told[name]['given_up_bytes'])} of memory"
        )
    return sizing, {"choice": wanted, "all_cores_gflops": ideal and round(ideal, 3), **told}, warnings


def _in_proportion(hosts: Sequence[Node], chosen: Mapping[str, Any]) -> tuple[_Sizing, list[str]] | None:
    """The fastest way to deal the ranks by speed and memory, with its warnings; None when none fits."""
    share = float(chosen.get("memory_share", MEMORY_SHARE))
    nb, _source = _block_size(hosts, [host.cores or 0 for host in hosts], chosen, [])
    link = _link(hosts) if len(hosts) > 1 else None

    def worth(p: int, q: int, budget: float, rate: float | None, most: int) -> tuple[float, int] | None:
        gflops = p * q * (rate or 1.0)
        try:
            n = choose_order(
                lambda n: _rank_total(n, nb, p, q),
                budget,
                "",
                (nb, p, q),
                chosen,
                lambda n: _seconds(n, gflops, None),
                [],
            )
        except HplError:
            return None
        seconds = _seconds(n, gflops, network_seconds(n, nb, p, q, most, *link) if link else None)
        return flops(n) / seconds / 1e9, n

    dealt = deal_in_proportion(
        [host.cores or 0 for host in hosts],
        [host.core_gflops for host in hosts],
        [share * host.usable_bytes for host in hosts],
        worth,
    )
    if dealt is None:
        return None
    warnings: list[str] = []
    used = [(host, count, threads) for host, count, threads in zip(hosts, *dealt) if count]
    left_out = [host.name for host, count in zip(hosts, dealt[0]) if not count]
    if left_out:
        warnings.append(f"{some(left_out)} no rank: too slow or too small to keep up with the others")
    used.sort(key=lambda dealt: (dealt[2], dealt[0].name))  # hosts with as many threads start together
    kept, slots, threads = (list(column) for column in zip(*used))
    return _size(kept, slots, threads, chosen, warnings), warnings


def _given_up(sizing: _Sizing, room: float, ideal: float | None) -> dict[str, Any]:
    """A choice in figures, and what it leaves of ``room`` (bytes) and of ``ideal`` (GFLOPS of all cores)."""
    expected = sizing.expected_gflops
    lost = None if expected is None or ideal is None else round(max(0.0, ideal - expected), 3)
    return {
        "n": sizing.n,
        "p": sizing.p,
        "q": sizing.q,
        "ranks": sizing.ranks,
        "expected_gflops": None if expected is None else round(expected, 3),
        "given_up_gflops": lost,
        "given_up_bytes": int(room) - sizing.ranks * sizing.planned,
    }


def _warn(sizing: _Sizing, hosts: Sequence[Node], warnings: list[str]) -> None:
    """What a person should know before a long run."""
    if any(host.rpeak_gflops is None for host in hosts) and sizing.gflops is None:
        silent = [host.name for host in hosts if host.rpeak_gflops is None]
        warnings.append(f"Rpeak is unknown: {some(silent)} no clock or FLOPs per cycle known")
    if sizing.ranks > MANY_RANKS and max(sizing.threads) == 1:
        warnings.append(
            f"{sizing.ranks} ranks of one core are many: panels and messages grow with P and Q; "
            "try layout l3 or numa"
        )
    planned = sizing.planned
    for at, (host, count) in enumerate(zip(sizing.hosts, sizing.slots)):
        warnings += _host_warnings(host, count, count * planned, len(sizing.hosts) if at == 0 else 0)
    quiet = len(warnings) - 50
    if quiet > 0:
        del warnings[50:]
        warnings.append(f"and {quiet} more of these")


def _host_warnings(host: Node, slots: int, planned: int, nodes: int) -> list[str]:
    said = []
    if host.swap_used_bytes:
        used = gib(host.swap_used_bytes)
        said.append(f"{host.name} has {used} in swap already: free memory before a long run")
    if host.idle_cores:
        said.append(
            f"{host.name} has cores of more than one kind: the plan uses the {host.cores} of class "
            f"{host.core_class} (CPUs {host.cpus}) and leaves {host.idle_cores} idle, since HPL deals every "
            "rank the same share"
        )
    able, reached = host.dp_flops_per_cycle, kernel_flops(host.blas, host.kernel)
    if able and reached and reached < able:
        remedy = "update the library, or name a kernel (OPENBLAS_CORETYPE, BLIS_ARCH_TYPE)"
        if host.better_kernel:
            remedy = f"the run sets OPENBLAS_CORETYPE={host.better_kernel}"
        said.append(
            f"{host.name}: {host.blas} selected the kernel {host.kernel}, made for {reached} FLOPs a cycle "
            f"where the CPU does {able}; {remedy}"
        )
    cores = sum(node["cores"] for node in host.numa)
    told = sum(node["memory_bytes"] or 0 for node in host.numa)
    for node in host.numa if told >= host.usable_bytes else ():  # some sandboxes tell a part only
        memory, part = node["memory_bytes"], planned * node["cores"] / max(1, cores)
        if memory is not None and memory < part:
            said.append(
                f"{host.name}: NUMA node {node['node']} has {gib(memory)} for the {gib(part)} of its "
                "ranks, so some of the matrix is far from its cores; check that its memory slots are filled"
            )
    # a daemon holds pipes and sockets for each rank of its own; mpirun, on the first node, one more a node
    needed = 64 + 8 * slots + nodes
    if host.nofile is not None and host.nofile < needed:
        said.append(
            f"{host.name} allows {host.nofile} open files, and {slots} ranks may need {needed}: "
            f"raise the limit (ulimit -n {needed})"
        )
    return said


def _described(
    sizing: _Sizing, chosen: Mapping[str, Any], comparison: dict[str, Any] | None, warnings: list[str]
) -> dict[str, Any]:
    n, hosts = sizing.n, sizing.hosts
    matrix, panels = rank_bytes(n, sizing.nb, sizing.p, sizing.q)
    per_rank = sizing.planned
    dealt = list(zip(hosts, sizing.slots, sizing.threads))
    layout = chosen.get("layout") or ("ranks" if comparison or set(chosen) & set(_COUNTS[2:]) else "core")
    return {
        "device": "cpu",
        "n": n,
        "nb": sizing.nb,
        "nb_source": sizing.nb_source,
        "p": sizing.p,
        "q": sizing.q,
        "ranks": sizing.ranks,
        "threads_per_rank": min(sizing.threads),
        "layout": layout,
        "binding": _binding(sizing, layout),
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "slots": count,
                "threads": threads,
                **({"cpus": host.cpus} if host.cpus else {}),
                **({"env": {"OPENBLAS_CORETYPE": host.better_kernel}} if host.better_kernel else {}),
                "memory_bytes": host.usable_bytes,
                "planned_bytes": count * per_rank,
                "matrix_bytes": count * matrix,
            }
            for host, count, threads in dealt
        ],
        "rank_bytes": {"matrix": matrix, "panels": panels, "runtime": RUNTIME_BYTES_PER_RANK},
        "matrix_bytes": DOUBLE * n * n,
        "memory_usable_bytes": sum(host.usable_bytes for host in hosts),
        "memory_share": round(max(c * per_rank / h.usable_bytes for h, c, _t in dealt), 4),
        "flops": flops(n),
        "expected_gflops": None if sizing.expected_gflops is None else round(sizing.expected_gflops, 3),
        "expected_seconds": None if sizing.seconds is None else round(sizing.seconds, 1),
        "network_seconds": None if sizing.network is None else round(sizing.network, 1),
        "rpeak_gflops": _rpeak(dealt, "rpeak_gflops"),
        "rpeak_max_gflops": _rpeak(dealt, "rpeak_max_gflops"),
        "heterogeneous": comparison,
        "mpi": _common_mpi(hosts, warnings),
        "warnings": warnings,
    }


def _binding(sizing: _Sizing, layout: str) -> str:
    threads = sorted(set(sizing.threads))
    if len(threads) > 1:
        return f"none: the nodes' ranks have {threads[0]} to {threads[-1]} threads"
    cores = "its own core" if threads == [1] else f"{threads[0]} cores of its own"
    where = {"l3": " of one L3 group", "numa": " of one NUMA node", "socket": " of one socket"}
    return f"each rank to {cores}{where.get(layout, '')}"


def _rpeak(dealt: Sequence[tuple[Node, int, int]], name: str) -> float | None:
    """GFLOPS of the cores that the plan uses."""
    total = 0.0
    for host, count, threads in dealt:
        rpeak = getattr(host, name)
        if not rpeak or not host.cores:
            return None
        total += rpeak * count * threads / host.cores
    return round(total, 3)


def _common_mpi(hosts: Sequence[Node], warnings: list[str]) -> dict[str, str] | None:
    found = {host.mpi for host in hosts}
    if len(found) > 1:
        listing = "; ".join(f"{h.name}: {' '.join(h.mpi) if h.mpi else 'none'}" for h in hosts[:8])
        warnings.append(
            f"the nodes do not have the same MPI ({listing}): ranks of different versions cannot talk"
        )
        return None
    mpi = found.pop()
    return None if mpi is None else dict(zip(("family", "version", "path"), mpi))


def _key(hosts: Sequence[Node], chosen: Mapping[str, Any]) -> str:
    stable = {"hosts": [host.identity for host in hosts], "options": dict(chosen)}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]
