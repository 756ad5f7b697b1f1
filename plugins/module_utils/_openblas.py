# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How OpenBLAS is built: for which CPU, and with which threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OpenblasError(Exception):
    """Options that OpenBLAS cannot be built with; the message names the value and the remedy."""


# Microarchitecture (_hpl_cpu.py) -> TARGET, names that OpenBLAS 0.3.21 knows already (its TargetList.txt and
# Makefile.arm64). A core without a kernel of its own has that of the nearest one with the same vector units.
TARGETS: Mapping[str, str] = {
    "nehalem": "NEHALEM",
    "sandybridge": "SANDYBRIDGE",
    "ivybridge": "SANDYBRIDGE",
    **dict.fromkeys(
        ("haswell", "broadwell", "skylake", "sierraforest", "goldencove", "raptorcove"), "HASWELL"
    ),
    **dict.fromkeys(("redwoodcove", "lioncove", "gracemont", "crestmont", "skymont"), "HASWELL"),
    **dict.fromkeys(("skylakex", "icelake", "icelakex", "zen4", "zen5"), "SKYLAKEX"),
    **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), "SKYLAKEX"),
    **dict.fromkeys(("zen", "zen2", "zen3", "zen5-mobile"), "ZEN"),
    **dict.fromkeys(("neoverse-n1", "ampereone", "cortex-a76", "cortex-a77", "cortex-a78"), "NEOVERSEN1"),
    "neoverse-n2": "NEOVERSEN2",
    "neoverse-v1": "NEOVERSEV1",
    "neoverse-v2": "NEOVERSEV1",
    "cortex-a53": "CORTEXA53",
    "cortex-a55": "CORTEXA53",
    "cortex-a57": "CORTEXA57",
    "cortex-a72": "CORTEXA72",
    "cortex-a73": "CORTEXA73",
    "thunderx2": "THUNDERX2T99",
    "a64fx": "A64FX",
    "firestorm": "VORTEX",
}

DYNAMIC = "dynamic"
"""One library with the kernels of all CPUs, which chooses when it is loaded."""

_THREADING: Mapping[str, tuple[str, ...]] = {
    # one rank a core: no threads, but safe to call from several
    "none": ("USE_THREAD=0", "USE_LOCKING=1"),
    "openmp": ("USE_THREAD=1", "USE_OPENMP=1"),
    "pthreads": ("USE_THREAD=1", "USE_OPENMP=0"),
}


def openblas_options(
    microarchitecture: str | None, target: str = "auto", threading: str = "none", num_threads: int = 1
) -> dict[str, Any]:
    """Return ``target`` and ``make_options`` for the module source_build.

    ``target`` is ``auto`` (by ``microarchitecture``, and ``dynamic`` where that has no row), ``dynamic`` or a
    TARGET of OpenBLAS; ``threading`` is ``none``, ``openmp`` or ``pthreads``; ``num_threads`` is the most
    threads of a rank, the cores of the largest node that is to use this build.

    Raises OpenblasError for another value.
    """
    if threading not in _THREADING:
        raise OpenblasError(
            f"openblas_threading must be one of {', '.join(_THREADING)}, not {threading!r:.40}"
        )
    known = sorted(set(TARGETS.values()))
    chosen = TARGETS.get(microarchitecture or "", DYNAMIC) if target == "auto" else str(target)
    if chosen not in (*known, DYNAMIC):
        raise OpenblasError(
            f"openblas_target must be auto, {DYNAMIC} or one of {', '.join(known)}, not {target!r:.40}"
        )
    try:
        threads = int(num_threads)
    except (TypeError, ValueError):
        threads = 0
    if threads < 1:
        raise OpenblasError(f"openblas_num_threads must be a count of at least 1, not {num_threads!r:.40}")
    options = ["DYNAMIC_ARCH=1"] if chosen == DYNAMIC else [f"TARGET={chosen}"]
    options += _THREADING[threading]
    if threading != "none":
        options.append(f"NUM_THREADS={threads}")
    return {"target": chosen, "make_options": [*options, "NO_LAPACK=1", "NOFORTRAN=1", "NO_AFFINITY=1"]}
