# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as a table that a person reads: each figure with the reason for it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ._hpl_values import HplError, gib, mib

WIDTH = 100


def plan_table(plan: Mapping[str, Any]) -> str:
    """Return ``plan``, as _hpl.plan() returns it, as text.

    Hosts with the same ranks and threads share a line.

    Raises HplError for something that is no plan.
    """
    if not isinstance(plan, Mapping) or not plan.get("hosts") or not plan.get("rank_bytes"):
        raise HplError(f"a plan of the filter hpl_plan is needed, not {plan!r:.200}")
    lines = [_title(plan)]
    for name, value, why in _figures(plan):
        head = f"  {name:<10} {value:<22} "
        lines += textwrap.wrap(why, WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [
            head.rstrip()
        ]
    lines += ["", *_hosts(plan)]
    if plan.get("warnings"):
        lines += ["", "Warnings"]
        for warning in plan["warnings"]:
            lines += textwrap.wrap(warning, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _title(plan: Mapping[str, Any]) -> str:
    count, gpu = len(plan["hosts"]), plan["device"] == "gpu"
    return f"{'rocHPL' if gpu else 'HPL'} on {count} node{'' if count == 1 else 's'}, {plan['ranks']} ranks"


def _figures(plan: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    each, gpu = plan["rank_bytes"], plan["device"] == "gpu"
    parts = [f"matrix {mib(each['matrix'])}", f"panels {mib(each['panels'])}"]
    if each["runtime"]:
        parts.append(f"MPI and BLAS {mib(each['runtime'])}")
    p, q = plan["p"], plan["q"]
    local = f"each node holds {plan['local_p']} x {plan['local_q']}" if gpu else ""
    threads = sorted({host["threads"] for host in plan["hosts"]})
    return [
        ("N", f"{plan['n']:,}", f"{plan['n'] // plan['nb']} blocks of NB"),
        ("NB", str(plan["nb"]), plan["nb_source"]),
        ("P x Q", f"{p} x {q}", local),
        (
            "ranks",
            f"{plan['ranks']} of {' to '.join(map(str, dict.fromkeys((threads[0], threads[-1]))))} thread"
            f"{'' if threads == [1] else 's'}",
            plan["binding"],
        ),
        (
            "memory",
            gib(plan["matrix_bytes"]),
            f"matrix; the fullest {'GPU' if gpu else 'node'} uses {plan['memory_share']:.1%} of what it has",
        ),
        ("per rank", mib(sum(each.values())), ", ".join(parts)),
        *_expectation(plan),
    ]


def _expectation(plan: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    gflops, seconds, rpeak = plan["expected_gflops"], plan["expected_seconds"], plan["rpeak_gflops"]
    rows = []
    if gflops is None:
        rows.append(("expected", "unknown", "neither Rpeak nor a measured rate is known"))
    else:
        share = f"{gflops / rpeak:.0%} of Rpeak, " if rpeak else ""
        network = plan["network_seconds"]
        travel = f"; {duration(network)} of it on the network" if network else ""
        rows.append(("expected", f"{gflops:,.1f} GFLOPS", f"{share}in {duration(seconds)}{travel}"))
    if rpeak:
        top = plan["rpeak_max_gflops"]
        boost = f"at the base clock; {top:,.1f} at the maximum" if top and top != rpeak else ""
        rows.append(("Rpeak", f"{rpeak:,.1f} GFLOPS", boost))
    return rows


def _hosts(plan: Mapping[str, Any]) -> list[str]:
    kinds: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for host in plan["hosts"]:
        kinds.setdefault((host["slots"], host["threads"]), []).append(host)
    rows = [("nodes", "", "ranks", "threads", "has", "planned", "share")]
    for (slots, threads), hosts in kinds.items():
        names = [host["name"] for host in hosts]
        listed = ", ".join(names[:2]) if len(names) <= 2 else f"{names[0]}, {names[1]} ... {names[-1]}"
        sizes = [host["memory_bytes"] for host in hosts]
        fullest = max(host["planned_bytes"] / host["memory_bytes"] for host in hosts)
        has = gib(min(sizes))
        if gib(max(sizes)) != has:
            has = f"{min(sizes) / 2**30:.2f} to {gib(max(sizes))}"
        planned = gib(hosts[0]["planned_bytes"])
        rows.append((listed, f"{len(hosts)} x", str(slots), str(threads), has, planned, f"{fullest:.1%}"))
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths))
        )
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Return ``seconds`` as a person says them: ``45 s``, ``12 min 3 s``, ``5 h 2 min``, ``3 d 4 h``."""
    whole = max(round(seconds), 0 if seconds < 0.5 else 1)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for at, (name, size) in enumerate(units):
        if whole >= size:
            rest = whole % size // units[at + 1][1] if at < 3 else 0
            return f"{whole // size} {name}" + (f" {rest} {units[at + 1][0]}" if rest else "")
    return "0 s"
