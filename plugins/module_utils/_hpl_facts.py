# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has that HPL can use, read from /proc and /sys.

Every reader takes the root of a tree, "/" or a recorded one, and reads nothing outside it. What the tree does
not tell is None, never a guess; Readings keeps where each figure came from.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from ._hpl_cpu import dp_flops_per_cycle, identify_arm, identify_x86

T = TypeVar("T")

NO_LIMIT = 2**60
"""cgroup v1 has no word for "no limit": it prints the largest multiple of the page size, near 2**63."""


class Readings:
    """A tree of /proc and /sys, and the source of every figure that was read from it."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.sources: dict[str, str] = {}

    def path(self, name: str) -> str:
        """Return where the absolute path ``name`` lies in the tree."""
        return os.path.join(self.root, name.lstrip("/"))

    def text(self, name: str) -> str | None:
        """Return the contents of the file ``name``, or None when it cannot be read."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """Return the integer that the file ``name`` holds, or None."""
        text = self.text(name)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None

    def names(self, folder: str, pattern: str) -> list[str]:
        """Return the entries of ``folder`` that match ``pattern`` in full, sorted; none when it does not
        exist.
        """
        try:
            return sorted(entry for entry in os.listdir(self.path(folder)) if re.fullmatch(pattern, entry))
        except OSError:
            return []

    def note(self, key: str, value: T, source: str) -> T:
        """Remember that the figure ``key`` came from ``source``, and return it."""
        self.sources[key] = source
        return value


def read_facts(root: str = "/") -> dict[str, Any]:
    """Return memory, swap_used_bytes, cpu, nofile, machine and hostname of the tree at ``root``, with
    ``sources``.

    ``sources`` maps the dotted name of a figure to the file it came from, or to why it is None.
    """
    readings = Readings(root)
    meminfo = _meminfo(readings)
    return {
        "memory": read_memory(readings, meminfo),
        "swap_used_bytes": _swap_used(readings, meminfo),
        "cpu": read_cpu(readings),
        "nofile": _nofile(readings),
        "machine": _machine(readings),
        "hostname": readings.note(
            "hostname",
            (readings.text("/proc/sys/kernel/hostname") or "").strip() or None,
            "/proc/sys/kernel/hostname",
        ),
        "sources": readings.sources,
    }


def parse_cpu_list(text: str | None) -> list[int]:
    """Return the CPUs of a kernel list such as ``0-3,8,10-11``, sorted; an empty list for None or nothing."""
    cpus: set[int] = set()
    for part in (text or "").strip().split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found:
            cpus.update(range(int(found.group(1)), int(found.group(2) or found.group(1)) + 1))
    return sorted(cpus)


def parse_mpirun_version(text: str, path: str) -> dict[str, str] | None:
    """Return family (openmpi, mpich or intelmpi), version and path from what ``mpirun --version`` prints,
    or None.
    """
    for family, pattern in (
        ("openmpi", r"\((?:Open MPI|OpenRTE|PRRTE)\)\s+(\d[\w.]*)"),
        ("intelmpi", r"Intel\(R\) MPI Library.*?Version\s+(\S+)"),
        ("mpich", r"HYDRA build details:.*?Version:\s*(\d\S*)"),
    ):
        found = re.search(pattern, text, re.DOTALL)
        if found:
            return {"family": family, "version": found.group(1), "path": path}
    return None


def _meminfo(readings: Readings) -> dict[str, int]:
    """/proc/meminfo in bytes (HugePages_* are counts)."""
    found = re.findall(r"^(\S+):\s+(\d+)( kB)?\s*$", readings.text("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(value) * (1024 if unit else 1) for name, value, unit in found}


def read_memory(readings: Readings, meminfo: dict[str, int]) -> dict[str, int | None]:
    """Return the memory figures, all in bytes.

    usable_bytes is the least of MemAvailable and of what every memory cgroup above this process leaves (its
    limit less what it uses; page cache that it can drop, inactive_file, does not count as used). limit_bytes
    is the tightest of those limits. Huge pages set aside are already missing from MemAvailable.
    """
    available, source = meminfo.get("MemAvailable"), "/proc/meminfo MemAvailable"
    if available is None:  # a kernel before 3.14: free memory is the least that can be had
        available, source = meminfo.get("MemFree"), "/proc/meminfo MemFree"
    levels = _memory_levels(readings)
    tightest = min(levels, key=lambda level: (level[1], level[0])) if levels else None
    bounds = [(available, source)] if available is not None else []
    bounds += [(max(0, limit - used), f"{folder}: limit less use") for folder, limit, used in levels]
    usable, usable_source = min(bounds) if bounds else (None, "unknown")
    huge = meminfo.get("Hugetlb")
    if huge is None and "HugePages_Total" in meminfo:
        huge = meminfo["HugePages_Total"] * meminfo.get("Hugepagesize", 0)
    note = readings.note
    return {
        "total_bytes": note("memory.total_bytes", meminfo.get("MemTotal"), "/proc/meminfo MemTotal"),
        "available_bytes": note("memory.available_bytes", available, source),
        "limit_bytes": note(
            "memory.limit_bytes",
            tightest[1] if tightest else None,
            tightest[0] if tightest else "no memory cgroup limit",
        ),
        "limit_used_bytes": note(
            "memory.limit_used_bytes",
            tightest[2] if tightest else None,
            f"{tightest[0]}: usage less inactive_file" if tightest else "no memory cgroup limit",
        ),
        "hugepages_bytes": note("memory.hugepages_bytes", huge, "/proc/meminfo Hugetlb"),
        "usable_bytes": note("memory.usable_bytes", usable, usable_source),
    }


def _memory_levels(readings: Readings) -> list[tuple[str, int, int]]:
    """(folder, limit, used) of every cgroup above this process that limits memory."""
    levels = []
    for folder in _cgroup_folders(readings, "memory"):
        limit = readings.number(f"{folder}/memory.limit_in_bytes")
        used = readings.number(f"{folder}/memory.usage_in_bytes")
        if limit is not None and used is not None and limit < NO_LIMIT:
            levels.append(
                (folder, limit, max(0, used - _inactive_file(readings, folder, "total_inactive_file")))
            )
    for folder in _cgroup_folders(readings, None):
        # above memory.high a group is throttled until it gives memory back: for a matrix that is a limit
        limits = [readings.number(f"{folder}/memory.{name}") for name in ("max", "high")]
        numbers = [limit for limit in limits if limit is not None]
        used = readings.number(f"{folder}/memory.current")
        if numbers and used is not None:
            levels.append(
                (folder, min(numbers), max(0, used - _inactive_file(readings, folder, "inactive_file")))
            )
    return levels


def _inactive_file(readings: Readings, folder: str, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", readings.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    return int(found.group(1)) if found else 0


def _cgroup_folders(readings: Readings, controller: str | None) -> list[str]:
    """This process's cgroup folder and all above it that can be seen, for a v1 controller or (None) for
    v2.
    """
    kind = "cgroup" if controller else "cgroup2"
    for line in (readings.text("/proc/self/mountinfo") or "").splitlines():
        before, _dash, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) < 5 or len(tail) < 3 or tail[0] != kind:
            continue
        if controller and controller not in tail[2].split(","):
            continue
        mounted, mount_point = fields[3], fields[4].rstrip("/")
        member = _cgroup_path(readings, controller)
        # inside a container the mount shows only the container's part of the hierarchy
        inside = member[len(mounted.rstrip("/")) :] if member.startswith(mounted.rstrip("/") + "/") else ""
        parts = [part for part in inside.split("/") if part]
        if ".." in parts:
            parts = []
        return ["/".join([mount_point, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return []


def _cgroup_path(readings: Readings, controller: str | None) -> str:
    for line in (readings.text("/proc/self/cgroup") or "").splitlines():
        hierarchy, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if (controller in controllers.split(",")) if controller else (hierarchy == "0" and not controllers):
            return path
    return "/"


def _swap_used(readings: Readings, meminfo: dict[str, int]) -> int | None:
    total, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
    used = total - free if total is not None and free is not None else None
    return readings.note("swap_used_bytes", used, "/proc/meminfo SwapTotal less SwapFree")


def read_cpu(readings: Readings) -> dict[str, Any]:
    """Return the CPU figures, of the CPUs that this process may use.

    physical_cores counts cores, not SMT threads, and no more than the CPU quota of the cgroup (rounded down,
    at least 1). base_mhz and max_mhz are clocks in MHz; rpeak_gflops is physical_cores x clock x FLOPs per
    cycle, at the base clock or, where that is unknown, at the maximum clock.
    """
    note = readings.note
    allowed = _allowed_cpus(readings)
    cpuinfo = _cpuinfo(readings)
    first = next((cpuinfo[cpu] for cpu in allowed if cpu in cpuinfo), cpuinfo.get(0, {}))
    names = {_identify(cpuinfo[cpu]) for cpu in allowed if cpu in cpuinfo}
    microarchitecture = names.pop() if len(names) == 1 else None
    model = first.get("model name") or (readings.text("/proc/device-tree/model") or "").strip("\0\n ") or None
    cores, threads_per_core = _cores(readings, allowed, cpuinfo)
    quota = _quota(readings)
    if cores is not None and quota is not None:
        cores = min(cores, max(1, math.floor(quota)))
        readings.sources["cpu.physical_cores"] += f"; at most the quota of {quota:g} CPUs"
    base, top = _clocks(readings, allowed, first)
    per_cycle, flops_source = dp_flops_per_cycle(microarchitecture, model)
    clock, clock_name = (base, "base_mhz") if base is not None else (top, "max_mhz")
    rpeak = None
    if cores is not None and clock is not None and per_cycle is not None:
        rpeak = round(cores * clock * per_cycle / 1000, 3)
    return {
        "model": note("cpu.model", model, "/proc/cpuinfo or /proc/device-tree/model"),
        "vendor": note(
            "cpu.vendor",
            first.get("vendor_id") or first.get("CPU implementer"),
            "/proc/cpuinfo vendor_id, CPU implementer",
        ),
        "microarchitecture": note(
            "cpu.microarchitecture",
            microarchitecture,
            "/proc/cpuinfo family and model, or Arm implementer and part",
        ),
        "physical_cores": cores,
        "allowed_cpus": note("cpu.allowed_cpus", len(allowed) or None, "/proc/self/status Cpus_allowed_list"),
        "sockets": note(
            "cpu.sockets",
            _distinct(readings, allowed, "topology/physical_package_id"),
            "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
        ),
        "numa_nodes": _numa_nodes(readings, allowed),
        "l3_groups": _l3_groups(readings, allowed),
        "threads_per_core": threads_per_core,
        "quota_cpus": quota,
        "base_mhz": base,
        "max_mhz": top,
        "dp_flops_per_cycle": note("cpu.dp_flops_per_cycle", per_cycle, flops_source),
        "rpeak_gflops": note(
            "cpu.rpeak_gflops", rpeak, f"physical_cores x {clock_name} x dp_flops_per_cycle"
        ),
    }


def _allowed_cpus(readings: Readings) -> list[int]:
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)", readings.text("/proc/self/status") or "", re.MULTILINE)
    online = parse_cpu_list(readings.text("/sys/devices/system/cpu/online"))
    if not found:
        return online
    # Cpus_allowed may name CPUs that are absent or off
    return (
        sorted(set(parse_cpu_list(found.group(1))) & set(online))
        if online
        else parse_cpu_list(found.group(1))
    )


def _cpuinfo(readings: Readings) -> dict[int, dict[str, str]]:
    """/proc/cpuinfo by CPU number; lines outside a CPU's block (some Arm kernels have them) belong to
    none.
    """
    cpus: dict[int, dict[str, str]] = {}
    for block in (readings.text("/proc/cpuinfo") or "").split("\n\n"):
        fields = dict(re.findall(r"^([^:\t]+?)[ \t]*:[ \t]*(.*?)[ \t]*$", block, re.MULTILINE))
        if fields.get("processor", "").isdigit():
            cpus[int(fields["processor"])] = fields
    return cpus


def _identify(fields: dict[str, str]) -> str | None:
    try:
        if "CPU implementer" in fields:
            return identify_arm(int(fields["CPU implementer"], 16), int(fields["CPU part"], 16))
        return identify_x86(fields["vendor_id"], int(fields["cpu family"]), int(fields["model"]))
    except (KeyError, ValueError):
        return None


def _cores(
    readings: Readings, allowed: Iterable[int], cpuinfo: dict[int, dict[str, str]]
) -> tuple[int | None, int | None]:
    """(physical cores among ``allowed``, SMT threads per core)."""
    siblings: set[tuple[int, ...]] = set()
    source = "/sys/devices/system/cpu/cpu*/topology/core_cpus_list, thread_siblings_list"
    for cpu in allowed:
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        group = readings.text(f"{folder}/core_cpus_list") or readings.text(f"{folder}/thread_siblings_list")
        if group is None:
            siblings.clear()
            break
        siblings.add(tuple(parse_cpu_list(group)))
    if siblings:
        threads = readings.note("cpu.threads_per_core", max(len(group) for group in siblings), source)
        return readings.note("cpu.physical_cores", len(siblings), source), threads
    numbers = {
        (cpuinfo[cpu]["physical id"], cpuinfo[cpu]["core id"])
        for cpu in allowed
        if "physical id" in cpuinfo.get(cpu, {}) and "core id" in cpuinfo[cpu]
    }
    readings.note("cpu.threads_per_core", None, "no topology in /sys")
    source = "/proc/cpuinfo physical id, core id" if numbers else "no topology in /sys or /proc/cpuinfo"
    return readings.note("cpu.physical_cores", len(numbers) or None, source), None


def _distinct(readings: Readings, allowed: Iterable[int], name: str) -> int | None:
    found = {readings.text(f"/sys/devices/system/cpu/cpu{cpu}/{name}") for cpu in allowed}
    return len(found) if found and None not in found else None


def _numa_nodes(readings: Readings, allowed: list[int]) -> int | None:
    folder = "/sys/devices/system/node"
    nodes = [
        parse_cpu_list(readings.text(f"{folder}/{node}/cpulist"))
        for node in readings.names(folder, r"node\d+")
    ]
    count = sum(1 for cpus in nodes if set(cpus) & set(allowed))
    return readings.note("cpu.numa_nodes", count or None, f"{folder}/node*/cpulist")


def _l3_groups(readings: Readings, allowed: Iterable[int]) -> int | None:
    groups = set()
    for cpu in allowed:
        folder = f"/sys/devices/system/cpu/cpu{cpu}/cache"
        for index in readings.names(folder, r"index\d+"):
            if readings.number(f"{folder}/{index}/level") == 3:
                groups.add(readings.text(f"{folder}/{index}/shared_cpu_list"))
    source = "/sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list of level 3"
    return readings.note("cpu.l3_groups", len(groups) or None, source)


def _quota(readings: Readings) -> float | None:
    quotas = []
    for folder in _cgroup_folders(readings, "cpu"):
        quota, period = (readings.number(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and quota > 0 and period:
            quotas.append((quota / period, f"{folder}/cpu.cfs_quota_us"))
    for folder in _cgroup_folders(readings, None):
        found = re.match(r"(\d+) (\d+)", readings.text(f"{folder}/cpu.max") or "")
        if found and int(found.group(2)):
            quotas.append((int(found.group(1)) / int(found.group(2)), f"{folder}/cpu.max"))
    cpus, source = min(quotas) if quotas else (None, "no CPU quota")
    return readings.note("cpu.quota_cpus", cpus, source)


def _clocks(
    readings: Readings, allowed: list[int], fields: dict[str, str]
) -> tuple[float | None, float | None]:
    """(base, maximum) clock in MHz of the first allowed CPU."""
    folder = f"/sys/devices/system/cpu/cpu{allowed[0] if allowed else 0}"
    top = readings.number(f"{folder}/cpufreq/cpuinfo_max_freq")
    readings.note("cpu.max_mhz", top, f"{folder}/cpufreq/cpuinfo_max_freq")
    base, source = _base_clock(readings, folder, fields)
    return readings.note("cpu.base_mhz", base, source), top / 1000 if top else None


def _base_clock(readings: Readings, folder: str, fields: dict[str, str]) -> tuple[float | None, str]:
    khz = readings.number(f"{folder}/cpufreq/base_frequency")
    if khz:
        return khz / 1000, f"{folder}/cpufreq/base_frequency"
    mhz = readings.number(f"{folder}/acpi_cppc/nominal_freq")
    if mhz:
        return float(mhz), f"{folder}/acpi_cppc/nominal_freq"
    named = re.search(r"@ ([\d.]+)GHz", fields.get("model name", ""))
    if named:
        return float(named.group(1)) * 1000, "/proc/cpuinfo model name"
    # On x86 the kernel takes bogomips from the time stamp counter, which runs at the nominal clock; a guest
    # sees no other.
    if "constant_tsc" in fields.get("flags", "").split() and re.fullmatch(
        r"[\d.]+", fields.get("bogomips", "")
    ):
        return round(
            float(fields["bogomips"]) / 2, 1
        ), "/proc/cpuinfo bogomips / 2, the rate of the constant TSC"
    return None, "no base_frequency, nominal_freq, clock in the model name, or constant TSC"


def _nofile(readings: Readings) -> int | None:
    found = re.search(
        r"^Max open files\s+(\d+|unlimited)", readings.text("/proc/self/limits") or "", re.MULTILINE
    )
    value = int(found.group(1)) if found and found.group(1).isdigit() else None
    return readings.note("nofile", value, "/proc/self/limits, soft limit")


def _machine(readings: Readings) -> str | None:
    text = readings.text("/proc/sys/kernel/arch")
    value = (text or "").strip() or None
    if value is None and os.path.realpath(readings.root) == "/":
        return readings.note("machine", os.uname().machine, "uname -m")
    return readings.note("machine", value, "/proc/sys/kernel/arch")
