"""The numbers that define a decoder of the Llama line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvserve.errors import ConfigError


@dataclass(frozen=True)
class ModelConfig:
    """Shape of one decoder-only transformer: RMSNorm, RoPE, grouped-query attention, SwiGLU.

    Raises ``ConfigError`` when a value is out of range or two values contradict each other.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    max_seq_len: int
    norm_eps: float = 1e-5
    rope_base: float = 10000.0
    tied_embeddings: bool = True
    eos_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "d_model",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "head_dim",
            "d_ff",
            "max_seq_len",
        ):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        for name in ("norm_eps", "rope_base"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} is {value}; it must be a positive number")
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.n_kv_heads}; "
                "each KV head serves a whole group of query heads"
            )
        if self.head_dim % 2:
            raise ConfigError(f"head_dim is {self.head_dim}; RoPE rotates pairs, so it must be even")
        bad = sorted(i for i in self.eos_ids if not 0 <= i < self.vocab_size)
        if bad:
            raise ConfigError(f"eos ids {bad} are outside the vocabulary of {self.vocab_size}")

    @property
    def n_params(self) -> int:
        """Parameters by closed form; a tied head is counted once."""
        embedding = self.vocab_size * self.d_model
        attention = 2 * self.d_model * self.head_dim * (self.n_heads + self.n_kv_heads)
        block = attention + 3 * self.d_model * self.d_ff + 2 * self.d_model
        head = 0 if self.tied_embeddings else embedding
        return embedding + self.n_layers * block + self.d_model + head

    def kv_bytes_per_token(self, bytes_per_element: int = 4) -> int:
        """Bytes that one position takes in the KV cache over all layers (keys and values)."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * bytes_per_element
