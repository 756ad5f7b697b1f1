"""Setup with a real venv and a real pip, on requirements small enough for a unit test."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest
from nodesmith_front.collections import WANTED, collections_are_whole
from nodesmith_front.console import Failure
from nodesmith_front.environment import STAMP, venv_is_whole
from nodesmith_front.layout import Layout
from nodesmith_front.locking import exclusive
from nodesmith_front.pip import explain
from nodesmith_front.setup import setup


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> str:
    """Write a wheel by hand; return its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{entry},,\n" for entry in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(entry, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pin(path: Path, name: str, version: str, sha256: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")


def make_layout(folder: Path) -> Layout:
    root, wheels = folder / "checkout", folder / "wheels"
    sha256 = make_wheel(wheels, "tinytool", "1.0", {"tinytool.py": "ANSWER = 42\n"})
    pin(root / "requirements" / "controller.txt", "tinytool", "1.0", sha256)
    files = {f"ansible_collections/{name}/README.md": name for name in (*WANTED, "cisco/ios")}
    pin(
        root / "requirements" / "collections.txt",
        "ansible",
        "1.0",
        make_wheel(wheels, "ansible", "1.0", files),
    )
    return Layout(root=root, cache=folder / "cache")


def point_pip_at(patch: pytest.MonkeyPatch, wheels: Path) -> None:
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(wheels))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A checkout that ``setup`` was run in once; tests leave it whole."""
    folder = tmp_path_factory.mktemp("built")
    layout = make_layout(folder)
    with pytest.MonkeyPatch.context() as patch:
        point_pip_at(patch, folder / "wheels")
        assert setup(layout) == {"ok": 2, "changed": 2}
        yield layout


def answer(layout: Layout) -> str:
    argv = [layout.tool("python"), "-c", "import tinytool; print(tinytool.ANSWER)"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_setup_installs_the_lock_and_unpacks_only_the_wanted_collections(built):
    assert answer(built) == "42"
    unpacked = built.bundle / "ansible_collections"
    assert {str(path.parent.relative_to(unpacked)) for path in unpacked.rglob("README.md")} == set(WANTED)


def test_a_second_setup_changes_nothing(built):
    assert setup(built) == {"ok": 2, "changed": 0}


def test_a_half_finished_venv_is_built_anew(built):
    # What a killed run leaves: pip has not finished, so there is no stamp.
    (built.venv / STAMP).unlink()
    next(built.venv.glob("lib/python*/site-packages")).joinpath("tinytool.py").unlink()
    (built.venv / "leftover").touch()
    assert setup(built) == {"ok": 2, "changed": 1}
    assert answer(built) == "42"
    assert not (built.venv / "leftover").exists()


def test_a_changed_lock_file_makes_the_venv_stale(built):
    lock = built.root / "requirements" / "controller.txt"
    text = lock.read_text()
    assert venv_is_whole(built, dev=False)
    lock.write_text(text + "# newer\n")
    assert not venv_is_whole(built, dev=False)
    lock.write_text(text)
    assert venv_is_whole(built, dev=False)


def test_a_venv_whose_interpreter_is_gone_is_not_whole(built):
    python = built.venv / "bin" / "python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/nonexistent/python")
    assert not venv_is_whole(built, dev=False)
    python.unlink()
    python.symlink_to(target)
    assert venv_is_whole(built, dev=False)


def test_a_venv_without_the_test_tools_is_not_one_for_tests(built):
    for path in (built.root / "requirements" / "dev.txt", built.root / "models" / "requirements-torch.txt"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert not venv_is_whole(built, dev=True)


def test_a_damaged_cached_wheel_is_fetched_again(built):
    wheel = next(built.downloads.glob("*.whl"))
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[:100])
    shutil.rmtree(built.bundle)
    assert setup(built) == {"ok": 2, "changed": 1}
    assert wheel.read_bytes() == whole
    assert collections_are_whole(built)


def test_a_cached_wheel_needs_no_index(built, monkeypatch):
    shutil.rmtree(built.bundle)
    monkeypatch.setenv("PIP_FIND_LINKS", "/nonexistent")
    assert setup(built) == {"ok": 2, "changed": 1}


def test_no_network_and_a_wrong_download_give_one_line_each_and_the_next_run_recovers(tmp_path, monkeypatch):
    layout = make_layout(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(
        Failure, match=r"index cannot be reached: check the network.*log: build/logs"
    ) as failure:
        setup(layout)
    assert "\n" not in str(failure.value)

    point_pip_at(monkeypatch, tmp_path / "wheels")
    lock = layout.root / "requirements" / "controller.txt"
    good = lock.read_text()
    pin(lock, "tinytool", "1.0", "0" * 64)
    with pytest.raises(Failure, match="does not match its sha256 in the lock file") as failure:
        setup(layout)
    assert "\n" not in str(failure.value)

    lock.write_text(good)
    assert setup(layout) == {"ok": 2, "changed": 2}
    assert answer(layout) == "42"


def test_a_nearly_full_disk_stops_setup_before_anything_is_made(tmp_path, monkeypatch):
    layout = make_layout(tmp_path)
    usage = namedtuple("Usage", "total used free")(0, 0, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Failure, match=r"0\.0 GiB free"):
        setup(layout)
    assert not layout.venv.exists()


def test_a_second_run_on_the_same_lab_is_refused(tmp_path):
    path = tmp_path / "lab.lock"
    scripts = Path(__file__).resolve().parents[3] / "scripts"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(scripts)!r})\n"
            "from pathlib import Path\n"
            "from nodesmith_front.locking import exclusive\n"
            f"with exclusive(Path({str(path)!r}), 'lab', wait=False):\n"
            "    print('held', flush=True)\n"
            "    sys.stdin.read()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(Failure, match="another run is busy with lab x"),
            exclusive(path, "lab x", wait=False),
        ):
            pass
        holder.stdin.close()
    with exclusive(path, "lab x", wait=False):
        pass


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for torch==2.13.0", "no release of torch==2.13.0 fits"),
        ("SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED", "certificate is not trusted"),
        ("noise\nERROR: Something new", "ERROR: Something new"),
    ],
)
def test_pip_failures_are_explained(output, expected):
    assert expected in explain(output)
