"""Networks of written trees, after the kernel's documentation of /sys/class/net, and of this machine."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_network import read_network
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_readings import Readings

ETHERNET, INFINIBAND, LOOPBACK, TUN = 1, 32, 772, 65534


def add(tree, name, speed=None, state="up", kind=ETHERNET):
    tree.put(f"/sys/class/net/{name}/type", kind)
    tree.put(f"/sys/class/net/{name}/operstate", state)
    if speed is not None:
        tree.put(f"/sys/class/net/{name}/speed", speed)


def add_port(tree, adapter, rate, layer="InfiniBand", state="4: ACTIVE", number=1):
    folder = f"/sys/class/infiniband/{adapter}/ports/{number}"
    for name, text in (("rate", rate), ("link_layer", layer), ("state", state)):
        tree.put(f"{folder}/{name}", text)


def network(tree):
    return read_network(Readings(str(tree)))


def names(found):
    return [entry["name"] for entry in found["interfaces"]]


def test_a_workstation_with_docker(tree):
    add(tree, "lo", kind=LOOPBACK, state="unknown")
    add(tree, "eno1", 1000)
    add(tree, "enp3s0", 10000)
    add(tree, "enp4s0", 25000, state="down")
    add(tree, "wg0", kind=TUN, state="unknown")
    for name in ("docker0", "br-3f2a9c", "virbr0", "veth12ab", "tun0", "tap1", "vnet0", "cni0", "ifb0"):
        add(tree, name, 10000)
    assert network(tree) == {
        "interfaces": [
            {"name": "eno1", "kind": "ethernet", "mbit": 1000},
            {"name": "enp3s0", "kind": "ethernet", "mbit": 10000},
        ],
        "fastest_mbit": 10000,
        "kind": "ethernet",
    }


def test_virtual_interfaces_that_lead_out_count(tree):
    """A container's eth0 (10 Gbit/s is what veth reports), a bond, a VLAN and a bridge with a port in it.

    Some drivers do not report a state.
    """
    for name in ("eth0", "bond0", "bond0.12", "br0"):
        add(tree, name, 10000, state="unknown" if name == "eth0" else "up")
    assert names(network(tree)) == ["bond0", "bond0.12", "br0", "eth0"]


@pytest.mark.parametrize("speed", [-1, 4294967295, 0, "", None])
def test_an_unknown_speed(tree, speed):
    add(tree, "eth0", speed)
    assert network(tree) == {
        "interfaces": [{"name": "eth0", "kind": "ethernet", "mbit": None}],
        "fastest_mbit": None,
        "kind": None,
    }


def test_an_infiniband_node(tree):
    """An HDR port with IPoIB on it, one that is down, and a RoCE port, which is its Ethernet interface."""
    add(tree, "eno1", 1000)
    add(tree, "ib0", 200000, kind=INFINIBAND)
    add(tree, "ens2f0", 100000)
    add_port(tree, "mlx5_0", "200 Gb/sec (4X HDR)")
    add_port(tree, "mlx5_1", "10 Gb/sec (4X SDR)", state="1: DOWN")
    add_port(tree, "mlx5_2", "100 Gb/sec (4X EDR)", layer="Ethernet")
    found = network(tree)
    assert names(found) == ["eno1", "ens2f0", "ib0", "mlx5_0:1"]
    assert (found["fastest_mbit"], found["kind"]) == (200000, "infiniband")


@pytest.mark.parametrize(
    ("rate", "mbit"),
    [
        ("2.5 Gb/sec (1X SDR)", 2500),
        ("56 Gb/sec (4X FDR)", 56000),
        ("100 Gb/sec (4X OPA)", 100000),
        ("400 Gb/sec (4X NDR)", 400000),
        ("fast", None),
    ],
)
def test_infiniband_without_ip(tree, rate, mbit):
    add_port(tree, "hfi1_0", rate, number=2)
    assert network(tree)["interfaces"] == [{"name": "hfi1_0:2", "kind": "infiniband", "mbit": mbit}]


def test_infiniband_wins_a_tie(tree):
    add(tree, "eth0", 100000)
    add_port(tree, "mlx5_0", "100 Gb/sec (4X EDR)")
    assert network(tree)["kind"] == "infiniband"


def test_no_network(tree):
    readings = Readings(str(tree))
    assert read_network(readings) == {"interfaces": [], "fastest_mbit": None, "kind": None}
    assert readings.sources == {"network": "no interface is up in /sys/class/net"}


def test_this_machine():
    """The interface that a packet to another network would leave by is among them."""
    with open("/proc/net/route", encoding="ascii") as stream:
        default = {line.split()[0] for line in stream if line.split()[1] == "00000000"}
    found = set(names(read_network(Readings("/"))))
    assert default <= found <= {name for _index, name in socket.if_nameindex()}
