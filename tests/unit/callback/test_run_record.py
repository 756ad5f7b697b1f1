"""The callback under a real ansible-playbook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
HIDDEN = "correct-horse-battery"


def play(*tasks: dict) -> list[dict]:
    return [{"name": "A play", "hosts": "all", "gather_facts": False, "tasks": list(tasks)}]


def task(name: str, command: str, **keywords) -> dict:
    return {"name": name, "ansible.builtin.command": command} | keywords


def run(
    tmp_path: Path, plays: list[dict], record: Path | None, hosts: str = "one,two"
) -> subprocess.CompletedProcess:
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump(plays, sort_keys=False))
    env = os.environ | {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
    }
    env.pop("NODESMITH_RUN_RECORD", None)
    if record:
        env["NODESMITH_RUN_RECORD"] = str(record)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    argv = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        f"{hosts},",
        "-e",
        json.dumps(variables),
        str(playbook),
    ]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("failed")
    record = folder / "new" / "record.json"
    result = run(
        folder,
        play(
            task("Change something", "true"),
            task("Ignored", "false", ignore_errors=True),
            {
                "name": "A block",
                "block": [
                    task("Rescued on one", "sh -c 'exit {{ 1 if inventory_hostname == \"one\" else 0 }}'")
                ],
                "rescue": [{"name": "Repair", "ansible.builtin.debug": {"msg": "mended"}}],
            },
            task(
                "Hidden {{ inventory_hostname }}",
                f"ls /{HIDDEN}",
                no_log=True,
                when="inventory_hostname == 'one'",
            ),
            {
                "name": "Refuse",
                "ansible.builtin.assert": {"that": "item < 2", "fail_msg": "item {{ item }} is too big"},
                "loop": [1, 2, 3],
            },
        ),
        record,
    )
    assert result.returncode == 2, result.stdout + result.stderr
    return json.loads(record.read_text())


def test_counts_per_host(failed):
    assert failed["hosts"]["two"] == {"ok": 3, "changed": 3, "failed": 1, "unreachable": 0, "skipped": 1}
    assert failed["hosts"]["one"]["failed"] == 1
    assert failed["playbook"] == "play.yml"


def test_failures_name_host_task_and_message_without_the_ignored(failed):
    named = {(entry["host"], entry["task"]): entry["message"] for entry in failed["failures"]}
    assert ("one", "Ignored") not in named
    assert named["two", "Refuse"] == "item 2 is too big"


def test_a_no_log_task_leaves_no_trace_of_its_secret(failed):
    hidden = [entry for entry in failed["failures"] if entry["task"].startswith("Hidden")]
    assert [entry["host"] for entry in hidden] == ["one"]
    assert "no_log" in hidden[0]["message"]
    assert HIDDEN not in json.dumps(failed)


def test_times_are_there_and_sorted(failed):
    assert [entry["name"] for entry in failed["plays"]] == ["A play"]
    seconds = [entry["seconds"] for entry in failed["slowest_tasks"]]
    assert seconds == sorted(seconds, reverse=True)
    assert "Change something" in {entry["name"] for entry in failed["slowest_tasks"]}


def test_a_rescued_run_has_no_failures(tmp_path):
    block = {"block": [task("Break", "false")], "rescue": [{"ansible.builtin.debug": {"msg": "mended"}}]}
    assert run(tmp_path, play(block), tmp_path / "record.json", "one").returncode == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["failures"] == []
    assert record["hosts"]["one"]["failed"] == 0


def test_without_a_path_nothing_is_written(tmp_path):
    result = run(tmp_path, play(task("Work", "true")), None, "one")
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.glob("**/*.json"))


def test_a_path_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").touch()
    result = run(tmp_path, play(task("Work", "true")), tmp_path / "file" / "record.json", "one")
    assert result.returncode == 0
    assert "run_record: cannot write" in result.stderr
