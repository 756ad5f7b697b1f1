"""The decoder of the Llama line."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kvserve.cache import KVCache
from kvserve.config import ModelConfig
from kvserve.errors import RequestError
from kvserve.layers import (
    Embedding,
    Linear,
    RMSNorm,
    SwiGLU,
    apply_rope,
    causal_mask,
    grouped_query_attention,
    rope_table,
    split_heads,
)

WeightSource = Callable[[str], Tensor]
"""Gives the weight of a name from :func:`weight_shapes`, in that shape."""


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every weight of the decoder by name, with its shape; matrices are ``(out, in)``."""
    d, d_ff = config.d_model, config.d_ff
    d_q, d_kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    block: dict[str, tuple[int, ...]] = {
        "attn_norm": (d,),
        "q": (d_q, d),
        "k": (d_kv, d),
        "v": (d_kv, d),
        "o": (d, d_q),
        "ffn_norm": (d,),
        "gate": (d_ff, d),
        "up": (d_ff, d),
        "down": (d, d_ff),
    }
    shapes: dict[str, tuple[int, ...]] = {"embed": (config.vocab_size, d)}
    for i in range(config.n_layers):
        shapes |= {f"blocks.{i}.{name}": shape for name, shape in block.items()}
    shapes["norm"] = (d,)
    if not config.tied_embeddings:
        shapes["head"] = (config.vocab_size, d)
    return shapes


class Attention(nn.Module):
    """Causal grouped-query self-attention with rotary positions; q, k and v come from one matmul."""

    def __init__(self, config: ModelConfig, layer: int, weight: WeightSource, prepack: bool) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        self.n_heads, self.n_kv_heads = config.n_heads, config.n_kv_heads
        self.qkv = Linear(weight("q"), weight("k"), weight("v"), prepack=prepack)
        self.out = Linear(weight("o"), prepack=prepack)

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        """``(B, T, d)`` -> ``(B, T, d)``."""
        qk, v = split_heads(self.qkv(x), (self.n_heads + self.n_kv_heads, self.n_kv_heads), self.head_dim)
        q, k = torch.split(apply_rope(qk, *rope).transpose(1, 2), [self.n_heads, self.n_kv_heads], dim=1)
        v = v.transpose(1, 2)
        if cache is not None:
            k, v = cache.update(self.layer, k, v)
        y: Tensor = self.out(grouped_query_attention(q, k, v, mask).transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    """One pre-norm residual block."""

    def __init__(self, config: ModelConfig, layer: int, weight: WeightSource, prepack: bool) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(weight("attn_norm"), config.norm_eps)
        self.attn = Attention(config, layer, weight, prepack)
        self.ffn_norm = RMSNorm(weight("ffn_norm"), config.norm_eps)
        self.ffn = SwiGLU(weight("gate"), weight("up"), weight("down"), prepack=prepack)

    def forward(
        self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | None, cache: KVCache | None
    ) -> Tensor:
        """``(B, T, d)`` -> ``(B, T, d)``."""
        residual = x + self.attn(self.attn_norm(x), rope, mask, cache)
        y: Tensor = residual + self.ffn(self.ffn_norm(residual))
        return y


class Decoder(nn.Module):
    """Token ids to logits.

    Weights are asked for one by one while the model is put together, so no more than one layer exists twice.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig, weight: WeightSource, *, prepack: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(weight("embed"))
        self.blocks = nn.ModuleList(
            Block(config, i, lambda name, i=i: weight(f"blocks.{i}.{name}"), prepack)  # type: ignore[misc]
            for i in range(config.n_layers)
        )
        self.norm = RMSNorm(weight("norm"), config.norm_eps)
        self.head = self.embed if config.tied_embeddings else Embedding(weight("head"))
        cos, sin = rope_table(config.head_dim, config.max_seq_len, config.rope_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens: Tensor, cache: KVCache | None = None, *, last_only: bool = False) -> Tensor:
        """Logits ``(B, T, V)`` for ``tokens (B, T)``, which follow what ``cache`` already holds.

        With ``last_only`` the head runs for the last position alone and the result is ``(B, 1, V)``.
        Raises ``RequestError`` for an empty or too long sequence and for ids outside the vocabulary,
        ``CacheError`` when the cache is full.
        """
        n_new = tokens.shape[1]
        past = cache.length if cache is not None else 0
        self._check(tokens, past + n_new)
        if cache is not None:
            cache.check_room(n_new)
        rope = (self.cos[past : past + n_new], self.sin[past : past + n_new])
        mask = causal_mask(n_new, past + n_new, tokens.device) if n_new > 1 else None
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, rope, mask, cache)
        if cache is not None:
            cache.advance(n_new)
        if last_only:
            x = x[:, -1:]
        return self.head.logits(self.norm(x))

    def _check(self, tokens: Tensor, total: int) -> None:
        if tokens.numel() == 0:
            raise RequestError("the sequence is empty; at least one token is needed", param="prompt")
        if total > self.config.max_seq_len:
            raise RequestError(
                f"{total} positions exceed the model's {self.config.max_seq_len}; shorten the prompt",
                param="prompt",
                code="context_length_exceeded",
            )
        low, high = (int(bound) for bound in torch.aminmax(tokens))
        if low < 0 or high >= self.config.vocab_size:
            bad = low if low < 0 else high
            raise RequestError(
                f"token id {bad} is outside the vocabulary of {self.config.vocab_size}", param="prompt"
            )
