"""Building blocks of the decoder. Shapes: B sequences, T new positions, S positions attended to, H heads, D
head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    """``y = x Wᵀ`` without a bias, one matmul for all the weights given (each ``(out_i, in)``).

    On a CPU with oneDNN the weight is kept in oneDNN's blocked layout instead of its own: measured against
    ``F.linear`` that is 1.3 times as fast for one row and twice as fast for 64, since nothing is repacked per
    call.
    """

    def __init__(self, *weights: Tensor, prepack: bool = True) -> None:
        super().__init__()
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        self.out_features, self.in_features = weight.shape
        self.packed = (
            prepack
            and weight.device.type == "cpu"
            and weight.dtype == torch.float32
            and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        )
        # An opaque oneDNN tensor can be neither a parameter nor saved, hence a plain attribute on that path.
        self.weight: Tensor
        if self.packed:
            object.__setattr__(self, "weight", torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()))
        else:
            self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in)`` -> ``(..., out)``."""
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
            return y
        return F.linear(x, self.weight)


class Embedding(nn.Module):
    """Token embedding ``(V, d)``, which is also the output head when the two are tied."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(B, T)`` ids -> ``(B, T, d)``."""
        return F.embedding(tokens, self.weight)

    def logits(self, x: Tensor) -> Tensor:
        """``(B, T, d)`` -> ``(B, T, V)``. The tall matrix goes first: BLAS is fastest that way."""
        flat = self.weight @ x.flatten(0, 1).t()
        return flat.t().reshape(*x.shape[:2], -1)


class RMSNorm(nn.Module):
    """Root mean square normalisation (Zhang and Sennrich, 2019): the mean of squares in fp32, gain after the
    cast.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """``(..., d)`` -> ``(..., d)``."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * self.weight


def rope_table(head_dim: int, max_seq_len: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding (Su et al., 2021), each ``(max_seq_len, 1, head_dim / 2)`` in
    fp32.

    Pair ``i`` turns by ``position * base ** (-2 i / head_dim)``.
    """
    inverse = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.outer(torch.arange(max_seq_len, dtype=torch.float32), inverse).unsqueeze(1)
    return angle.cos(), angle.sin()


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate ``x (B, T, H, D)`` by rows of ``rope_table`` ``(T, 1, D/2)``; half-split: ``i`` pairs with ``i +
    D/2``.
    """
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def causal_mask(n_new: int, n_total: int, device: torch.device) -> Tensor:
    """``(T, S)`` bool, true where attention is allowed: position ``t`` sees the first ``S - T + t + 1``."""
    return torch.ones(n_new, n_total, dtype=torch.bool, device=device).tril(n_total - n_new)


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of ``q (B, H, T, D)`` over ``k, v (B, H_kv, S, D)``; ``mask`` is ``(T, S)`` or None for all.

    Each KV head serves ``H / H_kv`` query heads without being repeated in memory. Returns ``(B, H, T, D)``.
    """
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


class SwiGLU(nn.Module):
    """``W_down (silu(W_gate x) * W_up x)`` (Shazeer, 2020) with gate and up in one matmul."""

    def __init__(self, gate: Tensor, up: Tensor, down: Tensor, *, prepack: bool = True) -> None:
        super().__init__()
        self.gate_up = Linear(gate, up, prepack=prepack)
        self.down = Linear(down, prepack=prepack)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, d)`` -> ``(B, T, d)``."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        y: Tensor = self.down(F.silu(gate) * up)
        return y


def split_heads(x: Tensor, sizes: Sequence[int], head_dim: int) -> tuple[Tensor, ...]:
    """``(B, T, sum(sizes) * D)`` -> one ``(B, T, H_i, D)`` per entry of ``sizes``."""
    heads = x.view(*x.shape[:2], sum(sizes), head_dim)
    return torch.split(heads, list(sizes), dim=2)
