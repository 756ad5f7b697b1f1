"""Laws of what may be shown: cutting into pieces changes nothing, and nothing forbidden is ever shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvserve.streaming import Detokenizer, StopMatcher

TEXT = st.text(alphabet="abc", max_size=40)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=0, max_size=4)


def cut(data, cuts):
    edges = sorted({min(c, len(data)) for c in cuts} | {0, len(data)})
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def expected(text: str, stops: list[str]) -> str:
    """Character by character: as soon as the text ends with a stop string, drop the longest such and end."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@given(TEXT, STOPS, st.lists(st.integers(0, 40), max_size=10))
def test_stop_strings(text, stops, cuts):
    matcher, shown = StopMatcher(stops), ""
    for piece in cut(text, cuts):
        shown += matcher.push(piece)
        assert expected(text, stops).startswith(shown)
    shown += matcher.flush()
    assert shown == expected(text, stops)
    assert matcher.stopped == (any(stop in text for stop in stops))
    assert not any(stop in shown for stop in stops)
    if matcher.stopped:
        assert matcher.push("abc") + matcher.flush() == ""


@given(TEXT, STOPS, st.lists(st.integers(0, 40), max_size=10))
def test_nothing_is_held_that_can_be_no_stop_string(text, stops, cuts):
    matcher, shown = StopMatcher(stops), ""
    for piece in cut(text, cuts):
        shown += matcher.push(piece)
    held = matcher.flush()
    assert held == "" or any(stop.startswith(held) for stop in stops)


@given(st.text(max_size=30), st.lists(st.integers(0, 120), max_size=20))
def test_unicode_survives_any_cut(text, cuts):
    detokenizer = Detokenizer()
    pieces = [detokenizer.push(piece) for piece in cut(text.encode(), cuts)]
    assert "".join(pieces) == text
    assert detokenizer.flush() == ""


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=20))
def test_any_bytes_equal_decoding_at_once(data, cuts):
    detokenizer = Detokenizer()
    pieces = [detokenizer.push(piece) for piece in cut(data, cuts)]
    assert "".join([*pieces, detokenizer.flush()]) == data.decode("utf-8", "replace")
