"""What dates in statements mean."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime

import pytest

from helix.text.dates import MAX_MOMENTS, find_moments
from tests.support.labelled import add_report, load_labelled

AT = datetime(2024, 3, 13, 10, 30, tzinfo=UTC)  # a Wednesday


def keys(text: str, at: datetime | None = AT) -> list[str]:
    return [moment.key for moment in find_moments(text, at)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("released on 2023-05-07T13:56:00Z", ["2023-05-07"]),
        ("from 2023/05/07 on", ["2023-05-07"]),
        ("planned for 2024-W20", ["2024-W20"]),
        ("billing for 2023-11 is done", ["2023-11"]),
        ("signed on 25/12/2023 and 03.05.2022", ["2023-12-25", "2022-05-03"]),
        ("on 7 May 2023 and on June 3rd, 2022", ["2023-05-07", "2022-06-03"]),
        ("Sun, 21 May 2023: brunch", ["2023-05-21"]),
        ("back in May 2019", ["2019-05"]),
        ("at the end of June 2022", ["2022-06"]),
        ("since 2019, not before 2017", ["2019", "2017"]),
        ("closed between 2016 and 2020", ["2016", "2020"]),
        ("summer of 2022", ["2022-22"]),
        ("Christmas 2022", ["2022-12-25"]),
        ("Easter 2023 and Thanksgiving 2023", ["2023-04-09", "2023-11-23"]),
    ],
)
def test_dates_that_name_their_year_need_no_time(text: str, expected: list[str]) -> None:
    assert keys(text) == expected
    assert keys(text, None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I saw her yesterday", ["2024-03-12"]),
        ("the day before yesterday", ["2024-03-11"]),
        ("tonight or tomorrow evening", ["2024-03-13", "2024-03-14"]),
        ("last night was loud", ["2024-03-12"]),
        ("last week, this week, next week", ["2024-W10", "2024-W11", "2024-W12"]),
        ("last month and next month", ["2024-02", "2024-04"]),
        ("last year and next year", ["2023", "2025"]),
        ("we went camping last weekend", ["2024-W10"]),
        ("what are you up to at the weekend?", ["2024-W11"]),
        ("last Friday", ["2024-03-08"]),
        ("last Wednesday", ["2024-03-06"]),
        ("this Friday", ["2024-03-15"]),
        ("next Tuesday", ["2024-03-19"]),
        ("two days ago", ["2024-03-11"]),
        ("a week ago, a fortnight ago", ["2024-03-06", "2024-02-28"]),
        ("three months ago", ["2023-12"]),
        ("ten years ago", ["2014"]),
        ("we demo in ten days", ["2024-03-23"]),
        ("three weeks from now", ["2024-04-03"]),
        ("in two months we move", ["2024-05"]),
        ("last spring we met, next autumn we marry", ["2023-21", "2024-23"]),
        ("next March", ["2025-03"]),
        ("last May", ["2023-05"]),
        ("on New Year's Eve we stayed in", ["2023-12-31"]),
        ("we are flying home for Christmas", ["2024-12-25"]),
        ("it is due on the 15th.", ["2024-03-15"]),
    ],
)
def test_relative_dates_count_from_when_they_were_said(text: str, expected: list[str]) -> None:
    assert keys(text) == expected
    assert keys(text, None) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("we met on Friday", "2024-03-08"),
        ("we meet on Friday", "2024-03-15"),
        ("I will be there Monday", "2024-03-18"),
        ("So on Monday we lost the primary", "2024-03-11"),
        ("the call was moved to Monday", "2024-03-18"),
        ("I fixed it, the plumber comes on Tuesday", "2024-03-19"),
        ("I adopted her in May", "2023-05"),
        ("the tickets go on sale in May", "2024-05"),
        ("it runs until the end of January", "2025-01"),
        ("she turned 70 on 9 March", "2024-03-09"),
        ("the branch gets cut on 3 January", "2025-01-03"),
        ("lunch on 20 March", "2024-03-20"),
    ],
)
def test_the_tense_tells_past_from_future(text: str, expected: str) -> None:
    assert keys(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "you may 3 times march up in a second",
        "the form says 03/05/2024",
        "every Friday, on Mondays, each Tuesday",
        "a few days ago, some weeks ago, within 30 days",
        "it took me two weeks, the first time in four years",
        "we fly home for the first time in four years",
        "port 2022, version 20.11.1, 1999 tickets, from 1024 to 2048",
        "in 2024 cases it failed",
        "commit 2024abc and 2024-13-45",
        "on 31 February",
        "the christmas tree in the summer",
        "April said that June may come, the sun was out",
        "path/2024/05/07/x and 10:30:2024",
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert keys(text) == []


def test_a_moment_has_its_days_and_its_place() -> None:
    text = "We met last week in Oslo."
    (moment,) = find_moments(text, AT)
    assert (moment.start, moment.end) == (date(2024, 3, 4), date(2024, 3, 10))
    assert moment.text == "last week" == text[slice(*moment.where)]
    spans = {m.key: (m.start, m.end) for m in find_moments("in May 2023, since 2019, this weekend, last winter", AT)}
    assert spans == {
        "2023-05": (date(2023, 5, 1), date(2023, 5, 31)),
        "2019": (date(2019, 1, 1), date(2019, 12, 31)),
        "2024-W11": (date(2024, 3, 16), date(2024, 3, 17)),
        "2023-24": (date(2023, 12, 1), date(2024, 2, 29)),
    }


def test_weeks_at_the_turn_of_the_year() -> None:
    assert keys("last week", datetime(2025, 1, 2, tzinfo=UTC)) == ["2024-W52"]
    assert keys("this week", datetime(2024, 12, 31, tzinfo=UTC)) == ["2025-W01"]


def test_a_calendar_is_capped() -> None:
    assert len(keys("2024-05-07 " * 1_000)) == MAX_MOMENTS


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "2024-",
        "May ",
        "in ",
        "the ",
        "on Monday ",
        "in two weeks ",
        "last ",
        "3 ",
        "end of ",
        "a, ",
        "\n",
        "2024\n",
    ],
)
def test_a_megabyte_is_bounded(unit: str) -> None:
    start = time.perf_counter()
    assert len(find_moments(unit * (1_000_000 // len(unit)), AT)) <= MAX_MOMENTS
    assert time.perf_counter() - start < 2


FLOORS = {"dev": 0.97, "test": 0.90}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_precision_and_recall_on_the_labelled_texts(split: str) -> None:
    right = wrong = missed = 0
    for row in load_labelled("dates", split):
        found, wanted = set(keys(row["text"], datetime.fromisoformat(row["time"]))), set(row["dates"])
        right, wrong, missed = right + len(found & wanted), wrong + len(found - wanted), missed + len(wanted - found)
    precision, recall = right / max(1, right + wrong), right / max(1, right + missed)
    add_report(f"dates, {split}", {"all": (precision, recall, right + missed)})
    assert precision >= FLOORS[split]
    assert recall >= FLOORS[split]
