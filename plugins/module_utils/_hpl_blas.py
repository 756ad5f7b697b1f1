# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which BLAS a node has, which kernel it selects on this CPU, and what that kernel can reach.

A library that does not know the CPU falls back to an old kernel without a word: OpenBLAS took Zen 5 for
PRESCOTT (OpenBLAS issue 6029), and HPL then runs at a fraction of the peak.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._hpl_process import run

OWN_LIBRARY = "/opt/nodesmith/openblas/current/lib/libopenblas.so"
"""Where this collection installs OpenBLAS."""

TIMEOUT = 20.0
"""Seconds that a library, ldd or ldconfig may take to answer."""

_LIBRARIES = ("openblas", "blis", "mkl_rt", "armpl", "mkl_core", "blas")

# Runs in a process of its own: a library of another architecture, or one that crashes, ends only that one.
_PROBE = r"""
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
def text(name, *arguments):
    function = getattr(lib, name)
    function.restype = ctypes.c_char_p
    return function(*arguments).decode()
answer = {}
if hasattr(lib, "openblas_get_config"):
    answer = {
        "library": "openblas",
        "text": text("openblas_get_config"),
        "kernel": text("openblas_get_corename"),
        "threading": {0: "sequential", 1: "pthreads", 2: "openmp"}.get(lib.openblas_get_parallel()),
    }
elif hasattr(lib, "bli_info_get_version_str"):
    threads = [name for name in ("openmp", "pthreads") if getattr(lib, "bli_info_get_enable_" + name)()]
    answer = {
        "library": "blis",
        "text": text("bli_info_get_version_str"),
        "kernel": text("bli_arch_string", lib.bli_arch_query_id()),
        "threading": threads[0] if threads else "sequential",
    }
elif hasattr(lib, "MKL_Get_Version_String"):
    buffer = ctypes.create_string_buffer(512)
    lib.MKL_Get_Version_String(buffer, len(buffer))
    class Version(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int) for name in ("major", "minor", "update")]
        _fields_ += [(name, ctypes.c_char_p) for name in ("status", "build", "processor", "platform")]
    version = Version()
    lib.MKL_Get_Version(ctypes.byref(version))
    answer = {"library": "mkl", "text": buffer.value.decode(), "processor": version.processor.decode()}
elif hasattr(lib, "armplversion"):
    numbers, build = [ctypes.c_int() for _ in range(3)], ctypes.c_char_p()
    lib.armplversion(*map(ctypes.byref, numbers), ctypes.byref(build))
    answer = {"library": "armpl", "text": ".".join(str(number.value) for number in numbers)}
print(json.dumps(answer))
"""

# (DP FLOPs per cycle, kernels). The DGEMM kernel of each is named in OpenBLAS kernel/x86_64/KERNEL.* and
# kernel/arm64/KERNEL.*, and in BLIS config/*/bli_cntx_init_*.c.
_KERNELS: Mapping[str, Sequence[tuple[int, str]]] = {
    "openblas": (
        # gemm_kernel_4x2_atom.S, and gemmkernel_2x2.c: scalar
        (2, "ATOM GENERIC"),
        # gemm_kernel_4x4_sse2.S, _sse3.S, _core2.S, _penryn.S, _barcelona.S, 2x8_nehalem.S: SSE, 2 lanes
        (4, "PRESCOTT OPTERON OPTERON_SSE3 CORE2 PENRYN DUNNINGTON NEHALEM BARCELONA BOBCAT NANO"),
        # dgemm_kernel_4x8_sandy.S: AVX without FMA, 4 lanes
        (8, "SANDYBRIDGE"),
        # dgemm_kernel_8x2_bulldozer.S, 8x2_piledriver.S: FMA, on cores with two units of 2 lanes
        (8, "BULLDOZER PILEDRIVER STEAMROLLER EXCAVATOR"),
        # dgemm_kernel_4x8_haswell.S: AVX2 FMA, two units of 4 lanes
        (16, "HASWELL ZEN"),
        # dgemm_kernel_16x2_skylakex.c: AVX-512 FMA, two units of 8 lanes
        (32, "SKYLAKEX COOPERLAKE SAPPHIRERAPIDS ZEN4 ZEN5"),
        # dgemm_kernel_8x4.S, 4x8.S and their like: NEON FMA, two units of 2 lanes
        (8, "ARMV8 CORTEXA53 CORTEXA55 CORTEXA57 CORTEXA72 CORTEXA73 CORTEXA76 FALKOR EMAG8180 FT2000"),
        (8, "THUNDERX THUNDERX2T99 THUNDERX3T110 TSV110 NEOVERSEN1 NEOVERSEN2"),
        # the NEON kernel of NEOVERSEN1 on Apple's four units of 2 lanes
        (16, "VORTEX"),
        # dgemm_kernel_sve_v2x8.S: SVE FMA, two units of 4 lanes or four of 2
        (16, "NEOVERSEV1 NEOVERSEV2"),
        # the same at the widest SVE there is, two units of 8 lanes
        (32, "ARMV8SVE A64FX"),
    ),
    "blis": (
        # bli_dgemm_penryn_asm_4x4: SSE3; generic is C, compiled for the least CPU of its architecture
        (4, "penryn generic"),
        # bli_dgemm_sandybridge_asm_8x4: AVX without FMA
        (8, "sandybridge"),
        # bli_dgemm_bulldozer_asm_4x6_fma4, bli_dgemm_piledriver_asm_8x3
        (8, "bulldozer piledriver steamroller excavator"),
        # bli_dgemm_haswell_asm_6x8: AVX2 FMA
        (16, "haswell zen zen2 zen3"),
        # bli_dgemm_skx_asm_16x14, bli_dgemm_knl_asm_24x8; zen4 and zen5 are AOCL-BLIS: AVX-512
        (32, "skx knl zen4 zen5"),
        # bli_dgemm_armv8a_asm_6x8: NEON FMA
        (8, "cortexa53 cortexa57 thunderx2 altra altramax"),
        # bli_dgemm_armv8a_asm_8x6r on Apple's four units
        (16, "firestorm"),
        # bli_dgemm_armsve_asm_2vx10_unindexed at the widest SVE
        (32, "armsve a64fx"),
    ),
    # the instruction set that MKL_Get_Version names
    "mkl": ((4, "SSE4.2"), (8, "AVX"), (16, "AVX2"), (32, "AVX-512")),
}
_FLOPS = {
    (library, name): flops
    for library, rows in _KERNELS.items()
    for flops, names in rows
    for name in names.split()
}


def kernel_flops(library: str | None, kernel: str | None) -> int | None:
    """Double precision FLOPs per cycle that the DGEMM kernel ``kernel`` is made for, None where unknown.

    Nominal: lanes x 2, twice that for the two units of a core that has FMA. A core with more units can exceed
    it with an old kernel (on an Emerald Rapids PRESCOTT ran at 40 % of HASWELL, not 25 %), so compare it with
    ``dp_flops_per_cycle`` of the CPU, and do not predict from it.
    """
    return _FLOPS.get((library or "", kernel or ""))


def better_kernel(
    library: str | None, kernel: str | None, able: int | None, machine: str | None
) -> str | None:
    """Name of the OpenBLAS kernel to ask for where ``kernel`` is made for less than the CPU can.

    ``able`` are the CPU's FLOPs per cycle. None where the kernel suits, where one of the two is unknown, and
    where no name is certain to run (other libraries, other machines than x86).
    """
    reached = kernel_flops(library, kernel)
    if library != "openblas" or machine != "x86_64" or not able or not reached or reached >= able:
        return None
    return {8: "SANDYBRIDGE", 16: "HASWELL", 32: "SKYLAKEX"}.get(able)


def read_blas(path: str | None = None) -> tuple[dict[str, Any] | None, str]:
    """Return library, version, path, kernel and threading of a BLAS, with the source; (None, reason) without.

    ``path`` is a library, or a program that is linked with one. Without it, the OpenBLAS that this collection
    installs is asked, and then what the dynamic linker knows of openblas, blis, mkl_rt and armpl. The kernel
    is the one that the library selects here and now: OPENBLAS_CORETYPE and its like count.
    """
    paths, reason = _libraries_of(path) if path else _installed_libraries()
    for library in paths:
        answer, reason = ask(library)
        if answer is not None:
            return answer, f"{library}, loaded and asked"
    return None, reason


def ask(path: str, env: Mapping[str, str] | None = None) -> tuple[dict[str, Any] | None, str]:
    """Load the library ``path`` in a process of its own and return what it says, or (None, reason).

    ``env`` is added to the environment of that process.
    """
    output, problem = _output([sys.executable, "-c", _PROBE, path], env)
    if problem:
        return None, f"{path} cannot be asked: {problem}"
    answer = describe(output, path)
    return answer, "" if answer else f"{path} is no BLAS that tells which it is"


def describe(output: str, path: str) -> dict[str, Any] | None:
    """Return the facts of the library at ``path`` from what asking it printed, or None."""
    try:
        answer = json.loads(output.strip().rpartition("\n")[2])
    except ValueError:
        return None
    if not isinstance(answer, dict) or "library" not in answer:
        return None
    version = re.search(r"[0-9]+(?:\.[0-9]+)+", answer.get("text") or "")
    kernel = answer.get("kernel")
    if answer["library"] == "openblas":
        # one release calls it SkylakeX, another SKYLAKEX
        kernel = str(kernel).upper()
    if answer["library"] == "mkl":
        # Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2) enabled processors
        named = re.search(r"\(Intel\(R\) ([A-Z0-9.-]+)\)", answer["processor"])
        kernel = named.group(1) if named else None
    return {
        "library": answer["library"],
        "version": version.group() if version else None,
        "path": path,
        "kernel": kernel,
        "threading": answer.get("threading"),
    }


def parse_libraries(text: str) -> list[tuple[str, str | None]]:
    """Return (name, path) of the BLAS libraries that ``ldd`` or ``ldconfig -p`` lists, the preferred first.

    The path is None where ldd says "not found".
    """
    listed = re.findall(r"^\s*(lib\S+\.so\S*)(?: \([^)]*\))? => (/\S+|not found)", text, re.MULTILINE)
    return [
        (name, path if path.startswith("/") else None)
        for library in _LIBRARIES
        for name, path in listed
        # libopenblasp and libopenblaso are Fedora's; libopenblas64_ has 64 bit integers, which HPL does not
        if re.match(rf"lib{library}[po]?[-_.]", name)
    ]


def _libraries_of(path: str) -> tuple[list[str], str]:
    if not os.path.isfile(path):
        return [], f"no file {path}: blas must name a BLAS library or a program"
    if re.search(r"\.so(\.|$)", os.path.basename(path)):
        return [path], ""
    output, problem = _output(["ldd", path])
    if problem:
        return [], f"ldd {path}: {problem}"
    linked = parse_libraries(output)
    missing = [name for name, found in linked if found is None]
    if missing:
        return [], f"{path} needs {', '.join(missing)}, which the dynamic linker does not find"
    return [found for _name, found in linked if found], f"{path} is linked with no shared BLAS"


def _installed_libraries() -> tuple[list[str], str]:
    own = [OWN_LIBRARY] if os.path.exists(OWN_LIBRARY) else []
    ldconfig = "/sbin/ldconfig" if os.path.exists("/sbin/ldconfig") else "ldconfig"
    output, _problem = _output([ldconfig, "-p"])
    # a bare libblas is the reference BLAS more often than not, so it counts only where a program asks for it
    known = [path for name, path in parse_libraries(output) if path and not name.startswith("libblas")]
    return own + known, f"no {OWN_LIBRARY}, and ldconfig -p lists no OpenBLAS, BLIS, MKL or Arm library"


def _output(argv: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[str, str]:
    """(what a command prints, why it failed or nothing)."""
    try:
        outcome = run(argv, env=env, timeout=TIMEOUT)
    except OSError as error:
        return "", str(error)
    if outcome.timed_out:
        return "", f"no answer in {TIMEOUT:g} s"
    if outcome.rc < 0:
        return "", f"it ended with signal {-outcome.rc}"
    if outcome.rc:
        words = (outcome.stderr or outcome.stdout).strip()
        return "", words.rpartition("\n")[2] or f"status {outcome.rc}"
    return outcome.stdout, ""
