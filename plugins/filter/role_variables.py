# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that finds variables which look like a role's and are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.module_utils import _role_variables


def role_variable_problems(hostvars: Any, hosts: Sequence[str], roles_dir: str) -> list[str]:
    """List the variables of ``hosts`` that begin with a role's name and are not in its argument spec."""
    roles = {}
    for path in sorted(Path(roles_dir).glob("*/meta/argument_specs.yml")):
        try:
            roles[path.parent.parent.name] = _role_variables.options_of(
                yaml.safe_load(path.read_text(encoding="utf-8"))
            )
        except (OSError, yaml.YAMLError, KeyError, AttributeError, TypeError) as error:
            raise AnsibleFilterError(f"{path} is no argument spec: {error!r}") from error
    if not roles:
        raise AnsibleFilterError(f"{roles_dir} has no roles with an argument spec")
    return _role_variables.unknown({host: list(hostvars[host]) for host in hosts}, roles)


class FilterModule:
    """Filters over the variables of roles."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters."""
        return {"role_variable_problems": role_variable_problems}
