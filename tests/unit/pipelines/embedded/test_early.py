"""A large ingest publishes the newest sessions first and the rest in growing batches; nothing else changes."""

from __future__ import annotations

import io
import itertools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import helix
from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import read_current
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from helix.util.ages import format_seconds
from pipelines.cli.ingest_bar import describe_state
from pipelines.embedded import ingest as embedded
from pipelines.embedded.ingest import finish, ingest
from pipelines.embedded.state import IngestState
from pipelines.ingest import accept_all as accepting
from pipelines.ingest.accept_all import IngestReport, accept_all, prepare_ingest

pytestmark = pytest.mark.usefixtures("no_router")

FILES, TURNS = 12, 4
NEWEST = {f"s{i}" for i in range(2 + embedded.WORKERS)}


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve sessions of four turns, of which the first by name was written last; batches of eight turns."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for i in range(FILES):
        lines = [
            {"session": f"s{i}", "id": f"{i}-{j}", "text": f"the keel of boat number {i} needs paint number {j}"}
            for j in range(TURNS)
        ]
        path = folder / f"{i:02}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1_700_000_000 - i * 3_600,) * 2)
    monkeypatch.setattr(embedded, "FIRST_ITEMS", 2 * TURNS)
    monkeypatch.setattr(embedded, "FIRST_BYTES", 1_500)
    return folder


def select(root: Path, statement: str) -> list[tuple[Any, ...]]:
    with run_statement(root, statement) as found:
        return list(found.rows)


def list_sessions(root: Path) -> set[str]:
    return {session for (session,) in select(root, "SELECT DISTINCT session FROM items")}


def test_the_newest_sessions_are_searchable_while_the_rest_waits(logs: Path, tmp_path: Path) -> None:
    root, seen = tmp_path / "store", []

    def observe(state: IngestState) -> None:
        if state.step == "publish":
            found = helix.open(root).recall("which boat needs paint", k=50)
            seen.append((state.searchable, {item.session for item in found.items}, state.files, state.share))

    report = ingest(root, [logs], load(), early=True, observe=observe)
    searchable, sessions, files, share = seen[0]
    assert {"s0", "s1"} <= sessions <= NEWEST  # the others, if their threads were done by then
    assert searchable == TURNS * len(sessions)
    assert files < FILES  # most files are not even read
    assert 0 < share < 1
    assert len(seen) == 3  # after two of the newest documents, after all of them, and at the end
    # The first commit may have the last of the newest documents, too: it was enriched before the commit began.
    assert seen[0][0] <= seen[1][0] < seen[2][0] == FILES * TURNS
    assert (report.items, report.turns, report.accepted) == (FILES * TURNS, FILES * TURNS, FILES)
    assert seen[-1][3] == 1
    assert verify_store(root).problems == ()


def test_a_long_session_does_not_delay_the_first_answer(logs: Path, tmp_path: Path) -> None:
    """The newest session alone has more items than a batch; smaller ones of the newest are published before it."""
    lines = [{"session": "long", "id": str(j), "text": f"the sail of boat {j} needs thread {j}"} for j in range(40)]
    path = logs / "long.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (1_700_000_000 + 3_600,) * 2)
    seen: list[set[str]] = []

    def observe(state: IngestState) -> None:
        if state.step == "publish":
            seen.append(list_sessions(tmp_path / "store"))

    embedded_bytes = path.stat().st_size + 1_500
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "FIRST_BYTES", embedded_bytes)
        patch.setattr(embedded, "FIRST_ITEMS", 1_000)
        patch.setattr(embedded, "FIRST_WORK", 3_000)
        ingest(tmp_path / "store", [logs], load(), early=True, observe=observe)
    assert {"s0", "s1"} <= seen[0]
    assert "long" not in seen[0]
    assert "long" in seen[1]


def test_the_outcome_is_that_of_one_commit(logs: Path, tmp_path: Path) -> None:
    ingest(tmp_path / "early", [logs], load(), early=True)
    ingest(tmp_path / "whole", [logs], load())
    statement = "SELECT id, session, turns, text, type FROM items ORDER BY id"
    early, whole = (select(tmp_path / name, statement) for name in ("early", "whole"))
    assert early == whole


def test_an_interrupted_ingest_keeps_what_is_published_and_goes_on(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    monkeypatch.setattr(embedded, "FIRST_BYTES", 4_500)  # more documents than the first commit has
    enrich, calls = embedded.try_enrich, itertools.count()

    def enrich_two(*arguments: Any, progress: Any) -> Any:
        is_later = next(calls) >= 2
        while is_later and not read_current(root):  # embedded after the first commit
            time.sleep(0.01)
        return enrich(*arguments, progress=progress)

    def interrupt(state: IngestState) -> None:
        if state.step == "publish":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(embedded, "try_enrich", enrich_two)
        with pytest.raises(KeyboardInterrupt):
            ingest(root, [logs], load(), early=True, observe=interrupt)
    assert len(list_sessions(root)) == 2
    assert list_sessions(root) <= NEWEST
    assert inbox.list_pending(root)  # accepted, so durable
    known = len(inbox.list_accepted(root))
    finish(root, load(), IngestReport())
    assert len(list_sessions(root)) == known < FILES
    report = ingest(root, [logs], load(), early=True)
    assert list_sessions(root) == {f"s{i}" for i in range(FILES)}
    assert (report.accepted, report.duplicates, report.refused) == (FILES - known, known, [])


def test_ctrl_c_ends_a_document_that_is_being_embedded(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrich, calls, embeds, ended = embedded.try_enrich, itertools.count(), threading.Event(), threading.Event()

    def embed_long(*arguments: Any, progress: Any) -> Any:
        if not next(calls):
            return enrich(*arguments, progress=progress)
        embeds.set()
        try:
            while True:
                progress(1)
                time.sleep(0.01)
        except InterruptedError:
            ended.set()
            raise

    def interrupt(state: IngestState) -> None:
        if state.step == "enrich":
            embeds.wait()
            raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "try_enrich", embed_long)
    with pytest.raises(KeyboardInterrupt):
        ingest(tmp_path / "store", [logs], load(), early=True, workers=2, observe=interrupt)
    assert ended.is_set()


def test_of_two_files_with_a_turn_the_later_written_counts(tmp_path: Path) -> None:
    """The newest is read first, and is no older version for that."""
    texts = {"a-old": "the mast is of oak", "b-new": "the mast is of spruce"}
    for i, (name, text) in enumerate(texts.items()):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"session": "s", "id": "1", "text": text}) + "\n")
        os.utime(path, (1_700_000_000 + i,) * 2)
    ingest(tmp_path / "store", [tmp_path / "a-old.jsonl", tmp_path / "b-new.jsonl"], load(), early=True)
    assert select(tmp_path / "store", "SELECT text FROM items") == [("the mast is of spruce",)]


def test_files_with_equal_times_count_in_their_order(tmp_path: Path) -> None:
    files = [accepting.InputFile(Path(name), 5.0, 1) for name in ("a", "b", "c")]
    files.append(accepting.InputFile(Path("d"), 4.0, 1))
    times = accepting.list_times(files)
    assert sorted(times, key=times.__getitem__) == [Path("d"), Path("a"), Path("b"), Path("c")]


def test_the_bar_says_what_is_done_how_fast_and_how_long_still() -> None:
    state = IngestState(files=3, files_total=10, unread=500, waiting=300)
    assert describe_state(state) == "3 of 10 files read"
    state.documents, state.enriched, state.waiting, state.items, state.seconds = 1, 200, 300, 50, 10.0
    assert describe_state(state) == "20% · 5 items/s · 40 s left · nothing searchable yet"
    state.searchable = 1_200
    assert describe_state(state).endswith(" · 1,200 items searchable")
    state.unread = state.waiting = 0
    assert describe_state(state) == "100% · 5 items/s · 1,200 items searchable"
    assert [format_seconds(each) for each in (None, 3.4, 99, 150, 3_540, 5_400)] == [
        *("", "3 s", "99 s", "2 min", "59 min", "1 h 30 min"),
    ]


def test_a_document_that_a_process_died_over_is_enriched_alone(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the documents that are always enriched along with it would be given up like it."""
    root, running, most = tmp_path / "store", set[str](), dict[str, int]()
    prepare_ingest(root, load(), "auto")
    documents = accept_all(root, [logs], load(), IngestReport(), project=None, format="auto", acl=())
    suspect = documents[5]
    (root / "tries").mkdir(exist_ok=True)
    (root / "tries" / suspect).write_text('{"vanished": 1, "running": ""}')
    enrich, lock = embedded.try_enrich, threading.Lock()

    def count(root: Path, document: str, *rest: Any, **more: Any) -> Any:
        with lock:
            running.add(document)
            for each in running:
                most[each] = max(most.get(each, 0), len(running))
        try:
            return enrich(root, document, *rest, **more)
        finally:
            with lock:
                running.remove(document)

    monkeypatch.setattr(embedded, "try_enrich", count)
    embedded.IngestRun(root, load(), IngestReport(), False, None, None, workers=3).finish()
    assert most[suspect] == 1
    assert len(most) == FILES
    assert max(most.values()) > 1
    assert list_sessions(root) == {f"s{i}" for i in range(FILES)}


def test_standard_input_is_a_source_named_by_its_content(tmp_path: Path) -> None:
    lines = b'{"type": "human", "text": "the keel needs paint"}\n{"type": "ai", "text": "there is some in the shed"}\n'
    root, counts = tmp_path / "store", []
    for data in (lines, lines, lines.replace(b"keel", b"mast")):
        with accepting.spool_stdin(["-"], io.BytesIO(data)) as inputs:
            counts.append(ingest(root, inputs, load()).items)
    assert counts == [2, 0, 2]
    rows = select(root, "SELECT path, role, text FROM items ORDER BY text, path")
    assert {path for path, *_ in rows} == {f"stdin-{path[6:]}" for path, *_ in rows}
    assert len({path for path, *_ in rows}) == 2  # neither replaces the other
    assert {role for _, role, _ in rows} == {"user", "assistant"}
    with accepting.spool_stdin(["a", "b"], io.BytesIO(b"unread")) as inputs:
        assert inputs == ["a", "b"]
