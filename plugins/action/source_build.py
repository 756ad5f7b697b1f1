# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin: the module source_build, with a line that tells how far it is."""

from __future__ import annotations

from ansible_collections.nodesmith.cluster.plugins.plugin_utils._follow import FollowedAction


class ActionModule(FollowedAction):
    """Follows source_build."""
