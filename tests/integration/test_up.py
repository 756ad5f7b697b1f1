"""The newcomer's way in: a clean clone, ``make up``, ``make up`` again, ``make down``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = "ci"
LABEL = f"nodesmith.lab={LAB}"
ENVIRONMENT = {
    "NODESMITH_LAB": LAB,
    "NODESMITH_LAB_SUBNET": os.environ.get("NODESMITH_TEST_SUBNET", "172.30.78.0/24"),
}


def docker(*arguments: str) -> str:
    """Return what the Docker client prints, asked as root."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    argv = [*prefix, "docker", *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def inspect_nodes() -> list[dict]:
    """Return ``docker inspect`` of the lab's containers."""
    names = docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
    return json.loads(docker("inspect", *names)) if names else []


def make(checkout: Path, goal: str) -> str:
    """Run a goal of the clone's Makefile; return its output, or fail with the end of it."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "VIRTUAL_ENV"))}
    result = subprocess.run(
        ["make", "-s", goal],
        cwd=checkout,
        env=env | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"make {goal}:\n" + "\n".join(result.stdout.splitlines()[-80:])
    return result.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A clean clone of HEAD. Its lab is removed in the end, whatever happened."""
    clone = tmp_path_factory.mktemp("up") / "nodesmith"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    try:
        yield clone
    finally:
        make(clone, "down")


@pytest.fixture(scope="module")
def first(checkout) -> dict:
    """What the first ``make up`` found: its output, up.json, and the containers as the engine knows them."""
    output = make(checkout, "up")
    record = json.loads((checkout / "results" / LAB / "up.json").read_text())
    return {"output": output, "up": record, "nodes": inspect_nodes()}


def test_every_stage_passed_and_has_its_time(first):
    stages = first["up"]["stages"]
    assert [stage["name"] for stage in stages] == ["setup", "docker", "lab", "site"]
    assert all(stage["failed"] == stage["unreachable"] == 0 for stage in stages)
    assert all(stage["ok"] > 0 for stage in stages)
    assert first["up"]["total_seconds"] >= sum(stage["seconds"] for stage in stages) - 1


def test_hpl_is_sized_from_the_limits_of_the_nodes(first):
    hpl = first["up"]["hpl"]
    limits = [node["HostConfig"]["Memory"] for node in first["nodes"]]
    assert len(limits) == 2
    assert all(limits)
    assert hpl["n"] % hpl["nb"] == 0
    assert 0.40 <= 8 * hpl["n"] ** 2 / sum(limits) <= 0.85
    assert hpl["p"] <= hpl["q"]


def test_hpl_passed_with_a_believable_figure(first):
    hpl = first["up"]["hpl"]
    assert hpl["passed"] is True
    # HPL 2.x accepts a scaled residual below 16.
    assert 0 <= hpl["residual"] < 16
    # No core of today does more than 32 double-precision operations a cycle at 6 GHz.
    assert 0 < hpl["gflops"] < 192 * os.cpu_count()


def test_the_model_answered(first):
    models = first["up"]["models"]
    assert models["completion"].strip()
    assert models["url"].startswith("http")
    assert models["tokens_per_second"] > 0


def test_the_report_and_the_summary_are_there(first, checkout):
    report = checkout / first["up"]["hpl"]["report"]
    assert report.stat().st_size > 0
    closing = "\n".join(first["output"].splitlines()[-12:])
    for part in ("GFLOPS", "PASSED", first["up"]["hpl"]["report"], first["up"]["models"]["url"]):
        assert part in closing


def test_up_again_changes_nothing(first, checkout):
    make(checkout, "up")
    again = json.loads((checkout / "results" / LAB / "up.json").read_text())
    counts = [(stage["name"], stage["changed"], stage["failed"]) for stage in again["stages"]]
    assert counts == [("setup", 0, 0), ("docker", 0, 0), ("lab", 0, 0), ("site", 0, 0)]
    assert again["hpl"]["n"] == first["up"]["hpl"]["n"]
    assert [node["Id"] for node in inspect_nodes()] == [node["Id"] for node in first["nodes"]]


def test_down_leaves_nothing_behind(first, checkout):
    volumes = {
        mount["Name"] for node in first["nodes"] for mount in node["Mounts"] if mount["Type"] == "volume"
    }
    networks = {name for node in first["nodes"] for name in node["NetworkSettings"]["Networks"]}
    make(checkout, "down")
    assert inspect_nodes() == []
    assert not volumes & set(docker("volume", "ls", "--quiet").split())
    assert not networks & set(docker("network", "ls", "--format", "{{.Name}}").split())
    assert not (checkout / "inventory" / LAB).exists()
    make(checkout, "down")
