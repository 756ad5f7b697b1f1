"""The planner against published calculators, brute force and properties."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hpl_calculators import CALCULATORS, CLUSTERS, PRINTED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

GIB = 2**30


@pytest.mark.parametrize(("name", "cluster", "printed"), PRINTED)
def test_the_calculators_are_the_real_ones(name, cluster, printed):
    gib, nodes, cores = cluster
    assert CALCULATORS[name](int(gib * GIB), nodes, cores)[: len(printed)] == printed


@pytest.mark.parametrize(
    ("cluster", "printed"), [(c, p) for n, c, p in PRINTED if n == "Advanced Clustering"]
)
def test_beside_advanced_clustering(node, cluster, printed):
    gib, nodes, cores = cluster
    n, nb, p, q = printed
    total = gib * GIB * nodes
    plan = _hpl.plan([node(f"n{i}", gib, cores) for i in range(nodes)], {"nb": nb})
    theirs, ours = 8 * n * n / total, 8 * plan["n"] ** 2 / total
    assert (plan["p"], plan["q"]) == (p, q)
    # they size the matrix alone; we size matrix, panels and buffers to the same 80 %
    assert ours <= theirs <= 0.80
    assert plan["n"] >= 0.93 * n
    assert all(host["planned_bytes"] <= 0.8 * host["memory_bytes"] for host in plan["hosts"])


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_cluster_stays_within_memory_and_leaves_no_block_out(node, cluster):
    gib, nodes, cores = cluster
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


def leaves(value, path=()):
    """The path of every value inside ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield (*path, key)
        yield from leaves(inside, (*path, key))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_recorded_facts_gives_a_plan_or_our_error(device, data):
    text = (Path(__file__).parents[3] / "docs" / "facts" / "mi1.json").read_text()
    facts = json.loads(text)
    *path, last = data.draw(st.sampled_from([p for p in leaves(facts) if p[0] != "sources"]))
    place = facts
    for key in path:
        place = place[key]
    place[last] = data.draw(json_values)
    nodes = [{"name": "a", "facts": facts}, {"name": "b", "facts": json.loads(text)}]
    options = {"device": device, "layout": data.draw(st.sampled_from(_hpl.LAYOUTS))}
    if device == "gpu":
        del options["layout"]
    try:
        plan = _hpl.plan(nodes, options)
    except HplError:
        return
    assert all(host["planned_bytes"] <= host["memory_bytes"] for host in plan["hosts"])
    assert plan["p"] * plan["q"] == plan["ranks"]


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
    options = {"ranks_per_node": 2, "threads_per_rank": 1, "efficiency": 0.5}
    plan = _hpl.plan([node(cores=4, rpeak_gflops=160.0)], options)
    assert (plan["rpeak_gflops"], plan["expected_gflops"]) == (80, 40)
    # ranks without a number of threads share all cores
    plan = _hpl.plan([node(cores=4, rpeak_gflops=160.0)], {"ranks_per_node": 2, "efficiency": 0.5})
    assert (plan["threads_per_rank"], plan["rpeak_gflops"], plan["expected_gflops"]) == (2, 160, 80)


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


# results of geerlingguy/top500-benchmark, all 1 Gbit/s: nodes, cores, GiB, GFLOPS of one such node, of all
@pytest.mark.parametrize(
    ("nodes", "cores", "gib", "alone", "together"),
    [(4, 4, 8, 11.433, 44.942), (6, 4, 8, 11.433, 60.293), (4, 8, 16, 59.810, 224.60)],
    ids=["4 CM4", "6 CM4", "4 RK1"],
)
def test_published_clusters_run_as_fast_as_expected(node, nodes, cores, gib, alone, together):
    hosts = [node(f"n{i}", gib, cores) for i in range(nodes)]
    for host in hosts:
        host["facts"]["network"] = {"fastest_mbit": 1000, "kind": "ethernet"}
    plan = _hpl.plan(hosts, {"gflops_per_core": alone / cores})
    assert plan["expected_gflops"] == pytest.approx(together, rel=0.12)
    assert 0 < plan["network_seconds"] < plan["expected_seconds"]


def test_a_slower_link_takes_longer_and_one_node_needs_none(node):
    def seconds(mbit, count=4):
        hosts = [node(f"n{i}", rpeak_gflops=500.0) for i in range(count)]
        for host in hosts:
            host["facts"]["network"] = {"fastest_mbit": mbit, "kind": "ethernet"}
        plan = _hpl.plan(hosts, {"n": 60000})
        return plan["expected_seconds"], plan["network_seconds"]

    assert seconds(1000)[0] > seconds(10000)[0] > seconds(100000)[0]
    assert seconds(1000, 1)[1] is None
    hosts = [node(f"n{i}", rpeak_gflops=500.0) for i in range(2)]
    assert any("no link speed" in warning for warning in _hpl.plan(hosts)["warnings"])


def epyc_facts(node, name="n1", **cpu):
    """64 cores in 2 sockets, 4 NUMA nodes and 16 L3 groups."""
    facts = {
        "cores_per_l3": [4] * 16,
        "cores_per_socket": [32, 32],
        "numa": [{"node": i, "cores": 16, "memory_bytes": 128 * GIB} for i in range(4)],
        "rpeak_gflops": 2867.2,
        "dp_flops_per_cycle": 16,
    }
    return node(name, 500, 64, **(facts | cpu))


@pytest.mark.parametrize(
    ("layout", "ranks", "threads", "p", "q"),
    [
        ("core", 64, 1, 8, 8),
        ("l3", 16, 4, 4, 4),
        ("numa", 4, 16, 2, 2),
        ("socket", 2, 32, 1, 2),
        ("node", 1, 64, 1, 1),
    ],
)
def test_layouts(node, layout, ranks, threads, p, q):
    plan = _hpl.plan([epyc_facts(node)], {"layout": layout})
    assert (plan["ranks"], plan["threads_per_rank"], plan["p"], plan["q"]) == (ranks, threads, p, q)
    assert plan["layout"] == layout
    assert plan["hosts"][0]["threads"] == threads
    assert plan["rpeak_gflops"] == 2867.2


def test_a_ragged_domain_gives_every_rank_what_the_smallest_has(node):
    plan = _hpl.plan([epyc_facts(node, cores_per_l3=[4] * 15 + [3])], {"layout": "l3"})
    assert (plan["ranks"], plan["threads_per_rank"]) == (16, 3)
    # a quota of 24 CPUs on 16 groups leaves one core a group
    plan = _hpl.plan([epyc_facts(node, usable_cores=24)], {"layout": "l3"})
    assert (plan["ranks"], plan["threads_per_rank"]) == (16, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "l3"}, "does not tell its l3 domains"),
        ({"layout": "tile"}, "layout must be one of core, l3, numa, socket, node"),
        ({"layout": "numa", "threads_per_rank": 2}, "layout=numa decides threads_per_rank too"),
        ({"heterogeneous": "proportional", "p": 2, "q": 2}, "heterogeneous=proportional decides p and q too"),
        ({"heterogeneous": "fair"}, "heterogeneous must be one of weakest, proportional"),
        ({"device": "gpu"}, "node1 has no AMD GPU"),
        ({"device": "tpu"}, "device must be one of cpu, gpu"),
        ({"align": "grid", "n": 256}, "N=256 is smaller than NB lcm(4, 4)=1024"),
    ],
)
def test_refused_choices(node, options, words):
    with pytest.raises(HplError) as caught:
        _hpl.plan([node()], options)
    assert words in str(caught.value)


@given(st.integers(1, 60), st.sampled_from([64, 100, 256]))
def test_align_grid_gives_every_rank_the_same_blocks(cores, nb):
    host = {"name": "a", "facts": {"memory": {"usable_bytes": 512 * GIB}, "cpu": {"usable_cores": cores}}}
    plan = _hpl.plan([host], {"align": "grid", "nb": nb})
    assert plan["n"] % (nb * plan["p"]) == plan["n"] % (nb * plan["q"]) == 0
    assert plan["n"] + nb * math.lcm(plan["p"], plan["q"]) > _hpl.plan([host], {"nb": nb})["n"]


def test_measured_dgemm_comes_before_rpeak(node):
    host = node(cores=4, rpeak_gflops=160.0)
    assert _hpl.plan([host])["expected_gflops"] == pytest.approx(160 * 0.75)
    assert _hpl.plan([host | {"dgemm_gflops": 100}])["expected_gflops"] == pytest.approx(90)
    assert _hpl.plan([host | {"dgemm_gflops": 100}], {"gflops_per_core": 10})["expected_gflops"] == 40


def test_the_slowest_rank_sets_the_pace(node):
    fast, slow = node("fast", cores=8, rpeak_gflops=320.0), node("slow", cores=8, rpeak_gflops=160.0)
    plan = _hpl.plan([fast, slow], {"efficiency": 1})
    assert plan["expected_gflops"] == 16 * 20
    assert plan["heterogeneous"]["all_cores_gflops"] == 480
    assert plan["heterogeneous"]["weakest"]["given_up_gflops"] == 160
    assert any("weakest (chosen)" in w and "gives up 160 GFLOPS" in w for w in plan["warnings"])


def test_proportional_gives_slow_cores_more_threads(node):
    fast, slow = node("fast", cores=8, rpeak_gflops=320.0), node("slow", cores=8, rpeak_gflops=160.0)
    plan = _hpl.plan([fast, slow], {"efficiency": 1, "heterogeneous": "proportional"})
    dealt = {host["name"]: (host["slots"], host["threads"]) for host in plan["hosts"]}
    assert dealt == {"fast": (8, 1), "slow": (4, 2)}
    assert plan["expected_gflops"] == 480
    assert plan["heterogeneous"]["proportional"]["given_up_gflops"] == 0
    assert plan["binding"].startswith("none")


def test_proportional_leaves_out_what_would_hold_the_others_up(node):
    hosts = [node(f"n{i}", 64, 16, rpeak_gflops=640.0) for i in range(4)]
    hosts.append(node("tiny", 1, 1, rpeak_gflops=4.0))
    weakest, dealt = (_hpl.plan(hosts, {"heterogeneous": how}) for how in ("weakest", "proportional"))
    assert "tiny" not in {host["name"] for host in dealt["hosts"]}
    assert any("tiny has no rank" in warning for warning in dealt["warnings"])
    assert dealt["expected_gflops"] > 5 * weakest["expected_gflops"]
    assert dealt["heterogeneous"]["weakest"]["expected_gflops"] == weakest["expected_gflops"]


def test_alike_nodes_need_no_choice(node):
    hosts = [node("a", 64.0, rpeak_gflops=500.0), node("b", 63.0, rpeak_gflops=500.0)]
    assert _hpl.plan(hosts)["heterogeneous"] is None
    assert _hpl.plan([hosts[0], node("c", 40, rpeak_gflops=500.0)])["heterogeneous"] is not None


unequal_nodes = st.lists(
    st.tuples(st.integers(1, 64), st.floats(4, 512), st.sampled_from([None, 5.0, 20.0, 44.8])),
    min_size=1,
    max_size=7,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=unequal_nodes, how=st.sampled_from(["weakest", "proportional"]), order=st.randoms())
def test_properties_of_unequal_nodes(node, shapes, how, order):
    hosts = [
        node(f"n{i}", gib, cores, rpeak_gflops=rate and rate * cores)
        for i, (cores, gib, rate) in enumerate(shapes)
    ]
    for host in hosts:
        host["facts"]["network"] = {"fastest_mbit": 25000, "kind": "ethernet"}
    plan = _hpl.plan(hosts, {"heterogeneous": how, "nb": 32})
    cores = {host["name"]: host["facts"]["cpu"]["physical_cores"] for host in hosts}
    assert sum(host["slots"] for host in plan["hosts"]) == plan["ranks"] == plan["p"] * plan["q"]
    for host in plan["hosts"]:
        assert 1 <= host["slots"] * host["threads"] <= cores[host["name"]]
        assert host["planned_bytes"] <= 0.8 * host["memory_bytes"]
    told = plan["heterogeneous"]
    if told and told["all_cores_gflops"]:
        assert told[how]["expected_gflops"] == plan["expected_gflops"] <= told["all_cores_gflops"]
    if told and "proportional" in told and None not in {rate for _c, _g, rate in shapes}:
        # all ways of dealing that are tried include fewer ranks of the fast nodes alone
        assert told["proportional"]["expected_gflops"] > 0
    order.shuffle(hosts)
    assert _hpl.plan(hosts, {"heterogeneous": how, "nb": 32}) == plan


def test_what_a_person_should_know(node):
    host = epyc_facts(
        node,
        core_classes=[
            {"name": "performance", "cores": 64, "cpus": "0-63", "chosen": True},
            {"name": "efficiency", "cores": 16, "cpus": "64-79", "chosen": False},
        ],
        numa=[{"node": i, "cores": 16, "memory_bytes": 503 * GIB if i == 0 else 2 * GIB} for i in range(4)],
    )
    host["facts"] |= {"nofile": 256, "blas": {"library": "openblas", "kernel": "PRESCOTT"}}
    plan = _hpl.plan([host])
    said = "\n".join(plan["warnings"])
    for words in (
        "the 64 of class performance (CPUs 0-63) and leaves 16 idle",
        "openblas selected the kernel PRESCOTT",
        "NUMA node 3 has 2.00 GiB for the",
        "allows 256 open files, and 64 ranks may need 577",
    ):
        assert words in said
    assert plan["hosts"][0]["cpus"] == "0-63"


def test_a_slow_kernel_is_named_and_the_better_one_is_set(node):
    host = node(dp_flops_per_cycle=32)
    host["facts"] |= {"machine": "x86_64", "blas": {"library": "openblas", "kernel": "PRESCOTT"}}
    plan = _hpl.plan([host])
    assert plan["hosts"][0]["env"] == {"OPENBLAS_CORETYPE": "SKYLAKEX"}
    assert any("the run sets OPENBLAS_CORETYPE=SKYLAKEX" in warning for warning in plan["warnings"])
    for blas, machine in (("SKYLAKEX", "x86_64"), ("PRESCOTT", "aarch64"), (None, "x86_64")):
        host["facts"] |= {"machine": machine, "blas": {"library": "openblas", "kernel": blas}}
        assert "env" not in _hpl.plan([host])["hosts"][0]


@pytest.mark.parametrize(
    ("name", "cores", "rpeak", "published"),
    [  # results of geerlingguy/top500-benchmark on one node
        ("cortex-a72", 4, 24.0, 11.433),  # Raspberry Pi CM4, 1.5 GHz
        ("cortex-a76", 4, 76.8, 31.477),  # Raspberry Pi CM5, 2.4 GHz
        ("neoverse-n1", 96, 2150.4, 1188.3),  # Altra Max M96-28
        ("ampereone", 192, 3993.6, 2745.1),  # A192-26X
    ],
)
def test_arm_boards_reach_what_was_published(node, name, cores, rpeak, published):
    plan = _hpl.plan([node(cores=cores, gib=8 * cores, microarchitecture=name, rpeak_gflops=rpeak)])
    assert plan["expected_gflops"] == pytest.approx(published, rel=0.15)


def test_nb_follows_the_blas(node):
    for library, nb in (("openblas", 256), ("blis", 240), (None, 256)):
        host = node()
        host["facts"]["blas"] = library and {"library": library, "kernel": None}
        assert _hpl.plan([host])["nb"] == nb
