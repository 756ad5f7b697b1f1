#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that collects on the controller what a node needs to install a Python project without a network."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheelhouse
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Collect a Python project and its dependencies as wheels for another machine
description:
  - Runs on the controller. Downloads wheels that fit the node's Python, C library and architecture, builds
    the project's own wheel, and packs all of it into one archive, so that nodes need no package index.
  - The archive is named by the hash of everything that decides its contents. When it is there already,
    nothing is done.
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
    description:
      - Folder of the project, with its C(pyproject.toml). Of Python alone, as its wheel is built on the
        controller; the build backend has to be installed there.
    type: path
    required: true
  requirements:
    description:
      - Requirements files with hashes. Each is downloaded on its own and without looking for further
        dependencies.
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
  description:
    - The archive, a tar file with the wheels at its root. Not there yet in check mode when C(changed).
  returned: always
  type: str
key:
  description: The hash that names it.
  returned: always
  type: str
"""

import hashlib
import re
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
    pins = [hashlib.sha256(path.read_bytes()).hexdigest() for path in requirements]
    return hashlib.sha256(repr((tree_digest(project), pins, node)).encode()).hexdigest()[:16]


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave the controller's users and its umask out of the archive."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o644
    return member


def collect(
    project: Path, requirements: list[Path], python: str, platforms: list[str], archive: Path
) -> None:
    """Download, build and pack into ``archive``, which gets its name only when it is whole.

    :raises WheelError: pip failed, or the project's wheel fits this machine only
    """
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    target += [f"--platform={platform}" for platform in platforms]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="wheels-") as folder:
        own, wheels, part = Path(folder, "own"), Path(folder, "wheels"), Path(folder, archive.name)
        wheels.mkdir()
        # first, as it takes a second and the downloads may take minutes
        pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={own}", str(project))
        for wheel in own.iterdir():
            if not wheel.name.endswith("-none-any.whl"):
                raise WheelError(
                    f"{wheel.name} fits machines like this one only: a wheelhouse is for a project of Python "
                    "alone"
                )
        for path in requirements:
            options = ["--quiet", "--no-deps", "--require-hashes", *target, f"--dest={wheels}"]
            pip("download", *options, f"--requirement={path}")
        with tarfile.open(part, "w") as tar:
            for wheel in sorted([*own.iterdir(), *wheels.iterdir()], key=lambda path: path.name):
                tar.add(wheel, arcname=wheel.name, filter=plain)
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
    project, requirements = Path(params["project"]).resolve(), [Path(path) for path in params["requirements"]]
    if not (project / "pyproject.toml").is_file():
        module.fail_json(
            msg=f"{project} has no pyproject.toml: set project to the folder of a Python project"
        )
    if not re.fullmatch(r"3\.\d+", params["python"]):
        module.fail_json(msg=f"python is {params['python']!r}: give the node's version as in 3.11")
    try:
        platforms = manylinux_platforms(params["machine"], params["glibc"])
        key = archive_key(project, requirements, params["python"], params["machine"], params["glibc"])
        archive = Path(params["cache"], f"{project.name}-{key}.tar")
        changed = not archive.exists()
        if changed and not module.check_mode:
            collect(project, requirements, params["python"], platforms, archive)
    except (WheelError, OSError) as error:
        module.fail_json(msg=f"cannot collect wheels for {project.name}: {error}")
    module.exit_json(changed=changed, path=str(archive), key=key)


if __name__ == "__main__":
    main()
