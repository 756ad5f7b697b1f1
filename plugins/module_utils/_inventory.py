# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory, found before anything is changed."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Callable

_BY_ADDRESS = {"ssh", "smart", "paramiko", "paramiko_ssh"}


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def problems(
    hostvars: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]],
    required: Sequence[str],
    resolves: Callable[[str], bool] = _resolves,
) -> list[str]:
    """List what keeps a play from running, in words that say what to do; nothing when all is well.

    Hosts that are reached otherwise than by SSH need no address.

    :param hostvars: the variables of each host of the play
    :param groups: the inventory's groups
    :param required: the groups that must have a host
    :param resolves: tells whether a name has an address
    """
    found = [
        f"the group {group!r} has no host: list one under it in your inventory (inventory/example shows how)"
        for group in required
        if not groups.get(group)
    ]
    for name, variables in sorted(hostvars.items()):
        connection = str(variables.get("ansible_connection") or "ssh")
        if connection.rpartition(".")[2] not in _BY_ADDRESS:
            continue
        address = variables.get("ansible_host")
        if address is None and not resolves(name):
            found.append(
                f"the host {name!r} has no address and its name does not resolve: give it an ansible_host"
            )
        elif address is not None and not str(address).strip():
            found.append(
                f"the host {name!r} has an empty ansible_host: give it an address or a name that resolves"
            )
    return found
