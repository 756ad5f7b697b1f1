# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CPU is called, what it computes in a cycle, and the block size that suits it.

Every row says where its figures come from. A CPU without a row stays unknown: the planner works without it
and says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BLIS_TABLE = "BLIS docs/Performance.md"
VPU_COUNT = "jeffhammond/vpu-count: FMA units by model name"
OPENBLAS_Q = "OpenBLAS param.h DGEMM_DEFAULT_Q"
ISA_WIDTH = "vector width x FMA units x 2, from the vendor's microarchitecture description"


@dataclass(frozen=True)
class Microarchitecture:
    """One row: name, double precision FLOPs per cycle and core, NB, and the source of both.

    ``dp_flops_per_cycle`` is None where it depends on the model name or is not known.
    """

    name: str
    dp_flops_per_cycle: int | None
    flops_source: str
    nb: int | None
    nb_source: str


_ROWS = (
    Microarchitecture("nehalem", 4, ISA_WIDTH, None, ""),
    Microarchitecture("sandybridge", 8, ISA_WIDTH, 256, "oneMKL benchmark guide, Intel AVX"),
    Microarchitecture("ivybridge", 8, ISA_WIDTH, 256, "oneMKL benchmark guide, Intel AVX"),
    Microarchitecture("haswell", 16, BLIS_TABLE, 256, OPENBLAS_Q),
    Microarchitecture("broadwell", 16, BLIS_TABLE, 256, OPENBLAS_Q + " (Haswell kernel)"),
    Microarchitecture("skylakex", None, VPU_COUNT, 384, OPENBLAS_Q + "; oneMKL benchmark guide, AVX-512"),
    Microarchitecture("icelakex", 32, ISA_WIDTH, 384, "oneMKL benchmark guide, AVX-512"),
    Microarchitecture("sapphirerapids", 32, ISA_WIDTH, 384, OPENBLAS_Q),
    Microarchitecture("zen", 8, BLIS_TABLE, 256, OPENBLAS_Q),
    Microarchitecture("zen2", 16, BLIS_TABLE, 256, OPENBLAS_Q),
    Microarchitecture("zen3", 16, ISA_WIDTH, 256, OPENBLAS_Q + "; measured best of 128, 192 and 256"),
    Microarchitecture("zen4", 16, ISA_WIDTH, 384, "ai-hpc.org, Genoa"),
    Microarchitecture("zen5", 32, ISA_WIDTH, 456, "AMD Zen HPL log"),
    Microarchitecture("zen5-mobile", 16, ISA_WIDTH, None, ""),
    Microarchitecture("neoverse-n1", 8, BLIS_TABLE, 256, "AmpereComputing HPL"),
    Microarchitecture("neoverse-n2", 8, ISA_WIDTH, None, ""),
    Microarchitecture("neoverse-v1", 16, ISA_WIDTH, None, ""),
    Microarchitecture("neoverse-v2", 16, ISA_WIDTH, None, ""),
    Microarchitecture("cortex-a72", 4, "johnduffymsc, Pi 4 cluster", 120, "johnduffymsc, Pi 4, OpenBLAS"),
    Microarchitecture("cortex-a76", 8, ISA_WIDTH, None, ""),
    Microarchitecture("thunderx2", 8, BLIS_TABLE, None, ""),
    Microarchitecture("a64fx", 32, BLIS_TABLE, None, ""),
    Microarchitecture("firestorm", 16, ISA_WIDTH, None, ""),
)
MICROARCHITECTURES: Mapping[str, Microarchitecture] = {row.name: row for row in _ROWS}

# (family, first model, last model, name), as the Linux kernel's arch/x86 tells them apart.
_X86: Mapping[str, Sequence[tuple[int, int, int, str]]] = {
    "AuthenticAMD": (
        (0x17, 0x00, 0x2F, "zen"),
        (0x17, 0x50, 0x5F, "zen"),
        (0x17, 0x30, 0x4F, "zen2"),
        (0x17, 0x60, 0x7F, "zen2"),
        (0x17, 0x90, 0x91, "zen2"),
        (0x17, 0xA0, 0xAF, "zen2"),
        (0x19, 0x00, 0x0F, "zen3"),
        (0x19, 0x20, 0x5F, "zen3"),
        (0x19, 0x10, 0x1F, "zen4"),
        (0x19, 0x60, 0xAF, "zen4"),
        (0x1A, 0x00, 0x1F, "zen5"),
        (0x1A, 0x40, 0x4F, "zen5"),
        (0x1A, 0x20, 0x2F, "zen5-mobile"),
    ),
    "GenuineIntel": tuple(
        (6, model, model, name)
        for name, models in (
            ("nehalem", (0x1A, 0x1E, 0x1F, 0x2E)),
            ("sandybridge", (0x2A, 0x2D)),
            ("ivybridge", (0x3A, 0x3E)),
            ("haswell", (0x3C, 0x3F, 0x45, 0x46)),
            ("broadwell", (0x3D, 0x47, 0x4F, 0x56)),
            ("skylakex", (0x55,)),
            ("icelakex", (0x6A, 0x6C)),
            ("sapphirerapids", (0x8F,)),
        )
        for model in models
    ),
}

# (CPU implementer, CPU part), Arm's MIDR_EL1 fields as /proc/cpuinfo prints them.
_ARM: Mapping[tuple[int, int], str] = {
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4F): "neoverse-v2",
    (0x42, 0x516): "thunderx2",
    (0x43, 0x0AF): "thunderx2",
    (0x46, 0x001): "a64fx",
    (0x61, 0x023): "firestorm",
}


def identify_x86(vendor: str, family: int, model: int) -> str | None:
    """Name the microarchitecture of an x86 CPU from ``/proc/cpuinfo``, or None when it has no row."""
    for row_family, first, last, name in _X86.get(vendor, ()):
        if family == row_family and first <= model <= last:
            return name
    return None


def identify_arm(implementer: int, part: int) -> str | None:
    """Name the microarchitecture of an Arm core, or None when it has no row."""
    return _ARM.get((implementer, part))


def dp_flops_per_cycle(microarchitecture: str | None, model_name: str | None) -> tuple[int | None, str]:
    """Double precision FLOPs per cycle and core, with the source; (None, reason) where unknown.

    Skylake-SP and Cascade Lake have one or two AVX-512 FMA units by model: the name decides.
    """
    row = MICROARCHITECTURES.get(microarchitecture or "")
    if row is None:
        return None, "no row for this CPU in the microarchitecture table"
    if row.name == "skylakex":
        if re.search(r"Platinum|Gold 6\d\d\d|Gold 5[12]22", model_name or ""):
            return 32, row.flops_source
        if re.search(r"Gold 5\d\d\d|Silver|Bronze", model_name or ""):
            return 16, row.flops_source
        return None, "one or two FMA units: the model name does not say"
    return row.dp_flops_per_cycle, row.flops_source
