#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module: how far an asynchronous job of Ansible is, and the end of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job_progress
short_description: Tell how far an asynchronous job is, or end it
version_added: "0.1.0"
description:
  - Tells in one go whether a job that Ansible started asynchronously has finished, whether it still runs,
    and what it wrote to its progress file. Unlike M(ansible.builtin.async_status) it notices a job that was
    killed.
  - Has to run as the user that the job runs as.
options:
  job:
    description: The job's status file, C(results_file) in the result of the task that started it.
    type: path
    required: true
  progress:
    description: The JSON file that the job rewrites while it works.
    type: path
  state:
    description:
      - V(present) only reads.
      - V(absent) ends the job if it still runs, with everything it started, first with SIGTERM and after
        O(grace) with SIGKILL, and removes both files.
    type: str
    choices: [present, absent]
    default: present
  grace:
    description: Seconds that the job gets to end what it started itself.
    type: float
    default: 8
attributes:
  check_mode:
    description: Can run in check mode and return what it would change.
    support: full
  diff_mode:
    description: Returns details on what has changed.
    support: none
notes:
  - Reads C(/proc), as Linux has it.
author:
  - The nodesmith authors (@nodesmith)
"""

EXAMPLES = r"""
- name: Start a long job
  nodesmith.cluster.hpl_run:
    argv: [mpirun, xhpl]
  async: 86400
  poll: 0
  register: job

- name: Ask how far it is
  nodesmith.cluster.job_progress:
    job: "{{ job.results_file }}"
    progress: /var/lib/hpl/progress.json

- name: End it
  nodesmith.cluster.job_progress:
    job: "{{ job.results_file }}"
    state: absent
"""

RETURN = r"""
finished:
  description: Whether the job left its result.
  returned: success
  type: bool
  sample: false
alive:
  description: Whether the job's processes are there. A job that is neither alive nor finished was killed.
  returned: success
  type: bool
  sample: true
progress:
  description: What the progress file holds; null when it is not there, or holds no JSON object.
  returned: success
  type: dict
  sample: {phase: make, done: 123, total: 456, elapsed: 63, estimate: 168, line: "  CC  btl_tcp.lo"}
"""

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule


class Process(NamedTuple):
    """What names a process for good: its id, which is used again, and its start time."""

    pid: int
    start: int


def processes() -> dict[Process, tuple[int, int]]:
    """Return the parent and the process group of every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
                # the command's name, in parentheses, may hold anything; proc(5) counts what follows from 3
                fields = stream.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    found[Process(int(name), int(fields[19]))] = (int(fields[1]), int(fields[2]))
    return found


def with_children(family: set[Process], table: dict[Process, tuple[int, int]]) -> set[Process]:
    """Return those of ``family`` that are in ``table``, and all that descends from them."""
    family = family & table.keys()
    while True:
        parents = {process.pid for process in family}
        grown = family | {process for process, (parent, _group) in table.items() if parent in parents}
        if grown == family:
            return family
        family = grown


def job_processes(job: str) -> set[Process]:
    """Return the processes that the job ``job`` consists of; none when it has ended.

    async_wrapper names its status file NUMBER.PID and has NUMBER among its arguments, in the process that
    runs the module and in the one that watches it. The watcher is left out: it ends by itself and cleans up.
    The runner leads a process group, but the module is not in it when the watcher was slow to make it.
    """
    number = os.path.basename(job).partition(".")[0].encode()
    table = processes()
    named = set()
    for process in table:
        with suppress(OSError), open(f"/proc/{process.pid}/cmdline", "rb") as stream:
            if number in stream.read().split(b"\0"):
                named.add(process)
    watchers = {process.pid for process in named}
    runners = {
        process for process in named if process.pid == table[process][1] or table[process][0] in watchers
    }
    return with_children(runners, table)


def read_object(path: str) -> dict[str, Any] | None:
    """Return the JSON object in the file ``path``, or None when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            value = json.load(stream)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def end(family: set[Process], grace: float) -> None:
    """End processes and what descends from them: SIGTERM, and SIGKILL after ``grace`` seconds.

    Raises OSError when they may not be ended.
    """
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 1.0)):
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        limit = time.monotonic() + seconds
        while family and time.monotonic() < limit:
            time.sleep(0.05)
            family = with_children(family, processes())


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "path", "required": True},
            "progress": {"type": "path"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "grace": {"type": "float", "default": 8},
        },
        supports_check_mode=True,
    )
    job, progress = module.params["job"], module.params["progress"]
    files = [path for path in (job, progress) if path and os.path.lexists(path)]
    # looked for before the result is read: a job that ends in between is then finished, not killed
    family = job_processes(job)
    status = read_object(job)
    result = {
        "changed": False,
        "finished": status is not None and "started" not in status,
        "alive": bool(family),
        "progress": read_object(progress) if progress else None,
    }
    if module.params["state"] == "absent":
        result["changed"] = bool(family or files)
        if not module.check_mode:
            try:
                end(family, module.params["grace"])
                for path in files:
                    with suppress(FileNotFoundError):
                        os.remove(path)
            except OSError as error:
                module.fail_json(msg=f"cannot end the job of {job}: {error}; run this as the job's user")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
