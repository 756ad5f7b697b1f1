# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels for other machines: which tags fit a node, and pip run so that its failures say what to do."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""The names that some glibc minor versions had before PEP 600."""

_REMEDIES = (
    ("No module named pip", "Install pip for that Python: {python} -m ensurepip."),
    (
        "DO NOT MATCH THE HASHES",
        "The file is not the one that was pinned. Delete it where it lies in a folder of yours; "
        "put its hash into the requirements only if you know that it is right.",
    ),
    ("--require-hashes mode", "Pin each package as NAME==VERSION --hash=sha256:HASH."),
    ("No space left on device", "Make room on this machine's disk."),
    (
        "BackendUnavailable",
        "Install the project's build backend for that Python: {python} -m pip install flit_core.",
    ),
    ("[end of output]", "The project cannot be built: see pip wheel --no-build-isolation in its folder."),
    (
        "No matching distribution",
        "Is there a wheel of that version for the node's Python and architecture, and does this machine "
        "reach a package index (PIP_INDEX_URL, PIP_FIND_LINKS)?",
    ),
)


class WheelError(RuntimeError):
    """What was asked for could not be brought; the message has pip's own last error and the remedy."""


def manylinux_platforms(machine: str, glibc: str) -> list[str]:
    """Return the platform tags of wheels that run on ``machine`` with that glibc, best first (PEP 600).

    >>> manylinux_platforms("x86_64", "2.36")[0]
    'manylinux_2_36_x86_64'

    :raises WheelError: a glibc that is not 2.x, or older than any wheel asks for
    """
    # manylinux1 was for Intel only; all other architectures begin with manylinux2014
    oldest = 5 if machine in ("x86_64", "i686") else 17
    # vendors add to the version: 2.20-2014.11
    version = re.match(r"2\.(\d+)", glibc)
    if version is None or int(version.group(1)) < oldest:
        raise WheelError(
            f"the node's C library is {glibc or 'unknown'}: wheels for {machine} need glibc 2.{oldest} or "
            "newer"
        )
    platforms = []
    for minor in range(int(version.group(1)), oldest - 1, -1):
        platforms.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY:
            platforms.append(f"{_LEGACY[minor]}_{machine}")
    return [*platforms, f"linux_{machine}"]


def tree_digest(root: Path) -> str:
    """Return the SHA-256 over names and contents of the files below ``root``.

    Compiled Python and what lies under a hidden name are left out.
    """
    digest = hashlib.sha256()
    for path in sorted(root.glob("**/*")):
        name = path.relative_to(root)
        if not path.is_file() or any(part == "__pycache__" or part.startswith(".") for part in name.parts):
            continue
        content = path.read_bytes()
        digest.update(os.fsencode(name) + b"\0%d\0" % len(content) + content)
    return digest.hexdigest()


def pip(*arguments: str) -> None:
    """Run pip of this Python.

    :raises WheelError: pip failed
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        remedy = next(
            (text for sign, text in _REMEDIES if sign in result.stderr),
            "Does this machine reach a package index (PIP_INDEX_URL, PIP_FIND_LINKS)?",
        ).format(python=sys.executable)
        raise WheelError(f"pip {arguments[0]} failed: {_last_words(result.stderr)} {remedy}")


def _last_words(stderr: str) -> str:
    """Return what pip, or the build backend that it ran, said of its failure, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip(" ^")]
    if "[end of output]" in lines:
        # pip's own lines around a backend's output say nothing but that there is one
        end = lines.index("[end of output]")
        chosen = lines[max(0, end - 3) : end]
    else:
        # what follows the first error belongs to it, such as the hashes that differ
        chosen = lines[next((number for number, line in enumerate(lines) if "ERROR" in line), -3) :]
    return " ".join(chosen)[-1500:]
