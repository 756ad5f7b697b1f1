"""From logits to a token."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kvserve.errors import RequestError


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen. ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 switch those
    off.

    Raises ``RequestError`` naming the parameter that is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 2):
            raise RequestError(f"temperature is {self.temperature}; it must be 0 to 2", param="temperature")
        if self.top_k < 0:
            raise RequestError(f"top_k is {self.top_k}; it must be 0 (off) or more", param="top_k")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p is {self.top_p}; it must be above 0 and at most 1", param="top_p")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise RequestError(f"seed is {self.seed}; it must fit 64 bits", param="seed")


class Sampler:
    """Chooses tokens for one request, with random numbers of its own that no neighbour can disturb."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self._generator = torch.Generator()
        if params.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(params.seed)

    def __call__(self, logits: Tensor) -> int:
        """One token id from ``logits (V,)``."""
        if self.params.temperature == 0:
            return int(logits.argmax())
        # Below the maximum first: dividing the logits themselves by a tiny temperature would overflow.
        scaled = (logits.float() - logits.max()) / self.params.temperature
        probabilities = nucleus(scaled, self.params.top_k, self.params.top_p)
        return int(torch.multinomial(probabilities, 1, generator=self._generator))


def nucleus(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Probabilities ``(V,)`` after top-k, then top-p (Holtzman et al., 2019), which keeps one token or more.

    Top-p keeps the fewest most likely tokens whose probability reaches ``top_p``.
    """
    if 0 < top_k < logits.shape[-1]:
        values, ids = logits.topk(top_k)
    else:
        values, ids = logits.sort(descending=True)
    probabilities = values.softmax(-1)
    if top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
        probabilities = probabilities / probabilities.sum()
    return torch.zeros_like(logits).scatter(-1, ids, probabilities)
