"""Memory, limits and the form of the facts, from written trees and from this machine."""

from __future__ import annotations

import os
import platform
import resource

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_cpu import (
    _ARM,
    _HYBRID,
    _X86,
    MICROARCHITECTURES,
    dp_flops_per_cycle,
    identify_arm,
    identify_x86,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import (
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
    clocks = {"base_mhz": 2445.4, "max_mhz": None, "dp_flops_per_cycle": 16}
    assert (
        facts["cpu"]
        == {
            "model": "AMD EPYC",
            "vendor": "AuthenticAMD",
            "physical_cores": 2,
            "allowed_cpus": 2,
            "sockets": 1,
            "numa_nodes": 1,
            "l3_groups": 1,
            "threads_per_core": 1,
            "quota_cpus": None,
            "core_classes": [
                {
                    "name": "all",
                    "cores": 2,
                    "cpus": "0-1",
                    "microarchitecture": "zen3",
                    "rpeak_gflops": 78.253,
                    "chosen": True,
                }
                | clocks
            ],
            "usable_cores": 2,
            "cores_per_socket": [2],
            "cores_per_l3": [2],
            "numa": [{"node": 0, "cores": 2, "memory_bytes": 24683656 * 1024}],
            "microarchitecture": "zen3",
            "rpeak_gflops": 78.253,
            "rpeak_max_gflops": None,
        }
        | clocks
    )
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
    assert (facts["cpu"]["quota_cpus"], facts["cpu"]["usable_cores"]) == (16.5, 16)


def test_a_parent_with_less_left_binds_though_its_limit_is_larger(epyc):
    base = "/sys/fs/cgroup/user.slice"
    for folder, limit, used in ((base, 100, 95), (f"{base}/user-1000.slice", 20, 0)):
        epyc.put(f"{folder}/memory.max", limit * GIB)
        epyc.put(f"{folder}/memory.current", used * GIB)
    memory = read_facts(str(epyc))["memory"]
    assert (memory["limit_bytes"], memory["usable_bytes"]) == (20 * GIB, 5 * GIB)


def test_a_kernel_without_mem_available(tree):
    tree.put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 90 kB")
    assert read_facts(str(tree))["memory"]["usable_bytes"] == 90 * 1024


def test_an_empty_tree_is_all_null(tree):
    facts = read_facts(str(tree))
    lists = ("core_classes", "cores_per_socket", "cores_per_l3", "numa")
    assert facts["cpu"] == dict.fromkeys(facts["cpu"]) | {name: [] for name in lists}
    assert facts["memory"] == dict.fromkeys(facts["memory"])
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
    assert identify_x86("GenuineIntel", 6, 1) is None


@pytest.mark.parametrize(
    ("model", "kind", "expected"),
    [
        (0x97, "all", "goldencove"),  # Core i5-12400: Alder Lake without E-cores
        (0xB7, "performance", "raptorcove"),
        (0xB7, "efficiency", "gracemont"),
        (0xAA, "low-power", "crestmont"),
        (0xC6, "efficiency", "skymont"),
        (0xBE, "all", "gracemont"),  # N100
        (0xCF, "all", "emeraldrapids"),
        (0xAD, "all", "graniterapids"),
        (0xAF, "all", "sierraforest"),
    ],
)
def test_intel_models(model, kind, expected):
    """Models by the names in the kernel's intel-family.h."""
    assert identify_x86("GenuineIntel", 6, model, kind) == expected


def test_every_name_has_a_row():
    names = {*_ARM.values(), *(name for kinds in _HYBRID.values() for name in kinds)}
    names |= {name for rows in _X86.values() for *_model, name in rows}
    assert names == set(MICROARCHITECTURES)


def test_grace_as_nvidia_prints_it():
    """The Grace CPU superchip: 144 cores, a base clock of 3.1 GHz, 7.1 TFLOPS in FP64."""
    assert MICROARCHITECTURES["neoverse-v2"].dp_flops_per_cycle * 144 * 3.1 == pytest.approx(7100, rel=0.01)
