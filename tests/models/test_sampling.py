"""Sampling against a slow exact version, and its laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvserve.errors import RequestError
from kvserve.sampling import Sampler, SamplingParams, nucleus

# Distinct by far more than fp32 can confuse, so that order is never a matter of rounding.
LOGITS = st.lists(st.integers(-400, 400), min_size=1, max_size=12, unique=True).map(
    lambda xs: [x / 40 for x in xs]
)


def exact(logits: list[float], top_k: int, top_p: float) -> dict[int, float]:
    order = sorted(range(len(logits)), key=lambda i: -logits[i])[: top_k or None]
    weights = {i: math.exp(logits[i] - max(logits)) for i in order}
    total = math.fsum(weights.values())
    kept, mass = {}, 0.0
    for i in order:
        if kept and mass >= top_p:
            break
        kept[i] = weights[i] / total
        mass += kept[i]
    return {i: p / math.fsum(kept.values()) for i, p in kept.items()}


@given(LOGITS, st.integers(0, 14), st.floats(0.01, 1.0))
def test_nucleus_equals_the_exact_version(logits, top_k, top_p):
    got = nucleus(torch.tensor(logits), top_k, top_p)
    want = exact(logits, top_k, top_p)
    assert got.sum().item() == pytest.approx(1, abs=1e-5)
    assert got[torch.tensor(logits).argmax()] > 0
    # A mass that meets top_p to the last bit of fp32 may fall either way; such cases say nothing.
    masses = exact(logits, top_k, 1.0)
    running, edge = 0.0, False
    for p in sorted(masses.values(), reverse=True):
        running += p
        edge = edge or abs(running - top_p) < 1e-5
    if not edge:
        for i, p in enumerate(got.tolist()):
            assert p == pytest.approx(want.get(i, 0.0), abs=1e-5)


def test_frequencies_follow_the_probabilities():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    sampler = Sampler(SamplingParams(temperature=0.7, seed=5))
    n = 20_000
    counts = torch.bincount(torch.tensor([sampler(logits) for _ in range(n)]), minlength=4)
    expected = torch.softmax(logits / 0.7, -1)
    chi_square = ((counts - n * expected) ** 2 / (n * expected)).sum()
    assert chi_square < 16.3  # 0.1 % point of chi-square with 3 degrees of freedom


def test_seeds_repeat_and_neighbours_do_not_disturb():
    logits = torch.randn(50, generator=torch.Generator().manual_seed(0))
    params = SamplingParams(temperature=1.3, seed=-7)
    alone, other = Sampler(params), Sampler(SamplingParams())
    tokens = [alone(logits) for _ in range(40)]
    again = Sampler(params)
    mixed = []
    for _ in range(40):
        other(logits)
        torch.rand(3)
        mixed.append(again(logits))
    assert mixed == tokens
    assert [Sampler(SamplingParams())(torch.zeros(10**6)) for _ in range(3)] != [0, 0, 0]


def test_without_a_seed_answers_differ():
    logits = torch.zeros(10**6)
    assert len({Sampler(SamplingParams())(logits) for _ in range(4)}) > 1


def test_greedy_and_nearly_greedy_choose_the_maximum():
    logits = torch.tensor([0.0, 5.0, 90.0, -3.0])
    for temperature in (0.0, 1e-30, 1e-6):
        assert Sampler(SamplingParams(temperature=temperature))(logits) == 2
    assert Sampler(SamplingParams(top_k=1))(logits) == 2
    assert Sampler(SamplingParams(top_p=1e-9))(logits) == 2


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
    ],
)
def test_values_out_of_range_are_named(values, param):
    with pytest.raises(RequestError, match=f"{param} is") as caught:
        SamplingParams(**values)
    assert caught.value.param == param
