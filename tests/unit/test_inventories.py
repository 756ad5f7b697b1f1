"""The example inventory: Ansible reads it, a role takes every variable in it, and no secret is in it."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "inventory" / "example"
GROUPS = {"hpc", "amd_gpu", "nvidia_gpu", "models", "workstations", "arch_targets", "mattermost"}
DOCUMENTATION_RANGES = [ipaddress.ip_network(n) for n in ("192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32")]
CONNECTION = {"ansible_host", "ansible_user", "ansible_python_interpreter"}
SPECS = sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))
ASSIGNMENT = re.compile(r"^(# )?([a-z_]+):(?: |$)", re.M)


@pytest.fixture(scope="module")
def listing():
    command = [Path(sys.executable).with_name("ansible-inventory"), "-i", EXAMPLE, "--list"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "WARNING" not in out.stderr
    return json.loads(out.stdout)


@pytest.fixture(scope="module")
def known():
    """Names and types of the variables that roles take, and the site variables that their specs speak of."""
    options = {}
    for path in SPECS:
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            options |= entry.get("options", {})
    site = set(re.findall(r"\bnodesmith_[a-z_]+", "".join(path.read_text() for path in SPECS)))
    return options, site


def hosts_of(listing, group):
    entry = listing.get(group, {})
    return set(entry.get("hosts", [])) | {
        host for child in entry.get("children", []) for host in hosts_of(listing, child)
    }


def test_every_group_has_a_host_and_every_host_one_address(listing):
    assert set(listing["all"]["children"]) | {"amd_gpu"} >= GROUPS
    assert all(hosts_of(listing, group) for group in GROUPS)
    addresses = [variables["ansible_host"] for variables in listing["_meta"]["hostvars"].values()]
    assert len(addresses) == len(set(addresses)) == len(hosts_of(listing, "all"))


def test_gpu_nodes_are_nodes_and_install_targets_are_nothing_else(listing):
    assert hosts_of(listing, "amd_gpu") < hosts_of(listing, "hpc")
    others = set().union(*(hosts_of(listing, group) for group in GROUPS - {"arch_targets"}))
    assert not hosts_of(listing, "arch_targets") & others


def test_addresses_lead_nowhere():
    text = "".join(path.read_text() for path in EXAMPLE.rglob("*.y*ml*"))
    found = re.findall(r"\b\d+\.\d+\.\d+\.\d+\b|\b[0-9a-f]+:[0-9a-f:]*::[0-9a-f]*", text)
    assert found
    for address in map(ipaddress.ip_address, found):
        assert any(address in network for network in DOCUMENTATION_RANGES)
    names = re.findall(r"\b[a-z0-9-]+\.(?:[a-z0-9-]+\.)*(?:com|net|org|io|de)\b", text)
    assert all(name.endswith("example.org") for name in names)


def test_every_variable_is_one_that_a_role_takes(listing, known):
    options, site = known
    for host, variables in listing["_meta"]["hostvars"].items():
        # ansible-inventory adds ansible_local, which no file of ours sets
        unknown = set(variables) - set(options) - site - CONNECTION - {"ansible_local"}
        assert not unknown, f"{host} sets {unknown}"


def test_choices_that_are_commented_out_are_ones_too(known):
    options, site = known
    seen = set()
    for path in EXAMPLE.glob("group_vars/**/*.yml"):
        for hidden, name in ASSIGNMENT.findall(path.read_text()):
            assert name in {*options, *site, *CONNECTION}, f"{path}: {hidden}{name}"
            seen.add(name)
    assert {"hpl_network", "models_api_keys", "nodesmith_mpi_user", "models_checkpoint"} <= seen


def test_values_are_of_the_type_that_the_role_takes(listing, known):
    python = {"str": str, "path": str, "int": int, "bool": bool, "dict": dict, "float": (int, float)}
    options, _site = known
    checked = set()
    for variables in listing["_meta"]["hostvars"].values():
        for name in variables.keys() & options.keys():
            value, option = variables[name], options[name]
            if isinstance(value, str) and "{{" in value:
                continue
            assert isinstance(value, python[option["type"]]), name
            assert value in option.get("choices", [value]), name
            checked.add(name)
    assert checked


def test_what_a_role_must_be_given_is_given(listing):
    """Each role that a playbook applies belongs to the group of the same name, or to hpc."""
    playbooks = "".join(path.read_text() for path in ROOT.glob("playbooks/*.yml"))
    applied = [path for path in SPECS if f"nodesmith.cluster.{path.parts[-3]}\n" in playbooks]
    assert applied
    for path in applied:
        group = path.parts[-3] if path.parts[-3] in GROUPS else "hpc"
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            required = {name for name, option in entry.get("options", {}).items() if option.get("required")}
            for host in hosts_of(listing, group):
                assert required <= set(listing["_meta"]["hostvars"][host])


def test_every_variable_has_a_comment():
    for path in EXAMPLE.glob("group_vars/**/*.yml"):
        lines = path.read_text().splitlines()
        assert lines[1].startswith("# "), path
        for number, line in enumerate(lines):
            if ASSIGNMENT.match(line) and not line.startswith("#"):
                assert lines[number - 1].startswith("# "), f"{path}: {line}"


def test_secrets_are_named_and_never_given():
    """A secret is a variable of the vault here, and the vault's example has no value."""
    secret = re.compile(r"(key|keys|password|secret|token)$")
    for path in EXAMPLE.glob("**/*.yml"):
        for name, value in re.findall(r"^[ #-]*([a-z_]+): *(.*)$", path.read_text(), re.M):
            if secret.search(name):
                assert re.fullmatch(r'"{{ vault_[a-z_]+ }}"', value), f"{path}: {name}"
    example = (EXAMPLE / "group_vars" / "all" / "vault.yml.example").read_text()
    assert all(line.startswith("#") for line in example.splitlines())
    assert re.findall(r"key:[ ]*(\S*)", example) == ["#", ""]
    used = set()
    for path in EXAMPLE.glob("**/*.yml"):
        used |= set(re.findall(r"{{ (vault_[a-z_]+) }}", path.read_text()))
    assert used == set(re.findall(r"^# (vault_[a-z_]+):", example, re.M))
    assert not (EXAMPLE / "group_vars" / "all" / "vault.yml").exists()
