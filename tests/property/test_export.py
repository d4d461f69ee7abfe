"""Turns that are exported and read again: the same bytes, in every form, whatever the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.settings import load
from helix.sources import registry as sources
from helix.sources.common.exported import write_record
from helix.sources.common.quoted_text import quote_text, unquote_lines
from helix.sources.exported_parquet import TURNS_FILE, collect
from helix.types import ACTIONS, OUTCOMES, ROLES, TYPES, Document, Fault, Session, Step, Turn
from helix.util.workspaces import Workspace
from pipelines.embedded.ingest import ingest
from pipelines.export.notes import describe_session, write_session
from pipelines.export.parquet import write_turns
from pipelines.export.turns import ExportedSession, ExportedTurn
from tests.support.draws import draw_share
from tests.support.round_trip import compare_stores, export_and_ingest, ignore_progress

BASE = datetime(2026, 3, 1, 12, tzinfo=UTC)
MTIME = datetime(2026, 5, 5, tzinfo=UTC)

# Marks of Markdown, of Obsidian, of front matter and of the data of a note.
HOSTILE = (
    *("```", "```\n", "~~~", "```dataviewjs\n", "> ```", "> ```json helix", "---", "\n---\n", "^t1", "\n\n^t1\n"),
    "> ",
    *(
        "[[x]]",
        "![[x]]",
        "![a](http://b)",
        "<script>",
        "<!--",
        "-->",
        "%%",
        "$$",
        "#tag",
        "\\",
        "\\[[",
        "# head",
        "- x",
    ),
    *(
        "\r\n",
        "\r",
        "\x00",
        "\x0b",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ufffe",
        "\t",
        "  \n",
        "\n\n\n",
        "text-",
        "{",
        '"',
        "é",
    ),
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TEXTS = st.lists(st.one_of(st.sampled_from(HOSTILE), WORDS), min_size=1, max_size=12).map("".join).filter(str.strip)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
STEPS = st.builds(
    Step,
    call=NAMES,
    action=st.sampled_from(ACTIONS),
    tool=WORDS,
    target=WORDS,
    outcome=st.sampled_from(OUTCOMES),
    exit_code=st.none() | st.integers(0, 255),
    tests=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    faults=st.lists(st.builds(Fault, WORDS, WORDS, WORDS, WORDS, WORDS), max_size=2).map(tuple),
    commits=st.lists(WORDS, max_size=2).map(tuple),
)
TIMES = st.one_of(
    st.tuples(st.integers(-(10**9), 10**9).map(lambda n: BASE + timedelta(microseconds=n)), st.just("exact")),
    st.tuples(st.just(BASE), st.just("derived")),
    st.tuples(st.just(BASE), st.just("file")),
    st.just((None, "none")),
)


@st.composite
def draw_turns(draw: st.DrawFn) -> Turn:
    time, quality = draw(TIMES)
    kind = draw(st.none() | st.sampled_from(TYPES))
    return Turn(
        draw(NAMES),
        draw(TEXTS),
        draw(st.sampled_from(ROLES)),
        draw(st.sampled_from(("human", "assistant", "tool", "summary", "subagent", "document", "note"))),
        speaker=draw(st.none() | NAMES),
        time=time,
        time_quality=quality,
        parent=draw(st.none() | NAMES),
        title=draw(st.none() | NAMES),
        type=kind,
        acl=tuple(draw(st.lists(NAMES, max_size=2))),
        pinned=draw(st.booleans()),
        priority=draw(st.none() | st.floats(1, 2)),
        confidence=draw(st.none() | st.floats(0, 1)),
        unique=draw(st.booleans()),
        steps=tuple(draw(st.lists(STEPS, max_size=2))),
        types=() if kind or draw(st.booleans()) else ((draw(st.sampled_from(TYPES)), 0.25),),
    )


@st.composite
def draw_sessions(draw: st.DrawFn) -> Session:
    turns = draw(st.lists(draw_turns(), min_size=1, max_size=4, unique_by=lambda turn: turn.id))
    workspace = draw(st.none() | st.builds(Workspace, NAMES, WORDS, WORDS, st.booleans()))
    title = draw(st.none() | NAMES)
    branch = draw(st.none() | NAMES)
    project = None if workspace else draw(st.none() | NAMES)
    named = tuple(replace(turn, project=project) for turn in turns)
    return Session("codex", draw(NAMES), named, None, title, branch, workspace, exported=True)


def parse(text: str, path: str = "memory.jsonl") -> Sequence[Session]:
    parsed = sources.parse(Document(path, text, MTIME))
    assert not parsed.problems, parsed.problems
    return parsed.sessions


def write_lines(session: Session) -> str:
    return "".join(orjson.dumps(write_record(session, turn, turn.project)).decode() + "\n" for turn in session.turns)


def export(session: Session) -> ExportedSession:
    named = bool(session.workspace)
    turns = (
        ExportedTurn(turn, turn.project or "default", (turn.id,), ("code",), named, True) for turn in session.turns
    )
    return ExportedSession(replace(session, turns=()), tuple(turns))


@given(draw_sessions())
def test_lines_give_back_the_session(session: Session) -> None:
    assert parse(write_lines(session)) == (session,)


@given(draw_sessions())
def test_a_note_gives_back_the_session(session: Session) -> None:
    found = export(session)
    note = write_session(found, describe_session(found, "name"), [("A", "b")], "Decisions of x")
    on_disk = note.encode().replace(b"\r\n", b"\n").decode()
    assert note.encode() == on_disk.encode()  # a reader that knows line feeds only changes nothing
    assert parse(note, "note.md") == (session,)


@draw_share(0.3)
@given(draw_sessions())
def test_rows_give_back_the_session(tmp_path_factory: pytest.TempPathFactory, session: Session) -> None:
    path = tmp_path_factory.mktemp("rows") / TURNS_FILE
    counts = write_turns([export(session)], path, ignore_progress)
    texts = collect(path)
    assert texts is not None
    assert [parse(text.text) for text in texts] == [(session,)]
    assert counts.turns == len(session.turns)


@given(TEXTS)
def test_a_quote_is_the_text(text: str) -> None:
    quoted = quote_text(text)
    assert all(line.startswith(">") for line in re.split("\r\n|\r|\n", quoted))
    if "\ufffd" not in quoted:
        assert unquote_lines(quoted.split("\n")) == text


@given(st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join))
def test_nothing_in_a_quote_acts(text: str) -> None:
    fence = ""
    for line in (line[2:] for line in quote_text(text).split("\n")):
        opening = re.fullmatch(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)", line)
        if fence:
            fence = "" if opening and opening[1].startswith(fence) and not opening[2].strip() else fence
            continue
        if opening:
            assert "dataviewjs" not in opening[2] or opening[2].startswith("text-")
            fence = opening[1]
            continue
        bare = re.sub(r"\\\\", "", line)
        for mark in (r"\[\[", r"!\[", r"<[a-z!/]", r"%%", r"\$\$", r"(?<!\S)#\w"):
            assert not re.search(rf"(?<!\\){mark}", bare), (mark, line)


LINES = st.lists(
    st.tuples(
        st.sampled_from(("s1", "s2", "S1")),
        st.sampled_from((None, "Ana", "Omar")),
        st.sampled_from(("user", "assistant", "tool")),
        st.one_of(
            st.sampled_from(
                (
                    "We use Jenkins for CI.",
                    "We switched CI from Jenkins to Buildkite because of the queue.",
                    "The timeout is 30 minutes.",
                    "Let's decide: the timeout is 45 minutes now.",
                    "error: KeyError in src/queue.py:42",
                    "word " * 400 + "\n\n\n" + "other " * 30,
                    "a\n\n```py\nx = 1\n```\n" * 60,
                )
            ),
            TEXTS,
        ),
        st.none() | st.integers(0, 10**7),
        st.none() | st.sampled_from(("shop", "café")),
        st.none() | st.sampled_from(TYPES),
        st.sampled_from(((), ("ana",), ("ana", "ben"))),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@draw_share(0.05)
@given(lines=LINES, form=st.sampled_from(("lines", "parquet", "notes")))
@pytest.mark.usefixtures("stores")
def test_a_transcript_survives(tmp_path_factory: pytest.TempPathFactory, lines: list[tuple], form: str) -> None:
    folder = tmp_path_factory.mktemp("trip")
    names = ("session", "speaker", "role", "text", "ts", "project", "type", "acl", "pinned")
    records = [dict(zip(names, line, strict=True)) for line in lines]
    for record in records:
        record["ts"] = record["ts"] and (BASE + timedelta(seconds=record["ts"])).isoformat()
    source = folder / "given.jsonl"
    source.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    ingest(folder / "store", [source], load())
    compare_stores(folder / "store", export_and_ingest(folder / "store", form, folder))


def test_a_file_of_many_blocks_gives_the_same_store(tmp_path: Path, stores: None) -> None:
    words = "the ledger of the harbour keeps every crate in order " * 40
    lines = [
        {"session": f"s{n // 40}", "id": str(n), "role": ROLES[n % 2], "text": words, "ts": BASE.isoformat()}
        for n in range(320)
    ]
    (tmp_path / "given.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    ingest(tmp_path / "store", [tmp_path / "given.jsonl"], load())
    again = export_and_ingest(tmp_path / "store", "lines", tmp_path)
    assert (tmp_path / "memory.jsonl").stat().st_size > 1 << 19  # more than one block of `increments`
    compare_stores(tmp_path / "store", again)
