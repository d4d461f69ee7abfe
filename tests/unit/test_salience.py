from __future__ import annotations

import pytest

from helix.enrich.salience import BASE, CHATTER, CUES, confidence, salience


@pytest.mark.parametrize(
    "text", ["ok", "Thanks!", "lol", "Sounds good, thank you so much!!", "yes please", "Agreed!", "k."]
)
def test_chatter_is_near_zero(text: str) -> None:
    assert salience(text, "user", "human", "episodic") == CHATTER


def test_nothing_is_worth_nothing() -> None:
    assert salience(" \n…", "user", "human", "episodic") == 0


@pytest.mark.parametrize(
    "text",
    [
        "We decided on Parquet.",
        "I'll send the report by Friday.",
        "I prefer short functions.",
        "No, that's wrong: the index is global.",
        "Turns out the cause was a stale lock.",
        "My daughter starts school.",
        "Never commit to main.",
    ],
)
def test_what_matters_stands_out(text: str) -> None:
    assert salience(text, "user", "human", "episodic") >= BASE + 0.15


def test_the_sum_by_hand() -> None:
    # base .2 + decision type .2 + cue decision .25 + cue number .05
    assert salience("they agreed on port 5432", "user", "human", "decision") == pytest.approx(0.7)
    # the same from an assistant: times .9
    assert salience("they agreed on port 5432", "assistant", "assistant", "decision") == pytest.approx(0.63)


def test_length_alone_earns_nothing() -> None:
    short = "The river runs past the mill."
    assert salience(short * 50, "user", "human", "episodic") == salience(short, "user", "human", "episodic")


def test_at_most_one() -> None:
    text = (
        "No, that's wrong! IMPORTANT: we decided on 2024-05-07 to always use 3 replicas; I'll fix it by Friday. "
        "I prefer it. The root cause was an OSError. My wife agreed!!"
    )
    assert salience(text, "user", "human", "decision") == 1


def test_a_cue_counts_once() -> None:
    assert len({row.name for row in CUES}) == len(CUES)
    one, two = "we agreed on it", "we agreed on it, then agreed on more"
    assert salience(one, "user", "human", "episodic") == salience(two, "user", "human", "episodic")


@pytest.mark.parametrize(
    ("role", "origin", "expected"),
    [
        ("user", "human", 0.8),
        ("document", "document", 0.75),
        ("assistant", "assistant", 0.6),
        ("assistant", "subagent", 0.5),
        ("tool", "tool", 0.5),
        ("user", "summary", 0.4),
        ("user", "someone new", 0.8),
        ("system", "someone new", 0.5),
    ],
)
def test_confidence_is_by_who_says_it(role: str, origin: str, expected: float) -> None:
    assert confidence("The port is 5432.", role, origin) == expected


@pytest.mark.parametrize("hedge", ["Maybe", "I think", "I'm not sure, but", "It might be that", "Probably"])
def test_a_hedge_costs_a_third(hedge: str) -> None:
    assert confidence(f"{hedge} the port is 5432.", "user", "human") == pytest.approx(0.56)


def test_being_sure_is_no_hedge() -> None:
    assert confidence("I'm sure, make sure it is on.", "user", "human") == 0.8
