# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH mesh of a cluster: each node lets every other in, as one user, and knows every other's host keys.

Both files are one for the whole cluster. A play that is limited to some nodes renews the lines of those nodes
and keeps the others' as they are.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

MARK = "nodesmith-mesh:"
"""Begins the comment field of each line that belongs to the mesh; the node's inventory name follows it."""

_MESH_LINE = re.compile(rf"[^#\n]*\s{re.escape(MARK)}(\S+)\s*")


class MeshError(ValueError):
    """A key that OpenSSH would not read; the message says whose, and what to do."""


def authorized_keys(current: str, nodes: list[dict[str, Any]], members: list[str]) -> str:
    """Return the text of the mesh user's ``authorized_keys``.

    :param current: the file as it is
    :param nodes: the nodes of this play: ``name`` and ``public_key`` (null: not made yet, its old line
        stays)
    :param members: the inventory names of all nodes of the cluster, whether in this play or not
    :raises MeshError: a public key that is none
    """
    fresh = {
        node["name"]: [f"restrict,pty {_key(node['name'], node['public_key'])} {MARK}{node['name']}"]
        for node in nodes
        if node["public_key"]
    }
    return _merge(current, fresh, members)


def known_hosts(current: str, nodes: list[dict[str, Any]], members: list[str]) -> str:
    """Return the text of the cluster's ``ssh_known_hosts``.

    :param current: the file as it is
    :param nodes: the nodes of this play: ``name``, ``addresses`` (list, each with its port as
        ``[address]:port`` where it is not 22) and ``host_keys`` (the texts of its public host keys)
    :param members: the inventory names of all nodes of the cluster, whether in this play or not
    :raises MeshError: a host key that is none
    """
    fresh = {}
    for node in nodes:
        names = ",".join(dict.fromkeys([*node["addresses"], node["name"]]))
        fresh[node["name"]] = [
            f"{names} {_key(node['name'], key)} {MARK}{node['name']}"
            for key in node["host_keys"]
            if key.strip()
        ]
    return _merge(current, fresh, members)


def _merge(current: str, fresh: dict[str, list[str]], members: list[str]) -> str:
    """Replace the lines of the nodes in ``fresh``, drop those of nodes that are no members, keep the rest."""
    foreign, mesh = [], [line for name in fresh if name in members for line in fresh[name]]
    # not splitlines(): a form feed or a line separator inside a comment ends no line for OpenSSH
    for line in current.removesuffix("\n").split("\n") if current else []:
        match = _MESH_LINE.fullmatch(line)
        if match is None:
            foreign.append(line)
        elif match.group(1) in members and match.group(1) not in fresh:
            mesh.append(line)
    return "".join(f"{line}\n" for line in [*foreign, *sorted(dict.fromkeys(mesh))])


def _key(name: str, text: str) -> str:
    """Return type and blob of a public key, whose blob begins with its type again (RFC 4253, 6.6)."""
    fields = text.split()[:2]
    try:
        blob = base64.b64decode(fields[1], validate=True)
        known = blob[4 : 4 + int.from_bytes(blob[:4], "big")] == fields[0].encode()
    except (IndexError, binascii.Error):
        known = False
    if not known:
        raise MeshError(
            f"{name} has a public key that OpenSSH would not read: {text[:60]!r}. "
            "Make it again there with ssh-keygen"
        )
    return " ".join(fields)
