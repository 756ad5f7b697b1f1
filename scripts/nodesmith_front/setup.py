"""``make setup``: from a bare Python to a checkout in which Ansible and, if wanted, the tests can run."""

from __future__ import annotations

from .collections import collections_are_whole, unpack_collections
from .environment import build_venv, venv_is_whole
from .layout import Layout
from .locking import exclusive
from .preflight import require_disk, require_venv_module

# GiB, rounded up from what a first run was seen to take.
CONTROLLER_GIB, DEV_GIB, CACHE_GIB = 1.0, 3.0, 2.0


def setup(layout: Layout, *, dev: bool = False) -> dict[str, int]:
    """Bring the virtual environment and the collections up to date. Raises Failure.

    Returns the number of parts in place after it (``ok``) and of those that it had to build (``changed``).
    """
    with exclusive(layout.root / "build" / "setup.lock", "setting up this checkout", wait=True):
        venv, collections = venv_is_whole(layout, dev=dev), collections_are_whole(layout)
        if not (venv and collections):
            require_venv_module()
            require_disk({layout.root: DEV_GIB if dev else CONTROLLER_GIB, layout.cache: CACHE_GIB})
        if not venv:
            build_venv(layout, dev=dev)
        if not collections:
            unpack_collections(layout)
    return {"ok": 2, "changed": (not venv) + (not collections)}
