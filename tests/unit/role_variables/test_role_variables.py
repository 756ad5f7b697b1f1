"""Misspelt role variables are found, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.nodesmith.cluster.plugins.filter.role_variables import role_variable_problems
from ansible_collections.nodesmith.cluster.plugins.module_utils._role_variables import options_of, unknown
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]
ROLES = {"hpl": {"hpl_source", "hpl_user"}, "hpl_container": {"hpl_container_flavor"}}


def test_a_misspelt_variable_is_named_with_the_right_one_and_its_hosts():
    (problem,) = unknown({"node1": ["hpl_sorce"], "node2": ["hpl_sorce", "hpl_user"]}, ROLES)
    assert "'hpl_sorce'" in problem
    assert "'hpl_source'" in problem
    assert "node1, node2" in problem


def test_a_variable_of_a_role_with_a_longer_name_is_judged_by_that_role():
    assert unknown({"node1": ["hpl_container_flavor"]}, ROLES) == []
    (problem,) = unknown({"node1": ["hpl_container_source"]}, ROLES)
    assert "the role hpl_container has no variable" in problem


@given(st.lists(st.text("abcdehlp_", min_size=1, max_size=12)))
def test_names_without_a_role_in_front_are_nobody_s_business(names):
    strangers = [name for name in names if not name.startswith("hpl_")]
    assert unknown({"node1": strangers}, ROLES) == []


def test_every_default_of_every_role_is_in_its_argument_spec():
    for defaults in ROOT.glob("roles/*/defaults/main.yml"):
        spec = yaml.safe_load((defaults.parent.parent / "meta/argument_specs.yml").read_text())
        missing = set(yaml.safe_load(defaults.read_text()) or {}) - options_of(spec)
        assert not missing, f"{defaults}: {missing}"


def test_the_filter_reads_the_roles_of_this_repository():
    hostvars = {"node1": {"hpl_source": "debian", "models_prot": 1}}
    (problem,) = role_variable_problems(hostvars, ["node1"], str(ROOT / "roles"))
    assert "'models_port'" in problem


def test_a_folder_without_roles_is_an_error(tmp_path):
    with pytest.raises(Exception, match="no roles"):
        role_variable_problems({}, [], str(tmp_path))
