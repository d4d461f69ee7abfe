"""Events that a question counts from, and the windows they open."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helix.question.event_windows import MARGIN, MAX_EVENTS, SCANNED, SPREAD, TOP, Relation, find_event, find_window
from helix.question.time_ranges import NEAR, NEWEST, OLDEST

DAY = 86_400
AT = 1_700_000_000
RELATIONS: tuple[Relation, ...] = ("before", "after", "since", "until", "during", "around")


EVENTS: dict[Relation, dict[str, str]] = {
    "before": {
        "what did we use before the migration": "migration",
        "how did we log in prior to the SSO rollout?": "SSO rollout",
        "before the demo did we fix the login bug?": "demo",
        "what did we try before switching to websockets": "switching to websockets",
        "what was the name before we renamed it to Helix": "renamed it to Helix",
    },
    "after": {
        "what changed after the launch?": "launch", "what changed following the launch": "launch",
        "who joined after Priya left the team": "Priya left the team",
        "what happened the day after our wedding": "wedding", "where did we go after the wedding": "wedding",
        "After the outage in staging what did we change?": "outage in staging",
        "after that meeting what did Bob say": "meeting",
        "after the June release, what did customers report": "June release",
        "what did we decide before and after the merge": "merge",
        "after we left Goa and before we reached Pune what happened": "left Goa",
    },
    "since": {
        "since we switched to Postgres, what broke": "switched to Postgres",
        "what has improved since v2 shipped": "v2 shipped", "ever since the merge the tests are slow": "merge",
    },
    "until": {
        "how slow was it until the release": "release",
        "until the contract was signed, who paid": "contract was signed",
    },
    "during": {
        "what did Ben say during the kickoff meeting": "kickoff meeting",
    },
    "around": {
        "what were we using around the time of the rewrite": "rewrite",
    },
}  # fmt: skip


def test_the_event_a_question_counts_from() -> None:
    found = {relation: {text: find_event(text) for text in texts} for relation, texts in EVENTS.items()}
    assert found == {
        relation: {text: (relation, phrase) for text, phrase in texts.items()} for relation, texts in EVENTS.items()
    }


NO_EVENT = (
    "", "what is the port", "before you start", "before we begin, what is the port",
    "before I forget: what is the port", "before that, what happened", "how did it look before", "before, we used x",
    "after all", "after all we agreed", "after a while", "day after day", "one after another",
    "who is named after the founder", "does she look after the dog", "did the tests pass as before the change",
    "since it is slow, do it twice", "since you are here", "since then", "since when does Oksana play the cello",
    "until now", "retry until it passes", "wait until the build is green", "what happens after every deploy",
    "what broke after every deploy", "what did Bo feel after an exam", "what should I check before merging",
    "what do we need to do before the release", "is the following list complete", "during the day", "during lunch",
    "throughout our conversations, what came first", "until the end of the month",
    # Dates are read elsewhere.
    "before May", "since Monday", "after the 3rd of June", "before 2023", "after 10 minutes",
)  # fmt: skip


def test_texts_without_an_event() -> None:
    assert [text for text in NO_EVENT if find_event(text) is not None] == []


def test_the_searched_text_is_bounded() -> None:
    assert find_event("x " * (SCANNED // 2) + "what broke after the merge") is None
    assert find_event("after it, " * (MAX_EVENTS - 1) + "what broke after the merge") is not None
    assert find_event("after it, " * MAX_EVENTS + "what broke after the merge") is None


def times_of(*days: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([AT + day * DAY for day in days], np.int64)


def scores(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("before", (OLDEST, AT - 1)), ("until", (OLDEST, AT)), ("after", (AT + 1, NEWEST)), ("since", (AT, NEWEST)),
        ("during", (AT - DAY - MARGIN, AT + 2 * DAY + MARGIN)), ("around", (AT - DAY - MARGIN, AT + 2 * DAY + MARGIN)),
    ],
)  # fmt: skip
def test_a_window_by_relation(relation: Relation, expected: tuple[int, int]) -> None:
    assert find_window(relation, times_of(2, 0, -1), scores(5, 6, 5)) == (*expected, NEAR)


def test_better_matches_decide_and_weak_and_late_ones_do_not_count() -> None:
    assert find_window("since", times_of(0, 5, 6), scores(9, 5, 4)) == (AT, NEWEST, NEAR)  # 9 of 18 is half
    assert find_window("since", times_of(0, 5, 6), scores(8, 5, 4)) == (AT + 5 * DAY, NEWEST, NEAR)
    # Half of the best or more.
    assert find_window("since", times_of(0, 5, 6, 7), scores(10, 4.9, 4.9, 4.9)) == (AT, NEWEST, NEAR)
    many = np.concatenate([times_of(*[0] * TOP), times_of(*[9] * 50)])
    assert find_window("since", many, np.full(TOP + 50, 2, np.float32)) == (AT, NEWEST, NEAR)  # ties: the earlier ones


def test_matches_far_apart_or_without_a_time_are_no_event() -> None:
    assert find_window("after", times_of(0, 100, 200), scores(3, 3, 3)) is None
    assert find_window("after", times_of(-15, 0, 15), scores(3, 3, 3)) is None
    assert find_window("after", times_of(-14, 0, 14), scores(3, 3, 3)) is not None
    # A late mention does not undo an event, nor does it widen the window during it.
    assert find_window("during", times_of(0, 1, 300), scores(5, 5, 4)) == (AT - MARGIN, AT + DAY + MARGIN, NEAR)
    empty = np.empty(0, np.int64)
    assert find_window("before", empty, np.empty(0, np.float32)) is None
    missing = np.full(2, np.iinfo(np.int64).min)
    assert find_window("before", missing, scores(3, 2)) is None
    assert find_window("before", times_of(0, 0), scores(0, float("nan"))) is None
    # A match without a time leaves the others.
    assert find_window("since", np.concatenate([missing, times_of(0)]), scores(9, 9, 1)) == (AT, NEWEST, NEAR)


@given(
    st.sampled_from(RELATIONS),
    st.integers(0, 12).flatmap(
        lambda n: st.tuples(
            hnp.arrays(np.int64, n, elements=st.integers(-(2**63), 2**63 - 1) | st.integers(AT, AT + SPREAD)),
            hnp.arrays(np.float32, n, elements=st.floats(width=32)),
        )
    ),
)
def test_a_window_is_in_order(relation: Relation, found: tuple[np.ndarray, np.ndarray]) -> None:
    got = find_window(relation, *found)
    if got is not None:
        first, last, weight = got
        assert OLDEST <= first <= last <= NEWEST
        assert weight == NEAR


WORDS = "before after since until during the we a launch merged is May Goa , ? and did all you switched to 3 İ"


@given(st.lists(st.sampled_from(WORDS.split()), max_size=15).map(" ".join) | st.text(max_size=100))
def test_any_text_has_an_event_of_words_or_none(text: str) -> None:
    found = find_event(text)
    if found is not None:
        assert found.relation in RELATIONS
        assert found.phrase
        assert all(word in text for word in found.phrase.split())


def test_no_text_takes_long() -> None:
    begin = time.thread_time()
    for text in (
        "before " * 10_000,
        "since " + "x" * 1_000_000,
        "a" * 1_000_000,
        "after the " * 10_000,
        "before x " * 9_000,
    ):
        find_event(text)
    assert time.thread_time() - begin < 3
