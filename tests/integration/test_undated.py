"""Items without a time of their own: their order is kept, and none of them passes for new."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.cli.main import main
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.sql import run_statement
from pipelines.embedded.ingest import ingest

pytestmark = pytest.mark.usefixtures("stores")

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FILE = datetime(2026, 11, 28, 9, tzinfo=UTC)

DATED = (
    {"session": "d1", "ts": "2026-05-12T09:00:00Z", "text": "We use GitHub Actions for CI."},
    {"session": "d2", "ts": "2026-10-08T09:00:00Z", "text": "We switched CI from GitHub Actions to Buildkite."},
    {"session": "d3", "ts": "2026-10-09T09:00:00Z", "text": "The session timeout is 45 minutes."},
)
UNDATED = (
    {"session": "u1", "text": "We use Jenkins for CI."},
    {"session": "u1", "text": "The session timeout is 30 minutes."},
)
ORDERED = (  # the names are in no order
    {"session": "zeta", "text": "We use Jenkins for CI."},
    {"session": "alpha", "text": "We switched CI from Jenkins to Buildkite."},
    {"session": "mid", "text": "We switched CI from Buildkite to Circle."},
)


def add(root: Path, folder: Path, name: str, lines: tuple[dict[str, Any], ...]) -> None:
    """Ingest lines of a file that was last changed at FILE."""
    path = folder / name
    path.write_bytes(b"".join(orjson.dumps({"speaker": "Ana", "project": "shop", **line}) + b"\n" for line in lines))
    os.utime(path, (FILE.timestamp(),) * 2)
    ingest(root, [path], load())


@pytest.fixture(scope="module", params=["dated first", "undated first"])
def mixed_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dated history and an undated one, ingested in either order."""
    folder = tmp_path_factory.mktemp("undated")
    parts = [("dated.jsonl", DATED), ("undated.jsonl", UNDATED)]
    for name, lines in parts if request.param == "dated first" else parts[::-1]:
        add(folder / "store", folder, name, lines)
    return folder / "store"


def texts(root: Path, question: str, **options: Any) -> list[str]:
    return [item.text for item in Memory(root).recall(question, now=NOW, **options).items]


def test_an_undated_note_is_no_newer_than_a_dated_turn(mixed_store: Path) -> None:
    assert texts(mixed_store, "what CI do we use")[0] == DATED[1]["text"]
    assert texts(mixed_store, "what is the session timeout")[0] == DATED[2]["text"]
    found = {item.text: item for item in Memory(mixed_store).recall("what is the session timeout", now=NOW).items}
    assert found[UNDATED[1]["text"]].replaced_by["text"] == DATED[2]["text"]
    assert found[DATED[2]["text"]].replaced_by is None


def test_an_undated_fact_ends_where_a_dated_one_begins(mixed_store: Path) -> None:
    with run_statement(mixed_store, "SELECT object, t_valid, t_invalid FROM facts ORDER BY object") as answer:
        facts = {row[0]: row[1:] for row in answer.rows}
    assert facts["30 minutes"] == (None, "2026-10-09T09:00:00Z")
    assert facts["45 minutes"] == ("2026-10-09T09:00:00Z", None)
    assert facts["Buildkite"][1] is None


def test_recency_of_an_undated_item_is_none(mixed_store: Path) -> None:
    for profile in ("helix", "helix-paper", "engram", "cems", "annie"):
        found = Memory(mixed_store).recall("CI and the session timeout recently", now=NOW, profile=profile).items
        recency = {item.text: item.why.get("recency") for item in found}
        old, new = recency.get(UNDATED[0]["text"]), recency.get(DATED[1]["text"])
        if old is not None and new is not None:
            assert old <= new, profile
    snap = Snapshot.open(mixed_store)
    undated = snap.columns.time == NO_TIME
    assert undated.sum() == 2
    assert snap.catalog.last_access[undated].max() < snap.catalog.last_access[~undated].min()


def test_options_of_time_leave_undated_items_out(mixed_store: Path) -> None:
    assert not set(texts(mixed_store, "CI", since="2026-11-01")) & {line["text"] for line in UNDATED}
    before = texts(mixed_store, "what CI do we use", as_of="2026-10-20")
    assert UNDATED[0]["text"] not in before  # its file is of later, so nothing shows that it was said by then
    assert UNDATED[0]["text"] in texts(mixed_store, "what CI do we use", as_of="2026-11-29")


def test_every_surface_says_that_the_time_is_unknown(mixed_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {item.text: item for item in Memory(mixed_store).recall("what CI do we use", now=NOW).items}
    assert found[UNDATED[0]["text"]].time_quality == "file"
    assert found[DATED[0]["text"]].time_quality == "exact"
    listed = {session["session"]: session for session in Memory(mixed_store).timeline()["sessions"]}
    assert [*listed][-1] == "u1"
    assert (listed["u1"]["began"], listed["u1"]["ended"]) == (None, None)
    assert (listed["u1"]["time_quality"], listed["u1"]["file_time"]) == ("file", "2026-11-28T09:00:00Z")
    assert listed["d1"]["file_time"] is None
    assert listed["d1"]["began"] == "2026-05-12T09:00:00Z"
    shown = {}
    for command in (("sessions",), ("timeline",), ("show", "u1"), ("recall", "which CI is used")):
        assert main([*command, "--store", str(mixed_store)]) == 0
        shown[command[0]] = capsys.readouterr().out
    assert "by 2026-11-28" in shown["sessions"]
    assert "Undated" in shown["timeline"]
    assert "file of 2026-11-28" in shown["timeline"]
    assert "by 2026-11-28" in shown["show"]
    assert "by 2026-11-28" in shown["recall"]
    decided = Memory(mixed_store).decisions("shop", history=True)["decisions"]
    since = {entry["text"]: entry["since"] for entry in decided}
    past = [one for entry in decided for one in entry["replaced"] if one["session"] == "u1"]
    assert all(value and value < "2026-11" for value in since.values()), since
    assert past
    assert all(one["since"] is None for one in past)


def test_undated_sessions_keep_the_order_of_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "store"
    add(root, tmp_path, "ordered.jsonl", ORDERED)
    assert texts(root, "what CI do we use")[0] == ORDERED[2]["text"]
    found = {item.text: item for item in Memory(root).recall("what CI do we use", now=NOW).items}
    assert found[ORDERED[0]["text"]].replaced_by == {
        "id": found[ORDERED[2]["text"]].id,
        "time": None,
        "text": ORDERED[2]["text"],
    }
    assert [one["session"] for one in Memory(root).timeline()["sessions"]] == ["mid", "alpha", "zeta"]
    snap = Snapshot.open(root)
    order = np.argsort(snap.columns.place)
    assert [entry["session"] for entry in snap.text(order)] == ["zeta", "alpha", "mid"]
    assert main(["decisions", "--history", "--store", str(root)]) == 0
    shown = capsys.readouterr().out
    assert "CI: Circle, Ana" in shown
    assert "undated: Buildkite" in shown
    assert "since 0" not in shown


def test_no_day_is_resolved_by_the_date_of_a_file(tmp_path: Path) -> None:
    root = tmp_path / "store"
    add(root, tmp_path, "words.jsonl", ({"session": "w", "text": "We moved the office yesterday to the old harbour."},))
    with run_statement(root, "SELECT key FROM entities WHERE kind = 'date'") as answer:
        assert [row for row in answer.rows if row[0].startswith("2026")] == []
