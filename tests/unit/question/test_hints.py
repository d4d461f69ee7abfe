"""The project, days and people that a question names, and questions whose words are ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import helix
from helix.errors import UsageError
from helix.question.time_ranges import name_windows
from helix.sdk.memory import Memory

NOW = "2026-06-01T12:00:00Z"


@pytest.fixture(scope="module")
def memory(sample_store: Path) -> Memory:
    return helix.open(sample_store)


def read_hints(memory: Memory, question: str, **options: Any) -> list[tuple[str, str]]:
    trace = memory.recall(question, now=NOW, explain=True, **options).trace
    assert trace is not None
    return [(one["kind"], one["words"]) for one in trace["hints"]]


def test_a_question_names_a_person_a_project_and_days(memory: Memory) -> None:
    question = "what did Priya say about Ledgerline last week"
    assert read_hints(memory, question) == [("person", "Priya"), ("project", "Ledgerline"), ("days", "last week")]
    assert read_hints(memory, "what is new since 3 May") == [("days", "since 3 May")]
    assert read_hints(memory, "what happened between March and May") == [("days", "between March and May")]
    assert read_hints(memory, "priyanka said nothing") == []


def test_marks_are_those_of_the_whole_trace_without_the_rest(memory: Memory) -> None:
    question = "what did Priya say about Ledgerline last week"
    plain, marked, whole = (
        memory.recall(question, now=NOW, **options) for options in ({}, {"marks": True}, {"explain": True})
    )
    assert plain.trace is None
    assert marked.trace is not None
    assert whole.trace is not None
    assert marked.trace == {name: whole.trace[name] for name in ("hints", "matches", "decides")}
    assert any(marked.trace["matches"])
    assert [item.id for item in marked.items] == [item.id for item in plain.items]


def test_an_explicit_filter_leaves_no_hint_of_its_kind(memory: Memory) -> None:
    question = "what did Priya say about Ledgerline last week"
    assert read_hints(memory, question, project="ledgerline") == [("person", "Priya"), ("days", "last week")]
    assert read_hints(memory, question, since="2026-01-01") == [("person", "Priya"), ("project", "Ledgerline")]


def test_ignored_words_hint_at_nothing_and_change_the_ranking(memory: Memory) -> None:
    question = "what was said about the guest house on 10 February"
    assert read_hints(memory, question, ignored=["on 10 February", "10 February"]) == []
    heeded, ignored = (memory.recall(question, now=NOW, ignored=words) for words in ((), ("10 February",)))
    assert heeded.items[0].time is not None
    assert [item.score for item in heeded.items] != [item.score for item in ignored.items]


def test_matches_are_places_in_each_item(memory: Memory) -> None:
    found = memory.recall("what did I tell Priya about vacation", now=NOW, explain=True)
    assert found.trace is not None
    places = found.trace["matches"]
    assert len(places) == len(found.items)
    text = found.items[0].text
    assert [text[start:end] for start, end in places[0]] == ["Priya", "vacation"]
    assert memory.recall("what did I tell Priya about vacation", now=NOW).trace is None


def test_too_many_ignored_words_are_refused(memory: Memory) -> None:
    with pytest.raises(UsageError, match="ignored words is 21"):
        memory.recall("priya", ignored=["a"] * 21)


def test_windows_are_named_with_their_words() -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    text = "before May or yesterday"
    named = [text[start:end] for start, end, _ in name_windows(text, now)]
    assert named == ["before May", "yesterday"]
