"""The plan as text."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_table import WIDTH, duration, plan_table
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError


def test_every_figure_is_in_it(node):
    hosts = [node(f"n{i}", 64, 16, rpeak_gflops=640.0) for i in range(40)]
    hosts.append(node("small", 16, 8, rpeak_gflops=160.0, microarchitecture="zen2"))
    plan = _hpl.plan(hosts)
    text = plan_table(plan)
    for part in (
        "HPL on 41 nodes, 648 ranks",
        f"{plan['n']:,}",
        f"{plan['p']} x {plan['q']}",
        f"{plan['expected_gflops']:,.1f} GFLOPS",
        "n0, n1 ... n9",
        "40 x",
        "small",
        *(warning[:40] for warning in plan["warnings"]),
    ):
        assert part in text
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert len(text.splitlines()) < 30


def test_what_is_unknown_is_said(node):
    assert "unknown" in plan_table(_hpl.plan([node(microarchitecture=None)]))


@pytest.mark.parametrize("other", [None, {}, [], {"hosts": [1]}])
def test_only_plans(other):
    with pytest.raises(HplError, match="a plan of the filter hpl_plan"):
        plan_table(other)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (0.7, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (723, "12 min 3 s"),
        (3600, "1 h"),
        (7325, "2 h 2 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
