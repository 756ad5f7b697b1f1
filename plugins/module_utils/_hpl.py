# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes have to the size of an HPL run: N, NB, P x Q, ranks, memory and expected time.

Pure arithmetic on plain dicts: no files, no clock, no Ansible.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_cpu import MICROARCHITECTURES
from ._hpl_values import HplError, as_count, as_positive

DOUBLE = 8
"""Bytes of one matrix element."""

MEMORY_SHARE = 0.80
"""Share of a node's usable memory that a plan may fill.

The operating system, sshd, the MPI daemons and the page cache of the binaries need the rest. A run that pages
moves the matrix at disk speed, a thousand times slower than memory, so it never ends; and in a container the
kernel kills it instead. 80 % is what the HPL FAQ of netlib and the usual calculators recommend.
"""

RUNTIME_BYTES_PER_RANK = 32 * 2**20
"""Allowance per rank for what is not HPL's: MPI's buffers and shared segments, and the packing buffers of
the BLAS.
"""

DEFAULT_NB = 192
"""NB where the CPU has no row; inside the range 32 to 256 that the HPL FAQ of netlib gives."""

EFFICIENCY = 0.75
"""HPL's share of Rpeak that the expected time is worked out with where no measured rate is given."""

LOOKAHEAD_DEPTH = 1
"""Lookahead depth of the plan; HPL keeps depth + 1 panels at a time."""

OPTIONS = (
    "memory_share",
    "n",
    "nb",
    "p",
    "q",
    "ranks_per_node",
    "threads_per_rank",
    "time_budget_seconds",
    "gflops_per_core",
    "efficiency",
)


@dataclass(frozen=True)
class _Node:
    name: str
    address: str
    cores: int | None
    usable_bytes: int
    microarchitecture: str | None
    rpeak_gflops: float | None
    identity: dict[str, Any]
    mpi: tuple[str, str, str] | None
    swap_used_bytes: int


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


def grid(ranks: int) -> tuple[int, int]:
    """P x Q for ``ranks``: the largest divisor that is at most the square root, and what it leaves (P <= Q).

    netlib's HPL FAQ: as square as possible, Q a little larger than P.
    """
    p = math.isqrt(ranks)
    while ranks % p:
        p -= 1
    return p, ranks // p


def plan(nodes: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Size one HPL run over ``nodes``.

    ``nodes`` is a list of ``{"name", "address", "facts"}`` with the facts of the module hpl_facts; the order
    does not matter. ``options``, all optional (None counts as not given):

    - ``memory_share``: share of usable memory to fill (see MEMORY_SHARE);
    - ``n``, ``nb``, ``p``, ``q``: fixed sizes; N is rounded down to a multiple of NB;
    - ``ranks_per_node``: default the physical cores of each node divided by ``threads_per_rank`` (default 1);
    - ``time_budget_seconds``: the largest N that is expected to end in that time;
    - ``gflops_per_core``: HPL rate of one core to expect; default Rpeak x ``efficiency`` (see EFFICIENCY).

    The weakest node binds: HPL gives every rank the same share of the matrix, so N is the largest one whose
    fullest rank (matrix, panels, MPI and BLAS buffers) fits ``ranks`` times on every node.

    Returns a dict: n, nb, p, q, ranks, threads_per_rank, hosts (name, address, slots, and in bytes
    memory_bytes = usable, planned_bytes, matrix_bytes), matrix_bytes (8 N^2), memory_usable_bytes,
    memory_share (used, of the fullest node), flops, expected_gflops, expected_seconds, rpeak_gflops (each
    null where unknown), mpi (of all nodes, null where they differ), warnings and key. ``key`` identifies the
    request: it depends on what the nodes are and on the options, not on the memory that happens to be free,
    so that a finished run is found again.

    Raises HplError when no run is possible.
    """
    chosen = _options(options)
    hosts = _nodes(nodes)
    warnings: list[str] = []
    threads = chosen.get("threads_per_rank", 1)
    slots = _slots(hosts, chosen, threads)
    ranks = sum(slots)
    p, q = _grid(ranks, chosen, warnings)
    nb = chosen.get("nb") or _block_size(hosts, slots, warnings)
    rpeak = _rpeak(hosts, slots, threads, warnings)
    rate = _rate(chosen, rpeak, ranks * threads)
    n = _order(hosts, slots, nb, p, q, chosen, rate, warnings)
    matrix, panels = rank_bytes(n, nb, p, q)
    per_rank = matrix + panels + RUNTIME_BYTES_PER_RANK
    for host in hosts:
        if host.swap_used_bytes:
            warnings.append(
                f"{host.name} has {_gib(host.swap_used_bytes)} in swap already: free memory before a long run"
            )
    return {
        "n": n,
        "nb": nb,
        "p": p,
        "q": q,
        "ranks": ranks,
        "threads_per_rank": threads,
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "slots": count,
                "memory_bytes": host.usable_bytes,
                "planned_bytes": count * per_rank,
                "matrix_bytes": count * matrix,
            }
            for host, count in zip(hosts, slots)
        ],
        "matrix_bytes": DOUBLE * n * n,
        "memory_usable_bytes": sum(host.usable_bytes for host in hosts),
        "memory_share": round(max(c * per_rank / h.usable_bytes for h, c in zip(hosts, slots)), 4),
        "flops": flops(n),
        "expected_gflops": None if rate is None else round(rate, 3),
        "expected_seconds": None if rate is None else round(flops(n) / rate / 1e9, 1),
        "rpeak_gflops": None if rpeak is None else round(rpeak, 3),
        "mpi": _common_mpi(hosts, warnings),
        "warnings": warnings,
        "key": _key(hosts, chosen),
    }


def _options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    given = options or {}
    if not isinstance(given, Mapping):
        raise HplError(f"options must be a dictionary, not {given!r}")
    unknown = sorted(str(name) for name in given if name not in OPTIONS)
    if unknown:
        raise HplError(f"unknown option {', '.join(unknown)}; known are {', '.join(OPTIONS)}")
    counts = ("n", "nb", "p", "q", "ranks_per_node", "threads_per_rank")
    checked: dict[str, Any] = {
        name: as_count(name, value) if name in counts else as_positive(name, value)
        for name, value in sorted(given.items())
        if value is not None
    }
    for name in ("memory_share", "efficiency"):
        if checked.get(name, 0) > 1:
            raise HplError(f"{name} is a share and must be at most 1, not {checked[name]:g}")
    return checked


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> list[_Node]:
    hosts = sorted((_node(entry) for entry in nodes), key=lambda host: host.name)
    if not hosts:
        raise HplError("no hosts to plan for: the list of nodes is empty")
    for first, second in zip(hosts, hosts[1:]):
        if first.name == second.name:
            raise HplError(f"the host {first.name} is listed twice")
    return hosts


def _node(entry: Mapping[str, Any]) -> _Node:
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
    cores = cpu.get("physical_cores")
    address = str(entry.get("address") or name)
    limits = [memory[k] for k in ("limit_bytes", "total_bytes") if memory.get(k) is not None]
    mpi = facts.get("mpi")
    return _Node(
        name=name,
        address=address,
        cores=None if cores is None else as_count(f"{name}: physical_cores", cores),
        usable_bytes=as_count(f"{name}: usable memory in bytes", usable),
        microarchitecture=cpu.get("microarchitecture"),
        rpeak_gflops=cpu.get("rpeak_gflops"),
        identity={
            "name": name,
            "address": address,
            "memory": min(limits) if limits else None,
            "cores": cores,
            "model": cpu.get("model"),
        },
        mpi=(str(mpi.get("family")), str(mpi.get("version")), str(mpi.get("path"))) if mpi else None,
        swap_used_bytes=facts.get("swap_used_bytes") or 0,
    )


def _slots(hosts: Sequence[_Node], chosen: Mapping[str, Any], threads: int) -> list[int]:
    fixed = chosen.get("ranks_per_node")
    whole = [(host.cores or 0) // threads for host in hosts]
    processes = chosen.get("p", 0) * chosen.get("q", 0)
    if fixed is None and processes and processes != sum(whole) and processes % len(hosts) == 0:
        fixed = processes // len(hosts)
    slots = whole if fixed is None else [fixed] * len(hosts)
    for host, count in zip(hosts, slots):
        if host.cores is None and fixed is None:
            raise HplError(f"{host.name}: the number of physical cores is unknown; set ranks_per_node")
        if host.cores is not None and not 0 < count * threads <= host.cores:
            raise HplError(
                f"{host.name} has {host.cores} physical cores, too few for {max(count, 1)} ranks x {threads} "
                "threads; lower ranks_per_node, threads_per_rank or p x q"
            )
    return slots


def _grid(ranks: int, chosen: Mapping[str, Any], warnings: list[str]) -> tuple[int, int]:
    p, q = chosen.get("p"), chosen.get("q")
    if p is None and q is None:
        p, q = grid(ranks)
        if q > 4 * p and ranks > 3:
            fewer, best_p, best_q = _squarer(ranks)
            warnings.append(
                f"{ranks} ranks leave only a {p} x {q} grid, and a flat grid communicates more; "
                f"{fewer} ranks as {best_p} x {best_q} may be faster (set p and q, or ranks_per_node)"
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


def _squarer(ranks: int) -> tuple[int, int, int]:
    """The most ranks below ``ranks`` whose grid has Q <= 2 P, and that grid."""
    p, q = 1, ranks
    while q > 2 * p:
        ranks -= 1
        p, q = grid(ranks)
    return ranks, p, q


def _block_size(hosts: Sequence[_Node], slots: Sequence[int], warnings: list[str]) -> int:
    ranks_by_cpu: Counter[str] = Counter()
    for host, count in zip(hosts, slots):
        ranks_by_cpu[host.microarchitecture or ""] += count
    cpu = min(ranks_by_cpu, key=lambda name: (-ranks_by_cpu[name], name))
    row = MICROARCHITECTURES.get(cpu)
    if row is None or row.nb is None:
        warnings.append(
            f"no recommended NB for the CPU ({cpu or 'unknown'}): using {DEFAULT_NB}; try others with nb"
        )
        return DEFAULT_NB
    if len(ranks_by_cpu) > 1:
        warnings.append(
            f"the nodes have different CPUs; NB={row.nb} suits {cpu}, which has most of the ranks"
        )
    return row.nb


def _rpeak(hosts: Sequence[_Node], slots: Sequence[int], threads: int, warnings: list[str]) -> float | None:
    total = 0.0
    for host, count in zip(hosts, slots):
        if not host.rpeak_gflops or not host.cores:
            warnings.append(f"Rpeak is unknown: {host.name} does not tell its clock or its FLOPs per cycle")
            return None
        total += host.rpeak_gflops * count * threads / host.cores
    return total


def _rate(chosen: Mapping[str, Any], rpeak: float | None, cores: int) -> float | None:
    if "gflops_per_core" in chosen:
        return float(chosen["gflops_per_core"]) * cores
    return None if rpeak is None else rpeak * float(chosen.get("efficiency", EFFICIENCY))


def _order(
    hosts: Sequence[_Node],
    slots: Sequence[int],
    nb: int,
    p: int,
    q: int,
    chosen: Mapping[str, Any],
    rate: float | None,
    warnings: list[str],
) -> int:
    share = float(chosen.get("memory_share", MEMORY_SHARE))
    weakest, count = min(zip(hosts, slots), key=lambda pair: (pair[0].usable_bytes / pair[1], pair[0].name))
    budget = share * weakest.usable_bytes / count

    def fits(blocks: int) -> bool:
        return sum(rank_bytes(blocks * nb, nb, p, q)) + RUNTIME_BYTES_PER_RANK <= budget

    most = _last(fits)
    room = (
        f"{weakest.name} gives each of its {count} ranks {_mib(budget)} "
        f"({share:.0%} of {_gib(weakest.usable_bytes)} usable memory)"
    )
    if most == 0:
        need = sum(rank_bytes(nb, nb, p, q)) + RUNTIME_BYTES_PER_RANK
        raise HplError(
            f"{room}, but even N = NB = {nb} needs {_mib(need)} a rank; "
            "free memory, lower nb or ranks_per_node, or raise memory_share"
        )
    if "n" in chosen:
        wanted: int = chosen["n"]
        if wanted < nb:
            raise HplError(f"N={wanted} is smaller than NB={nb}; raise n or lower nb")
        blocks = wanted // nb
        if blocks > most:
            raise HplError(f"N={wanted} does not fit: {room}, which holds N={most * nb} at most")
        if wanted % nb:
            warnings.append(f"N={wanted} is no multiple of NB={nb}: using {blocks * nb}")
        return blocks * nb
    if "time_budget_seconds" not in chosen:
        return most * nb
    if rate is None:
        raise HplError("time_budget_seconds needs a rate: set gflops_per_core, since Rpeak is unknown")
    seconds = float(chosen["time_budget_seconds"])
    quick = _last(lambda blocks: flops(blocks * nb) <= seconds * rate * 1e9, most)
    if quick == 0:
        raise HplError(
            f"no N of at least NB={nb} ends in {seconds:g} s at {rate:g} GFLOPS; raise time_budget_seconds"
        )
    return quick * nb


def _last(holds: Callable[[int], bool], most: int | None = None) -> int:
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


def _common_mpi(hosts: Sequence[_Node], warnings: list[str]) -> dict[str, str] | None:
    found = {host.mpi for host in hosts}
    if len(found) > 1:
        listing = "; ".join(f"{h.name}: {' '.join(h.mpi) if h.mpi else 'none'}" for h in hosts[:8])
        warnings.append(
            f"the nodes do not have the same MPI ({listing}): ranks of different versions cannot talk"
        )
        return None
    mpi = found.pop()
    return None if mpi is None else dict(zip(("family", "version", "path"), mpi))


def _key(hosts: Sequence[_Node], chosen: Mapping[str, Any]) -> str:
    stable = {"hosts": [host.identity for host in hosts], "options": dict(chosen)}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"
