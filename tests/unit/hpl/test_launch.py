"""Host files and command lines, against the options that the launchers document.

The forms with domains and with several parts were also run with Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and
Intel MPI 2021.19, on invented topologies and with a shell in the place of ssh, to see where ranks go.
"""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_launch import hostfile, mpirun_argv
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError


@pytest.fixture
def two(node):
    return plan([node("b", 64, 4), node("a", 64, 8)])


MPICH = {"family": "mpich", "version": "4.2.1", "path": "/usr/bin/mpiexec"}
INTEL = {"family": "intelmpi", "version": "2021.19", "path": "/opt/intel/mpiexec"}


def test_hostfile(two):
    assert hostfile(two) == "a.cluster slots=8\nb.cluster slots=4\n"
    assert hostfile(two, "mpich") == hostfile(two, "intelmpi") == "a.cluster:8\nb.cluster:4\n"
    assert hostfile(two, "slurm") == "a\n" * 8 + "b\n" * 4
    with pytest.raises(HplError, match="'lam'"):
        hostfile(two, "lam")
    for empty in ({}, {"hosts": []}, {"hosts": [{"address": "a", "slots": 0}]}):
        with pytest.raises(HplError, match="no hosts"):
            hostfile(empty)


def test_hosts_without_slots_are_left_out():
    plan = {"hosts": [{"address": "a", "slots": 0}, {"address": "b", "slots": 1}]}
    assert hostfile(plan) == "b slots=1\n"
    assert hostfile(plan, "slurm") == "b\n"


def test_ipv6_addresses():
    # Open MPI 4.1.4 stops at [fd00::b] and at fd00::b, 5.0.11 reads fd00::b, hydra cuts at the first colon
    plan = {"mpi": {"version": "5.0.11"}, "hosts": [{"name": "b", "address": "[fd00::b]", "slots": 1}]}
    assert hostfile(plan) == "fd00::b slots=1\n"
    assert hostfile(plan, "slurm") == "b\n"
    for changed, family in (({**plan, "mpi": {"version": "4.1.4"}}, "openmpi"), (plan, "mpich")):
        with pytest.raises(
            HplError, match=rf"b: {family} has no way to write the IPv6 address .* host a name"
        ):
            hostfile(changed, family)


def test_open_mpi_4(two):
    argv = mpirun_argv(
        two, "/opt/xhpl", hostfile="hosts", interface="10.0.0.0/8", cma=False, timeout=60, ssh_args="-i key",
        allow_root=True,
    )  # fmt: skip
    assert argv == [
        "/usr/bin/mpirun", "-n", "12", "--allow-run-as-root", "--hostfile", "hosts", "--map-by", "slot",
        "--bind-to", "core", "--timeout", "60", "--mca", "btl_tcp_if_include", "10.0.0.0/8",
        "--mca", "oob_tcp_if_include", "10.0.0.0/8", "--mca", "plm_rsh_args", "-i key",
        "--mca", "btl_vader_single_copy_mechanism", "none",
        "-x", "OMP_NUM_THREADS=1", "-x", "OPENBLAS_NUM_THREADS=1", "/opt/xhpl",
    ]  # fmt: skip


def test_open_mpi_5(two):
    argv = mpirun_argv(
        two, ["/opt/xhpl", "-v"], mpirun="/opt/ompi/bin/mpirun", mpi_version="5.0.7", interface="eth0",
        cma=False, ssh_args="-i key", bind="none", env={"OMP_NUM_THREADS": 2, "X": "y z"},
    )  # fmt: skip
    assert argv == [
        "/opt/ompi/bin/mpirun", "-n", "12", "--map-by", "slot", "--bind-to", "none",
        "--mca", "btl_tcp_if_include", "eth0", "--prtemca", "prte_if_include", "eth0",
        "--prtemca", "plm_ssh_args", "-i key", "--mca", "smsc", "^cma",
        "-x", "OMP_NUM_THREADS=2", "-x", "OPENBLAS_NUM_THREADS=1", "-x", "X=y z", "/opt/xhpl", "-v",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "policy"), [(4, "slot:PE=4,OVERSUBSCRIBE"), ("5.0.8", "slot:PE=4:OVERSUBSCRIBE")]
)
def test_hybrid_ranks_get_their_cores(node, version, policy):
    hybrid = plan([node(cores=16)], {"threads_per_rank": 4})
    argv = mpirun_argv(hybrid, "xhpl", mpi_version=version, oversubscribe=True)
    assert argv[argv.index("--map-by") + 1] == policy
    assert "OMP_NUM_THREADS=4" in argv


@pytest.mark.parametrize(
    ("layout", "options", "placement"),
    [
        ("l3", {}, ["l3cache:PE=4", "--bind-to", "core"]),
        ("numa", {"mpi_version": 5, "oversubscribe": True}, ["numa:PE=4:OVERSUBSCRIBE", "--bind-to", "core"]),
        ("socket", {"oversubscribe": True}, ["socket:PE=4,OVERSUBSCRIBE", "--bind-to", "core"]),
        ("node", {}, ["slot:PE=4", "--bind-to", "core"]),
        ("l3", {"bind": "numa"}, ["numa:PE=4", "--bind-to", "core"]),
        ("l3", {"bind": "none"}, ["slot", "--bind-to", "none"]),
    ],
)
def test_ranks_stay_in_the_domain_of_the_layout(node, layout, options, placement):
    hybrid = {**plan([node(cores=16)], {"threads_per_rank": 4}), "layout": layout}
    argv = mpirun_argv(hybrid, "xhpl", **options)
    at = argv.index("--map-by") + 1
    assert argv[at : at + 3] == placement


@pytest.fixture
def mixed():
    """Two hosts with one thread a rank, one with none to give, then one with four."""
    hosts = [("a", 8, 1), ("z", 0, 2), ("b", 8, 1), ("c", 2, 4)]
    return {
        "ranks": 18,
        "threads_per_rank": 1,
        "layout": "l3",
        "mpi": {"family": "openmpi", "version": "4.1.4", "path": "/usr/bin/mpirun"},
        "hosts": [{"address": name, "slots": slots, "threads": threads} for name, slots, threads in hosts],
    }


def test_unlike_threads_with_open_mpi(mixed):
    assert mpirun_argv(mixed, ["/opt/xhpl", "-v"], hostfile="hosts", allow_root=True) == [
        "/usr/bin/mpirun", "-n", "16", "--allow-run-as-root", "--hostfile", "hosts", "--map-by", "slot",
        "--bind-to", "none", "--host", "a:8,b:8",
        "-x", "OMP_NUM_THREADS=1", "-x", "OPENBLAS_NUM_THREADS=1", "/opt/xhpl", "-v",
        ":", "-n", "2", "--host", "c:2",
        "-x", "OMP_NUM_THREADS=4", "-x", "OPENBLAS_NUM_THREADS=4", "/opt/xhpl", "-v",
    ]  # fmt: skip


def test_unlike_threads_with_hydra(mixed):
    assert mpirun_argv({**mixed, "mpi": MPICH}, "xhpl", hostfile="hosts") == [
        "/usr/bin/mpiexec", "-f", "hosts", "-bind-to", "none",
        "-n", "16", "-env", "OMP_NUM_THREADS", "1", "-env", "OPENBLAS_NUM_THREADS", "1", "xhpl",
        ":", "-n", "2", "-env", "OMP_NUM_THREADS", "4", "-env", "OPENBLAS_NUM_THREADS", "4", "xhpl",
    ]  # fmt: skip


def test_rank_order_is_host_order(mixed):
    mixed["hosts"].append({"address": "d", "slots": 3, "threads": 1})
    argv = mpirun_argv(mixed, "xhpl")
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--host"] == ["a:8,b:8", "c:2", "d:3"]
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "-n"] == ["16", "2", "3"]


def test_like_threads_change_nothing(two):
    for host in two["hosts"]:
        host["threads"] = 1
    with_threads = mpirun_argv(two, "xhpl")
    for host in two["hosts"]:
        del host["threads"]
    assert with_threads == mpirun_argv(two, "xhpl")
    assert ":" not in with_threads


def test_one_kind_of_cores_is_all_that_its_ranks_may_use(mixed):
    for host, cpus in zip(mixed["hosts"], ["0-7", "0-7", "4-11", None]):
        host.update(threads=1, cpus=cpus)
    argv = mpirun_argv(mixed, ["/opt/xhpl"])
    assert argv[argv.index("--bind-to") + 1] == "none"
    assert [argv[i + 2 :][:2] for i, word in enumerate(argv) if word == "taskset"] == [
        ["0-7", "/opt/xhpl"],
        ["4-11", "/opt/xhpl"],
    ]
    assert argv[-3:] == ["-x", "OPENBLAS_NUM_THREADS=1", "/opt/xhpl"]


def test_an_environment_of_some_hosts_leaves_the_binding(mixed):
    for host in mixed["hosts"]:
        host["threads"] = 1
    mixed["hosts"][-1]["env"] = {"OPENBLAS_CORETYPE": "HASWELL"}
    argv = mpirun_argv(mixed, "xhpl", env={"A": "b"})
    assert argv[argv.index("--bind-to") + 1] == "core"
    assert [argv.index(":") < i for i, word in enumerate(argv) if word == "OPENBLAS_CORETYPE=HASWELL"] == [
        True
    ]
    assert argv.count("A=b") == 2
    for host in mixed["hosts"]:
        host["env"] = {"OPENBLAS_CORETYPE": "HASWELL"}
    argv = mpirun_argv(mixed, "xhpl", env={"OPENBLAS_CORETYPE": "ZEN"})
    assert ":" not in argv
    assert "OPENBLAS_CORETYPE=ZEN" in argv  # what a person sets counts


def test_mpich(two):
    options = {"hostfile": "hosts", "interface": "ib0", "cma": False, "timeout": 60, "ssh_args": "-i key"}
    assert mpirun_argv({**two, "mpi": MPICH, "layout": "numa"}, "xhpl", env={"X": "y z"}, **options) == [
        "env", "MPIEXEC_TIMEOUT=60", "HYDRA_LAUNCHER_EXTRA_ARGS=-i key", "/usr/bin/mpiexec", "-f", "hosts",
        "-iface", "ib0", "-bind-to", "core:1", "-map-by", "numa", "-n", "12",
        "-env", "MPIR_CVAR_CH4_CMA_ENABLE", "0",
        "-env", "OMP_NUM_THREADS", "1", "-env", "OPENBLAS_NUM_THREADS", "1", "-env", "X", "y z", "xhpl",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bind", "pinning"),
    [
        ("core", ["-env", "I_MPI_PIN_DOMAIN", "omp:compact", "-env", "I_MPI_PIN_CELL", "core"]),
        ("l3cache", ["-env", "I_MPI_PIN_DOMAIN", "cache3", "-env", "I_MPI_PIN_CELL", "core"]),
        ("none", ["-env", "I_MPI_PIN", "0"]),
    ],
)
def test_intel_mpi(two, bind, pinning):
    assert mpirun_argv({**two, "mpi": INTEL}, "xhpl", bind=bind, timeout=60) == [
        "env", "I_MPI_JOB_TIMEOUT=60", "/opt/intel/mpiexec", "-n", "12", *pinning,
        "-env", "OMP_NUM_THREADS", "1", "-env", "OPENBLAS_NUM_THREADS", "1", "xhpl",
    ]  # fmt: skip


def test_srun(two):
    options = {"interface": "ib0", "cma": False, "timeout": 61, "oversubscribe": True, "env": {"X": "y,z"}}
    assert mpirun_argv(two, "xhpl", launcher="srun", hostfile="ranks", **options) == [
        "env", "OMPI_MCA_btl_tcp_if_include=ib0", "OMPI_MCA_btl_vader_single_copy_mechanism=none",
        "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "X=y,z", "SLURM_HOSTFILE=ranks",
        "srun", "--mpi=pmix", "-n", "12", "--cpus-per-task=1", "--distribution=arbitrary", "--cpu-bind=cores",
        "--time=1:01", "--overcommit", "xhpl",
    ]  # fmt: skip
    assert mpirun_argv({**two, "mpi": MPICH}, "xhpl", launcher="srun", bind="none")[3:] == [
        "srun", "--mpi=pmi2", "-n", "12",
        "--cpus-per-task=1", "--distribution=block", "--cpu-bind=none", "xhpl",
    ]  # fmt: skip


def test_what_a_launcher_cannot_be_told(two, mixed):
    for changed, options, words in (
        (mixed, {"launcher": "srun"}, "plan with one threads_per_rank, on nodes of one kind"),
        ({**two, "mpi": MPICH}, {"interface": "10.0.0.0/8"}, "mpich takes the name of one interface"),
        ({**two, "mpi": INTEL}, {"launcher": "srun", "cma": False}, "not known for intelmpi under srun"),
        (
            {**mixed, "hosts": [*mixed["hosts"], {"address": "fd00::d", "slots": 1, "threads": 2}]},
            {},
            "no way to write the IPv6 address fd00::d",
        ),
    ):
        with pytest.raises(HplError) as caught:
            mpirun_argv(changed, "xhpl", **options)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bind": "board"}, "bind must be core, none, l3cache, numa or socket, not 'board'"),
        ({"launcher": "prun"}, "launcher must be mpirun or srun, not 'prun'"),
        ({"mpi_version": "3.1"}, "Open MPI 3.1 is not supported"),
        ({"mpi_version": "new"}, "Open MPI new is not supported"),
        ({"timeout": 0}, "timeout must be between 1"),
        ({"time": 1}, "unknown option time"),
        ({"cma": "false"}, "cma must be true or false, not 'false'"),
    ],
)
def test_refusals(two, options, words):
    with pytest.raises(HplError) as caught:
        mpirun_argv(two, "xhpl", **options)
    assert words in str(caught.value)


def test_refused_plans(two):
    for changed, program, words in (
        ({}, "xhpl", "no ranks"),
        ({**two, "mpi": None}, "xhpl", "version of Open MPI is unknown"),
        ({**two, "mpi": {"family": "lam", "version": "7"}}, "xhpl", "cannot start lam"),
        (two, "", "no program"),
        (two, [], "no program"),
    ):
        with pytest.raises(HplError) as caught:
            mpirun_argv(changed, program)
        assert words in str(caught.value)
