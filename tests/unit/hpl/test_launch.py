"""Host files and command lines, against the options that Open MPI 4.1 and 5.0 document."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_launch import hostfile, mpirun_argv
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError


@pytest.fixture
def two(node):
    return plan([node("b", 64, 4), node("a", 64, 8)])


def test_hostfile(two):
    assert hostfile(two) == "a.cluster slots=8\nb.cluster slots=4\n"
    assert hostfile(two, "mpich") == "a.cluster:8\nb.cluster:4\n"
    with pytest.raises(HplError, match="'lam'"):
        hostfile(two, "lam")
    with pytest.raises(HplError, match="no hosts"):
        hostfile({})


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
    ("options", "words"),
    [
        ({"bind": "socket"}, "bind must be core or none, not 'socket'"),
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
        ({**two, "mpi": {"family": "mpich", "version": "4.2"}}, "xhpl", "cannot start mpich"),
        (two, "", "no program"),
        (two, [], "no program"),
    ):
        with pytest.raises(HplError) as caught:
            mpirun_argv(changed, program)
        assert words in str(caught.value)
