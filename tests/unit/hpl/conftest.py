"""Recorded and written trees of /proc and /sys, and HPL output as HPL prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

GIB = 2**30


class Tree:
    """A /proc and /sys under a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def put(self, name: str, text: str | int) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def cpu(
        self, number: int, core: int, socket: int, threads: list[int], l3: list[int], package: list[int]
    ) -> None:
        """The files of one CPU that the kernel writes and lscpu needs."""
        base = f"/sys/devices/system/cpu/cpu{number}"
        self.put(f"{base}/topology/core_id", core)
        self.put(f"{base}/topology/physical_package_id", socket)
        for name, cpus in (("thread_siblings", threads), ("core_cpus", threads), ("core_siblings", package)):
            self.put(f"{base}/topology/{name}_list", ",".join(map(str, cpus)))
            self.put(f"{base}/topology/{name}", mask(cpus))
        for index, level, kind, shared in (
            (0, 1, "Data", threads),
            (1, 1, "Instruction", threads),
            (2, 2, "Unified", threads),
            (3, 3, "Unified", l3),
        ):
            cache = f"{base}/cache/index{index}"
            self.put(f"{cache}/level", level)
            self.put(f"{cache}/type", kind)
            self.put(f"{cache}/size", "32768K" if level == 3 else "32K")
            self.put(f"{cache}/id", min(shared))
            self.put(f"{cache}/shared_cpu_map", mask(shared))
            self.put(f"{cache}/shared_cpu_list", ",".join(map(str, shared)))


def mask(cpus: list[int]) -> str:
    """The kernel's comma separated 32 bit words, highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits or not words:
        words.insert(0, f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(words)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


def meminfo(total_kb: int, available_kb: int) -> str:
    return (
        f"MemTotal:       {total_kb} kB\n"
        f"MemFree:        {available_kb // 2} kB\nMemAvailable:   {available_kb} kB\n"
        "SwapTotal:       2097148 kB\nSwapFree:        2097148 kB\nHugePages_Total:       0\n"
        "Hugepagesize:       2048 kB\nHugetlb:               0 kB"
    )


@pytest.fixture
def container_v1(tree: Tree) -> Tree:
    """A lab container: cgroup v1, a 2 GiB limit, the host's 24 GiB in MemTotal; recorded."""
    tree.put("/proc/meminfo", meminfo(24683656, 24288196))
    tree.put("/proc/self/cgroup", "4:memory:/\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/")
    tree.put(
        "/proc/self/mountinfo",
        "85 84 0:50 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,size=4096k,mode=755\n"
        "86 85 0:29 / /sys/fs/cgroup/cpu ro,nosuid,relatime - cgroup cgroup rw,cpu\n"
        "89 85 0:32 / /sys/fs/cgroup/memory ro,nosuid,relatime - cgroup cgroup rw,memory\n"
        "51 85 0:38 / /sys/fs/cgroup/unified rw,nosuid,relatime - cgroup2 cgroup2 rw",
    )
    memory = "/sys/fs/cgroup/memory"
    tree.put(f"{memory}/memory.limit_in_bytes", 2147483648)
    tree.put(f"{memory}/memory.usage_in_bytes", 141942784)
    tree.put(f"{memory}/memory.stat", "cache 100000000\ninactive_file 32768\ntotal_inactive_file 100000000")
    tree.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1)
    tree.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000)
    tree.put("/proc/self/status", "Name:\tpython3\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1")
    tree.put(
        "/proc/self/limits", "Limit   Soft Limit  Hard Limit  Units\nMax open files    20000   20000   files"
    )
    tree.put("/proc/sys/kernel/hostname", "node1")
    tree.put("/proc/sys/kernel/arch", "x86_64")
    tree.put("/sys/devices/system/cpu/online", "0-1")
    tree.put("/sys/devices/system/node/node0/cpulist", "0-1")
    for number in (0, 1):
        tree.cpu(number, number, 0, [number], [0, 1], [0, 1])
    tree.put(
        "/proc/cpuinfo",
        "\n\n".join(
            f"processor\t: {number}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"
            "model name\t: AMD EPYC\ncpu MHz\t\t: 2445.406\nphysical id\t: 0\ncore id\t\t: "
            f"{number}\nflags\t\t: fpu constant_tsc avx2\nbogomips\t: 4890.81"
            for number in (0, 1)
        ),
    )
    return tree


@pytest.fixture
def epyc(tree: Tree) -> Tree:
    """Two EPYC 7543 (32 cores each, SMT, four cores to an L3), cgroup v2; written after the data sheet."""
    cores = 64
    tree.put("/proc/meminfo", meminfo(528280000, 520000000))
    tree.put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope")
    tree.put("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate")
    tree.put("/proc/self/status", f"Cpus_allowed_list:\t0-{2 * cores - 1}")
    for name in ("online", "possible", "present"):
        tree.put(f"/sys/devices/system/cpu/{name}", f"0-{2 * cores - 1}")
    tree.put("/sys/devices/system/cpu/kernel_max", 8191)
    blocks = []
    for number in range(2 * cores):
        core = number % cores
        group = [c for c in range(2 * cores) if c % cores // 4 == core // 4]
        package = [c for c in range(2 * cores) if c % cores // 32 == core // 32]
        tree.cpu(number, core % 32, core // 32, [core, core + cores], group, package)
        base = f"/sys/devices/system/cpu/cpu{number}"
        tree.put(f"{base}/cpufreq/cpuinfo_max_freq", 3737890)
        tree.put(f"{base}/acpi_cppc/nominal_freq", 2800)
        blocks.append(
            f"processor\t: {number}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"
            "model name\t: AMD EPYC 7543 32-Core Processor\n"
            f"physical id\t: {core // 32}\ncore id\t\t: {core % 32}\n"
            "flags\t\t: fpu constant_tsc avx2\nbogomips\t: 5600.00"
        )
    tree.put("/proc/cpuinfo", "\n\n".join(blocks))
    for node in (0, 1):
        first = 32 * node
        tree.put(
            f"/sys/devices/system/node/node{node}/cpulist", f"{first}-{first + 31},{first + 64}-{first + 95}"
        )
        tree.put(
            f"/sys/devices/system/node/node{node}/cpumap",
            mask([*range(first, first + 32), *range(first + 64, first + 96)]),
        )
    return tree


RULE = "=" * 80 + "\n"
HEADER = (
    "T/V                N    NB     P     Q               Time                 Gflops\n" + "-" * 80 + "\n"
)


def hpl_row(n: int, nb: int, p: int, q: int, seconds: float, gflops: str, residual: str, verdict: str) -> str:
    """One test as HPL 2.3 prints it (the printf formats of HPL_pdtest.c)."""
    return (
        RULE
        + HEADER
        + f"WR11C2R4{n:12d} {nb:5d} {p:5d} {q:5d} {seconds:18.2f}     {gflops:>18s}\n"
        + "HPL_pdgesv() start time Thu Nov 12 10:00:00 2026\n\n"
        + "HPL_pdgesv() end time   Thu Nov 12 10:00:23 2026\n\n"
        + "-" * 80
        + f"\n||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= {residual:>16s} ...... {verdict}\n"
    )


def hpl_end(passed: int, failed: int = 0, skipped: int = 0) -> str:
    return (
        RULE
        + f"\nFinished {passed + failed + skipped:6d} tests with the following results:\n"
        + f"         {passed:6d} tests completed and passed residual checks,\n"
        + f"         {failed:6d} tests completed and failed residual checks,\n"
        + f"         {skipped:6d} tests skipped because of illegal input values.\n"
        + "-" * 80
        + "\n\nEnd of Tests.\n"
        + RULE
    )


@pytest.fixture
def hpl_text():
    """Functions that print a row and the end of an HPL run."""
    return hpl_row, hpl_end


@pytest.fixture
def node():
    """A function that makes a node with plain facts."""

    def make(name: str = "node1", gib: float = 64, cores: int = 16, **cpu) -> dict:
        size = int(gib * GIB)
        return {
            "name": name,
            "address": f"{name}.cluster",
            "facts": {
                "memory": {
                    "total_bytes": size,
                    "available_bytes": size,
                    "limit_bytes": None,
                    "usable_bytes": size,
                },
                "swap_used_bytes": 0,
                "cpu": {
                    "physical_cores": cores,
                    "model": "AMD EPYC",
                    "microarchitecture": "zen3",
                    "rpeak_gflops": None,
                }
                | cpu,
                "mpi": {"family": "openmpi", "version": "4.1.4", "path": "/usr/bin/mpirun"},
            },
        }

    return make
