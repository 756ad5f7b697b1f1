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
from dataclasses import dataclass, field

BLIS_TABLE = "BLIS docs/Performance.md"
VPU_COUNT = "jeffhammond/vpu-count: FMA units by model name"
WIKICHIP = "WikiChip, FLOPS by microarchitecture"
OSACA = "OSACA (RRZE Erlangen), measured throughput of the FMA instruction"
LLVM = "LLVM scheduling model, FMA pipes x width"
ISA_WIDTH = "vector width x FMA units x 2, from the vendor's microarchitecture description"

OPENBLAS_Q = "OpenBLAS param.h, DGEMM_DEFAULT_Q"
BLIS_KC = "BLIS, KC of the configuration"
ONEMKL = "oneMKL benchmark guide"
AOCL = "AOCL user guide 57404, HPL on EPYC"

DEFAULT_BLAS = "openblas"
"""What the role hpl links with; its NB stands where a node does not tell its BLAS."""


@dataclass(frozen=True)
class Microarchitecture:
    """One row: name, double precision FLOPs per cycle and core, and NB by BLAS, each with its source.

    ``dp_flops_per_cycle`` is None where it depends on the model name or is not known.
    """

    name: str
    dp_flops_per_cycle: int | None
    flops_source: str
    nb: Mapping[str, tuple[int, str]] = field(default_factory=dict)


_ZEN = {
    "openblas": (256, OPENBLAS_Q + "; measured best of 128, 192 and 256 on Zen 3"),
    "blis": (240, AOCL),
}
_AVX2 = {"openblas": (256, OPENBLAS_Q), "blis": (256, BLIS_KC), "mkl": (192, ONEMKL + ", AVX2")}
_AVX512 = {"openblas": (384, OPENBLAS_Q), "blis": (256, BLIS_KC), "mkl": (384, ONEMKL + ", AVX-512")}
_AVX = {"openblas": (256, ONEMKL + ", AVX"), "mkl": (256, ONEMKL + ", AVX")}

_ROWS = (
    Microarchitecture("nehalem", 4, "stackoverflow.com/q/15655835, FLOPS per cycle"),
    Microarchitecture("sandybridge", 8, LLVM, _AVX),
    Microarchitecture("ivybridge", 8, LLVM + " of Sandy Bridge", _AVX),
    Microarchitecture("haswell", 16, BLIS_TABLE, _AVX2),
    Microarchitecture("broadwell", 16, BLIS_TABLE, _AVX2),
    Microarchitecture("skylake", 16, LLVM, _AVX2),
    Microarchitecture("skylakex", None, VPU_COUNT, _AVX512),
    # one 512 bit FMA pipe: the second one is in the server core only
    Microarchitecture("icelake", 16, OSACA, _AVX512),
    Microarchitecture("icelakex", 32, OSACA, _AVX512),
    Microarchitecture("sapphirerapids", 32, OSACA, _AVX512),
    Microarchitecture("emeraldrapids", 32, OSACA + " on Sapphire Rapids, the same core", _AVX512),
    Microarchitecture("graniterapids", 32, ISA_WIDTH, _AVX512),
    Microarchitecture("sierraforest", 8, ISA_WIDTH, _AVX2),
    # hybrid client CPUs have no AVX-512, and OpenBLAS runs its Haswell kernels on both kinds of cores
    Microarchitecture("goldencove", 16, LLVM, _AVX2),
    Microarchitecture("raptorcove", 16, LLVM + " of Golden Cove", _AVX2),
    Microarchitecture("redwoodcove", 16, LLVM + " of Golden Cove", _AVX2),
    Microarchitecture("lioncove", 16, ISA_WIDTH, _AVX2),
    Microarchitecture("gracemont", 8, ISA_WIDTH, _AVX2),
    Microarchitecture("crestmont", 8, ISA_WIDTH, _AVX2),
    Microarchitecture("skymont", 16, ISA_WIDTH, _AVX2),
    Microarchitecture("zen", 8, BLIS_TABLE, _ZEN),
    Microarchitecture("zen2", 16, BLIS_TABLE, _ZEN),
    Microarchitecture("zen3", 16, OSACA, _ZEN),
    Microarchitecture("zen4", 16, OSACA, {"openblas": (384, "ai-hpc.org, Genoa"), "blis": (240, AOCL)}),
    Microarchitecture(
        "zen5",
        32,
        OSACA,
        {"openblas": (384, OPENBLAS_Q + " (SkylakeX kernel)"), "blis": (456, "AMD Zen HPL log")},
    ),
    Microarchitecture("zen5-mobile", 16, ISA_WIDTH),
    Microarchitecture("neoverse-n1", 8, BLIS_TABLE, {"openblas": (256, "AmpereComputing HPL")}),
    Microarchitecture("neoverse-n2", 8, WIKICHIP),
    Microarchitecture("neoverse-v1", 16, WIKICHIP),
    Microarchitecture("neoverse-v2", 16, OSACA),
    Microarchitecture("ampereone", 8, LLVM),
    Microarchitecture("cortex-a53", None, "no source for its FLOPs per cycle"),
    Microarchitecture("cortex-a55", 4, LLVM),
    Microarchitecture("cortex-a57", 4, WIKICHIP),
    Microarchitecture(
        "cortex-a72",
        4,
        "johnduffymsc, Pi 4 cluster",
        {"openblas": (120, "johnduffymsc, Pi 4"), "blis": (168, "johnduffymsc, Pi 4")},
    ),
    Microarchitecture("cortex-a73", None, "no source for its FLOPs per cycle"),
    Microarchitecture("cortex-a75", None, "no source for its FLOPs per cycle"),
    Microarchitecture("cortex-a76", 8, WIKICHIP),
    Microarchitecture("cortex-a77", 8, WIKICHIP),
    Microarchitecture("cortex-a78", 8, WIKICHIP),
    Microarchitecture("cortex-x1", 16, "Wikipedia, ARM Cortex-X1: four 128 bit SIMD units"),
    Microarchitecture("thunderx2", 8, BLIS_TABLE, {"blis": (240, BLIS_KC)}),
    Microarchitecture("a64fx", 32, BLIS_TABLE),
    Microarchitecture("firestorm", 16, OSACA),
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
            ("skylake", (0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6)),
            ("skylakex", (0x55,)),
            ("icelake", (0x7D, 0x7E, 0x8C, 0x8D, 0xA7)),
            ("icelakex", (0x6A, 0x6C)),
            ("sapphirerapids", (0x8F,)),
            ("emeraldrapids", (0xCF,)),
            ("graniterapids", (0xAD, 0xAE)),
            ("sierraforest", (0xAF,)),
            ("gracemont", (0xBE,)),
        )
        for model in models
    ),
}

# Models of family 6 with two or three kinds of cores: performance, efficiency, low-power. The kernel's
# arch/x86/include/asm/intel-family.h names the cores of each.
_HYBRID: Mapping[int, tuple[str, str, str]] = {
    model: names
    for names, models in (
        (("goldencove", "gracemont", "gracemont"), (0x97, 0x9A)),
        (("raptorcove", "gracemont", "gracemont"), (0xB7, 0xBA, 0xBF)),
        (("redwoodcove", "crestmont", "crestmont"), (0xAA, 0xAC, 0xB5)),
        (("lioncove", "skymont", "crestmont"), (0xC5, 0xC6)),
        (("lioncove", "skymont", "skymont"), (0xBD,)),
    )
    for model in models
}

# (CPU implementer, CPU part), Arm's MIDR_EL1 fields as /proc/cpuinfo prints them.
_ARM: Mapping[tuple[int, int], str] = {
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD0E): "cortex-a76",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD42): "cortex-a78",
    (0x41, 0xD44): "cortex-x1",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4B): "cortex-a78",
    (0x41, 0xD4C): "cortex-x1",
    (0x41, 0xD4F): "neoverse-v2",  # NVIDIA's Grace and AWS's Graviton4 too
    (0x42, 0x516): "thunderx2",
    (0x43, 0x0AF): "thunderx2",
    (0x46, 0x001): "a64fx",
    (0x61, 0x023): "firestorm",
    (0x6D, 0xD49): "neoverse-n2",  # Microsoft's Cobalt 100
    (0xC0, 0xAC3): "ampereone",
    (0xC0, 0xAC4): "ampereone",
}


def identify_x86(vendor: str, family: int, model: int, core_class: str = "all") -> str | None:
    """Name the microarchitecture of an x86 CPU from ``/proc/cpuinfo``, or None when it has no row.

    ``core_class`` tells the cores of a hybrid CPU apart: performance, efficiency or low-power. Without it
    they are performance cores: the small models of those families have no others.
    """
    if (vendor, family) == ("GenuineIntel", 6) and model in _HYBRID:
        return _HYBRID[model][{"efficiency": 1, "low-power": 2}.get(core_class, 0)]
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


EFFICIENCY = 0.75
"""HPL's share of Rpeak on one node, where its DGEMM rate is not known: what CPU systems of the TOP500 list
reach (70 to 80 %).
"""

# The median of geerlingguy/top500-benchmark's results over cores x clock x FLOPs per cycle. Boards whose
# memory feeds few cores stay far below servers.
_EFFICIENCIES = {"cortex-a72": 0.41, "cortex-a76": 0.40, "neoverse-n1": 0.55, "ampereone": 0.65}


def hpl_efficiency(microarchitecture: str | None) -> float:
    """HPL's share of Rpeak to expect on one node with this CPU."""
    return _EFFICIENCIES.get(microarchitecture or "", EFFICIENCY)


def recommended_nb(microarchitecture: str | None, blas: str | None) -> tuple[int | None, str]:
    """NB for this CPU with this BLAS (None: DEFAULT_BLAS), with its source; (None, reason) where unknown."""
    row = MICROARCHITECTURES.get(microarchitecture or "")
    if row is None or not row.nb:
        return None, f"no recommended NB for the CPU ({microarchitecture or 'unknown'})"
    library = blas or DEFAULT_BLAS
    if library in row.nb:
        return row.nb[library]
    nb, source = next(iter(row.nb.values()))
    return nb, f"{source}; not for {library}"
