"""Runs named checks, some of them side by side, and says how each went."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .console import colour, duration, say, table
from .layout import Layout
from .process import last_lines, run_logged


@dataclass(frozen=True)
class Check:
    """A command that passes or fails. ``needs`` names checks without whose success it is not run."""

    name: str
    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a check went; ``status`` is ``ok``, ``FAIL`` or ``not run``."""

    name: str
    status: str
    seconds: float


def _paint(status: str) -> str:
    return colour(status.ljust(7), "green" if status == "ok" else "red")


def run_check(layout: Layout, check: Check, done: dict[str, Outcome]) -> None:
    """Run one check into its log and note in ``done`` how it went; on failure print the end of that log."""
    lacking = [name for name in check.needs if done[name].status != "ok"]
    if lacking:
        say(f"{_paint('not run')}  {check.name} (needs {', '.join(lacking)})")
        done[check.name] = Outcome(check.name, "not run", 0.0)
        return
    log = layout.logs / f"{check.name}.log"
    say(f"{'start':<7}  {check.name}")
    start = time.monotonic()
    try:
        passed = run_logged(check.argv, log, cwd=layout.root, env=layout.tool_environment(**check.env)) == 0
        problem = last_lines(log, 60)
    except OSError as error:
        passed, problem = False, [f"{check.argv[0]}: {error.strerror}"]
    outcome = Outcome(check.name, "ok" if passed else "FAIL", time.monotonic() - start)
    report = [f"{_paint(outcome.status)}  {check.name}  {duration(outcome.seconds)}"]
    if not passed:
        report += [f"    {line}" for line in problem] + [f"    (log: {layout.show(log)})"]
    say("\n".join(report))
    done[check.name] = outcome


def run_checks(layout: Layout, batches: Sequence[tuple[int, Sequence[Check]]]) -> int:
    """Run the batches in order, each with so many checks at a time; return 0 when all passed, else 1.

    A failure stops only what needs it: one run shows all that is wrong.
    """
    start = time.monotonic()
    done: dict[str, Outcome] = {}
    for width, checks in batches:
        with ThreadPoolExecutor(max_workers=width) as pool:
            # a list, so that an exception in a thread is raised here
            list(pool.map(lambda check: run_check(layout, check, done), checks))
    say("")
    for line in table([(o.name, o.status, duration(o.seconds)) for o in done.values()]):
        say(line)
    failed = sum(outcome.status != "ok" for outcome in done.values())
    say(f"total {duration(time.monotonic() - start)}")
    say(f"checks: {len(done) - failed} passed, {failed} failed")
    return 1 if failed else 0
