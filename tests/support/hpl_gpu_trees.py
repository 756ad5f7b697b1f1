"""Trees of machines with AMD GPUs: processors as in hpl_trees, and what the kernel's amdgpu and KFD write.

MACHINES_GPU maps a name to a builder; a builder takes a folder and writes the tree there. None was recorded
by us: where GPUs lie is from the published listings named with each, and the KFD files have the names and the
values of the captures in ROCm/k8s-device-plugin (testdata: MI210, MI300X in CPX mode, MI308X), and those of
rocminfo for the memory of whole GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpl_trees import Cache, Tree, cpuinfo, own

KFD = "/sys/class/kfd/kfd/topology/nodes"
MI250X_BYTES = 68702699520  # rocminfo, coarse grained pool of one GCD: 67092480 KB
MI300X_BYTES = 206141652992  # rocminfo: 201310208 KB
MI308X_QUARTER_BYTES = (51539607552, 51539607552, 51539607552, 51522830336)  # recorded


@dataclass(frozen=True)
class Gpu:
    """One KFD node: gfx_target_version, PCI device id, compute units, device memory, PCI bus and domain, NUMA
    node, and the number of the partition, None for a whole GPU.
    """

    version: int
    device_id: int
    units: int
    memory: int
    bus: int
    numa: int
    domain: int = 0
    partition: int | None = None


def put_properties(tree: Tree, folder: str, **values: int) -> None:
    """A KFD file of names and numbers."""
    tree.put(f"{folder}/properties", "\n".join(f"{name} {value}" for name, value in values.items()))


def add_gpus(tree: Tree, cpus_per_numa: Sequence[int], gpus: Iterable[Gpu], pci: bool = True) -> None:
    """The KFD topology: a node for each NUMA node, then one for each GPU, linked to the CPU it hangs on.

    With ``pci`` the devices' own folders say which NUMA node that is, too.
    """
    for node, threads in enumerate(cpus_per_numa):
        put_properties(tree, f"{KFD}/{node}", cpu_cores_count=threads, simd_count=0, gfx_target_version=0)
        put_properties(tree, f"{KFD}/{node}/mem_banks/0", heap_type=0, size_in_bytes=2**37, flags=0, width=64)
    for index, gpu in enumerate(gpus):
        node = len(cpus_per_numa) + index
        put_properties(
            tree,
            f"{KFD}/{node}",
            cpu_cores_count=0,
            simd_count=4 * gpu.units,
            mem_banks_count=1,
            simd_per_cu=4,
            gfx_target_version=gpu.version,
            vendor_id=0x1002,
            device_id=gpu.device_id,
            location_id=gpu.bus << 8 | (gpu.partition or 0),
            domain=gpu.domain,
            drm_render_minor=128 + index,
            local_mem_size=0,
        )
        bank = f"{KFD}/{node}/mem_banks/0"
        put_properties(tree, bank, heap_type=1, size_in_bytes=gpu.memory, flags=0, width=4096)
        # the other sockets are links too, further away (weight)
        for link, cpu in enumerate(range(len(cpus_per_numa))):
            weight = 20 if cpu == gpu.numa else 52
            folder = f"{KFD}/{node}/io_links/{link}"
            put_properties(tree, folder, type=2, node_from=node, node_to=cpu, weight=weight)
        put_properties(tree, f"{KFD}/{node}/io_links/9", type=11, node_from=node, node_to=node ^ 1, weight=15)
        if pci:
            tree.put(f"/sys/bus/pci/devices/{gpu.domain:04x}:{gpu.bus:02x}:00.0/numa_node", gpu.numa)
            if not gpu.partition:  # the render nodes of further partitions belong to no PCI device
                tree.put(f"/sys/class/drm/renderD{128 + index}/device/numa_node", gpu.numa)


def add_network(tree: Tree, name: str, mbit: int) -> None:
    """An Ethernet interface that is up."""
    for file, text in (("type", 1), ("operstate", "up"), ("speed", mbit)):
        tree.put(f"/sys/class/net/{name}/{file}", text)


def _epyc(
    root: Path,
    model: tuple[str, int],
    sockets: int,
    cores: int,
    numa: int,
    smt: int,
    memory_kb: int,
    mhz: tuple[int, int],
) -> tuple[Tree, list[int]]:
    """A machine of AMD processors with eight cores to an L3 cache, first threads numbered first, and the CPUs
    of each of its ``numa`` nodes; mhz are the base and the top clock.
    """
    tree, total = Tree(root), sockets * cores
    tree.machine(smt * total, "x86_64", memory_kb)

    def block(core: int, size: int) -> list[int]:
        first = core // size * size
        return [cpu + total * thread for thread in range(smt) for cpu in range(first, first + size)]

    for cpu in range(smt * total):
        core = cpu % total
        threads = block(core, 1)
        caches = [*own(threads, 32, 32, 1024), Cache(3, "Unified", 32768, block(core, 8))]
        tree.cpu(cpu, core % cores, core // cores, threads, block(core, cores), caches)
        base = f"/sys/devices/system/cpu/cpu{cpu}"
        tree.put(f"{base}/acpi_cppc/nominal_freq", mhz[0])
        tree.put(f"{base}/cpufreq/cpuinfo_max_freq", 1000 * mhz[1])
    per_node = total // numa
    for node in range(numa):
        tree.node(node, block(node * per_node, per_node), memory_kb // numa)
    tree.put(
        "/proc/cpuinfo",
        cpuinfo(
            smt * total,
            lambda cpu: {
                "vendor_id": "AuthenticAMD",
                "cpu family": 25,
                "model": model[1],
                "model name": model[0],
                "physical id": cpu % total // cores,
                "core id": cpu % cores,
                "flags": "fpu constant_tsc avx2",
                "bogomips": f"{2 * mhz[0]}.00",
            },
        ),
    )
    return tree, [smt * per_node] * numa


def mi250x_8gcd(root: Path) -> Tree:
    """A node of Frontier: one 64 core EPYC 7A53, four NUMA nodes of 128 GiB, four MI250X.

    OLCF's Frontier User Guide: NUMA 0 has GCDs 4 and 5, 1 has 2 and 3, 2 has 6 and 7, 3 has 0 and 1; four
    Slingshot ports of 200 Gbit/s. PCI buses as OLCF's hello_jobstep prints them on Frontier (its README).
    Clocks from AMD's data sheet.
    """
    tree, cpus = _epyc(
        root, ("AMD EPYC 7A53 64-Core Processor", 0x30), 1, 64, 4, 2, 527_000_000, (2000, 3541)
    )
    buses = (0xC1, 0xC6, 0xC9, 0xCE, 0xD1, 0xD6, 0xD9, 0xDE)
    numa = (3, 3, 1, 1, 0, 0, 2, 2)
    add_gpus(
        tree,
        cpus,
        [Gpu(90010, 0x7408, 110, MI250X_BYTES, bus, node) for bus, node in zip(buses, numa, strict=True)],
    )
    for port in range(4):
        add_network(tree, f"hsn{port}", 200_000)
    return tree


_MI300X_BUSES = (0x05, 0x27, 0x47, 0x65, 0x85, 0xA7, 0xC7, 0xE5)


def _mi300x_host(root: Path) -> tuple[Tree, list[int]]:
    return _epyc(root, ("AMD EPYC 9654 96-Core Processor", 0x11), 2, 96, 2, 1, 1_585_000_000, (2400, 3707))


def mi300x_8(root: Path) -> Tree:
    """Two EPYC 9654 without SMT, 1.5 TiB, and eight MI300X of 192 GB, four to a socket.

    Cores, PCI buses and links of the capture topo-mi300-cpx in ROCm/k8s-device-plugin; memory after AMD's
    Instinct system acceptance guide, clocks from AMD's data sheet.
    """
    tree, cpus = _mi300x_host(root)
    gpus = [Gpu(90402, 0x74A1, 304, MI300X_BYTES, bus, index // 4) for index, bus in enumerate(_MI300X_BUSES)]
    add_gpus(tree, cpus, gpus)
    return tree


def mi300x_8_cpx(root: Path) -> Tree:
    """The same node in CPX mode, as it was captured: 64 partitions of 38 compute units, eight to a PCI
    function; the capture has no memory, so each has an eighth.
    """
    tree, cpus = _mi300x_host(root)
    gpus = [
        Gpu(90402, 0x74A1, 38, MI300X_BYTES // 8, bus, index // 4, partition=partition)
        for index, bus in enumerate(_MI300X_BUSES)
        for partition in range(8)
    ]
    add_gpus(tree, cpus, gpus)
    return tree


def mi300a_4(root: Path) -> Tree:
    """A node of El Capitan: four MI300A, each 24 Zen 4 cores and a GPU on 128 GB of shared HBM, and four
    Slingshot ports; after LLNL's and AMD's descriptions. Each APU has a PCI domain of its own, as rocm-smi's
    change log shows; the memory of the NUMA node stands as that of the GPU.
    """
    tree, cpus = _epyc(
        root, ("AMD Instinct MI300A Accelerator", 0x90), 4, 24, 4, 2, 525_000_000, (2000, 3700)
    )
    gpus = [Gpu(90402, 0x74A0, 228, 134_400_000_000, 1, apu, domain=apu) for apu in range(4)]
    add_gpus(tree, cpus, gpus)
    for port in range(4):
        add_network(tree, f"hsi{port}", 200_000)
    return tree


MACHINES_GPU: dict[str, Callable[[Path], Tree]] = {
    "mi250x-8gcd": mi250x_8gcd,
    "mi300x-8": mi300x_8,
    "mi300x-8-cpx": mi300x_8_cpx,
    "mi300a-4": mi300a_4,
}
