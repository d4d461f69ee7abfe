"""Words that one typing error makes of another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helix.text.spelling import collect_words, is_one_error, list_variants, list_words
from helix.text.tokenize import tokenise

WORD = st.text("abcd", max_size=7)


def count_errors(a: str, b: str) -> int:
    """Return the distance of optimal string alignment, by its recurrence."""
    table = [[i + j if not i or not j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            best = min(table[i - 1][j], table[i][j - 1]) + 1
            best = min(best, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                best = min(best, table[i - 2][j - 2] + 1)
            table[i][j] = best
    return table[-1][-1]


@given(WORD, WORD)
def test_one_error_is_a_distance_of_one(a: str, b: str) -> None:
    assert is_one_error(a, b) == (count_errors(a, b) == 1)


@given(WORD, WORD)
def test_words_one_error_apart_share_a_variant(a: str, b: str) -> None:
    if count_errors(a, b) <= 1:
        assert list_variants(a) & list_variants(b)


def test_words_of_a_text_come_with_their_terms() -> None:
    assert list(list_words("The gateways of VisibilityTimeout, naïve_parsers 42 am db", "en")) == [
        ("VisibilityTimeout", "visibilitytimeout"),
        ("naïve_parsers", "naive_parsers"),
        ("gateways", "gateway"),
        ("visibility", "visibl"),
        ("timeout", "timeout"),
        ("naive", "naiv"),
        ("parsers", "parser"),
    ]
    assert list(list_words("Die Häuser im parseTokens 我们决定", "de")) == [
        ("parseTokens", "parsetokens"),
        ("hauser", "haus"),
        ("parse", "pars"),
        ("tokens", "token"),
    ]
    assert list(list_words("x" * 40, "en")) == []
    assert list(list_words(f"a_{'x' * 40} a_b __init__ Title UPPER under_", "en")) == [
        *(("init", "init"), ("title", "titl"), ("upper", "upper"), ("under", "under"))
    ]


@given(st.from_regex(r"[a-z]{3,8}(_[a-z]{2,8}|[A-Z][a-z]{1,8}){1,3}", fullmatch=True))
def test_an_identifier_has_the_term_that_items_have(identifier: str) -> None:
    found = dict(list_words(f"see {identifier} there", "en"))
    assert not 6 <= len(identifier) <= 40 or found[identifier] in tokenise(identifier)


def test_the_words_of_many_texts_are_those_of_each() -> None:
    texts = ["The gateways of VisibilityTimeout", "Die Häuser im parseTokens", "gateways, Häuser"]
    languages = ["en", "de", "de"]
    each = {word for pair in zip(texts, languages, strict=True) for word in list_words(*pair)}
    assert collect_words(texts, languages) == each
    assert ("hauser", "haus") in each
