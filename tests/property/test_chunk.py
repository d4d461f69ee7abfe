from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.chunk import TAIL_ROOM, chunk

PART = st.one_of(
    st.sampled_from(
        ["\n", "\n\n", " ", "```\n", "~~~", "end. ", "「猫。」", "。", "x" * 2_500, "\r\n", "\u2028", "a b c "]
    ),
    st.text(max_size=30),
)
TEXT = st.lists(PART, max_size=60).map("".join)


@given(TEXT, st.integers(1, 60))
def test_only_white_space_is_lost(text: str, max_words: int) -> None:
    pieces = chunk(text, max_words)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece and piece == piece.strip() for piece in pieces)
    assert all(len(piece.split()) <= TAIL_ROOM * max_words for piece in pieces)


@given(TEXT)
def test_pieces_are_in_the_text_in_order(text: str) -> None:
    at = 0
    for piece in chunk(text, 20):
        found = text.index(piece, at)
        at = found + len(piece)
