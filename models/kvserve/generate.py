"""Prefill, then decode one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from kvserve.cache import KVCache
from kvserve.decoder import Decoder
from kvserve.errors import RequestError
from kvserve.sampling import Sampler, SamplingParams
from kvserve.streaming import Detokenizer, StopMatcher
from kvserve.tokenizer import Tokenizer

FinishReason = Literal["stop", "length"]
MAX_STOPS = 4
PREFILL_CHUNK = 256


@dataclass(frozen=True)
class GenerationRequest:
    """One prompt and how to go on from it.

    ``max_tokens`` None goes on to the end of the context. Raises ``RequestError`` naming the parameter at
    fault.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise RequestError("the prompt is empty; at least one token is needed", param="prompt")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise RequestError(f"max_tokens is {self.max_tokens}; it must be at least 1", param="max_tokens")
        if len(self.stop) > MAX_STOPS:
            raise RequestError(
                f"{len(self.stop)} stop strings; at most {MAX_STOPS} are allowed", param="stop"
            )
        if "" in self.stop:
            raise RequestError("a stop string is empty; leave it out", param="stop")


@dataclass(frozen=True)
class Piece:
    """A step of an answer: text to show (perhaps none), tokens so far, and at the end why it ended."""

    text: str
    n_tokens: int
    finish_reason: FinishReason | None = None


def check_fits(request: GenerationRequest, max_seq_len: int, vocab_size: int) -> None:
    """Raise ``RequestError`` unless the prompt and the tokens asked for fit ``max_seq_len`` positions."""
    bad = next((i for i in request.prompt_ids if not 0 <= i < vocab_size), None)
    if bad is not None:
        raise RequestError(f"token id {bad} is outside the vocabulary of {vocab_size}", param="prompt")
    n_prompt, n_new = len(request.prompt_ids), request.max_tokens or 1
    if n_prompt + n_new > max_seq_len:
        raise RequestError(
            f"the context holds {max_seq_len} tokens, and {n_prompt + n_new} are needed "
            f"({n_prompt} in the prompt, {n_new} to generate); shorten the prompt or lower max_tokens",
            param="prompt",
            code="context_length_exceeded",
        )


def generate_ids(
    model: Decoder,
    cache: KVCache,
    prompt_ids: Sequence[int],
    sample: Sampler,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Tokens after ``prompt_ids`` until the cache is full, the caller stops, or ``cancelled`` says so.

    The cache may hold a prefix already; ``prompt_ids`` follow it. The prompt goes in by chunks, which bounds
    the memory of its activations. The last token is yielded without being run through the model.
    """
    tokens = torch.tensor([list(prompt_ids)])
    with torch.inference_mode():
        for chunk in torch.split(tokens, PREFILL_CHUNK, dim=1):
            if cancelled():
                return
            logits = model(chunk, cache, last_only=True)
    while True:
        token = sample(logits[0, -1])
        yield token
        if cancelled() or cache.length == cache.max_seq_len:
            return
        # Entered anew for each step: the mode belongs to the thread, and must not leak into the consumer.
        with torch.inference_mode():
            logits = model(torch.tensor([[token]]), cache, last_only=True)


def generate(
    model: Decoder,
    tokenizer: Tokenizer,
    request: GenerationRequest,
    cache: KVCache,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Piece]:
    """The answer to ``request`` piece by piece, one per token; the last one carries the finish reason.

    When ``cancelled`` turns true the iterator just ends. Raises ``RequestError`` when the request does not
    fit.
    """
    check_fits(request, cache.max_seq_len - cache.length, model.config.vocab_size)
    limit = request.max_tokens or cache.max_seq_len - cache.length - len(request.prompt_ids)
    detokenizer, matcher = Detokenizer(), StopMatcher(request.stop)
    ids = generate_ids(model, cache, request.prompt_ids, Sampler(request.sampling), cancelled=cancelled)
    for n_tokens, token in enumerate(ids, start=1):
        if cancelled():
            return
        at_end = token in model.config.eos_ids
        text = "" if at_end else matcher.push(detokenizer.push(tokenizer.token_bytes(token)))
        finish: FinishReason | None = "stop" if at_end or matcher.stopped else None
        if finish is None and n_tokens == limit:
            finish = "length"
        if finish is not None and not matcher.stopped:
            text += matcher.push(detokenizer.flush())
            text += matcher.flush()
            if matcher.stopped:
                finish = "stop"
        yield Piece(text, n_tokens, finish)
        if finish is not None:
            return
