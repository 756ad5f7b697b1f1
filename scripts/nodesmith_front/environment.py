"""The virtual environment, built from locked requirements."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from .console import Failure, say
from .layout import Layout
from .pip import run_pip
from .process import run_logged

STAMP = "nodesmith-stamp.json"


def _digest(layout: Layout, *locks: Path) -> str:
    # The folder and the interpreter belong to the key: a venv cannot be moved, nor survive another Python.
    key = hashlib.sha256(f"{sys.version}\0{sys.base_prefix}\0{layout.venv}".encode())
    for lock in locks:
        key.update(lock.read_bytes())
    return key.hexdigest()


def _wanted(layout: Layout, dev: bool) -> dict[str, str]:
    wanted = {"controller": _digest(layout, layout.root / "requirements" / "controller.txt")}
    if dev:
        wanted["dev"] = _digest(
            layout,
            layout.root / "requirements" / "dev.txt",
            layout.root / "models" / "requirements-torch.txt",
        )
    return wanted


def venv_is_whole(layout: Layout, *, dev: bool) -> bool:
    """Return whether ``.venv`` is complete, made from the present lock files and still runs."""
    wanted = _wanted(layout, dev)
    try:
        stamp = json.loads((layout.venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(stamp, dict) or any(stamp.get(key) != value for key, value in wanted.items()):
        return False
    try:
        return (
            subprocess.run([layout.tool("python"), "-c", ""], capture_output=True, check=False).returncode
            == 0
        )
    except OSError:
        return False


def build_venv(layout: Layout, *, dev: bool) -> None:
    """Build ``.venv`` from the lock files, from nothing.

    The stamp is written last, so a venv that an interrupted run left behind is built anew. With ``dev`` the
    tools of ``make lint`` and ``make test`` are in it too; such a venv also serves without ``dev``. Raises
    Failure.
    """
    log = layout.logs / "setup.log"
    say(f"setup: building .venv for {'tests' if dev else 'the controller'} (log: {layout.show(log)})")
    if layout.venv.is_symlink() or layout.venv.is_file():
        layout.venv.unlink()
    elif layout.venv.exists():
        shutil.rmtree(layout.venv)
    log.unlink(missing_ok=True)
    if run_logged(
        [sys.executable, "-m", "venv", str(layout.venv)], log, cwd=layout.root, env=layout.tool_environment()
    ):
        raise Failure(
            f"`{sys.executable} -m venv` failed: on Debian and Ubuntu `apt-get install python3-venv` brings "
            f"what it needs (log: {layout.show(log)})"
        )
    python = layout.venv / "bin" / "python"
    install = ["install", "--require-hashes", "--no-compile", "-r"]
    run_pip(
        layout,
        python,
        [*install, str(layout.root / "requirements" / ("dev.txt" if dev else "controller.txt"))],
        log,
    )
    if dev:
        torch = str(layout.root / "models" / "requirements-torch.txt")
        run_pip(
            layout, python, ["install", "--require-hashes", "--no-compile", "--no-deps", "-r", torch], log
        )
    # pip compiles one file after another, this on every core. Without compiled files each of the hundreds
    # of processes of a play would read Ansible's sources anew.
    run_logged(
        [str(python), "-m", "compileall", "-q", "-j", "0", str(layout.venv / "lib")],
        log,
        cwd=layout.root,
        env=layout.tool_environment(),
        append=True,
    )
    (layout.venv / STAMP).write_text(json.dumps(_wanted(layout, dev)) + "\n", encoding="utf-8")
