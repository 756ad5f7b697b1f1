"""``results/<lab>/up.json`` and the summary that a person reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .console import Failure, colour, duration, one_line, table
from .playbook import Stage


def read_summary(path: Path) -> dict[str, Any]:
    """Return what ``playbooks/site.yml`` left for us. Raises Failure when it is missing or damaged."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Failure(
            f"site.yml passed but left no {path.name}: run `make up` again, or look at build/logs/site.log"
        ) from None
    except ValueError as error:
        raise Failure(f"{path} is not JSON ({error}): delete it, then run `make up` again") from None
    if not isinstance(summary, dict):
        raise Failure(f"{path} holds no JSON object: delete it, then run `make up` again")
    return summary


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file so that a reader sees the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def _hpl_rows(hpl: Mapping[str, Any]) -> list[tuple[str, str]]:
    verdict = colour("PASSED", "green") if hpl["passed"] else colour("FAILED", "red")
    return [
        (
            "HPL",
            f"{hpl['gflops']:.1f} GFLOPS, {100 * hpl['dgemm_share']:.0f} % of the DGEMM peak "
            f"({hpl['dgemm_gflops']:.1f} GFLOPS)",
        ),
        ("problem", f"N={hpl['n']} NB={hpl['nb']} P={hpl['p']} Q={hpl['q']}, {duration(hpl['seconds'])}"),
        ("residual", f"{hpl['residual']:.3g} {verdict}"),
        ("report", str(hpl["report"])),
    ]


def _model_rows(models: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("model", f"{models['model']}, {models['tokens_per_second']:.1f} tokens/s"),
        ("completion", f'"{one_line(models["completion"], 200)}"'),
        ("URL", str(models["url"])),
    ]


def summary_lines(result: Mapping[str, Any], stages: Sequence[Stage]) -> list[str]:
    """Return the closing summary: figures first, then where the time went.

    ``result`` is up.json: ``hpl`` (GFLOPS, N, NB, P, Q, residual), ``models`` (url, completion) and
    ``total_seconds``. A part that the inventory does not have is left out.
    """
    rows: list[tuple[str, str]] = []
    if result.get("hpl"):
        rows += _hpl_rows(result["hpl"])
    if result.get("models"):
        rows += _model_rows(result["models"])
    times = ", ".join(f"{stage.name} {duration(stage.seconds)}" for stage in stages)
    rows.append(("time", f"{duration(result['total_seconds'])} ({times})"))
    return [colour(f"cluster {result['lab']} is up", "bold"), *(f"  {line}" for line in table(rows))]
