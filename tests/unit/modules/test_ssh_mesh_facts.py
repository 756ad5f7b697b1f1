"""ssh_mesh_facts on a home and an /etc/ssh that are made for it."""

from __future__ import annotations

import getpass
import pwd
import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.nodesmith.cluster.plugins.modules import ssh_mesh_facts


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    users = {"mpi": SimpleNamespace(pw_dir=str(tmp_path / "home"))}
    monkeypatch.setattr(ssh_mesh_facts.pwd, "getpwnam", users.__getitem__)
    return tmp_path / "home"


def keygen(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text().strip()


@pytest.mark.parametrize("check", [False, True])
def test_what_is_there(call, home, tmp_path, check):
    public = keygen(home / ".ssh" / "id_ed25519")
    host = keygen(tmp_path / "ssh_host_ed25519_key")
    (tmp_path / "ssh_host_ed25519_key-cert.pub").write_text("a certificate is no key")
    (home / ".ssh" / "authorized_keys").write_text("# mine\n")
    (tmp_path / "ssh_known_hosts").write_text("# ours\n")
    result = call(ssh_mesh_facts, check=check, user="mpi", ssh_dir=str(tmp_path))
    assert result.pop("invocation")
    assert result == {
        "changed": False,
        "home": str(home),
        "host_keys": [host],
        "public_key": public,
        "authorized_keys": "# mine\n",
        "known_hosts": "# ours\n",
    }
    assert "PRIVATE" not in str(result)


def test_what_is_not_there_yet(call, home, tmp_path):
    result = call(ssh_mesh_facts, user="mpi", ssh_dir=str(tmp_path))
    assert (result["host_keys"], result["public_key"], result["authorized_keys"]) == ([], None, "")
    result = call(ssh_mesh_facts, user="nobody-here", ssh_dir=str(tmp_path))
    assert (result["home"], result["public_key"], result["authorized_keys"]) == (None, None, "")


def test_a_real_user(call, tmp_path):
    result = call(ssh_mesh_facts, user=getpass.getuser(), ssh_dir=str(tmp_path))
    assert result["home"] == pwd.getpwnam(getpass.getuser()).pw_dir


def test_files_that_cannot_be_read(call, home, tmp_path):
    (tmp_path / "ssh_known_hosts").mkdir()
    result = call(ssh_mesh_facts, user="mpi", ssh_dir=str(tmp_path))
    assert "cannot read the SSH files of mpi" in result["msg"]
    assert "with become" in result["msg"]
    (home / ".ssh" / "authorized_keys").write_bytes(b"# J\xf6rg\n")
    result = call(ssh_mesh_facts, user="mpi", ssh_dir=str(tmp_path))
    assert "is not UTF-8 text" in result["msg"]
    assert f"{home}/.ssh/authorized_keys" in result["msg"]
