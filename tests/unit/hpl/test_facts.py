"""Facts from written trees, from this machine, and from lscpu, which shares no code with them."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_cpu import (
    dp_flops_per_cycle,
    identify_arm,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import (
    parse_cpu_list,
    parse_mpirun_version,
    read_facts,
)

GIB = 2**30


def test_this_machine():
    facts = read_facts("/")
    assert facts["memory"]["total_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < facts["memory"]["usable_bytes"] <= facts["memory"]["available_bytes"]
    assert facts["cpu"]["allowed_cpus"] == len(os.sched_getaffinity(0))
    assert facts["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert facts["machine"] == platform.machine()
    assert facts["hostname"] == platform.node()


def test_container_with_a_v1_limit(container_v1):
    facts = read_facts(str(container_v1))
    assert facts["memory"] == {
        "total_bytes": 24683656 * 1024,
        "available_bytes": 24288196 * 1024,
        "limit_bytes": 2 * GIB,
        "limit_used_bytes": 41942784,
        "hugepages_bytes": 0,
        "usable_bytes": 2 * GIB - 41942784,
    }
    assert facts["cpu"] == {
        "model": "AMD EPYC",
        "vendor": "AuthenticAMD",
        "microarchitecture": "zen3",
        "physical_cores": 2,
        "allowed_cpus": 2,
        "sockets": 1,
        "numa_nodes": 1,
        "l3_groups": 1,
        "threads_per_core": 1,
        "quota_cpus": None,
        "base_mhz": 2445.4,
        "max_mhz": None,
        "dp_flops_per_cycle": 16,
        "rpeak_gflops": 78.253,
    }
    assert (facts["nofile"], facts["machine"], facts["hostname"]) == (20000, "x86_64", "node1")
    assert facts["sources"]["memory.limit_bytes"] == "/sys/fs/cgroup/memory"


def test_v1_without_a_limit(container_v1):
    for none in (9223372036854771712, 9223372036854710272):
        container_v1.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", none)
        memory = read_facts(str(container_v1))["memory"]
        assert (memory["limit_bytes"], memory["usable_bytes"]) == (None, 24288196 * 1024)


def test_v1_limit_of_a_parent_binds(container_v1):
    """A session inside a container that shows its host's hierarchy from its own part down."""
    container_v1.put("/proc/self/cgroup", "4:memory:/docker/abc/system.slice/ssh.service")
    container_v1.put(
        "/proc/self/mountinfo", "89 85 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    )
    child = "/sys/fs/cgroup/memory/system.slice/ssh.service"
    container_v1.put(f"{child}/memory.limit_in_bytes", 9223372036854771712)
    container_v1.put(f"{child}/memory.usage_in_bytes", 1000)
    assert read_facts(str(container_v1))["memory"]["usable_bytes"] == 2 * GIB - 41942784
    container_v1.put(f"{child}/memory.limit_in_bytes", GIB)
    memory = read_facts(str(container_v1))["memory"]
    assert (memory["limit_bytes"], memory["usable_bytes"]) == (GIB, GIB - 1000)


@pytest.mark.parametrize(("quota", "cores"), [(50000, 1), (100000, 1), (150000, 1), (200000, 2), (900000, 2)])
def test_a_cpu_quota_caps_the_cores(container_v1, quota, cores):
    container_v1.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota)
    cpu = read_facts(str(container_v1))["cpu"]
    assert (cpu["quota_cpus"], cpu["physical_cores"]) == (quota / 100000, cores)
    assert cpu["rpeak_gflops"] == pytest.approx(cores * 2.4454 * 16, rel=1e-4)


def test_two_socket_epyc(epyc):
    cpu = read_facts(str(epyc))["cpu"]
    assert cpu == {
        "model": "AMD EPYC 7543 32-Core Processor",
        "vendor": "AuthenticAMD",
        "microarchitecture": "zen3",
        "physical_cores": 64,
        "allowed_cpus": 128,
        "sockets": 2,
        "numa_nodes": 2,
        "l3_groups": 16,
        "threads_per_core": 2,
        "quota_cpus": None,
        "base_mhz": 2800.0,
        "max_mhz": 3737.89,
        "dp_flops_per_cycle": 16,
        "rpeak_gflops": 2867.2,
    }


def lscpu(root: str) -> list[dict]:
    """One entry a CPU, as lscpu reads the tree at ``root``."""
    command = ["lscpu", "--sysroot", root, "--json", "--extended=CPU,CORE,SOCKET,NODE,CACHE"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["cpus"]


def test_lscpu_agrees(epyc):
    ours, theirs = read_facts(str(epyc))["cpu"], lscpu(str(epyc))
    assert ours["allowed_cpus"] == len(theirs)
    assert ours["physical_cores"] == len({(cpu["socket"], cpu["core"]) for cpu in theirs})
    assert ours["sockets"] == len({cpu["socket"] for cpu in theirs})
    assert ours["numa_nodes"] == len({cpu["node"] for cpu in theirs})
    assert ours["l3_groups"] == len({cpu["l1d:l1i:l2:l3"].split(":")[3] for cpu in theirs})


def test_the_allowed_cpus_count(epyc):
    """A job with both threads of four cores and one thread of four more, all on the second socket."""
    epyc.put("/proc/self/status", "Cpus_allowed_list:\t32-39,96-99,500")
    cpu = read_facts(str(epyc))["cpu"]
    counted = (
        cpu["allowed_cpus"],
        cpu["physical_cores"],
        cpu["sockets"],
        cpu["numa_nodes"],
        cpu["l3_groups"],
    )
    assert counted == (12, 8, 1, 1, 2)


def test_v2_limits_up_the_hierarchy(epyc):
    top = "/sys/fs/cgroup"
    user, session = f"{top}/user.slice/user-1000.slice", f"{top}/user.slice/user-1000.slice/session-3.scope"
    assert read_facts(str(epyc))["memory"]["limit_bytes"] is None
    epyc.put(f"{session}/memory.max", "max")
    epyc.put(f"{session}/memory.current", 5)
    epyc.put(f"{user}/memory.max", 64 * GIB)
    epyc.put(f"{user}/memory.high", 60 * GIB)
    epyc.put(f"{user}/memory.current", 12 * GIB)
    epyc.put(f"{user}/memory.stat", f"anon 1\ninactive_file {2 * GIB}\nactive_file 7")
    epyc.put(f"{user}/cpu.max", "1650000 100000")
    facts = read_facts(str(epyc))
    assert (facts["memory"]["limit_bytes"], facts["memory"]["limit_used_bytes"]) == (60 * GIB, 10 * GIB)
    assert facts["memory"]["usable_bytes"] == 50 * GIB
    assert (facts["cpu"]["quota_cpus"], facts["cpu"]["physical_cores"]) == (16.5, 16)


def test_a_parent_with_less_left_binds_though_its_limit_is_larger(epyc):
    base = "/sys/fs/cgroup/user.slice"
    for folder, limit, used in ((base, 100, 95), (f"{base}/user-1000.slice", 20, 0)):
        epyc.put(f"{folder}/memory.max", limit * GIB)
        epyc.put(f"{folder}/memory.current", used * GIB)
    memory = read_facts(str(epyc))["memory"]
    assert (memory["limit_bytes"], memory["usable_bytes"]) == (20 * GIB, 5 * GIB)


def test_ampere_altra(tree):
    tree.put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 90 kB")
    tree.put("/sys/devices/system/cpu/online", "0-79")
    tree.put(
        "/proc/cpuinfo",
        "\n\n".join(
            f"processor\t: {n}\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
            "CPU part\t: 0xd0c\nCPU revision\t: 1"
            for n in range(80)
        ),
    )
    for number in range(80):
        tree.put(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list", number)
        tree.put(f"/sys/devices/system/cpu/cpu{number}/topology/physical_package_id", 0)
    tree.put("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", 3000000)
    facts = read_facts(str(tree))
    cpu = facts["cpu"]
    assert (cpu["microarchitecture"], cpu["physical_cores"], cpu["threads_per_core"]) == (
        "neoverse-n1",
        80,
        1,
    )
    assert cpu["rpeak_gflops"] == 1920  # 80 cores x 3 GHz x 8
    assert facts["memory"]["usable_bytes"] == 90 * 1024


def test_different_cores_have_no_one_microarchitecture(tree):
    tree.put("/sys/devices/system/cpu/online", "0-1")
    tree.put(
        "/proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\n"
        "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b",
    )
    assert read_facts(str(tree))["cpu"]["microarchitecture"] is None


def test_an_empty_tree_is_all_null(tree):
    facts = read_facts(str(tree))
    assert all(value is None for value in {**facts["memory"], **facts["cpu"]}.values())
    assert [facts[key] for key in ("swap_used_bytes", "nofile", "machine", "hostname")] == [None] * 4


def test_every_figure_has_a_source(container_v1):
    facts = read_facts(str(container_v1))
    names = {f"{group}.{key}" for group in ("memory", "cpu") for key in facts[group]}
    assert set(facts["sources"]) == names | {"swap_used_bytes", "nofile", "machine", "hostname"}


def test_from_a_tree_to_a_plan(container_v1):
    sized = plan([{"name": "node1", "address": "node1", "facts": read_facts(str(container_v1))}])
    assert 8 * sized["n"] ** 2 < 0.8 * 2 * GIB
    assert (sized["nb"], sized["ranks"], sized["rpeak_gflops"]) == (256, 2, 78.253)


@pytest.mark.parametrize(
    ("text", "family", "version"),
    [
        (
            "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/",
            "openmpi",
            "4.1.4",
        ),
        ("mpirun (Open MPI) 5.0.7rc1", "openmpi", "5.0.7rc1"),
        (
            "HYDRA build details:\n    Version:                                 4.0.2\n    CC: gcc",
            "mpich",
            "4.0.2",
        ),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619", "intelmpi", "2021.10"),
    ],
)
def test_mpirun_version(text, family, version):
    assert parse_mpirun_version(text, "/x") == {"family": family, "version": version, "path": "/x"}


def test_unknown_mpirun():
    assert parse_mpirun_version("mpirun: command not found", "/x") is None


def test_cpu_lists():
    assert parse_cpu_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpu_list("\n") == parse_cpu_list(None) == []


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz", 32),
        ("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 32),
        ("Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz", 16),
        ("Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz", 16),
        ("Intel(R) Xeon(R) Processor", None),
    ],
)
def test_fma_units_of_skylake(model, expected):
    assert dp_flops_per_cycle("skylakex", model)[0] == expected


def test_unknown_cpus():
    assert dp_flops_per_cycle(None, None)[0] is None
    assert identify_arm(1, 2) is None
