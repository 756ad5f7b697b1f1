# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of a node, and what rocHPL needs to know of each model.

AMD's come from the topology that the kernel's compute driver (KFD) writes to /sys, NVIDIA's from what
nvidia-smi prints. An MI250X has two dies (GCDs), which the driver, ROCm and rocHPL all treat as two GPUs; an
MI300X that is set up in partitions appears as one GPU a partition. One entry is one such device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._hpl_readings import Readings

KFD_NODES = "/sys/class/kfd/kfd/topology/nodes"
NVIDIA_QUERY = "name,memory.total,pci.bus_id,compute_cap"
"""The fields that parse_nvidia_smi reads, for ``nvidia-smi --query-gpu``."""

_DEVICE_MEMORY_HEAPS = (1, 2)  # KFD heap types: frame buffer that the CPU can see, and that it cannot
_CDNA3_NB = "rocHPL wiki, MI210 and MI250X; none is published for gfx942"


@dataclass(frozen=True)
class GpuModel:
    """One row: an AMD accelerator, in figures of one GCD.

    ``fp64_tflops`` is the peak of the matrix cores, or of the vector units where those compute no FP64, from
    ``peak_source``; None where the vendor publishes none. ``rochpl_nb`` is rocHPL's block size for it.
    """

    name: str
    target: str
    device_ids: tuple[int, ...]
    compute_units: int
    memory_gib: int
    fp64_tflops: float | None
    peak_source: str
    rochpl_nb: int | None
    nb_source: str


def _sheet(name: str, detail: str) -> str:
    return f"AMD data sheet, Instinct {name}: {detail}"


# PCI device ids: libdrm's amdgpu.ids and the PCI ID database (virtual functions included)
_ROWS = (
    GpuModel(
        "MI50",
        "gfx906",
        (0x66A0, 0x66A1),
        60,
        16,
        6.6,
        _sheet("MI50", "FP64"),
        384,
        "rocHPL wiki, 16 GB cards",
    ),
    GpuModel(
        "MI60",
        "gfx906",
        (0x66A0, 0x66A1),
        64,
        32,
        7.4,
        _sheet("MI60", "FP64"),
        512,
        "rocHPL wiki, 32 GB cards",
    ),
    GpuModel(
        "MI100", "gfx908", (0x738C, 0x738E), 120, 32, 11.5, _sheet("MI100", "FP64"), 512, "rocHPL wiki, MI100"
    ),
    GpuModel(
        "MI210", "gfx90a", (0x740F,), 104, 64, 45.3, _sheet("MI210", "FP64 matrix"), 512, "rocHPL wiki, MI210"
    ),
    GpuModel(
        "MI250",
        "gfx90a",
        (0x740C,),
        104,
        64,
        45.25,
        _sheet("MI250", "FP64 matrix 90.5 of two GCDs"),
        512,
        "rocHPL wiki, MI250X",
    ),
    GpuModel(
        "MI250X",
        "gfx90a",
        (0x7408, 0x740C),
        110,
        64,
        47.85,
        _sheet("MI250X", "FP64 matrix 95.7 of two GCDs"),
        512,
        "rocHPL wiki, MI250X",
    ),
    GpuModel("MI300A", "gfx942", (0x74A0,), 228, 128, 122.6, _sheet("MI300A", "FP64 matrix"), 512, _CDNA3_NB),
    GpuModel(
        "MI300X",
        "gfx942",
        (0x74A1, 0x74A9, 0x74B5, 0x74BD),
        304,
        192,
        163.4,
        _sheet("MI300X", "FP64 matrix"),
        512,
        _CDNA3_NB,
    ),
    GpuModel(
        "MI308X",
        "gfx942",
        (0x74A2, 0x74A8, 0x74B6),
        80,
        192,
        None,
        "no FP64 peak of the MI308X found in AMD's data sheets",
        512,
        _CDNA3_NB,
    ),
    GpuModel(
        "MI325X", "gfx942", (0x74A5, 0x74B9), 304, 256, 163.4, _sheet("MI325X", "FP64 matrix"), 512, _CDNA3_NB
    ),
    GpuModel(
        "MI350X",
        "gfx950",
        (0x75A0, 0x75B0),
        256,
        288,
        72.1,
        _sheet("MI350X", "FP64 matrix"),
        896,
        "rocHPL README, MI355X",
    ),
    GpuModel(
        "MI355X",
        "gfx950",
        (0x75A3, 0x75B3),
        256,
        288,
        78.6,
        _sheet("MI355X", "FP64 matrix"),
        896,
        "rocHPL README, MI355X",
    ),
)
GPU_MODELS: Mapping[str, GpuModel] = {row.name: row for row in _ROWS}


def fp64_tflops(gpu: Mapping[str, Any]) -> tuple[float | None, str]:
    """FP64 peak in TFLOPS of one entry of the facts' ``gpus``, with the source; (None, reason) where unknown.

    A partition has the share of the peak that it has of the compute units.
    """
    row = GPU_MODELS.get(gpu.get("name") or "")
    if row is None:
        return None, f"no row for the GPU {gpu.get('name') or gpu.get('target')} in the GPU table"
    if row.fp64_tflops is None:
        return None, row.peak_source
    share = (gpu.get("compute_units") or row.compute_units) / row.compute_units
    return round(row.fp64_tflops * share, 3), row.peak_source


def rochpl_nb(gpu: Mapping[str, Any]) -> tuple[int | None, str]:
    """rocHPL's NB for one entry of the facts' ``gpus``, with the source; (None, reason) where unknown.

    A GPU of unknown name takes that of the model with its gfx target whose memory is nearest.
    """
    rows = [row for row in _ROWS if row.target == gpu.get("target")]
    if not rows:
        return None, f"no row for the gfx target {gpu.get('target')} in the GPU table"
    gib = (gpu.get("memory_bytes") or 0) / 2**30
    row = min(rows, key=lambda row: (row.name != gpu.get("name"), abs(row.memory_gib - gib)))
    return row.rochpl_nb, row.nb_source


def gfx_target(version: int) -> str | None:
    """Return the target that compilers know, ``gfx90a``, of KFD's gfx_target_version, 90010; None for 0."""
    if version <= 0:
        return None
    # KFD writes major * 10000 + minor * 100 + step; LLVM writes minor and step as one hexadecimal digit each
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_amd_gpus(readings: Readings) -> tuple[list[dict[str, Any]], str]:
    """Return the AMD GPUs of the tree in the order of the driver, which is that of ROCm, and the source.

    A container sees the nodes of all GPUs but may read only those of its own: the others are left out, and
    the source says how many.
    """
    nodes = {
        number: _properties(readings, f"{KFD_NODES}/{number}/properties")
        for number in readings.numbers(KFD_NODES, "")
    }
    if not nodes:
        return [], f"no {KFD_NODES}"
    hidden = sum(1 for properties in nodes.values() if not properties)
    numa = _numa_of_cpu_nodes(readings, nodes)
    gpus = [
        _amd_gpu(readings, number, properties, numa)
        for number, properties in nodes.items()
        if properties.get("simd_count")
    ]
    source = f"{KFD_NODES}/*/properties"
    return gpus, source + (f"; {hidden} that this process may not read left out" if hidden else "")


def parse_nvidia_smi(text: str) -> list[dict[str, Any]]:
    """Return the GPUs in what ``nvidia-smi --query-gpu=NVIDIA_QUERY --format=csv,noheader,nounits`` prints.

    ``numa_node`` is None: see numa_node(). Lines that are no such row, as its errors, give no GPU.
    """
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.rsplit(",", 3)]
        bus = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])", fields[-2:][0])
        if len(fields) != 4 or not bus:
            continue
        # a field that the driver cannot tell is [N/A], [Not Supported] or another word in brackets
        mib = int(fields[1]) if re.fullmatch(r"[0-9]{1,9}", fields[1]) else None
        gpus.append(
            {
                "vendor": "nvidia",
                "name": None if fields[0].startswith("[") else fields[0] or None,
                "target": fields[3] if re.fullmatch(r"[0-9]+\.[0-9]+", fields[3]) else None,
                "compute_units": None,
                "memory_bytes": mib * 2**20 if mib is not None else None,
                "numa_node": None,
                "pci": f"{int(bus.group(1), 16):04x}:{bus.group(2).lower()}",
            }
        )
    return gpus


def numa_node(readings: Readings, device: str) -> int | None:
    """Return the NUMA node of the device whose folder in /sys is ``device``; None where it has none (-1)."""
    node = readings.number(f"{device}/numa_node")
    return node if node is not None and node >= 0 else None


def _properties(readings: Readings, name: str) -> dict[str, int]:
    """A KFD file of names and numbers; empty when it cannot be read."""
    found = re.findall(r"^(\w+) ([0-9]{1,20})$", readings.text(name) or "", re.MULTILINE)
    return {key: int(value) for key, value in found}


def _amd_gpu(
    readings: Readings, number: int, properties: Mapping[str, int], numa_of_cpu: Mapping[int, int]
) -> dict[str, Any]:
    units = properties["simd_count"] // (properties.get("simd_per_cu") or 4)
    pci = _pci_address(readings, properties)
    render = f"/sys/class/drm/renderD{properties.get('drm_render_minor', 0)}/device"
    node = numa_node(readings, render)
    if node is None:
        node = numa_node(readings, f"/sys/bus/pci/devices/{pci}")
    if node is None:
        node = _linked_numa(readings, number, numa_of_cpu)
    folder = f"{KFD_NODES}/{number}/mem_banks"
    banks = [_properties(readings, f"{folder}/{bank}/properties") for bank in readings.numbers(folder, "")]
    memory = sum(b.get("size_in_bytes", 0) for b in banks if b.get("heap_type") in _DEVICE_MEMORY_HEAPS)
    return {
        "vendor": "amd",
        "name": _name(properties.get("device_id", 0), units)
        or (readings.text(f"{render}/product_name") or "").strip()
        or None,
        "target": gfx_target(properties.get("gfx_target_version", 0)),
        "compute_units": units,
        "memory_bytes": memory or None,
        "numa_node": node,
        "pci": pci,
    }


def _name(device_id: int, compute_units: int) -> str | None:
    rows = [row for row in _ROWS if device_id in row.device_ids]
    if not rows:
        return None
    # models that share a device id differ in their compute units
    return min(rows, key=lambda row: abs(row.compute_units - compute_units)).name


def _pci_address(readings: Readings, properties: Mapping[str, int]) -> str:
    location = properties.get("location_id", 0)
    device = f"{properties.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}"
    # KFD writes the number of a partition where the PCI function belongs: all are function 0
    for function in (location & 7, 0):
        if readings.text(f"/sys/bus/pci/devices/{device}.{function}/numa_node") is not None:
            return f"{device}.{function}"
    return f"{device}.{location & 7}"


def _numa_of_cpu_nodes(readings: Readings, nodes: Mapping[int, Mapping[str, int]]) -> dict[int, int]:
    """NUMA node of each KFD node that is a CPU: KFD counts the NUMA nodes that have CPUs, in order."""
    cpus = [number for number, properties in nodes.items() if properties and not properties.get("simd_count")]
    folder = "/sys/devices/system/node"
    numa = [
        node for node in readings.numbers(folder, "node") if readings.cpus(f"{folder}/node{node}/cpulist")
    ]
    return dict(zip(cpus, numa if len(numa) == len(cpus) else cpus))


def _linked_numa(readings: Readings, number: int, numa_of_cpu: Mapping[int, int]) -> int | None:
    folder = f"{KFD_NODES}/{number}/io_links"
    links = [_properties(readings, f"{folder}/{link}/properties") for link in readings.numbers(folder, "")]
    near = [(link.get("weight", 0), link["node_to"]) for link in links if link.get("node_to") in numa_of_cpu]
    return numa_of_cpu[min(near)[1]] if near else None
