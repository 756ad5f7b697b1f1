"""The two files of the SSH mesh: their properties, and what OpenSSH itself reads in them."""

from __future__ import annotations

import base64
import re
import subprocess

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.filter.ssh_mesh import FilterModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._ssh_mesh import (
    MARK,
    MeshError,
    authorized_keys,
    known_hosts,
)
from hypothesis import given
from hypothesis import strategies as st

MEMBERS = [f"node{i}" for i in range(1, 7)]


def key(seed: int, comment: str = "mpi@node") -> str:
    """A well-formed Ed25519 public key, of no known private one."""
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + seed.to_bytes(32, "big")
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {comment}\n"


def node(name: str, seed: int) -> dict:
    return {
        "name": name,
        "public_key": key(seed),
        "addresses": [f"192.0.2.{MEMBERS.index(name) + 1}"],
        "host_keys": [key(seed + 1), key(seed + 2)],
    }


NODES = st.lists(
    st.builds(node, st.sampled_from(MEMBERS), st.integers(0, 2**60)), unique_by=lambda n: n["name"]
)
FOREIGN = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=30),
        st.sampled_from(
            ["", "# nodesmith-mesh:node1", "|1|aa=|bb= ssh-rsa AAAA", "a\x0cb\x1cc\u2028d\x85e", "x\r"]
        ),
    ).filter(lambda line: MARK not in line or line.startswith("#")),
    max_size=5,
)
both = pytest.mark.parametrize("write", [authorized_keys, known_hosts])


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@both
@given(foreign=FOREIGN, nodes=NODES, members=st.lists(st.sampled_from(MEMBERS), unique=True))
def test_foreign_lines_survive_and_twice_is_once(write, foreign, nodes, members):
    once = write(text_of(foreign), nodes, members)
    assert once.startswith(text_of(foreign))
    assert write(once, nodes, members) == once
    assert write(once, [], []) == text_of(foreign)
    named = {line.rpartition(MARK)[2] for line in once.removeprefix(text_of(foreign)).splitlines()}
    assert named == {n["name"] for n in nodes} & set(members)


@both
@given(nodes=NODES, data=st.data())
def test_a_limited_play_renews_its_own_lines_only(write, nodes, data):
    full = write("", nodes, MEMBERS)
    part = data.draw(
        st.lists(st.sampled_from(nodes), unique_by=lambda n: n["name"]) if nodes else st.just([])
    )
    renewed = [node(n["name"], 2**61 + i) for i, n in enumerate(part)]
    names = {n["name"] for n in part}
    after = set(write(full, renewed, MEMBERS).splitlines())
    others = {line for line in full.splitlines() if line.rpartition(MARK)[2] not in names}
    assert after == others | set(write("", renewed, MEMBERS).splitlines())


@both
@given(nodes=NODES)
def test_the_order_of_nodes_does_not_matter(write, nodes):
    assert write("", nodes, MEMBERS) == write("", nodes[::-1], MEMBERS[::-1])


@both
def test_a_last_line_without_an_end_gets_one(write):
    text = write("# somebody's", [node("node1", 1)], MEMBERS)
    assert text.startswith("# somebody's\n")
    assert text.endswith(f"{MARK}node1\n")


def test_a_key_that_is_not_made_yet_leaves_the_old_line():
    before = authorized_keys("", [node("node1", 1)], MEMBERS)
    assert authorized_keys(before, [{"name": "node1", "public_key": None}], MEMBERS) == before
    assert authorized_keys("", [{"name": "node1", "public_key": None}], MEMBERS) == ""


@pytest.mark.parametrize(
    "text", ["ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa " + key(1).split()[1], "x y", "a b="]
)
def test_no_key(text):
    with pytest.raises(MeshError, match=r"node1 has a public key that OpenSSH would not read.*ssh-keygen"):
        authorized_keys("", [{"name": "node1", "public_key": text}], MEMBERS)
    with pytest.raises(AnsibleFilterError, match="node1"):
        FilterModule().filters()["ssh_mesh_known_hosts"](
            "", [{**node("node1", 1), "host_keys": [text]}], MEMBERS
        )


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Three nodes with keys that ssh-keygen made, and the fingerprints it gives them."""
    folder = tmp_path_factory.mktemp("keys")
    nodes, prints = [], {}
    for i, name in enumerate(MEMBERS[:3]):
        texts = []
        for kind in ("ed25519", "rsa", "ecdsa"):
            path = folder / f"{name}_{kind}"
            subprocess.run(
                ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"a b {name}", "-f", path], check=True
            )
            texts.append(path.with_suffix(".pub").read_text())
            prints[name, kind] = fingerprints(path.with_suffix(".pub"))[0]
        address = f"192.0.2.{i + 1}" if i else "[2001:db8::1]:2222"
        nodes.append({"name": name, "public_key": texts[0], "addresses": [address], "host_keys": texts})
    return nodes, prints


def fingerprints(path) -> list[str]:
    out = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"SHA256:\S+", out)


def test_openssh_finds_every_host_key(real, tmp_path):
    nodes, prints = real
    path = tmp_path / "known_hosts"
    path.write_text(known_hosts("# ours\nother.example " + key(5), nodes, MEMBERS))
    for entry in nodes:
        for host in [*entry["addresses"], entry["name"]]:
            found = subprocess.run(
                ["ssh-keygen", "-l", "-F", host, "-f", path], capture_output=True, text=True, check=True
            )
            expected = {prints[entry["name"], kind] for kind in ("ed25519", "rsa", "ecdsa")}
            assert set(re.findall(r"SHA256:\S+", found.stdout)) == expected
    assert (
        subprocess.run(["ssh-keygen", "-F", "node4", "-f", path], capture_output=True, check=False).returncode
        == 1
    )


def test_openssh_reads_every_authorized_key(real, tmp_path):
    nodes, prints = real
    path = tmp_path / "authorized_keys"
    path.write_text(authorized_keys("", nodes, MEMBERS))
    assert set(fingerprints(path)) == {prints[name, "ed25519"] for name in MEMBERS[:3]}
    assert all(line.startswith("restrict,pty ssh-ed25519 ") for line in path.read_text().splitlines())
