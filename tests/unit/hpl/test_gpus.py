"""GPUs of published and captured machines, and the table of models against published figures."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_gpus import (
    GPU_MODELS,
    fp64_tflops,
    gfx_target,
    numa_node,
    parse_nvidia_smi,
    read_amd_gpus,
    rochpl_nb,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_readings import Readings
from hpl_gpu_trees import KFD, MACHINES_GPU, MI308X_QUARTER_BYTES, Gpu, add_gpus, put_properties
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30


def gpus_of(root):
    return read_amd_gpus(Readings(str(root)))[0]


@pytest.fixture
def machine(tmp_path):
    return lambda name: gpus_of(MACHINES_GPU[name](tmp_path / name))


def test_frontier(machine):
    """OLCF's Frontier User Guide: which GCDs each NUMA domain has, 64 GB each."""
    gpus = machine("mi250x-8gcd")
    of_numa = {node: [i for i, gpu in enumerate(gpus) if gpu["numa_node"] == node] for node in range(4)}
    assert of_numa == {0: [4, 5], 1: [2, 3], 2: [6, 7], 3: [0, 1]}
    assert gpus[0] == {
        "vendor": "amd",
        "name": "MI250X",
        "target": "gfx90a",
        "compute_units": 110,
        "memory_bytes": 68702699520,
        "numa_node": 3,
        "pci": "0000:c1:00.0",
    }
    # HPL's Rpeak of Frontier in the TOP500 counts the same matrix peak: 47.85 TFLOPS a GCD
    assert sum(fp64_tflops(gpu)[0] for gpu in gpus) == pytest.approx(4 * 95.7)


def test_mi300x_node(machine):
    gpus = machine("mi300x-8")
    assert [gpu["numa_node"] for gpu in gpus] == [0] * 4 + [1] * 4
    assert {(gpu["name"], gpu["target"], gpu["memory_bytes"] // 10**9) for gpu in gpus} == {
        ("MI300X", "gfx942", 206)
    }
    assert [gpu["pci"][5:7] for gpu in gpus] == ["05", "27", "47", "65", "85", "a7", "c7", "e5"]
    assert fp64_tflops(gpus[0])[0] == 163.4


def test_mi300x_in_partitions(machine):
    """CPX: 64 devices that share eight PCI addresses and the peak of eight cards."""
    gpus, whole = machine("mi300x-8-cpx"), machine("mi300x-8")
    assert len(gpus) == 64
    assert [gpu["pci"] for gpu in gpus[::8]] == [gpu["pci"] for gpu in whole]
    assert gpus[0]["pci"] == gpus[7]["pci"]
    assert [gpu["numa_node"] for gpu in gpus] == [0] * 32 + [1] * 32
    assert {gpu["name"] for gpu in gpus} == {"MI300X"}
    assert sum(fp64_tflops(gpu)[0] for gpu in gpus) == pytest.approx(8 * 163.4)


def test_mi300a_node(machine):
    """Four APUs on the same bus of four PCI domains."""
    gpus = machine("mi300a-4")
    assert [gpu["pci"] for gpu in gpus] == [f"000{apu}:01:00.0" for apu in range(4)]
    assert [gpu["numa_node"] for gpu in gpus] == [0, 1, 2, 3]
    assert {gpu["name"] for gpu in gpus} == {"MI300A"}


def test_mi308x_is_no_mi300x(tree):
    """Captured: 80 compute units and 192 GB in four partitions; the last has less memory."""
    parts = [Gpu(90402, 0x74A2, 20, MI308X_QUARTER_BYTES[p], 0x0A, 0, partition=p) for p in range(4)]
    add_gpus(tree, [112, 112], parts)
    gpus = gpus_of(tree)
    assert [gpu["memory_bytes"] for gpu in gpus] == list(MI308X_QUARTER_BYTES)
    assert {gpu["name"] for gpu in gpus} == {"MI308X"}
    assert fp64_tflops(gpus[0])[0] is None


def test_the_links_say_the_numa_node_where_pci_does_not(tree):
    """Captured: eight MI210, four to a socket. KFD counts only the NUMA nodes that have CPUs."""
    buses = (0x63, 0x43, 0x03, 0x26, 0xE3, 0xC3, 0x83, 0xA3)
    cards = [Gpu(90010, 0x740F, 104, 64 * GIB, bus, index // 4) for index, bus in enumerate(buses)]
    add_gpus(tree, [64, 64], cards, pci=False)
    assert [gpu["numa_node"] for gpu in gpus_of(tree)] == [0] * 4 + [1] * 4
    assert gpus_of(tree)[0]["pci"] == "0000:63:00.0"
    for node, cpus in ((0, "0-63"), (1, ""), (2, "64-127")):  # node 1 is memory without CPUs
        tree.put(f"/sys/devices/system/node/node{node}/cpulist", cpus)
    assert [gpu["numa_node"] for gpu in gpus_of(tree)] == [0] * 4 + [2] * 4
    tree.put("/sys/bus/pci/devices/0000:63:00.0/numa_node", 2)
    tree.put("/sys/bus/pci/devices/0000:43:00.0/numa_node", -1)  # the firmware does not tell
    assert [gpu["numa_node"] for gpu in gpus_of(tree)][:3] == [2, 0, 0]


def test_a_container_sees_its_own(tmp_path):
    """The kernel answers EPERM for the others (root reads any file here, so folders stand for them), and a
    copy of those files is empty.
    """
    root = MACHINES_GPU["mi250x-8gcd"](tmp_path).root
    for node in set(range(4, 12)) - {6, 11}:
        properties = root / KFD.lstrip("/") / str(node) / "properties"
        properties.unlink()
        if node % 2:
            properties.write_text("")
        else:
            properties.mkdir()
    gpus, source = read_amd_gpus(Readings(str(root)))
    assert [gpu["pci"] for gpu in gpus] == ["0000:c9:00.0", "0000:de:00.0"]
    assert source == f"{KFD}/*/properties; 6 that this process may not read left out"


def test_no_gpu(tree):
    assert read_amd_gpus(Readings(str(tree))) == ([], f"no {KFD}")
    put_properties(tree, f"{KFD}/0", cpu_cores_count=20, simd_count=0)
    assert gpus_of(tree) == []


def test_what_an_old_or_unknown_driver_leaves_out(tree):
    """Captured from a kernel without gfx_target_version and domain; the name is the board's own."""
    put_properties(tree, f"{KFD}/1", simd_count=256, device_id=26720, location_id=6400, drm_render_minor=128)
    assert gpus_of(tree) == [
        {
            "vendor": "amd",
            "name": None,
            "target": None,
            "compute_units": 64,
            "memory_bytes": None,
            "numa_node": None,
            "pci": "0000:19:00.0",
        }
    ]
    tree.put("/sys/class/drm/renderD128/device/product_name", "Radeon Instinct MI25")
    assert gpus_of(tree)[0]["name"] == "Radeon Instinct MI25"


@given(st.binary(max_size=200))
def test_any_properties(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("any")
    file = root / KFD.lstrip("/") / "0" / "properties"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"simd_count 4\n" + text)
    assert len(gpus_of(root)) <= 1
    shutil.rmtree(root)


@pytest.mark.parametrize(
    ("version", "target"),
    [
        (90006, "gfx906"),
        (90008, "gfx908"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100300, "gfx1030"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (0, None),
    ],
)
def test_targets_as_llvm_names_them(version, target):
    assert gfx_target(version) == target


def test_peaks_are_those_of_the_architecture():
    """Compute units x clock x FLOPs a cycle, from AMD's CDNA white papers: 256 for FP64 in the matrix cores
    of CDNA 2 and 3, half that in CDNA 4; 64 in the vector units before.
    """
    clock_and_rate = {
        "MI50": (1.725, 64),
        "MI60": (1.8, 64),
        "MI100": (1.502, 64),
        "MI210": (1.7, 256),
        "MI250": (1.7, 256),
        "MI250X": (1.7, 256),
        "MI300A": (2.1, 256),
        "MI300X": (2.1, 256),
        "MI325X": (2.1, 256),
        "MI350X": (2.2, 128),
        "MI355X": (2.4, 128),
    }
    for name, row in GPU_MODELS.items():
        if row.fp64_tflops is not None:
            ghz, rate = clock_and_rate[name]
            assert row.fp64_tflops == pytest.approx(row.compute_units * ghz * rate / 1000, rel=0.01), name


@pytest.mark.parametrize(
    ("name", "target", "gib", "nb"),
    [
        ("MI50", "gfx906", 16, 384),
        ("MI60", "gfx906", 32, 512),
        (None, "gfx906", 15.98, 384),
        (None, "gfx906", 31.98, 512),
        ("MI100", "gfx908", 32, 512),
        ("MI250X", "gfx90a", 64, 512),
        ("MI300X", "gfx942", 192, 512),
        ("MI355X", "gfx950", 288, 896),
        ("a later one", "gfx950", None, 896),
        ("Radeon", "gfx1100", 24, None),
        ("NVIDIA H200", "9.0", 141, None),
    ],
)
def test_block_sizes_of_rochpl(name, target, gib, nb):
    """The wiki and the README of ROCm/rocHPL."""
    gpu = {"name": name, "target": target, "memory_bytes": gib and int(gib * GIB)}
    found, source = rochpl_nb(gpu)
    assert found == nb
    assert source


@pytest.mark.parametrize(("units", "name"), [(110, "MI250X"), (104, "MI250")])
def test_two_models_of_one_device_id(tree, units, name):
    add_gpus(tree, [64], [Gpu(90010, 0x740C, units, 64 * GIB, 0x41, 0)])
    assert gpus_of(tree)[0]["name"] == name


SMI = """\
NVIDIA H100 80GB HBM3, 81559, 00000000:19:00.0, 9.0
NVIDIA H100 80GB HBM3, 81559, 00000001:3B:00.0, 9.0
NVIDIA GB10, [N/A], 0000000F:01:00.0, 12.1
"""


def test_nvidia(tree):
    gpus = parse_nvidia_smi(SMI)
    assert gpus[1] == {
        "vendor": "nvidia",
        "name": "NVIDIA H100 80GB HBM3",
        "target": "9.0",
        "compute_units": None,
        "memory_bytes": 81559 * 2**20,
        "numa_node": None,
        "pci": "0001:3b:00.0",
    }
    assert (gpus[2]["memory_bytes"], gpus[2]["pci"]) == (None, "000f:01:00.0")
    device = "/sys/bus/pci/devices/0001:3b:00.0"
    assert numa_node(Readings(str(tree)), device) is None
    tree.put(f"{device}/numa_node", 1)
    assert numa_node(Readings(str(tree)), device) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA driver is installed and running.\n",
        'Field "compute_cap" is not a valid field to query.\n',
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "Unable to determine the device handle for GPU0000:19:00.0: Unknown Error, a, b, c\n",
    ],
)
def test_what_nvidia_smi_says_instead(text):
    assert parse_nvidia_smi(text) == []


@given(st.text(alphabet=st.characters() | st.sampled_from(",:.[]0a\n")))
def test_any_output_of_nvidia_smi(text):
    for gpu in parse_nvidia_smi(text):
        assert gpu["pci"].count(":") == 2
