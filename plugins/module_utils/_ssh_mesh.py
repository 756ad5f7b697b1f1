# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH mesh of a cluster: each node lets every other in, as one user, and knows every other's host keys.

Both files are one for the whole cluster. A play that is limited to some nodes renews the lines of those nodes and keeps the
others' as they are.
"""

from __future__ import annotations

from typing import Any

MARK = "nodesmith-mesh:"
"""Ends the comment field of each line that belongs to the mesh; the node's inventory name follows it."""


def _merge(current: str, fresh: dict[str, list[str]], members: list[str]) -> str:
    """Replace the mesh lines of the nodes in ``fresh``, drop those of nodes that are no ``members``, keep the rest."""
    kept = []
    for line in current.splitlines():
        node = line.rpartition(MARK)[2].strip() if MARK in line else None
        if node is None or (node in members and node not in fresh):
            kept.append(line)
    foreign = [line for line in kept if MARK not in line]
    mesh = sorted([line for line in kept if MARK in line] + [line for lines in fresh.values() for line in lines])
    return "".join(f"{line}\n" for line in foreign + mesh)


def authorized_keys(current: str, nodes: list[dict[str, Any]], members: list[str]) -> str:
    """Return the text of the mesh user's ``authorized_keys``.

    :param current: the file as it is
    :param nodes: the nodes of this play: ``name`` and ``public_key`` (null: not made yet, the node gets no line)
    :param members: the inventory names of all nodes of the cluster, whether in this play or not
    """
    fresh = {
        node["name"]: ["restrict,pty {} {}{}".format(" ".join(node["public_key"].split()[:2]), MARK, node["name"])]
        for node in nodes
        if node["public_key"]
    }
    return _merge(current, fresh, members)


def known_hosts(current: str, nodes: list[dict[str, Any]], members: list[str]) -> str:
    """Return the text of the cluster's ``ssh_known_hosts``.

    :param current: the file as it is
    :param nodes: the nodes of this play: ``name``, ``addresses`` (list, each with its port as ``[address]:port`` where it is
        not 22) and ``host_keys`` (the texts of its public host keys)
    :param members: the inventory names of all nodes of the cluster, whether in this play or not
    """
    fresh = {}
    for node in nodes:
        names = ",".join(dict.fromkeys([*node["addresses"], node["name"]]))
        fresh[node["name"]] = [
            "{} {} {}{}".format(names, " ".join(key.split()[:2]), MARK, node["name"]) for key in node["host_keys"] if key.strip()
        ]
    return _merge(current, fresh, members)
