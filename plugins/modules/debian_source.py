#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that fetches upstream's tarball of a Debian source package."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: debian_source
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Fetch upstream's tarball of a source package through apt
description:
  - For networks that reach the distribution's mirror and nothing else. Uses the mirrors, keys and proxies
    that apt on this machine is set up with, in lists of its own, so that the system's are left as they are.
  - apt checks the tarball against the signed index. It gets its name in O(dest) only when it is whole.
  - Where a tarball of the package is there already, nothing is fetched, whatever version the mirror has.
attributes:
  check_mode:
    description: Says whether it would fetch and fetches nothing.
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
  description:
    - The tarball; the one of the highest version where there are several. Null in check mode when it is not
      there.
  returned: always
  type: str
version:
  description: Upstream's version. Null in check mode when the tarball is not there.
  returned: always
  type: str
sha256:
  description: The tarball's SHA-256. Null in check mode when it is not there.
  returned: always
  type: str
"""

import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def version_key(version: str) -> list[Any]:
    """Return what sorts upstream versions as Debian does (deb-version(7))."""
    return [
        ([-1 if c == "~" else ord(c) + (0 if c.isalpha() else 256) for c in text] + [0], int(number or 0))
        for text, number in re.findall(r"(\D*)(\d*)", version)
    ]


def existing(dest: Path, name: str) -> tuple[Path, str] | None:
    """Return path and version of the newest tarball of ``name`` in ``dest``."""
    form = re.compile(rf"{re.escape(name)}_([^_]+)\.orig\.tar\.(?:gz|bz2|lzma|xz|zst)")
    found = [(path, match.group(1)) for path in dest.glob("*") if (match := form.fullmatch(path.name))]
    return max(found, key=lambda pair: version_key(pair[1]), default=None)


def as_source_entries(text: str, deb822: bool) -> str:
    """Turn the text of a file of apt sources into one that asks the same places for source packages.

    All else stays, such as the keys that a place is trusted by.
    """
    if deb822:
        return re.sub(r"(?mi)^Types:.*$", "Types: deb-src", text)
    return re.sub(r"(?m)^([ \t]*)deb(?=\s)", r"\1deb-src", text)


def write_sources(module: AnsibleModule, folder: Path) -> None:
    """Write apt's sources on this machine, as source entries, into ``folder``."""
    apt_config = module.get_bin_path("apt-config", required=True)
    query = ["MAIN", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    _rc, out, _err = module.run_command([apt_config, "shell", *query], check_rc=True)
    places = dict(word.split("=", 1) for word in shlex.split(out))
    parts = Path(places["PARTS"])
    files = [Path(places["MAIN"]), *sorted([*parts.glob("*.list"), *parts.glob("*.sources")])]
    written = 0
    for number, path in enumerate(path for path in files if path.is_file()):
        text = as_source_entries(path.read_text(encoding="utf-8"), path.suffix == ".sources")
        # apt reads no file whose name has other characters than these
        name = re.sub(r"[^A-Za-z0-9_-]", "_", path.stem)
        (folder / f"{number}-{name}{path.suffix}").write_text(text, encoding="utf-8")
        written += 1
    if not written:
        module.fail_json(
            msg=f"apt has no sources here, neither {files[0]} nor files in {parts}: name a mirror there"
        )


def fetch(module: AnsibleModule, name: str, dest: Path) -> None:
    """Fetch the tarball of ``name`` into ``dest``."""
    apt_get = module.get_bin_path("apt-get", required=True)
    # in dest, as a tarball is only renamed within one filesystem; apt itself writes under the final name
    with tempfile.TemporaryDirectory(prefix=".nodesmith-apt-", dir=dest) as scratch:
        folder = Path(scratch)
        for part in ("sources", "lists/partial", "source"):
            (folder / part).mkdir(parents=True)
        write_sources(module, folder / "sources")
        options = [
            "-oDir::Etc::SourceList=/dev/null",
            f"-oDir::Etc::SourceParts={folder}/sources",
            f"-oDir::State::Lists={folder}/lists",
            # the system's caches are about the system's sources
            "-oDir::Cache::pkgcache=",
            "-oDir::Cache::srcpkgcache=",
            # the folder is root's own, and the tarball is checked against the signed index all the same
            "-oAPT::Sandbox::User=root",
        ]
        for command in (["update", "-q"], ["source", "-q", "--download-only", "--tar-only", name]):
            rc, out, err = module.run_command([apt_get, *options, *command], cwd=str(folder / "source"))
            if rc != 0:
                reason = next(
                    (line for line in reversed(err.splitlines()) if line.startswith("E:")), err.strip()
                )
                module.fail_json(
                    msg=f"apt could not fetch the source package {name}: {reason} "
                    "Does this machine reach the mirror in its apt sources, and does its release have that "
                    "package?",
                    stdout=out,
                    stderr=err,
                )
        tarball = existing(folder / "source", name)
        if tarball is None:
            files = ", ".join(sorted(path.name for path in (folder / "source").iterdir())) or "nothing"
            module.fail_json(
                msg=f"the source package {name} has no upstream tarball {name}_VERSION.orig.tar.*: "
                f"apt fetched {files}"
            )
        # apt only links to a mirror that is a folder of this machine
        whole = folder / "whole"
        shutil.copyfile(tarball[0], whole)
        whole.replace(dest / tarball[0].name)


def main() -> None:
    """Fetch the tarball unless it is there."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}
    name, dest = module.params["name"], Path(module.params["dest"])
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
        module.fail_json(
            msg=f"{name!r} cannot be a source package: names are of a-z, 0-9, plus, minus and dots"
        )
    try:
        found = existing(dest, name)
        changed = found is None
        if found is None and not module.check_mode:
            if not dest.is_dir():
                module.fail_json(msg=f"the folder {dest} does not exist: make it first")
            fetch(module, name, dest)
            found = existing(dest, name)
    except (OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=f"cannot fetch the source package {name} into {dest}: {error}")
    path, version = found or (None, None)
    module.exit_json(
        changed=changed,
        path=path and str(path),
        version=version,
        sha256=path and module.sha256(str(path)),
    )


if __name__ == "__main__":
    main()
