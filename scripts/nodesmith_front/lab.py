"""``make up`` and ``make down``: the embedded cluster on this machine."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from .console import Failure, duration, say
from .layout import Layout
from .locking import exclusive
from .playbook import Stage, run_playbook
from .preflight import require_disk, require_root
from .setup import CACHE_GIB, CONTROLLER_GIB, setup
from .summary import read_summary, summary_lines, write_json

# GiB for the engine, the node image and what the nodes install, rounded up from a first run.
DOCKER_GIB = 6.0
LOCAL = "inventory/local"


def lab_variables() -> dict[str, str]:
    """Return the variables of this lab, from NODESMITH_LAB (default ``lab``) and NODESMITH_LAB_SUBNET.

    Raises Failure for a name that cannot be a host name and a folder at once.
    """
    name = os.environ.get("NODESMITH_LAB") or "lab"
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) or name in ("local", "example"):
        raise Failure(
            f"NODESMITH_LAB={name!r} is no name for a lab: take a lower-case letter, then up to 30 letters, "
            "digits and hyphens; `local` and `example` are taken"
        )
    variables = {"lab_name": name}
    if os.environ.get("NODESMITH_LAB_SUBNET"):
        variables["lab_subnet"] = os.environ["NODESMITH_LAB_SUBNET"]
    return variables


def _setup_stage(layout: Layout) -> Stage:
    start = time.monotonic()
    counts = setup(layout)
    stage = Stage(name="setup", seconds=time.monotonic() - start, **counts)
    say(f"== setup: {duration(stage.seconds)}, {stage.changed} changed")
    return stage


def up(layout: Layout) -> int:
    """Bring the lab up, run the whole site on it, write ``results/<lab>/up.json`` and print the summary."""
    variables = lab_variables()
    name = variables["lab_name"]
    require_root()
    with exclusive(layout.root / "build" / f"{name}.lock", f"lab {name}", wait=False):
        if not (layout.root / "inventory" / name).exists():
            require_disk(
                {layout.root: CONTROLLER_GIB, layout.cache: CACHE_GIB, Path("/var/lib/docker"): DOCKER_GIB}
            )
        results = layout.root / "results" / name
        (results / "up.json").unlink(missing_ok=True)
        start = time.monotonic()
        stages = [
            _setup_stage(layout),
            run_playbook(layout, "docker", "docker", LOCAL, variables, "up"),
            run_playbook(layout, "lab", "lab_up", LOCAL, variables, "up"),
            run_playbook(layout, "site", "site", f"inventory/{name}", variables, "up"),
        ]
        result = read_summary(results / "summary.json") | {
            "lab": name,
            "stages": [stage.as_dict() for stage in stages],
            "total_seconds": round(time.monotonic() - start, 1),
        }
        write_json(results / "up.json", result)
    say("")
    for line in summary_lines(result, stages):
        say(line)
    if result.get("hpl") and not result["hpl"]["passed"]:
        raise Failure(
            f"HPL's residual {result['hpl']['residual']:.3g} is over the limit: see {result['hpl']['report']}"
        )
    return 0


def down(layout: Layout) -> int:
    """Remove the lab; with nothing up there is nothing to remove, which is fine."""
    variables = lab_variables()
    require_root()
    with exclusive(
        layout.root / "build" / f"{variables['lab_name']}.lock", f"lab {variables['lab_name']}", wait=False
    ):
        setup(layout)
        run_playbook(layout, "down", "lab_down", LOCAL, variables, "down")
    return 0
