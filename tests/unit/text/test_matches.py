"""Places of a question's terms in a text, and words that hint at nothing."""

from __future__ import annotations

from helix.text.ignored import blank_words
from helix.text.matches import MOST, find_matches
from helix.text.tokenize import tokenise


def mark(text: str, question: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in find_matches(text, set(tokenise(question, language)), language)]


def test_words_match_by_their_stems_whatever_their_case() -> None:
    assert mark("The Migrations ran; migrating twice is safe.", "how do we migrate") == ["Migrations", "migrating"]
    assert mark("nothing of it", "how do we migrate") == []
    assert mark("Die Häuser", "Haus", "de") == ["Häuser"]


def test_of_a_path_the_matching_word_is_marked_and_an_identifier_as_a_whole() -> None:
    assert mark("see src/billing/queue.py:42", "what is queue.py for") == ["queue", "py"]
    assert mark("call parseHeader() now", "parse header") == ["parseHeader"]


def test_a_text_has_a_bound_of_places() -> None:
    assert len(mark("queue " * 1000, "queue")) == MOST


def test_ignored_words_become_blanks_of_the_same_length() -> None:
    text = "what changed Last week in weekly, last week?"
    assert blank_words(text, ["last week"]) == "what changed           in weekly,          ?"
    assert blank_words(text, ["week", " ", ""]) == "what changed Last      in weekly, last     ?"
    assert blank_words("ana and Diana (ana)", ["Ana"]) == "    and Diana (   )"
