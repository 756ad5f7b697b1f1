"""The Ansible collections that the roles use, unpacked from the PyPI package ``ansible``."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

from .console import Failure, say
from .layout import Layout
from .pip import run_pip

# library_inventory_filtering_v1 is there because community.docker imports it.
WANTED = (
    "ansible/posix",
    "community/crypto",
    "community/docker",
    "community/general",
    "community/library_inventory_filtering_v1",
    "community/postgresql",
)
STAMP = ".stamp"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch_wheel(layout: Layout, requirements: Path) -> Path:
    """Return the wheel that ``requirements`` pins, from the cache or downloaded into it. Raises Failure.

    A cached file counts only when its sha256 is one of the pinned ones, so a truncated one is fetched again.
    """
    pinned = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", requirements.read_text(encoding="utf-8")))

    def cached() -> Path | None:
        return next(
            (path for path in sorted(layout.downloads.glob("ansible-*.whl")) if _sha256(path) in pinned), None
        )

    wheel = cached()
    if wheel is None:
        layout.downloads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=layout.downloads) as folder:
            arguments = ["download", "--no-deps", "--require-hashes", "-d", folder, "-r", str(requirements)]
            run_pip(layout, layout.venv / "bin" / "python", arguments, layout.logs / "setup.log")
            for path in Path(folder).iterdir():
                path.replace(layout.downloads / path.name)
        wheel = cached()
    if wheel is None:
        raise Failure(f"{requirements.name} pins no wheel of the package ansible: restore the file from git")
    return wheel


def _key(layout: Layout) -> str:
    requirements = layout.root / "requirements" / "collections.txt"
    return hashlib.sha256(requirements.read_bytes() + "\n".join(WANTED).encode()).hexdigest()


def collections_are_whole(layout: Layout) -> bool:
    """Return whether the wanted collections of the pinned release are unpacked."""
    stamp = layout.bundle / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == _key(layout)


def unpack_collections(layout: Layout) -> None:
    """Unpack the wanted collections under ``.ansible/bundle``. Raises Failure.

    They are unpacked beside it and renamed when whole, so an interrupted run leaves no half of a collection.
    """
    say("setup: unpacking the Ansible collections")
    wheel = fetch_wheel(layout, layout.root / "requirements" / "collections.txt")
    layout.bundle.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.bundle.parent, prefix="bundle.") as folder:
        fresh = Path(folder) / "bundle"
        wanted = tuple(f"ansible_collections/{name}/" for name in WANTED)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(fresh, [name for name in archive.namelist() if name.startswith(wanted)])
        absent = [name for name in WANTED if not (fresh / "ansible_collections" / name).is_dir()]
        if absent:
            raise Failure(
                f"{wheel.name} lacks the collections {', '.join(absent)}: pin a release that has them"
            )
        (fresh / STAMP).write_text(_key(layout) + "\n", encoding="utf-8")
        if layout.bundle.exists():
            shutil.rmtree(layout.bundle)
        fresh.rename(layout.bundle)
