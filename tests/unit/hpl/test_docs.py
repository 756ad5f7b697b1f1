"""What ansible-doc prints, and the documented examples, run as they stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILTERS = sorted(path.stem for path in (ROOT / "plugins" / "filter").glob("*.yml"))
MODULES = ["hpl_facts", "hpl_run"]


@pytest.fixture
def ansible(tmp_path):
    """Run an Ansible command with no settings but this collection."""
    settings = "[defaults]\ndeprecation_warnings = true\ninject_facts_as_vars = false\n"
    (tmp_path / "ansible.cfg").write_text(settings)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible" / "collections"),
        "ANSIBLE_HOME": str(tmp_path / "home"),
    }

    def run(program, *arguments):
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize(("kind", "names"), [("filter", FILTERS), ("module", MODULES)])
def test_ansible_doc(ansible, kind, names):
    done = ansible("ansible-doc", "--json", "-t", kind, *(f"nodesmith.cluster.{name}" for name in names))
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert set(shown) == {f"nodesmith.cluster.{name}" for name in names}
    for plugin in shown.values():
        assert plugin["doc"]["version_added"] == "0.1.0"
        assert plugin["examples"]
        assert plugin["return"]


def test_documented_options_are_the_modules_options():
    for name in MODULES:
        source = (ROOT / "plugins" / "modules" / f"{name}.py").read_text()
        documented = yaml.safe_load(source.split('DOCUMENTATION = r"""')[1].split('"""')[0])["options"]
        assert all(f'"{option}": {{' in source for option in documented)


def test_filter_examples_run(ansible, tmp_path):
    tasks = []
    for name in FILTERS:
        sidecar = yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text())
        tasks += yaml.safe_load(sidecar["EXAMPLES"])
    tasks += yaml.safe_load(
        (ROOT / "plugins" / "modules" / "hpl_facts.py")
        .read_text()
        .split('EXAMPLES = r"""')[1]
        .split('"""')[0]
    )
    play = [{"hosts": "hpc", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "roles").symlink_to(ROOT / "roles")
    (tmp_path / "playbooks" / "play.yml").write_text(yaml.safe_dump(play, sort_keys=False))
    (tmp_path / "hosts").write_text("[hpc]\nlocalhost ansible_host=127.0.0.1\n")
    python = f"ansible_python_interpreter={sys.executable}"
    done = ansible("ansible-playbook", "-i", "hosts", "-c", "local", "-e", python, "playbooks/play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    for expected in (
        "HPLinpack benchmark input file",
        "slots=1",
        "--bind-to",
        "HPL did not finish",
        '"nb": 192',
    ):
        assert expected in done.stdout
    assert "skipped=0" in done.stdout
    assert "[DEPRECATION" not in done.stdout + done.stderr
    assert "[WARNING" not in done.stderr, done.stderr


def test_filter_errors_are_ours(ansible, tmp_path):
    (tmp_path / "play.yml").write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.debug:\n        msg: \"{{ [] | nodesmith.cluster.hpl_plan({'size': 3}) }}\"\n"
    )
    done = ansible("ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml")
    assert done.returncode == 2
    assert "unknown option size; known are n, nb, p, q" in " ".join((done.stdout + done.stderr).split())
