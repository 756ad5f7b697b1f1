#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that collects on the controller what a node needs to install a Python project without a network."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheelhouse
author: The nodesmith authors
version_added: 0.1.0
short_description: Collect a Python project and its dependencies as wheels for another machine
description:
  - Runs on the controller. Downloads wheels that fit the node's Python, C library and architecture, builds the project's own
    wheel, and packs all of it into one archive, so that nodes need no package index.
  - The archive is named by the hash of everything that decides its contents. When it is there already, nothing is done.
  - Downloads are held to the hashes in the requirements files.
attributes:
  check_mode:
    description: Says what it would make and downloads nothing.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
options:
  project:
    description: Folder of the project, with its C(pyproject.toml).
    type: path
    required: true
  requirements:
    description: Requirements files with hashes. Each is downloaded on its own and without looking for further dependencies.
    type: list
    elements: path
    required: true
  python:
    description: The node's Python, as C(3.11).
    type: str
    required: true
  machine:
    description: The node's architecture, as C(x86_64).
    type: str
    required: true
  glibc:
    description: The node's C library, as C(2.36).
    type: str
    required: true
  cache:
    description: Folder for archives. Made when missing.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Collect wheels for the nodes
  nodesmith.cluster.wheelhouse:
    project: models
    requirements: [models/requirements.txt]
    python: "3.11"
    machine: x86_64
    glibc: "2.36"
    cache: ~/.cache/nodesmith/wheelhouses
  delegate_to: localhost
  register: wheels
"""

RETURN = r"""
path:
  description: The archive, a tar file with the wheels at its root. Not there yet in check mode when C(changed).
  returned: always
  type: str
key:
  description: The hash that names it.
  returned: always
  type: str
"""

import hashlib
import tarfile
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._wheels import (
    WheelError,
    manylinux_platforms,
    pip,
    tree_digest,
)


def archive_key(project: Path, requirements: list[Path], *node: str) -> str:
    """Return the hash of everything that decides the archive's contents."""
    digest = hashlib.sha256(repr((tree_digest(project), node)).encode())
    for path in requirements:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def collect(project: Path, requirements: list[Path], python: str, platforms: list[str], archive: Path) -> None:
    """Download, build and pack into ``archive``, which gets its name only when it is whole."""
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    target += [f"--platform={platform}" for platform in platforms]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="wheels-") as folder:
        for path in requirements:
            pip("download", "--quiet", "--no-deps", "--require-hashes", *target, f"--dest={folder}", f"--requirement={path}")
        pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(project))
        part = archive.with_suffix(".part")
        with tarfile.open(part, "w") as tar:
            for wheel in sorted(Path(folder).iterdir()):
                tar.add(wheel, arcname=wheel.name)
        part.replace(archive)


def main() -> None:
    """Make the archive unless it is there."""
    module = AnsibleModule(
        argument_spec={
            "project": {"type": "path", "required": True},
            "requirements": {"type": "list", "elements": "path", "required": True},
            "python": {"type": "str", "required": True},
            "machine": {"type": "str", "required": True},
            "glibc": {"type": "str", "required": True},
            "cache": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    project, requirements = Path(params["project"]), [Path(path) for path in params["requirements"]]
    try:
        platforms = manylinux_platforms(params["machine"], params["glibc"])
        key = archive_key(project, requirements, params["python"], params["machine"], params["glibc"])
        archive = Path(params["cache"], f"{project.name}-{key}.tar")
        changed = not archive.exists()
        if changed and not module.check_mode:
            collect(project, requirements, params["python"], platforms, archive)
    except (WheelError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=str(archive), key=key)


if __name__ == "__main__":
    main()
