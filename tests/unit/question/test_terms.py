"""The language of a question: one of the store's, unless its words are certainly of another."""

from __future__ import annotations

import pytest

from helix.question import terms
from helix.question.terms import find_language, list_terms


@pytest.mark.parametrize(
    ("text", "stored", "language"),
    [
        ("why did the gateway fail", ("en",), "en"),
        ("gateway memory", ("en",), "en"),
        ("Warum ist das Gateway ausgefallen?", ("en",), "de"),
        ("なぜゲートウェイが落ちたのですか", ("en",), "ja"),
        ("Warum ist das Gateway ausgefallen?", ("es",), "de"),  # the store has none of it
        ("¿Por qué falló la pasarela?", ("de", "en"), "es"),
        ("why did the gateway fail", ("de",), "en"),
        ("Gateway Speicher", ("de",), "de"),  # too short to be anything else
        ("gateway", ("de", "en"), "de"),
        ("42", ("fr",), "fr"),
    ],
)
def test_a_question_has_a_language(text: str, stored: tuple[str, ...], language: str) -> None:
    assert find_language(text, stored) == language


def test_an_english_question_to_an_english_store_is_not_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    def identify(*_: object) -> None:
        raise AssertionError("identified")

    monkeypatch.setattr(terms, "identify", identify)
    monkeypatch.setattr(terms, "rank_languages", identify)
    assert find_language("where is the plan of the migration", ("en",)) == "en"


def test_words_are_stemmed_by_the_rules_of_every_stored_language() -> None:
    own, others = list_terms("Warum wurde die Migration verschoben?", "de", ("de", "en"))
    assert own == ["migration", "verschob"]
    assert "migrat" in others
    assert not {"warum", "wurd", "die"} & {*own, *others}
    assert list_terms("why was the migration postponed", "en", ("en",)) == (["migrat", "postpon"], [])
