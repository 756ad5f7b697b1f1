# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded lab: which nodes it has, with which addresses and CPUs."""

from __future__ import annotations

import ipaddress
from typing import Any

FIRST_HOST = 11
"""Node 1 has the network's address plus this: the first ten are left to gateways and to people."""


class LabError(ValueError):
    """The lab cannot be laid out as asked; the message says which value is wrong and what would do."""


MIN_MEMORY = 512 * 1024**2
"""Bytes a node needs to run systemd, sshd and a package manager."""


def lay_out(
    count: int,
    lab: str,
    subnet: str,
    host_cpus: list[int],
    host_memory: int,
    prefix: str = "node",
    cpus: int = 1,
    memory: int = 2 * 1024**3,
) -> list[dict[str, Any]]:
    """Lay out ``count`` nodes of ``memory`` bytes in ``subnet`` over the CPUs and ``host_memory`` bytes of this machine.

    Nodes get CPUs of their own, in order, as long as there are enough; after that they start over and share.

    :returns: one dict per node: ``name``, ``container``, ``address``, ``cpus`` (a cpuset such as ``0,1``) and ``shared``
        (whether another node has one of its CPUs too)
    :raises LabError: a count, CPU number, memory size or subnet that cannot be laid out
    """
    if count < 1:
        raise LabError(f"a lab needs one node at least, not {count}: set lab_node_count")
    if not 1 <= cpus <= len(host_cpus):
        raise LabError(f"a node cannot have {cpus} CPUs on a machine with {len(host_cpus)}: set lab_node_cpus")
    if memory < MIN_MEMORY or count * memory > host_memory:
        raise LabError(
            f"{count} nodes of {memory / 2**20:.0f} MiB do not fit: a node needs {MIN_MEMORY / 2**20:.0f} MiB, "
            f"and this machine has {host_memory / 2**20:.0f} MiB: set lab_node_count or lab_node_memory"
        )
    try:
        network = ipaddress.ip_network(subnet)
    except ValueError as error:
        raise LabError(f"lab_subnet {subnet!r} is not a network: {error}. A good one: 172.30.77.0/24") from error
    if network.num_addresses < FIRST_HOST + count + 1:
        raise LabError(
            f"lab_subnet {subnet} has {network.num_addresses} addresses, "
            f"{count} nodes need {FIRST_HOST + count + 1}: take a wider one"
        )
    shared = count * cpus > len(host_cpus)
    return [
        {
            "name": f"{prefix}{i + 1}",
            "container": f"nodesmith-{lab}-{prefix}{i + 1}",
            "address": str(network[FIRST_HOST + i]),
            "cpus": ",".join(str(host_cpus[(i * cpus + j) % len(host_cpus)]) for j in range(cpus)),
            "shared": shared,
        }
        for i in range(count)
    ]
