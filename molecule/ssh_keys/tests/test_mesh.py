"""The mesh, judged by OpenSSH itself."""

from __future__ import annotations

import pytest

NODES = ("ssh-keys-node1", "ssh-keys-node2")
STRICT = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null"


@pytest.mark.parametrize("target", NODES)
def test_the_mesh_user_logs_in_everywhere_without_a_question(host, target):
    with host.sudo("mpi"):
        login = host.run(f"{STRICT} {target} hostname")
    assert (login.rc, login.stdout.strip()) == (0, target), login.stderr


def test_another_user_does_not_get_in(host):
    assert host.run(f"{STRICT} mpi@{NODES[0]} true").rc == 255


@pytest.mark.parametrize(
    ("path", "mode", "owner"),
    [
        ("/home/mpi/.ssh", 0o700, "mpi"),
        ("/home/mpi/.ssh/id_ed25519", 0o600, "mpi"),
        ("/home/mpi/.ssh/authorized_keys", 0o600, "mpi"),
        ("/etc/ssh/ssh_known_hosts", 0o644, "root"),
    ],
)
def test_permissions(host, path, mode, owner):
    with host.sudo():
        file = host.file(path)
        assert (file.mode, file.user) == (mode, owner)


def test_the_mesh_user_has_no_password(host):
    with host.sudo():
        assert host.check_output("passwd --status mpi").split()[1] == "L"


def test_private_keys_differ_and_stay_where_they_were_made(host):
    with host.sudo():
        key = host.file("/home/mpi/.ssh/id_ed25519.pub").content_string.split()[1]
        files = host.run("grep -rlF -- %s /home /root /etc", key).stdout.split()
        assert host.run("find / -xdev -name id_ed25519").stdout.split() == ["/home/mpi/.ssh/id_ed25519"]
    assert set(files) == {"/home/mpi/.ssh/id_ed25519.pub", "/home/mpi/.ssh/authorized_keys"}


def test_a_line_written_by_hand_survives(host):
    with host.sudo():
        lines = host.file("/home/mpi/.ssh/authorized_keys").content_string.splitlines()
    by_hand = [line for line in lines if line.endswith(" person@elsewhere")]
    assert len(by_hand) == (1 if host.check_output("hostname") == NODES[0] else 0)
    assert len(lines) - len(by_hand) == len(NODES)


def test_every_node_pins_the_current_host_keys(host):
    served = {node: host.run(f"ssh-keyscan -t ed25519 {node}").stdout.split()[-1] for node in NODES}
    pinned = host.file("/etc/ssh/ssh_known_hosts").content_string
    assert all(key in pinned for key in served.values())
    assert len(set(served.values())) == len(NODES)
