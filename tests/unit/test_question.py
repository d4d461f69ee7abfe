"""What a question says besides its words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix.dates import parse_time, spoken_days
from helix.errors import UsageError
from helix.memory import open as open_store
from helix.question import make_query
from helix.settings import Settings, load
from helix.stages.route import route
from tests.tiny import SETTINGS, make_store

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)  # a Wednesday


def day(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("said", "end", "expected"),
    [
        ("2026-05-07", False, "2026-05-07T00:00:00+00:00"),
        ("2026-05-07", True, "2026-05-07T23:59:59+00:00"),
        ("2026-05-07T13:56:00Z", True, "2026-05-07T13:56:00+00:00"),
        ("2026-05-07T13:56:00+02:00", False, "2026-05-07T11:56:00+00:00"),
        ("7d", False, "2026-05-13T12:00:00+00:00"),
        ("90m", False, "2026-05-20T10:30:00+00:00"),
        ("yesterday", False, "2026-05-19T00:00:00+00:00"),
        ("yesterday", True, "2026-05-19T23:59:59+00:00"),
    ],
)
def test_times_in_options(said: str, end: bool, expected: str) -> None:
    assert parse_time(said, NOW, "since", end=end).isoformat() == expected


@pytest.mark.parametrize("said", ["someday", "", "2026-13-01", "7", "d7"])
def test_what_is_no_time(said: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_time(said, NOW, "since")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("what happened on 7 May 2023", (day(2023, 5, 7), day(2023, 5, 8) - 1, 1.0)),
        ("on May 7th, 2023 we met", (day(2023, 5, 7), day(2023, 5, 8) - 1, 1.0)),
        ("the 2023-05-07 call", (day(2023, 5, 7), day(2023, 5, 8) - 1, 1.0)),
        ("plans for December 2025", (day(2025, 12, 1), day(2026, 1, 1) - 1, 1.0)),
        ("what did we do in March", (day(2026, 3, 1), day(2026, 4, 1) - 1, 1.0)),
        ("what did we do in August", (day(2025, 8, 1), day(2025, 9, 1) - 1, 1.0)),  # the last one that has begun
        ("who called yesterday", (day(2026, 5, 19), day(2026, 5, 20) - 1, 1.0)),
        ("last week's decisions", (day(2026, 5, 11), day(2026, 5, 18) - 1, 1.0)),
        ("last month", (day(2026, 4, 1), day(2026, 5, 1) - 1, 1.0)),
    ],
)
def test_days_a_question_speaks_of(text: str, window: tuple[int, int, float]) -> None:
    assert window in spoken_days(text, NOW)


@pytest.mark.parametrize("text", ["may we go", "march on", "version 2.3", "I may do it"])
def test_what_is_no_date(text: str) -> None:
    assert [w for w in spoken_days(text, NOW) if w[2] == 1.0] == []


def test_a_day_that_is_none_leaves_its_month() -> None:
    assert spoken_days("the 31 February 2026 bug", NOW) == ((day(2026, 2, 1), day(2026, 3, 1) - 1, 1.0),)


def test_who_is_meant(tmp_path: Path) -> None:
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
    # Whoever names a place to look, or speaks of themselves, is never turned away.
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
    assert load({}) == Settings()
    assert load({"HELIX_MAX_K": "5", "HELIX_LOCK_WAIT": "1.5", "HELIX_STORE": "x"}).max_k == 5
    assert load({"HELIX_LOCK_WAIT": "1.5"}).lock_wait == 1.5
    with pytest.raises(UsageError, match="HELIX_MAX_K='many' is not a number"):
        load({"HELIX_MAX_K": "many"})
