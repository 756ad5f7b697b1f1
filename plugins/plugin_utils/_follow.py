# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base of the action plugins that follow a long module: it runs asynchronously, a line tells how far it is.

Where the line goes. Each host is followed in a worker process of its own, whose standard streams lead
nowhere; what it displays goes through a queue to the main process, which writes one message after the other.
So the lines of several hosts never mix, but no worker knows what the others have on the screen. A line is
therefore rewritten in place only when one host is in the batch and standard error is a terminal; else plain
lines are written, few of them. Standard error, because Ansible does not flush its standard output when that
is a pipe: a line would come minutes late.

How it ends. A job never outlives its task while the node can be reached: on Ctrl-C, SIGTERM, the task's
timeout or the death of ansible-playbook it is ended on the node. What is followed here can be resumed or
started again, and a forgotten job would work in the same folder as the next run's.
"""

from __future__ import annotations

import os
import posixpath
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.nodesmith.cluster.plugins.module_utils._follow import (
    PLAIN_WIDTH,
    PlainPace,
    render,
    waits,
)

JOB_SECONDS = 30 * 24 * 3600
"""Time after which async_wrapper ends a job; the modules have time limits of their own."""

STOP_SECONDS = 60
"""How long an interrupted worker may take to end its job: a node that does not answer must not keep it."""

_LOG_VERBOSITY = 1
_CONNECTION_VERBOSITY = 3

_ASYNC_STATUS_KEYS = ("ansible_job_id", "finished")


def _terminal() -> str | None:
    """Return the device that standard error writes to, when it is a terminal that can rewrite a line."""
    try:
        return os.ttyname(sys.stderr.fileno()) if os.environ.get("TERM", "dumb") != "dumb" else None
    except (OSError, ValueError):
        return None


# Asked here because the main process loads an action plugin before it forks a worker, which cannot know.
_TERMINAL = _terminal()


def _columns(terminal: str) -> int:
    """Return the present width of a terminal, as it may be resized meanwhile."""
    try:
        with open(
            terminal, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NOCTTY)
        ) as device:
            return os.get_terminal_size(device.fileno()).columns or 80
    except OSError:
        return 80


class Screen:
    """Shows the progress of one host."""

    def __init__(self, display: Any, host: str, title: str, in_place: bool, log_line: bool) -> None:
        self._display = display
        self._head = (host, title)
        self._terminal = _TERMINAL if in_place else None
        self._log_line = log_line
        self._pace = PlainPace()
        self._drawn = ""

    def show(self, progress: Mapping[str, Any]) -> None:
        """Show ``progress`` if its line is new and due."""
        if self._terminal:
            # one column is kept free: a line that fills the last one wraps on some terminals
            self._draw(render(*self._head, progress, _columns(self._terminal) - 1, self._log_line))
        elif self._pace.due(progress.get("phase"), time.monotonic()):
            line = render(*self._head, progress, PLAIN_WIDTH, self._log_line)
            self._display.display(line, color=C.COLOR_VERBOSE, stderr=True)

    def clear(self) -> None:
        """Leave the terminal as if no line had been there."""
        self._draw("")

    def _draw(self, line: str) -> None:
        if line != self._drawn:
            self._drawn = line
            # the carriage return also makes Python write the line out, which has no newline
            self._display.display(
                f"\r\x1b[K{line}",
                color=C.COLOR_VERBOSE if line else None,
                stderr=True,
                screen_only=True,
                newline=False,
            )


class _Stop:
    """Notes a signal that should end this worker, so that the job can be ended first."""

    def __init__(self) -> None:
        self.signal = 0
        self._main = os.getppid()
        self._handlers: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Return whether to stop: on a signal, or when ansible-playbook itself is gone."""
        if os.getppid() != self._main:
            self._stop(signal.SIGTERM)
        return bool(self.signal)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the signals that ansible-playbook passes on, and heed what was noted at the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._note)
        try:
            yield
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            if self.signal:
                os.kill(os.getpid(), self.signal)

    def _note(self, number: int, frame: Any) -> None:
        # more than one may come: on Ctrl-C ansible-playbook passes SIGINT on, then SIGTERM, and leaves
        self._stop(number)

    def _stop(self, number: int) -> None:
        if not self.signal:
            self.signal = number
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(STOP_SECONDS)


class FollowedAction(ActionBase):
    """Runs the module of the action's name and shows how far it is.

    The module takes an option ``progress``, the path of a JSON file that it rewrites by rename while it
    works, with the keys that module_utils/_follow.py names.
    """

    LONGEST_WAIT = 2.0
    """Seconds between two questions when the job has run for a while."""

    PATIENCE_SECONDS = 120.0
    """How long a node may not answer before its job is given up."""

    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        if self._task.check_mode or self._task.async_val or self._connection.has_native_async:
            wrap = bool(self._task.async_val) and not self._connection.has_native_async
            return {**result, **self._execute_module(task_vars=task_vars, wrap_async=wrap)}

        self._host = self._task.delegate_to or task_vars.get("inventory_hostname", "localhost")
        screen = self._screen(task_vars)
        stop = _Stop()
        with stop.watching():
            try:
                return {**result, **self._run_followed(screen, stop, task_vars)}
            finally:
                screen.clear()

    def _screen(self, task_vars: Mapping[str, Any]) -> Screen:
        alone = self._task.run_once or len(task_vars.get("ansible_play_batch", ())) == 1
        verbosity = self._display.verbosity
        return Screen(
            self._display,
            self._host,
            self._task.get_name(),
            in_place=alone and verbosity < _CONNECTION_VERBOSITY,
            log_line=verbosity >= _LOG_VERBOSITY and not self._task.no_log,
        )

    def _run_followed(
        self, screen: Screen, stop: Callable[[], bool], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        arguments = dict(self._task.args)
        # beside the status file: a folder that only the job's user can write to
        folder = self.get_shell_option("async_dir", default="~/.ansible_async")
        own = f"{folder}/{secrets.token_hex(8)}.progress"
        arguments.setdefault("progress", own)
        started = self._start(arguments, task_vars)
        if "ansible_job_id" not in started:
            return {**started, "changed": False}
        files = {"job": started["results_file"], "progress": arguments["progress"]}
        try:
            return self._follow(files, screen, stop, task_vars)
        finally:
            if arguments["progress"] != own:
                del files["progress"]
            try:
                self._ask(files, task_vars, state="absent")
            except AnsibleError as error:
                self._display.warning(f"{self._host}: cannot clean up after {files['job']}: {error}")

    def _start(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start the module on the node and return what async_wrapper says."""
        before = self._task.async_val
        self._task.async_val = JOB_SECONDS
        try:
            return self._execute_module(module_args=arguments, task_vars=task_vars, wrap_async=True)
        finally:
            # else the task's executor would wait for the job as well
            self._task.async_val = before

    def _follow(
        self, files: Mapping[str, str], screen: Screen, stop: Callable[[], bool], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the module's result, or nothing when ``stop`` says so.

        Raises AnsibleActionFail when the job was killed, AnsibleConnectionFailure when the node is lost.
        """
        begin = answered = time.monotonic()
        shown: Mapping[str, Any] = {}
        missing = 0
        for wait in waits(self.LONGEST_WAIT):
            if self._sleep(wait, stop):
                break
            try:
                answer = self._ask(files, task_vars)
                result = self._fetch(files["job"], task_vars) if answer["finished"] else None
            except AnsibleError as error:
                silent = time.monotonic() - answered
                if silent > self.PATIENCE_SECONDS:
                    raise AnsibleConnectionFailure(
                        f"{self._host} has not answered for {silent:.0f} s while {self._task.action} ran on "
                        f"it (last phase: {shown.get('phase')}), and it may still run there. Check the node "
                        f"and its network, then run this again. The last error: {error}"
                    ) from error
                screen.show({"phase": "no answer, trying again", "elapsed": silent})
                continue
            answered = time.monotonic()
            if result is not None:
                # async_wrapper puts its own traceback into the result when the module wrote none
                if result.get("failed") and "cmd" in result and result.get("data") == "":
                    raise AnsibleActionFail(self._killed(shown, result.get("stderr", "")))
                return result
            # twice, as a job is not to be seen in the moment when it starts
            missing = 0 if answer["alive"] else missing + 1
            if missing > 1:
                raise AnsibleActionFail(self._killed(shown))
            shown = answer["progress"] or {"elapsed": answered - begin}
            screen.show(shown)
        return {}

    @staticmethod
    def _sleep(seconds: float, stop: Callable[[], bool]) -> bool:
        """Sleep, or less when ``stop`` says so; return what it says."""
        until = time.monotonic() + seconds
        while not stop() and time.monotonic() < until:
            time.sleep(0.1)
        return stop()

    def _ask(self, files: Mapping[str, str], task_vars: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Return what job_progress answers. Raises AnsibleError when there is no answer."""
        answer = self._execute_module(
            module_name="nodesmith.cluster.job_progress",
            module_args={**files, **arguments},
            task_vars=task_vars,
        )
        if answer.get("failed"):
            raise AnsibleError(f"no answer: {(answer.get('module_stderr') or answer['msg']).strip()}")
        return answer

    def _fetch(self, job: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the module's result, without what async_status adds. Raises AnsibleError without one."""
        folder, name = posixpath.split(job)
        result = self._execute_module(
            module_name="ansible.legacy.async_status",
            module_args={"jid": name, "_async_dir": folder},
            task_vars=task_vars,
        )
        if not result.get("_ansible_parsed"):
            raise AnsibleError(f"no answer: {(result.get('module_stderr') or result['msg']).strip()}")
        return {key: value for key, value in result.items() if key not in _ASYNC_STATUS_KEYS}

    def _killed(self, progress: Mapping[str, Any], stderr: str = "") -> str:
        said = [line.strip() for line in stderr.splitlines() if line.strip()]
        return (
            f"{self._task.action} ended on {self._host} without a result (last phase: "
            f"{progress.get('phase')}): it was killed, or {self._host} restarted. Look for 'Out of memory' "
            "in its kernel log, then run this again." + (f" Its last words: {said[-1]}" if said else "")
        )
