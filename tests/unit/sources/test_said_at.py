"""When a turn was said: by its own time, else by its session's other turns, else by its file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helix.sources import registry as sources
from helix.types import Document
from tests.support.replay import Replay

MTIME = datetime(2026, 5, 9, 12, tzinfo=UTC)


def list_times(*times: str | None, mtime: datetime | None = MTIME) -> list[tuple[str, str]]:
    """Return (day, quality) of each turn of a session whose log gives these times."""
    text = "\n".join(json.dumps({"text": f"turn {i}", "ts": ts}) for i, ts in enumerate(times))
    (session,) = sources.parse(Document("log.jsonl", text, mtime), "jsonl").sessions
    return [(str(turn.time)[:10], turn.time_quality) for turn in session.turns]


ONE, TWO = "2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z"


@pytest.mark.parametrize(("times", "expected"), [
    ((ONE, None, TWO, None), ["2026-03-01 exact", "2026-03-01 derived", "2026-03-02 exact", "2026-03-02 derived"]),
    ((None, None, TWO), ["2026-03-02 derived", "2026-03-02 derived", "2026-03-02 exact"]),
    ((None, "2026-03-01"), ["2026-03-01 derived", "2026-03-01 derived"]),
    ((None, None), ["2026-05-09 file", "2026-05-09 file"]),
])  # fmt: skip
def test_an_undated_turn_has_the_time_of_its_session_else_of_its_file(
    times: tuple[str | None, ...], expected: list[str]
) -> None:
    assert [" ".join(one) for one in list_times(*times)] == expected


def test_without_any_time_a_turn_stays_undated() -> None:
    assert list_times(None, mtime=None) == [("None", "none")]


def test_a_session_has_no_time_of_another() -> None:
    text = "\n".join(json.dumps({"session": name, "text": name, "ts": ts}) for name, ts in (("a", ONE), ("b", None)))
    dated, undated = sources.parse(Document("log.jsonl", text, MTIME), "jsonl").sessions
    assert [dated.turns[0].time_quality, undated.turns[0].time_quality] == ["exact", "file"]


def test_a_log_that_grows_dates_its_turns_like_the_whole(tmp_path: Path) -> None:
    """The first turns have the time of the file until the log gives one."""
    log = tmp_path / "log.jsonl"
    lines = [json.dumps({"text": f"turn {i}", "ts": ts}) for i, ts in enumerate((None, None, TWO))]
    grown, whole = Replay(tmp_path / "grown"), Replay(tmp_path / "whole")
    for n in (1, 2, 3):
        log.write_text("\n".join(lines[:n]) + "\n")
        grown.offer(log)
    whole.offer(log)
    assert grown.compare_fields() == whole.compare_fields()
    assert {record["time_quality"] for record in list(grown.items.values())[:2]} == {"derived"}
