"""Times, names and filters of a question."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.errors import UsageError
from helix.question.build import reword
from helix.question.time_ranges import NEAR, NEWEST, OLDEST, SCANNED, find_days, parse_time
from helix.sdk.open import open as open_store
from helix.settings import Settings, load
from helix.stages.route import route
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, make_store

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)  # a Wednesday


def day(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("said", "end", "expected"),
    [
        ("2026-05-07", False, "2026-05-07T00:00:00+00:00"), ("2026-05-07", True, "2026-05-07T23:59:59+00:00"),
        ("2026-05-07T13:56:00Z", True, "2026-05-07T13:56:00+00:00"),
        ("2026-05-07T13:56:00+02:00", False, "2026-05-07T11:56:00+00:00"), ("7d", False, "2026-05-13T12:00:00+00:00"),
        ("90m", False, "2026-05-20T10:30:00+00:00"), ("yesterday", False, "2026-05-19T00:00:00+00:00"),
        ("yesterday", True, "2026-05-19T23:59:59+00:00"), ("0001-01-01", False, "0001-01-01T00:00:00+00:00"),
        ("9999-12-31", True, "9999-12-31T23:59:59+00:00"), ("last week", False, "2026-05-11T00:00:00+00:00"),
        ("last week", True, "2026-05-17T23:59:59+00:00"), ("in March", False, "2026-03-01T00:00:00+00:00"),
        ("march", True, "2026-03-31T23:59:59+00:00"), ("since Monday", False, "2026-05-18T00:00:00+00:00"),
        ("2025", True, "2025-12-31T23:59:59+00:00"), ("the last three days", False, "2026-05-17T00:00:00+00:00"),
        ("between March and May", True, "2026-05-31T23:59:59+00:00"), ("May 3rd", False, "2026-05-03T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_times_in_options(said: str, end: bool, expected: str) -> None:
    assert parse_time(said, NOW, "since", end=end).isoformat() == expected


BEYOND = (
    "9999999999999999d", "999999999w", "9" * 5_000 + "d", "739999d", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
)  # fmt: skip
"""Times that no calendar here has."""


@pytest.mark.parametrize(
    "said",
    ["someday", "", "2026-13-01", "7", "d7", "last week or so", "noon of yesterday", "in March, in May", *BEYOND],
)
def test_wrong_times_are_refused(said: str) -> None:
    for end in (False, True):
        with pytest.raises(UsageError, match="is no time") as error:
            parse_time(said, NOW, "since", end=end)
        assert len(str(error.value)) < 250


def test_a_moment_beyond_the_calendar_is_refused(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["a b"])
    for moment in (datetime.fromisoformat(BEYOND[-1]), datetime.fromisoformat(BEYOND[-2])):
        for name in ("since", "until", "as_of", "ingested_as_of", "now"):
            with pytest.raises(UsageError, match=rf"{name} .* is no time"):
                make_query("walnut", snap, SETTINGS, **{name: moment})


DAYS = {  # the last month, week or year that has begun, whatever the tense; a week around the day of weeks ago
    "what happened on 7 May 2023": ((2023, 5, 7), (2023, 5, 8)),
    "on May 7th, 2023 we met": ((2023, 5, 7), (2023, 5, 8)), "the 2023-05-07 call": ((2023, 5, 7), (2023, 5, 8)),
    "plans for December 2025": ((2025, 12, 1), (2026, 1, 1)), "what did we do in March": ((2026, 3, 1), (2026, 4, 1)),
    "what did we do in August": ((2025, 8, 1), (2025, 9, 1)), "who called yesterday": ((2026, 5, 19), (2026, 5, 20)),
    "last week's decisions": ((2026, 5, 11), (2026, 5, 18)), "last month": ((2026, 4, 1), (2026, 5, 1)),
    "this month": ((2026, 5, 1), (2026, 6, 1)), "in May": ((2026, 5, 1), (2026, 6, 1)),
    "what is due in June": ((2025, 6, 1), (2025, 7, 1)), "last May": ((2025, 5, 1), (2025, 6, 1)),
    "in 2023": ((2023, 1, 1), (2024, 1, 1)), "two weeks ago": ((2026, 5, 3), (2026, 5, 10)),
    "a few days ago": ((2026, 5, 13), (2026, 5, 19)), "the other day": ((2026, 5, 13), (2026, 5, 20)),
    "the last three weeks": ((2026, 4, 29), (2026, 5, 21)), "over the weekend": ((2026, 5, 16), (2026, 5, 18)),
    "who is free this weekend": ((2026, 5, 23), (2026, 5, 25)),
    "what is due on Friday": ((2026, 5, 15), (2026, 5, 16)), "last summer": ((2025, 6, 1), (2025, 9, 1)),
    "at Halloween": ((2025, 10, 31), (2025, 11, 1)), "on 7 may": ((2026, 5, 7), (2026, 5, 8)),
    "on December 1,2023": ((2023, 12, 1), (2023, 12, 2)),
}  # fmt: skip


def test_days_a_question_speaks_of() -> None:
    windows = {text: (day(*first), day(*last) - 1, 1.0) for text, (first, last) in DAYS.items()}
    windows["the 3rd of June"] = (day(2025, 6, 1), day(2025, 7, 1) - 1, 0.5)  # the month of a day is a near miss
    assert [text for text, window in windows.items() if window not in find_days(text, NOW)] == []


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("before May", None, day(2026, 5, 1) - 1),
        ("what was there prior to the 3rd of June 2025?", None, day(2025, 6, 3) - 1),
        ("before last week", None, day(2026, 5, 11) - 1), ("until March", None, day(2026, 4, 1) - 1),
        ("up to last month", None, day(2026, 5, 1) - 1), ("after the 3rd of June", day(2025, 6, 4), None),
        ("after 2023", day(2024, 1, 1), None), ("since Monday", day(2026, 5, 18), None),
        ("since last summer", day(2025, 6, 1), None), ("since march 3", day(2026, 3, 3), None),
        ("from April on", day(2026, 4, 1), None),
    ],
)  # fmt: skip
def test_windows_with_an_open_end(text: str, first: int | None, last: int | None) -> None:
    expected = (OLDEST if first is None else first, NEWEST if last is None else last, NEAR)
    assert find_days(text, NOW) == (expected,)


STRETCHES = {
    "between March and May": ((2026, 3, 1), (2026, 6, 1)), "from November to February": ((2025, 11, 1), (2026, 3, 1)),
    "between March 2024 and May 2025": ((2024, 3, 1), (2025, 6, 1)),
    "between 2019 and 2021": ((2019, 1, 1), (2022, 1, 1)),
    "between Monday and Wednesday": ((2026, 5, 18), (2026, 5, 21)),
    "from 2024-01-03 to 2024-02-01": ((2024, 1, 3), (2024, 2, 2)),
    "between 3 May and 9 May 2024": ((2024, 5, 3), (2024, 5, 10)), "from 3 to 7 May": ((2026, 5, 3), (2026, 5, 8)),
    "May 3-7, 2023": ((2023, 5, 3), (2023, 5, 8)),
}  # fmt: skip


def test_a_stretch_is_one_window() -> None:
    found = {text: [window for window in find_days(text, NOW) if window[2] == 1.0] for text in STRETCHES}
    assert found == {text: [(day(*first), day(*last) - 1, 1.0)] for text, (first, last) in STRETCHES.items()}


@pytest.mark.parametrize("text", ["on 2023-05-07", "on 7 May 2023", "May 7, 2023", "on the 7th of MAY 2023"])
def test_a_day_brings_its_month_along(text: str) -> None:
    month, whole = (day(2023, 5, 1), day(2023, 6, 1) - 1, NEAR), (day(2023, 5, 7), day(2023, 5, 8) - 1, 1.0)
    assert find_days(text, NOW) == (month, whole)


def test_two_dates_are_no_stretch_and_no_window_holds_a_missing_time() -> None:
    assert len([window for window in find_days("on 3 May and on 9 May", NOW) if window[2] == 1.0]) == 2
    ((first, last, _),) = find_days("before May", NOW)
    missing = np.iinfo(np.int64).min
    assert missing < first
    assert np.array([first, last], np.int64).tolist() == [first, last]


SPOKEN = (
    "before after since between and from to until in on the last next this may March 3 31 31st 2023 2023-05-07 Monday "
    "weekend week two ago few days past summer Christmas yesterday 9999-12 0001-01 month today of 12 December"
)


@given(
    st.lists(st.sampled_from(SPOKEN.split()), max_size=12).map(" ".join) | st.text(max_size=80),
    st.datetimes(timezones=st.just(UTC)),
)
def test_windows_are_in_order_whatever_is_said(text: str, now: datetime) -> None:
    for first, last, weight in find_days(text, now):
        assert OLDEST <= first <= last <= NEWEST
        assert weight in (NEAR, 1.0)


def test_time_has_its_ends_and_only_the_beginning_of_a_question_is_read() -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    assert find_days("before today", first) == ()
    assert find_days("after today", last) == ()
    assert find_days("since today", last) == ((NEWEST - 86_399, NEWEST, NEAR),)
    assert find_days("x" * SCANNED + " before May", NOW) == ()


def test_no_question_takes_long() -> None:
    begin = time.thread_time()
    for text in ("may 3 to " * 1_000, "since the " * 1_000, "1" * 1_000_000, "between may and " * 1_000):
        find_days(text, NOW)
    assert time.thread_time() - begin < 3


@pytest.mark.parametrize(
    "text",
    ["may we go", "march on", "version 2.3", "I may do it", "this may work", "you may 3 times", "which top 3 may fail",
     "instead of may", "wait a second", "the second try", "sat on the sun", "a march of 3 miles", "10:30 may"],
)  # fmt: skip
def test_texts_without_dates(text: str) -> None:
    assert find_days(text, NOW) == ()


def test_a_day_that_is_none_leaves_its_month() -> None:
    assert find_days("the 31 February 2026 bug", NOW) == ((day(2026, 2, 1), day(2026, 3, 1) - 1, 1.0),)


def test_mentions_of_a_question(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["a b"])

    def plan(text: str):
        return route(make_query(text, snap, SETTINGS, now=NOW), None, snap)

    assert plan("What did I tell Priya").asker_speaks
    assert not plan("What did Priya tell me").asker_speaks
    assert plan("What did Priya tell me").first_person
    assert not plan("What did Priya tell Marco").first_person
    assert plan("the latest release").recent
    assert not plan("the first release").recent


def test_skipping_is_conservative(sample_store: Path) -> None:
    memory = open_store(sample_store)
    for text in ("what is 17*23", "format this JSON", "convert 3 miles to kilometres"):
        found = memory.recall(text)
        assert found.skipped, text
        assert (found.items, found.context, found.tokens) == ((), "", 0)
    # A filter, an entity or the first person prevents the skip.
    assert not memory.recall("what is 17*23", project="ledgerline").skipped
    assert not memory.recall("what is 17*23", entities=["Priya"]).skipped
    assert not memory.recall("what is my 17*23").skipped
    for text in (
        "What did I tell Priya about vacation?",
        "database is locked",
        "src/ledgerline/webhooks.py",
        "Goa",
        "When does the release go out?",
        "who owns signing",
        "why sqlite",
    ):
        assert not memory.recall(text).skipped, text


def test_settings_come_from_the_environment() -> None:
    assert load({}) == replace(Settings(), store=load({}).store)
    assert load({"HELIX_MAX_K": "5", "HELIX_LOCK_WAIT": "1.5", "HELIX_STORE": "x"}).max_k == 5
    assert load({"HELIX_LOCK_WAIT": "1.5"}).lock_wait == 1.5
    with pytest.raises(UsageError, match="HELIX_MAX_K='many' is not a number"):
        load({"HELIX_MAX_K": "many"})


def test_other_words_are_asked_under_the_same_filters(tmp_path: Path) -> None:
    snap, said = make_store(tmp_path, ["we moved"]), {"entities": ("Ana",), "now": NOW}
    asked = make_query("what did we do yesterday", snap, Settings(), k=3, since="2020-01-01", **said)
    other = reword(asked, "Priya moved on 3 May 2024")
    assert asked.days
    assert (other.days, other.since, other.k, other.now) == (asked.days, asked.since, asked.k, asked.now)
    same = make_query("Priya moved on 3 May 2024", snap, Settings(), **said)
    assert (other.text, other.words) == (same.text, same.words)
    assert other.terms.tolist() == same.terms.tolist()
    assert other.mentions.tolist() == same.mentions.tolist()
