# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has that HPL can use, from /proc and /sys: memory and limits here, CPUs in _hpl_topology."""

from __future__ import annotations

import os
import re
from typing import Any

from ._hpl_readings import Readings, cgroup_folders, parse_meminfo
from ._hpl_topology import NODES, memory_nodes, read_cpu

NO_LIMIT = 2**60
"""cgroup v1 has no word for "no limit": it prints the largest multiple of the page size, near 2**63."""


def read_facts(root: str = "/") -> dict[str, Any]:
    """Return memory, swap_used_bytes, cpu, nofile, machine and hostname of the tree at ``root``, with
    ``sources``.

    ``sources`` maps the dotted name of a figure to the file it came from, or to why it is None.
    """
    readings = Readings(root)
    meminfo = parse_meminfo(readings.text("/proc/meminfo"))
    return {
        "memory": read_memory(readings, meminfo),
        "swap_used_bytes": _swap_used(readings, meminfo),
        "cpu": read_cpu(readings, read_quota(readings)),
        "nofile": _nofile(readings),
        "machine": _machine(readings),
        "hostname": readings.note(
            "hostname",
            (readings.text("/proc/sys/kernel/hostname") or "").strip() or None,
            "/proc/sys/kernel/hostname",
        ),
        "sources": readings.sources,
    }


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


def read_memory(readings: Readings, meminfo: dict[str, int]) -> dict[str, int | None]:
    """Return the memory figures, all in bytes.

    usable_bytes is the least of MemAvailable, of what every memory cgroup above this process leaves (its
    limit less what it uses; page cache that it can drop, inactive_file, does not count as used), and, where
    this process may not use the memory of every NUMA node, of what is free on the others. limit_bytes is the
    tightest limit of a cgroup. Huge pages set aside are already missing from MemAvailable.
    """
    available, source = meminfo.get("MemAvailable"), "/proc/meminfo MemAvailable"
    if available is None:  # a kernel before 3.14: free memory is the least that can be had
        available, source = meminfo.get("MemFree"), "/proc/meminfo MemFree"
    levels = _memory_levels(readings)
    tightest = min(levels, key=lambda level: (level[1], level[0])) if levels else None
    bounds = [(available, source)] if available is not None else []
    bounds += [(max(0, limit - used), f"{folder}: limit less use") for folder, limit, used in levels]
    bounds += _nodes_bound(readings)
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
    for folder in cgroup_folders(readings, "memory"):
        limit = readings.number(f"{folder}/memory.limit_in_bytes")
        used = readings.number(f"{folder}/memory.usage_in_bytes")
        if limit is not None and used is not None and limit < NO_LIMIT:
            levels.append(
                (folder, limit, max(0, used - _inactive_file(readings, folder, "total_inactive_file")))
            )
    for folder in cgroup_folders(readings, None):
        # above memory.high a group is throttled until it gives memory back: for a matrix that is a limit
        limits = [readings.number(f"{folder}/memory.{name}") for name in ("max", "high")]
        numbers = [limit for limit in limits if limit is not None]
        used = readings.number(f"{folder}/memory.current")
        if numbers and used is not None:
            levels.append(
                (folder, min(numbers), max(0, used - _inactive_file(readings, folder, "inactive_file")))
            )
    return levels


def _nodes_bound(readings: Readings) -> list[tuple[int, str]]:
    """What is free on the NUMA nodes that this process may use, when there is memory on others too."""
    usable, source = memory_nodes(readings)
    nodes = {
        node: parse_meminfo(readings.text(f"{NODES}/node{node}/meminfo"))
        for node in readings.numbers(NODES, "node")
    }
    if not any(meminfo.get("MemTotal") for node, meminfo in nodes.items() if node not in usable):
        return []
    free = sum(
        meminfo.get("MemFree", 0) + meminfo.get("Inactive(file)", 0)
        for node, meminfo in nodes.items()
        if node in usable
    )
    return [(free, f"MemFree and Inactive(file) of the NUMA nodes of {source}")]


def _inactive_file(readings: Readings, folder: str, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", readings.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    return int(found.group(1)) if found else 0


def _swap_used(readings: Readings, meminfo: dict[str, int]) -> int | None:
    total, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
    used = total - free if total is not None and free is not None else None
    return readings.note("swap_used_bytes", used, "/proc/meminfo SwapTotal less SwapFree")


def read_quota(readings: Readings) -> tuple[float | None, str]:
    """Return the tightest CPU quota of the cgroups above this process, in CPUs (None without one), and its
    source.
    """
    quotas = []
    for folder in cgroup_folders(readings, "cpu"):
        quota, period = (readings.number(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and quota > 0 and period:
            quotas.append((quota / period, f"{folder}/cpu.cfs_quota_us"))
    for folder in cgroup_folders(readings, None):
        found = re.match(r"(\d+) (\d+)", readings.text(f"{folder}/cpu.max") or "")
        if found and int(found.group(2)):
            quotas.append((int(found.group(1)) / int(found.group(2)), f"{folder}/cpu.max"))
    return min(quotas) if quotas else (None, "no CPU quota")


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
