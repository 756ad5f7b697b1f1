"""The lab through the inventory that the role wrote, as a person would use it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

LAB = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "lab")
CONTAINER = "nodesmith-molecule-node1"


def ansible(inventory, command, *options):
    return subprocess.run(
        ["ansible", "all", "-i", str(inventory), "-m", "ansible.builtin.command", "-a", command, *options],
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_NOCOLOR": "true"},
    )


def test_the_inventory_reaches_the_node_over_ssh():
    run = ansible(LAB, "hostname")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.split() == ["node1", "|", "CHANGED", "|", "rc=0", ">>", "node1"]


def test_another_host_key_is_refused(tmp_path):
    copy = shutil.copytree(LAB, tmp_path / "lab")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    pinned = copy / ".ssh" / "known_hosts"
    names = pinned.read_text().split()[0]
    pinned.write_text(f"{names} {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n")
    # an open connection of the other inventory would need no host key
    run = ansible(copy, "hostname", "-e", f"ansible_control_path_dir={tmp_path}/cp")
    assert run.returncode != 0
    assert "Host key verification failed" in run.stdout + run.stderr


@pytest.mark.parametrize("path", [".ssh/id_ed25519", "group_vars/all/secrets.yml", "hosts.yml"])
def test_nobody_else_reads_keys_and_secrets(path):
    assert stat.S_IMODE((LAB / path).stat().st_mode) == 0o600


def test_the_memory_limit_is_set_and_seen_inside():
    container = json.loads(subprocess.check_output(["docker", "inspect", CONTAINER]))[0]
    assert container["HostConfig"]["Memory"] == 512 * 2**20
    assert not container["HostConfig"]["Privileged"]
    files = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    run = subprocess.run(["docker", "exec", CONTAINER, "cat", *files], capture_output=True, text=True)
    assert run.stdout.split() == [str(512 * 2**20)]
