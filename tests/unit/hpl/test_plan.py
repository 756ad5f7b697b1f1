"""The planner against published calculators, brute force and properties."""

from __future__ import annotations

import copy
import math

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MIB, GIB = 2**20, 2**30

# (MiB a node, nodes, cores a node) -> N, P, Q, as published by Advanced Clustering's calculator
PUBLISHED = [
    (384000, 1, 36, 200448, 6, 6),
    (384000, 2, 36, 283776, 8, 9),
    (384000, 4, 36, 401280, 12, 12),
    (384000, 8, 36, 567552, 16, 18),
    (4096, 8, 4, 58368, 4, 8),
    (8000, 4, 4, 57600, 4, 4),
]


def advanced_clustering(total_bytes: int, nb: int = 192) -> int:
    """N = NB x the even number of blocks whose matrix fills at most 80 % of the memory of all nodes."""
    blocks = math.sqrt(0.8 * total_bytes / 8) / nb
    return nb * (int(blocks) // 2 * 2)


@pytest.mark.parametrize(("mib", "nodes", "cores", "n", "p", "q"), PUBLISHED)
def test_published_points(node, mib, nodes, cores, n, p, q):
    total = mib * MIB * nodes
    assert advanced_clustering(total) == n, "the test's own formula gives the published N"

    plan = _hpl.plan([node(f"n{i}", mib / 1024, cores) for i in range(nodes)], {"nb": 192})
    theirs, ours = 8 * n * n / total, 8 * plan["n"] ** 2 / total
    print(f"\n{nodes} x {mib} MiB: ours {plan['n']} ({ours:.1%}), theirs {n} ({theirs:.1%} before panels)")
    assert (plan["p"], plan["q"]) == (p, q)
    # they size the matrix alone; we size matrix, panels and buffers to the same 80 %
    assert ours <= theirs <= 0.80
    assert plan["n"] >= 0.93 * n
    assert all(host["planned_bytes"] <= 0.8 * host["memory_bytes"] for host in plan["hosts"])


@pytest.mark.parametrize(
    ("gib", "nodes", "cores"), [(0.4, 1, 4), (4, 8, 4), (16, 1, 7), (768, 1, 192), (512, 4, 128)]
)
def test_other_rows_stay_within_memory(node, gib, nodes, cores):
    plan = _hpl.plan([node(f"n{i}", gib, cores) for i in range(nodes)])
    assert 8 * plan["n"] ** 2 < 0.8 * gib * GIB * nodes
    # one more block would not fit
    matrix, panels = _hpl.rank_bytes(plan["n"] + plan["nb"], plan["nb"], plan["p"], plan["q"])
    assert (matrix + panels + _hpl.RUNTIME_BYTES_PER_RANK) * cores > 0.8 * gib * GIB


@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_rank_bytes_is_the_fullest_rank_of_the_block_cyclic_layout(blocks, nb, p, q):
    n = blocks * nb
    rows = max(sum(1 for b in range(blocks) if b % p == r) for r in range(p)) * nb
    columns = max(sum(1 for b in range(blocks) if b % q == c) for c in range(q)) * nb
    assert _hpl.rank_bytes(n, nb, p, q)[0] == 8 * rows * (columns + 1)


@given(st.integers(1, 5000))
def test_grid_is_the_squarest(ranks):
    p, q = _hpl.grid(ranks)
    assert p <= q
    assert p * q == ranks
    assert p == max(d for d in range(1, ranks + 1) if ranks % d == 0 and d * d <= ranks)


@given(st.integers(1, 300))
def test_flops_counts_the_operations_of_lu_and_two_solves(n):
    # column k of LU: n-k divisions and 2 (n-k)^2 for the update; the two triangular solves: 2 n^2
    counted = sum((n - k) + 2 * (n - k) ** 2 for k in range(1, n)) + 2 * n * n
    assert _hpl.flops(n) == pytest.approx(counted + n / 6)


@pytest.mark.parametrize(
    ("n", "seconds", "gflops"),
    [(115200, 3417.23, 298.26), (50000, 86.82, 959.85), (46080, 12.91, 5052.3), (19000, 1073.27, 4.2610)],
)
def test_flops_gives_the_rate_that_hpl_printed(n, seconds, gflops):
    assert _hpl.flops(n) / seconds / 1e9 == pytest.approx(gflops, rel=1e-3)


# (GiB a core, cores)
nodes = st.lists(st.tuples(st.floats(0.25, 64), st.integers(1, 128)), min_size=1, max_size=6)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=nodes, order=st.randoms())
def test_properties(node, shapes, order):
    hosts = [node(f"n{i}", gib * cores, cores) for i, (gib, cores) in enumerate(shapes)]
    plan = _hpl.plan(hosts)
    assert plan["n"] % plan["nb"] == 0
    assert plan["n"] >= plan["nb"]
    assert plan["p"] * plan["q"] == plan["ranks"] == sum(cores for _, cores in shapes)
    assert plan["p"] <= plan["q"]
    for host in plan["hosts"]:
        assert (
            host["matrix_bytes"]
            < host["planned_bytes"]
            <= plan["memory_share"] * 1.001 * host["memory_bytes"]
        )
    assert plan["memory_share"] <= 0.8
    assert sum(host["matrix_bytes"] for host in plan["hosts"]) >= plan["matrix_bytes"]

    shuffled = list(hosts)
    order.shuffle(shuffled)
    assert _hpl.plan(shuffled) == plan

    more = copy.deepcopy(hosts)
    for host in more:
        host["facts"]["memory"]["usable_bytes"] *= 2
    assert _hpl.plan(more)["n"] >= plan["n"]


def test_the_weakest_memory_per_rank_binds(node):
    strong, weak = node("strong", 64, 8), node("weak", 16, 8)
    assert _hpl.plan([strong, weak])["n"] == _hpl.plan([node("a", 16, 8), node("b", 16, 8)])["n"]


def test_the_cgroup_limit_binds_not_the_total(node):
    small = node("c", 24, 2)
    small["facts"]["memory"].update(usable_bytes=2 * GIB, limit_bytes=2 * GIB)
    assert 8 * _hpl.plan([small])["n"] ** 2 < 0.8 * 2 * GIB


def test_key_names_the_request_not_the_moment(node):
    first = node()
    later = copy.deepcopy(first)
    later["facts"]["memory"].update(
        usable_bytes=first["facts"]["memory"]["usable_bytes"] - GIB, available_bytes=5
    )
    plan, again = _hpl.plan([first]), _hpl.plan([later])
    assert plan["n"] != again["n"]
    assert plan["key"] == again["key"]
    assert plan["key"] == _hpl.plan([first], {"n": None})["key"]
    different = [
        _hpl.plan([first], {"nb": 128}),
        _hpl.plan([node(cores=8)]),
        _hpl.plan([node(gib=32)]),
        _hpl.plan([node(model="other")]),
        _hpl.plan([{**first, "address": "10.0.0.9"}]),
        _hpl.plan([node("other")]),
    ]
    assert len({p["key"] for p in [plan, *different]}) == 7
    assert _hpl.plan([first], {"nb": 128})["key"] == _hpl.plan([first], {"nb": "128"})["key"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nn": 5}, "unknown option nn"),
        ({"n": 100}, "N=100 is smaller than NB=256"),
        ({"n": 10**7}, "does not fit"),
        ({"n": "many"}, "n must be a number, not 'many'"),
        ({"n": True}, "n must be a number"),
        ({"nb": 0}, "between 1 and"),
        ({"nb": 2.5}, "whole number"),
        ({"p": 3}, "p=3 does not divide the 16 ranks"),
        ({"p": 5, "q": 7}, "16 physical cores, too few for 35 ranks"),
        ({"p": 2, "q": 4, "ranks_per_node": 4}, "the nodes give 4 ranks"),
        ({"ranks_per_node": 17}, "16 physical cores, too few for 17 ranks"),
        ({"threads_per_rank": 17}, "too few for 1 ranks x 17 threads"),
        ({"memory_share": 1.1}, "at most 1"),
        ({"memory_share": 1e-6}, "even N = NB"),
        ({"time_budget_seconds": 60}, "needs a rate"),
        ({"time_budget_seconds": 1e-9, "gflops_per_core": 1}, "raise time_budget_seconds"),
        ([1], "must be a dictionary"),
    ],
)
def test_refusals_name_the_value(node, options, words):
    with pytest.raises(HplError, match=None) as caught:
        _hpl.plan([node()], options)
    assert words in str(caught.value)


def test_refused_nodes(node):
    for hosts, words in (
        ([], "no hosts"),
        ([node(), node()], "listed twice"),
        ([node(cores=None)], "physical cores is unknown"),
        ([node(gib=0)], "usable memory"),
        ([{"name": "x"}], "facts"),
        ([{"name": "x", "facts": {}}], "run the module hpl_facts"),
    ):
        with pytest.raises(HplError) as caught:
            _hpl.plan(hosts)
        assert words in str(caught.value)


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(1, 40),
    st.just(10**400),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["8", "1e2", "256", "nan", "inf", "-1"]),
    st.lists(st.integers(), max_size=2),
)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=st.dictionaries(st.sampled_from([*_hpl.OPTIONS, "other", 3]), anything))
def test_any_option_gives_a_plan_or_our_error(node, options):
    try:
        plan = _hpl.plan([node("a"), node("b", 32, 8)], options)
    except HplError:
        return
    assert plan["p"] * plan["q"] == plan["ranks"]
    assert plan["n"] % plan["nb"] == 0
    assert all(host["planned_bytes"] <= host["memory_bytes"] for host in plan["hosts"])
    assert plan["expected_seconds"] is None or math.isfinite(plan["expected_seconds"])


def test_fixed_values_are_kept(node):
    plan = _hpl.plan([node(cores=7)], {"p": 2, "q": 3, "nb": 128, "n": "20000"})
    assert (plan["p"], plan["q"], plan["ranks"], plan["nb"], plan["n"]) == (2, 3, 6, 128, 19968)
    assert "N=20000 is no multiple of NB=128: using 19968" in plan["warnings"]


def test_hybrid_ranks(node):
    plan = _hpl.plan([node(cores=16)], {"threads_per_rank": 4})
    assert (plan["ranks"], plan["p"], plan["q"], plan["threads_per_rank"]) == (4, 2, 2, 4)


@pytest.mark.parametrize(
    ("cores", "better"),
    [(5, "4 ranks as 2 x 2"), (7, "6 ranks as 2 x 3"), (13, "12 ranks as 3 x 4"), (47, "45 ranks as 5 x 9")],
)
def test_prime_rank_counts_warn(node, cores, better):
    plan = _hpl.plan([node(cores=cores)])
    assert (plan["p"], plan["q"]) == (1, cores)
    assert any(better in warning for warning in plan["warnings"])


def test_time_budget_is_kept(node):
    plan = _hpl.plan([node()], {"time_budget_seconds": 60, "gflops_per_core": 25})
    assert plan["expected_gflops"] == 400
    assert plan["expected_seconds"] <= 60
    assert _hpl.flops(plan["n"] + plan["nb"]) / 400e9 > 60


def test_expected_rate_from_rpeak(node):
    plan = _hpl.plan([node(cores=4, rpeak_gflops=160.0)], {"ranks_per_node": 2, "efficiency": 0.5})
    assert plan["rpeak_gflops"] == 80
    assert plan["expected_gflops"] == 40


def test_unknown_cpu_still_plans_with_a_warning(node):
    plan = _hpl.plan([node(microarchitecture=None)])
    assert plan["nb"] == 192
    assert any("no recommended NB" in warning for warning in plan["warnings"])
    assert any("Rpeak is unknown" in warning for warning in plan["warnings"])


def test_different_mpi_and_swap_warn(node):
    other = node("b")
    other["facts"]["mpi"] = {"family": "openmpi", "version": "5.0.7", "path": "/usr/bin/mpirun"}
    other["facts"]["swap_used_bytes"] = GIB
    plan = _hpl.plan([node("a"), other])
    assert plan["mpi"] is None
    assert any("same MPI" in warning for warning in plan["warnings"])
    assert any("b has 1.00 GiB in swap" in warning for warning in plan["warnings"])
