"""The GPU plan against the sizes that AMD publishes for rocHPL."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils import _hpl, _hpl_size
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30

# rocHPL's wiki and README: GPU, gfx target, GiB, NB, {(P, Q): N}
PUBLISHED = [
    ("MI50", "gfx906", 16, 384, {(1, 1): 44928, (1, 2): 63744, (2, 2): 89856, (2, 4): 127488}),
    ("MI100", "gfx908", 32, 512, {(1, 1): 64512, (1, 2): 90112, (2, 2): 126976, (2, 4): 180224}),
    (
        "MI250X",
        "gfx90a",
        64,
        512,
        {(1, 1): 90112, (1, 2): 128000, (2, 2): 180224, (2, 4): 256000, (4, 4): 360448},
    ),
    ("MI355X", "gfx950", 288, 896, {(1, 1): 193280, (1, 2): 273280, (2, 2): 387072, (2, 4): 546560}),
]
POINTS = [(*row[:4], grid, n) for row in PUBLISHED for grid, n in row[4].items()]


def gpu_node(name="mi1", gpus=8, gib=64, target="gfx90a", model="MI250X", cores=64, numa=4, host_gib=512):
    return {
        "name": name,
        "facts": {
            "memory": {"usable_bytes": host_gib * GIB},
            "cpu": {
                "usable_cores": cores,
                "numa": [{"node": i, "cores": cores // numa, "memory_bytes": None} for i in range(numa)],
            },
            "gpus": [
                {
                    "vendor": "amd",
                    "name": model,
                    "target": target,
                    "memory_bytes": int(gib * GIB),
                    "numa_node": i * numa // gpus,
                }
                for i in range(gpus)
            ],
        },
    }


def gpu_plan(nodes, **options):
    return _hpl.plan(nodes, {"device": "gpu", **options})


@pytest.mark.parametrize(("model", "target", "gib", "nb", "grid", "n"), POINTS)
def test_published_sizes(model, target, gib, nb, grid, n):
    ranks = grid[0] * grid[1]
    nodes = [gpu_node(f"n{i}", min(ranks, 8), gib, target, model) for i in range(-(-ranks // 8))]
    plan = gpu_plan(nodes)
    assert (plan["nb"], plan["p"], plan["q"]) == (nb, *grid)
    assert plan["n"] == pytest.approx(n, rel=0.02)
    assert all(host["planned_bytes"] <= host["memory_bytes"] for host in plan["hosts"])
    assert plan["n"] % nb == 0


def test_a_node_of_eight_gcds():
    plan = gpu_plan([gpu_node()])
    assert (plan["ranks"], plan["p"], plan["q"], plan["local_p"], plan["local_q"]) == (8, 2, 4, 2, 4)
    assert plan["threads_per_rank"] == 8  # 16 cores of a NUMA node for its two GCDs
    assert plan["rpeak_gflops"] == pytest.approx(8 * 47850)
    # AMD's published run: 161.97 TFLOPS on four MI250X
    assert plan["expected_gflops"] == pytest.approx(161970, rel=0.02)


@given(st.integers(1, 24), st.integers(1, 8))
def test_local_grids_divide_the_grid(nodes, per_node):
    try:
        plan = gpu_plan([gpu_node(f"n{i:02}", per_node) for i in range(nodes)])
    except HplError as error:
        pytest.fail(str(error))
    p, q = plan["local_p"], plan["local_q"]
    assert plan["p"] % p == plan["q"] % q == 0
    assert p * q == per_node
    assert plan["p"] * plan["q"] == plan["ranks"] == nodes * per_node
    assert plan["p"] <= plan["q"]


@given(st.integers(1, 200), st.sampled_from([384, 512, 896]), st.integers(1, 4), st.integers(1, 8))
def test_rank_bytes_counts_each_array(blocks, nb, p, q):
    rows, columns = -(-blocks // p) * nb, -(-blocks // q) * nb
    matrix, panels = _hpl_size.rochpl_rank_bytes(blocks * nb, nb, p, q)
    assert matrix == 8 * rows * columns
    assert panels >= 8 * (2 * nb * rows + 3 * nb * columns + 4 * nb * nb)


@pytest.mark.parametrize(
    ("node", "options", "words"),
    [
        (gpu_node(gpus=0), {}, "mi1 has no AMD GPU"),
        (gpu_node(), {"ranks_per_node": 9}, "mi1 has 8 GPUs, too few for 9 ranks"),
        (gpu_node(), {"layout": "l3"}, "layout is for CPU plans"),
        (gpu_node(), {"n": 10**6}, "does not fit: a GPU of mi1 has 62.72 GiB (98% of 64.00 GiB)"),
        (gpu_node(), {"p": 3}, "p x q = 3 x 2 = 6 processes"),
        (gpu_node(gib=0.001), {}, "even N = NB = 512"),
        (gpu_node(host_gib=1), {}, "of host memory for the"),
    ],
)
def test_refusals(node, options, words):
    with pytest.raises(HplError) as caught:
        gpu_plan([node], **options)
    assert words in str(caught.value)


def test_nodes_with_unequal_numbers_of_gpus_are_refused_with_the_remedy():
    with pytest.raises(HplError, match=r"\[4, 8\]; set ranks_per_node"):
        gpu_plan([gpu_node("a"), gpu_node("b", 4)])
    assert gpu_plan([gpu_node("a"), gpu_node("b", 4)], ranks_per_node=4)["ranks"] == 8


def test_the_smallest_gpu_and_the_slowest_bind():
    plan = gpu_plan([gpu_node("a"), gpu_node("b", gib=32, target="gfx908", model="MI100")])
    assert plan["n"] == gpu_plan([gpu_node(n, gib=32, target="gfx908", model="MI100") for n in "ab"])["n"]
    assert plan["rpeak_gflops"] == pytest.approx(16 * 11500)
    assert any("the slower set the pace" in warning for warning in plan["warnings"])


def test_an_nvidia_node_is_named():
    node = gpu_node()
    for gpu in node["facts"]["gpus"]:
        gpu["vendor"] = "nvidia"
    with pytest.raises(HplError, match="8 of another maker"):
        gpu_plan([node])
