"""What is found wrong with an inventory."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.filter.inventory import FilterModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._inventory import problems


def never(name):
    return False


def test_nothing_wrong():
    hostvars = {"node1": {"ansible_host": "192.0.2.1"}, "node2": {"ansible_host": "node2.example.org"}}
    assert problems(hostvars, {"hpc": ["node1", "node2"]}, ["hpc"], never) == []


@pytest.mark.parametrize("groups", [{}, {"hpc": []}])
def test_a_group_without_hosts(groups):
    (problem,) = problems({}, groups, ["hpc"], never)
    assert problem.startswith("the group 'hpc' has no host: list one under it")


def test_a_host_without_an_address():
    (problem,) = problems({"node1": {}}, {}, [], never)
    assert problem == "the host 'node1' has no address and its name does not resolve: give it an ansible_host"
    assert problems({"node1": {}}, {}, [], lambda name: name == "node1") == []


@pytest.mark.parametrize("address", ["", "  "])
def test_an_empty_address(address):
    (problem,) = problems({"node1": {"ansible_host": address}}, {}, [], lambda name: True)
    assert problem.startswith("the host 'node1' has an empty ansible_host")


@pytest.mark.parametrize(
    "connection", ["local", "ansible.builtin.local", "docker", "community.docker.docker_api"]
)
def test_hosts_that_are_not_reached_by_address(connection):
    assert problems({"node1": {"ansible_connection": connection}}, {}, [], never) == []


@pytest.mark.parametrize(
    "connection", [None, "ssh", "ansible.builtin.ssh", "smart", "ansible.netcommon.paramiko"]
)
def test_hosts_that_are(connection):
    assert len(problems({"node1": {"ansible_connection": connection}}, {}, [], never)) == 1


def test_every_problem_is_named_once_and_in_order():
    found = problems({"b": {}, "a": {}, "c": {"ansible_host": ""}}, {}, ["hpc", "models"], never)
    assert [text.split("'")[1] for text in found] == ["hpc", "models", "a", "b", "c"]


def test_the_filter_looks_at_the_hosts_of_the_play_and_asks_the_resolver():
    check = FilterModule().filters()["inventory_problems"]
    hostvars = {"localhost": {}, "no-such-host.invalid": {}, "other.invalid": {}}
    groups = {"hpc": ["localhost"]}
    assert check(hostvars, groups, ["localhost"], ["hpc"]) == []
    (problem,) = check(hostvars, groups, ["localhost", "no-such-host.invalid"], ["hpc"])
    assert "no-such-host.invalid" in problem
