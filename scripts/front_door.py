#!/usr/bin/env python3
"""Entry point of the Makefile: finds a Python that is new enough, then hands over to ``nodesmith_front``.

This file alone must run on an old Python (3.6), so that it can say what is wrong instead of failing with a
SyntaxError.
"""

import os
import shutil
import subprocess
import sys

MINIMUM = (3, 11)
CANDIDATES = ("python3.13", "python3.12", "python3.11")


def is_new_enough(path: str) -> bool:
    """Return whether the interpreter at ``path`` runs at all and is new enough."""
    check = f"import sys; sys.exit(sys.version_info < {MINIMUM})"
    quiet = subprocess.DEVNULL
    return subprocess.run([path, "-c", check], stdout=quiet, stderr=quiet, check=False).returncode == 0


def require_python(version: "tuple[int, ...]") -> None:
    """Return when ``version`` is new enough; else restart under a newer Python, or exit with one line."""
    if version[:2] >= MINIMUM:
        return
    for path in filter(None, map(shutil.which, CANDIDATES)):
        if is_new_enough(path):
            os.execv(path, [path, os.path.abspath(__file__), *sys.argv[1:]])  # noqa: S606
    found, wanted = (".".join(map(str, numbers[:2])) for numbers in (version, MINIMUM))
    sys.exit(
        f"nodesmith: Python {found} is too old, {wanted} or newer is needed: install python{wanted}, "
        f"or name one that you have: make PYTHON=/path/to/python{wanted}"
    )


def leave_own_environment() -> None:
    """Restart under the Python that made ``.venv`` when running from it: it may have to be built anew."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".venv")
    base = getattr(sys, "_base_executable", sys.executable)
    if os.path.realpath(sys.prefix) == os.path.realpath(own) and base != sys.executable:
        os.execv(base, [base, os.path.abspath(__file__), *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    require_python(tuple(sys.version_info[:3]))
    leave_own_environment()
    from nodesmith_front.cli import main

    sys.exit(main())
