"""One playbook run as a stage, and what its run record says about it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .console import Failure, colour, duration, one_line, say
from .layout import Layout
from .process import last_lines, run_live


@dataclass(frozen=True)
class Stage:
    """A finished stage: its wall time in seconds and the task counts, summed over the hosts."""

    name: str
    seconds: float
    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the stage as it stands in up.json."""
        return asdict(self) | {"seconds": round(self.seconds, 1)}


def playbook_argv(layout: Layout, playbook: str, inventory: str, variables: Mapping[str, str]) -> list[str]:
    """Return the ansible-playbook command for a playbook of this checkout."""
    extra = [word for key, value in variables.items() for word in ("-e", json.dumps({key: value}))]
    return [layout.tool("ansible-playbook"), "-i", inventory, f"playbooks/{playbook}.yml", *extra]


def read_record(path: Path) -> dict[str, Any]:
    """Return what the callback ``nodesmith.cluster.run_record`` wrote, empty when there is nothing."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def describe_failure(record: Mapping[str, Any], log: Path) -> str:
    """Return host, task and message of what ended a playbook run, on one line.

    A run that ends before its first task has no record; then the log's own last error line speaks.
    """
    failures = record.get("failures") or []
    if failures:
        last = failures[-1]
        others = len({failure["host"] for failure in failures}) - 1
        hosts = last["host"] + (f" (and {others} more)" if others else "")
        return one_line(f"{hosts}, task '{last['task']}': {last['message']}")
    errors = [line for line in last_lines(log, 200) if line.startswith(("ERROR", "[ERROR]"))]
    return one_line(errors[-1]) if errors else "ansible-playbook failed"


def run_playbook(
    layout: Layout, name: str, playbook: str, inventory: str, variables: Mapping[str, str], command: str
) -> Stage:
    """Run a playbook with its output on the terminal and in a log. Raises Failure: what failed, and where."""
    log, record_path = layout.logs / f"{name}.log", layout.logs / f"{name}.json"
    record_path.unlink(missing_ok=True)
    say(colour(f"== {name}", "bold"))
    env = layout.tool_environment(NODESMITH_RUN_RECORD=str(record_path))
    start = time.monotonic()
    status = run_live(playbook_argv(layout, playbook, inventory, variables), log, cwd=layout.root, env=env)
    seconds = time.monotonic() - start
    record = read_record(record_path)
    if status != 0:
        raise Failure(
            f"stage {name} failed after {duration(seconds)}: {describe_failure(record, log)} "
            f"(log: {layout.show(log)}; `make {command}` goes on from there)"
        )
    hosts = record.get("hosts", {}).values()
    counts = {key: sum(host[key] for host in hosts) for key in ("ok", "changed", "failed", "unreachable")}
    stage = Stage(name=name, seconds=seconds, **counts)
    say(f"== {name}: {duration(seconds)}, {stage.changed} changed")
    return stage
