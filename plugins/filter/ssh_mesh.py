# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that write the two files of a cluster's SSH mesh."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.module_utils import _ssh_mesh


def _as_filter(function: Callable[..., str]) -> Callable[..., str]:
    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> str:
        try:
            return function(*args, **kwargs)
        except _ssh_mesh.MeshError as error:
            raise AnsibleFilterError(str(error)) from error

    return filtered


class FilterModule:
    """Filters of the SSH mesh."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {
            "ssh_mesh_authorized_keys": _as_filter(_ssh_mesh.authorized_keys),
            "ssh_mesh_known_hosts": _as_filter(_ssh_mesh.known_hosts),
        }
