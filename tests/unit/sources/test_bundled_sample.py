"""The bundled sample is real input: every file must be read whole."""

import re
from datetime import UTC, datetime
from pathlib import Path

import helix
from helix.sources import registry as sources
from helix.sources.common.decode import decode
from helix.types import Document
from tests.support.turns import cases

FOLDER = Path(helix.__file__).parent / "sample"


def parse(name):
    text, problems = decode((FOLDER / name).read_bytes(), 1 << 20)
    parsed = sources.parse(Document(name, text))
    assert not problems
    assert not parsed.problems
    assert not parsed.unknown
    return parsed.sessions


@cases("name, source, sessions, turns",
    ("claude-code-session.jsonl", "claude-code", 2, 45), ("standup.vtt", "captions", 1, 33),
    ("chat.jsonl", "jsonl", 4, 41), ("notes.md", "markdown", 1, 10))  # fmt: skip
def test_every_sample_file_is_read_whole(name, source, sessions, turns):
    found = parse(name)
    assert {session.source for session in found} == {source}
    assert len(found) == sessions
    assert sum(len(session.turns) for session in found) == turns


def test_the_session_log_has_its_traps():
    live, abandoned = parse("claude-code-session.jsonl")
    assert abandoned.branch_of == live.id
    assert "Postgres 16" in abandoned.turns[0].text
    assert [turn.origin for turn in live.turns].count("summary") == 1
    assert not any("system-reminder" in turn.text or "hook feedback" in turn.text for turn in live.turns)
    assert any(
        "sqlite3.OperationalError: database is locked" in turn.text for turn in live.turns if turn.role == "tool"
    )
    times = [turn.time for session in (live, abandoned) for turn in session.turns]
    assert all(datetime(2026, 5, 1, tzinfo=UTC) <= time < datetime(2026, 6, 1, tzinfo=UTC) for time in times)


def test_the_chat_and_the_standup_answer_the_readme():
    texts = {turn.text: turn for session in parse("chat.jsonl") for turn in session.turns}
    expected = (
        "We should plan that Goa trip, Priya", "I told Priya we can do March for vacation",
        "Looking at flights to Goa for next month", "Priya said she prefers the beach over the mountains")  # fmt: skip
    assert all(texts[text].speaker == "Ana" for text in expected)

    def words(text):
        return set(re.findall(r"\w+", text.lower()))

    question = words("What did I tell Priya about vacation?")
    assert not question & words("Looking at flights to Goa for next month")
    assert all(re.fullmatch(r"c\d:\d+", turn.id) for turn in texts.values())
    (session,) = parse("standup.vtt")
    assert {turn.speaker for turn in session.turns} == {"Ana", "Priya", "Marco", "Lena", "Tomas"}
    assert session.turns[0].time == datetime(2026, 5, 11, 9, 30, 2, tzinfo=UTC)
