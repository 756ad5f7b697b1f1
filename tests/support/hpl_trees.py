"""Trees of /proc and /sys of machines that HPL is run on, recorded or written from published listings.

MACHINES maps a name to a builder; a builder takes a folder and writes the tree there. lscpu and hwloc can
read each tree too (``lscpu --sysroot``, ``lstopo --input``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30


@dataclass(frozen=True)
class Cache:
    """A cache: level, type as the kernel prints it, size in KiB, and the CPUs that share it."""

    level: int
    kind: str
    kib: int
    shared: Sequence[int]


class Tree:
    """A /proc and /sys under a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def put(self, name: str, text: str | int, end: str = "\n") -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}{end}")

    def cpu(
        self,
        number: int,
        core: int,
        socket: int,
        threads: Sequence[int],
        package: Sequence[int],
        caches: Iterable[Cache] = (),
    ) -> None:
        """The topology and cache files of one CPU, in the kernel's old and new names."""
        base = f"/sys/devices/system/cpu/cpu{number}"
        self.put(f"{base}/topology/core_id", core)
        self.put(f"{base}/topology/physical_package_id", socket)
        for name, cpus in (
            ("thread_siblings", threads),
            ("core_cpus", threads),
            ("core_siblings", package),
            ("package_cpus", package),
        ):
            self.put(f"{base}/topology/{name}_list", ",".join(map(str, cpus)))
            self.put(f"{base}/topology/{name}", mask(cpus))
        for index, cache in enumerate(caches):
            folder = f"{base}/cache/index{index}"
            self.put(f"{folder}/level", cache.level)
            self.put(f"{folder}/type", cache.kind)
            self.put(f"{folder}/size", f"{cache.kib}K")
            self.put(f"{folder}/id", min(cache.shared))
            self.put(f"{folder}/shared_cpu_map", mask(cache.shared))
            self.put(f"{folder}/shared_cpu_list", ",".join(map(str, cache.shared)))

    def machine(self, count: int, arch: str, memory_kb: int) -> None:
        """What every machine has: CPUs that are all on and allowed, memory, limits, a name."""
        everything = f"0-{count - 1}"
        for name in ("online", "possible", "present"):
            self.put(f"/sys/devices/system/cpu/{name}", everything)
        self.put("/sys/devices/system/cpu/kernel_max", 8191)
        self.put(
            "/proc/self/status",
            f"Name:\tpython3\nCpus_allowed:\t{mask(range(count))}\nCpus_allowed_list:\t{everything}",
        )
        self.put("/proc/meminfo", meminfo(memory_kb, memory_kb * 49 // 50))
        self.put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope")
        self.put(
            "/proc/self/mountinfo",
            "30 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw,nsdelegate",
        )
        self.put(
            "/proc/self/limits",
            "Limit   Soft Limit  Hard Limit  Units\nMax open files    1024   1048576   files",
        )
        self.put("/proc/sys/kernel/hostname", "node1")
        self.put("/proc/sys/kernel/arch", arch)

    def node(self, number: int, cpus: Sequence[int], memory_kb: int) -> None:
        """A NUMA node."""
        folder = f"/sys/devices/system/node/node{number}"
        self.put(f"{folder}/cpumap", mask(cpus))
        self.put(f"{folder}/cpulist", ",".join(map(str, cpus)))
        self.put(
            f"{folder}/meminfo",
            f"Node {number} MemTotal:       {memory_kb} kB\nNode {number} MemFree:        "
            f"{memory_kb * 48 // 50} kB\nNode {number} Inactive(file): {memory_kb // 50} kB",
        )


def mask(cpus: Iterable[int]) -> str:
    """The kernel's comma separated 32 bit words, highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = []
    while bits or not words:
        words.insert(0, f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(words)


def meminfo(total_kb: int, available_kb: int) -> str:
    """/proc/meminfo of a machine without huge pages, whose swap is not used."""
    return (
        f"MemTotal:       {total_kb} kB\n"
        f"MemFree:        {available_kb // 2} kB\nMemAvailable:   {available_kb} kB\n"
        "SwapTotal:       2097148 kB\nSwapFree:        2097148 kB\nHugePages_Total:       0\n"
        "Hugepagesize:       2048 kB\nHugetlb:               0 kB"
    )


def cpuinfo(count: int, fields: Callable[[int], dict[str, str | int]]) -> str:
    """/proc/cpuinfo, ``fields`` of each CPU after its number."""
    return "\n\n".join(
        "\n".join(f"{name}\t: {value}" for name, value in {"processor": cpu, **fields(cpu)}.items())
        for cpu in range(count)
    )


def arm(part: int) -> dict[str, str | int]:
    """The fields of /proc/cpuinfo of a core by Arm Ltd."""
    return {
        "Features": "fp asimd",
        "CPU implementer": "0x41",
        "CPU architecture": 8,
        "CPU variant": "0x0",
        "CPU part": hex(part),
        "CPU revision": 1,
    }


def own(threads: Sequence[int], l1d: int, l1i: int, l2: int | None = None) -> list[Cache]:
    """The caches of a core, in KiB."""
    caches = [Cache(1, "Data", l1d, threads), Cache(1, "Instruction", l1i, threads)]
    return caches if l2 is None else [*caches, Cache(2, "Unified", l2, threads)]


def container(root: Path) -> Tree:
    """A container of our own lab: cgroup v1, a 2 GiB limit, the host's 24 GiB in MemTotal; recorded."""
    tree = Tree(root)
    tree.machine(2, "x86_64", 24683656)
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
    tree.put(
        "/proc/self/limits", "Limit   Soft Limit  Hard Limit  Units\nMax open files    20000   20000   files"
    )
    for cpu in (0, 1):
        tree.cpu(cpu, cpu, 0, [cpu], [0, 1], [*own([cpu], 32, 32, 512), Cache(3, "Unified", 32768, [0, 1])])
    tree.node(0, [0, 1], 24683656)
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(
            2,
            lambda cpu: {
                "vendor_id": "AuthenticAMD",
                "cpu family": 25,
                "model": 1,
                "model name": "AMD EPYC",
                "cpu MHz": "2445.406",
                "physical id": 0,
                "core id": cpu,
                "flags": "fpu constant_tsc avx2",
                "bogomips": "4890.81",
            },
        ),
    )
    return tree


def epyc_2s(root: Path) -> Tree:
    """Two EPYC 7543 with SMT: 32 cores each, four to an L3 cache here; written after AMD's data sheet, CPUs
    numbered as lscpu lists a dual EPYC 7601 (core-to-core-latency, issue 106): all first threads first.
    """
    tree, cores = Tree(root), 64
    tree.machine(2 * cores, "x86_64", 528280000)
    for cpu in range(2 * cores):
        core = cpu % cores
        first = core // 4 * 4
        group = [*range(first, first + 4), *range(first + cores, first + cores + 4)]
        first = core // 32 * 32
        package = [*range(first, first + 32), *range(first + cores, first + cores + 32)]
        threads = [core, core + cores]
        caches = [*own(threads, 32, 32, 512), Cache(3, "Unified", 32768, group)]
        tree.cpu(cpu, core % 32, core // 32, threads, package, caches)
        base = f"/sys/devices/system/cpu/cpu{cpu}"
        tree.put(f"{base}/cpufreq/cpuinfo_max_freq", 3737890)
        tree.put(f"{base}/acpi_cppc/nominal_freq", 2800)
    for node in (0, 1):
        first = 32 * node
        tree.node(
            node, [*range(first, first + 32), *range(first + cores, first + cores + 32)], 528280000 // 2
        )
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(
            2 * cores,
            lambda cpu: {
                "vendor_id": "AuthenticAMD",
                "cpu family": 25,
                "model": 1,
                "model name": "AMD EPYC 7543 32-Core Processor",
                "physical id": cpu % cores // 32,
                "core id": cpu % 32,
                "flags": "fpu constant_tsc avx2",
                "bogomips": "5600.00",
            },
        ),
    )
    return tree


def cgroup_v2(root: Path) -> Tree:
    """A job on the two EPYC 7543: both threads of 16 cores, 60 GiB, and the time of 12 CPUs, in cgroup v2
    folders as Slurm makes them (cgroup/v2 plugin); the limits are the kernel's Documentation cgroup-v2.
    """
    tree = epyc_2s(root)
    job = "/system.slice/slurmstepd.scope/job_42"
    member = f"{job}/step_0/user/task_0"
    tree.put("/proc/self/cgroup", f"0::{member}")
    tree.put(
        "/proc/self/status",
        f"Name:\tpython3\nCpus_allowed:\t{mask([*range(16), *range(64, 80)])}\n"
        "Cpus_allowed_list:\t0-15,64-79\nMems_allowed_list:\t0-1",
    )
    top = "/sys/fs/cgroup"
    tree.put(f"{top}/cgroup.controllers", "cpuset cpu io memory hugetlb pids")
    tree.put("/proc/mounts", f"cgroup2 {top} cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0")
    for folder, limit in ((job, 60 * GIB), (member, "max")):
        tree.put(f"{top}{folder}/memory.max", limit)
        tree.put(f"{top}{folder}/memory.high", "max")
        tree.put(f"{top}{folder}/memory.current", 2 * GIB)
        tree.put(f"{top}{folder}/memory.stat", f"anon {GIB}\nfile {GIB}\ninactive_file {GIB}")
        tree.put(f"{top}{folder}/cpuset.cpus.effective", "0-15,64-79")
        tree.put(f"{top}{folder}/cpuset.mems.effective", "0-1")
    tree.put(f"{top}{job}/cpu.max", "1200000 100000")
    tree.put(f"{top}{member}/cpu.max", "max 100000")
    return tree


def xeon_2s(root: Path) -> Tree:
    """Two Xeon E5-2680 v2 with Hyper-Threading; CPU numbers, caches and clocks as the lscpu listing in
    autonomys/subspace, issue 2456, core numbers with holes as /proc/cpuinfo of that CPU has them.
    """
    tree, numbers = Tree(root), [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]
    tree.machine(40, "x86_64", 131_900_000)
    for cpu in range(40):
        core, socket = cpu % 20, cpu % 20 // 10
        package = [*range(10 * socket, 10 * socket + 10), *range(10 * socket + 20, 10 * socket + 30)]
        threads = [core, core + 20]
        caches = [*own(threads, 32, 32, 256), Cache(3, "Unified", 25600, package)]
        tree.cpu(cpu, numbers[core % 10], socket, threads, package, caches)
        tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", 3600000)
    for node in (0, 1):
        tree.node(
            node, [*range(10 * node, 10 * node + 10), *range(10 * node + 20, 10 * node + 30)], 65_950_000
        )
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(
            40,
            lambda cpu: {
                "vendor_id": "GenuineIntel",
                "cpu family": 6,
                "model": 62,
                "model name": "Intel(R) Xeon(R) CPU E5-2680 v2 @ 2.80GHz",
                "physical id": cpu % 20 // 10,
                "core id": numbers[cpu % 10],
                "flags": "fpu constant_tsc avx",
                "bogomips": "5600.00",
            },
        ),
    )
    return tree


def intel_hybrid(root: Path) -> Tree:
    """Core i9-13900K: eight P-cores with two threads, CPUs 0-15, and 16 E-cores; identification, top clock
    and BogoMIPS as the lscpu listing in lexi-src/sGPUpt, issue 1; base clocks, the E-cores' top clock and the
    caches as Intel's product page has them, the kernel's files as its ABI documentation names them.
    """
    tree, everything = Tree(root), range(32)
    tree.machine(32, "x86_64", 131_600_000)
    for cpu in everything:
        big = cpu < 16
        threads = [cpu // 2 * 2, cpu // 2 * 2 + 1] if big else [cpu]
        if big:
            caches = own(threads, 48, 32, 2048)
        else:
            caches = [*own([cpu], 32, 64), Cache(2, "Unified", 4096, range(cpu // 4 * 4, cpu // 4 * 4 + 4))]
        core = cpu // 2 * 4 if big else cpu + 16
        tree.cpu(cpu, core, 0, threads, everything, [*caches, Cache(3, "Unified", 36864, everything)])
        base = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
        favoured = cpu in (8, 9, 10, 11)
        tree.put(f"{base}/cpuinfo_max_freq", 5800000 if favoured else 5500000 if big else 4300000)
        tree.put(f"{base}/base_frequency", 3000000 if big else 2200000)
    tree.put("/sys/devices/cpu_core/cpus", "0-15")
    tree.put("/sys/devices/cpu_atom/cpus", "16-31")
    tree.node(0, everything, 131_600_000)
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(
            32,
            lambda cpu: {
                "vendor_id": "GenuineIntel",
                "cpu family": 6,
                "model": 183,
                "model name": "13th Gen Intel(R) Core(TM) i9-13900K",
                "physical id": 0,
                "core id": cpu // 2 * 4 if cpu < 16 else cpu + 16,
                "flags": "fpu constant_tsc avx2",
                "bogomips": "5990.40",
            },
        ),
    )
    return tree


def raspberry_pi_4(root: Path) -> Tree:
    """Raspberry Pi 4 Model B, 4 GiB, a 64 bit kernel without NUMA; identification as in hrw/arm-socs-table,
    issue 31, clock as in pftf/RPi4, issue 149, caches as Arm's and Broadcom's descriptions have them.
    """
    tree, everything = Tree(root), range(4)
    tree.machine(4, "aarch64", 3_885_396)
    for cpu in everything:
        caches = [*own([cpu], 32, 48), Cache(2, "Unified", 1024, everything)]
        tree.cpu(cpu, cpu, 0, [cpu], everything, caches)
        tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", 1500000)
        tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity", 1024)
    tree.put("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.2", end="\0")
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(4, lambda cpu: {"BogoMIPS": "108.00", **arm(0xD08)})
        + "\n\nHardware\t: BCM2835\nRevision\t: c03112\nModel\t\t: Raspberry Pi 4 Model B Rev 1.2",
    )
    return tree


def rk3588(root: Path) -> Tree:
    """Radxa Rock 5B, 16 GiB: four Cortex-A55 and four Cortex-A76; identification as in hrw/arm-socs-table,
    issue 18, caches and capacities from the kernel's rk3588-base.dtsi (530 against 1024 at the same clock),
    clocks as in EntityFX/anybench, pull request 39.
    """
    tree, everything = Tree(root), range(8)
    tree.machine(8, "aarch64", 16_211_000)
    for cpu in everything:
        big = cpu >= 4
        caches = own([cpu], 64, 64, 512) if big else own([cpu], 32, 32, 128)
        tree.cpu(cpu, cpu, 0, [cpu], everything, [*caches, Cache(3, "Unified", 3072, everything)])
        base = f"/sys/devices/system/cpu/cpu{cpu}"
        tree.put(f"{base}/cpufreq/cpuinfo_max_freq", 2256000 if big else 1800000)
        tree.put(f"{base}/cpu_capacity", 1024 if big else 530 * 1800 // 2256)
    tree.put("/proc/device-tree/model", "Radxa ROCK 5B", end="\0")
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(8, lambda cpu: {"BogoMIPS": "48.00", **arm(0xD0B if cpu >= 4 else 0xD05)})
        + "\n\nSerial\t\t: 0123456789abcdef",
    )
    return tree


def ampere_altra(root: Path) -> Tree:
    """Two Ampere Altra Q80-30: 80 Neoverse N1 each, a NUMA node each, no L3 cache in sight; the lscpu listing
    in vllm-project/vllm, pull request 39191, and of one socket in nviennot/core-to-core-latency, issue 49.
    """
    tree, count = Tree(root), 160
    tree.machine(count, "aarch64", 527_000_000)
    for cpu in range(count):
        first = cpu // 80 * 80
        tree.cpu(cpu, cpu % 80, cpu // 80, [cpu], range(first, first + 80), own([cpu], 64, 64, 1024))
        tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", 3000000)
        tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity", 1024)
    for node in (0, 1):
        tree.node(node, range(80 * node, 80 * node + 80), 263_500_000)
    tree.put("/proc/cpuinfo", cpuinfo(count, lambda cpu: {"BogoMIPS": "50.00", **arm(0xD0C)}))
    return tree


MACHINES: dict[str, Callable[[Path], Tree]] = {
    "container": container,
    "epyc-2s": epyc_2s,
    "cgroup-v2": cgroup_v2,
    "xeon-2s": xeon_2s,
    "intel-hybrid": intel_hybrid,
    "raspberry-pi-4": raspberry_pi_4,
    "rk3588": rk3588,
    "ampere-altra": ampere_altra,
}
