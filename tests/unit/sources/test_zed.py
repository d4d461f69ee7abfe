import json
import sqlite3

import pyarrow as pa
import pytest

from helix.sources import registry as sources
from helix.sources import zed
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts


def user(words, id="u"):
    return {"User": {"id": id, "content": [{"Text": words}]}}


def agent(*parts, **results):
    given = [{"Text": part} if isinstance(part, str) else part for part in parts]
    return {"Agent": {"content": given, "tool_results": results}}


def call(id, **arguments):
    return {"ToolUse": {"id": id, "name": "terminal", "raw_input": "{}", "input": arguments, "is_input_complete": True}}


def result(words, failed=False):
    return {"tool_use_id": "t", "tool_name": "terminal", "is_error": failed, "content": {"Text": words}}


def parse(*messages, thread=None, **options):
    value = {"zed": "0b", "thread": {"title": "T", "messages": list(messages), **(thread or {})}}
    given = {name: options.pop(name) for name in ("parent_id", "folder_paths") if name in options}
    return zed.parse(Document("threads.db", json.dumps({**value, **given})), **options)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "threads.db"
    with sqlite3.connect(path) as opened:
        opened.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB)"
        )
        opened.execute("ALTER TABLE threads ADD COLUMN folder_paths TEXT")
    opened.close()
    return path


def store(path, id, kind, data, folder=None):
    with sqlite3.connect(path) as opened:
        row = (id, "T", "2026-06-12T05:00:00+00:00", kind, data, folder)
        opened.execute("INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?)", row)
    opened.close()


def test_threads_of_a_database(database):
    raw = json.dumps({"title": "T", "version": "0.3.0", "messages": [user("Hi")]}).encode()
    store(database, "a", "json", raw, "/home/sofie/orchard\n/home/sofie/other")
    store(database, "b", "zstd", pa.Codec("zstd").compress(raw, asbytes=True))
    store(database, "c", "zstd", b"not compressed")
    parts = list(sources.collect(database))
    assert [(part.name, part.mtime.isoformat()) for part in parts] == [
        (id, "2026-06-12T05:00:00+00:00") for id in ("a", "b", "c")
    ]
    parsed = [sources.parse(Document("threads.db", part.text)) for part in parts]
    assert [list_texts(each) for each in parsed] == [["Hi"], ["Hi"], []]
    assert dict(parsed[2].unknown) == {"(not readable)": 1}
    assert parsed[0].sessions[0].project == "orchard"
    (database.parent / "threads.db-wal").write_bytes(b"")
    assert zed.is_companion(database.parent / "threads.db-wal")


def test_calls_results_and_mentions():
    mention = {"Mention": {"uri": {"File": {"abs_path": "/home/sofie/map.md"}}, "content": "Row 1"}}
    parsed = parse(
        {"User": {"id": "u", "content": [{"Text": "See "}, mention]}},
        agent({"Thinking": {"text": "hm"}}, "I look.", call("t1", command="ls"), t1=result("a"), t2=result("no", True)),
        "Resume",
        agent("Ho"),
    )
    (session,) = parsed.sessions
    assert [(turn.id, turn.text) for turn in session.turns] == [
        ("u", "See @map.md"),
        ("1", "I look.\n[terminal] ls"),
        ("1:t1", "a"),
        ("1:t2", "error: no"),
        ("3", "Ho"),
    ]
    assert parsed.junk == {"host": 5, "reasoning": 2}
    check_cut(parse(agent(call("t", command="x"), t=result(LONG)), tool_chars=CUT_AT))


def test_threads_of_the_earlier_version():
    early = [
        {"id": 0, "role": "user", "segments": [{"type": "text", "text": "Hi"}], "context": "Row 1"},
        {
            "id": 1,
            "role": "assistant",
            "segments": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "Ho"}],
            "tool_uses": [{"id": "t", "name": "grep", "input": {"regex": "x"}}],
            "tool_results": [{"tool_use_id": "t", "is_error": True, "content": "no"}],
        },
        {"id": 2, "role": "system", "segments": [{"type": "text", "text": "x"}]},
    ]
    parsed = parse(*early)
    assert list_texts(parsed) == ["Hi", "Ho\n[grep] x", "error: no"]
    assert parsed.junk == {"host": 6, "reasoning": 2}


def test_subagents_and_times():
    assert [turn.origin for turn in parse(user("Hi"), parent_id="0a").sessions[0].turns] == ["subagent"]
    snapshot = {"timestamp": "2026-06-12T05:00:00Z", "worktree_snapshots": [{"worktree_path": "/srv/orchard"}]}
    (session,) = parse(user("Hi"), thread={"initial_project_snapshot": snapshot}).sessions
    assert (session.turns[0].time.hour, session.turns[0].time_quality, session.project) == (5, "derived", "orchard")
    assert parse(user("Hi")).sessions[0].turns[0].time is None


@cases("odd, kind", ({"Beehive": {}}, "Beehive"), ("Swarm", "Swarm"), (agent({"Comb": {}}), "Comb"), (7, "(no type)"),
    ({"role": "bee", "segments": []}, "role bee"))  # fmt: skip
def test_unknown_kinds_are_counted(odd, kind):
    parsed = parse(user("Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_values_of_wrong_types_cost_no_other_turn():
    mention = {"Mention": {"uri": {"File": {"abs_path": "x"}}, "content": "x"}}
    check_wrong_types(
        lambda odd: parse(user("Hi"), odd, user("Bye", "v")),
        {"User": {"id": "x", "content": [{"Text": "x"}, mention]}},
        agent({"Thinking": {"text": "x"}}, "x", call("t", command="x"), t=result("x", True)),
        {"role": "assistant", "segments": [{"type": "text", "text": "x"}], "tool_uses": [{"id": "t", "name": "x"}],
         "tool_results": [{"tool_use_id": "t", "content": "x"}]},
    )  # fmt: skip
