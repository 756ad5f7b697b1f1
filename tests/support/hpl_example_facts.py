"""The facts of the hpc group of inventory/example, as the module hpl_facts reads them from written trees.

Usage: .venv/bin/python tests/support/hpl_example_facts.py (writes docs/facts/<host>.json again)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpl_gpu_trees import MACHINES_GPU, add_network
from hpl_trees import MACHINES, Tree

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "facts"


def _cpu_node(root: Path) -> Tree:
    tree = MACHINES["epyc-2s"](root)
    add_network(tree, "enp1s0", 25000)
    return tree


def _head(root: Path) -> Tree:
    tree = MACHINES["xeon-2s"](root)
    add_network(tree, "enp1s0", 10000)
    return tree


HOSTS: dict[str, Callable[[Path], Tree]] = {
    "head": _head,
    "cpu1": _cpu_node,
    "cpu2": _cpu_node,
    "cpu3": _cpu_node,
    "mi1": MACHINES_GPU["mi250x-8gcd"],
    "mi2": MACHINES_GPU["mi250x-8gcd"],
}


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """Build the tree of every host under ``folder`` and have the module read them."""
    for host, build in HOSTS.items():
        build(folder / host).put("/proc/sys/kernel/hostname", host)
    command = [
        Path(sys.executable).with_name("ansible"),
        *("all", "-i", ",".join(HOSTS) + ",", "-c", "local", "-m", "nodesmith.cluster.hpl_facts"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "--one-line"),
        *("-a", f"root={folder}/{{{{ inventory_hostname }}}}"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = (line.split(" | SUCCESS => ") for line in done.stdout.splitlines())
    return {host: json.loads(result)["hpl_facts"] for host, result in told}


def main() -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as folder:
        for host, facts in read_all(Path(folder)).items():
            (FOLDER / f"{host}.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
