# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin: the module hpl_run, with a line that tells how far it is."""

from __future__ import annotations

from ansible_collections.nodesmith.cluster.plugins.plugin_utils._follow import FollowedAction


class ActionModule(FollowedAction):
    """Follows hpl_run, asking seldom: each question costs the benchmark some time of a core."""

    LONGEST_WAIT = 10.0
