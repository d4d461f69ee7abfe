from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from helix.text.tokenize import MAX_TERM, hash_terms, split_words, tokenise

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)  # lone surrogates too
CODE = st.text("aBc1_./:\\-#'é漢か ", max_size=80)


@given(st.one_of(ANY_TEXT, CODE))
def test_total_and_bounded(text: str) -> None:
    terms = tokenise(text)
    assert all(0 < len(term) <= MAX_TERM for term in terms)
    assert not any(c.isspace() for term in terms for c in term)
    assert len(hash_terms(terms)) == len(terms)
    assert all(split_words(text))


@given(st.one_of(ANY_TEXT, CODE), st.one_of(ANY_TEXT, CODE))
def test_white_space_separates_terms(left: str, right: str) -> None:
    assert tokenise(f"{left} {right}") == tokenise(left) + tokenise(right)


@given(ANY_TEXT)
def test_compatible_forms_give_the_same_terms(text: str) -> None:
    assert tokenise(unicodedata.normalize("NFKC", text)) == tokenise(text)


@given(st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=40), st.sampled_from([".", ",", "!", "?", ";", ")"]))
def test_sentence_punctuation_is_no_part_of_a_term(word: str, mark: str) -> None:
    assert tokenise(word + mark) == tokenise(word)
