# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of a node that MPI can use, and how fast they are."""

from __future__ import annotations

import re
from typing import Any

from ._hpl_readings import Readings

NET, INFINIBAND = "/sys/class/net", "/sys/class/infiniband"

# linux/if_arp.h; any other type (loopback, tunnels, tun) is no network between nodes
_KINDS = {1: "ethernet", 32: "infiniband"}
# Interfaces that join the containers and virtual machines of one node. Not all that are virtual: a
# container's own eth0 is, and so are bonds and VLANs.
_INSIDE_THE_NODE = re.compile(r"(docker|br-|virbr|veth|tun|tap|vnet|ifb|dummy|cni|flannel|cali).*")


def read_network(readings: Readings) -> dict[str, Any]:
    """Return ``interfaces`` (name, kind and mbit of each that is up), ``fastest_mbit`` and its ``kind``.

    ``mbit`` is the speed of the link in Mbit/s, None where the driver tells none, as virtual ones do.
    ``kind`` is ethernet or infiniband. A port of an InfiniBand (or Omni-Path) adapter counts without an IP
    interface on it too, since MPI needs none; one that runs Ethernet is the Ethernet interface.
    """
    interfaces = _net_interfaces(readings) + _infiniband_ports(readings)
    known = [entry for entry in interfaces if entry["mbit"] is not None]
    fastest = max(known, key=lambda entry: (entry["mbit"], entry["kind"] == "infiniband"), default=None)
    source = f"{NET}/*/speed; {INFINIBAND}/*/ports/*/rate" if interfaces else f"no interface is up in {NET}"
    network = {
        "interfaces": interfaces,
        "fastest_mbit": fastest["mbit"] if fastest else None,
        "kind": fastest["kind"] if fastest else None,
    }
    return readings.note("network", network, source)


def _net_interfaces(readings: Readings) -> list[dict[str, Any]]:
    interfaces = []
    for name in readings.names(NET, r".*"):
        kind = _KINDS.get(readings.number(f"{NET}/{name}/type") or 0)
        # unknown is what drivers that do not report a state leave there
        up = (readings.text(f"{NET}/{name}/operstate") or "").strip() in ("up", "unknown")
        if kind and up and not _INSIDE_THE_NODE.fullmatch(name):
            speed = readings.number(f"{NET}/{name}/speed")
            # -1, as a signed or an unsigned word, is the kernel's "unknown"
            known = speed is not None and 0 < speed < 2**32 - 1
            interfaces.append({"name": name, "kind": kind, "mbit": speed if known else None})
    return interfaces


def _infiniband_ports(readings: Readings) -> list[dict[str, Any]]:
    ports = []
    for adapter in readings.names(INFINIBAND, r".*"):
        for number in readings.numbers(f"{INFINIBAND}/{adapter}/ports", ""):
            folder = f"{INFINIBAND}/{adapter}/ports/{number}"
            layer = (readings.text(f"{folder}/link_layer") or "").strip()
            if layer == "InfiniBand" and "ACTIVE" in (readings.text(f"{folder}/state") or ""):
                # 100 Gb/sec (4X EDR)
                rate = re.match(r"([0-9]{1,6}(?:\.[0-9]+)?) Gb/sec", readings.text(f"{folder}/rate") or "")
                mbit = round(float(rate.group(1)) * 1000) if rate else None
                ports.append({"name": f"{adapter}:{number}", "kind": "infiniband", "mbit": mbit})
    return ports
