# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HPL planner, its files and its results as filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl import plan
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_campaigns import finished
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_dat import hpl_dat, parse_hpl_dat
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_launch import hostfile, mpirun_argv
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_results import parse_results
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_table import plan_table
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError


def hpl_plan(
    nodes: Any, options: Mapping[str, Any] | None = None, hosts: Sequence[str] | None = None
) -> dict[str, Any]:
    """Plan a run over ``nodes``: a list of name, address and facts, or hostvars (then the hosts named in
    ``hosts``).
    """
    if isinstance(nodes, Mapping):
        entries = [_from_hostvars(name, nodes) for name in (nodes if hosts is None else hosts)]
    elif isinstance(nodes, Sequence) and not isinstance(nodes, str):
        entries = [
            node
            for node in nodes
            if hosts is None or not isinstance(node, Mapping) or node.get("name") in hosts
        ]
    else:
        raise HplError(f"nodes must be hostvars or a list of nodes, not {nodes!r:.200}")
    return plan(entries, options)


def _from_hostvars(name: str, hostvars: Mapping[str, Any]) -> dict[str, Any]:
    if name not in hostvars:
        raise HplError(f"{name} is not a host of the inventory")
    variables = hostvars[name]
    facts = variables.get("hpl_facts") or (variables.get("ansible_facts") or {}).get("hpl_facts")
    if not facts:
        raise HplError(f"{name} has no hpl_facts: run the module nodesmith.cluster.hpl_facts on it first")
    return {"name": name, "address": variables.get("ansible_host") or name, "facts": facts}


def _text(function: Callable[[str], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    def checked(text: Any) -> dict[str, Any]:
        if not isinstance(text, str):
            raise HplError(f"the text of a file is needed, not {text!r:.200}")
        return function(text)

    return checked


def _as_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except HplError as error:
            raise AnsibleFilterError(str(error)) from error

    return filtered


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            name: _as_filter(function)
            for name, function in (
                ("hpl_plan", hpl_plan),
                ("hpl_plan_table", plan_table),
                ("hpl_dat", hpl_dat),
                ("hpl_dat_parse", _text(parse_hpl_dat)),
                ("hpl_results", _text(parse_results)),
                ("hpl_hostfile", hostfile),
                ("hpl_launch", mpirun_argv),
                ("hpl_campaigns", finished),
            )
        }
