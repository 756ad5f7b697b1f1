# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory, found before anything is changed."""

from __future__ import annotations

import socket
from typing import Any, Callable


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def problems(
    hostvars: dict[str, dict[str, Any]],
    groups: dict[str, list[str]],
    required: list[str],
    resolves: Callable[[str], bool] = _resolves,
) -> list[str]:
    """List what keeps a play from running, in words that say what to do; nothing when all is well.

    :param hostvars: the variables of each host of the play
    :param groups: the inventory's groups
    :param required: the groups that must have a host
    :param resolves: tells whether a name has an address
    """
    found = []
    for group in required:
        if not groups.get(group):
            found.append(f"the group {group!r} has no host: list one under it in your inventory (inventory/example shows how)")
    for name, variables in sorted(hostvars.items()):
        if variables.get("ansible_connection") in ("local", "community.docker.docker", "docker"):
            continue
        address = variables.get("ansible_host")
        if address is None and not resolves(name):
            found.append(f"the host {name!r} has no address and its name does not resolve: give it an ansible_host")
        elif address is not None and not str(address).strip():
            found.append(f"the host {name!r} has an empty ansible_host: give it an address or a name that resolves")
    return found
