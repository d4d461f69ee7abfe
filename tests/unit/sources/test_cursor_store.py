import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import cursor, opencode
from helix.sources.common import sqlite
from helix.sources.common.sample import take_sample
from tests.support.paths import DATA
from tests.support.turns import cases, list_texts
from tests.unit.sources.test_cursor import bubble, bubble_id, list_turns, parse

LOGS = DATA / "logs"
STORE = json.loads((LOGS / "cursor_store.json").read_text())
HEIGHTS = "5b0c7a52-3d1e-4f86-9a40-1c6e2f7d8b91"
USES = "c2f4e6a8-1b3d-4c5e-8f70-92a4b6c8d0e2"
CHART = "0e9d8c7b-6a59-4837-9261-504f3e2d1c0b"
KEYS = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);"


def database(path, values=(), items=(), heads=(), tables=("ItemTable", "cursorDiskKV")):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA synchronous=OFF")
        for table in tables:
            made.execute(KEYS.format(table))
        if heads:
            made.execute("CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, value TEXT)")
        for table, pairs in (("cursorDiskKV", values), ("ItemTable", items)):
            for key, value in dict(pairs).items():
                text = value if isinstance(value, str | bytes) else json.dumps(value)
                made.execute(f"INSERT INTO {table} VALUES (?, ?)", (key, text))
        for head in heads:
            made.execute("INSERT INTO composerHeaders VALUES (?, 'w', ?)", (head["composerId"], json.dumps(head)))
        made.commit()
    return path


def store(*bubbles, id="c1", **session):
    """Return the keys of one session."""
    headers = [{"bubbleId": bubble["bubbleId"], "type": bubble.get("type")} for bubble in bubbles]
    values = {f"composerData:{id}": {"composerId": id, "fullConversationHeadersOnly": headers, **session}}
    return values | {f"bubbleId:{id}:{bubble['bubbleId']}": bubble for bubble in bubbles}


def collect(path):
    found = cursor.collect(path)
    assert found is not None
    return list(found)


@pytest.fixture
def sessions(tmp_path):
    path = database(tmp_path / "state.vscdb", STORE["cursorDiskKV"], heads=STORE["composerHeaders"])
    return {one.name: (one, parse(one.text)) for one in collect(path)}


def test_sessions_of_a_database(sessions):
    assert list(sessions) == [CHART, HEIGHTS, USES]  # one without any message is none
    for name, (one, parsed) in sessions.items():
        assert cursor.detect(take_sample(one.text, "state.vscdb"))
        assert [found.id for found in parsed.sessions] == [name]
    assert sessions[HEIGHTS][0].mtime == datetime(2026, 6, 2, 9, 4, 20, tzinfo=UTC)
    assert sessions[CHART][0].mtime == datetime(2025, 2, 10, 9, 1, tzinfo=UTC)
    (found,) = sessions[USES][1].sessions
    assert (found.project, found.title) == ("tidebook", "Find all uses of height()")
    assert [(turn.role, turn.origin) for turn in found.turns] == [("user", "subagent"), ("assistant", "subagent")]
    (found,) = sessions[CHART][1].sessions
    assert list_turns(found.turns) == [
        (bubble_id(31), "user", "human", "Why does the chart start at noon?", None),
        (bubble_id(32), "assistant", "assistant", "It takes the first high tide as its origin.", None),
    ]
    # A time that counts from the start of the editor is none; the session's own is the best there is.
    expected = [(datetime(2025, 2, 10, 9, tzinfo=UTC), "derived"), (datetime(2025, 2, 10, 9, 1, tzinfo=UTC), "exact")]
    assert [(turn.time, turn.time_quality) for turn in found.turns] == expected
    assert (found.project, found.title) == (None, "Why does the chart start at noon?")


def test_a_session_of_headers_and_messages(sessions):
    parsed = sessions[HEIGHTS][1]
    (found,) = parsed.sessions
    assert (found.source, found.project, found.title) == ("cursor", "tidebook", "Tide heights in feet")
    person, program, tool, answer = ("user", "human"), ("assistant", "assistant"), ("tool", "tool"), bubble_id(3)
    read = "I will read how heights are formatted.\n[read_file_v2] /Users/yusuf/tidebook/src/units.ts"
    asked = "Show tide heights in feet for American ports. Today they are always metres."
    assert list_turns(found.turns) == [
        (bubble_id(1), *person, asked, None),
        (answer, *program, f"{read}\n[run_terminal_command_v2] npm test -- units", None),
        (bubble_id(4), *tool, "export const height = (m: number) => `${m} m`", answer),
        (bubble_id(5), *tool, "error: FAIL src/units.test.ts\n  expected 3.3 ft", answer),
        (bubble_id(7), *program, "Heights are now in feet where the port is American.", None),
        (bubble_id(8), *person, "Round to one decimal, see @units.ts please\nAnd keep metres as they are.", None),
        (bubble_id(9), *program, "[edit_file_v2] src/units.ts\n[run_terminal_command_v2] npm test", None),
    ]
    assert found.turns[0].time == datetime(2026, 6, 2, 9, tzinfo=UTC)
    assert all(turn.time_quality == "exact" and turn.unique for turn in found.turns)
    assert parsed.unknown == {"bubble 3": 1}
    assert parsed.junk == {"reasoning": len("The port record has a country code.")}


def test_order_and_text_depend_only_on_what_is_parsed(tmp_path):
    times = {"b9": "2026-06-02T09:00:09Z", "b1": "2026-06-02T09:00:05Z", "b5": "2026-06-02T09:00:07Z"}
    values = store(*(bubble(id, 1, id, createdAt=time) for id, time in times.items()))
    (one,) = collect(database(tmp_path / "state.vscdb", values))
    assert list_texts(parse(one.text)) == ["b9", "b1", "b5"]
    values = store(bubble("b1", 1, "Hi"), lastUpdatedAt=1780390790000)
    more = {"lastUpdatedAt": 1780390790001, "status": "completed", "codeBlockData": {}}
    changed = store(bubble("b1", 1, "Hi", lints=["x"]), **more)
    one, same, other = (collect(database(tmp_path / "s.vscdb", given))[0] for given in (values, values, changed))
    assert one.text == same.text == other.text
    assert one.mtime != other.mtime


def test_the_chats_of_the_first_versions(tmp_path):
    lexical = {"root": {"children": [{"type": "paragraph", "children": [{"type": "text", "text": "And in Rust?"}]}]}}
    bubbles = [
        {"type": "user", "id": "u1", "text": "How do I retry?"},
        {"type": "ai", "id": "a1", "rawText": "With a back-off."},
        {"type": "user", "id": "u2", "initText": json.dumps(lexical)},
    ]
    first = {"tabId": "tab-1", "chatTitle": "Retries", "lastSendTime": 1739178060000, "bubbles": bubbles}
    chats = {"tabs": [first, {"tabId": "tab-2", "bubbles": []}, {"tabId": 7, "bubbles": "x"}, "x"]}
    place = tmp_path / "workspaceStorage" / "1f"
    items = {"workbench.panel.aichat.view.aichat.chatdata": chats}
    path = database(place / "state.vscdb", items=items, tables=("ItemTable",))
    (place / "workspace.json").write_text('{"folder":"file:///home/yusuf/tide%20book"}')
    (one,) = collect(path)
    assert (one.name, one.mtime) == ("tab-1", datetime(2025, 2, 10, 9, 1, tzinfo=UTC))
    (found,) = parse(one.text).sessions
    assert (found.id, found.title, found.project) == ("tab-1", "Retries", "tide book")
    assert not any(turn.unique for turn in found.turns)
    assert [(turn.id, turn.role, turn.text) for turn in found.turns] == [
        ("u1", "user", "How do I retry?"), ("a1", "assistant", "With a back-off."), ("u2", "user", "And in Rust?"),
    ]  # fmt: skip


WORKSPACE = {"workspaceIdentifier": {"id": "1f", "uri": {"fsPath": "C:\\work\\named"}}}


@cases("session, head, project",
    (WORKSPACE, {}, "named"), ({}, WORKSPACE, "named"),
    ({"workspaceIdentifier": {"id": "x", "uri": "file:///c%3A/work/by%20uri"}}, {}, "by uri"),
    ({"workspaceIdentifier": {"id": "1f"}}, {}, "of the workspace"),
    ({}, {"workspaceIdentifier": {"id": "1f"}}, "of the workspace"),
    ({"trackedGitRepos": [{"repoPath": "/home/yusuf/repo"}]}, {}, "repo"), ({}, {}, "listed"),
    ({"workspaceIdentifier": {"id": "../../elsewhere"}}, {}, "listed"),
    ({"workspaceIdentifier": {"id": 7, "uri": 7}, "trackedGitRepos": [7]}, {}, "listed"))  # fmt: skip
def test_the_folder_that_was_open(tmp_path, session, head, project):
    storage = tmp_path / "User" / "workspaceStorage"
    for name, folder in (("1f", "of%20the%20workspace"), ("2e", "listed"), ("../../elsewhere", "elsewhere")):
        (storage / name).mkdir(parents=True, exist_ok=True)
        (storage / name / "workspace.json").write_text(json.dumps({"folder": f"file:///home/yusuf/{folder}"}))
    database(storage / "2e" / "state.vscdb", items={"composer.composerData": {"allComposers": [{"composerId": "c1"}]}})
    (storage / "3d").mkdir()
    (storage / "3d" / "state.vscdb").write_bytes(b"SQLite format 3\0 and then nothing")
    (storage / "3d" / "workspace.json").write_text('{"folder":"file:///x"}')
    path = tmp_path / "User" / "globalStorage" / "state.vscdb"
    database(path, store(bubble("b1", 1, "Hi"), **session), heads=[{"composerId": "c1", **head}])
    (one,) = collect(path)
    assert parse(one.text).sessions[0].project == project


def test_values_that_are_too_large_are_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("helix.sources.cursor_store._SESSION_BYTES", 500)
    large = bubble("b2", 2, "x" * (sqlite.VALUE_BYTES + 1))
    values = store(bubble("b1", 1, "Hi"), large) | store(bubble("b3", 1, "Ho"), id="c2", originalFileStates="x" * 500)
    first, second = collect(database(tmp_path / "state.vscdb", values))
    assert len(first.text) < 1000
    assert list_texts(parse(first.text)) == ["Hi"]
    assert parse(first.text).unknown == parse(second.text).unknown == {"bubble (too large)": 1}
    assert parse(second.text).sessions == ()


def test_heads_may_be_in_one_value_and_other_values_unreadable(tmp_path):
    heads = {"allComposers": [{"composerId": "c1", "name": "Named outside", **WORKSPACE}, 7, {"composerId": 7}]}
    path = database(
        tmp_path / "state.vscdb", store(bubble("b1", 1, "Hi"), name=""), {"composer.composerHeaders": heads}
    )
    (found,) = parse(collect(path)[0].text).sessions
    assert (found.title, found.project) == ("Named outside", "named")
    values = {
        "composerData:c0": "{half", "composerData:c2": "null",
        "composerData:c3": {"fullConversationHeadersOnly": [{"bubbleId": 7}, 7, {"bubbleId": "gone"}]},
        "composerData:c4": {"conversation": 7, "fullConversationHeadersOnly": {}}, **store(bubble("b1", 1, "Hi")),
        "bubbleId:c1:b1": b'{"type":1,"text":"caf\xc3\xa9 \xff"}'}  # fmt: skip
    (one,) = collect(database(tmp_path / "state.vscdb", values))
    assert list_texts(parse(one.text)) == ["café �"]


def test_the_log_of_a_running_editor_is_read_and_it_can_write(tmp_path):
    path = database(tmp_path / "state.vscdb", store(bubble("b1", 1, "Hi")) | store(bubble("b2", 1, "Ho"), id="c2"))
    update = "UPDATE cursorDiskKV SET value = ? WHERE key = ?"
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("PRAGMA journal_mode=WAL")
        running.execute("PRAGMA wal_autocheckpoint=0")
        running.execute(update, (json.dumps(bubble("b1", 1, "A")), "bubbleId:c1:b1"))
        found = cursor.collect(path)
        assert list_texts(parse(next(found).text)) == ["A"]
        running.execute(update, (json.dumps(bubble("b2", 1, "B")), "bubbleId:c2:b2"))
        assert list_texts(parse(next(found).text)) == ["B"]


def test_a_locked_or_damaged_database_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT_S", 0.01)
    path = database(tmp_path / "state.vscdb", store(bubble("b1", 1, "Hi")))
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputRefused, match=r"^the database is locked"):
            cursor.collect(path)
    (tmp_path / "half.vscdb").write_bytes(path.read_bytes()[:3000])
    with pytest.raises(InputRefused, match="damaged or half written"):
        cursor.collect(tmp_path / "half.vscdb")


def test_other_databases_are_not_collected_and_sidecars_are_companions(tmp_path):
    editor = database(tmp_path / "editor.vscdb", items={"theme": "dark"}, tables=("ItemTable",))
    assert cursor.collect(editor) is None
    (tmp_path / "text.vscdb").write_text("x")
    assert cursor.collect(tmp_path / "text.vscdb") is None
    assert opencode.collect(database(tmp_path / "own.vscdb", store(bubble("b1", 1, "Hi")))) is None
    path = database(tmp_path / "state.vscdb")
    assert cursor.is_companion(path.with_name("state.vscdb-wal"))
    assert not cursor.is_companion(path)
