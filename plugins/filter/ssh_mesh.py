# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that write the two files of a cluster's SSH mesh."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.nodesmith.cluster.plugins.module_utils import _ssh_mesh


class FilterModule:
    """Filters of the SSH mesh."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {
            "ssh_mesh_authorized_keys": _ssh_mesh.authorized_keys,
            "ssh_mesh_known_hosts": _ssh_mesh.known_hosts,
        }
