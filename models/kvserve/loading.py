"""A checkpoint file becomes a decoder and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch

from kvserve.decoder import Decoder, weight_shapes
from kvserve.gguf import GGUFFile
from kvserve.tokenizer import Tokenizer


def load_checkpoint(path: str | Path) -> tuple[Decoder, Tokenizer]:
    """Read the GGUF file ``path`` into fp32; peak memory is one copy of the weights and one tensor.

    Raises ``CheckpointError`` or ``ConfigError`` when the file is damaged, unsupported, or contradicts
    itself.
    """
    file = GGUFFile(path)
    config = file.config()
    file.check_tensors(config, weight_shapes(config))
    decoder = Decoder(config, lambda name: torch.from_numpy(file.weight(name, config))).eval()
    return decoder, Tokenizer.from_gguf(file)
