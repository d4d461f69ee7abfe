"""Superseded items carry what replaced them: in every recipe's answer, in its context and in its explanation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helix.deep.context import prepare
from helix.deep.fusion import compose_answer
from helix.deep.replies import Replies
from helix.recipes.load_profile import names
from helix.sdk.memory import Memory
from helix.stages.replaced import QUOTED, SHOWN, _shorten, add_replacements
from helix.types import Bundle, RecallOptions
from tests.support.tiny import BASE, list_ids, make_store, memory_of

DAY = 86_400
OLD, MIDDLE, NEW = "We use Jenkins for CI", "Jenkins gave way to Travis", "CI is on Buildkite since the spring"
TEXTS = (OLD, MIDDLE, NEW, "Tests of the CI run at night")
QUESTION = "which CI do we use"


def world(root: Path, new: str = NEW, certainty: float = 0.95, **given: Any) -> Memory:
    """Jenkins, then Travis, then Buildkite, a day apart, by links; `given` are fields of the newest item."""
    fields: list[dict[str, Any]] = [{"session": f"s{i}", "time": BASE + i * DAY} for i in range(len(TEXTS))]
    fields[2] |= given
    texts = [new if text is NEW else text for text in TEXTS]
    make_store(root, texts, given=fields, changes=[(0, 1, certainty), (1, 2, certainty)])
    return memory_of(root)


def day(n: float) -> datetime:
    return datetime.fromtimestamp(BASE + n * DAY, UTC)


def ask(memory: Memory, **given: Any) -> Bundle:
    return memory.recall(QUESTION, **{"now": day(90), "k": 20, **given})


def read_replacements(found: Bundle) -> dict[str, Any]:
    """Return the text of each item's replacement, by the item's."""
    return {item.text: item.replaced_by and item.replaced_by["text"] for item in found.items}


@pytest.mark.parametrize("profile", sorted({*names()} - {"memoria"}))
def test_every_recipe_names_the_newest_successor_in_items_and_context(tmp_path: Path, profile: str) -> None:
    memory = world(tmp_path)
    found = ask(memory, profile=profile)
    replaced = read_replacements(found)
    assert replaced[OLD] == NEW  # the end of the chain
    assert {text for text, new in replaced.items() if new is None} == {*replaced} & {NEW, TEXTS[3]}
    (item,) = (item for item in found.items if item.text == OLD)
    assert item.replaced_by == {"id": list_ids(tmp_path)[2], "time": "2023-11-16T22:13:20Z", "text": NEW}
    mark = f'(replaced 2023-11-16: "{NEW}" s2#t2)'
    assert found.context.count(mark) == sum(new is not None for new in replaced.values())
    assert found.tokens == memory.snapshot.counter([found.context])[0]


def test_only_what_was_said_by_then_replaces(tmp_path: Path) -> None:
    memory = world(tmp_path)
    for when in ({"now": day(1.5)}, {"as_of": day(1.5)}):
        assert read_replacements(ask(memory, **when))[OLD] == MIDDLE
    assert read_replacements(ask(memory, as_of=day(0.5))) == {OLD: None}
    unsure = world(tmp_path / "unsure", certainty=0.5)
    assert {*read_replacements(ask(unsure)).values()} == {None}


def test_a_hidden_successor_replaces_nothing(tmp_path: Path) -> None:
    memory = world(tmp_path, acl=["ana"])
    assert read_replacements(ask(memory, principal="ana"))[OLD] == NEW
    found = ask(memory)
    assert read_replacements(found)[OLD] == MIDDLE
    assert NEW not in found.context


def test_browsing_carries_it_too(tmp_path: Path) -> None:
    memory = world(tmp_path)
    first, _, newest, _ = list_ids(tmp_path)
    (expected,) = (item.replaced_by for item in ask(memory).items if item.text == OLD)
    around, near = memory.around(first), memory.neighbours(first)
    assert around
    assert near
    for stored in (memory.item(first), around["items"][0], near["nodes"][0]):
        assert stored
        assert stored["replaced_by"] == expected
    assert (memory.item(newest) or {})["replaced_by"] is None


def test_the_deep_tier_keeps_it(tmp_path: Path) -> None:
    memory = world(tmp_path)
    plain, question = ask(memory), prepare(memory.deep_context, QUESTION, RecallOptions(now=day(90)))
    found = compose_answer(question, plain, Replies(wordings={"hyde": "Jenkins"}), 0.0)
    assert read_replacements(found) == {OLD: NEW, MIDDLE: NEW, NEW: None, TEXTS[3]: None}
    assert found.context.count(f': "{NEW}" s2#t2)') == 2


def test_a_superseded_neighbour_is_marked(tmp_path: Path) -> None:
    said = {"session": "s", "speaker": "Bo"}
    given = [{**said, "time": BASE}, {**said, "time": BASE + 9}, {"session": "t", "time": BASE + DAY}]
    make_store(tmp_path, ["Jenkins it is", "which CI do we use, then", NEW], given=given, changes=[(0, 2, 1.0)])
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "few.toml").write_text('base = "helix"\n[pack]\nitems = 0\n')
    found = ask(memory_of(tmp_path, profiles=tmp_path / "profiles"), k=1, profile="few")
    assert [item.text for item in found.items] == ["which CI do we use, then"]
    assert f'[Bo, turn before] (s#t0) (replaced 2023-11-15: "{NEW}" t#t2)\nJenkins it is' in found.context
    assert found.tokens <= found.budget


def test_a_long_successor_is_cut_to_the_sentences_about_the_same(tmp_path: Path) -> None:
    change, around = "From Jenkins we went to Buildkite for CI.", "The ferry was late again and it rained. " * 9
    memory = world(tmp_path, f"{around}\n{change} </memory> {around}")
    snap = memory.snapshot
    (entry,) = add_replacements(snap.text([0]), snap.changes.links.old[:1], snap, BASE + 90 * DAY)
    assert change in entry["replaced"]["text"]
    assert change in entry["replaced"]["quote"]
    assert len(entry["replaced"]["text"]) <= SHOWN
    assert len(entry["replaced"]["quote"]) <= QUOTED
    assert "\n" not in entry["replaced"]["text"]
    assert ask(memory).context.count("</memory>") == 1


def test_a_successor_is_cut_by_the_rules_of_its_language() -> None:
    around = "Die Fähre kam spät und es regnete. " * 9
    text = f"{around}Am See standen die Häuser. {around}"
    assert "Häuser" in _shorten({"text": text}, "de", "Ein Haus")["quote"]
    assert "Häuser" not in _shorten({"text": text}, "en", "Ein Haus")["quote"]


def test_an_explanation_names_the_successor(tmp_path: Path) -> None:
    memory = world(tmp_path)
    first, _, newest, _ = list_ids(tmp_path)
    words = f"superseded by {newest} on 2023-11-16"
    for more in ({}, {"current_only": True}, {"k": 1}):
        trace = ask(memory, why_not=first, **more).trace or {}
        assert trace["why_not"].endswith(f"; {words}")
    replaced = {one["id"]: one["replaced"] for one in (ask(memory, explain=True).trace or {})["candidates"]}
    assert (replaced[first], replaced[newest]) == (words, None)


def test_links_demote_lift_and_filter_as_facts_do(tmp_path: Path) -> None:
    """The newest item shares no word with the question, so no lexical leg brings it."""
    memory = world(tmp_path, "Buildkite, from the spring on")
    texts = [item.text for item in ask(memory).items]
    assert texts[0] == "Buildkite, from the spring on"
    assert OLD in texts
    assert OLD not in [item.text for item in ask(memory, current_only=True).items]
