"""Decisions of a project that change: what holds now, what held then, and why it changed, as ingested from one log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helix.sdk.memory import Memory
from helix.settings import load
from helix.types import Bundle
from pipelines.embedded.ingest import ingest
from tests.support.benchmarks import write_json_lines

JENKINS = "We use Jenkins for CI."
ACTIONS = "We switched CI from Jenkins to GitHub Actions, because the Jenkins box needed a person to look after it."
BUILDKITE = "We switched CI from GitHub Actions to Buildkite because of the queue times."
POSTGRES, DUCKDB = (
    "We decided to use PostgreSQL for the billing service.",
    "We switched the billing service from PostgreSQL to DuckDB: a server was too much for it.",
)
PRIYA, OMAR = "Priya is on call this month.", "Omar takes over on call from Priya."
SHORT, LONG = "The session timeout is 30 minutes.", "Set the session timeout to 45 minutes."
TURNS = (
    ("2026-01-12", JENKINS),
    ("2026-01-20", POSTGRES),
    ("2026-02-03", SHORT),
    ("2026-04-02", ACTIONS),
    ("2026-04-03", "The search service uses OpenSearch."),
    ("2026-05-11", DUCKDB),
    ("2026-06-01", PRIYA),
    ("2026-06-20", "What if we moved CI to Drone?"),
    ("2026-07-02", LONG),
    ("2026-08-01", OMAR),
    ("2026-09-08", BUILDKITE),
    ("2026-09-09", "Lunch on Friday is at the new place."),
    ("2026-09-15", "The tests of the search service run for 12 minutes."),
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    root = tmp_path_factory.mktemp("current")
    lines = [
        {"session": f"s{i}", "id": f"t{i}", "role": "user", "project": "shop", "text": text, "ts": f"{day}T09:00:00Z"}
        for i, (day, text) in enumerate(TURNS)
    ]
    write_json_lines(root / "turns.jsonl", *lines)
    ingest(root / "store", [root / "turns.jsonl"], load(), format="jsonl")
    return Memory(root / "store", load())


def ask(memory: Memory, question: str, **given: str) -> Bundle:
    return memory.recall(question, now="2026-10-01T00:00:00Z", k=8, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what CI do we use", [BUILDKITE, ACTIONS, JENKINS]),
        ("which database does the billing service use", [DUCKDB, POSTGRES]),
        ("who is on call", [OMAR, PRIYA]),
        ("how long is the session timeout", [LONG, SHORT]),
    ],
)
def test_the_newest_value_is_first_and_those_before_it_follow(
    memory: Memory, question: str, expected: list[str]
) -> None:
    found = ask(memory, question)
    assert [item.text for item in found.items[: len(expected)]] == expected
    replaced = [item.replaced_by and item.replaced_by["text"] for item in found.items[: len(expected)]]
    assert replaced == [None, *[expected[0]] * (len(expected) - 1)]
    assert f'(replaced {(found.items[0].time or "")[:10]}: "' in found.context


def test_as_of_an_earlier_day_the_value_of_that_day_is_first(memory: Memory) -> None:
    assert ask(memory, "what CI do we use", as_of="2026-02-01").items[0].text == JENKINS
    assert ask(memory, "what CI do we use", as_of="2026-05-01").items[0].text == ACTIONS


def test_questions_about_then_and_why(memory: Memory) -> None:
    assert ask(memory, "what CI did we use first").items[0].text == JENKINS
    assert ask(memory, "which CI did we use in March").items[0].text == JENKINS
    assert ask(memory, "why did we leave Jenkins").items[0].text == ACTIONS
    assert ask(memory, "why did we switch the billing service to DuckDB").items[0].text == DUCKDB


def test_other_questions_and_profiles_without_the_stage_keep_the_ranking(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "still.toml").write_text('base = "helix"\n[reading]\ntop = 0\n', "utf-8")
    still = Memory(memory.root, replace(load(), profiles=str(tmp_path)))

    def rank(one: Memory, question: str, profile: str) -> list[str]:
        return [item.text for item in ask(one, question, profile=profile).items]

    for question, same in (("give me a summary of the CI", True), ("what CI do we use", False)):
        assert (rank(memory, question, "helix") == rank(still, question, "still")) == same, question
