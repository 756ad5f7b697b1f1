# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree of /proc and /sys, "/" or a recorded one, the kernel's number formats, and this process's cgroups.

Nothing outside the tree is read. What it does not tell is None, never a guess.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


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
                return stream.read().rstrip("\0")  # the device tree ends strings with it, some recordings all
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """Return the integer that the file ``name`` holds, or None."""
        text = self.text(name)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None

    def cpus(self, *names: str, as_list: bool = False) -> frozenset[int] | None:
        """Return the CPUs in the first of the files ``names`` that can be read, or None.

        Of topology files, those whose names end in ``list`` hold a list, the others a mask; with ``as_list``
        all hold lists.
        """
        for name in names:
            text = self.text(name)
            if text is not None:
                is_list = as_list or name.endswith("list")
                return frozenset(parse_cpu_list(text) if is_list else parse_cpu_mask(text))
        return None

    def names(self, folder: str, pattern: str) -> list[str]:
        """Return the entries of ``folder`` that match ``pattern`` in full, sorted; none when it does not
        exist.
        """
        try:
            return sorted(entry for entry in os.listdir(self.path(folder)) if re.fullmatch(pattern, entry))
        except OSError:
            return []

    def numbers(self, folder: str, prefix: str) -> list[int]:
        """Return the numbers of the entries of ``folder`` named ``prefix`` and a number, in order."""
        return sorted(int(name[len(prefix) :]) for name in self.names(folder, prefix + "[0-9]{1,6}"))

    def note(self, key: str, value: T, source: str) -> T:
        """Remember that the figure ``key`` came from ``source``, and return it."""
        self.sources[key] = source
        return value


def parse_cpu_list(text: str | None) -> list[int]:
    """Return the CPUs of a kernel list such as ``0-3,8,10-11``, sorted; an empty list for None or nothing.

    What is no number or range of up to six digits is left out.
    """
    cpus: set[int] = set()
    for part in (text or "").split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
        if found:
            cpus.update(range(int(found.group(1)), int(found.group(2) or found.group(1)) + 1))
    return sorted(cpus)


def parse_cpu_mask(text: str | None) -> list[int]:
    """Return the CPUs of a kernel mask such as ``3,0000ffff`` (32 bit words, highest first), sorted.

    An empty list for None and for what is no mask.
    """
    words = (text or "").strip().split(",")
    if not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", word) for word in words):
        return []
    bits = int("".join(word.zfill(8) for word in words), 16)
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def parse_meminfo(text: str | None) -> dict[str, int]:
    """Return /proc/meminfo, or the meminfo of a NUMA node, in bytes (HugePages_* are counts)."""
    found = re.findall(r"^(?:Node [0-9]+ )?(\S+):\s+([0-9]{1,18})( kB)?\s*$", text or "", re.MULTILINE)
    return {name: int(value) * (1024 if unit else 1) for name, value, unit in found}


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Return ``cpus`` as the kernel writes a list: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def cgroup_folders(readings: Readings, controller: str | None) -> list[str]:
    """Return this process's cgroup folder and all above it that can be seen, innermost first, for a v1
    controller or (None) for v2.
    """
    for mounted, mount_point, kind, options in _mounts(readings):
        if controller is None:
            matches = kind == "cgroup2"
        else:
            # the file system cpuset is what cgroups grew from
            matches = (kind == "cgroup" and controller in options) or kind == controller == "cpuset"
        if not matches:
            continue
        member = _cgroup_path(readings, controller)
        # inside a container the mount shows only the container's part of the hierarchy
        inside = member[len(mounted) :] if member.startswith(mounted + "/") else ""
        parts = [part for part in inside.split("/") if part]
        if ".." in parts:
            parts = []
        return ["/".join([mount_point, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return []


def _mounts(readings: Readings) -> list[tuple[str, str, str, list[str]]]:
    """(root inside the file system, mount point, type, options of the file system) of every mount."""
    mounts = []
    for line in (readings.text("/proc/self/mountinfo") or "").splitlines():
        before, _dash, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3:
            mounts.append((fields[3].rstrip("/"), fields[4].rstrip("/"), tail[0], tail[2].split(",")))
    if mounts:
        return mounts
    for line in (readings.text("/proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) >= 4:
            mounts.append(("", fields[1].rstrip("/"), fields[2], fields[3].split(",")))
    return mounts


def _cgroup_path(readings: Readings, controller: str | None) -> str:
    for line in (readings.text("/proc/self/cgroup") or "").splitlines():
        hierarchy, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if (controller in controllers.split(",")) if controller else (hierarchy == "0" and not controllers):
            return path
    named = readings.text("/proc/self/cpuset") if controller in ("cpuset", None) else None
    return (named or "/").strip()
