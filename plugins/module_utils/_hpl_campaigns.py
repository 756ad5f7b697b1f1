# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of results on the controller: one folder per campaign, named by its time and its plan's key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ._hpl_values import HplError


def finished(results_dir: str, key: str) -> list[dict[str, Any]]:
    """Return the campaigns of the plan with ``key`` that came to an end, oldest first.

    :returns: dicts with ``path`` (of the campaign's folder) and ``report`` (the dict of its report.json)

    :returns: dicts with ``path`` (of the campaign's folder) and ``report`` (what its report.json holds)
    :raises HplError: a report.json that is no JSON object
    """
    campaigns = []
    for path in sorted(Path(results_dir).glob(f"*-{key}/report.json")):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise HplError(f"{path} cannot be read ({error}): remove its folder and run again") from error
        if not isinstance(report, dict):
            raise HplError(f"{path} holds no JSON object: remove its folder and run again")
        campaigns.append({"path": str(path.parent), "report": report})
    return campaigns
