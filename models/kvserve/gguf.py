"""GGUF files of the llama architecture become a configuration and a decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from kvserve.config import ModelConfig
from kvserve.errors import CheckpointError

ARCHITECTURE = "llama"
_ROWS_AT_ONCE = 4096
_BLOCK_NAMES = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
_OUTER_NAMES = {"embed": "token_embd", "norm": "output_norm", "head": "output"}


def gguf_name(name: str) -> str:
    """The GGUF tensor that holds the weight ``name`` of ``decoder.weight_shapes``."""
    if name in _OUTER_NAMES:
        return f"{_OUTER_NAMES[name]}.weight"
    _, layer, part = name.split(".")
    return f"blk.{layer}.{_BLOCK_NAMES[part]}.weight"


class GGUFFile:
    """An open GGUF file: its metadata and its tensors, which stay on disk until asked for.

    Raises ``CheckpointError`` when the file is missing, damaged, or of another architecture.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise CheckpointError(f"checkpoint {self.path} is not a file; give the path of a .gguf file")
        try:
            reader = gguf.GGUFReader(self.path)
        except (ValueError, IndexError, KeyError, OverflowError, OSError, UnicodeDecodeError) as error:
            raise CheckpointError(
                f"checkpoint {self.path} is not a complete GGUF file ({error}); fetch it again"
            ) from error
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        architecture = self.field("general.architecture")
        if architecture != ARCHITECTURE:
            raise CheckpointError(
                f"checkpoint {self.path} has architecture {architecture!r}; "
                f"only {ARCHITECTURE!r} is supported"
            )

    def field(self, name: str, default: Any = None) -> Any:
        """The metadata value ``name`` as a Python object; without it ``default``, or ``CheckpointError`` if
        None.
        """
        if name in self._fields:
            return self._fields[name].contents()
        if default is None:
            raise CheckpointError(f"checkpoint {self.path} lacks the field {name}; convert it again")
        return default

    def has_field(self, name: str) -> bool:
        """Whether the metadata holds ``name``."""
        return name in self._fields

    def config(self) -> ModelConfig:
        """The decoder's shape from the metadata; unsupported variants are refused, not approximated."""
        d_model = int(self.field("llama.embedding_length"))
        n_heads = int(self.field("llama.attention.head_count"))
        head_dim = int(self.field("llama.attention.key_length", d_model // n_heads))
        self._refuse_unless("llama.attention.value_length", head_dim)
        self._refuse_unless("llama.rope.dimension_count", head_dim)
        self._refuse_unless("llama.rope.scaling.type", "none")
        self._refuse_unless("llama.expert_count", 0)
        vocab_size = len(self._fields["tokenizer.ggml.tokens"].data)
        self._refuse_unless("llama.vocab_size", vocab_size)
        eos = {
            int(self.field(name))
            for name in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
            if self.has_field(name)
        }
        return ModelConfig(
            vocab_size=vocab_size,
            d_model=d_model,
            n_layers=int(self.field("llama.block_count")),
            n_heads=n_heads,
            n_kv_heads=int(self.field("llama.attention.head_count_kv", n_heads)),
            head_dim=head_dim,
            d_ff=int(self.field("llama.feed_forward_length")),
            max_seq_len=int(self.field("llama.context_length")),
            norm_eps=float(self.field("llama.attention.layer_norm_rms_epsilon")),
            rope_base=float(self.field("llama.rope.freq_base", 10000.0)),
            tied_embeddings=gguf_name("head") not in self._tensors,
            eos_ids=frozenset(eos),
        )

    def check_tensors(self, config: ModelConfig, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise ``CheckpointError`` naming every tensor that is missing, unknown, or of another shape."""
        expected = {gguf_name(name): shape for name, shape in shapes.items()}
        faults = [f"{name} is missing" for name in expected if name not in self._tensors]
        faults += [f"{name} is unknown" for name in self._tensors if name not in expected]
        for name, shape in expected.items():
            # GGUF lists the fastest dimension first.
            found = (
                tuple(int(n) for n in reversed(self._tensors[name].shape)) if name in self._tensors else shape
            )
            if found != shape:
                faults.append(f"{name} has shape {found} and should have {shape}")
        if faults:
            shown = "; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")
            raise CheckpointError(f"checkpoint {self.path} does not fit its configuration: {shown}")

    def weight(self, name: str, config: ModelConfig) -> npt.NDArray[np.float32]:
        """The weight ``name`` in fp32, shape as in ``decoder.weight_shapes``, q and k in half-split RoPE
        order.
        """
        tensor = self._tensors[gguf_name(name)]
        shape = tuple(int(n) for n in reversed(tensor.shape))
        rows = tensor.data.reshape(shape[0], -1) if len(shape) > 1 else tensor.data[None]
        out = np.empty((rows.shape[0], shape[-1]), dtype=np.float32)
        # In slices, so that the temporaries of dequantising stay small beside the weights.
        for start in range(0, rows.shape[0], _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            try:
                out[piece] = gguf.dequantize(rows[piece], tensor.tensor_type)
            except NotImplementedError as error:
                raise CheckpointError(
                    f"{tensor.name} is stored as {tensor.tensor_type.name}, which cannot be dequantised here"
                ) from error
        if not np.isfinite(out).all():
            raise CheckpointError(f"{tensor.name} holds NaN or infinite values; fetch the checkpoint again")
        part = name.rpartition(".")[2]
        if part in ("q", "k"):
            out = half_split_rows(out, config.n_heads if part == "q" else config.n_kv_heads)
        return out.reshape(shape)

    def _refuse_unless(self, name: str, expected: object) -> None:
        if self.has_field(name) and (value := self.field(name)) != expected:
            raise CheckpointError(
                f"checkpoint {self.path} has {name} = {value!r}; only {expected!r} is supported"
            )


def half_split_rows(weight: npt.NDArray[np.float32], n_heads: int) -> npt.NDArray[np.float32]:
    """Undo llama.cpp's row order of q and k.

    Within each head of ``weight (H * D, in)`` rows ``2i`` and ``2i + 1`` are a rotary pair there; here ``i``
    and ``i + D/2`` are.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(n_heads, rows // n_heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))
