# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that lays out the embedded lab."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.module_utils import _lab


def lab_nodes(
    count: int, lab: str, subnet: str, prefix: str = "node", cpus: int = 1, memory: int = 2 * 1024**3
) -> list[dict[str, Any]]:
    """Lay out the lab over the CPUs that this process may use and the memory of this machine."""
    host_memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    host_cpus = sorted(os.sched_getaffinity(0))
    try:
        return _lab.lay_out(int(count), lab, subnet, host_cpus, host_memory, prefix, int(cpus), int(memory))
    except (ValueError, TypeError) as error:
        raise AnsibleFilterError(f"cannot lay out the lab: {error}") from error


class FilterModule:
    """Filters of the lab."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"lab_nodes": lab_nodes}
