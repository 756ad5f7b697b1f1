"""The decoder against transformers on random weights, and against itself with a cache."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from kvserve.cache import KVCache
from kvserve.config import ModelConfig
from kvserve.decoder import Decoder, weight_shapes
from kvserve.errors import CacheError, ConfigError, RequestError
from kvserve.layers import apply_rope, rope_table

PARTS = {
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
OUTER = {"embed": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}


def hf_name(name: str) -> str:
    if name in OUTER:
        return f"{OUTER[name]}.weight"
    _, layer, part = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.weight"


def ours_from(hf, *, prepack: bool) -> Decoder:
    c = hf.config
    config = ModelConfig(
        vocab_size=c.vocab_size,
        d_model=c.hidden_size,
        n_layers=c.num_hidden_layers,
        n_heads=c.num_attention_heads,
        n_kv_heads=c.num_key_value_heads,
        head_dim=c.head_dim,
        d_ff=c.intermediate_size,
        max_seq_len=c.max_position_embeddings,
        norm_eps=c.rms_norm_eps,
        rope_base=c.rope_parameters["rope_theta"],
        tied_embeddings=c.tie_word_embeddings,
    )
    state = hf.state_dict()
    assert config.n_params == sum(p.numel() for p in hf.parameters())
    return Decoder(config, lambda name: state[hf_name(name)].clone(), prepack=prepack)


@pytest.mark.parametrize("prepack", [True, False])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "tied"), [(4, 4, 16, True), (8, 2, 16, False), (4, 1, 24, True)]
)
def test_logits_equal_transformers(heads, kv_heads, head_dim, tied, prepack):
    torch.manual_seed(heads)
    hf = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=131,
            hidden_size=64,
            intermediate_size=100,
            num_hidden_layers=3,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            max_position_embeddings=64,
            rope_theta=5000.0,
            rms_norm_eps=1e-6,
            tie_word_embeddings=tied,
            initializer_range=0.2,
            attn_implementation="eager",
        )
    ).eval()
    with torch.no_grad():
        for name, parameter in hf.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    model = ours_from(hf, prepack=prepack)
    for length in (1, 7, 64):
        tokens = torch.randint(0, 131, (3, length))
        with torch.inference_mode():
            expected = hf(tokens).logits
            torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(model(tokens, last_only=True), expected[:, -1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 2, 7, 41])
def test_cached_equals_uncached(tiny, chunk):
    model, _ = tiny
    tokens = torch.randint(0, 256, (2, 41), generator=torch.Generator().manual_seed(chunk))
    cache = KVCache(model.config, batch=2, max_seq_len=41)
    with torch.inference_mode():
        whole = model(tokens)
        pieces = torch.cat([model(piece, cache) for piece in tokens.split(chunk, dim=1)], dim=1)
    assert cache.length == 41
    torch.testing.assert_close(pieces, whole, rtol=1e-5, atol=1e-4)


def test_truncated_cache_goes_on_from_there(tiny):
    model, _ = tiny
    tokens = torch.arange(20)[None]
    cache = KVCache(model.config, max_seq_len=32)
    with torch.inference_mode():
        model(tokens, cache)
        cache.truncate(5)
        torch.testing.assert_close(
            model(tokens[:, 5:9], cache), model(tokens[:, :9])[:, 5:], rtol=1e-5, atol=1e-4
        )


def test_later_tokens_never_change_earlier_logits(tiny):
    model, _ = tiny
    tokens = torch.randint(0, 256, (1, 24), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        before = model(tokens)
        for cut in (1, 11, 23):
            changed = tokens.clone()
            changed[:, cut:] = (changed[:, cut:] + 17) % 256
            after = model(changed)
            torch.testing.assert_close(after[:, :cut], before[:, :cut], rtol=1e-5, atol=1e-5)
            assert not torch.allclose(after[:, cut:], before[:, cut:], atol=1e-2)


def test_rope_keeps_norms_and_depends_on_the_offset_alone():
    cos, sin = rope_table(32, 128, 10000.0)
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 32)

    def at(x, position):
        return apply_rope(x, cos[position : position + 1], sin[position : position + 1])

    torch.testing.assert_close(at(q, 77).norm(), q.norm())
    scores = [(at(q, 9 + shift) * at(k, 2 + shift)).sum() for shift in (0, 50, 118)]
    torch.testing.assert_close(torch.stack(scores), scores[0].expand(3), rtol=1e-4, atol=1e-4)


def test_cache_refuses_what_it_cannot_hold(tiny):
    model, _ = tiny
    cache = KVCache(model.config, max_seq_len=4)
    with torch.inference_mode():
        model(torch.tensor([[1, 2, 3]]), cache)
        with pytest.raises(CacheError, match="2 positions after 3 exceed the cache of 4"):
            model(torch.tensor([[4, 5]]), cache)
        assert cache.length == 3
        model(torch.tensor([[4]]), cache)
    for length in (-1, 5):
        with pytest.raises(CacheError, match=f"cannot truncate to {length}"):
            cache.truncate(length)
    with pytest.raises(CacheError, match="cannot add -1"):
        cache.advance(-1)
    with pytest.raises(CacheError, match="made for 1"):
        KVCache(model.config, max_seq_len=4).update(0, torch.zeros(2, 2, 1, 16), torch.zeros(2, 2, 1, 16))
    for limit in (0, 4097):
        with pytest.raises(CacheError, match=f"max_seq_len is {limit}; this model allows 1 to 4096"):
            KVCache(model.config, max_seq_len=limit)


def test_cache_hands_out_views_and_takes_the_bytes_it_says(tiny):
    config = tiny[0].config
    cache = KVCache(config, max_seq_len=8)
    k, _ = cache.update(0, torch.ones(1, 2, 3, 16), torch.ones(1, 2, 3, 16))
    assert k.shape == (1, 2, 3, 16)
    assert k.data_ptr() == cache.update(0, torch.zeros(1, 2, 1, 16), torch.zeros(1, 2, 1, 16))[0].data_ptr()
    held = sum(t.numel() * t.element_size() for t in cache._k + cache._v)
    assert held == 8 * config.kv_bytes_per_token()


def test_bad_tokens_are_refused(tiny):
    model, _ = tiny
    for tokens, message in (
        (torch.empty(1, 0, dtype=torch.long), "empty"),
        (torch.tensor([[3, -1]]), "token id -1"),
        (torch.tensor([[3, 260]]), "token id 260 is outside the vocabulary of 260"),
        (torch.zeros(1, 4097, dtype=torch.long), "4097 positions exceed the model's 4096"),
    ):
        with pytest.raises(RequestError, match=message):
            model(tokens)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 5}, "n_heads 5 is not a multiple of n_kv_heads 2"),
        ({"head_dim": 15}, "head_dim is 15"),
        ({"n_layers": 0}, "n_layers is 0"),
        ({"norm_eps": float("nan")}, "norm_eps is nan"),
        ({"eos_ids": frozenset({999})}, r"eos ids \[999\]"),
    ],
)
def test_bad_configurations_are_refused(tiny, change, message):
    values = {name: getattr(tiny[0].config, name) for name in ModelConfig.__dataclass_fields__}
    with pytest.raises(ConfigError, match=message):
        ModelConfig(**(values | change))


def test_parameters_by_closed_form(tiny):
    config = tiny[0].config
    total = sum(torch.Size(shape).numel() for shape in weight_shapes(config).values())
    assert config.n_params == total
