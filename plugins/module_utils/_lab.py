# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded lab: which nodes it has, with which addresses and CPUs."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

FIRST_HOST = 11
"""Node 1 has the network's address plus this: the first ten are left to gateways and to people."""

MIN_MEMORY = 512 * 1024**2
"""Bytes a node needs to run systemd, sshd and a package manager."""

NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
"""What names a lab or begins a node's name: a host name's letters, which Docker takes too."""


class LabError(ValueError):
    """The lab cannot be laid out as asked; the message says which value is wrong and what would do."""


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
    """Lay out ``count`` nodes of ``memory`` bytes in ``subnet`` over this machine's CPUs and memory in bytes.

    Nodes get CPUs of their own, in order, as long as there are enough; after that they start over and share.

    :param host_cpus: the numbers of the CPUs that nodes may have, each once
    :returns: one dict per node: ``name``, ``container``, ``address`` and ``cpus`` (a cpuset such as
        ``0,1``)
    :raises LabError: a name, count, CPU number, memory size or subnet that cannot be laid out
    """
    for variable, value in (("lab_name", lab), ("lab_node_prefix", prefix)):
        if not NAME.fullmatch(value):
            raise LabError(
                f"{variable} {value!r} cannot be part of a host name: use lower-case letters, digits and "
                "hyphens"
            )
    if count < 1:
        raise LabError(f"a lab needs one node at least, not {count}: set lab_node_count")
    if not 1 <= cpus <= len(host_cpus):
        raise LabError(
            f"a node cannot have {cpus} CPUs on a machine that has {len(host_cpus)}: "
            f"set lab_node_cpus to a number from 1 to {len(host_cpus)}"
        )
    if memory < MIN_MEMORY or count * memory > host_memory:
        raise LabError(
            f"{count} nodes of {memory / 2**20:.0f} MiB do not fit: a node needs {MIN_MEMORY / 2**20:.0f} "
            f"MiB, and this machine has {host_memory / 2**20:.0f} MiB: set lab_node_count or lab_node_memory"
        )
    network = _network(subnet, count)
    sets = [[host_cpus[(i * cpus + j) % len(host_cpus)] for j in range(cpus)] for i in range(count)]
    return [
        {
            "name": f"{prefix}{i + 1}",
            "container": f"nodesmith-{lab}-{prefix}{i + 1}",
            "address": str(network[FIRST_HOST + i]),
            "cpus": ",".join(map(str, own)),
        }
        for i, own in enumerate(sets)
    ]


def _network(subnet: str, count: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        network = ipaddress.ip_network(subnet)
    except ValueError as error:
        raise LabError(
            f"lab_subnet {subnet!r} is not a network: {error}. A good one: 172.30.77.0/24"
        ) from error
    # one more than the last node's: the highest address is the broadcast
    needed = FIRST_HOST + count + 1
    if network.num_addresses < needed:
        raise LabError(
            f"lab_subnet {subnet} has {network.num_addresses} addresses, {count} nodes need {needed}: "
            "take a wider one, such as 172.30.77.0/24"
        )
    return network
