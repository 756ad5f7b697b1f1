"""Packages, seen by the package manager itself."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["bc", "tree"])
def test_a_package_is_there_also_after_it_was_lost(host, name):
    assert host.package(name).is_installed
