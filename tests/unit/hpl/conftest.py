"""Trees of /proc and /sys, HPL output as HPL prints it, and nodes with plain facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hpl_outputs import ending, one_test
from hpl_trees import Tree, container, epyc_2s

GIB = 2**30


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty tree."""
    return Tree(tmp_path / "tree")


@pytest.fixture
def container_v1(tmp_path: Path) -> Tree:
    return container(tmp_path / "container")


@pytest.fixture
def epyc(tmp_path: Path) -> Tree:
    return epyc_2s(tmp_path / "epyc")


HEADER = "T/V                N    NB     P     Q               Time                 Gflops"


def hpl_row(n: int, nb: int, p: int, q: int, seconds: float, gflops: str, residual: str, verdict: str) -> str:
    """One test as HPL 2.3 prints it (the printf formats of HPL_pdtest.c)."""
    row = f"WR11C2R4{n:12d} {nb:5d} {p:5d} {q:5d} {seconds:18.2f}     {gflops:>18s}"
    row += (
        "\nHPL_pdgesv() start time Thu Nov 12 10:00:00 2026\n"
        "\nHPL_pdgesv() end time   Thu Nov 12 10:00:23 2026\n"
    )
    return one_test(HEADER, row, f" {residual:>16s}", verdict)


@pytest.fixture
def hpl_text():
    """Functions that print a row and the end of an HPL run."""
    return hpl_row, ending


@pytest.fixture
def node():
    """A function that makes a node with plain facts."""

    def make(name: str = "node1", gib: float = 64, cores: int = 16, **cpu) -> dict:
        size = int(gib * GIB)
        return {
            "name": name,
            "address": f"{name}.cluster",
            "facts": {
                "memory": {
                    "total_bytes": size,
                    "available_bytes": size,
                    "limit_bytes": None,
                    "usable_bytes": size,
                },
                "swap_used_bytes": 0,
                "cpu": {
                    "physical_cores": cores,
                    "model": "AMD EPYC",
                    "microarchitecture": "zen3",
                    "rpeak_gflops": None,
                }
                | cpu,
                "mpi": {"family": "openmpi", "version": "4.1.4", "path": "/usr/bin/mpirun"},
            },
        }

    return make
