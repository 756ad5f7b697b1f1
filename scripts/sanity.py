#!/usr/bin/env python3
"""Run ``ansible-test sanity`` on a copy of what the collection ships.

ansible-test insists on a real ``ansible_collections/NAMESPACE/NAME`` folder, and the link that makes this
checkout one does not count; within another git checkout it would find no files. Its own download of pip is
replaced by the interpreter's ensurepip, as it comes from a host that many networks do not reach.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nodesmith_front.layout import Layout, user_cache

# As galaxy.yml says; the rest of the repository is for ruff and mypy.
SHIPPED = ("changelogs/", "docs/", "meta/", "playbooks/", "plugins/", "roles/", "tests/sanity/")
SHIPPED_FILES = ("galaxy.yml", "LICENSE", "README.md")


def copy_tree(root: Path, target: Path) -> None:
    """Copy the shipped files that git tracks or would track to the new folder ``target``."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listing.split("\0")):
        source = root / name
        if not (name.startswith(SHIPPED) or name in SHIPPED_FILES) or not source.is_file():
            continue
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, destination, follow_symlinks=False)


def make_home(home: Path) -> None:
    """Make ``home`` a HOME for ansible-test, where its environments are kept; pip's settings are the user's.

    ansible-test passes no PIP_* variables on, so the user's configuration folders are linked.
    """
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for name in (".config", ".cache", ".pip"):
        theirs = Path.home() / name
        if theirs.exists() and not (home / name).is_symlink():
            (home / name).symlink_to(theirs)
    bootstrap = "import ensurepip\n\nensurepip.bootstrap(upgrade=True, default_pip=True)\n"
    (cache / "get_pip_24_2.py").write_text(bootstrap, encoding="utf-8")


def main() -> int:
    """Return the exit status of ansible-test."""
    layout = Layout.of_checkout()
    home = user_cache() / "ansible-test"
    make_home(home)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    env = layout.tool_environment(HOME=str(home))
    del env["ANSIBLE_CONFIG"]
    argv = [
        layout.tool("ansible-test"),
        "sanity",
        "--local",
        "--python",
        python,
        "--color",
        "no",
        *sys.argv[1:],
    ]
    with tempfile.TemporaryDirectory() as folder:
        collection = Path(folder) / "ansible_collections" / "nodesmith" / "cluster"
        copy_tree(layout.root, collection)
        return subprocess.run(argv, cwd=collection, env=env, check=False).returncode


if __name__ == "__main__":
    # ansible-test refuses files that others cannot read.
    os.umask(0o022)
    sys.exit(main())
