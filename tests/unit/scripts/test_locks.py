"""The lock files fit together: tests run with the versions that users and nodes get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def pins(name: str) -> set[str]:
    text = (ROOT / name).read_text()
    return set(re.findall(r"^[a-z0-9._-]+==[^\s\\]+(?: ;[^\\]+?)?(?= \\?$)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["requirements/controller.txt", "models/requirements.txt"])
def test_the_tests_run_with_the_locked_versions(name):
    assert pins(name)
    assert {pin.split(" ;")[0] for pin in pins(name)} <= {
        pin.split(" ;")[0] for pin in pins("requirements/dev.txt")
    }


@pytest.mark.parametrize(
    "path", [*ROOT.glob("requirements/*.txt"), *ROOT.glob("models/requirements*.txt")], ids=str
)
def test_every_pin_has_a_hash_and_no_index(path):
    text = path.read_text()
    requirements = [block for block in re.split(r"(?<!\\)\n", text) if block and not block.startswith("#")]
    assert requirements
    assert all("==" in block and "--hash=sha256:" in block for block in requirements)
    assert "--index-url" not in text
    assert "--extra-index-url" not in text
