"""Sources that grow, are truncated, rotated, renamed and edited: new lines are accepted once."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from helix.errors import InputRefused
from helix.settings import Settings
from helix.snapshot.ledger.inbox import forget_text, give_up, list_accepted, read_envelope
from pipelines.ingest import increments as links
from pipelines.ingest.accept import accept, accept_source
from pipelines.ingest.source import AcceptOptions, Inbox
from tests.support.replay import Replay


def make_line(number: int, text: str, session: str | None = "s") -> str:
    """Return one line of a log."""
    return json.dumps({"id": str(number), "text": text, **({"session": session} if session else {})}) + "\n"


def make_bare_line(text: str) -> str:
    """Return a line without session and id, which path and line number replace."""
    return json.dumps({"text": text}) + "\n"


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path / "store")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def inbox(replay: Replay) -> list[str]:
    return ["\n".join(read_envelope(replay.root, name).text.split("\n")[:-1]) for name in list_accepted(replay.root)]


def test_only_new_lines_are_accepted(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts") + make_line(2, "thyme"))
    (first,) = replay.offer(log)
    with log.open("a") as file:
        file.write(make_line(3, "parsley"))
    (second,) = replay.offer(log)
    assert read_envelope(replay.root, second).text == make_line(3, "parsley")
    assert (read_envelope(replay.root, second).after, read_envelope(replay.root, second).lines) == (first, 2)
    assert replay.texts() == ["walnuts", "thyme", "parsley"]
    assert replay.made == [2, 1]
    assert replay.offer(log) == ()


def test_an_unchanged_file_is_not_read(replay: Replay, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_text(make_line(1, "walnuts"))
    replay.offer(log)

    opened: list[Path] = []
    really = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *how, **more: opened.append(path) or really(path, *how, **more))
    taken = accept(replay.root, log, Settings())
    assert taken.documents == ()
    assert log not in opened


def test_half_a_line_waits_for_its_rest(replay: Replay, log: Path) -> None:
    first = make_line(1, "walnuts")
    whole = first + make_line(2, "the key is " + "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8")
    log.write_text(first)
    replay.offer(log)
    for cut in range(len(first) + 1, len(whole) - 1):
        log.write_text(whole[:cut])
        taken = accept(replay.root, log, Settings())
        assert (taken.documents, taken.waits) == ((), 2)
    log.write_text(whole)
    (document,) = replay.offer(log)
    assert "[REDACTED:github-pat]" in read_envelope(replay.root, document).text
    assert not any("ghp_" in text for text in inbox(replay))


def test_a_whole_last_line_without_a_line_feed_is_accepted(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts") + make_line(2, "thyme").rstrip())
    replay.offer(log)
    with log.open("a") as file:
        file.write("\n" + make_line(3, "parsley"))
    replay.offer(log)
    assert replay.texts() == ["walnuts", "thyme", "parsley"]
    assert [
        read_envelope(replay.root, name).lines
        for name in list_accepted(replay.root)
        if read_envelope(replay.root, name).after
    ] == [1]


def test_ids_by_line_continue_across_increments(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts") + "\n" + make_bare_line("thyme"))
    replay.offer(log)
    with log.open("a") as file:
        file.write(make_bare_line("parsley"))
    replay.offer(log)
    assert sorted(turn for record in replay.items.values() for turn in record["turns"]) == ["1", "3", "4"]
    assert {record["session"] for record in replay.items.values()} == {next(iter(replay.items.values()))["session"]}
    assert [record["ord"] for record in sorted(replay.items.values(), key=lambda r: r["turns"])] == [0, 1, 2]


def test_a_truncated_log_loses_nothing(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts") + make_line(2, "thyme"))
    replay.offer(log)
    log.write_text(make_line(1, "walnuts"))
    replay.offer(log)
    assert replay.texts() == ["walnuts", "thyme"]


def test_an_edited_log_has_its_present_content(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts") + make_bare_line("thyme") + make_bare_line("salt"))
    replay.offer(log)
    log.write_text(make_bare_line("walnuts") + make_bare_line("rosemary") + make_bare_line("salt"))
    replay.offer(log)
    assert replay.texts() == ["walnuts", "rosemary", "salt"]


@pytest.mark.parametrize("how", ["renamed", "copied and emptied"])
def test_a_rotated_log_keeps_both(replay: Replay, log: Path, how: str) -> None:
    old = log.with_name("log.1.jsonl")
    log.write_text(make_bare_line("walnuts") + make_bare_line("thyme"))
    replay.offer(log)
    if how == "renamed":
        log.rename(old)
    log.write_text(make_bare_line("parsley"))
    replay.offer(log)
    assert replay.texts() == ["walnuts", "thyme", "parsley"]
    assert len({record["session"] for record in replay.items.values()}) == 2
    if how == "renamed":  # the old one is the same source under another name
        with old.open("a") as file:
            file.write(make_bare_line("salt"))
        replay.offer(old)
        assert sorted(replay.texts()) == ["parsley", "salt", "thyme", "walnuts"]
        assert len({record["session"] for record in replay.items.values()}) == 2
    log.write_text(make_bare_line("basil"))  # and once more
    replay.offer(log)
    assert len({record["session"] for record in replay.items.values()}) == 3


def test_a_renamed_log_continues(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts"))
    replay.offer(log)
    new = log.rename(log.with_name("other.jsonl"))
    assert replay.offer(new) == ()
    with new.open("a") as file:
        file.write(make_bare_line("thyme"))
    replay.offer(new)
    assert replay.texts() == ["walnuts", "thyme"]
    assert len({record["session"] for record in replay.items.values()}) == 1
    assert replay.made == [1, 1]


def test_a_file_that_replaces_a_removed_one_is_another_source(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts"))
    replay.offer(log)
    log.unlink()
    new = log.with_name("new.jsonl")  # it may get the same place on the disk
    new.write_text(make_bare_line("thyme") + make_bare_line("salt"))
    replay.offer(new)
    assert sorted(replay.texts()) == ["salt", "thyme", "walnuts"]


def test_a_short_beginning_may_have_another_format(replay: Replay, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("{")
    with pytest.raises(InputRefused):
        replay.offer(log)
    log.write_text("Hm")
    replay.offer(log)
    assert replay.texts() == ["Hm"]
    log.write_text('Hm\n{"text": "walnuts"}\n')  # still a note
    replay.offer(log)
    assert [record["source"] for record in replay.items.values()] == ["markdown"]


def test_a_line_that_is_too_long_is_skipped_and_named(
    replay: Replay, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "BLOCK", 64)
    settings = Settings(max_line_bytes=200)
    log.write_text(make_line(1, "walnuts") + make_line(2, "x" * 5_000) + make_line(3, "thyme") + "y" * 5_000)
    documents = accept(replay.root, log, settings).documents
    for document in documents:
        replay.apply(document)
    assert replay.texts() == ["walnuts", "thyme"]
    problems = [problem for name in documents for problem in read_envelope(replay.root, name).problems]
    assert [problem.line for problem in problems] == [2]
    assert "longer than 200 bytes (50" in problems[0].reason
    assert max(len(read_envelope(replay.root, name).text) for name in documents) < 200


def test_problems_are_named_by_their_line_of_the_file(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts") + make_line(2, "thyme"))
    replay.offer(log)
    with log.open("ab") as file:
        file.write(b'{"text": "\xff"}\n' + make_line(4, "salt").encode())
    (document,) = replay.offer(log)
    assert [problem.line for problem in read_envelope(replay.root, document).problems] == [3]


def test_a_dead_increment_is_skipped_by_later_ones(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts"))
    replay.offer(log)
    with log.open("a") as file:
        file.write(make_bare_line("poison"))
    (document,) = accept(replay.root, log, Settings()).documents
    give_up(replay.root, document, "it is poison")
    with log.open("a") as file:
        file.write(make_bare_line("thyme"))
    replay.offer(log)
    assert replay.texts() == ["walnuts", "thyme"]
    assert sorted(turn for record in replay.items.values() for turn in record["turns"]) == ["1", "3"]
    assert set(accept(replay.root, log, Settings()).documents) == {document}  # offered again, it is tried again
    give_up(replay.root, document, "it is poison")
    assert accept_source(Inbox(replay.root, Settings()), log, AcceptOptions(retry=False)).documents == ()


def test_forgotten_items_of_a_growing_log_stay_forgotten(replay: Replay, log: Path) -> None:
    log.write_text(make_bare_line("walnuts") + make_bare_line("a secret"))
    (document,) = replay.offer(log)
    forget_text(replay.root, document)
    with log.open("a") as file:
        file.write(make_bare_line("thyme"))
    (link,) = replay.offer(log)
    assert read_envelope(replay.root, link).after == document
    assert [record["turns"] for record in replay.items.values() if record["text"] == "thyme"] == [["3"]]
    assert "secret" not in "".join(inbox(replay))


def test_a_kill_between_an_envelope_and_its_cursor_costs_nothing(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts"))
    replay.offer(log)
    kept = {path: path.read_bytes() for path in (replay.root / "sources").iterdir()}
    with log.open("a") as file:
        file.write(make_line(2, "thyme"))
    replay.offer(log)
    for path, data in kept.items():
        path.write_bytes(data)
    assert replay.offer(log) == ()  # the same increment
    for path, data in kept.items():
        path.write_bytes(data)
    with log.open("a") as file:
        file.write(make_line(3, "salt"))
    replay.offer(log)  # a longer one
    assert replay.texts() == ["walnuts", "thyme", "salt"]


def test_without_cursors_nothing_is_accepted_twice(replay: Replay, log: Path) -> None:
    log.write_text(make_line(1, "walnuts") + make_line(2, "thyme"))
    replay.offer(log)
    for path in (replay.root / "sources").iterdir():
        path.write_text("not a cursor")
    assert replay.offer(log) == ()
    assert replay.texts() == ["walnuts", "thyme"]


def test_a_later_version_of_a_note_repeats_nothing(replay: Replay, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("# Bread\n\nWalnuts.\n\n# Tea\n\nThyme.\n")
    (first,) = replay.offer(note)
    note.write_text("# Bread\n\nWalnuts.\n\n# Tea\n\nThyme, hot.\n\n# Salt\n\nA pinch.\n")
    (second,) = replay.offer(note)
    assert read_envelope(replay.root, second).instead == first
    assert replay.made == [2, 2]
    assert replay.texts() == ["Walnuts.", "Thyme, hot.", "A pinch."]
    give_up(replay.root, first, "it was never published")
    replay.items.clear()
    replay.apply(second)
    assert replay.texts() == ["Walnuts.", "Thyme, hot.", "A pinch."]


def test_items_that_an_edit_removes_from_a_note_stay(replay: Replay, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    for text in ("# Bread\n\nWalnuts.\n\n# Tea\n\nThyme.\n", "# Bread\n\nWalnuts.\n\n# Salt\n\nA pinch.\n"):
        note.write_text(text)
        replay.offer(note)
    assert sorted(replay.texts()) == ["A pinch.", "Thyme.", "Walnuts."]


def test_memory_does_not_grow_with_a_log(replay: Replay, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "BLOCK", 1 << 16)

    def peak(lines: int) -> int:
        log.write_text("".join(make_line(i, "walnut bread with thyme " * 20) for i in range(lines)))
        tracemalloc.start()
        accept(replay.root, log, Settings())
        _, high = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return high

    peak(10)
    assert peak(20_000) < 1.5 * peak(2_000)


def test_windows_line_ends_and_byte_order_marks_are_read(replay: Replay, log: Path) -> None:
    log.write_bytes(b"\xef\xbb\xbf" + make_line(1, "walnuts").replace("\n", "\r\n").encode())
    replay.offer(log)
    with log.open("ab") as file:
        file.write(make_line(2, "thyme").replace("\n", "\r\n").encode())
    replay.offer(log)
    assert replay.texts() == ["walnuts", "thyme"]
    utf16 = log.with_name("wide.jsonl")
    utf16.write_bytes((make_line(1, "salt", "w") + make_line(2, "oil", "w")).encode("utf-16"))
    replay.offer(utf16)
    utf16.write_bytes(
        (make_line(1, "salt", "w") + make_line(2, "oil", "w") + make_line(3, "yeast", "w")).encode("utf-16")
    )
    replay.offer(utf16)
    assert sorted(replay.texts()) == ["oil", "salt", "thyme", "walnuts", "yeast"]


def test_histories_with_a_dot_are_found(tmp_path: Path) -> None:
    from pipelines.ingest.source import walk_inputs

    for name in (".aider.chat.history.md", ".hidden.md", "shown.md", ".specstory/history/a.md", ".git/config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    found = {os.path.relpath(path, tmp_path) for path in walk_inputs([tmp_path])}
    assert found == {".aider.chat.history.md", "shown.md", ".specstory/history/a.md"}


def test_a_key_cut_between_increments_is_redacted(replay: Replay, tmp_path: Path) -> None:
    rows = [f"MIIEpAIBAAKCAQEA{i}7Zq3vT9xLkP2mWcR8sYbN5dFhJ" for i in range(4)]
    kind = "RSA PRIVATE " + "KEY-----"
    key = "\n".join(["-----BEGIN " + kind, *rows, "-----END " + kind])
    log = tmp_path / ".aider.chat.history.md"
    text = f"\n# aider chat started at 2026-05-04 10:00:00\n\n#### what is this  \n\nThat is a key:\n\n{key}"
    lines = text.splitlines(keepends=True)
    for end in range(6, len(lines) + 1):
        log.write_text("".join(lines[:end]))
        os.utime(log, (1_700_000_000 + end, 1_700_000_000 + end))
        replay.offer(log)
        kept = "".join(read_envelope(replay.root, name).text for name in list_accepted(replay.root))
        assert not any(row in kept for row in rows)
    assert "[REDACTED:private-key]" in "".join(replay.texts())  # the line that announces it may stand before it
