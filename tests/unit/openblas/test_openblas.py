"""How OpenBLAS is built, against the names in its own source."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_blas import kernel_flops
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_cpu import MICROARCHITECTURES
from ansible_collections.nodesmith.cluster.plugins.module_utils._openblas import (
    TARGETS,
    OpenblasError,
    openblas_options,
)


def test_targets_are_cpus_and_their_kernels_are_wide_enough():
    assert set(TARGETS) <= set(MICROARCHITECTURES)
    for name, target in TARGETS.items():
        able, reached = MICROARCHITECTURES[name].dp_flops_per_cycle, kernel_flops("openblas", target)
        assert reached, target
        assert able is None or reached >= able, name


def test_a_known_cpu_gets_its_target_and_an_unknown_one_all_kernels():
    assert openblas_options("zen3") == {
        "target": "ZEN",
        "make_options": [
            "TARGET=ZEN",
            "USE_THREAD=0",
            "USE_LOCKING=1",
            "NO_LAPACK=1",
            "NOFORTRAN=1",
            "NO_AFFINITY=1",
        ],
    }
    for unknown in (None, "itanium"):
        assert openblas_options(unknown)["make_options"][0] == "DYNAMIC_ARCH=1"
    assert openblas_options("zen3", target="dynamic")["target"] == "dynamic"
    assert openblas_options("zen3", target="HASWELL")["make_options"][0] == "TARGET=HASWELL"


def test_threads():
    hybrid = openblas_options("zen3", threading="openmp", num_threads="64")["make_options"]
    assert {"USE_OPENMP=1", "NUM_THREADS=64"} <= set(hybrid)
    assert "NUM_THREADS=64" not in openblas_options("zen3", num_threads=64)["make_options"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "ZEN9"}, "openblas_target must be auto, dynamic or one of A64FX, "),
        ({"threading": "green"}, "openblas_threading must be one of none, openmp, pthreads, not 'green'"),
        (
            {"threading": "openmp", "num_threads": 0},
            "openblas_num_threads must be a count of at least 1, not 0",
        ),
        ({"num_threads": "many"}, "not 'many'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(OpenblasError) as caught:
        openblas_options("zen3", **options)
    assert words in str(caught.value)
