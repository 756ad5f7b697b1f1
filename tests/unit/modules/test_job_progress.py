"""job_progress with jobs that Ansible's own async_wrapper runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.modules import job_progress

MODULE = """#!{python}
import json, os, signal, subprocess, sys, time
if {stubborn}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
with open({pids!r} + ".part", "w") as stream:
    stream.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({pids!r} + ".part", {pids!r})
time.sleep({seconds})
child.kill()
print(json.dumps({{"changed": True}}))
"""


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def running(pid):
    """Whether a process is there and no zombie, as ps sees it."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return said.stdout.strip()[:1] not in ("", "Z")


@pytest.fixture
def start(tmp_path):
    """Start a job; return its status file, and the ids of the module and of a child in its own session."""
    started = []

    def run(seconds=60, stubborn=False):
        pids = tmp_path / "pids"
        module = tmp_path / "module"
        module.write_text(
            MODULE.format(python=sys.executable, pids=str(pids), seconds=seconds, stubborn=stubborn)
        )
        said = subprocess.run(
            [sys.executable, "-m", "ansible.modules.async_wrapper", "j123456789", "900", module, "_"],
            env=os.environ | {"ANSIBLE_ASYNC_DIR": str(tmp_path / "async")},
            capture_output=True,
            text=True,
            check=True,
        )
        wait_until(pids.exists)
        started.extend(int(pid) for pid in pids.read_text().split())
        return json.loads(said.stdout)["results_file"], *started

    yield run
    for pid in started:
        if running(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def ask(call):
    return lambda job, **arguments: call(job_progress, job=job, **arguments)


def answer(result):
    return {key: result[key] for key in ("changed", "finished", "alive")}


def test_a_job_from_start_to_end(start, ask, tmp_path):
    job, module, _child = start(seconds=1)
    progress = tmp_path / "progress.json"
    assert answer(ask(job)) == {"changed": False, "finished": False, "alive": True}
    assert ask(job, progress=str(progress))["progress"] is None
    progress.write_text('{"phase": "make", "done": 3}')
    assert ask(job, progress=str(progress))["progress"] == {"phase": "make", "done": 3}
    wait_until(lambda: not running(module))
    wait_until(lambda: ask(job)["finished"])
    left = {"progress": str(progress), "state": "absent"}
    assert ask(job, check=True, **left)["changed"]
    assert progress.exists()
    assert ask(job, **left)["changed"]
    assert not progress.exists()
    assert not Path(job).exists()
    wait_until(lambda: not ask(job)["alive"])
    assert answer(ask(job, **left)) == {"changed": False, "finished": False, "alive": False}


@pytest.mark.parametrize("text", ["", "[1]", "null", '{"phase": "ma', "\udcff"])
def test_a_progress_file_with_anything_else_is_none(ask, tmp_path, text):
    progress = tmp_path / "progress.json"
    progress.write_text(text, errors="surrogateescape")
    assert ask(str(tmp_path / "j1.2"), progress=str(progress))["progress"] is None


def test_a_killed_job_is_neither_alive_nor_finished(start, ask):
    job, module, _child = start()
    os.killpg(os.getpgid(module), signal.SIGKILL)
    wait_until(lambda: not ask(job)["alive"])
    assert not ask(job)["finished"]


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_ended_job_takes_its_children_with_it(start, ask, stubborn):
    job, module, child = start(stubborn=stubborn)
    assert ask(job, state="absent", check=True)["changed"]
    assert running(module)
    assert ask(job, state="absent", grace=0.5)["changed"]
    assert not running(module)
    assert not running(child)
    assert not Path(job).exists()


def test_a_job_of_another_number_is_not_touched(start, ask):
    job, module, _child = start()
    other = str(Path(job).with_name("j12345678.1"))
    assert answer(ask(other, state="absent")) == {"changed": False, "finished": False, "alive": False}
    assert running(module)
