# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How OpenBLAS is built, as a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.nodesmith.cluster.plugins.module_utils._openblas import (
    OpenblasError,
    openblas_options,
)


def options(microarchitecture: str | None, **settings: Any) -> dict[str, Any]:
    """Return target and make_options for the module source_build."""
    try:
        return openblas_options(microarchitecture, **settings)
    except OpenblasError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by name."""
        return {"openblas_options": options}
