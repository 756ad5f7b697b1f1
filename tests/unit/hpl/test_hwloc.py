"""CPU counts against hwloc and lscpu: on the machines recorded in their own sources, and on ours."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import read_facts
from ansible_collections.nodesmith.cluster.plugins.modules import debian_source
from hpl_trees import MACHINES

CACHE = Path(__file__).parents[3] / "build" / "cache"
TYPES = {"sockets": "Package", "physical_cores": "Core", "l3_groups": "L3Cache", "allowed_cpus": "PU"}
LISTED = {"sockets": "socket", "physical_cores": "core", "l3_groups": "l3", "numa_nodes": "node"}

HWLOC_DIFFERS = {
    # the masks of CPUs 2 and 3 were edited to contradict the others'; hwloc drops the two objects, with a
    # warning that the operating system is wrong, and leaves the cores in it outside of any
    "40intel64-4n10c+pci-conflicts": {"sockets", "l3_groups"},
}
LSCPU_DIFFERS = {
    # an Opteron 6328: two cores to a compute unit, which hwloc counts and lscpu calls threads
    "vmware_fpe": {"physical_cores"},
}


def numbers(listed: str) -> set[int]:
    """The CPUs of a kernel list."""
    ends = [[int(end) for end in part.split("-")] for part in listed.split(",")]
    return {cpu for first, *last in ends for cpu in range(first, (last or [first])[0] + 1)}


def ours(root: Path) -> tuple[dict, set[int]]:
    """Our counts, zero where unknown, and the allowed CPUs."""
    cpu = read_facts(str(root))["cpu"]
    counts = {name: cpu[name] or 0 for name in ("numa_nodes", *TYPES)}
    return counts, set().union(*(numbers(kind["cpus"]) for kind in cpu["core_classes"]))


def hwloc(root: Path) -> tuple[dict, set[int]]:
    """hwloc's counts and CPUs, with the settings of its own test-topology.sh."""
    env = os.environ | {
        "HWLOC_COMPONENTS": "linux,stop",
        "HWLOC_FSROOT": str(root),
        "HWLOC_DUMPED_HWDATA_DIR": "/var/run/hwloc",
        "HWLOC_HIDE_ERRORS": "2",
        # Xeon Phi's memory as a cache is not a level 3 of the cores
        "HWLOC_KNL_MSCACHE_L3": "0",
    }
    argv = ["lstopo-no-graphics", "--of", "xml", "-"]
    text = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    # a package stays in the output for the memory that hangs on it, though none of its CPUs is allowed
    objects = [item for item in ET.fromstring(text).iter("object") if bits(item.get("cpuset", ""))]  # noqa: S314
    counts = {name: sum(item.get("type") == kind for item in objects) for name, kind in TYPES.items()}
    cpus = {int(item.attrib["os_index"]) for item in objects if item.get("type") == "PU"}
    # to a node that has memory only, hwloc gives the CPUs that are near: here only a node's own ones count
    allowed = sum(1 << cpu for cpu in cpus)
    counts["numa_nodes"] = sum(
        bool(bits(cpumap.read_text()) & allowed) if (cpumap := node_map(root, item)).exists() else 1
        for item in objects
        if item.get("type") == "NUMANode"
    )
    return counts, cpus


def node_map(root: Path, item: ET.Element) -> Path:
    return root / f"sys/devices/system/node/node{item.attrib['os_index']}/cpumap"


def bits(mask: str) -> int:
    """A mask of CPUs, hwloc's or the kernel's."""
    return int(re.sub("[^0-9a-f]", "", mask.replace("0x", "")) or "0", 16)


def lscpu(root: Path) -> list[dict[str, str]]:
    """One row a CPU that is on, as lscpu reads the tree."""
    argv = ["lscpu", "--sysroot", str(root), "--parse"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    header = [line for line in lines if line.startswith("#")][-1].removeprefix("# ").lower().split(",")
    rows = list(csv.DictReader([line for line in lines if not line.startswith("#")], header))
    # it numbers the cores of every kind of CPU from zero
    kinds = re.findall(r"^CPU part\s*: (.*)", (root / "proc/cpuinfo").read_text(), re.MULTILINE)
    return [
        {
            **row,
            "core": row["core"]
            and f"{row['core']} {kinds[int(row['cpu'])] if len(kinds) == len(rows) else ''}",
        }
        for row in rows
    ]


def listed_counts(rows: list[dict[str, str]]) -> dict[str, int]:
    """What lscpu counts, without the figures that it does not tell (nodes on kernels without NUMA)."""
    counts = {name: len({row.get(kind) for row in rows} - {"", None}) for name, kind in LISTED.items()}
    return {name: count for name, count in counts.items() if count} | {"allowed_cpus": len(rows)}


@pytest.fixture(scope="module")
def lstopo() -> None:
    """Install lstopo where it is missing."""
    if shutil.which("lstopo-no-graphics"):
        return
    if not shutil.which("apt-get"):
        pytest.skip("no lstopo-no-graphics here, and no apt-get to install hwloc-nox with")
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    for command in (["update", "-q"], ["install", "-qy", "--no-install-recommends", "hwloc-nox"]):
        subprocess.run([*prefix, "apt-get", *command], check=True)


@pytest.fixture
def source(call):
    """A function that fetches a Debian source package and returns the recorded trees in it, as tar files."""

    def fetch(name: str, folder: Path, pattern: str) -> list[Path]:
        if not shutil.which("apt-get"):
            pytest.skip(f"the recorded trees are in the Debian source package {name}; no apt-get here")
        dest = CACHE / name
        dest.mkdir(parents=True, exist_ok=True)
        result = call(debian_source, name=name, dest=str(dest))
        assert not result.get("failed"), result["msg"]
        with tarfile.open(result["path"]) as archive:
            members = [item for item in archive if re.search(pattern, item.name)]
            archive.extractall(folder, members, filter="data")
        return [folder / item.name for item in members]

    return fetch


UNREAD = re.compile(
    r"/(pci[0-9a-f]+:|LNXSYSTM|power/|cpuidle/|stats/|memory[0-9]|torque/|uevent|scaling_|[a-z]+_policy$"
    r"|(coherency_line_size|number_of_sets|ways_of_associativity|physical_line_partition)$)"
)
"""Tens of thousands of files that no one here looks at."""


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack one recorded tree into ``folder`` and return its root."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, [item for item in tar if not UNREAD.search(item.name)], filter="tar")
    (root,) = folder.iterdir()
    return root


def differences(mine: dict, theirs: dict, excused: set[str]) -> dict:
    return {
        name: (mine[name], value)
        for name, value in theirs.items()
        if (mine[name] != value) != (name in excused)
    }


def test_on_all_trees_of_hwloc(lstopo, source, tmp_path):
    archives = source("hwloc", tmp_path / "source", r"/tests/hwloc/linux/[^/]+\.tar\.bz2$")
    assert len(archives) >= 47
    found = {}
    for archive in archives:
        name = archive.name.removesuffix(".tar.bz2")
        root = unpack(archive, tmp_path / "tree")
        (mine, my_cpus), (theirs, their_cpus) = ours(root), hwloc(root)
        found[name] = differences(mine, theirs, HWLOC_DIFFERS.get(name, set()))
        if my_cpus != their_cpus:
            found[name]["cpus"] = (my_cpus, their_cpus)
        shutil.rmtree(tmp_path / "tree")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_on_all_dumps_of_lscpu(source, tmp_path):
    archives = source("util-linux", tmp_path / "source", r"/tests/ts/lscpu/dumps/[^/]+\.tar\.gz$")
    assert len(archives) >= 16
    found = {}
    for archive in archives:
        name = archive.name.removesuffix(".tar.gz")
        root = unpack(archive, tmp_path / "tree")
        mine, _cpus = ours(root)
        found[name] = differences(mine, listed_counts(lscpu(root)), LSCPU_DIFFERS.get(name, set()))
        shutil.rmtree(tmp_path / "tree")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_on_this_machine(lstopo):
    assert ours(Path("/")) == hwloc(Path("/"))


@pytest.mark.parametrize("machine", MACHINES)
def test_on_our_machines(lstopo, tmp_path, machine):
    MACHINES[machine](tmp_path)
    mine, cpus = ours(tmp_path)
    assert (mine, cpus) == hwloc(tmp_path)
    # lscpu knows of no cpusets
    theirs = listed_counts([row for row in lscpu(tmp_path) if int(row["cpu"]) in cpus])
    assert differences(mine, theirs, set()) == {}
