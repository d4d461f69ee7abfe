"""Salience: the sums by hand, the signs one by one, and a labelled set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from helix.enrich.salience import CHATTER, ORIGIN, WEIGHTS, Worth, apply_input, judge
from helix.enrich.signs import BACK, GENERIC, HEDGE, NARRATION, PROPOSES, SIGNS
from helix.enrich.utterance import SessionItem, read_utterance
from helix.util.wordlists import compile_lines
from tests.support.labelled import add_report, rate_pairs
from tests.support.session_items import assistant, load_sessions, tool, user


def rate_sessions(*items: SessionItem) -> list[dict[str, float]]:
    """Return the parts of each item's salience."""
    return [dict(worth.parts) for worth in judge(items)[0]]


def rate_alone(item: SessionItem) -> dict[str, float]:
    """Return the parts of an item that is neither first nor referred to."""
    return rate_sessions(user("xyzzy"), item._replace(turn=1))[1]


# ---------------------------------------------------------------- the sum


def test_the_sum_by_hand() -> None:
    [worth] = judge([user("settled on port 5432 for us", type="decision")])[0]
    assert worth.parts == (
        ("base", 0.25),
        ("decision", 0.25),
        ("number", 0.25),
        ("first person", 0.05),
        ("decision type", 0.05),
        ("length", 0.0667),  # 6 words are 4/6 of the way from 2 to 8
        ("first", 0.03),
    )
    assert worth.value == 0.9467


def test_an_assistant_pays_for_its_origin() -> None:
    parts = rate_alone(assistant("the pool was exhausted, 40 connections never came back"))
    assert parts["origin"] == pytest.approx(WEIGHTS["origin"] * ORIGIN["assistant"])
    assert "first person" not in rate_alone(assistant("I fixed our pool"))


def test_the_value_is_capped_and_its_parts_are_not() -> None:
    text = (
        "No, that's wrong! We decided on 2024-05-07 to always use 3 replicas; I'll do it by Friday. "
        "My wife agreed. The cause was fixed, and remember: never push."
    )
    [worth] = judge([user(text, type="decision", names=("replica",))])[0]
    assert worth.value == 1
    assert sum(amount for _, amount in worth.parts) > 1


def test_a_sign_counts_once_and_less_in_a_long_text() -> None:
    assert rate_alone(user("we agreed on it, they agreed on it"))["decision"] == WEIGHTS["decision"]
    long = rate_alone(user("we agreed on it " + "and so the river runs down past the mill " * 17 + "at dusk"))
    words = 4 + 9 * 17 + 2
    assert long["decision"] == pytest.approx(WEIGHTS["decision"] * math.sqrt(40 / words), abs=1e-4)


def test_length_alone_stays_below_every_main_sign() -> None:
    short = rate_alone(user("allergic, pollen"))
    for words in (3, 10, 100, 5000):
        long = rate_alone(user("river " * words))
        assert set(long) <= {"base", "length"}
        assert sum(long.values()) < sum(short.values())


def test_length_by_hand() -> None:
    assert "length" not in rate_alone(user("the river"))
    assert rate_alone(user("the river runs past mills"))["length"] == pytest.approx(0.05)  # half of the way from 2 to 8
    assert rate_alone(user("the river runs past the mill at dusk"))["length"] == pytest.approx(0.1)


def test_chatter_is_near_zero_and_an_empty_text_zero() -> None:
    for text in ("ok", "Thanks!", "lol", "Sounds good, thank you so much!!", "yes please", "That's all."):
        assert judge([user(text)])[0] == [Worth(CHATTER, (("chatter", CHATTER),))], text
    assert judge([user(" \n…")])[0][0].value == 0
    assert judge([]) == ([], [])


# ---------------------------------------------------------------- the signs

SIGNS_OF = {
    "decision": ("they settled on tabs", "Tabs it is.", "let's use tabs", "staying with tabs", "that's final"),
    "correction": ("no, the other one", "you forgot the tests", "it's blue, not green"),
    "commitment": ("she promised it by Friday", "the deadline is close"),
    "rule": ("I can't stand beige", "never push to main", "please keep it short", "don't touch the vendored copy",
     "no semicolons here"),
    "resolution": ("turns out a lock was stale", "the real cause was a stale lock", "it works again"),
    "person": ("my sister is a nurse", "I work nights"), "constraint": ("it must fit in memory",),
    "date": ("on 3 March", "at 16:40", "since last summer", "see you on Tuesday"), "number": ("it costs 212 euros",),
    "quantity": ("it has seven legs",), "event": ("she sold the boat",), "emphasis": ("this is important",),
    "cheer": ("wow that is so lovely to see",)}  # fmt: skip

NO_SIGNS_OF = {
    "decision": ("should we go with tabs?", "`we decided on tabs`", "> we decided on tabs\nthe river"),
    "rule": ("why do they never answer",), "number": ("1. the river\n2. the mill", "  2082→ checkCmd.Flags"),
    "date": ("2026-01-25T21:28:55 started",), "person": ("the dog barks",)}  # fmt: skip


def test_signs_of_statements_and_none_of_questions_and_quotations() -> None:
    missed = [(sign, text) for sign, texts in SIGNS_OF.items() for text in texts if sign not in rate_alone(user(text))]
    wrong = [(sign, text) for sign, texts in NO_SIGNS_OF.items() for text in texts if sign in rate_alone(user(text))]
    assert (missed, wrong) == ([], [])
    assert {sign.name for sign in SIGNS} <= set(WEIGHTS)


def test_a_statement_before_a_question_counts() -> None:
    parts = rate_alone(user("the demo is on 3 March, can you help me plan it?"))
    assert {"date", "asks"} <= set(parts)
    assert "only asks" not in parts
    assert "only asks" in rate_alone(user("can you help me plan it?"))


def test_signs_depend_on_the_speaker() -> None:
    for sign, text, is_of_user in (
        ("narration", "Let me look at the pool.", False), ("event", "I sold the boat", True),
        ("person", "my sister is a nurse", True)):  # fmt: skip
        assert is_of_user == (sign in rate_alone(user(text))) != (sign in rate_alone(assistant(text))), text
    assert "generic" in rate_alone(assistant("There are many ways to cook rice."))
    assert "number" not in rate_alone(tool("listed 212 files"))
    assert rate_alone(tool("OSError: no space left"))["error"] == WEIGHTS["error"]
    assert rate_alone(user("x = 5432", type="code"))["code type"] == WEIGHTS["code type"]


def test_the_words_of_a_sign_are_in_every_text_its_pattern_matches() -> None:
    for items, _, _ in load_sessions():
        for utterance in map(read_utterance, items):
            for sign in (*SIGNS, NARRATION, GENERIC, HEDGE, BACK, PROPOSES):
                if sign.pattern and sign.words.isdisjoint(utterance.words):
                    assert not compile_lines(sign.pattern).search(utterance.prose), sign


# ---------------------------------------------------------------- the session


def test_rarity_by_hand() -> None:
    names = ("acme",), ("acme", "bolt"), ("acme",), ()
    parts = rate_sessions(*(user("the blue one", turn=turn, names=each) for turn, each in enumerate(names)))
    # Three items name something: three of them acme, one bolt.
    assert parts[0]["rarity"] == pytest.approx(0.1 * math.log(4 / 3) / math.log(4), abs=1e-4)
    assert parts[1]["rarity"] == pytest.approx(0.1)
    assert "rarity" not in parts[3]
    names = ("a1",), tuple(f"b{i}" for i in range(60))  # a listing of rare names earns no more than one
    one, many = rate_sessions(*(user("the blue one", names=each) for each in names))
    assert one["rarity"] == many["rarity"]


def test_the_first_turn_of_the_user_and_the_turn_after_an_error_count() -> None:
    parts = rate_sessions(assistant("the river", turn=0), user("the mill", turn=1), user("the boat", turn=2))
    assert ["first" in part for part in parts] == [False, True, False]
    parts = rate_sessions(tool("KeyError: 'x'", 0), assistant("the river", turn=1), assistant("the mill", turn=2))
    assert ["after error" in part for part in parts] == [False, True, False]


def test_references_of_later_turns() -> None:
    for expected, *later in (
        (0.05, "what about 4471 then"), (0.1, "what about 4471 then", "4471 again"),  # a number, once and twice
        (0, "the harbour is far"), (0.05, "the harbour crane is far"),  # one common word, and two
        (0.05, "the harbour you mentioned"), (0, "haha", "so what"),  # one word in a turn that looks back
    ):  # fmt: skip
        items = [user("the harbour crane has code 4471"), *(user(text, turn=i + 1) for i, text in enumerate(later))]
        assert rate_sessions(*items)[0].get("referred to", 0) == pytest.approx(expected), later
    parts = rate_sessions(user("the blue one", names=("acme",)), user("the red one", turn=1, names=("acme",)))
    assert parts[0]["referred to"] == pytest.approx(0.05)  # a name


def test_a_common_term_or_the_same_turn_refers_to_nothing() -> None:
    assert all("referred to" not in parts for parts in rate_sessions(*(user("code 4471", turn=i) for i in range(4))))
    assert "referred to" not in rate_sessions(user("code 4471", turn=0), user("and code 4471", turn=0))[0]


def test_proposal_and_agreement_both_count() -> None:
    parts = rate_sessions(assistant("I'd suggest storing it in sqlite."), user("yes, with sqlite and a backup", turn=1))
    assert [part["confirmed"] for part in parts] == [WEIGHTS["confirmed"]] * 2


# ---------------------------------------------------------------- the input


def test_a_pinned_item_is_worth_one() -> None:
    worth = apply_input(Worth(0.3, (("base", 0.3),)), True, 1.5)
    assert worth == Worth(1.0, (("base", 0.3), ("pinned", 0.7)))


def test_priority_closes_its_share_of_the_gap() -> None:
    for priority, value in ((None, 0.4), (1.0, 0.4), (1.5, 0.7), (2.0, 1.0), (0.2, 0.4), (7.0, 1.0)):
        worth = apply_input(Worth(0.4, (("base", 0.4),)), False, priority)
        assert worth.value == pytest.approx(value), priority
        assert sum(amount for _, amount in worth.parts) == pytest.approx(value), priority


# ---------------------------------------------------------------- the labelled set


def average_precision(keep: Sequence[bool], values: Sequence[float]) -> float:
    """Return Σ over the distinct values, best first, of (recall gained · precision): ties count as one step."""
    total, hits, rank = 0.0, 0, 0
    for value in sorted(set(values), reverse=True):
        tied = [kept for kept, other in zip(keep, values, strict=True) if other == value]
        hits, rank = hits + sum(tied), rank + len(tied)
        total += sum(tied) / sum(keep) * hits / rank
    return total


@pytest.mark.parametrize(("split", "floor"), [("dev", 0.81), ("test", 0.77)])
def test_salience_on_the_labelled_sessions(split: str, floor: float) -> None:
    keep: list[bool] = []
    values: list[float] = []
    lengths: list[float] = []
    for items, kept, _ in load_sessions(split):
        keep += kept
        values += [worth.value for worth in judge(items)[0]]
        lengths += [float(len(item.text)) for item in items]
    rates = rate_pairs([(kept, value >= 0.5) for kept, value in zip(keep, values, strict=True)], [True])[True]
    average = average_precision(keep, values)
    add_report(f"salience, {split}: worth keeping at .5 (average precision {average:.3f})", {"keep": rates})
    assert average >= 0.86
    assert rates[0] >= floor
    assert rates[1] >= floor
    assert average >= average_precision(keep, lengths) + 0.2
