"""Real libraries, Debian's packages unpacked where they are not installed, asked which kernel they select.

OPENBLAS_CORETYPE, OPENBLAS_VERBOSE and BLIS_ARCH_DEBUG are the libraries' own ways to force and to print it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl_blas
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_blas import (
    ask,
    describe,
    kernel_flops,
    parse_libraries,
    read_blas,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_cpu import dp_flops_per_cycle
from hypothesis import given
from hypothesis import strategies as st

FORCED = {"x86_64": ("Haswell", "Nehalem"), "aarch64": ("NeoverseN1", "CortexA57")}
PACKAGES = (
    "libopenblas0-pthread",
    "libblis4-pthread",
    "libblis4-openmp",
    "libgfortran5",
    "libquadmath0",
    "libgomp1",
)


def unpack(folder: Path, packages: tuple[str, ...]) -> bool:
    """Whether ``packages`` could be had from Debian; they lie unpacked under ``folder``/root then."""
    download = ["apt-get", "download", *packages]
    for command in (download, ["apt-get", "update"], download):
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        if command is download and done.returncode == 0:
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(package), str(folder / "root")], check=True)
            return True
    return False


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """A folder with Debian's OpenBLAS and BLIS, each as its package lays them out, and what they need."""
    if not shutil.which("apt-get"):
        pytest.skip("needs apt-get, to have Debian's OpenBLAS and BLIS")
    folder = tmp_path_factory.mktemp("blas")
    if not unpack(folder, PACKAGES[: 5 if platform.machine() == "x86_64" else 4]):
        pytest.skip("Debian's packages of OpenBLAS and BLIS cannot be had here")
    return folder / "root" / "usr" / "lib" / f"{platform.machine()}-linux-gnu"


@pytest.fixture
def openblas(libraries, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_VERBOSE"):
        monkeypatch.delenv(name, raising=False)
    return str(libraries / "openblas-pthread" / "libopenblas.so.0")


def load(path: str, code: str = "", **env: str) -> str:
    """What a library prints when it is loaded, with ``code`` run on it."""
    program = f"import ctypes; lib = ctypes.CDLL({path!r}); {code}"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def test_openblas(openblas):
    """Against its own report on loading, its file name, and its package."""
    facts, _reason = ask(openblas)
    core = re.search(r"^Core: (\S+)", load(openblas, OPENBLAS_VERBOSE="2"), re.MULTILINE)
    named = re.search(r"libopenblasp-r(.+)\.so", os.path.realpath(openblas))
    assert facts == {
        "library": "openblas",
        "version": named.group(1),
        "path": openblas,
        "kernel": core.group(1).upper(),
        "threading": "pthreads",
    }


def test_a_forced_kernel_is_reported(openblas):
    for core in FORCED[platform.machine()]:
        assert ask(openblas, {"OPENBLAS_CORETYPE": core})[0]["kernel"] == core.upper()


def test_every_kernel_of_openblas_has_its_flops(openblas):
    """The names are those in the library, which lie together there."""
    if platform.machine() != "x86_64":
        pytest.skip("needs the x86_64 library, whose first name is Katmai")
    data = Path(openblas).read_bytes()
    at = data.index(b"Katmai\0")
    names = [word.decode() for word in re.findall(rb"[A-Z]\w{2,}", data[at - 400 : at + 400])]
    # a name that is no core leaves the choice to the library
    kernels = {ask(openblas, {"OPENBLAS_CORETYPE": name})[0]["kernel"] for name in names}
    assert {"PRESCOTT", "NEHALEM", "SANDYBRIDGE", "PILEDRIVER", "HASWELL", "ZEN"} <= kernels
    assert [kernel for kernel in kernels if not kernel_flops("openblas", kernel)] == []


@pytest.mark.parametrize("threading", ["pthread", "openmp"])
def test_blis(libraries, monkeypatch, threading):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    path = str(libraries / f"blis-{threading}" / "libblis.so.4")
    facts, _reason = ask(path)
    said = load(path, "lib.bli_arch_query_id()", BLIS_ARCH_DEBUG="1")
    assert facts["kernel"] == re.search(r"sub-configuration '(\w+)'", said).group(1)
    assert (facts["library"], facts["threading"].rstrip("s")) == ("blis", threading)
    package = next(libraries.parents[3].glob("libblis4-openmp_*.deb")).name
    assert package.startswith(f"libblis4-openmp_{facts['version']}-")
    assert kernel_flops("blis", facts["kernel"])


def test_a_library_that_aborts(libraries, monkeypatch):
    """BLIS aborts when it is told to use a configuration that it was built without."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("BLIS_ARCH_TYPE", "10000")
    facts, reason = ask(str(libraries / "blis-pthread" / "libblis.so.4"))
    assert facts is None
    assert "it ended with signal 6" in reason


def test_a_program_names_its_blas(openblas, libraries, tmp_path):
    """Debian's libblas.so.3 is linked with its OpenBLAS, as xhpl is; ldd does not mind what it is."""
    program = tmp_path / "xhpl"
    shutil.copy(libraries / "openblas-pthread" / "libblas.so.3", program)
    facts, reason = read_blas(str(program))
    assert facts is None
    assert reason == f"{program} needs libopenblas.so.0, which the dynamic linker does not find"
    shutil.copy(openblas, tmp_path / "libopenblas.so.0")
    os.environ["LD_LIBRARY_PATH"] += f":{tmp_path}"
    facts, _reason = read_blas(str(program))
    assert (facts["library"], facts["path"]) == ("openblas", str(tmp_path / "libopenblas.so.0"))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/no/such/xhpl", "no file /no/such/xhpl: blas must name a BLAS library or a program"),
        (sys.executable, "is linked with no shared BLAS"),
        (__file__, "ldd .*not a dynamic executable|ldd .*exited with|linked with no shared BLAS"),
    ],
)
def test_what_is_no_blas(path, reason):
    facts, found = read_blas(path)
    assert facts is None
    assert re.search(reason, found)


def test_what_cannot_be_loaded(tmp_path, monkeypatch):
    libc = next(path for path in libc_paths() if path.exists())
    facts, reason = read_blas(str(libc))
    assert (facts, reason) == (None, f"{libc} is no BLAS that tells which it is")

    foreign = bytearray(libc.read_bytes())
    foreign[18:20] = (8).to_bytes(2, sys.byteorder)  # e_machine of the ELF header: MIPS
    other = tmp_path / "libopenblas.so.0"
    other.write_bytes(bytes(foreign))
    facts, reason = read_blas(str(other))
    assert facts is None
    assert f"{other} cannot be asked: OSError: " in reason

    silent = tmp_path / "libblis.so"
    os.mkfifo(silent)  # opening it waits for a writer that never comes
    monkeypatch.setattr(_hpl_blas, "TIMEOUT", 0.5)
    assert ask(str(silent)) == (None, f"{silent} cannot be asked: no answer in 0.5 s")


def libc_paths() -> list[Path]:
    return [Path(f"/lib/{platform.machine()}-linux-gnu/libc.so.6"), Path("/usr/lib/libc.so.6")]


def test_mkl_and_arm():
    """What MKL 2023.1 answered on an AVX-512 processor, and with MKL_ENABLE_INSTRUCTIONS; recorded."""
    text = "Intel(R) oneAPI Math Kernel Library Version 2023.1-Product Build 20230303 for Intel(R) 64"
    for processor, kernel, flops in (
        (
            "Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512) with support of Intel(R) Deep "
            "Learning Boost (Intel(R) DL Boost), EVEX-encoded AES and Carry-Less Multiplication Quadword "
            "instructions",
            "AVX-512",
            32,
        ),
        ("Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2) enabled processors", "AVX2", 16),
        ("Intel(R) Streaming SIMD Extensions 4.2 (Intel(R) SSE4.2) enabled processors", "SSE4.2", 4),
        ("Intel(R) Architecture processors", None, None),
    ):
        answer = json.dumps({"library": "mkl", "text": text, "processor": processor})
        facts = describe(answer, "/m/libmkl_rt.so.2")
        assert (facts["version"], facts["kernel"], facts["threading"]) == ("2023.1", kernel, None)
        assert kernel_flops("mkl", kernel) == flops
    assert describe('{"library": "armpl", "text": "24.10.0"}', "/a") == {
        "library": "armpl",
        "version": "24.10.0",
        "path": "/a",
        "kernel": None,
        "threading": None,
    }


LDCONFIG = """\
512 libs found in cache `/etc/ld.so.cache'
\tlibopenblas64_.so.0 (libc6,x86-64) => /lib/x86_64-linux-gnu/libopenblas64_.so.0
\tlibopenblasp.so.0 (libc6,x86-64) => /lib64/libopenblasp.so.0
\tlibmkl_rt.so.2 (libc6,x86-64) => /opt/intel/libmkl_rt.so.2
\tlibblis.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libblis.so.4
\tlibblasfeo.so.0 (libc6,x86-64) => /lib/x86_64-linux-gnu/libblasfeo.so.0
\tlibblas.so.3 (libc6,x86-64) => /lib/x86_64-linux-gnu/libblas.so.3
"""


def test_the_preferred_library_comes_first():
    assert [name for name, _path in parse_libraries(LDCONFIG)] == [
        "libopenblasp.so.0",
        "libblis.so.4",
        "libmkl_rt.so.2",
        "libblas.so.3",
    ]
    ldd = "\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\tlibopenblas.so.0 => not found\n"
    assert parse_libraries(ldd) == [("libopenblas.so.0", None)]


@given(st.text())
def test_any_text(text):
    assert isinstance(parse_libraries(text), list)
    assert describe(text, "/x") is None


@pytest.mark.parametrize(
    ("cpu", "library", "kernel"),
    [
        ("haswell", "openblas", "HASWELL"),
        ("haswell", "blis", "haswell"),
        ("zen3", "openblas", "ZEN"),
        ("zen5", "openblas", "SKYLAKEX"),
        ("sapphirerapids", "openblas", "SAPPHIRERAPIDS"),
        ("sandybridge", "blis", "sandybridge"),
        ("neoverse-n1", "openblas", "NEOVERSEN1"),
        ("neoverse-v1", "openblas", "NEOVERSEV1"),
        ("a64fx", "blis", "a64fx"),
    ],
)
def test_the_right_kernel_reaches_the_peak_of_its_cpu(cpu, library, kernel):
    """The CPU table has its figures from BLIS docs/Performance.md and the vendors, not from the libraries."""
    assert kernel_flops(library, kernel) == dp_flops_per_cycle(cpu, None)[0]


def test_a_wrong_kernel_shows():
    """OpenBLAS issue 6029: Zen 5 taken for PRESCOTT."""
    assert kernel_flops("openblas", "PRESCOTT") < dp_flops_per_cycle("zen5", None)[0]
    assert kernel_flops("openblas", "no such kernel") is kernel_flops(None, None) is None
