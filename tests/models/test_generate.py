"""The generation loop: where it ends, what it shows, and that it can be called off."""

from __future__ import annotations

import pytest

from kvserve.cache import KVCache
from kvserve.errors import CheckpointError, RequestError
from kvserve.generate import GenerationRequest, generate
from kvserve.sampling import SamplingParams
from kvserve.tokenizer import Tokenizer

GREEDY = SamplingParams(temperature=0)


def answer(tiny, prompt="abc", *, limit=512, cancelled=lambda: False, **options):
    model, tokenizer = tiny
    options.setdefault("sampling", GREEDY)
    request = GenerationRequest(tuple(tokenizer.encode(prompt)), **options)
    return list(
        generate(model, tokenizer, request, KVCache(model.config, max_seq_len=limit), cancelled=cancelled)
    )


def test_a_long_prompt_by_chunks_equals_the_whole(tiny, monkeypatch):
    whole = answer(tiny, "The quick brown fox. " * 15, max_tokens=20)
    monkeypatch.setattr("kvserve.generate.PREFILL_CHUNK", 7)
    assert answer(tiny, "The quick brown fox. " * 15, max_tokens=20) == whole


def test_it_ends_at_max_tokens_or_with_the_context(tiny):
    pieces = answer(tiny, max_tokens=5)
    assert [piece.n_tokens for piece in pieces] == [1, 2, 3, 4, 5]
    assert [piece.finish_reason for piece in pieces] == [None] * 4 + ["length"]
    pieces = answer(tiny, "abc", limit=20)
    assert pieces[-1].n_tokens == 17
    assert pieces[-1].finish_reason == "length"
    assert answer(tiny, "abc", limit=4, max_tokens=1)[-1].n_tokens == 1


def test_what_does_not_fit_is_refused_with_true_numbers(tiny):
    with pytest.raises(
        RequestError, match=r"holds 20 tokens, and 21 are needed \(3 in the prompt, 18 to"
    ) as caught:
        answer(tiny, "abc", limit=20, max_tokens=18)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(RequestError, match="21 are needed"):
        answer(tiny, "a" * 20, limit=20)


def test_it_ends_at_an_end_token_without_showing_it(tiny, brake):
    import torch

    _, tokenizer = tiny
    script = iter([65, 0xE2, 258])

    class Scripted:
        config = brake.config

        def __call__(self, tokens, cache, *, last_only):
            cache.advance(tokens.shape[1])
            logits = torch.zeros(1, 1, 260)
            logits[0, 0, next(script)] = 1
            return logits

    pieces = list(
        generate(Scripted(), tokenizer, GenerationRequest((1,), sampling=GREEDY), KVCache(brake.config))
    )
    assert pieces[-1].finish_reason == "stop"
    assert pieces[-1].n_tokens == 3
    assert "".join(piece.text for piece in pieces) == "A\ufffd"


def test_stop_strings_cut_and_hold_back(tiny):
    text = "".join(piece.text for piece in answer(tiny, max_tokens=60))
    stop = text[20:23]
    pieces = answer(tiny, max_tokens=60, stop=(stop, "never in there"))
    assert "".join(piece.text for piece in pieces) == text[: text.index(stop)]
    assert pieces[-1].finish_reason == "stop"
    # Something that is held back at the end is shown after all.
    pieces = answer(tiny, max_tokens=60, stop=(text[-1] + "never",))
    assert "".join(piece.text for piece in pieces) == text
    assert pieces[-1].finish_reason == "length"


def test_cancelling_ends_it_within_a_step(tiny, brake):
    seen = []
    for piece in generate(
        brake,
        tiny[1],
        GenerationRequest((65,), sampling=GREEDY),
        KVCache(brake.config),
        cancelled=lambda: len(seen) == 3,
    ):
        seen.append(piece)
    assert len(seen) == 3
    assert brake.steps <= 4


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"prompt_ids": ()}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ("a", "b", "c", "d", "e")}, "stop"),
        ({"stop": ("",)}, "stop"),
    ],
)
def test_bad_requests_are_named(values, param):
    with pytest.raises(RequestError) as caught:
        GenerationRequest(**{"prompt_ids": (1,), **values})
    assert caught.value.param == param


def template_tokenizer(template: str) -> Tokenizer:
    return Tokenizer(tokens=["a"], token_types=[1], merges=[], pre="smollm", chat_template=template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{% set _ = messages.append(1) %}",
        "{{ range(1000000000) | list }}",
        "{{ raise_exception('roles must alternate') }}",
        "{{ '%s' | format(1 // 0) }}",
    ],
)
def test_the_sandbox_holds(template):
    with pytest.raises(RequestError, match="the chat template refused") as caught:
        template_tokenizer(template).render_chat([{"role": "user", "content": "hi"}])
    assert caught.value.param == "messages"


def test_the_sandbox_shows_no_inside():
    tokenizer = template_tokenizer("[{{ raise_exception.__globals__ }}{{ messages.__class__ }}]")
    assert tokenizer.render_chat([]) == "[]"


def test_template_helpers():
    tokenizer = template_tokenizer(
        "{{ messages | tojson }}|{{ strftime_now('%Y') | length }}|{{ bos_token }}"
    )
    assert tokenizer.render_chat([{"role": "u", "content": "é<"}]) == '[{"role": "u", "content": "é<"}]|4|'


def test_faulty_tokenizers_are_refused():
    with pytest.raises(CheckpointError, match="does not parse"):
        template_tokenizer("{% if %}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.pre is 'other'"):
        Tokenizer(tokens=["a"], token_types=[1], merges=[], pre="other")
    with pytest.raises(CheckpointError, match="merges do not fit"):
        Tokenizer(tokens=["a"], token_types=[1], merges=["a b"], pre="smollm")
    with pytest.raises(CheckpointError, match="duplicates"):
        Tokenizer(tokens=["a", "a"], token_types=[1, 1], merges=[], pre="smollm")
