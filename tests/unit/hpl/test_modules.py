"""The modules as Ansible runs them, with a real process in place of mpirun."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl_process
from ansible_collections.nodesmith.cluster.plugins.modules import hpl_facts, hpl_run
from hpl_gpu_trees import MACHINES_GPU

KEYS = {"rc", "seconds", "timed_out", "hpl", "dgemm", "stdout", "stderr", "cmd", "changed"}


def gone(pid: int) -> bool:
    """Whether a process has ended, waited for it or not; it may take the kernel a moment."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def frontier(tmp_path):
    return str(MACHINES_GPU["mi250x-8gcd"](tmp_path / "frontier"))


def leaves(facts, name=""):
    """The dotted names of the figures: every value below memory and cpu, every other key as a whole."""
    for key, value in facts.items():
        if key in ("memory", "cpu"):
            yield from (f"{key}.{figure}" for figure in value)
        elif key != "sources":
            yield key


def test_facts_of_a_recorded_tree(call, frontier):
    for check in (False, True):
        result = call(hpl_facts, check=check, root=frontier)
        facts = result["hpl_facts"]
        assert result["changed"] is False
        assert result["ansible_facts"] == {"hpl_facts": facts}
        assert facts["cpu"]["physical_cores"] == 64
        assert len(facts["gpus"]) == 8
        assert (facts["network"]["fastest_mbit"], facts["network"]["kind"]) == (200_000, "ethernet")
        assert facts["mpi"] is facts["blas"] is None
        assert facts["sources"]["mpi"] == facts["sources"]["blas"] == "a recorded tree cannot be asked"


def test_facts_are_as_documented(call, frontier):
    """The keys that ansible-doc shows, down to those of a GPU, and a source for each figure."""
    returned = yaml.safe_load(hpl_facts.RETURN)["hpl_facts"]["contains"]
    for root in (frontier, "/"):
        facts = call(hpl_facts, root=root)["hpl_facts"]
        assert set(facts) == set(returned)
        assert set(facts["sources"]) >= set(leaves(facts))
        for key, documented in returned.items():
            if isinstance(facts[key], dict) and key != "sources":
                assert set(facts[key]) == set(documented["sample"]), key
    gpus = call(hpl_facts, root=frontier)["hpl_facts"]["gpus"]
    assert gpus[0] == returned["gpus"]["sample"][0]


def test_facts_find_mpi(call, tmp_path):
    launcher = tmp_path / "mpirun"
    launcher.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    launcher.chmod(0o755)
    facts = call(hpl_facts, mpirun=str(launcher))["hpl_facts"]
    assert facts["mpi"] == {"family": "openmpi", "version": "4.1.4", "path": str(launcher)}
    assert call(hpl_facts, mpirun="no-such-launcher")["hpl_facts"]["mpi"] is None


@pytest.mark.parametrize(
    ("script", "memory", "source"),
    [
        ("echo 'NVIDIA H200, 143771, 00000000:19:00.0, 9.0'", [143771 * 2**20], " --query-gpu$"),
        (
            "echo NVIDIA-SMI has failed because it couldn\\'t communicate with the NVIDIA driver.; exit 9",
            [],
            ": NVIDIA-SMI has failed because it couldn't communicate",
        ),
        ("echo No devices were found", [], ": No devices were found$"),
        ("sleep 60", [], " gave no answer in 1 s$"),
    ],
)
def test_facts_ask_nvidia_smi(call, tmp_path, monkeypatch, script, memory, source):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(hpl_facts, "NVIDIA_SMI_SECONDS", 1.0)
    facts = call(hpl_facts)["hpl_facts"]
    assert [gpu["memory_bytes"] for gpu in facts["gpus"] if gpu["vendor"] == "nvidia"] == memory
    assert re.search(f"{program}{source}", facts["sources"]["gpus"])


def test_facts_say_why_there_is_no_blas(call):
    facts = call(hpl_facts, blas="/no/such/xhpl")["hpl_facts"]
    assert facts["blas"] is None
    assert facts["sources"]["blas"].startswith("no file /no/such/xhpl")


@pytest.fixture
def good(hpl_text):
    row, end = hpl_text
    return row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026", "PASSED") + end(1)


def test_run_from_stdout(call, good):
    result = call(hpl_run, argv=["printf", "%s", good])
    assert set(result) - {"invocation", "stdout_lines", "stderr_lines"} == KEYS
    assert (result["rc"], result["changed"], result["timed_out"]) == (0, True, False)
    assert result["hpl"]["rows"][0]["gflops"] == 1.4


def test_progress_is_told_while_it_runs(call, tmp_path):
    """Reports in the format of HPL_pdgesv0.c."""
    progress, seen = tmp_path / "progress", tmp_path / "seen"
    script = (
        "for i in 1 2 3; do echo Column=00000$((i * 192))0 Fraction= $((i * 10)).0% Gflops=5.0e+01;"
        " sleep 1.2; done; "
        f"cp {progress} {seen}"
    )
    result = call(hpl_run, argv=["sh", "-c", script], parse="none", progress=str(progress))
    assert result["rc"] == 0
    told = json.loads(seen.read_text())
    assert (told["phase"], told["done"], told["total"]) == ("solve", 5760, 19200)
    assert 2 < told["elapsed"] < 60
    assert told["estimate"] == pytest.approx(2 / 3 * 13440**3 / 5e10)
    assert call(hpl_run, argv=["sleep", "9"], parse="none", timeout=1, progress=str(progress))["timed_out"]


def test_check_mode_runs_nothing(call, tmp_path):
    result = call(hpl_run, check=True, argv=["touch", str(tmp_path / "ran")])
    assert not (tmp_path / "ran").exists()
    assert set(result) - {"invocation", "stdout_lines", "stderr_lines"} == KEYS
    assert result["changed"] is True
    assert result["hpl"] is result["seconds"] is None
    assert result["rc"] == 0  # Ansible takes null for a failure


def test_run_from_a_file_never_takes_an_old_result(call, tmp_path, good):
    (tmp_path / "hpccoutf.txt").write_text(good)
    result = call(hpl_run, argv=["true"], chdir=str(tmp_path), output="hpccoutf.txt")
    assert result["failed"]
    assert "no result" in result["msg"]
    result = call(
        hpl_run,
        argv=["sh", "-c", 'printf %s "$T" >> out'],
        chdir=str(tmp_path),
        output="out",
        env={"T": good},
    )
    assert result["hpl"]["passed"]


def test_a_failed_residual_fails_the_task(call, hpl_text):
    row, end = hpl_text
    text = row(1024, 128, 1, 2, 0.5, "1.4e+00", "nan", "FAILED") + end(0, 1)
    result = call(hpl_run, argv=["printf", "%s", text])
    assert result["failed"]
    assert result["rc"] == 0
    assert "residual is nan" in result["msg"]


def test_the_launchers_last_words_are_in_the_message(call):
    words = "-----\\nThere are not enough slots available\\n-----\\n"
    result = call(hpl_run, argv=["sh", "-c", f"printf '%b' '{words}' >&2; exit 3"])
    assert result["rc"] == 3
    assert "sh ended with status 3: There are not enough slots available" in result["msg"]


def test_dgemm_and_marker(call):
    line = "DGEMM ranks=2 n=600 gflops_sum=7.5 gflops_min=3.5 gflops_max=4.0"
    assert call(hpl_run, argv=["echo", line], parse="dgemm")["dgemm"]["gflops_sum"] == 7.5
    assert "no DGEMM line" in call(hpl_run, argv=["echo", "x"], parse="dgemm")["msg"]
    assert call(hpl_run, argv=["echo", "all done"], parse="none", marker="d.ne$")["rc"] == 0
    assert "does not match" in call(hpl_run, argv=["echo", "all done"], parse="none", marker="^done")["msg"]


def test_refused_arguments(call):
    assert "argv is empty" in call(hpl_run, argv=[])["msg"]
    assert "timeout must be at least 1" in call(hpl_run, argv=["true"], timeout=0)["msg"]
    missing = call(hpl_run, argv=["/no/such/program"])
    assert "cannot run /no/such/program" in missing["msg"]
    assert missing["changed"] is False


def test_time_out_ends_every_process(call, tmp_path):
    """The child ignores SIGTERM and outlives its parent, as a rank does whose launcher was killed."""
    child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True)"
    child += "; time.sleep(60)"
    script = f'"{sys.executable}" -c "{child}" > {tmp_path}/pid & wait'
    result = call(hpl_run, argv=["sh", "-c", script], timeout=2)
    assert result["timed_out"]
    assert "the time ran out after 2 s" in result["msg"]
    assert gone(int((tmp_path / "pid").read_text()))


def test_orphans_of_a_finished_command_end(tmp_path):
    outcome = _hpl_process.run(["sh", "-c", "sleep 60 & echo $!"], timeout=30)
    assert (outcome.rc, outcome.timed_out) == (0, False)
    assert gone(int(outcome.stdout))


def test_an_interrupted_module_leaves_nothing_behind(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest\n"
        "from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_process import run\n"
        f"run(['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 60'])\n"
    )
    root = Path(__file__).parents[3]
    runner = subprocess.Popen([sys.executable, "-c", code, str(root)])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert runner.poll() is None
        time.sleep(0.05)
    os.kill(runner.pid, signal.SIGTERM)
    assert runner.wait(30) == 128 + signal.SIGTERM
    assert gone(int((tmp_path / "pid").read_text()))
