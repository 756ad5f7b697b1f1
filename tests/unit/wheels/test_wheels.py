"""Wheel tags against the packaging library, and the digest of a tree."""

from __future__ import annotations

import os
import platform
import subprocess

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _wheels
from ansible_collections.nodesmith.cluster.plugins.module_utils._wheels import (
    WheelError,
    manylinux_platforms,
    pip,
    tree_digest,
)
from hypothesis import given
from hypothesis import strategies as st
from packaging import _manylinux, tags


def test_this_machine_as_packaging_sees_it():
    ours = manylinux_platforms(platform.machine(), platform.libc_ver()[1])
    theirs = list(tags.platform_tags())
    assert set(ours) == set(theirs)
    # versions of packaging differ in where linux_* stands
    assert ours[:-1] == [tag for tag in theirs if tag.startswith("manylinux")]


@pytest.mark.parametrize("machine", ["x86_64", "i686", "aarch64", "ppc64le", "s390x"])
@pytest.mark.parametrize("minor", [17, 28, 36, 41])
def test_other_machines_as_packaging_sees_them(monkeypatch, machine, minor):
    monkeypatch.setattr(_manylinux, "_get_glibc_version", lambda: (2, minor))
    monkeypatch.setattr(_manylinux, "_have_compatible_abi", lambda executable, archs: True)
    theirs = list(_manylinux.platform_tags([machine]))
    assert manylinux_platforms(machine, f"2.{minor}") == [*theirs, f"linux_{machine}"]


@given(minor=st.integers(18, 60))
def test_a_newer_glibc_takes_every_older_ones_wheels(minor):
    assert set(manylinux_platforms("x86_64", f"2.{minor - 1}")) < set(
        manylinux_platforms("x86_64", f"2.{minor}")
    )


def test_a_vendors_version():
    assert manylinux_platforms("aarch64", "2.20-2014.11") == manylinux_platforms("aarch64", "2.20")


@pytest.mark.parametrize("glibc", ["", "1.2", "2", "2.x", "3.0", "2.4"])
def test_no_glibc(glibc):
    with pytest.raises(
        WheelError, match=rf"C library is {glibc or 'unknown'}: wheels for x86_64 need glibc 2\.5"
    ):
        manylinux_platforms("x86_64", glibc)
    with pytest.raises(WheelError, match=r"wheels for aarch64 need glibc 2\.17"):
        manylinux_platforms("aarch64", "2.12")


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "__pycache__" / "project"
    (root / "package").mkdir(parents=True)
    (root / "package" / "a.py").write_text("a")
    (root / "b.txt").write_text("b")
    return root


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "b.txt").write_text("c"),
        lambda root: (root / "b.txt").rename(root / "c.txt"),
        lambda root: (root / "new").write_text(""),
        lambda root: (root / "package" / "a.py").unlink(),
        lambda root: (root / "b.txt").rename(root / "package" / "b.txt"),
        lambda root: (root / os.fsdecode(b"\xff")).write_text(""),
    ],
)
def test_digest_changes(tree, change):
    before = tree_digest(tree)
    change(tree)
    assert tree_digest(tree) != before


def test_digest_stays(tree, tmp_path):
    before = tree_digest(tree)
    (tree / "package" / "__pycache__").mkdir()
    (tree / "package" / "__pycache__" / "a.pyc").write_text("x")
    (tree / ".git").mkdir()
    (tree / ".git" / "HEAD").write_text("x")
    (tree / ".hidden").write_text("x")
    os.utime(tree / "b.txt", (1, 1))
    assert tree_digest(tree) == before
    elsewhere = tmp_path / "elsewhere"
    tree.rename(elsewhere)
    assert tree_digest(elsewhere) == before


def test_digest_tells_where_a_file_ends(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "a").write_bytes(b"b\0")
    (two / "a").write_bytes(b"")
    (two / "b").write_bytes(b"")
    assert tree_digest(one) != tree_digest(two)


def test_pip_that_is_not_there(monkeypatch):
    real = subprocess.run
    # a Python without its site-packages
    monkeypatch.setattr(
        _wheels.subprocess,
        "run",
        lambda command, **options: real([command[0], "-I", "-S", *command[1:]], **options),
    )
    with pytest.raises(WheelError, match=r"No module named pip.*-m ensurepip"):
        pip("download", "x")
