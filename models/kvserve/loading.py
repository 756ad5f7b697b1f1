"""A checkpoint file becomes a decoder and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch

from kvserve.decoder import Decoder, weight_shapes
from kvserve.gguf import GGUFFile
from kvserve.tokenizer import Tokenizer


def load_checkpoint(path: str | Path, *, prepack: bool = True) -> tuple[Decoder, Tokenizer]:
    """Read the GGUF file ``path`` into fp32; peak memory is one copy of the weights and one tensor.

    Without ``prepack`` the matmuls add in the order that PyTorch's own do: slower, and the reference to
    compare with.

    Raises ``CheckpointError`` or ``ConfigError`` when the file is damaged, unsupported, or contradicts
    itself.
    """
    file = GGUFFile(path)
    config = file.config()
    file.check_tensors(config, weight_shapes(config))
    decoder = Decoder(config, lambda name: torch.from_numpy(file.weight(name, config)), prepack=prepack)
    return decoder.eval(), Tokenizer.from_gguf(file)
