"""What must be true of the machine before anything is changed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from .console import Failure

GIB = 1024**3


def require_venv_module() -> None:
    """Raise Failure when this Python cannot make a virtual environment with pip, as on a bare Debian."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(
            f"this Python lacks the module {' and '.join(missing)}: install it with "
            "`apt-get install python3-venv`, then run the same command again"
        )


def require_root() -> None:
    """Raise Failure unless we are root or ``sudo`` works without a password (Ansible's become uses it)."""
    if os.geteuid() == 0:
        return
    if shutil.which("sudo") is None:
        raise Failure(
            "not root, and there is no sudo: run this as root, or install sudo and allow it "
            "without a password"
        )
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0:
        raise Failure(
            "not root, and `sudo -n true` fails: run this as root, or allow sudo without a password "
            "(a NOPASSWD line in /etc/sudoers.d)"
        )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def require_disk(needs: Mapping[Path, float]) -> None:
    """Raise Failure when a file system has less room than is needed on it.

    ``needs`` maps a path, which need not exist yet, to GiB. Needs on the same file system add up.
    """
    per_device: dict[int, tuple[Path, float]] = {}
    for path, gib in needs.items():
        place = _existing(path)
        first, total = per_device.get(place.stat().st_dev, (place, 0.0))
        per_device[place.stat().st_dev] = (first, total + gib)
    for place, gib in per_device.values():
        free = shutil.disk_usage(place).free / GIB
        if free < gib:
            raise Failure(
                f"{place} has {free:.1f} GiB free and {gib:g} GiB are needed: free some space there, "
                "or put the cache elsewhere with XDG_CACHE_HOME"
            )


def require_commands(names: Iterable[str]) -> None:
    """Raise Failure when a command that the front door calls is not installed."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise Failure(
            f"missing on this machine: {', '.join(missing)}: install with the package manager, then run again"
        )
