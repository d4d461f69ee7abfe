"""Questions that many turns answer, and the user's rules, from ingest to the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import helix
from helix.sdk.memory import Memory
from helix.work.standing import MOST
from pipelines.embedded.ingest import ingest
from tests.support.tiny import SETTINGS

CHAT = [
    ("user", "The parser of the invoices fails on empty lines."),
    ("assistant", "It splits at every line break. I can skip the empty ones."),
    ("user", "Yes, and keep their numbers."),
    ("assistant", "Done; numbers are those of the file."),
    ("user", "Now the colour of the buttons: is blue fine?"),
    ("assistant", "Blue has enough contrast on white."),
    ("user", "Back to the parser: dates with dots are read wrong."),
    ("assistant", "The parser now takes both forms of dates."),
]
RULES = [
    "Always give a worked example when I ask about statistics.",
    "Never answer in more than five sentences.",
    "Always name the version of a library.",
    "I want to sort the samples, and I prefer short functions without classes, so how do I begin?",
    "We prefer tabs over spaces.",
]


def remember(folder: Path, sessions: Sequence[Sequence[tuple[str, str]]], **more: Any) -> Memory:
    path = folder / "chat.jsonl"
    with path.open("w") as file:
        for number, turns in enumerate(sessions):
            for i, (role, text) in enumerate(turns):
                at = f"2026-0{number + 1}-10T09:{i:02}:00Z"
                line = {"session": f"s{number}", "id": f"t{i}", "role": role, "text": text, "ts": at, "project": "p"}
                file.write(json.dumps({**line, **more}) + "\n")
    ingest(folder / "store", [path], SETTINGS)
    return helix.open(folder / "store")


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    others = [[("user", f"The train to work number {i} was late."), ("assistant", "Noted.")] for i in range(3)]
    return remember(tmp_path_factory.mktemp("talk"), [CHAT, *others])


def test_a_summary_has_the_turns_around_what_was_found_in_order_of_time(talk: Memory) -> None:
    """Break: `cover.top = 0` leaves "keep their numbers" out, which has no word of the question."""
    found = talk.recall("summarise what we said about the parser", min_relevance=0.0)
    shown = [item.turns[0] for item in found.packed if item.session == "s0"]
    assert shown == sorted(shown)
    assert {"t0", "t1", "t2", "t3"} <= set(shown)
    assert found.coverage is not None
    assert found.coverage["extent"] == "summary"
    counted = found.coverage
    assert f"[{counted['turns']} turns in " in found.context
    assert f"; {counted['shown']} shown]" in found.context
    assert counted["shown"] == len(found.packed) <= counted["turns"]


def test_another_question_has_no_coverage(talk: Memory) -> None:
    assert talk.recall("which colour have the buttons", min_relevance=0.0).coverage is None


def test_an_order_of_what_the_asker_said_is_of_their_turns(talk: Memory) -> None:
    found = talk.recall("in which order did I bring up the parser and the colour", k=4, min_relevance=0.0)
    assert found.items
    said = {text for role, text in CHAT if role == "assistant"}
    assert not said & {item.text for item in found.items}


@pytest.fixture(scope="module")
def store_of_rules(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    rules = [("user", text) for text in RULES]
    statistics = [("user", f"The mean of sample {i} is {i + 3}, its median {i}.") for i in range(20)]
    return remember(tmp_path_factory.mktemp("ruled"), [rules, statistics])


def test_rules_bear_on_advice_without_a_word_in_common(store_of_rules: Memory) -> None:
    """Break: `pack.standing = 0` leaves the answer to what is like the question."""
    found = store_of_rules.recall(
        "how should I compare the mean and the median of two samples", k=10, min_relevance=0.0
    )
    rules = {item.text: item.why["rule"] for item in found.items if "rule" in item.why}
    assert RULES[0] in rules
    assert {"standing instruction", "preference"} == set(rules.values())
    assert len(rules) <= sum(MOST)
    assert len(found.items) == 10
    scores = [item.score for item in found.items]
    assert scores == sorted(scores, reverse=True)
    head = "[the user's preferences and standing instructions]"
    assert found.context.index(head) < found.context.index(f"- {RULES[0]}") < found.context.index("The mean of")
    assert found.context.count(RULES[0]) == 1
    assert {item.id for item in found.items if "rule" in item.why} <= {item.id for item in found.packed}


def test_a_question_of_fact_has_no_rule_among_its_items_but_instructions_in_its_context(store_of_rules: Memory) -> None:
    found = store_of_rules.recall("which mean had sample 7", k=5, min_relevance=0.0)
    assert not any("rule" in item.why for item in found.items)
    assert "- Always" in found.context
    assert "- We prefer tabs over spaces." not in found.context


def test_on_what_holds_now_the_nearest_instruction_bears(store_of_rules: Memory) -> None:
    found = store_of_rules.recall("which mean has sample 7", k=5, min_relevance=0.0)
    assert [item.why.get("rule") for item in found.items] == [None] * 4 + ["standing instruction"]


def test_a_wish_of_other_people_is_no_rule(tmp_path: Path) -> None:
    memory = remember(tmp_path, [[("user", text) for text in RULES]], speaker="Ana")
    found = memory.recall("how should I write the function", min_relevance=0.0)
    assert not any("rule" in item.why for item in (*found.items, *found.beyond))


def test_rules_have_their_share_of_the_budget(tmp_path: Path) -> None:
    many = [("user", f"Always {verb} every file of the {noun}, {'and its copies, ' * 12}when I ask.") for verb, noun in
            (("check", "server"), ("read", "client"), ("save", "worker"))]  # fmt: skip
    memory = remember(tmp_path, [many, [("user", "The server has four files.")]])
    found = memory.recall("how should I check the files of the server", budget=2_000, min_relevance=0.0)
    lines = [line for line in found.context.splitlines() if line.startswith("- ")]
    assert lines
    assert max(map(len, lines)) < 300
