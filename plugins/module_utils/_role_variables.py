# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that look like a role's and are none: a slip of the pen, which Ansible ignores in silence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def options_of(spec: Mapping[str, Any]) -> set[str]:
    """Return the variables that a role's ``argument_specs.yml`` names, over all its entry points."""
    return {name for entry in spec["argument_specs"].values() for name in entry.get("options") or {}}


def unknown(variables: Mapping[str, Iterable[str]], roles: Mapping[str, set[str]]) -> list[str]:
    """List each variable that begins with a role's name and that this role does not have.

    :param variables: the names of the variables of each host
    :param roles: the variables of each role
    :returns: one sentence per variable, with the nearest name that exists; empty when all are known
    """
    hosts: dict[str, list[str]] = {}
    for host, names in variables.items():
        for name in names:
            hosts.setdefault(name, []).append(host)
    found = []
    # the longest name first: hpl_container_x is no variable of hpl when there is a role hpl_container
    prefixes = sorted(roles, key=len, reverse=True)
    for name in sorted(hosts):
        role = next((role for role in prefixes if name.startswith(role + "_")), None)
        if role is None or name in roles[role]:
            continue
        near = difflib.get_close_matches(name, sorted(roles[role]), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"roles/{role}/README.md lists those it has."
        where = ", ".join(sorted(hosts[name])[:3]) + (", ..." if len(hosts[name]) > 3 else "")
        found.append(f"the role {role} has no variable {name!r}, set for {where}: {hint}")
    return found
