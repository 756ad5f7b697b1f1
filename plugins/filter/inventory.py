# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that checks an inventory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.nodesmith.cluster.plugins.module_utils import _inventory


def inventory_problems(hostvars: Any, groups: Any, hosts: list[str], required: list[str]) -> list[str]:
    """List what is wrong with the hosts of a play and with the groups it needs."""
    return _inventory.problems({host: hostvars[host] for host in hosts}, groups, required)


class FilterModule:
    """Filters over inventories."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"inventory_problems": inventory_problems}
