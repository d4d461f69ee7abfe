"""Dates in statements, and a labelled set."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from helix.text.dates import MAX_MOMENTS, find_moments
from tests.support.labelled import add_report, load_cases, load_labelled, rate
from tests.support.turns import check_units

CASES = load_cases("dates")
AT = datetime(2024, 3, 13, 10, 30, tzinfo=UTC)  # a Wednesday


def keys(text: str, at: datetime | None = AT) -> list[str]:
    return [moment.key for moment in find_moments(text, at)]


def test_dates_with_a_year_need_no_time() -> None:
    cases = CASES["with_year"]
    assert {text: keys(text) for text in cases} == cases
    assert {text: keys(text, None) for text in cases} == cases


def test_relative_dates_count_from_the_time_of_the_text() -> None:
    cases = CASES["relative"]
    assert {text: keys(text) for text in cases} == cases
    assert [text for text in cases if keys(text, None)] == []


def test_the_tense_decides_between_past_and_future() -> None:
    cases = CASES["tensed"]
    assert {text: keys(text) for text in cases} == {text: [key] for text, key in cases.items()}


def test_no_dates() -> None:
    assert {text: keys(text) for text in CASES["no_dates"]["texts"] if keys(text)} == {}


def test_a_moment_has_days_and_a_position() -> None:
    text = "We met last week in Oslo."
    (moment,) = find_moments(text, AT)
    assert (moment.start, moment.end) == (date(2024, 3, 4), date(2024, 3, 10))
    assert moment.text == "last week" == text[slice(*moment.where)]
    spans = {m.key: (m.start, m.end) for m in find_moments("in May 2023, since 2019, this weekend, last winter", AT)}
    assert spans == {
        "2023-05": (date(2023, 5, 1), date(2023, 5, 31)), "2019": (date(2019, 1, 1), date(2019, 12, 31)),
        "2024-W11": (date(2024, 3, 16), date(2024, 3, 17)), "2023-24": (date(2023, 12, 1), date(2024, 2, 29)),
    }  # fmt: skip


def test_weeks_at_the_turn_of_the_year() -> None:
    assert keys("last week", datetime(2025, 1, 2, tzinfo=UTC)) == ["2024-W52"]
    assert keys("this week", datetime(2024, 12, 31, tzinfo=UTC)) == ["2025-W01"]


def test_a_calendar_is_capped() -> None:
    assert len(keys("2024-05-07 " * 1_000)) == MAX_MOMENTS


def test_much_of_one_thing_does_not_stall() -> None:
    def read(text: str) -> None:
        assert len(find_moments(text, AT)) <= MAX_MOMENTS

    units = "1", "2024-", "May ", "in ", "the ", "on Monday ", "in two weeks ", "last ", "3 ", "end of ", "a, ", "\n"
    check_units(read, *units, "2024\n")


FLOORS = {"dev": 0.97, "test": 0.90}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_precision_and_recall_on_the_labelled_texts(split: str) -> None:
    right = wrong = missed = 0
    for row in load_labelled("dates", split):
        found, wanted = set(keys(row["text"], datetime.fromisoformat(row["time"]))), set(row["dates"])
        right, wrong, missed = right + len(found & wanted), wrong + len(found - wanted), missed + len(wanted - found)
    rates = rate(right, wrong, missed)
    add_report(f"dates, {split}", {"all": rates})
    assert min(rates[:2]) >= FLOORS[split]
