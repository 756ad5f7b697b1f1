# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels for other machines: which tags fit a node, and pip run so that its failures say what to do."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

OLDEST_GLIBC_MINOR = 5
"""manylinux1's glibc is 2.5: no wheel asks for an older one."""


class WheelError(RuntimeError):
    """pip could not bring what was asked for; the message has pip's own last error and the remedy."""


def manylinux_platforms(machine: str, glibc: str) -> list[str]:
    """Return the platform tags of wheels that run on ``machine`` with that glibc, newest first (PEP 600).

    >>> manylinux_platforms("x86_64", "2.36")[0]
    'manylinux_2_36_x86_64'

    :raises WheelError: a glibc that is not 2.x
    """
    major, _dot, minor = glibc.partition(".")
    if major != "2" or not minor.isdigit() or int(minor) < OLDEST_GLIBC_MINOR:
        raise WheelError(f"the node's C library is {glibc or 'unknown'}: wheels need glibc 2.{OLDEST_GLIBC_MINOR} or newer")
    platforms = [f"manylinux_2_{number}_{machine}" for number in range(int(minor), OLDEST_GLIBC_MINOR - 1, -1)]
    if int(minor) >= 17:
        platforms.append(f"manylinux2014_{machine}")
    return [*platforms, f"linux_{machine}"]


def tree_digest(root: Path, pattern: str = "**/*") -> str:
    """Return the SHA-256 over names and contents of the files below ``root``, compiled Python left out."""
    digest = hashlib.sha256()
    for path in sorted(root.glob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts and not any(p.startswith(".") for p in path.relative_to(root).parts):
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def pip(*arguments: str) -> None:
    """Run pip of this Python.

    :raises WheelError: pip failed
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "ERROR" in line] or result.stderr.splitlines()[-3:]
        raise WheelError(
            f"pip {arguments[0]} failed: {' '.join(errors)[-1500:]} Does this machine reach a package index or mirror "
            "(PIP_INDEX_URL, PIP_FIND_LINKS), and is there room on its disk?"
        )
