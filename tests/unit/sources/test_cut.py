"""Long texts in pieces: the items are those of the whole, and only changed pieces of a later version are read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.sources import registry as sources
from helix.sources.common.pieces import PIECE_FORMATS, read_piece
from helix.types import Document
from pipelines.ingest import accept as accepting
from pipelines.ingest.accept import accept, accept_source
from pipelines.ingest.source import AcceptOptions, Inbox
from tests.support.draws import draw_share
from tests.support.exports import whole
from tests.support.replay import Replay

SIZE = 600

NOTE = "---\ntitle: Kitchen\nproject: house\n---\nBefore all.\n\n# Bread\n" + "".join(
    f"\n## Day {day}\n\nWalnuts and thyme, the {day} time.\n\n### Notes\n\n{'More salt. ' * (day % 7)}It rose.\n"
    for day in range(20)
)
TALK = "WEBVTT - Weekly\n\nNOTE date: 2026-05-04\n\n" + "".join(
    f"00:{i:02d}:01.000 --> 00:{i:02d}:05.000\n<v {'Ana' if i % 3 else 'Ben'}>Walnuts are number {i} here\n\n"
    for i in range(40)
)
MEETING = "Standup 2026-05-04\n\n" + "".join(
    f"{'Ana' if i % 2 else 'Ben'}  10:{i:02d}\nWe keep walnuts on shelf {i} of the pantry by now.\n\n"
    for i in range(40)
)
PLAIN = "\n\n".join(f"Paragraph {i} of a long story about walnuts. " * (1 + i % 9) for i in range(40))
TEXTS = {"note.md": NOTE, "weekly.vtt": TALK, "standup.txt": MEETING, "story.txt": PLAIN}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "BLOCK", SIZE)


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path / "store")


def list_items(replay: Replay) -> dict[str, Any]:
    """Return all items without their places, of which only the order is the same."""
    return {item: (*values[:6], *values[7:]) for item, values in replay.compare_fields().items()}


def column_of(replay: Replay, name: str) -> set[Any]:
    return {record[name] for record in replay.items.values()}


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_give_the_items_of_the_whole(replay: Replay, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name])
    documents = replay.offer(path)
    assert len(documents) > 3
    sizes = [len(inbox.read_envelope(replay.root, document).text) for document in documents]
    assert max(sizes) < 2 * SIZE
    at_once = Replay(tmp_path / "other")
    at_once.apply(whole(at_once.root, path))
    assert list_items(replay) == list_items(at_once)
    assert replay.texts() == at_once.texts()
    for column in ("title", "time_quality"):
        assert column_of(replay, column) == column_of(at_once, column)
    assert None not in column_of(replay, "time")
    assert {inbox.read_envelope(replay.root, document).path for document in documents} == {str(path)}


def test_a_store_with_the_whole_export_gets_nothing_twice(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text(NOTE)
    replay.apply(whole(replay.root, path))
    before = list_items(replay)
    assert replay.offer(path)
    assert list_items(replay) == before


def test_a_later_version_is_read_only_in_its_changed_pieces(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text(NOTE)
    count = len(replay.offer(path))
    assert replay.offer(path) == ()
    os.utime(path)
    assert replay.offer(path) == ()
    items = len(replay.items)
    path.write_text(f"{NOTE}\n## Day 20\n\nParsley.\n")
    assert len(replay.offer(path)) <= 2
    assert replay.made[count:] in ([1], [0, 1])
    path.write_text(NOTE.replace("the 3 time", "the third and last time"))
    before = len(replay.made)
    replay.offer(path)
    assert sum(replay.made[before:]) < count  # the edited one, and what moved to another piece
    assert len(replay.items) == items + 1  # and Parsley is remembered
    assert "Walnuts and thyme, the third and last time." in replay.texts()


def test_an_untouched_file_is_not_read(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "note.md"
    path.write_text(NOTE)
    replay.offer(path)
    monkeypatch.setattr(accepting, "decode", None)
    assert replay.offer(path) == ()


def test_a_text_that_grew_too_long_for_one_document(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text(NOTE[:SIZE])
    assert len(replay.offer(path)) == 1
    path.write_text(NOTE)
    assert len(replay.offer(path)) > 3
    at_once = Replay(tmp_path / "other")
    at_once.apply(whole(at_once.root, path))
    assert list_items(at_once).keys() <= list_items(replay).keys()
    path.write_text(NOTE[:SIZE])
    replay.offer(path)
    assert list_items(at_once).keys() <= list_items(replay).keys()


def test_secrets_and_problems_are_counted_once(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    key = "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    path.write_text(NOTE.replace("---\ntitle", "---\ndate: soon\ntitle", 1).replace("the 5 time", key))
    documents = replay.offer(path)
    envelopes = [inbox.read_envelope(replay.root, document) for document in documents]
    assert [envelope.redacted for envelope in envelopes if envelope.redacted] == [{"github-pat": 1}]
    assert [len(envelope.problems) for envelope in envelopes] == [1, *[0] * (len(envelopes) - 1)]
    assert not any("A1b2C3" in envelope.text for envelope in envelopes)


def test_a_failed_document_is_ingested_again(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text(NOTE)
    _, second, *_ = replay.offer(path)
    inbox.give_up(replay.root, second, "it is poison")
    assert accept_source(Inbox(replay.root, Settings()), path, AcceptOptions(retry=False)).documents == ()
    assert accept(replay.root, path, Settings()).documents == (second,)


def test_one_turn_is_never_cut(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("\n".join(f"{i},walnuts,{i * i}" for i in range(500)))
    (document,) = replay.offer(path)
    assert len(inbox.read_envelope(replay.root, document).text) > 10 * SIZE


def test_only_formats_of_one_session_are_cut() -> None:
    assert not any(sources.FORMATS[name].JSON or sources.FORMATS[name].GROWS for name in PIECE_FORMATS)
    for text in ('{"turns_of":', '{"turns_of":1}\n5', '{"turns_of":"a"}\n', '{"turns_of":"a"}\n[]', "x"):
        assert read_piece(Document("x", text), "markdown") is None
    assert read_piece(Document("x", '{"turns_of":"a","project":null,"title":null}\n'), "jsonl") is None


HEADINGS = st.sampled_from(
    ["# A", "## B", "## B", "# C", "### D", "Title\n=====", "```\n# no heading\n```", "<!-- # no -->"]
)
WORDS = st.sampled_from(
    ["Walnuts.", "Thyme, and more of it.", "Oil " * 200, "- a\n- b", "<memory>", "</memory>", "é 😀"]
)


@draw_share(0.4)
@given(st.lists(HEADINGS | WORDS, min_size=8, max_size=60))
@example(["# A", "é 😀", "# A", "é 😀", "# A", "Oil " * 200])  # items of few characters before the cut
def test_any_note(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "note.md"
        path.write_text("\n\n".join(parts))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        pieces, at_once = Replay(Path(folder) / "pieces"), Replay(Path(folder) / "whole")
        pieces.offer(path)
        at_once.apply(whole(at_once.root, path))
        assert list_items(pieces) == list_items(at_once)
        assert pieces.texts() == at_once.texts()
