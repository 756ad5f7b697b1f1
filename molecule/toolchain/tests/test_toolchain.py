"""HPL and dgemm_peak as the role built them, run by hand."""

from __future__ import annotations

import re

import pytest

BIN = "/opt/nodesmith/hpl/current/bin"
# One core of the host may be all there is, and a container forbids copies between processes.
MPIRUN = "mpirun --oversubscribe --bind-to none --mca btl_vader_single_copy_mechanism none"
HPL_DAT = """\
HPLinpack benchmark input file
by hand
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1000         Ns
1            # of NBs
96           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
0            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""


@pytest.fixture
def folder(host):
    path = host.check_output("mktemp -d")
    yield path
    host.run("rm -r %s", path)


def test_linpack_passes_its_own_check(host, folder):
    host.check_output(f"printf %s > {folder}/HPL.dat", HPL_DAT)
    output = host.check_output(f"cd {folder} && OPENBLAS_NUM_THREADS=1 {MPIRUN} -n 2 {BIN}/xhpl")
    line = re.search(r"^W\S+ +1000 +96 +1 +2 +\S+ +\S+", output, re.MULTILINE)
    assert line, output
    residual = re.search(r"\|\|Ax-b\|\|_oo/\S.*= +(\S+) \.+ PASSED", output)
    assert residual, output
    assert 0 < float(residual[1]) < 16
    assert re.search(r"1 tests completed and passed residual checks", output)


def test_without_an_input_nothing_is_run(host, folder):
    run = host.run(f"cd {folder} && {MPIRUN} -n 1 {BIN}/xhpl")
    assert run.rc != 0
    assert "HPL.dat" in run.stderr + run.stdout
    assert "PASSED" not in run.stdout


def test_a_broken_input_is_not_replaced_by_a_built_in_one(host, folder):
    host.check_output(f"printf %s > {folder}/HPL.dat", HPL_DAT.replace("1000 ", "-7   "))
    run = host.run(f"cd {folder} && {MPIRUN} -n 2 {BIN}/xhpl")
    assert run.rc != 0
    assert "PASSED" not in run.stdout


def test_dgemm_is_measured_on_every_rank(host):
    line = host.check_output(f"OPENBLAS_NUM_THREADS=1 {MPIRUN} -n 2 {BIN}/dgemm_peak 512 0.2")
    match = re.fullmatch(r"DGEMM ranks=2 n=512 gflops_sum=(\S+) gflops_min=(\S+) gflops_max=(\S+)", line)
    assert match, line
    total, low, high = map(float, match.groups())
    assert total == pytest.approx(low + high, abs=0.01)


def test_dgemm_refuses_a_size_that_is_none(host):
    assert host.run(f"{MPIRUN} -n 1 {BIN}/dgemm_peak nine 1").rc != 0


@pytest.mark.parametrize("program", ["xhpl", "dgemm_peak"])
def test_arithmetic_is_ieee_754(host, program):
    # What -ffast-math links in to flush denormals, for the whole process.
    symbols = host.check_output(f"nm {BIN}/{program}")
    assert "main" in symbols
    assert "set_fast_math" not in symbols


def test_linked_with_openblas_and_open_mpi(host):
    libraries = host.check_output(f"ldd {BIN}/xhpl")
    assert "libopenblas" in libraries
    assert "libmpi.so" in libraries
    assert "not found" not in libraries


def test_another_build_lies_beside_this_one(host):
    builds = host.check_output("ls -d /opt/nodesmith/hpl/debian-*").split()
    current = host.file("/opt/nodesmith/hpl/current").linked_to
    assert len(builds) == 2
    # the one that converge.yml asks for was built first, and coming back to it built nothing
    assert current == min(builds, key=lambda build: host.file(f"{build}/bin/xhpl").mtime)


def test_the_build_left_nothing_behind(host):
    assert host.check_output("find /var/tmp -maxdepth 1 -name 'nodesmith-*'") == ""
