"""The contiguous KV cache."""

from __future__ import annotations

import torch
from torch import Tensor

from kvserve.config import ModelConfig
from kvserve.errors import CacheError


class KVCache:
    """Keys and values of ``batch`` sequences of equal length, allocated once for ``max_seq_len`` positions.

    Each layer holds two tensors ``(B, H_kv, max_seq_len, D)``. The memory is reserved, not touched: the
    operating system gives pages as positions are filled.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        batch: int = 1,
        max_seq_len: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        limit = config.max_seq_len if max_seq_len is None else max_seq_len
        if batch < 1:
            raise CacheError(f"batch is {batch}; it must be at least 1")
        if not 1 <= limit <= config.max_seq_len:
            raise CacheError(f"max_seq_len is {limit}; this model allows 1 to {config.max_seq_len}")
        shape = (batch, config.n_kv_heads, limit, config.head_dim)
        self.batch = batch
        self.max_seq_len = limit
        self.length = 0
        self._k = [torch.empty(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]
        self._v = [torch.empty(shape, dtype=dtype, device=device) for _ in range(config.n_layers)]

    def check_room(self, n_new: int) -> None:
        """Raise ``CacheError`` unless ``n_new`` (at least 1) more positions fit."""
        if n_new < 1:
            raise CacheError(f"cannot add {n_new} positions; at least 1 is needed")
        if self.length + n_new > self.max_seq_len:
            raise CacheError(
                f"{n_new} positions after {self.length} exceed the cache of {self.max_seq_len}; "
                "shorten the prompt or raise max_seq_len"
            )

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write ``k, v (B, H_kv, T, D)`` after the valid prefix of ``layer``; return views ``(B, H_kv, S,
        D)``.

        The prefix itself grows only with :meth:`advance`, once every layer has written.
        """
        n_new = k.shape[2]
        self.check_room(n_new)
        if k.shape[0] != self.batch:
            raise CacheError(f"{k.shape[0]} sequences do not fit a cache made for {self.batch}")
        end = self.length + n_new
        self._k[layer][:, :, self.length : end] = k
        self._v[layer][:, :, self.length : end] = v
        return self._k[layer][:, :, :end], self._v[layer][:, :, :end]

    def advance(self, n_new: int) -> None:
        """Count ``n_new`` positions, written in every layer, as valid."""
        self.check_room(n_new)
        self.length += n_new

    def truncate(self, length: int) -> None:
        """Keep only the first ``length`` positions."""
        if not 0 <= length <= self.length:
            raise CacheError(f"cannot truncate to {length}; the cache holds {self.length} positions")
        self.length = length
