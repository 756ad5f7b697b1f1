"""CPUs and kinds of cores of written trees, with the figures of the listings that they are made after."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import read_facts
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_readings import (
    format_cpu_list,
    parse_cpu_list,
    parse_cpu_mask,
    parse_meminfo,
)
from hpl_trees import MACHINES, Tree, arm, cpuinfo, mask
from hypothesis import given
from hypothesis import strategies as st

CPUS = "/sys/devices/system/cpu"


def cpu_of(tree: Tree) -> dict:
    return read_facts(str(tree))["cpu"]


def counts(cpu: dict) -> tuple:
    names = ("physical_cores", "allowed_cpus", "sockets", "numa_nodes", "l3_groups", "threads_per_core")
    return tuple(cpu[name] for name in names)


def classes(cpu: dict, *names: str) -> list[tuple]:
    return [tuple(kind[name] for name in names) for kind in cpu["core_classes"]]


@pytest.mark.parametrize(
    ("machine", "expected"),
    {
        # cores, CPUs, sockets, NUMA nodes, L3 caches, threads a core
        "container": (2, 2, 1, 1, 1, 1),
        "epyc-2s": (64, 128, 2, 2, 16, 2),
        "cgroup-v2": (16, 32, 1, 1, 4, 2),
        "xeon-2s": (20, 40, 2, 2, 2, 2),
        "intel-hybrid": (24, 32, 1, 1, 1, 2),
        "raspberry-pi-4": (4, 4, 1, 1, None, 1),
        "rk3588": (8, 8, 1, 1, 1, 1),
        "ampere-altra": (160, 160, 2, 2, None, 1),
    }.items(),
)
def test_machines(tmp_path, machine, expected):
    assert counts(cpu_of(MACHINES[machine](tmp_path))) == expected


def test_every_machine_is_tested_and_has_a_plan_ready_class(tmp_path):
    for name, build in MACHINES.items():
        cpu = cpu_of(build(tmp_path / name))
        assert [kind["chosen"] for kind in cpu["core_classes"]].count(True) == 1, name
        chosen = next(kind for kind in cpu["core_classes"] if kind["chosen"])
        same = ("microarchitecture", "base_mhz", "max_mhz", "dp_flops_per_cycle")
        assert {key: chosen[key] for key in same} == {key: cpu[key] for key in same}, name
        assert sum(cpu["cores_per_socket"]) == chosen["cores"], name
        assert sum(node["cores"] for node in cpu["numa"]) == chosen["cores"], name
        if cpu["l3_groups"]:
            assert sum(cpu["cores_per_l3"]) == chosen["cores"], name
        assert cpu["usable_cores"] <= chosen["cores"], name
        assert cpu["rpeak_gflops"] is not None, name


def test_two_socket_epyc(epyc):
    cpu = cpu_of(epyc)
    assert classes(cpu, "name", "cores", "cpus", "chosen") == [("all", 64, "0-127", True)]
    assert (cpu["cores_per_socket"], cpu["cores_per_l3"]) == ([32, 32], [4] * 16)
    assert cpu["numa"] == [
        {"node": 0, "cores": 32, "memory_bytes": 264140000 * 1024},
        {"node": 1, "cores": 32, "memory_bytes": 264140000 * 1024},
    ]
    assert (cpu["usable_cores"], cpu["rpeak_gflops"], cpu["rpeak_max_gflops"]) == (64, 2867.2, 3827.599)


def test_hybrid_intel(tmp_path):
    """The kinds differ in threads, clocks and width. The better one is the one that computes more."""
    cpu = cpu_of(MACHINES["intel-hybrid"](tmp_path))
    found = classes(cpu, "name", "cores", "cpus", "microarchitecture", "base_mhz", "max_mhz", "rpeak_gflops")
    assert found == [
        ("performance", 8, "0-15", "raptorcove", 3000.0, 5800.0, 8 * 3.0 * 16),
        ("efficiency", 16, "16-31", "gracemont", 2200.0, 4300.0, pytest.approx(16 * 2.2 * 8)),
    ]
    assert (cpu["microarchitecture"], cpu["usable_cores"], cpu["cores_per_l3"]) == ("raptorcove", 8, [8])
    assert cpu["rpeak_gflops"] == 384


def test_more_efficiency_cores_can_win(tmp_path):
    """With one P-core left, the E-cores compute more."""
    tree = MACHINES["intel-hybrid"](tmp_path)
    tree.put("/proc/self/status", "Cpus_allowed_list:\t0-1,16-31")
    cpu = cpu_of(tree)
    assert classes(cpu, "cores", "cpus", "chosen") == [(1, "0-1", False), (16, "16-31", True)]
    assert (cpu["usable_cores"], cpu["microarchitecture"]) == (16, "gracemont")
    assert cpu["numa"] == [{"node": 0, "cores": 16, "memory_bytes": 131600000 * 1024}]


def test_low_power_cores_have_no_l3(tmp_path):
    """Meteor Lake: two more cpu_atom cores on another die, outside the L3 cache."""
    tree = MACHINES["intel-hybrid"](tmp_path)
    for cpu in (30, 31):
        (tree.root / f"{CPUS}/cpu{cpu}/cache/index3/level".lstrip("/")).unlink()
    found = classes(cpu_of(tree), "name", "cpus")
    assert found == [("performance", "0-15"), ("efficiency", "16-29"), ("low-power", "30-31")]


def test_favoured_cores_are_no_class(epyc):
    """amd-pstate and Turbo Boost Max name some cores' top clock and CPPC performance a little higher."""
    for cpu in range(128):
        epyc.put(f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq", 3700000 + 5000 * (cpu % 7))
        epyc.put(f"{CPUS}/cpu{cpu}/acpi_cppc/highest_perf", 166 + cpu % 60)
    assert classes(cpu_of(epyc), "name", "cores", "max_mhz") == [("all", 64, 3730.0)]


def test_the_lowest_base_clock_counts(epyc):
    """With Intel's Speed Select some cores have a higher base clock; all together keep the lower one."""
    for cpu in range(128):
        epyc.put(f"{CPUS}/cpu{cpu}/cpufreq/base_frequency", 2900000 if cpu % 64 < 8 else 2300000)
    assert cpu_of(epyc)["base_mhz"] == 2300


def test_big_and_little(tmp_path):
    tree = MACHINES["rk3588"](tmp_path)
    cpu = cpu_of(tree)
    found = classes(cpu, "name", "cores", "cpus", "dp_flops_per_cycle", "max_mhz", "chosen")
    assert found == [
        ("cortex-a76", 4, "4-7", 8, 2256.0, True),
        ("cortex-a55", 4, "0-3", 4, 1800.0, False),
    ]
    assert (cpu["model"], cpu["cores_per_l3"], cpu["rpeak_gflops"]) == ("Radxa ROCK 5B", [4], 72.192)
    (tree.root / "proc/cpuinfo").unlink()
    for number in range(8):
        part = 0xD0B if number >= 4 else 0xD05
        register = 0x41 << 24 | 0xF << 16 | part << 4
        tree.put(f"{CPUS}/cpu{number}/regs/identification/midr_el1", f"{register:#018x}")
    assert cpu_of(tree)["core_classes"] == cpu["core_classes"]


def test_same_part_at_two_clocks(tree):
    """Two clusters of one design, the second one half as fast, and a favoured core in the first."""
    tree.machine(8, "aarch64", 4_000_000)
    tree.put("/proc/cpuinfo", cpuinfo(8, lambda cpu: arm(0xD03)))
    for number in range(8):
        tree.cpu(number, number, 0, [number], range(8))
        tree.put(f"{CPUS}/cpu{number}/cpu_capacity", [1000, 1024, 1000, 1000, 500, 500, 500, 500][number])
    found = classes(cpu_of(tree), "name", "cpus", "chosen")
    assert found == [("capacity 1024", "0-3", True), ("capacity 500", "4-7", False)]


def test_unknown_parts_are_chosen_by_capacity(tree):
    """Snapdragon 8 Gen 2 as /proc/cpuinfo of util-linux's recording has it, all parts unknown."""
    tree.machine(8, "aarch64", 4_000_000)
    parts = [1, 1, 1, 2, 2, 3, 3, 4]
    tree.put("/proc/cpuinfo", cpuinfo(8, lambda cpu: arm(parts[cpu])))
    for number in range(8):
        tree.cpu(number, number, 0, [number], range(8))
        capacity = {1: 280, 2: 855, 3: 855, 4: 1024}[parts[number]]
        tree.put(f"{CPUS}/cpu{number}/cpu_capacity", capacity)
        tree.put(f"{CPUS}/cpu{number}/cpufreq/cpuinfo_max_freq", 2_000_000 + capacity * 1000)
    assert classes(cpu_of(tree), "name", "cores", "chosen") == [
        ("capacity 1024", 1, False),
        ("part 0x41 0x2", 2, True),
        ("part 0x41 0x3", 2, False),
        ("capacity 280", 3, False),
    ]


@pytest.mark.parametrize(
    ("quota", "usable"), [(50000, 1), (100000, 1), (150000, 1), (200000, 2), (900000, 2)]
)
def test_a_quota_caps_what_is_usable_and_no_count(container_v1, quota, usable):
    container_v1.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota)
    cpu = cpu_of(container_v1)
    assert (cpu["quota_cpus"], cpu["physical_cores"], cpu["usable_cores"]) == (quota / 100000, 2, usable)
    assert cpu["rpeak_gflops"] == pytest.approx(usable * 2.4454 * 16, rel=1e-4)
    assert cpu["core_classes"][0]["rpeak_gflops"] == pytest.approx(2 * 2.4454 * 16, rel=1e-4)


def test_a_job_in_cgroup_v2(tmp_path):
    facts = read_facts(str(MACHINES["cgroup-v2"](tmp_path)))
    cpu = facts["cpu"]
    assert (cpu["quota_cpus"], cpu["usable_cores"], cpu["cores_per_l3"]) == (12.0, 12, [4] * 4)
    assert [(node["node"], node["cores"]) for node in cpu["numa"]] == [(0, 16), (1, 0)]
    assert facts["memory"]["usable_bytes"] == (60 - 1) * 2**30


def test_the_allowed_cpus_count(epyc):
    """A job with both threads of four cores and one thread of four more, all on the second socket."""
    epyc.put("/proc/self/status", "Cpus_allowed_list:\t32-39,96-99,500")
    assert counts(cpu_of(epyc)) == (8, 12, 1, 1, 2, 2)


@pytest.mark.parametrize(
    ("mounts", "cgroup", "folder", "name"),
    [
        ("cpuset /dev/cpuset cpuset rw 0 0", None, "/dev/cpuset/job", "cpus"),
        ("none /dev/cpuset cgroup rw,cpuset,noprefix 0 0", None, "/dev/cpuset/job", "cpus"),
        ("c /cg/cpuset cgroup rw,cpuset 0 0", "3:cpuset:/job", "/cg/cpuset/job", "cpuset.cpus"),
        ("c /cg cgroup2 rw 0 0", "0::/job/task", "/cg/job", "cpuset.cpus.effective"),
    ],
)
def test_cpusets_of_trees_without_a_status(epyc, mounts, cgroup, folder, name):
    for gone in ("status", "mountinfo", "cgroup"):
        (epyc.root / "proc/self" / gone).unlink()
    epyc.put("/proc/mounts", f"proc /proc proc rw 0 0\n{mounts}")
    if cgroup:
        epyc.put("/proc/self/cgroup", cgroup)
    else:
        epyc.put("/proc/self/cpuset", "/job")
    epyc.put(f"{folder}/{name}", "0-3,64-67")
    facts = read_facts(str(epyc))
    assert counts(facts["cpu"]) == (4, 8, 1, 1, 1, 2)
    assert facts["sources"]["cpu.allowed_cpus"] == f"{folder}/{name}"


def test_cpus_offline_and_sparse(epyc):
    epyc.put(f"{CPUS}/online", "0-15,40-63,104-127")
    for cpu in [*range(16), *range(40, 64), *range(104, 128)]:
        core = cpu % 64
        threads = [core, core + 64] if core >= 40 else [core]
        for name in ("core_cpus", "thread_siblings"):
            epyc.put(f"{CPUS}/cpu{cpu}/topology/{name}", mask(threads))
    assert counts(cpu_of(epyc)) == (40, 64, 2, 2, 10, 2)


def test_without_files_in_sys_the_cores_come_from_cpuinfo(container_v1):
    for cpu in (0, 1):
        for name in ("core_cpus", "thread_siblings", "package_cpus", "core_siblings"):
            for suffix in ("", "_list"):
                (container_v1.root / f"sys/devices/system/cpu/cpu{cpu}/topology/{name}{suffix}").unlink()
    facts = read_facts(str(container_v1))
    assert (facts["cpu"]["physical_cores"], facts["cpu"]["sockets"]) == (2, 1)
    assert facts["sources"]["cpu.physical_cores"] == "/proc/cpuinfo physical id, core id"


def test_kinds_without_topology_have_no_counts(tree):
    tree.put(f"{CPUS}/online", "0-1")
    tree.put("/proc/cpuinfo", cpuinfo(2, lambda cpu: arm([0xD08, 0xD0B][cpu])))
    cpu = cpu_of(tree)
    assert classes(cpu, "name", "cores", "chosen") == [
        ("cortex-a72", None, True),
        ("cortex-a76", None, False),
    ]
    assert (cpu["usable_cores"], cpu["rpeak_gflops"]) == (None, None)


def test_s390_tells_its_vendor_once(tree):
    """The form of /proc/cpuinfo of an LPAR before Linux 4.8."""
    tree.put("/proc/cpuinfo", "vendor_id       : IBM/S390\n# processors    : 1\nprocessor 0: version = FF")
    tree.put(f"{CPUS}/online", "0")
    cpu = cpu_of(tree)
    assert (cpu["vendor"], cpu["physical_cores"]) == ("IBM/S390", None)
    assert classes(cpu, "name", "cores", "chosen") == [("all", None, True)]


def test_a_kernel_without_numa_has_one_node(tmp_path):
    cpu = cpu_of(MACHINES["raspberry-pi-4"](tmp_path))
    assert cpu["numa"] == [{"node": 0, "cores": 4, "memory_bytes": 3885396 * 1024}]


def test_memory_of_other_nodes_is_not_usable(epyc):
    """A cpuset that holds the memory of one of two nodes."""
    epyc.put("/proc/self/status", "Cpus_allowed_list:\t0-127\nMems_allowed_list:\t1")
    facts = read_facts(str(epyc))
    assert facts["cpu"]["numa_nodes"] == 1
    assert [node["memory_bytes"] for node in facts["cpu"]["numa"]] == [0, 264140000 * 1024]
    free, inactive = 264140000 * 48 // 50, 264140000 // 50
    assert facts["memory"]["usable_bytes"] == (free + inactive) * 1024


def test_memory_of_a_gpu_is_no_memory_of_the_node(epyc):
    """NVIDIA's driver adds a node for each GPU on NVLink to the CPU; numa_status as hwloc recorded it."""
    before = read_facts(str(epyc))
    epyc.node(250, [], 16_000_000)
    epyc.put("/proc/driver/nvidia/gpus/0004:04:00.0/numa_status", "Node:      250\nStatus:    online")
    facts = read_facts(str(epyc))
    assert facts["cpu"]["numa"] == before["cpu"]["numa"]
    free, inactive = 264140000 * 48 // 50, 264140000 // 50
    assert facts["memory"]["usable_bytes"] == min(before["memory"]["usable_bytes"], 2048 * (free + inactive))


@pytest.mark.parametrize(
    "garbage", [None, "", "\0", "-1", "9" * 5000, "0-3", "ffffffff", "max max", "x: y\n\nz"]
)
@pytest.mark.parametrize("machine", ["container", "rk3588"])
def test_no_file_can_break_it(tmp_path, machine, garbage):
    """Each file in turn is missing, or holds something else."""
    tree = MACHINES[machine](tmp_path)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        kept = path.read_bytes()
        if garbage is None:
            path.unlink()
        else:
            path.write_text(garbage)
        facts = read_facts(str(tree))
        assert facts["memory"]["usable_bytes"] is None or facts["memory"]["usable_bytes"] >= 0
        assert facts["cpu"]["usable_cores"] is None or facts["cpu"]["usable_cores"] >= 1
        path.write_bytes(kept)


def test_cpu_lists():
    assert parse_cpu_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpu_list("\n") == parse_cpu_list(None) == []
    assert parse_cpu_mask("3,0000ffff\n") == [*range(16), 32, 33]
    assert parse_cpu_mask(None) == parse_cpu_mask("0-3") == []


@given(st.frozensets(st.integers(0, 9000)))
def test_lists_and_masks_there_and_back(cpus):
    assert parse_cpu_list(format_cpu_list(cpus)) == parse_cpu_mask(mask(cpus)) == sorted(cpus)


@given(st.one_of(st.text(), st.text(alphabet="0123456789abcf,-\n \0")))
def test_any_text_is_a_list(text):
    for cpus in (parse_cpu_list(text), parse_cpu_mask(text)):
        assert cpus == sorted(set(cpus))
        assert all(cpu >= 0 for cpu in cpus)
    assert all(value >= 0 for value in parse_meminfo(text).values())
