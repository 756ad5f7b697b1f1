# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPUs of a node that this process may use: cores and their kinds, sockets, NUMA nodes, caches, clocks.

Everything is counted as hwloc counts it, over the allowed CPUs. What the tree does not tell is None or an
empty list, never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_cpu import dp_flops_per_cycle, identify_arm, identify_x86
from ._hpl_readings import Readings, cgroup_folders, format_cpu_list, parse_cpu_list, parse_meminfo

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"

SAME_CAPACITY = 0.9
"""Cores of one part are one class down to this share of the fastest one's capacity: favoured cores differ by
a few percent, the clusters of a big.LITTLE chip by far more."""


@dataclass(frozen=True)
class CoreClass:
    """Cores that compute alike; ``capacity`` is the kernel's, 1024 for the fastest core of the machine."""

    name: str
    cpus: frozenset[int]
    capacity: int | None = None


@dataclass(frozen=True)
class Domains:
    """The allowed CPUs of each core, socket or cache, in order of the lowest; none when it is unknown."""

    sets: Sequence[frozenset[int]]
    source: str

    def shares(self, cores: Iterable[frozenset[int]]) -> list[int]:
        """Return how many of ``cores`` each domain holds, without the domains that hold none."""
        cores = list(cores)
        counts = [sum(core <= cpus for core in cores) for cpus in self.sets]
        return [count for count in counts if count]


@dataclass(frozen=True)
class Cpuinfo:
    """/proc/cpuinfo by CPU number, and the lines that belong to no CPU: on s390 and old Arm kernels these
    describe all.
    """

    cpus: dict[int, dict[str, str]]
    common: dict[str, str]

    def of(self, cpu: int) -> dict[str, str]:
        """Return the fields of ``cpu``."""
        return {**self.common, **self.cpus.get(cpu, {})}


def read_cpu(readings: Readings, quota: tuple[float | None, str]) -> dict[str, Any]:
    """Return the CPU figures, with the source of each in ``readings``.

    ``quota`` is the CPU quota in CPUs, None without one, and its source. Clocks are in MHz. usable_cores is
    what a plan may fill: the cores of the chosen class, at most the quota. rpeak_gflops is usable_cores x
    base clock (the maximum where that is unknown) x FLOPs per cycle.
    """
    cpuinfo = read_cpuinfo(readings)
    allowed, allowed_source = allowed_cpus(readings, cpuinfo)
    cores, sockets = _cores(readings, allowed, cpuinfo), _sockets(readings, allowed, cpuinfo)
    l3 = _l3_groups(readings, allowed)
    nodes, nodes_source = numa_nodes(readings, allowed)
    memory, _source = memory_nodes(readings)
    classes, classes_source = core_classes(readings, allowed, cpuinfo)
    described = [_describe(readings, kind, cores, cpuinfo, alone=len(classes) == 1) for kind in classes]
    best = _choose(classes, described)
    # what a class has and where that is known from; of no class, nothing is known
    chosen = described[best] if classes else dict.fromkeys(CLASS_FIGURES, (None, classes_source))
    chosen_cpus = classes[best].cpus if classes else frozenset()
    chosen_cores = [core for core in cores.sets if core <= chosen_cpus]
    usable, usable_source = _usable(chosen["cores"][0], quota[0])
    fields = cpuinfo.of(min(chosen_cpus, default=-1))
    device = (readings.text("/proc/device-tree/model") or "").strip()
    per_cycle, base, top = (chosen[name][0] for name in ("dp_flops_per_cycle", "base_mhz", "max_mhz"))
    clock, clock_name = (top, "max_mhz") if base is None else (base, "base_mhz")
    figures: dict[str, tuple[Any, str]] = {
        "model": (
            fields.get("model name") or fields.get("cpu") or device or None,
            "/proc/cpuinfo or /proc/device-tree/model",
        ),
        "vendor": (
            fields.get("vendor_id") or fields.get("CPU implementer"),
            "/proc/cpuinfo vendor_id, CPU implementer",
        ),
        "physical_cores": (len(cores.sets) or None, cores.source),
        "allowed_cpus": (len(allowed) or None, allowed_source),
        "sockets": (len(sockets.sets) or None, sockets.source),
        "numa_nodes": (
            sum(1 for node, cpus in nodes.items() if node in memory and cpus & allowed) or None,
            nodes_source,
        ),
        "l3_groups": (len(l3.sets) or None, l3.source),
        "threads_per_core": (max(map(len, cores.sets), default=None), cores.source),
        "quota_cpus": quota,
        "core_classes": (
            [
                {"name": kind.name, "cpus": format_cpu_list(kind.cpus), "chosen": number == best}
                | {name: figure for name, (figure, _source) in facts.items()}
                for number, (kind, facts) in enumerate(zip(classes, described))
            ],
            classes_source,
        ),
        "usable_cores": (usable, usable_source),
        "cores_per_socket": (sockets.shares(chosen_cores), sockets.source),
        "cores_per_l3": (l3.shares(chosen_cores), l3.source),
        "numa": (_numa(readings, nodes, memory, chosen_cores), f"{nodes_source}; meminfo MemTotal"),
        **{name: chosen[name] for name in ("microarchitecture", "base_mhz", "max_mhz", "dp_flops_per_cycle")},
        "rpeak_gflops": (
            _gflops(usable, clock, per_cycle),
            f"usable_cores x {clock_name} x dp_flops_per_cycle",
        ),
        "rpeak_max_gflops": (_gflops(usable, top, per_cycle), "usable_cores x max_mhz x dp_flops_per_cycle"),
    }
    return {name: readings.note(f"cpu.{name}", *figure) for name, figure in figures.items()}


def _usable(cores: int | None, quota: float | None) -> tuple[int | None, str]:
    """``cores``, at most the quota rounded down, at least 1."""
    if cores is None or quota is None:
        return cores, "cores of the chosen class"
    usable = min(cores, max(1, math.floor(quota)))
    return usable, f"cores of the chosen class, at most the quota of {quota:g} CPUs"


def read_cpuinfo(readings: Readings) -> Cpuinfo:
    """Return /proc/cpuinfo; empty when it cannot be read."""
    cpus: dict[int, dict[str, str]] = {}
    common: dict[str, str] = {}
    for block in (readings.text("/proc/cpuinfo") or "").split("\n\n"):
        fields = dict(re.findall(r"^([^:\t]+?)[ \t]*:[ \t]*(.*?)[ \t]*$", block, re.MULTILINE))
        if re.fullmatch("[0-9]{1,6}", fields.get("processor", "")):
            cpus[int(fields["processor"])] = fields
        else:
            common.update(fields)
    return Cpuinfo(cpus, common)


def allowed_cpus(readings: Readings, cpuinfo: Cpuinfo) -> tuple[frozenset[int], str]:
    """Return the CPUs that are on and that this process may use, and where that is known from."""
    online, source = readings.cpus(f"{CPUS}/online", as_list=True), f"{CPUS}/online"
    if online is None:  # a kernel before 2.6.26, or no /sys
        present = readings.numbers(CPUS, "cpu")
        off = {cpu for cpu in present if readings.number(f"{CPUS}/cpu{cpu}/online") == 0}
        online = frozenset(present or cpuinfo.cpus) - off
    allowed, allowed_source = _allowed(readings, "cpus")
    if allowed is None:
        return online, source
    # CPUs may be allowed that are absent or off
    return (allowed & online if online else allowed), allowed_source


def memory_nodes(readings: Readings) -> tuple[frozenset[int], str]:
    """Return the NUMA nodes whose memory this process may use and that are no memory of a GPU, and where that
    is known from.

    NVIDIA's driver makes nodes of the memory of coherently attached GPUs.
    """
    folder = "/proc/driver/nvidia/gpus"
    of_gpus = {
        int(found.group(1))
        for gpu in readings.names(folder, ".*")
        if (found := re.search(r"Node:\s*([0-9]{1,6})", readings.text(f"{folder}/{gpu}/numa_status") or ""))
    }
    allowed, source = _allowed(readings, "mems")
    if allowed is None:
        allowed, source = frozenset(readings.numbers(NODES, "node")) or frozenset({0}), NODES
    return allowed - of_gpus, source


def _allowed(readings: Readings, what: str) -> tuple[frozenset[int] | None, str]:
    """The ``cpus`` or ``mems`` that this process may use, by its status or else its cpuset; None unknown."""
    name = f"{what.capitalize()}_allowed_list"
    status = re.search(rf"^{name}:[ \t]*(\S+)", readings.text("/proc/self/status") or "", re.MULTILINE)
    if status:
        return frozenset(parse_cpu_list(status.group(1))), f"/proc/self/status {name}"
    folders = cgroup_folders(readings, "cpuset") + cgroup_folders(readings, None)
    files = (f"cpuset.{what}.effective", f"cpuset.{what}", what)
    for path in (f"{folder}/{file}" for folder in folders for file in files):
        allowed = readings.cpus(path, as_list=True)
        if allowed:
            return allowed, path
    return None, "no cpuset"


def _group(cpus: Iterable[int], key: Callable[[int], Hashable | None]) -> list[frozenset[int]] | None:
    """The ``cpus`` that have the same key; None when one has none."""
    groups: dict[Hashable, set[int]] = {}
    for cpu in sorted(cpus):
        name = key(cpu)
        if name is None:
            return None
        groups.setdefault(name, set()).add(cpu)
    return [frozenset(group) for group in groups.values()]


def _threads(readings: Readings, cpu: int) -> frozenset[int] | None:
    names = ("core_cpus", "thread_siblings", "core_cpus_list", "thread_siblings_list")
    return readings.cpus(*(f"{CPUS}/cpu{cpu}/topology/{name}" for name in names))


def _cores(readings: Readings, allowed: frozenset[int], cpuinfo: Cpuinfo) -> Domains:
    def in_sys(cpu: int) -> Hashable | None:
        threads = _threads(readings, cpu)
        # the two cores of an AMD compute unit (Bulldozer) are called siblings, but have numbers of their own
        return None if threads is None else (threads, readings.number(f"{CPUS}/cpu{cpu}/topology/core_id"))

    def in_proc(cpu: int) -> Hashable | None:
        fields = cpuinfo.of(cpu)
        return (
            (fields["physical id"], fields["core id"]) if {"physical id", "core id"} <= set(fields) else None
        )

    sets = _group(allowed, in_sys)
    if sets is not None:
        return Domains(sets, f"{CPUS}/cpu*/topology/core_cpus, thread_siblings")
    return Domains(_group(allowed, in_proc) or [], "/proc/cpuinfo physical id, core id")


def _sockets(readings: Readings, allowed: frozenset[int], cpuinfo: Cpuinfo) -> Domains:
    names = ("package_cpus", "core_siblings", "package_cpus_list", "core_siblings_list")
    for source, key in (
        (
            f"{CPUS}/cpu*/topology/package_cpus, core_siblings",
            lambda cpu: readings.cpus(*(f"{CPUS}/cpu{cpu}/topology/{name}" for name in names)),
        ),
        (
            f"{CPUS}/cpu*/topology/physical_package_id",
            lambda cpu: readings.number(f"{CPUS}/cpu{cpu}/topology/physical_package_id"),
        ),
    ):
        sets = _group(allowed, key)
        if sets is not None:
            return Domains(sets, source)
    sets = _group(allowed, lambda cpu: cpuinfo.of(cpu).get("physical id"))
    return Domains(sets or [], "/proc/cpuinfo physical id")


def _l3(readings: Readings, cpu: int) -> frozenset[int] | None:
    """The CPUs that share the L3 cache of ``cpu``; None when it has none."""
    folder = f"{CPUS}/cpu{cpu}/cache"
    for index in readings.names(folder, "index[0-9]+"):
        kind = (readings.text(f"{folder}/{index}/type") or "").strip()
        if readings.number(f"{folder}/{index}/level") == 3 and kind != "Instruction":
            shared = readings.cpus(f"{folder}/{index}/shared_cpu_map", f"{folder}/{index}/shared_cpu_list")
            # Itanium's kernel names no CPUs for a cache of one core
            return shared or _threads(readings, cpu)
    return None


def _l3_groups(readings: Readings, allowed: frozenset[int]) -> Domains:
    shared = {cpu: cpus for cpu in allowed if (cpus := _l3(readings, cpu)) is not None}
    return Domains(
        _group(shared, shared.__getitem__) or [], f"{CPUS}/cpu*/cache/index*/shared_cpu_map of level 3"
    )


def numa_nodes(readings: Readings, online: frozenset[int]) -> tuple[dict[int, frozenset[int]], str]:
    """Return the CPUs of each NUMA node by the kernel's number, and where they are known from; nodes may
    have memory only.

    A kernel without NUMA has one node, of all CPUs. Of nodes that claim the same CPUs, as a faulty firmware
    tells, the first one counts.
    """
    nodes: dict[int, frozenset[int]] = {}
    for node in readings.numbers(NODES, "node"):
        cpus = readings.cpus(f"{NODES}/node{node}/cpumap", f"{NODES}/node{node}/cpulist") or frozenset()
        if not any(cpus & taken for taken in nodes.values()):
            nodes[node] = cpus
    if nodes or not readings.numbers(CPUS, "cpu"):
        return nodes, f"{NODES}/node*/cpumap"
    return {0: online}, f"no {NODES}: a kernel without NUMA has one node"


def _numa(
    readings: Readings,
    nodes: dict[int, frozenset[int]],
    memory_nodes: frozenset[int],
    cores: list[frozenset[int]],
) -> list[dict[str, int | None]]:
    """The nodes with cores or memory; memory that this process may not use counts as none."""
    found: list[dict[str, int | None]] = []
    with_numa = bool(readings.numbers(NODES, "node"))
    for node, cpus in nodes.items():
        text = readings.text(f"{NODES}/node{node}/meminfo" if with_numa else "/proc/meminfo")
        memory = parse_meminfo(text).get("MemTotal") if node in memory_nodes else 0
        count = sum(core <= cpus for core in cores)
        if count or memory:
            found.append({"node": node, "cores": count, "memory_bytes": memory})
    return found


def core_classes(
    readings: Readings, allowed: frozenset[int], cpuinfo: Cpuinfo
) -> tuple[list[CoreClass], str]:
    """Return the kinds of cores among the allowed CPUs, best first, and where they are known from."""
    if not allowed:
        return [], "no CPU is known"
    hybrid = _intel_classes(readings, allowed)
    if hybrid:
        return hybrid, "/sys/devices/cpu_core/cpus, cpu_atom/cpus"
    different = _unequal_cores(readings, allowed, cpuinfo)
    if len(different) > 1:
        return different, f"CPU implementer and part (MIDR_EL1), {CPUS}/cpu*/cpu_capacity"
    return [CoreClass("all", allowed)], "one kind of core"


def _intel_classes(readings: Readings, allowed: frozenset[int]) -> list[CoreClass]:
    """The kinds of a hybrid Intel CPU, by the kernel's performance counters: each kind has a device."""
    big, small, low = (
        allowed & (readings.cpus(f"/sys/devices/{device}/cpus", as_list=True) or frozenset())
        for device in ("cpu_core", "cpu_atom", "cpu_lowpower")
    )
    with_l3 = {cpu for cpu in small if _l3(readings, cpu) is not None}
    if with_l3:  # the low power cores of Meteor Lake count as cpu_atom; they sit on a die without the L3
        low, small = low | (small - with_l3), small & with_l3
    kinds = (("performance", big), ("efficiency", small), ("low-power", low))
    return [CoreClass(name, cpus) for name, cpus in kinds if cpus]


def _midr(readings: Readings, cpu: int, cpuinfo: Cpuinfo) -> tuple[int, int] | None:
    """(implementer, part) of an Arm CPU."""
    fields = cpuinfo.of(cpu)
    try:
        return int(fields["CPU implementer"], 16), int(fields["CPU part"], 16)
    except (KeyError, ValueError):
        pass
    register = readings.text(f"{CPUS}/cpu{cpu}/regs/identification/midr_el1") or ""
    if not re.fullmatch("0x[0-9a-f]{1,16}", register.strip()):
        return None
    value = int(register, 16)
    return value >> 24 & 0xFF, value >> 4 & 0xFFF


def _unequal_cores(readings: Readings, allowed: frozenset[int], cpuinfo: Cpuinfo) -> list[CoreClass]:
    """Cores of the same part and about the same capacity, the strongest first."""
    groups: list[tuple[int | None, tuple[int, int] | None, set[int]]] = []
    keyed = [
        (readings.number(f"{CPUS}/cpu{cpu}/cpu_capacity"), _midr(readings, cpu, cpuinfo), cpu)
        for cpu in allowed
    ]
    # the largest capacity of a group comes first and names it
    for capacity, midr, cpu in sorted(keyed, key=lambda row: (-(row[0] or 0), row[2])):
        for known, part, cpus in groups:
            if part == midr and (capacity or 0) >= SAME_CAPACITY * (known or 0):
                cpus.add(cpu)
                break
        else:
            groups.append((capacity, midr, {cpu}))
    groups.sort(key=lambda group: (-(group[0] or 0), -_fastest(readings, group[2]), min(group[2])))
    # the first kind of name that tells the classes apart
    named: list[list[str | None]] = [
        [identify_arm(*part) if part else None for _capacity, part, _cpus in groups],
        [f"capacity {capacity}" if capacity is not None else None for capacity, _part, _cpus in groups],
        [f"part {part[0]:#x} {part[1]:#x}" if part else "unknown" for _capacity, part, _cpus in groups],
    ]
    return [
        CoreClass(
            next((name for names in named if (name := names[i]) and names.count(name) == 1), f"class {i}"),
            frozenset(cpus),
            capacity,
        )
        for i, (capacity, _part, cpus) in enumerate(groups)
    ]


def _fastest(readings: Readings, cpus: Iterable[int]) -> int:
    return max(readings.number(f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq") or 0 for cpu in cpus)


CLASS_FIGURES = (
    "cores",
    "microarchitecture",
    "base_mhz",
    "max_mhz",
    "dp_flops_per_cycle",
    "rpeak_gflops",
)


def _describe(
    readings: Readings, kind: CoreClass, cores: Domains, cpuinfo: Cpuinfo, alone: bool
) -> dict[str, tuple[Any, str]]:
    """CLASS_FIGURES of one class, each with its source; ``alone`` when the machine has no other."""
    fields = cpuinfo.of(min(kind.cpus))
    names = {_identify(readings, cpu, cpuinfo, kind.name) for cpu in kind.cpus}
    microarchitecture = names.pop() if len(names) == 1 else None
    per_cycle, flops_source = dp_flops_per_cycle(microarchitecture, fields.get("model name"))
    count = sum(core <= kind.cpus for core in cores.sets) or None
    base, base_source = _base_clock(readings, kind, fields if alone else {})
    top = _fastest(readings, kind.cpus) / 1000 or None
    return {
        "cores": (count, cores.source),
        "microarchitecture": (
            microarchitecture,
            "/proc/cpuinfo family and model, or Arm implementer and part",
        ),
        "base_mhz": (base, base_source),
        "max_mhz": (top, f"{CPUS}/cpu*/cpufreq/cpuinfo_max_freq, the highest"),
        "dp_flops_per_cycle": (per_cycle, flops_source),
        "rpeak_gflops": (_gflops(count, top if base is None else base, per_cycle), "cores x clock x FLOPs"),
    }


def _choose(classes: list[CoreClass], described: list[dict[str, tuple[Any, str]]]) -> int:
    """The class that computes most, as every rank of HPL has the same share of the matrix.

    Measured by the first of these that is known of all classes: peak, cores x capacity (which is work in a
    time), cores x maximum clock, cores. The first class where none is.
    """
    measures: tuple[Callable[[int], float | None], ...] = (
        lambda number: described[number]["rpeak_gflops"][0],
        lambda number: _product(described[number]["cores"][0], classes[number].capacity),
        lambda number: _product(described[number]["cores"][0], described[number]["max_mhz"][0]),
        lambda number: described[number]["cores"][0],
    )
    for measure in measures:
        values = [measure(number) for number in range(len(classes))]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            return values.index(max(known))
    return 0


def _product(*factors: float | None) -> float | None:
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def _gflops(cores: int | None, mhz: float | None, per_cycle: int | None) -> float | None:
    mflops = _product(cores, mhz, per_cycle)
    return None if mflops is None else round(mflops / 1000, 3)


def _identify(readings: Readings, cpu: int, cpuinfo: Cpuinfo, kind: str) -> str | None:
    midr = _midr(readings, cpu, cpuinfo)
    if midr:
        return identify_arm(*midr)
    fields = cpuinfo.of(cpu)
    try:
        return identify_x86(fields["vendor_id"], int(fields["cpu family"]), int(fields["model"]), kind)
    except (KeyError, ValueError):
        return None


def _base_clock(readings: Readings, kind: CoreClass, fields: dict[str, str]) -> tuple[float | None, str]:
    """The lowest base clock of the class in MHz; ``fields`` of /proc/cpuinfo if they hold for all of it."""
    for name, per_mhz in (("cpufreq/base_frequency", 1000), ("acpi_cppc/nominal_freq", 1)):
        clocks = [readings.number(f"{CPUS}/cpu{cpu}/{name}") for cpu in kind.cpus]
        known = [clock for clock in clocks if clock]
        if known and len(known) == len(clocks):
            return min(known) / per_mhz, f"{CPUS}/cpu*/{name}, the lowest"
    named = re.search(r"@ (\d+\.?\d*)GHz", fields.get("model name", ""))
    if named:
        return float(named.group(1)) * 1000, "/proc/cpuinfo model name"
    # On x86 the kernel takes bogomips from the time stamp counter, which runs at the nominal clock; a guest
    # sees no other.
    bogomips = fields.get("bogomips", "")
    if "constant_tsc" in fields.get("flags", "").split() and re.fullmatch(r"\d+\.?\d*", bogomips):
        return round(float(bogomips) / 2, 1), "/proc/cpuinfo bogomips / 2, the rate of the constant TSC"
    return None, "no base_frequency, nominal_freq, clock in the model name, or constant TSC"
