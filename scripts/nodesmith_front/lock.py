"""``make lock``: exact versions and hashes of all requirements, for every supported Python."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .console import Failure, say
from .layout import Layout
from .pip import run_pip
from .preflight import require_venv_module
from .process import last_lines, run_logged

# The later files take the versions of the earlier ones, so that tests run with what users get.
LOCKS = ("requirements/controller", "models/requirements", "requirements/dev")


def lock(layout: Layout) -> int:
    """Write the lock file of each ``.in`` file. A version stays as it is while the ``.in`` file allows it.

    The resolver lives in a throw-away environment: nothing else needs it.
    """
    require_venv_module()
    log = layout.logs / "lock.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        env = layout.tool_environment()
        if run_logged([sys.executable, "-m", "venv", folder], log, cwd=layout.root, env=env):
            raise Failure(f"`{sys.executable} -m venv` failed (log: {layout.show(log)})")
        run_pip(layout, Path(folder) / "bin" / "python", ["install", "uv"], log)
        options = ["--universal", "--python-version", "3.11", "--generate-hashes"]
        options += ["--no-annotate", "--no-header", "--quiet"]
        constraints: list[str] = []
        for name in LOCKS:
            say(f"lock: {name}.txt")
            argv = [
                f"{folder}/bin/uv",
                "pip",
                "compile",
                *options,
                *constraints,
                f"{name}.in",
                "-o",
                f"{name}.txt",
            ]
            if run_logged(argv, log, cwd=layout.root, env=env, append=True):
                detail = " ".join(last_lines(log, 3))
                raise Failure(f"{name}.in cannot be resolved: {detail} (log: {layout.show(log)})")
            constraints += ["-c", f"{name}.txt"]
    return 0
