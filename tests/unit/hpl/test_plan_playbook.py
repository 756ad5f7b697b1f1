"""playbooks/hpl_plan.yml on every written machine, and on the example inventory with recorded facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from hpl_example_facts import FOLDER, HOSTS, read_all
from hpl_gpu_trees import MACHINES_GPU
from hpl_trees import MACHINES

ROOT = Path(__file__).parents[3]

# what an engineer would plan: ranks, threads, P, Q, NB; and N within a few percent
EXPECTED = {
    "container": (2, 1, 1, 2, 256, 13568),  # 1.96 GiB left of a limit of 2
    "epyc-2s": (64, 1, 8, 8, 256, 225280),
    "cgroup-v2": (12, 1, 3, 4, 256, 76800),  # 16 cores, the time of 12
    "xeon-2s": (20, 1, 4, 5, 256, 111616),
    "intel-hybrid": (8, 1, 2, 4, 256, 112640),  # P-cores only
    "raspberry-pi-4": (4, 1, 2, 2, 120, 18720),
    "rk3588": (4, 1, 2, 2, 192, 39168),  # the Cortex-A76
    "ampere-altra": (160, 1, 10, 16, 256, 220160),
    "mi250x-8gcd": (8, 8, 2, 4, 512, 256000),  # rocHPL's wiki
    "mi300x-8": (8, 24, 2, 4, 512, 443392),
    "mi300x-8-cpx": (64, 3, 8, 8, 512, 438272),
    "mi300a-4": (4, 24, 2, 2, 512, 250880),  # less than its HBM: the host runs in it too
}


def run_playbook(inventory: str, **variables) -> str:
    environment = {n: v for n, v in os.environ.items() if not n.startswith("ANSIBLE_")}
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", ROOT / "inventory" / inventory]
    done = subprocess.run(
        [*command, "playbooks/hpl_plan.yml", "-e", json.dumps(variables)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout or "hpl_facts_record" in variables
    assert "WARNING" not in done.stderr, done.stderr
    return done.stdout


def as_json(out: str) -> dict:
    return json.loads(out[out.index("{\n") : out.rindex("}") + 1])


def test_every_machine_has_an_expectation():
    assert set(EXPECTED) == set(MACHINES) | set(MACHINES_GPU)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_plan_for_every_machine(name, tmp_path):
    (MACHINES | MACHINES_GPU)[name](tmp_path / "tree")
    options = {"device": "gpu"} if name in MACHINES_GPU else {}
    out = run_playbook("local", hpl_facts_root=str(tmp_path / "tree"), output="json", hpl_options=options)
    made = as_json(out)
    ranks, threads, p, q, nb, n = EXPECTED[name]
    assert [made[key] for key in ("ranks", "threads_per_rank", "p", "q", "nb")] == [ranks, threads, p, q, nb]
    assert made["n"] == pytest.approx(n, rel=0.02)
    assert made["memory_share"] <= (0.98 if options else 0.80)
    assert made["expected_gflops"] > 0
    assert made["rpeak_gflops"] > made["expected_gflops"]


def test_the_example_facts_are_what_the_module_reads(tmp_path):
    assert {host: json.loads((FOLDER / f"{host}.json").read_text()) for host in HOSTS} == read_all(tmp_path)


def test_the_example_inventory_plans_without_its_machines():
    out = run_playbook("example", hpl_facts_dir=str(FOLDER.relative_to(ROOT)), output="json")
    made = as_json(out)
    nodes = []
    for host in made["hosts"]:
        facts = json.loads((FOLDER / f"{host['name']}.json").read_text())
        nodes.append({"name": host["name"], "address": host["address"], "facts": facts})
    assert {node["name"] for node in nodes} == set(HOSTS)
    assert made == json.loads(json.dumps(plan(nodes)))
    table = run_playbook("example", hpl_facts_dir=str(FOLDER.relative_to(ROOT)))
    assert f"HPL on 6 nodes, {made['ranks']} ranks" in table
    assert "the nodes differ: weakest (chosen)" in table


def test_facts_are_recorded_and_planned_from(tmp_path):
    now = as_json(run_playbook("local", hpl_facts_record=str(tmp_path), output="json"))
    recorded = json.loads((tmp_path / "localhost.json").read_text())
    assert recorded["cpu"]["usable_cores"] == len(os.sched_getaffinity(0))
    later = as_json(run_playbook("local", hpl_facts_dir=str(tmp_path), output="json"))
    assert later == now
