"""What a run leaves on the controller, held against what the engine says the nodes have."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

RESULTS = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "results")
MEMORY_SHARE = 0.5


def campaigns():
    reports = {path.parent: json.loads(path.read_text()) for path in RESULTS.glob("*/report.json")}
    return {len(report["nodes"]): (folder, report) for folder, report in reports.items()}


@pytest.fixture(params=[1, 2], ids=["limited to one node", "both nodes"])
def campaign(request):
    return campaigns()[request.param]


def test_each_plan_ran_once():
    assert len(list(RESULTS.iterdir())) == len(campaigns()) == 2


def test_the_residual_passed(campaign):
    folder, report = campaign
    assert report["passed"] is True
    assert 0 < report["residual"] < 16
    output = (folder / "output.txt").read_text()
    assert re.search(r"1 tests completed and passed residual checks", output)
    assert f"{report['plan']['n']:>8}" in output


def test_n_comes_from_the_memory_that_the_engine_grants(campaign):
    _, report = campaign
    plan = report["plan"]
    names = [node["name"] for node in report["nodes"]]
    containers = json.loads(subprocess.check_output(["docker", "inspect", *names]))
    limits = [container["HostConfig"]["Memory"] for container in containers]
    assert limits == [600 * 2**20] * len(names)
    matrix = 8 * plan["n"] ** 2
    assert matrix <= MEMORY_SHARE * sum(limits)
    # by hand, for P = 1 and a rank a node: matrix, two panels and 32 MiB; another block would not have fitted
    n, nb = plan["n"] + plan["nb"], plan["nb"]
    columns = -(-(n // nb) // plan["q"]) * nb + 1
    usable = min(node["facts"]["memory"]["usable_bytes"] for node in report["nodes"])
    assert usable < min(limits)
    assert 8 * n * columns + 16 * (n * nb + nb * nb + nb + 1) + 32 * 2**20 > MEMORY_SHARE * usable
    assert plan["n"] % plan["nb"] == 0


def test_there_is_a_rank_for_each_core(campaign):
    _, report = campaign
    plan = report["plan"]
    assert plan["p"] * plan["q"] == len(report["nodes"])
    assert report["gflops"] > 0
    assert report["dgemm"]["ranks"] == len(report["nodes"])


def test_a_person_can_read_it(campaign):
    folder, report = campaign
    page = (folder / "index.html").read_text()
    assert f"{report['gflops']:.3g}"[:3] in page
    assert (folder / "HPL.dat").read_text().splitlines()[5].split()[0] == str(report["plan"]["n"])
