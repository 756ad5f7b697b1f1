"""From tokens to text that may be shown: never half a character, never the start of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Detokenizer:
    """Joins the bytes of tokens into text as soon as characters are complete.

    The concatenation of what :meth:`push` and :meth:`flush` return equals decoding all the bytes at once.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: bytes) -> str:
        """Add the bytes of one token; returns the characters they complete."""
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """What an unfinished character becomes at the end: U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)


class StopMatcher:
    """Cuts text before the stop string that is complete first, the longest if several end together.

    Text that may still turn into a stop string is held back, so how the text is cut into pieces does not
    matter.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add text; returns what may be shown now. After ``stopped`` nothing is."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        text = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)[1]]
        keep = max(self._overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """The text held back, when the answer ends without a stop string."""
        held, self._held = self._held, ""
        return held

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Length of the longest proper prefix of ``stop`` that ``text`` ends with."""
        return next(n for n in range(min(len(stop) - 1, len(text)), -1, -1) if text.endswith(stop[:n]))
