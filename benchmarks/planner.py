"""The planner beside other calculators, and its time and memory from 10 to 100,000 nodes.

Usage: .venv/bin/python benchmarks/planner.py (writes build/benchmarks/planner.json too). Where hmxlabs-hplx
can be imported, it is run itself and not by its formula.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from hpl_calculators import CALCULATORS, CLUSTERS, GIB, SINGLE_NODE  # noqa: E402

from plugins.module_utils._hpl import RUNTIME_BYTES_PER_RANK, plan  # noqa: E402
from plugins.module_utils._hpl_size import rank_bytes  # noqa: E402

SIZES = (10, 100, 1000, 10_000, 100_000)
# (cores, GiB, microarchitecture, Rpeak in GFLOPS) of four kinds of nodes
KINDS = (
    (64, 512, "zen3", 2867.2),
    (96, 768, "zen4", 3686.4),
    (56, 256, "icelakex", 3584.0),
    (80, 256, "neoverse-n1", 1920.0),
)


def cluster(count: int) -> list[dict]:
    """Nodes of four kinds, each with as much free memory as no other."""
    dice = random.Random(1)  # noqa: S311
    nodes = []
    for at in range(count):
        cores, gib, name, rpeak = KINDS[at % len(KINDS)]
        numa = [{"node": i, "cores": cores // 2, "memory_bytes": gib * GIB // 2} for i in (0, 1)]
        facts = {
            "memory": {"usable_bytes": int(gib * GIB * dice.uniform(0.93, 0.97)), "total_bytes": gib * GIB},
            "cpu": {"usable_cores": cores, "microarchitecture": name, "rpeak_gflops": rpeak, "numa": numa},
            "network": {"fastest_mbit": 100_000, "kind": "infiniband"},
            "nofile": 1 << 20,
        }
        nodes.append(
            {"name": f"n{at:06}", "address": f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}", "facts": facts}
        )
    return nodes


def measure(count: int) -> dict:
    """Plan ``count`` nodes in this process, which nothing else has used."""
    nodes = cluster(count)
    start = time.perf_counter()
    made = plan(nodes)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"hosts": count, "seconds": round(seconds, 4), "peak_mib": round(peak, 1), "n": made["n"]}


def share(n: int, nb: int, p: int, q: int, node_bytes: int, cores: int) -> float:
    """Part of a node's memory that a run of this size takes, with panels, MPI and BLAS."""
    return cores * (sum(rank_bytes(n, nb, p, q)) + RUNTIME_BYTES_PER_RANK) / node_bytes


def ours(node_bytes: int, nodes: int, cores: int) -> tuple[int, int, int, int]:
    """The plan for plain nodes of which no more is known."""
    facts = {
        "memory": {"usable_bytes": node_bytes},
        "cpu": {"usable_cores": cores, "microarchitecture": "zen3"},
    }
    made = plan([{"name": f"n{at}", "facts": facts} for at in range(nodes)])
    return made["n"], made["nb"], made["p"], made["q"]


def real_hplx() -> str:
    """Replace hplx's formula by hplx where it is installed; say which it is."""
    try:
        from hmxlabs.hplx.hpl_input import HplInputFileGenerator as Generator
    except ImportError:
        return "hplx by its formula (hmxlabs-hplx is not installed)"
    formula = CALCULATORS["hplx"]

    def run(node: int, nodes: int, cores: int) -> tuple[int, int, int, int]:
        n, nb, p, q = Generator.generate_theoretical_best_inputs(cores, node)[:4]
        first = tuple(value[0] if isinstance(value, list) else value for value in (n, nb, p, q))
        if first[0] != formula(node, nodes, cores)[0]:
            raise SystemExit(f"hplx plans {first}, its formula {formula(node, nodes, cores)}")
        return first

    CALCULATORS["hplx"] = run
    return "hplx itself"


def compare() -> list[dict]:
    """For each cluster: N, NB, P x Q and the share of a node's memory that each calculator takes."""
    rows = []
    for gib, nodes, cores in CLUSTERS:
        size = int(gib * GIB)
        row = {"gib": gib, "nodes": nodes, "cores": cores, "plans": {}}
        for name, calculate in {"nodesmith": ours, **CALCULATORS}.items():
            n, nb, p, q = calculate(size, nodes, cores)
            ranks = p * q
            per_node = cores if ranks == nodes * cores else min(cores, ranks)
            taken = share(n, nb, p, q, size, per_node) if n and nb else None
            row["plans"][name] = {"n": n, "nb": nb, "p": p, "q": q, "share": taken and round(taken, 3)}
        rows.append(row)
    return rows


def main() -> None:
    """Print both tables and write them as JSON."""
    which = real_hplx()
    scale = []
    for count in SIZES:
        out = subprocess.run(
            [sys.executable, __file__, str(count)], capture_output=True, text=True, check=True
        )
        scale.append(json.loads(out.stdout))
    print("hosts      seconds   x       peak MiB")
    for before, row in zip([None, *scale], scale):
        growth = f"{row['seconds'] / before['seconds']:.1f}" if before else ""
        print(f"{row['hosts']:<10} {row['seconds']:<9} {growth:<7} {row['peak_mib']}")
    table = compare()
    names = list(table[0]["plans"])
    print(f"\nN, P x Q (share of a node's memory, all told); {which}")
    print("| GiB, nodes, cores | " + " | ".join(names) + " |")
    print("|" + "---|" * (len(names) + 1))
    for row in table:
        cells = []
        for name in names:
            made = row["plans"][name]
            alone = " (one node)" if name in SINGLE_NODE and row["nodes"] > 1 else ""
            if made["share"] is None:
                cells.append("none")
            else:
                cells.append(f"{made['n']}, {made['p']}x{made['q']} ({made['share']:.0%}){alone}")
        print(f"| {row['gib']:g}, {row['nodes']}, {row['cores']} | " + " | ".join(cells) + " |")
    target = ROOT / "build" / "benchmarks" / "planner.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"scale": scale, "calculators": table}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
