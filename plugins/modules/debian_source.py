#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that fetches upstream's tarball of a Debian source package."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: debian_source
author: The nodesmith authors
version_added: 0.1.0
short_description: Fetch upstream's tarball of a source package through apt
description:
  - For networks that reach the distribution's mirror and nothing else. Uses the mirrors, keys and proxies that apt on this
    machine is set up with, in a list of its own, so that the system's sources are left as they are.
  - apt checks the tarball against the signed index.
attributes:
  check_mode:
    description: Says what it would fetch and fetches nothing.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
options:
  name:
    description: Name of the source package.
    type: str
    required: true
  dest:
    description: Folder for the tarball. Has to exist.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Fetch the source of hpcc
  nodesmith.cluster.debian_source:
    name: hpcc
    dest: /var/cache/nodesmith
  register: source
"""

RETURN = r"""
path:
  description: The tarball; null in check mode when it is not there yet.
  returned: always
  type: str
version:
  description: Upstream's version.
  returned: always
  type: str
sha256:
  description: The tarball's SHA-256.
  returned: always
  type: str
"""

import hashlib
import re
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def existing(dest: Path, name: str) -> Path | None:
    """Return the newest finished tarball of ``name`` in ``dest``; apt gives a file its name only when it is whole."""
    found = sorted(dest.glob(f"{name}_*.orig.tar.*"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def deb_src_lines(targets: str) -> list[str]:
    """Turn apt's list of index targets (site, release, component and keyring per line) into deb-src lines."""
    lines = []
    for line in dict.fromkeys(targets.splitlines()):
        site, release, component, signed_by = [*line.split("|"), ""][:4]
        # apt leaves the name of a field in place where it has no value
        option = f"[signed-by={signed_by}] " if signed_by.startswith("/") else ""
        lines.append(f"deb-src {option}{site} {release} {component}")
    return lines


def fetch(module: AnsibleModule, name: str, dest: Path) -> None:
    """Fetch the tarball of ``name`` into ``dest``."""
    apt_get = module.get_bin_path("apt-get", required=True)
    form = "$(SITE)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)"
    _rc, targets, _err = module.run_command(
        [apt_get, "indextargets", "--format", form, "Created-By: Packages"], check_rc=True
    )
    with tempfile.TemporaryDirectory(prefix="nodesmith-apt-") as folder:
        sources = Path(folder, "sources.list")
        sources.write_text("\n".join(deb_src_lines(targets)) + "\n", encoding="utf-8")
        Path(folder, "lists/partial").mkdir(parents=True)
        options = [
            f"-oDir::Etc::SourceList={sources}",
            "-oDir::Etc::SourceParts=/dev/null",
            f"-oDir::State::Lists={folder}/lists",
            # the folder is root's own, and the tarball is checked against the signed index all the same
            "-oAPT::Sandbox::User=root",
        ]
        for command in (["update", "-q"], ["source", "-q", "--download-only", "--tar-only", name]):
            rc, out, err = module.run_command([apt_get, *options, *command], cwd=str(dest))
            if rc != 0:
                reason = next((line for line in reversed(err.splitlines()) if line.startswith("E:")), err.strip())
                module.fail_json(
                    msg=f"apt could not fetch the source package {name}: {reason} "
                    f"Does this machine reach the mirror in its apt sources, and does its release have {name}?",
                    stdout=out,
                    stderr=err,
                )


def main() -> None:
    """Fetch the tarball unless it is there."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    name, dest = module.params["name"], Path(module.params["dest"])
    path = existing(dest, name)
    changed = path is None
    if path is None and not module.check_mode:
        if not dest.is_dir():
            module.fail_json(msg=f"the folder {dest} does not exist: make it first")
        fetch(module, name, dest)
        path = existing(dest, name)
        if path is None:
            module.fail_json(msg=f"apt fetched the source package {name}, but no {name}_*.orig.tar.* came of it")
    match = re.match(rf"{re.escape(name)}_(.+)\.orig\.tar\.", path.name) if path else None
    module.exit_json(
        changed=changed,
        path=str(path) if path else None,
        version=match.group(1) if match else None,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest() if path else None,
    )


if __name__ == "__main__":
    main()
