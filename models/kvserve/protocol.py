"""The requests and answers of the OpenAI API that are spoken here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from kvserve.errors import RequestError
from kvserve.generate import FinishReason
from kvserve.sampling import SamplingParams

JSON = dict[str, Any]

# Fields of the OpenAI API that change an answer and are not supported yet, with the values that ask for
# nothing. Whoever sends another value gets a 400: ignoring it would give an answer to a question that was not
# asked.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "prediction": (),
    "presence_penalty": (0,),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
    # Fields that other servers have added to the API.
    "guided_json": (),
    "ignore_eos": (False,),
    "min_p": (0,),
    "min_tokens": (0,),
    "prompt_logprobs": (0,),
    "repetition_penalty": (1,),
    "stop_token_ids": ([],),
}


def _is_neutral(name: str, value: Any) -> bool:
    # False == 0 in Python, but `logprobs: 0` asks for log-probabilities and `logprobs: false` does not.
    return any(
        value == none and isinstance(value, bool) == isinstance(none, bool) for none in _UNSUPPORTED[name]
    )


class _Lenient(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class StreamOptions(_Lenient):
    """What a stream carries besides the answer."""

    include_usage: bool | None = None


class GenerationFields(BaseModel):
    """What completions and chat completions have in common. Null means the default, as OpenAI's clients send
    it.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def check_supported(self) -> None:
        """Raise ``RequestError`` naming a known field whose value is unsupported; unknown fields pass."""
        for name, value in (self.model_extra or {}).items():
            if name in _UNSUPPORTED and value is not None and not _is_neutral(name, value):
                raise RequestError(
                    f"{name} is not supported by this server; leave it out",
                    param=name,
                    code="unsupported_parameter",
                )
        if self.stream_options is not None and not self.stream:
            raise RequestError("stream_options is only allowed with stream=true", param="stream_options")

    def sampling(self) -> SamplingParams:
        """Sampling parameters; ``top_k`` -1 means off, as elsewhere."""
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=0 if self.top_k in (None, -1) else self.top_k or 0,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=self.seed,
        )

    def stops(self) -> tuple[str, ...]:
        """Stop strings as a tuple."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk that carries the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CompletionRequest(GenerationFields):
    """``POST /v1/completions``. One prompt: text, or token ids."""

    prompt: str | list[str] | list[int] | list[list[int]]

    def single_prompt(self) -> str | list[int]:
        """The prompt without the list around it; raises ``RequestError`` unless there is exactly one."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return prompt
        if prompt and isinstance(prompt[0], int):
            return [i for i in prompt if isinstance(i, int)]
        if len(prompt) != 1:
            raise RequestError(
                f"{len(prompt)} prompts in one request; this server takes one, so send one request for each",
                param="prompt",
            )
        (only,) = prompt
        assert not isinstance(only, int)  # noqa: S101 - for the type checker
        return only


class TextPart(_Lenient):
    """One part of a message's content."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(strict=True, extra="allow")

    role: str
    content: str | list[TextPart] | None = None

    def plain(self, index: int) -> dict[str, str]:
        """Role and text for the chat template; raises ``RequestError`` for content that is not text."""
        where = f"messages[{index}]"
        if (self.model_extra or {}).get("tool_calls"):
            raise RequestError("tool calls are not supported by this server", param=f"{where}.tool_calls")
        if self.content is None:
            raise RequestError(f"{where} has no content", param=f"{where}.content")
        if isinstance(self.content, str):
            return {"role": self.role, "content": self.content}
        texts = []
        for part in self.content:
            if part.type != "text" or part.text is None:
                raise RequestError(
                    f"a content part of type {part.type!r} is not supported; only 'text' is",
                    param=f"{where}.content",
                )
            texts.append(part.text)
        return {"role": self.role, "content": "".join(texts)}


class ChatRequest(GenerationFields):
    """``POST /v1/chat/completions``."""

    messages: list[Message]
    max_completion_tokens: int | None = None

    def plain_messages(self) -> list[dict[str, str]]:
        """The messages for the chat template; raises ``RequestError`` when there are none."""
        if not self.messages:
            raise RequestError("messages is empty; at least one message is needed", param="messages")
        return [message.plain(i) for i, message in enumerate(self.messages)]


def error_body(error: RequestError) -> JSON:
    """OpenAI's error object."""
    return {
        "error": {"message": error.message, "type": error.type, "param": error.param, "code": error.code},
    }


def usage_body(n_prompt: int, n_completion: int) -> JSON:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_completion,
        "total_tokens": n_prompt + n_completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def sse(body: Mapping[str, Any] | str) -> str:
    """One server-sent event."""
    data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return f"data: {data}\n\n"


class CompletionShape:
    """How answers of ``/v1/completions`` look."""

    prefix = "cmpl"
    object = "text_completion"
    chunk_object = "text_completion"

    def opening(self) -> list[JSON]:
        """Choices that a stream starts with, before there is any text."""
        return []

    def text(self, text: str) -> JSON:
        """The choice of a chunk with some text."""
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": None}

    def closing(self, reason: FinishReason) -> JSON:
        """The choice of the last chunk."""
        return {"index": 0, "text": "", "logprobs": None, "finish_reason": reason}

    def whole(self, text: str, reason: FinishReason) -> JSON:
        """The choice of an answer that is not streamed."""
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}


class ChatShape(CompletionShape):
    """How answers of ``/v1/chat/completions`` look."""

    prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self) -> list[JSON]:
        """The role comes first."""
        return [self._delta({"role": "assistant", "content": ""})]

    def text(self, text: str) -> JSON:
        """The choice of a chunk with some text."""
        return self._delta({"content": text})

    def closing(self, reason: FinishReason) -> JSON:
        """The choice of the last chunk."""
        return self._delta({}, reason)

    def whole(self, text: str, reason: FinishReason) -> JSON:
        """The choice of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}

    @staticmethod
    def _delta(delta: JSON, reason: FinishReason | None = None) -> JSON:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
