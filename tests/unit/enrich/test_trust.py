"""Trust: who vouches for an item, by origin, hedges and agreement, and on a labelled set."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from helix.enrich.salience import judge
from helix.enrich.trust import TRUST, Trust
from helix.enrich.utterance import SessionItem
from tests.support.labelled import add_report, rate_pairs
from tests.support.session_items import assistant, load_sessions, tool, user


def find_sources(*items: SessionItem) -> list[str]:
    return [trust.source for trust in judge(items)[1]]


def test_trust_falls_strictly() -> None:
    assert all(a > b for a, b in pairwise(TRUST.values()))
    assert list(TRUST)[:4] == ["confirmed", "statement", "document", "claim"]
    assert list(TRUST)[-1] == "speculation"


def test_the_origin_vouches_and_the_role_for_an_unknown_one() -> None:
    for role, origin, source in (
        ("user", "human", "statement"), ("document", "document", "document"), ("assistant", "assistant", "claim"),
        ("assistant", "subagent", "report"), ("tool", "tool", "output"), ("user", "summary", "summary"),
        ("user", "someone new", "statement"), ("system", "someone new", "context")):  # fmt: skip
        item = SessionItem("The port is open.", role, origin, "semantic", 0)
        assert judge([item])[1] == [Trust(TRUST[source], source)], (role, origin)


HEDGED = (
    "Maybe the port is open.", "I think the port is open.", "I'm not sure, but the port is open.",
    "It might've been the port.", "Probably the port.", "no idea, the port?",
    "Don't quote me on that, the port is open", "I'm torn between tabs and spaces.", "if memory serves it was closed",
    "I'm still considering the boat", "maybe we decided on tabs")  # fmt: skip
NOT_HEDGED = (
    "I'm sure, make sure it is on.", "the `might_be_none` flag is set", "```\nmaybe = probably()\n```\nthe flag is set",
    '> perhaps\nno, it is "maybe" in the protocol', "The mightiest server.",
    "It is closed. It was closed on Monday. It stays closed. I think so.")  # fmt: skip


def test_a_hedge_makes_a_speculation_but_not_in_a_tool() -> None:
    for text in HEDGED:
        guesses = ["speculation", "speculation", "output"]
        assert find_sources(user(text), assistant(text), tool(text)) == guesses, text
    assert [text for text in NOT_HEDGED if find_sources(user(text)) == ["speculation"]] == []
    assert find_sources(user("we decided on tabs")) == ["confirmed"]


PROPOSAL: Final = "We could store it in Postgres or in SQLite; I'd suggest SQLite, and a backup on Thursday."


ANSWERS = {
    "confirmed": ("yes", "ok, SQLite", "Sounds good", "go ahead", "do that, and add a test"),
    "claim": ("Postgres it is.", "the second one please", "SQLite"),  # decide, whatever was proposed
}


def test_an_answer_confirms_itself_and_perhaps_the_proposal() -> None:
    for source, text in [(source, text) for source, texts in ANSWERS.items() for text in texts]:
        assert find_sources(assistant(PROPOSAL), user(text, turn=1)) == [source, "confirmed"], text
    for text in (
        "thanks", "no, SQLite is too slow", "what does a backup cost?", "the build is red",
        "yesterday Postgres crashed", "not sure about SQLite"):  # fmt: skip
        assert "confirmed" not in find_sources(assistant(PROPOSAL), user(text, turn=1)), text


def test_only_a_yes_of_a_person_to_a_proposal_confirms() -> None:
    river, proposal = assistant("The river runs past the mill."), assistant(PROPOSAL)
    assert find_sources(river, user("yes", turn=1))[1] == "statement"
    assert find_sources(user("yes")) == ["statement"]
    question = user("let me know: should we use SQLite?")
    assert find_sources(question, assistant("yes, go ahead", turn=1))[1] == "claim"
    # Tools between proposal and answer are skipped; of a long turn only the proposal is confirmed.
    assert find_sources(proposal, tool("ok", 1), user("do it", turn=2)) == ["confirmed", "output", "confirmed"]
    assert find_sources(river, proposal, user("yes", turn=1)) == ["claim", "confirmed", "confirmed"]


FLOORS: Final = {
    "confirmed": {"dev": (0.95, 0.76), "test": (0.85, 0.3)}, "statement": {"dev": (0.93, 0.97), "test": (0.84, 0.95)},
    "claim": {"dev": (0.97, 0.97), "test": (0.93, 0.97)}, "output": {"dev": (1.0, 1.0), "test": (1.0, 1.0)},
    "speculation": {"dev": (0.95, 0.95), "test": (0.95, 0.8)}}  # fmt: skip
"""Precision and recall by source. The labels count a confirmed proposal of an assistant as its claim, and a document as
a statement. A decision is found by its wording, so new wordings are missed."""


@pytest.mark.parametrize("split", ["dev", "test"])
def test_sources_on_the_labelled_sessions(split: str) -> None:
    pairs: list[tuple[object, object]] = []
    for items, _, sources in load_sessions(split):
        for item, source, trust in zip(items, sources, judge(items)[1], strict=True):
            found = {"document": "statement"}.get(trust.source, trust.source)
            pairs.append((source, "claim" if item.role == "assistant" and found == "confirmed" else found))
    rows = rate_pairs(pairs, FLOORS)
    add_report(f"confidence, {split}: who vouches", rows)
    for source, floors in FLOORS.items():
        assert rows[source][0] >= floors[split][0], source
        assert rows[source][1] >= floors[split][1], source
