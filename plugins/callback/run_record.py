# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback plugin: what a playbook run did and what ended it, as JSON."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_record
type: aggregate
short_description: Write what a playbook run did, and what ended it, to a JSON file
version_added: 0.1.0
author:
  - The nodesmith authors (@nodesmith)
description:
  - At the end of a playbook run writes one JSON object with the keys C(playbook), C(seconds), C(hosts),
    C(plays), C(slowest_tasks) and C(failures).
  - C(hosts) maps a host to the number of tasks that were C(ok), C(changed), C(failed), C(unreachable) and
    C(skipped).
  - C(plays) and C(slowest_tasks) are lists with C(name) and C(seconds); a task also has its C(role) and
    C(play).
  - C(failures) is a list with C(host), C(task), C(role), C(message) and C(unreachable). Failures that were
    ignored, or rescued with the host carrying on, are not in it. The message of a task with C(no_log) is the
    censoring note.
  - Module arguments and other results are never written.
  - The file is replaced as a whole, so a reader never sees half of it. A run that ends before its first
    play, for example on a syntax error, writes nothing.
  - Does nothing while no path is set.
requirements:
  - enabled in the configuration (C(callbacks_enabled))
options:
  path:
    description:
      - File to write. Missing parent folders are created.
    type: path
    env:
      - name: NODESMITH_RUN_RECORD
    ini:
      - section: callback_run_record
        key: path
  slowest_count:
    description:
      - How many of the slowest tasks to list.
    type: int
    default: 10
    env:
      - name: NODESMITH_RUN_RECORD_SLOWEST
    ini:
      - section: callback_run_record
        key: slowest_count
"""

EXAMPLES = r"""
ansible_cfg: |
  # Enable it in ansible.cfg, then:
  # NODESMITH_RUN_RECORD=build/site.json ansible-playbook playbooks/site.yml
  [defaults]
  callbacks_enabled = nodesmith.cluster.run_record
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase


def failure_message(result: Mapping[str, Any]) -> str:
    """Return why a task failed, from its result: the first failed item's reason for a loop.

    A censored result has nothing but its note, which is then the message.
    """
    if "censored" in result:
        return str(result["censored"])
    for item in result.get("results") or []:
        if isinstance(item, Mapping) and (item.get("failed") or item.get("unreachable")):
            return failure_message(item)
    for key in ("msg", "stderr", "module_stderr", "reason", "stdout"):
        if result.get(key):
            return str(result[key]).strip()
    return f"failed with rc={result['rc']}" if "rc" in result else "failed without a message"


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Write a JSON file by rename, so that a reader sees the old one or the new one. Raises OSError."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as stream:
        json.dump(value, stream, indent=2)
        stream.write("\n")
    os.replace(stream.name, path)


class CallbackModule(CallbackBase):
    """Collects counts, times and failures during a run and writes them when it ends."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "nodesmith.cluster.run_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()
        self._playbook = ""
        self._plays: list[dict[str, Any]] = []
        self._tasks: dict[str, dict[str, Any]] = {}
        self._failures: list[dict[str, Any]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Note the playbook's name."""
        self._playbook = os.path.basename(playbook._file_name)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Start the clock of a play."""
        self._end_play()
        self._plays.append({"name": play.get_name().strip(), "start": time.monotonic()})

    def _end_play(self) -> None:
        if self._plays and "seconds" not in self._plays[-1]:
            self._plays[-1]["seconds"] = round(time.monotonic() - self._plays[-1].pop("start"), 2)

    def _start_task(self, task: Any) -> None:
        # With the strategy `free` a task starts once per host: its first start counts.
        now = time.monotonic()
        self._tasks.setdefault(
            task._uuid,
            {
                "name": task.get_name().strip(),
                "role": task._role.get_name() if task._role else None,
                "play": self._plays[-1]["name"] if self._plays else "",
                "start": now,
                "end": now,
            },
        )

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Start the clock of a task."""
        self._start_task(task)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Start the clock of a handler."""
        self._start_task(task)

    def _end_task(self, result: Any) -> None:
        task = self._tasks.get(result.task._uuid)
        if task:
            task["end"] = time.monotonic()

    def _add_failure(self, result: Any, unreachable: bool) -> None:
        role = result.task._role
        self._failures.append(
            {
                "host": result.host.get_name(),
                "task": result.task_name.strip(),
                "role": role.get_name() if role else None,
                "message": failure_message(result.result),
                "unreachable": unreachable,
            }
        )

    def v2_runner_on_ok(self, result: Any) -> None:
        """Stop the clock of a task on one host."""
        self._end_task(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Stop the clock of a task on one host."""
        self._end_task(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a failure that was not ignored."""
        self._end_task(result)
        if not ignore_errors:
            self._add_failure(result, unreachable=False)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that could not be reached."""
        self._end_task(result)
        self._add_failure(result, unreachable=True)

    def _slowest(self, count: int) -> list[dict[str, Any]]:
        timed = [
            {
                "name": task["name"],
                "role": task["role"],
                "play": task["play"],
                "seconds": round(task["end"] - task["start"], 2),
            }
            for task in self._tasks.values()
        ]
        return sorted(timed, key=lambda task: -task["seconds"])[:count]

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the record, or warn when that is not possible: a run does not fail for its record."""
        path = self.get_option("path")
        if not path:
            return
        self._end_play()
        hosts = {}
        for host in sorted(stats.processed):
            counts = stats.summarize(host)
            hosts[host] = {key: counts[key] for key in ("ok", "changed", "unreachable", "skipped")}
            hosts[host]["failed"] = counts["failures"]
        ended = {host for host, counts in hosts.items() if counts["failed"] or counts["unreachable"]}
        record = {
            "playbook": self._playbook,
            "seconds": round(time.monotonic() - self._start, 2),
            "hosts": hosts,
            "plays": self._plays,
            "slowest_tasks": self._slowest(self.get_option("slowest_count")),
            "failures": [failure for failure in self._failures if failure["host"] in ended],
        }
        try:
            write_json(path, record)
        except OSError as error:
            self._display.warning(
                f"run_record: cannot write {path}: {error.strerror}; set NODESMITH_RUN_RECORD elsewhere"
            )
