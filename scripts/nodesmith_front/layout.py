"""Where the front door finds and puts things."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def user_cache() -> Path:
    """Return nodesmith's folder in the user's cache, for downloads and wheels that outlive a checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "nodesmith"


@dataclass(frozen=True)
class Layout:
    """The paths of one checkout."""

    root: Path
    cache: Path

    @classmethod
    def of_checkout(cls) -> Layout:
        """Return the layout of the checkout that this file lies in."""
        return cls(root=Path(__file__).resolve().parents[2], cache=user_cache())

    @property
    def venv(self) -> Path:
        """The virtual environment of the controller."""
        return self.root / ".venv"

    @property
    def bundle(self) -> Path:
        """The unpacked collections."""
        return self.root / ".ansible" / "bundle"

    @property
    def logs(self) -> Path:
        """One log file per stage."""
        return self.root / "build" / "logs"

    @property
    def downloads(self) -> Path:
        """Content-keyed downloads, safe to delete at any time."""
        return self.cache / "downloads"

    def tool(self, name: str) -> str:
        """Return the path of a command in the virtual environment."""
        return str(self.venv / "bin" / name)

    def show(self, path: Path) -> str:
        """Return ``path`` as a person in the checkout would type it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def tool_environment(self, **extra: str) -> dict[str, str]:
        """Return the environment for tools of the venv: its PATH first, UTF-8, our ansible.cfg.

        ansible.cfg is named because Ansible ignores the one of a world-writable folder.
        """
        env = dict(os.environ)
        env.pop("PYTHONHOME", None)
        env["PATH"] = f"{self.venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
        env["VIRTUAL_ENV"] = str(self.venv)
        env["LC_ALL"] = "C.UTF-8"
        env["ANSIBLE_CONFIG"] = str(self.root / "ansible.cfg")
        return env | extra
