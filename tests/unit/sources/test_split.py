"""Exports split into conversations: the documents of the first and of later exports."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helix.errors import InputRefused
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import cursors, inbox
from helix.sources.common import json_list
from helix.sources.registry import split
from pipelines.ingest import accept as accepting
from pipelines.ingest import source
from pipelines.ingest import source as envelopes
from pipelines.ingest.accept import accept, accept_source
from pipelines.ingest.source import AcceptOptions, Inbox
from tests.support.exports import chatgpt, claude_ai, whole, write
from tests.support.replay import Replay
from tests.support.turns import cases, load_texts

WALNUTS = chatgpt("c-1", "Where are the walnuts?", "In the pantry.", id="a")
THYME = chatgpt("c-2", "And the thyme?", "By the window.", id="b")
GROWN = chatgpt("c-2", "And the thyme?", "By the window.", "Which one?", "The blue one.", id="b")
MARKS = ["The key is " + "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"]


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path / "store")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return tmp_path / "conversations.json"


def values(text: str, longest: int = 1 << 20) -> list[Any]:
    data = text.encode()
    found = list(json_list.read_list(io.BytesIO(data), longest))
    assert all(data[start:end] == raw and json.loads(raw) == value for start, end, raw, value in found)
    return [each.value for each in found]


@cases("block", 1, 7, 1 << 20)
@cases("text",
    "[]", " [ ] \n", "[1]", "[12, 345 ,-6.5e3]", '[{"a": [1, {"b": "]}"}]}, "x\\"]", null,true]',
    '\ufeff[\n {"é": "\\ud83d\\ude00 ü 😀"},\r\n\t[[]] ]')  # fmt: skip
def test_the_values_of_a_list(text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_list, "_BLOCK", block)
    assert values(text) == json.loads(text.lstrip("\ufeff"))


@cases("block", 1, 7, 1 << 20)
@cases("text", *load_texts("split", "broken_lists_are_refused"))
def test_broken_lists_are_refused(text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_list, "_BLOCK", block)
    with pytest.raises(ValueError):
        values(text)


def test_lists_with_faults_or_long_values_are_not_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_list, "_BLOCK", 64)
    file = io.BytesIO(b'[{"a": 1}, {"a": x}' + b" " * 10_000 + b"]")
    with pytest.raises(ValueError):
        list(json_list.read_list(file, 1 << 20))
    assert file.tell() < 200
    monkeypatch.setattr(json_list, "_BLOCK", 64)
    with pytest.raises(InputRefused, match="more than 100 bytes"):
        values(json.dumps(["x" * 1_000]), 100)
    with pytest.raises(ValueError, match="too deep"):
        values("[" * 100_000)


def test_each_conversation_is_a_document(replay: Replay, export: Path) -> None:
    documents = replay.offer(write(export, [WALNUTS, THYME], indent=1))
    assert [inbox.read_envelope(replay.root, name).path for name in documents] == [str(export)] * 2
    assert json.loads(inbox.read_envelope(replay.root, documents[1]).text) == THYME
    assert replay.texts() == ["Where are the walnuts?", "In the pantry.", "And the thyme?", "By the window."]
    assert {record["session"] for record in replay.items.values()} == {"c-1", "c-2"}


def test_a_later_export_changes_only_its_new_conversations(replay: Replay, export: Path) -> None:
    _, thyme = replay.offer(write(export, [WALNUTS, THYME]))
    salt = chatgpt("c-3", "Is there salt?", id="c")
    document, new = replay.offer(write(export, [GROWN, salt, WALNUTS]))
    assert inbox.read_envelope(replay.root, document).instead == thyme
    assert inbox.read_envelope(replay.root, new).instead == ""
    assert replay.made == [2, 2, 2, 1]
    assert len(inbox.list_accepted(replay.root)) == 4


def test_a_later_export_may_have_another_name(replay: Replay, export: Path) -> None:
    _, thyme = replay.offer(write(export, [WALNUTS, THYME]))
    (document,) = replay.offer(write(export.with_name("conversations-2.json"), [WALNUTS, GROWN]))
    assert inbox.read_envelope(replay.root, document).instead == thyme
    assert replay.made == [2, 2, 2]


def test_conversations_missing_from_a_later_export_stay(replay: Replay, export: Path) -> None:
    replay.offer(write(export, [WALNUTS, THYME]))
    assert replay.offer(write(export, [THYME])) == ()
    assert "In the pantry." in replay.texts()


def test_conversations_that_did_not_change_are_not_read_a_second_time(
    replay: Replay, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay.offer(write(export, [WALNUTS, THYME]))
    read: list[str] = []
    really = envelopes.redact_log
    monkeypatch.setattr(envelopes, "redact_log", lambda text: read.append(text) or really(text))
    replay.offer(write(export, [WALNUTS, GROWN]))
    assert [json.loads(text) for text in read] == [GROWN]


def test_an_untouched_file_is_not_read(replay: Replay, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay.offer(write(export, [WALNUTS, THYME]))
    monkeypatch.setattr(accepting.sources, "split", None)
    assert accept(replay.root, export, Settings()).documents == ()


@cases("values", [WALNUTS, THYME], [claude_ai("d-1", "Salt?", "Here."), claude_ai(None, "Oil?")])
def test_a_store_with_the_whole_export_gets_nothing_twice(replay: Replay, export: Path, values: list[Any]) -> None:
    write(export, values)
    replay.apply(whole(replay.root, export))
    before = replay.compare_fields()
    assert before
    assert len(replay.offer(export)) == len(values)
    assert replay.compare_fields() == before


def test_a_conversation_without_an_id_is_named_by_its_place(replay: Replay, export: Path) -> None:
    values = [chatgpt(None, "Walnuts?", id="a"), {"rows": 1}, chatgpt(None, "Thyme?", id="b")]
    replay.offer(write(export, values))
    other = Replay(replay.root.with_name("other"))
    other.apply(whole(other.root, export))
    assert replay.compare_fields() == other.compare_fields()
    assert {record["session"].rpartition("-")[2] for record in replay.items.values()} == {"0", "2"}


def test_an_id_that_comes_twice_is_two_conversations(replay: Replay, export: Path) -> None:
    values = [chatgpt("c", "Walnuts?", id="a"), chatgpt("c", "Thyme?", id="b")]
    documents = replay.offer(write(export, values))
    assert [inbox.read_envelope(replay.root, name).instead for name in documents] == ["", ""]
    assert {record["session"] for record in replay.items.values()} == {"c", "c-2"}
    other = Replay(replay.root.with_name("other"))
    other.apply(whole(other.root, export))
    assert replay.compare_fields() == other.compare_fields()


def test_other_values_of_an_export_are_counted(replay: Replay, export: Path) -> None:
    write(export, [{"rows": 1}, {"rows": 2}, WALNUTS, {"rows": 3}])
    documents = replay.offer(export)
    expected = [WALNUTS, [{"rows": 1}, {"rows": 2}, {"rows": 3}]]
    assert [json.loads(inbox.read_envelope(replay.root, name).text) for name in documents] == expected
    os.utime(export)
    assert replay.offer(export) == ()


def test_a_cut_export_is_refused_whole(replay: Replay, export: Path) -> None:
    whole_text = json.dumps([WALNUTS, THYME])
    for end in (len(whole_text) - 1, len(whole_text) // 2 + 40):
        export.write_text(whole_text[:end])
        with pytest.raises(InputRefused, match="nothing is read from a cut file"):
            replay.offer(export)
    assert inbox.list_accepted(replay.root) == []
    export.write_text(whole_text)
    assert len(replay.offer(export)) == 2


def test_other_files_are_not_split(tmp_path: Path) -> None:
    for text in ("[]", "[1, 2]", '[{"text": "x"}]', "[a](b) c", json.dumps(WALNUTS), json.dumps([WALNUTS])[:-5]):
        assert split(io.BytesIO(text.encode()), "x.json", "auto", 1 << 20) is None, text
    assert split(io.BytesIO(json.dumps([WALNUTS]).encode()), "x.json", "markdown", 1 << 20) is None
    assert split(io.BytesIO(json.dumps([WALNUTS]).encode()), "x.json", "claude-ai", 1 << 20) is None


def test_neighbours_that_are_no_conversations_are_one_span() -> None:
    text = json.dumps([1, 2, 3, WALNUTS, 4, 5, THYME, 6])
    found = split(io.BytesIO(text.encode()), "x.json", "auto", 1 << 20)
    assert found is not None
    assert [text[start:end] for start, end in found.entries[-1].spans] == ["1, 2, 3", "4, 5", "6"]


def test_a_file_that_is_written_to_meanwhile_is_refused(
    replay: Replay, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(export, [WALNUTS, THYME])
    really = accepting.sources.split

    def write_between(*given: Any) -> Any:
        found = really(*given)
        export.write_bytes(export.read_bytes().replace(b"walnuts", b"peanuts"))
        return found

    monkeypatch.setattr(accepting.sources, "split", write_between)
    with pytest.raises(InputRefused, match="written to"):
        replay.offer(export)


def test_every_conversation_is_redacted(replay: Replay, export: Path) -> None:
    export.write_text(json.dumps([WALNUTS, chatgpt("c-9", *MARKS)]).replace("ghp_", "\\u0067hp_"))
    documents = replay.offer(export)
    assert "REDACTED:github-pat" in inbox.read_envelope(replay.root, documents[1]).text
    assert inbox.read_envelope(replay.root, documents[1]).redacted == {"github-pat": 1}
    assert not any("A1b2C3" in inbox.read_envelope(replay.root, name).text for name in inbox.list_accepted(replay.root))


def test_a_failed_document_is_ingested_again(replay: Replay, export: Path) -> None:
    first, second = replay.offer(write(export, [WALNUTS, THYME]))
    inbox.give_up(replay.root, first, "it is poison")
    assert accept_source(Inbox(replay.root, Settings()), export, AcceptOptions(retry=False)).documents == ()
    assert replay.offer(export) == (first,)
    assert replay.offer(export) == ()
    inbox.give_up(replay.root, second, "it is poison")
    os.utime(export)
    assert replay.offer(export) == (second,)


def test_an_export_without_its_index_adds_nothing_twice(replay: Replay, export: Path) -> None:
    replay.offer(write(export, [WALNUTS, THYME]))
    (parts,) = (replay.root / "sources").glob("*.parts")
    for damage in (b"not a list", b"", None):
        parts.unlink() if damage is None else parts.write_bytes(damage)
        assert [path.name for path in cursors.list_damaged(replay.root)] == ([] if damage is None else [parts.name])
        os.utime(export)
        assert replay.offer(export) == ()
        assert cursors.list_damaged(replay.root) == []


def test_envelopes_are_durable_before_the_index(replay: Replay, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synced once: ten thousand syncs would take longer than the reading."""
    done: list[str] = []
    sync, move = paths.sync_folder, Path.replace
    monkeypatch.setattr(paths, "sync_folder", lambda path: done.append(f"sync {path.name}") or sync(path))
    monkeypatch.setattr(
        Path, "replace", lambda path, target: done.append(f"write {target.parent.name}") or move(path, target)
    )
    replay.offer(write(export, [WALNUTS, THYME]))
    assert done[:4] == ["write inbox", "write inbox", "sync inbox", "write sources"]


def test_ids_of_conversations_are_in_envelopes_alone(replay: Replay, export: Path) -> None:
    """A forgotten id must be gone from every byte of the store."""
    replay.offer(write(export, [WALNUTS, THYME]))
    noted = [path.read_bytes() for path in (replay.root / "sources").iterdir()]
    assert len(noted) == 2
    assert not any(b"c-1" in data or b"c-2" in data for data in noted)


def test_other_readers_get_documents_of_their_own(replay: Replay, export: Path) -> None:
    write(export, [WALNUTS])
    mine = replay.offer(export, acl=("ana",))
    theirs = replay.offer(export, acl=("ben",))
    assert mine != theirs
    assert inbox.read_envelope(replay.root, theirs[0]).instead == ""


def test_zips_of_two_months(replay: Replay, tmp_path: Path) -> None:
    for name, values in (("may.zip", [WALNUTS, THYME]), ("june.zip", [WALNUTS, GROWN])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("conversations.json", json.dumps(values))
            archive.writestr("user.json", '{"id": "u"}')
        documents = replay.offer(tmp_path / name)
        where = {inbox.read_envelope(replay.root, document).path for document in documents}
        assert where == {f"{tmp_path / name}/conversations.json"}
    assert replay.made == [2, 2, 2]


def test_memory_is_bounded_by_one_conversation(replay: Replay, export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_list, "_BLOCK", 1 << 14)

    def peak(conversations: int) -> int:
        said = "walnut bread with thyme " * 20
        values = [
            chatgpt(f"c-{i}-{conversations}", *[f"{said}{i} {j}" for j in range(20)]) for i in range(conversations)
        ]
        write(export, values)
        del values
        tracemalloc.start()
        accept(replay.root, export, Settings())
        _, high = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return high

    peak(5)
    assert peak(200) < 2 * peak(20)


CLOCK_SET_BACK = SimpleNamespace(
    now=lambda zone: datetime.now(UTC) - timedelta(hours=1), min=datetime.min, fromtimestamp=datetime.fromtimestamp
)


@cases("kind", "export", "another export", "once whole", "log", "edited log", "note")
def test_a_later_version_wins_though_the_clock_was_set_back(
    replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "source"
    first, second = {
        "export": (json.dumps([THYME]), json.dumps([GROWN])),
        "another export": (json.dumps([THYME]), json.dumps([GROWN])),
        "once whole": (json.dumps([THYME]), json.dumps([GROWN])),
        "log": ('{"text": "a"}\n', '{"text": "a"}\n{"text": "b"}\n'),
        "edited log": ('{"text": "a"}\n{"text": "b"}\n', '{"text": "a"}\n{"text": "c"}\n'),
        "note": ("# A\n\nWalnuts.\n", "# A\n\nThyme.\n"),
    }[kind]
    path.write_text(first)
    (old,) = accept(replay.root, path, Settings()).documents
    if kind == "once whole":
        (replay.root / "inbox" / old).unlink()
        next((replay.root / "sources").glob("*.parts")).unlink()
        old = whole(replay.root, path)
        (cursor,) = (replay.root / "sources").glob("*.json")
        known = cursors.read_cursor(replay.root, cursor.stem)
        assert known is not None
        cursors.write_cursor(replay.root, cursor.stem, replace(known, document=old))
    path = tmp_path / "source-2" if kind == "another export" else path
    path.write_text(second)
    monkeypatch.setattr(source, "datetime", CLOCK_SET_BACK)
    new = accept(replay.root, path, Settings()).documents
    assert new
    times = [inbox.read_envelope(replay.root, document).accepted for document in (old, *new)]
    assert times == sorted(set(times))
    assert times[-1] - times[0] < timedelta(seconds=1)
