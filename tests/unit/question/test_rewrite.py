"""The core of a question, and its wording as a speaker would put it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.question.rewrite import remove_request, speak_as
from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load
from helix.text.tokenize import hash_terms, tokenise
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

NAMES = frozenset({"ana", "lopez", "james", "will", "may", "o'brien", "jean-luc"})


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Can you list the order in which I brought up different aspects of my budget tracker?", "my budget tracker?"),
        ("Can you give me a short, clear summary of how my garden changed over time?", "how my garden changed ?"),
        ("How has my budget changed across all of our previous conversations?", "How has my budget changed ?"),
        ("Please remind me what port redis uses", "what port redis uses"),
        ("What did I say about the deploy key?", "What about the deploy key?"),
        ("Based on what I've told you so far, which cake fits my mother?", "which cake fits my mother?"),
        ("Which towns did I visit, in order?", "Which towns did I visit ?"),
        ("Name my herbs. Mention only and only five items.", "Name my herbs."),
        # Not asking for a list: "in order" of purpose, "explain" of nothing in particular.
        ("What must I do in order to deploy the gateway?", "What must I do in order to deploy the gateway?"),
        ("Explain caching briefly please", "Explain caching briefly please"),
        ("why is the database locked", "why is the database locked"),
    ],
)
def test_the_words_that_only_ask_go(text: str, about: str) -> None:
    assert remove_request(text) == about


@pytest.mark.parametrize("text", ["summary", "Can you summarise it?", "remind me", "", "  ", "Give me a summary of it"])
def test_where_hardly_a_word_is_left_they_were_what_it_is_about(text: str) -> None:
    assert remove_request(text) == text


@given(st.text(max_size=60))
def test_any_text_has_a_core(text: str) -> None:
    assert remove_request(text) == text or len(remove_request(text)) <= len(text)


SPOKEN = {  # one speaker only where nothing but a space parts the words
    "What did Ana research?": "What did I research?", "what did ana research?": "what did I research?",
    "What did Ana Lopez say?": "What did I say?", "Ana Lopez's dog": "my dog",
    "What is Ana’s dog's name?": "What is my dog's name?", "James' dog and James's cat": "my dog and my cat",
    "Ana, James and Lopez": "I, I and I", "the O'Brien file of Jean-Luc": "the I file of I",
    "analysis of Anatolia": "analysis of Anatolia", "  Ana slept": "  I slept",
    # A common word is a name where it is capitalised, but for the first.
    "Will it rain?": "Will it rain?", "What will Will do in may?": "What will I do in may?",
    "May I see what May said?": "May I see what I said?", "When is the talk?": "When is the talk?", "": "",
}  # fmt: skip


def test_a_named_speaker_asks_for_themselves() -> None:
    assert {text: speak_as(text, NAMES) for text in SPOKEN} == SPOKEN
    assert speak_as("What did Ana say?", frozenset()) == "What did Ana say?"
    assert speak_as("What was it I told Ana.", frozenset({"ana"})) == "What was it I told I."


@given(st.text(alphabet="Ana will's,\u2019 James'", max_size=40))
def test_a_question_without_a_speaker_stays(text: str) -> None:
    assert speak_as(text, frozenset({"zoe"})) == text


@pytest.mark.parametrize(
    "piece", ["a", "-", "'", " ", ", ", "Ana ", "Will's ", "can you ", "tell me ", "short, ", "over all of our past "]
)
def test_a_long_question_takes_no_longer_than_its_length(piece: str) -> None:
    """Seconds at most on a slow machine. A step that looks at all words before each takes ten and more."""
    text = piece * (400_000 // len(piece))
    start = time.thread_time()
    remove_request(text)
    between = time.thread_time()
    speak_as(text, NAMES)
    assert between - start < 6
    assert time.thread_time() - between < 5


def test_a_question_is_worked_out_before_it_is_asked(tmp_path: Path) -> None:
    """Names of those who speak in the project asked of; terms in reading order with their repeats."""
    given = [
        {"speaker": "Ana Lopez", "project": "home"},
        {"speaker": "Bo", "project": "work"},
        {"speaker": None, "project": "work"},
        {"speaker": "Zoe", "project": "work"},
    ]
    snap = make_store(tmp_path, ["one", "two", "three", "four"], given=given, cuts=(2,), deleted={1: [1]})
    assert snap.catalog.speaker_names == {
        None: {"ana", "lopez", "bo"},  # who said only what is deleted is not known
        snap.projects.index("home"): {"ana", "lopez"},
        snap.projects.index("work"): {"bo"},
    }
    text = "Can you tell me what Ana told Bo and what Bo told Zoe?"
    ask = load("helix").ask

    def embedded_text(project: str | None = None, **how: bool) -> str:
        query = make_query(text, snap, SETTINGS, project=project, now="2023-11-20")
        return add_search_terms(query, snap, replace(ask, **how)).embedded

    assert embedded_text() == "what I told I and what I told Zoe?"
    assert embedded_text("home") == "what I told Bo and what Bo told Zoe?"
    assert embedded_text("work") == "what Ana told I and what I told Zoe?"
    assert embedded_text(speaker=False) == "what Ana told Bo and what Bo told Zoe?"
    assert embedded_text(core=False, speaker=False) == text
    query = add_search_terms(make_query(text, snap, SETTINGS, now="2023-11-20"), snap, ask)
    told = hash_terms(tokenise("ana told bo bo told zoe"))
    assert query.term_order.tolist() == told.tolist()  # the words that are looked up keep their names
    assert query.terms.tolist() == sorted(set(told.tolist()))
    assert query.text == text


def test_only_those_an_acl_shows_are_known_speakers(tmp_path: Path) -> None:
    given = [{"speaker": "Ana", "time": BASE}, {"speaker": "Mallory", "acl": ["boss"], "project": "vault"}]
    snap = make_store(tmp_path, ["one", "two"], given=given)
    assert snap.seen_by(None).catalog.speaker_names == {None: {"ana"}, snap.projects.index("p"): {"ana"}}
    assert snap.seen_by("boss").catalog.speaker_names[None] == {"ana", "mallory"}
    assert snap.catalog.speaker_names[None] == {"ana", "mallory"}
    assert make_store(tmp_path / "empty", []).catalog.speaker_names == {None: frozenset()}


@pytest.mark.parametrize(
    "text",
    ["What is in /home/ana/notes?", "open ana.txt", "mail ana@example.org", "the branch ana-fix", "ana_notes", "~ana"],
)
def test_a_name_in_a_path_an_address_or_an_identifier_stays(text: str) -> None:
    assert speak_as(text, frozenset({"ana"})) == text
