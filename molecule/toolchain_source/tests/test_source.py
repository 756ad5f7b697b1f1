"""The toolchain from source: one node built it, both have it, and it computes."""

from __future__ import annotations

import json
import re

import pytest

PREFIX = "/opt/nodesmith"
MPIRUN = (
    f"{PREFIX}/openmpi/current/bin/mpirun --oversubscribe --bind-to none "
    "--mca btl_vader_single_copy_mechanism none"
)
PROGRAMS = ("openmpi", "openblas")


def manifest(host, name):
    return json.loads(host.check_output(f"cat {PREFIX}/{name}/current/.nodesmith-build.json"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_build_is_whole(host, name):
    told = manifest(host, name)
    assert (
        host.file(f"{PREFIX}/{name}/current").linked_to == f"{PREFIX}/{name}/{told['version']}-{told['key']}"
    )
    assert host.check_output(f"stat -c %U {PREFIX}/{name}/current/lib") == "root"


def test_the_second_node_compiled_nothing(host):
    first = host.check_output("hostname") == "source-node1"
    for name in PROGRAMS:
        assert host.file(f"{PREFIX}/{name}/logs").exists is first


def test_hpl_uses_these_libraries_without_an_environment(host):
    libraries = host.check_output(f"env -i /usr/bin/ldd {PREFIX}/hpl/current/bin/xhpl")
    for name, library in (("openmpi", "libmpi"), ("openblas", "libopenblas")):
        assert re.search(rf"{library}\.so\S* => {PREFIX}/{name}/", libraries), libraries
    assert "not found" not in libraries


def test_dgemm_runs_on_the_kernel_that_was_built(host):
    line = host.check_output(f"{MPIRUN} -n 2 {PREFIX}/hpl/current/bin/dgemm_peak 512 0.2")
    assert re.search(r"DGEMM ranks=2 n=512 gflops_sum=\d", line), line


def test_nothing_is_left_to_build_in(host):
    assert host.check_output("ls /var/tmp/nodesmith-build 2>/dev/null | grep -v lock || true") == ""
