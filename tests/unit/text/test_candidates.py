"""Ruling texts out by RE2 loses no match of `re`."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.text import claims
from helix.text.candidates import LEAST, find_candidates, loosen

PATTERNS = [*claims._compile(), claims._compile_former("en")[0]]
"""All patterns for which texts are ruled out."""

PIECES = [
    *(
        "Moved",
        "back to",
        "what if",
        "not café any longer",
        "it's off",
        "'ll",
        "é'll",
        "\n> quoted",
        '"long enough, this"',
    ),
    *(
        "3 May",
        "1,5 km",
        "10:30",
        "٣",
        "A_KEY = 1",
        "`code`",
        "www.x.org",
        "/a/b",
        "?",
        " ",
        "\u2003",
        "\n",
        "-",
        "ſet",
    ),
    *("instead of", "from", "-removed line", "Now", "İ", "K", "_", "no\x1clonger", "so.", "é"),
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(st.characters(codec="utf-8"), max_size=6)), max_size=8))
def test_a_text_that_matches_is_a_candidate(pieces: list[str]) -> None:
    texts = [joint.join(pieces) for joint in ("", " ")]
    may = find_candidates(texts * LEAST, PATTERNS)
    for text, row in zip(texts, may, strict=False):
        for pattern, possible in zip(PATTERNS, row.tolist(), strict=True):
            assert possible or not pattern.search(text), (pattern.pattern[:40], text)


def test_most_texts_without_a_match_are_ruled_out() -> None:
    may = find_candidates(["def run(self): pass"] * LEAST, PATTERNS)
    assert may.mean() < 0.2
    assert find_candidates(["def run(self): pass"], PATTERNS).all()  # few texts: `re` is as fast


@pytest.mark.parametrize(
    ("pattern", "wider"),
    [
        (r"(?<![\w-])(?:a(?! on)|b)\b", "(?:a|b)"),
        (r"\w[\w.\]]\d", r"[\w\x{80}-\x{10ffff}][\w\x{80}-\x{10ffff}.\]][\d\x{80}-\x{10ffff}]"),
        (r"(?=[ab(])x", "x"),
    ],
)
def test_look_around_and_borders_are_left_out(pattern: str, wider: str) -> None:
    assert loosen(re.compile(pattern)) == wider
    assert loosen(re.compile(pattern, re.I | re.M)) == f"(?im:{wider})"
