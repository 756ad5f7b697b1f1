"""The tokenizer of a GGUF file, and its chat template."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer
from tokenizers.pre_tokenizers import Sequence as PreTokenizerSequence

from kvserve.errors import CheckpointError, RequestError

if TYPE_CHECKING:
    from kvserve.gguf import GGUFFile

# GGUF's token types.
_CONTROL, _USER_DEFINED = 3, 4


def _pre_tokenizer(name: str) -> PreTokenizer:
    """The splitter that llama.cpp calls ``name``."""
    if name == "smollm":
        return PreTokenizerSequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    if name in ("default", "gpt-2"):
        return ByteLevel(add_prefix_space=False)
    raise CheckpointError(f"tokenizer.ggml.pre is {name!r}; supported are 'smollm', 'gpt-2' and 'default'")


def _byte_of_char() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte, reversed: printable bytes stand for themselves, the rest
    follow 255.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}


class Tokenizer:
    """Byte-level BPE: text to ids, ids to bytes, messages to a prompt.

    ``special_ids`` are control tokens: recognised in a prompt, and without text of their own in an answer.
    """

    def __init__(
        self,
        *,
        tokens: Sequence[str],
        token_types: Sequence[int],
        merges: Sequence[str],
        pre: str,
        bos_id: int | None = None,
        add_bos: bool = False,
        chat_template: str | None = None,
    ) -> None:
        vocab = {token: i for i, token in enumerate(tokens)}
        if len(vocab) != len(tokens):
            raise CheckpointError(
                f"the vocabulary of {len(tokens)} tokens holds duplicates; convert it again"
            )
        if len(token_types) != len(tokens):
            raise CheckpointError(
                f"{len(token_types)} token types for {len(tokens)} tokens; convert it again"
            )
        pairs: list[tuple[str, str]] = []
        for merge in merges:
            left, _, right = merge.partition(" ")
            pairs.append((left, right))
        try:
            self._fast = FastTokenizer(BPE(vocab=vocab, merges=pairs))
        except Exception as error:  # the library raises bare exceptions for merges outside the vocabulary
            raise CheckpointError(f"the tokenizer's merges do not fit its vocabulary: {error}") from error
        self._fast.pre_tokenizer = _pre_tokenizer(pre)
        self._fast.decoder = ByteLevelDecoder()
        added = [i for i, kind in enumerate(token_types) if kind in (_CONTROL, _USER_DEFINED)]
        self._fast.add_special_tokens([AddedToken(tokens[i], special=True, normalized=False) for i in added])
        self.vocab_size = len(tokens)
        self.special_ids = frozenset(i for i in added if token_types[i] == _CONTROL)
        self.bos_id = bos_id
        self.bos_token = "" if bos_id is None else tokens[bos_id]
        self._add_bos = add_bos and bos_id is not None
        self._tokens = tokens
        self._raw = frozenset(added)
        self._bytes = _byte_of_char()
        self._template = None if chat_template is None else _compile(chat_template)

    @classmethod
    def from_gguf(cls, file: GGUFFile) -> Tokenizer:
        """Build from the fields of an open GGUF file; raises ``CheckpointError`` for another kind of
        tokenizer.
        """
        model = file.field("tokenizer.ggml.model")
        if model != "gpt2":
            raise CheckpointError(
                f"tokenizer.ggml.model is {model!r}; only byte-level BPE ('gpt2') is supported"
            )
        return cls(
            tokens=file.field("tokenizer.ggml.tokens"),
            token_types=file.field("tokenizer.ggml.token_type"),
            merges=file.field("tokenizer.ggml.merges"),
            pre=file.field("tokenizer.ggml.pre", "default"),
            bos_id=file.field("tokenizer.ggml.bos_token_id")
            if file.has_field("tokenizer.ggml.bos_token_id")
            else None,
            add_bos=file.field("tokenizer.ggml.add_bos_token", False),
            chat_template=file.field("tokenizer.chat_template")
            if file.has_field("tokenizer.chat_template")
            else None,
        )

    def encode(self, text: str, *, add_bos: bool | None = None) -> list[int]:
        """Ids of ``text``; control tokens written out in it count as such. ``add_bos`` None follows the
        checkpoint.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text holds half a surrogate pair at character {error.start}; send valid Unicode",
                param="prompt",
            ) from error
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        if self._add_bos if add_bos is None else add_bos and self.bos_id is not None:
            assert self.bos_id is not None  # noqa: S101 - for the type checker
            return [self.bos_id, *ids]
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The bytes that ``token`` adds to an answer: none for control tokens and for ids that pad the
        vocabulary.
        """
        if token in self.special_ids or not 0 <= token < self.vocab_size:
            return b""
        text = self._tokens[token]
        if token in self._raw:
            return text.encode()
        return bytes(self._bytes[char] for char in text)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids`` without control tokens; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.token_bytes(i) for i in ids).decode("utf-8", "replace")

    def render_chat(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True
    ) -> str:
        """The prompt that the checkpoint's template makes of ``messages``.

        Raises ``RequestError`` when there is no template, when it refuses the messages, or when it tries what
        the sandbox forbids.
        """
        if self._template is None:
            raise RequestError("this checkpoint has no chat template; use /v1/completions", param="messages")
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                bos_token=self.bos_token,
            )
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
        ) as error:
            raise RequestError(
                f"the chat template refused the messages: {error}", param="messages"
            ) from error


def _compile(source: str) -> jinja2.Template:
    """A chat template from a checkpoint is a stranger's program: it gets a sandbox and three helpers."""

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def strftime_now(pattern: str) -> str:
        return datetime.datetime.now().strftime(pattern)

    def tojson(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        raise CheckpointError(f"the checkpoint's chat template does not parse: {error}") from error
