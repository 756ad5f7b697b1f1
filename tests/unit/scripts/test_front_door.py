from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import front_door
import pytest

ROOT = Path(__file__).resolve().parents[3]


def fake_interpreter(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_entry_point_parses_on_an_old_python():
    ast.parse((ROOT / "scripts" / "front_door.py").read_text(), feature_version=(3, 6))


def test_an_old_python_gives_one_line_with_version_and_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        front_door.require_python((3, 9, 2))
    message = str(stop.value)
    assert "Python 3.9 is too old, 3.11 or newer" in message
    assert "make PYTHON=" in message
    assert "\n" not in message


def test_an_old_python_hands_over_to_the_first_newer_one_that_runs(monkeypatch, tmp_path):
    fake_interpreter(tmp_path, "python3.13", "exit 127")
    good = fake_interpreter(tmp_path, "python3.12", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["front_door.py", "up"])
    calls = []
    monkeypatch.setattr(os, "execv", lambda path, argv: calls.append((path, argv)) or sys.exit(0))
    with pytest.raises(SystemExit):
        front_door.require_python((3, 9, 2))
    assert calls == [(str(good), [str(good), str(ROOT / "scripts" / "front_door.py"), "up"])]


def test_the_supported_python_goes_on():
    front_door.require_python((3, 11, 0))


def test_make_without_a_goal_lists_every_goal():
    make = shutil.which("make")
    assert make
    lines = subprocess.run(
        [make, "-s", f"PYTHON={sys.executable}"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["up", "down", "test", "test-all", "lint", "lock", "setup"]
    assert all(len(line.split()) > 2 for line in lines)
