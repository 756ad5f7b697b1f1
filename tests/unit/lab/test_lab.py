"""The layout of the lab, over all sizes; addresses are judged by the ipaddress module, CPUs by counting."""

from __future__ import annotations

import ipaddress
import os
import re

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.filter.lab import FilterModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._lab import LabError, lay_out
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30
HOST_CPUS = st.lists(st.integers(0, 500), min_size=1, max_size=64, unique=True)


@given(count=st.integers(1, 100), prefix=st.integers(8, 25), cpus=st.integers(1, 64), host_cpus=HOST_CPUS)
def test_layout(count, prefix, cpus, host_cpus):
    network = ipaddress.ip_network(f"10.64.0.0/{prefix}", strict=False)
    if cpus > len(host_cpus):
        with pytest.raises(LabError, match="lab_node_cpus"):
            lay_out(count, "lab", str(network), host_cpus, 1000 * GIB, cpus=cpus)
        return
    nodes = lay_out(count, "lab", str(network), host_cpus, 1000 * GIB, cpus=cpus)
    addresses = [ipaddress.ip_address(node["address"]) for node in nodes]
    gateway = network.network_address + 1
    assert len(set(addresses)) == count
    assert all(address in network for address in addresses)
    assert not {network.network_address, network.broadcast_address, gateway} & set(addresses)
    assert len({node["name"] for node in nodes}) == len({node["container"] for node in nodes}) == count
    sets = [[int(cpu) for cpu in node["cpus"].split(",")] for node in nodes]
    assert all(len(set(own)) == cpus and set(own) <= set(host_cpus) for own in sets)
    if count * cpus <= len(host_cpus):
        assert len({cpu for own in sets for cpu in own}) == count * cpus
    loads = [sum(cpu in own for own in sets) for cpu in host_cpus]
    assert max(loads) - min(loads) <= 1


@given(
    count=st.integers(-3, 3000),
    lab=st.text(max_size=8),
    subnet=st.one_of(
        st.text(max_size=20), st.ip_addresses(v=4).map(lambda a: f"{a}/24"), st.just("fd00::/64")
    ),
    memory=st.integers(-1, 64 * GIB),
    cpus=st.integers(-1, 9),
    prefix=st.text(max_size=8),
)
def test_anything_else_is_refused_with_words(count, lab, subnet, memory, cpus, prefix):
    nodes, words = [], "lab_"
    try:
        nodes = lay_out(count, lab, subnet, [0, 1, 2, 3], 256 * GIB, prefix, cpus, memory)
    except LabError as error:
        words = str(error)
    assert "lab_" in words
    assert all(re.fullmatch(r"[a-z0-9-]+", node["name"]) for node in nodes)
    assert len(nodes) * memory <= 256 * GIB


@pytest.mark.parametrize(
    ("subnet", "count"),
    [("172.30.77.0/28", 4), ("172.30.77.0/27", 20), ("172.30.77.0/24", 244), ("172.30.77.0/24", 1)],
)
def test_the_last_address_is_not_the_broadcast(subnet, count):
    network = ipaddress.ip_network(subnet)
    nodes = lay_out(count, "lab", subnet, [0], 1000 * GIB)
    assert ipaddress.ip_address(nodes[-1]["address"]) < network.broadcast_address
    too_many = network.num_addresses - 11
    with pytest.raises(LabError, match=rf"lab_subnet {subnet}.*wider"):
        lay_out(too_many, "lab", subnet, [0], 1000 * GIB)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 0}, "one node at least, not 0: set lab_node_count"),
        ({"cpus": 3}, "3 CPUs on a machine that has 2: set lab_node_cpus to a number from 1 to 2"),
        ({"memory": 2**20}, "2 nodes of 1 MiB do not fit: a node needs 512 MiB"),
        (
            {"memory": 5 * GIB},
            "2 nodes of 5120 MiB do not fit.*8192 MiB: set lab_node_count or lab_node_memory",
        ),
        ({"subnet": "172.30.77.1/24"}, "'172.30.77.1/24' is not a network.*host bits set"),
        ({"lab": ".."}, "lab_name '..' cannot be part of a host name"),
        ({"lab": "my lab"}, "lab_name 'my lab'"),
        ({"prefix": "node_"}, "lab_node_prefix 'node_'"),
    ],
)
def test_messages(changed, message):
    arguments = {
        "count": 2,
        "lab": "lab",
        "subnet": "172.30.77.0/24",
        "host_cpus": [0, 1],
        "host_memory": 8 * GIB,
        **changed,
    }
    with pytest.raises(LabError, match=message):
        lay_out(**arguments)


def test_the_filter_sees_this_machine():
    lab_nodes = FilterModule().filters()["lab_nodes"]
    nodes = lab_nodes("1", "lab", subnet="172.30.77.0/24", memory=512 * 2**20)
    assert nodes[0]["cpus"] == str(min(os.sched_getaffinity(0)))
    assert nodes[0]["address"] == "172.30.77.11"
    with pytest.raises(AnsibleFilterError, match="one node at least"):
        lab_nodes(0, "lab", subnet="172.30.77.0/24")
    with pytest.raises(AnsibleFilterError, match="'two'"):
        lab_nodes("two", "lab", subnet="172.30.77.0/24")
