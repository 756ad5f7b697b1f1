"""The real SmolLM2-135M-Instruct against transformers on the same file."""

from __future__ import annotations

import random
import unicodedata

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from kvserve.cache import KVCache
from kvserve.generate import GenerationRequest, generate, generate_ids
from kvserve.loading import load_checkpoint
from kvserve.sampling import Sampler, SamplingParams

CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Write a haiku about the sea."}],
    [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "2 + 2 = ?"}],
    [
        {"role": "user", "content": "Hi, I am Zoë 👋"},
        {"role": "assistant", "content": "Hello Zoë!"},
        {"role": "user", "content": "What is my name?"},
    ],
]
LINES = [
    "",
    " ",
    "Hello, world!",
    "  two spaces  and\ttabs\n\n\nnewlines\r\n",
    "it's they'll I'VE don't",
    "1234567890 3.14159 1,000,000 v2.0.1 x86_64",
    "def f(x: int) -> str:\n    return f'{x!r}'  # comment",
    "Ελληνικά και Кириллица и العربية עברית",
    "漢字かな交じり文 한국어 ภาษาไทย हिन्दी",
    "👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 \u200b\ufeff",
    "<|im_start|>user\nhi<|im_end|>\n",
    "a<|endoftext|>b <file_sep><empty_output>",
    "٣٤٥ ⅷ ²³ ½ 四",
    "naïve café Straße İstanbul",
]


def random_lines(count: int) -> list[str]:
    """Lines of letters, marks, digits, symbols and spaces from several scripts."""
    rng = random.Random(11)
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x5D0, 0x700), (0x900, 0xE80), (0x3040, 0x30FF)]
    blocks += [(0x4E00, 0x5200), (0xAC00, 0xAD00), (0x1F300, 0x1F650), (0x2000, 0x2070)]
    lines = []
    for _ in range(count):
        words = []
        for _ in range(rng.randint(1, 8)):
            low, high = rng.choice(blocks)
            chars = [chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 6))]
            words.append("".join(c for c in chars if unicodedata.category(c) not in ("Cn", "Cs")))
        lines.append(rng.choice([" ", "  ", "\n", ", "]).join(words))
    return lines


@pytest.fixture(scope="module")
def reference(smollm2_gguf):
    folder, name = str(smollm2_gguf.parent), smollm2_gguf.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # What from_pretrained(gguf_file=...) does, without the accelerate package that it asks for.
    model = LlamaForCausalLM(AutoConfig.from_pretrained(folder, gguf_file=name)).eval()
    weights = load_gguf_checkpoint(str(smollm2_gguf), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    return model, tokenizer


def chat_ids(reference, chat) -> list[int]:
    text = reference[1].apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return reference[1](text, add_special_tokens=False)["input_ids"]


def split_at_numerals(text: str) -> list[str]:
    """Every numeral of any script on its own, as `tokenizer.ggml.pre` = smollm asks."""
    pieces = [""]
    for char in text:
        if unicodedata.category(char).startswith("N"):
            pieces += [char, ""]
        else:
            pieces[-1] += char
    return pieces


def test_tokens_equal_transformers(smollm2, reference):
    # transformers ignores tokenizer.ggml.pre in a GGUF file and never splits at numerals: done here.
    ours, theirs = smollm2[1], reference[1]
    for line in LINES + random_lines(2000):
        ids = ours.encode(line)
        pieces = split_at_numerals(line)
        expected = [i for piece in pieces for i in theirs(piece, add_special_tokens=False)["input_ids"]]
        assert ids == expected, repr(line)
        visible = [i for i in ids if i not in ours.special_ids]
        assert ours.decode(ids) == theirs.decode(visible, clean_up_tokenization_spaces=False), repr(line)


def test_every_token_has_the_text_that_transformers_gives(smollm2, reference):
    ours, theirs = smollm2[1], reference[1]
    for start in range(0, ours.vocab_size, 97):
        ids = [i for i in range(start, min(start + 97, ours.vocab_size)) if i not in ours.special_ids]
        assert ours.decode(ids) == theirs.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("chat", CHATS)
def test_chats_are_rendered_as_transformers_does(smollm2, reference, chat):
    tokenizer = smollm2[1]
    text = reference[1].apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert tokenizer.render_chat(chat) == text
    assert tokenizer.encode(text, add_bos=False) == chat_ids(reference, chat)


def test_logits_equal_transformers(smollm2, smollm2_gguf, reference):
    exact, _ = load_checkpoint(smollm2_gguf, prepack=False)
    for chat in CHATS[:2]:
        tokens = torch.tensor([chat_ids(reference, chat)])
        with torch.inference_mode():
            expected = reference[0](tokens).logits
            torch.testing.assert_close(exact(tokens), expected, rtol=0, atol=1e-4)
            # oneDNN's layout adds in another order. Logits reach 38 here, and both were measured to be about
            # 1e-4 from the model in fp64; what is served gets a bound relative to the largest logit.
            limit = 1e-5 * expected.abs().max().item()
            torch.testing.assert_close(smollm2[0](tokens), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("chat", CHATS)
def test_greedy_answers_equal_transformers(smollm2, reference, chat):
    model, tokenizer = smollm2
    ids = chat_ids(reference, chat)
    expected = (
        reference[0]
        .generate(torch.tensor([ids]), max_new_tokens=32, do_sample=False, eos_token_id=2, pad_token_id=2)[
            0, len(ids) :
        ]
        .tolist()
    )
    cache = KVCache(model.config, max_seq_len=512)
    got = []
    for token in generate_ids(model, cache, ids, Sampler(SamplingParams(temperature=0))):
        got.append(token)
        if len(got) == 32 or token in model.config.eos_ids:
            break
    assert got == expected

    cache.truncate(0)
    request = GenerationRequest(tuple(ids), max_tokens=32, sampling=SamplingParams(temperature=0))
    pieces = list(generate(model, tokenizer, request, cache))
    assert "".join(piece.text for piece in pieces) == reference[1].decode(expected, skip_special_tokens=True)
    assert pieces[-1].finish_reason == ("stop" if expected[-1] == 2 else "length")
    assert pieces[-1].n_tokens == len(expected)
