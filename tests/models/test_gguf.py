"""GGUF files: what we read equals the model that was written, and faulty files are named as such."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvserve.errors import CheckpointError
from kvserve.loading import load_checkpoint


def test_logits_equal_the_model_that_was_written(tiny, tiny_hf):
    tokens = torch.randint(0, 256, (2, 33), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        torch.testing.assert_close(tiny[0](tokens), tiny_hf(tokens).logits, rtol=1e-4, atol=1e-4)


def test_configuration_comes_from_the_fields(tiny):
    config = tiny[0].config
    assert (config.vocab_size, config.d_model, config.n_layers, config.d_ff) == (260, 64, 2, 96)
    assert (config.n_heads, config.n_kv_heads, config.head_dim) == (4, 2, 16)
    assert (config.max_seq_len, config.eos_ids, config.tied_embeddings) == (4096, {258}, True)


def test_an_untied_head_is_used(tmp_path, write_gguf, tiny_hf):
    head = np.random.default_rng(0).normal(size=(260, 64)).astype(np.float32)
    path = write_gguf(tmp_path / "m.gguf", change=lambda tensors: tensors.update({"output.weight": head}))
    model, _ = load_checkpoint(path)
    tokens = torch.arange(9)[None]
    with torch.inference_mode():
        hidden = tiny_hf.model(tokens).last_hidden_state
        torch.testing.assert_close(model(tokens), hidden @ torch.tensor(head).t(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("blk.1.ffn_up.weight"), "blk.1.ffn_up.weight is missing"),
        (lambda t: t.update({"blk.0.attn_q.bias": np.zeros(64, np.float32)}), "blk.0.attn_q.bias is unknown"),
        (
            lambda t: t.update({"output_norm.weight": np.zeros(63, np.float32)}),
            r"output_norm.weight has shape \(63,\) and should have \(64,\)",
        ),
        (
            lambda t: t.update({"blk.0.attn_k.weight": np.full((32, 64), np.nan, np.float32)}),
            "blk.0.attn_k.weight holds NaN",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path, write_gguf, change, message):
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(write_gguf(tmp_path / "m.gguf", change=change))


def test_other_architectures_and_rope_scaling_are_refused(tmp_path, write_gguf):
    with pytest.raises(CheckpointError, match="architecture 'qwen3'"):
        load_checkpoint(write_gguf(tmp_path / "a.gguf", architecture="qwen3"))
    with pytest.raises(CheckpointError, match=r"llama\.rope\.scaling\.type = 'yarn'"):
        load_checkpoint(write_gguf(tmp_path / "b.gguf", extra={"llama.rope.scaling.type": "yarn"}))


@pytest.mark.parametrize("keep", [0, 3, 100, 2000, 0.9, 0.999])
def test_a_damaged_file_is_refused(tmp_path, tiny_gguf, keep):
    data = tiny_gguf.read_bytes()
    broken = tmp_path / "m.gguf"
    broken.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
    with pytest.raises(CheckpointError, match="not a complete GGUF file"):
        load_checkpoint(broken)


def test_a_file_that_is_not_there_or_is_something_else(tmp_path):
    with pytest.raises(CheckpointError, match="is not a file"):
        load_checkpoint(tmp_path)
    other = tmp_path / "x.gguf"
    other.write_bytes(b"PK\x03\x04" * 100)
    with pytest.raises(CheckpointError, match="not a complete GGUF file"):
        load_checkpoint(other)
