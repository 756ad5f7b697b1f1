# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception of the HPL plugins, and the checks of values that people type."""

from __future__ import annotations

import math
from typing import Any


class HplError(Exception):
    """A plan, an HPL.dat or a result that cannot be right; the message names the value and the remedy."""


def as_number(name: str, value: Any) -> float:
    """Return ``value`` as a finite float; accepts the strings that ``-e name=value`` produces.

    Raises HplError for anything that is not a finite number (a boolean is not one).
    """
    if not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise HplError(f"{name} must be a number, not {value!r:.80}")


def as_positive(name: str, value: Any) -> float:
    """Return ``value`` as a float above zero, or raise HplError.

    The range 1e-9 to 1e18 keeps every product and quotient of two values finite.
    """
    number = as_number(name, value)
    if not 1e-9 <= number <= 1e18:
        raise HplError(f"{name} must be between 1e-9 and 1e18, not {value!r:.80}")
    return number


def as_count(name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` as an integer from ``least`` to 2**62, or raise HplError."""
    number = as_number(name, value)
    if number != int(number):
        raise HplError(f"{name} must be a whole number, not {value!r:.80}")
    # a byte count beyond 2**53 keeps its digits only as an integer
    count = value if isinstance(value, int) else int(number)
    if not least <= count <= 2**62:
        raise HplError(f"{name} must be between {least} and 2**62, not {value!r:.80}")
    return count


def gib(size: float) -> str:
    """Return ``size`` bytes as a person reads them, in GiB."""
    return f"{size / 2**30:.2f} GiB"


def mib(size: float) -> str:
    """Return ``size`` bytes as a person reads them, in MiB."""
    return f"{size / 2**20:.1f} MiB"
