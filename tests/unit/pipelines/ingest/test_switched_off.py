"""Lines and turns said while Helix is off reach neither inbox nor items, also when a log is ingested again."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger.inbox import list_accepted, read_envelope
from helix.sources.registry import parse
from helix.switches.state import FILE, make_target, switch_off, switch_on
from helix.types import Document
from pipelines.ingest import increments
from pipelines.ingest.accept import accept_source
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.source import Accepted, AcceptOptions, Inbox
from tests.support.replay import Replay

BEFORE = "2026-05-04T10:00:00Z"


def stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Log:
    """A log that grows, a line a turn."""

    def __init__(self, path: Path, write: Callable[[str, str], list[dict[str, Any]]], start: Any = None) -> None:
        self.path, self.write = path, write
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(start) + "\n" if start else "")

    def add(self, text: str, when: str | None = None) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in self.write(text, when or stamp()))


def write_claude(text: str, time: str) -> list[dict[str, Any]]:
    record = {"type": "user", "sessionId": "s1", "uuid": text, "parentUuid": None, "cwd": "/src/acme"}
    return [{**record, "timestamp": time, "message": {"role": "user", "content": text}}]


def write_codex(text: str, time: str) -> list[dict[str, Any]]:
    content = [{"type": "input_text", "text": text}]
    return [
        {"timestamp": time, "type": "response_item", "payload": {"type": "message", "role": "user", "content": content}}
    ]


def write_generic(text: str, time: str) -> list[dict[str, Any]]:
    return [{"session": "s1", "id": text, "text": text, "ts": time}, {"session": "s2", "id": f"{text} 2", "text": text}]


CODEX = {
    "timestamp": BEFORE,
    "type": "session_meta",
    "payload": {"id": "s1", "timestamp": BEFORE, "cwd": "/src/acme", "instructions": "a secret plan", "git": {}},
}


@pytest.fixture(params=["claude", "codex"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    if request.param == "claude":
        return Log(tmp_path / "s1.jsonl", write_claude)
    return Log(tmp_path / "rollout-2026-05-04T10-00-00-s1.jsonl", write_codex, CODEX)


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path / "store")


def offer(replay: Replay, path: Path, **options: Any) -> Accepted:
    accepted = accept_source(Inbox(replay.root, replay.settings), path, AcceptOptions(**options))
    for document in accepted.documents:
        replay.apply(document)
    return accepted


def end_switch(replay: Replay) -> None:
    switch_on(replay.root, lambda _: True)
    time.sleep(0.002)  # logs write milliseconds


def read_inbox(root: Path) -> str:
    return "".join(read_envelope(root, document).text for document in list_accepted(root))


def forget_cursors(root: Path) -> None:
    shutil.rmtree(root / "sources")
    (root / "sources").mkdir()


TARGETS = [make_target(session="s1"), make_target(project="acme"), make_target(project="acme", folder="/src/acme")]


@pytest.mark.parametrize("target", TARGETS, ids=["session", "name", "folder"])
@pytest.mark.parametrize("step", [False, True], ids=["at the end", "at each turn"])
def test_lines_said_while_off_stay_out_for_good(replay: Replay, log: Log, target: Any, step: bool) -> None:
    log.add("walnuts", BEFORE)
    if step:
        offer(replay, log.path)
    switch_off(replay.root, target)
    for text in ("the merger", "the price"):
        log.add(text)
        if step:
            accepted = offer(replay, log.path)
            assert accepted.documents == ()
            (left,) = accepted.left_out
            assert (left.amount, left.unit) == (1, "line")
            assert left.reason.startswith("Helix is off for ")
    end_switch(replay)
    log.add("thyme")
    assert [left.amount for left in offer(replay, log.path).left_out] == ([] if step else [2])
    log.add("parsley")
    offer(replay, log.path)
    assert replay.texts() == ["walnuts", "thyme", "parsley"]
    assert "merger" not in read_inbox(replay.root)

    items = replay.compare_fields()
    forget_cursors(replay.root)
    assert "Helix was off" in offer(replay, log.path).left_out[0].reason
    offer(replay, log.path, project="another")
    assert replay.texts() == ["walnuts", "thyme", "parsley"]
    assert replay.compare_fields().keys() == items.keys()
    assert "merger" not in read_inbox(replay.root)


def test_a_log_that_begins_while_off_keeps_its_session_and_its_line_numbers(
    replay: Replay, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(increments, "BLOCK", 400)
    switch_off(replay.root, make_target(session="s1"))
    start = log.path.read_text()
    if start:  # the log begins while Helix is off
        log.path.write_text(start.replace(BEFORE, stamp()))
    for number in range(5):
        log.add(f"the merger {number}")
    assert offer(replay, log.path).documents == ()
    assert list_accepted(replay.root) == []
    log.add("the price")
    offer(replay, log.path)
    end_switch(replay)
    log.add("thyme")
    (document,) = offer(replay, log.path).documents
    assert replay.texts() == ["thyme"]
    (item,) = replay.items.values()
    assert (item["session"], item["project"]) == ("s1", "acme")
    text = read_envelope(replay.root, document).text
    assert text.count("\n") == log.path.read_text().count("\n")
    assert "merger" not in text
    assert "secret plan" not in text
    whole = Replay(tmp_path / "whole")
    shutil.copy(replay.root / FILE, whole.root / FILE)
    offer(whole, log.path)
    assert whole.compare_fields() == replay.compare_fields()


def test_another_session_of_the_same_log_is_stored(replay: Replay, tmp_path: Path) -> None:
    log = Log(tmp_path / "chat.jsonl", write_generic)
    switch_off(replay.root, make_target(session="s1"))
    log.add("thyme")
    assert offer(replay, log.path).left_out[0].amount == 1
    assert [item["session"] for item in replay.items.values()] == ["s2"]
    switch_off(replay.root, make_target(project="acme"))
    log.add("walnuts")
    offer(replay, log.path, project="acme")
    assert replay.texts() == ["thyme"]


@pytest.mark.parametrize("offered", [True, False])
def test_lines_without_a_time_that_were_written_while_off_stay_out(
    replay: Replay, tmp_path: Path, offered: bool
) -> None:
    log = Log(tmp_path / "s1.jsonl", lambda text, _: [{"role": "user", "message": {"content": [text_block(text)]}}])
    log.add("walnuts")
    offer(replay, log.path)
    switch_off(replay.root, make_target(session="s1"))
    log.add("the merger")
    if offered:
        offer(replay, log.path)
        assert "merger" not in read_inbox(replay.root)
    end_switch(replay)
    if offered:
        log.add("the price")  # it may have been said before that
    assert offer(replay, log.path).left_out[0].reason == "Helix was off for session s1 at that time"
    time.sleep(0.01)
    log.add("thyme")
    offer(replay, log.path)
    assert replay.texts() == ["walnuts", "thyme"]


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_a_transcript_of_cursor_is_filtered_by_the_minutes_in_it(replay: Replay, tmp_path: Path) -> None:
    def write(text: str, when: str) -> list[dict[str, Any]]:
        said = datetime.fromisoformat(when).strftime("%A, %b %d, %Y, %I:%M %p (UTC)")
        query = f"<timestamp>{said}</timestamp>\n<user_query>\n{text}\n</user_query>"
        return [
            {"role": "user", "message": {"content": [text_block(query)]}},
            {"role": "assistant", "message": {"content": [text_block(f"About {text}.")]}},
        ]

    log = Log(tmp_path / "s1.jsonl", write)
    log.add("walnuts", BEFORE)
    switch_off(replay.root, make_target(session="s1"))
    log.add("the merger")
    end_switch(replay)
    log.add("thyme", "2999-01-01T00:00:00Z")
    assert offer(replay, log.path).left_out[0].amount == 2
    assert replay.texts() == ["walnuts", "About walnuts.", "thyme", "About thyme."]


def gemini(path: Path, *turns: tuple[str, str]) -> Path:
    messages = [{"id": text, "type": "user", "timestamp": time, "content": text} for text, time in turns]
    head = {"sessionId": "s1", "projectHash": "0" * 64, "startTime": BEFORE, "lastUpdated": BEFORE}
    path.write_text(json.dumps({**head, "messages": messages}, indent=1))
    return path


def test_a_document_loses_the_turns_said_while_off(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    turns = [("walnuts", BEFORE)]
    offer(replay, gemini(path, *turns))
    switch_off(replay.root, make_target(session="s1"))
    turns.append(("the merger", stamp()))
    (left,) = offer(replay, gemini(path, *turns)).left_out
    assert (left.amount, left.unit, left.reason) == (1, "turn", "Helix is off for session s1")
    end_switch(replay)
    turns.append(("thyme", stamp()))
    for _ in range(2):
        offer(replay, gemini(path, *turns))
        assert replay.texts() == ["walnuts", "thyme"]
        assert "merger" not in read_inbox(replay.root)
        forget_cursors(replay.root)


def test_a_text_without_times_stays_out_while_its_project_is_off(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\nThe merger is in May.\n")
    os.utime(path, (1_770_000_000, 1_770_000_000))
    switch_off(replay.root, make_target(project="acme"))
    assert offer(replay, path, project="acme").documents == ()
    assert list_accepted(replay.root) == []
    assert offer(replay, path, project="other").documents
    os.utime(path)  # read while it is off, and written then, too
    switch_on(replay.root, lambda _: True)
    assert offer(replay, path, project="acme").documents == ()
    time.sleep(0.01)
    os.utime(path)
    assert offer(replay, path, project="acme").documents


def test_the_line_in_a_projects_file_keeps_out_what_is_offered(replay: Replay, tmp_path: Path) -> None:
    project = tmp_path / "acme"
    (project / ".git").mkdir(parents=True)

    def write(text: str, time: str) -> list[dict[str, Any]]:
        return [{**record, "cwd": str(project)} for record in write_claude(text, time)]

    log = Log(tmp_path / "s1.jsonl", write)
    log.add("walnuts", BEFORE)
    offer(replay, log.path)
    (project / "AGENTS.md").write_text("# Rules\n<!-- helix: off -->\n")
    log.add("the merger", BEFORE)
    (left,) = offer(replay, log.path).left_out
    assert left.reason == f"{project}/AGENTS.md says 'helix: off'"
    (project / "AGENTS.md").unlink()
    log.add("thyme")
    offer(replay, log.path)
    assert replay.texts() == ["walnuts", "thyme"]


def test_ingest_says_what_it_left_out(replay: Replay, log: Log) -> None:
    switch_off(replay.root, make_target(project="acme"))
    log.add("the merger")
    report = IngestReport()
    documents = accept_all(replay.root, [log.path], Settings(), report, project=None, format="auto", acl=())
    lines = len(log.path.read_text().splitlines()) if log.write is write_claude else 1
    assert (report.accepted, report.duplicates) == (len(documents), 0)
    (left,) = report.as_json(0)["off"]
    assert left == {
        "path": str(log.path),
        "amount": lines,
        "unit": "line",
        "reason": "Helix is off for project acme",
        "remedy": "'helix on --project acme' ends that",
    }


def test_a_damaged_file_of_switches_stops_ingest(tmp_path: Path, log: Log) -> None:
    root = tmp_path / "store"
    paths.create_folders(root)
    (root / FILE).write_text("{")
    log.add("walnuts")
    with pytest.raises(StoreError, match=r"switches\.json is damaged"):
        accept_source(Inbox(root, Settings()), log.path, AcceptOptions())
    assert list_accepted(root) == []


def test_a_chat_of_aider_stays_out_while_its_project_is_off(replay: Replay, tmp_path: Path) -> None:
    project = tmp_path / "acme"
    project.mkdir()
    path = project / ".aider.chat.history.md"
    path.write_text("\n# aider chat started at 2026-05-04 10:00:00\n\n#### walnuts\n\nThey are nuts.\n\n")
    offer(replay, path)
    switch_off(replay.root, make_target(project="acme", folder=str(project)))
    with path.open("a") as file:
        file.write("#### the merger\n\nIt is in May.\n\n")
    assert offer(replay, path).left_out[0].unit == "line"
    end_switch(replay)
    for text in ("the price", "thyme"):  # the first may have been said while it was off
        with path.open("a") as file:
            file.write(f"#### {text}\n\nSo it is.\n\n")
        offer(replay, path)
        time.sleep(0.01)
    assert not {"merger", "price"} & set(read_inbox(replay.root).split())
    assert "thyme" in " ".join(replay.texts())


@pytest.mark.parametrize(
    "turn",
    [
        *(
            {"id": "1", "text": 5},
            {"id": "1", "text": "a", "role": "x"},
            {"id": "1", "text": "a", "acl": [1]},
            {"id": []},
        ),
        *({"id": "1", "text": "a", "time": "2026-05-04"}, {"id": "1", "text": "a", "pinned": 1}, 5, [], {}),
    ],
)
def test_an_input_that_begins_like_a_filtered_text_is_read_as_what_it_is(turn: Any) -> None:
    head = {"turns_of": "s", "project": None, "title": None, "branch_of": None, "workspace": None}
    text = "\n".join(json.dumps(line) for line in (head, turn, {"id": "2", "text": "walnuts"}))
    (session,) = parse(Document("log.jsonl", text), "jsonl").sessions
    assert "walnuts" in [turn.text for turn in session.turns]
    assert session.id != "s"
