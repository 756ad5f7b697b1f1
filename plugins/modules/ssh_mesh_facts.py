#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that reads what a node's part in an SSH mesh consists of."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ssh_mesh_facts
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Read a node's host keys, a user's public key and the files of the SSH mesh
description:
  - Reads in one go what the filters P(nodesmith.cluster.ssh_mesh_authorized_keys#filter) and
    P(nodesmith.cluster.ssh_mesh_known_hosts#filter) work on. Changes nothing.
  - Never reads a private key.
attributes:
  check_mode:
    description: Can run in check mode and return the same as without it.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
options:
  user:
    description: The user of the mesh. May be missing still.
    type: str
    required: true
  ssh_dir:
    description: Where OpenSSH keeps its host keys and the system's C(ssh_known_hosts).
    type: path
    default: /etc/ssh
"""

EXAMPLES = r"""
- name: Read this node's part in the mesh
  nodesmith.cluster.ssh_mesh_facts:
    user: mpi
  register: mesh
"""

RETURN = r"""
host_keys:
  description: The node's public host keys, one text each.
  returned: always
  type: list
  elements: str
public_key:
  description: The user's Ed25519 public key, null when there is none yet.
  returned: always
  type: str
authorized_keys:
  description: The user's C(authorized_keys), empty when there is none.
  returned: always
  type: str
known_hosts:
  description: The system's C(ssh_known_hosts), empty when there is none.
  returned: always
  type: str
home:
  description: The user's home, null when there is no such user.
  returned: always
  type: str
"""

import pwd
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def main() -> None:
    """Read the files and return their texts."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "ssh_dir": {"type": "path", "default": "/etc/ssh"},
        },
        supports_check_mode=True,
    )
    ssh_dir = Path(module.params["ssh_dir"])
    try:
        home = pwd.getpwnam(module.params["user"]).pw_dir
    except KeyError:
        home = None
    try:
        module.exit_json(
            changed=False,
            home=home,
            host_keys=[_text(path).strip() for path in sorted(ssh_dir.glob("ssh_host_*_key.pub"))],
            public_key=(_text(Path(home, ".ssh/id_ed25519.pub")).strip() or None) if home else None,
            authorized_keys=_text(Path(home, ".ssh/authorized_keys")) if home else "",
            known_hosts=_text(ssh_dir / "ssh_known_hosts"),
        )
    except OSError as error:
        module.fail_json(
            msg=f"cannot read the SSH files of {module.params['user']}: {error}. Run this task with become."
        )
    except UnicodeDecodeError as error:
        module.fail_json(
            msg=f"an SSH file of {module.params['user']} is not UTF-8 text: {error}. Look for a comment with "
            f"other characters in {home}/.ssh/authorized_keys and {ssh_dir}/ssh_known_hosts."
        )


if __name__ == "__main__":
    main()
