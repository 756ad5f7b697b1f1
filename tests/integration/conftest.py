"""What the integration tests share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that ``make test`` leaves out and ``make test-all`` runs."""
    config.addinivalue_line("markers", "long: takes too long for `make test`; `make test-all` runs it")
