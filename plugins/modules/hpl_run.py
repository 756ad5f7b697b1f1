#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module: run HPL and judge its result."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hpl_run
short_description: Run High Performance Linpack and judge its result
version_added: "0.1.0"
description:
  - Runs a command, normally C(mpirun) with C(xhpl), in a session of its own, and ends everything it started
    when the time is over or the task is interrupted.
  - Fails, with the reason, when a residual failed or is not a number, a test was skipped, the output is cut
    short, or the launcher failed. HPL alone exits with 0 in most of these cases.
  - Always runs the command; to run once, look for the result of the plan's C(key) first.
options:
  argv:
    description: Command and its arguments, such as those of the filter
      P(nodesmith.cluster.hpl_launch#filter).
    type: list
    elements: str
    required: true
  chdir:
    description: Folder to run in, the one with C(HPL.dat).
    type: path
  output:
    description:
      - File that the program writes its results to, relative to O(chdir), or V(stdout).
      - A file that an earlier run left there is removed first, so that no old result can be taken for a new
        one.
    type: str
    default: stdout
  parse:
    description:
      - How to read the output. V(hpl) for HPL and hpcc, V(dgemm) for one C(DGEMM ranks=...) line, V(none)
        to judge by the exit status only.
    type: str
    choices: [hpl, dgemm, none]
    default: hpl
  marker:
    description: Regular expression that the output must match for the run to count.
    type: str
  timeout:
    description: Seconds after which the run is ended and the task fails; no limit when not given.
    type: int
  env:
    description: Variables to add to the environment of the command.
    type: dict
    default: {}
  progress:
    description:
      - File to rewrite while the command runs, with a JSON object of C(phase), C(done), C(total), C(elapsed)
        and C(estimate), where HPL was built to report its progress to standard output.
    type: path
attributes:
  check_mode:
    description: Can run in check mode and return what it would change.
    support: full
    details: Returns the same keys, null where they need a run, but C(rc=0).
  diff_mode:
    description: Returns details on what has changed.
    support: none
author:
  - The nodesmith authors (@nodesmith)
"""

EXAMPLES = r"""
- name: Run HPL, an hour at most
  nodesmith.cluster.hpl_run:
    argv: "{{ plan | nodesmith.cluster.hpl_launch('/opt/hpl/xhpl', hostfile='/var/lib/hpl/hosts') }}"
    chdir: /var/lib/hpl
    timeout: 3600
  register: run

- name: Measure DGEMM on all cores
  nodesmith.cluster.hpl_run:
    argv: [mpirun, -n, "4", /opt/hpl/dgemm]
    parse: dgemm
    timeout: 300
"""

RETURN = r"""
rc:
  description: Exit status of the command, negative for the signal that ended it; 0 in check mode.
  returned: always
  type: int
  sample: 0
seconds:
  description: Wall time of the command; null in check mode.
  returned: always
  type: float
  sample: 23.5
timed_out:
  description: Whether the time ran out; null in check mode.
  returned: always
  type: bool
  sample: false
hpl:
  description: C(rows), C(passed) and C(reason) as the filter P(nodesmith.cluster.hpl_results#filter)
    returns them; null in check mode and unless O(parse=hpl).
  returned: always
  type: dict
  sample: {passed: true, reason: "", rows: [{tv: WR11C2R4, n: 12288, nb: 256, p: 1, q: 2, seconds: 23.52,
    gflops: 52.6, residual: 0.0026, passed: true, reason: null}]}
dgemm:
  description: C(ranks), C(n), C(gflops_sum), C(gflops_min) and C(gflops_max); null in check mode and unless
    O(parse=dgemm).
  returned: always
  type: dict
  sample: {ranks: 2, n: 6000, gflops_sum: 70.1, gflops_min: 34.9, gflops_max: 35.2}
stdout:
  description: Standard output, the last 256 Ki characters of it; null in check mode.
  returned: always
  type: str
  sample: End of Tests.
stderr:
  description: Standard error, the last 256 Ki characters of it; null in check mode.
  returned: always
  type: str
  sample: ""
cmd:
  description: The command.
  returned: always
  type: list
  elements: str
  sample: [mpirun, -n, "2", xhpl]
"""

import json
import os
import re
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._follow import hpl_progress
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_process import Outcome, error_lines, run
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_results import parse_dgemm, parse_results
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError

TAIL_CHARACTERS = 256 * 1024


def reporter(path: str) -> Callable[[str, float], None]:
    """Return what tells in the file ``path`` how far a run is, given the end of its output."""

    def report(text: str, elapsed: float) -> None:
        progress = {**(hpl_progress(text) or {"phase": "run"}), "elapsed": round(elapsed, 1)}
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump(progress, stream)
        os.replace(f"{path}.new", path)

    return report


def read_output(path: str | None, outcome: Outcome) -> str:
    """Return what the program reported: the file at ``path``, or its standard output."""
    if path is None:
        return outcome.stdout
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def judge(params: dict[str, Any], outcome: Outcome, text: str, result: dict[str, Any]) -> str:
    """Add what ``text`` holds to ``result`` and return why the run does not count, or an empty string."""
    reasons = []
    if params["parse"] == "hpl":
        result["hpl"] = parse_results(text)
        reasons.append(result["hpl"]["reason"])
    elif params["parse"] == "dgemm":
        try:
            result["dgemm"] = parse_dgemm(text)
        except HplError as error:
            reasons.append(str(error))
    if params["marker"] and not re.search(params["marker"], text):
        reasons.append(f"the output does not match {params['marker']!r}")
    if outcome.timed_out:
        reasons.insert(0, f"the time ran out after {params['timeout']} s, and the run was ended")
    elif outcome.rc != 0:
        said = error_lines(outcome.stderr or outcome.stdout)
        reasons.insert(
            0, f"{params['argv'][0]} ended with status {outcome.rc}" + (f": {said}" if said else "")
        )
    return "; ".join(reason for reason in reasons if reason)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "argv": {"type": "list", "elements": "str", "required": True},
            "chdir": {"type": "path"},
            "output": {"type": "str", "default": "stdout"},
            "parse": {"type": "str", "choices": ["hpl", "dgemm", "none"], "default": "hpl"},
            "marker": {"type": "str"},
            "timeout": {"type": "int"},
            "env": {"type": "dict", "default": {}},
            "progress": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    result: dict[str, Any] = dict.fromkeys(("rc", "seconds", "timed_out", "hpl", "dgemm", "stdout", "stderr"))
    result.update(changed=True, cmd=params["argv"])
    if not params["argv"]:
        module.fail_json(msg="argv is empty: there is no command to run", **result)
    if params["timeout"] is not None and params["timeout"] < 1:
        module.fail_json(msg=f"timeout must be at least 1 second, not {params['timeout']}", **result)
    if module.check_mode:
        result["rc"] = 0  # Ansible takes any other value, null too, for a failure
        module.exit_json(**result)

    path = None if params["output"] == "stdout" else os.path.join(params["chdir"] or "", params["output"])
    if path is not None and os.path.exists(path):
        os.remove(path)
    try:
        outcome = run(
            params["argv"],
            cwd=params["chdir"],
            env={name: str(value) for name, value in params["env"].items()},
            timeout=params["timeout"],
            watch=reporter(params["progress"]) if params["progress"] else None,
        )
    except OSError as error:
        module.fail_json(msg=f"cannot run {params['argv'][0]}: {error}", **{**result, "changed": False})
    result.update(
        rc=outcome.rc,
        seconds=outcome.seconds,
        timed_out=outcome.timed_out,
        stdout=outcome.stdout[-TAIL_CHARACTERS:],
        stderr=outcome.stderr[-TAIL_CHARACTERS:],
    )
    reason = judge(params, outcome, read_output(path, outcome), result)
    if reason:
        module.fail_json(msg=f"the run does not count: {reason}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
