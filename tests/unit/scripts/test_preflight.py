from __future__ import annotations

import importlib.util
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from nodesmith_front import preflight
from nodesmith_front.console import Failure

Usage = namedtuple("Usage", "total used free")


def test_a_python_without_ensurepip_is_told_the_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    with pytest.raises(Failure, match=r"lacks the module ensurepip: .*apt-get install python3-venv"):
        preflight.require_venv_module()


def test_this_python_has_the_modules():
    preflight.require_venv_module()


def as_user_with_sudo(monkeypatch, folder: Path, body: str | None) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(folder))
    if body is not None:
        (folder / "sudo").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "sudo").chmod(0o755)


def test_no_root_and_no_sudo(monkeypatch, tmp_path):
    as_user_with_sudo(monkeypatch, tmp_path, None)
    with pytest.raises(Failure, match="not root, and there is no sudo: run this as root"):
        preflight.require_root()


def test_no_root_and_a_sudo_that_wants_a_password(monkeypatch, tmp_path):
    as_user_with_sudo(monkeypatch, tmp_path, "echo 'a password is required' >&2; exit 1")
    with pytest.raises(Failure, match=r"`sudo -n true` fails: .*NOPASSWD"):
        preflight.require_root()


def test_no_root_and_a_sudo_that_works(monkeypatch, tmp_path):
    as_user_with_sudo(monkeypatch, tmp_path, '[ "$1 $2" = "-n true" ]')
    preflight.require_root()


def test_a_nearly_full_disk_names_place_and_sizes(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, int(0.5 * preflight.GIB)))
    with pytest.raises(Failure, match=r"has 0\.5 GiB free and 2 GiB are needed: free some space"):
        preflight.require_disk({tmp_path / "not" / "there" / "yet": 2})


def test_needs_on_one_file_system_add_up(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 3 * preflight.GIB))
    preflight.require_disk({tmp_path / "a": 2})
    with pytest.raises(Failure, match="4 GiB are needed"):
        preflight.require_disk({tmp_path / "a": 2, tmp_path / "b": 2})
