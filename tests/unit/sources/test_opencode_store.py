import json
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import opencode
from helix.sources.common import sqlite
from helix.sources.common.sample import take_sample
from tests.support.turns import cases, list_texts
from tests.unit.sources.test_opencode import EXPORT, message, parse, session, text, tool

SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT,
    version TEXT, summary_diffs TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER, time_archived INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
    data TEXT);
"""


def database(path, *exports, wal=False):
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made:
        if wal:
            made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA synchronous=OFF")
        made.executescript(SCHEMA)
        for export in exports:
            fill(made, export)
        made.commit()
    return path


def fill(made, export):
    info = export["info"]
    times = info.get("time", {})
    given = [info.get(name) for name in ("id", "parentID", "directory", "title")]
    revert = json.dumps(info["revert"]) if "revert" in info else None
    made.execute(
        "INSERT INTO session (id, parent_id, directory, title, revert, time_created, time_updated, project_id,"
        " summary_diffs) VALUES (?, ?, ?, ?, ?, ?, ?, 'p1', '[]')",
        (*given, revert, times.get("created"), times.get("updated")),
    )
    for entry in export["messages"]:
        data = {name: value for name, value in entry["info"].items() if name not in ("id", "sessionID")}
        created = entry["info"]["time"]["created"]
        row = (entry["info"]["id"], info["id"], created, created, json.dumps(data))
        made.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        for number, part in enumerate(entry["parts"]):
            data = {name: value for name, value in part.items() if name not in ("id", "sessionID", "messageID")}
            row = (part["id"], entry["info"]["id"], info["id"], created + number, created + number, json.dumps(data))
            made.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def storage(root, export):
    """Write the files of earlier versions with the same content, and return the session's file."""
    info = export["info"]
    own = root / "session" / info["projectID"] / f"{info['id']}.json"
    files = {own: info}
    for entry in export["messages"]:
        files[root / "message" / info["id"] / f"{entry['info']['id']}.json"] = entry["info"]
        for part in entry["parts"]:
            files[root / "part" / entry["info"]["id"] / f"{part['id']}.json"] = part
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2))
    return own


def collect(path):
    found = opencode.collect(path)
    assert found is not None
    return list(found)


def test_database_and_files_parse_like_the_export(tmp_path):
    export = json.loads(EXPORT.read_text())
    expected = parse(EXPORT.read_text())
    for path in (database(tmp_path / "opencode.db", export), storage(tmp_path / "storage", export)):
        (one,) = collect(path)
        assert one.name == "ses_4b1f8c2d7ffeQm3VtXaKzR0p1W"
        assert one.mtime == datetime(2026, 5, 11, 7, 3, 20, tzinfo=UTC)
        assert opencode.detect(take_sample(one.text, str(path)))
        parsed = parse(one.text)
        assert parsed.sessions == expected.sessions
        assert (parsed.unknown, parsed.junk) == (expected.unknown, expected.junk)


def test_the_text_depends_only_on_what_is_parsed(tmp_path):
    export = json.loads(EXPORT.read_text())
    first, again = database(tmp_path / "a.db", export), database(tmp_path / "b.db", export)
    assert collect(first)[0].text == collect(again)[0].text == collect(first)[0].text
    path = database(tmp_path / "a.db", session(message("m1", "user", text("Hi"))))
    (before,) = collect(path)
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE session SET time_archived = 5, summary_diffs = '[{}]', version = '9'")
        made.commit()
    assert collect(path)[0].text == before.text
    heavy = {"metadata": {"diff": "-x"}, "attachments": [{"url": "data:image/png;base64,AA"}]}
    file = {"id": "p2", "type": "file", "url": "data:image/png;base64,AA"}
    given = message("m1", "assistant", tool("p1", status="completed", output="ok", **heavy), file, system="Be brief.")
    (one,) = collect(database(tmp_path / "o.db", session(given)))
    assert not any(word in one.text for word in ("-x", "base64", "brief"))
    assert [turn.text for turn in parse(one.text).sessions[0].turns] == ["[bash]", "ok"]


def test_each_session_is_one_text_in_order(tmp_path):
    path = database(
        tmp_path / "o.db", {**session(message("m2", "user", text("two", "p2"))), "info": {"id": "ses_2"}},
        session(message("m1", "user", text("one"))), {"info": {"id": "ses_3"}, "messages": []})  # fmt: skip
    expected = [("ses_1", ["one"]), ("ses_2", ["two"]), ("ses_3", [])]
    assert [(one.name, [s.turns[0].text for s in parse(one.text).sessions]) for one in collect(path)] == expected
    path = database(tmp_path / "o.db", session())
    with closing(sqlite3.connect(path)) as made:
        for id, created in (("m1", 30), ("m3", 10), ("m2", 10)):
            data = json.dumps({"role": "user", "time": {"created": 1778482800000}})
            made.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", (id, created, created, data))
        for id, of, created in (("p1", "m2", 9), ("p2", "m2", 8), ("p4", "m3", 5), ("p3", "m3", 5), ("p5", "m1", 1)):
            data = json.dumps({"type": "text", "text": id})
            made.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", (id, of, created, created, data))
        made.commit()
    assert [t.text for t in parse(collect(path)[0].text).sessions[0].turns] == ["p2\np1", "p3\np4", "p5"]


def test_a_running_program_is_read_and_can_write(tmp_path):
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))), wal=True)
    with closing(sqlite3.connect(path)) as running:
        running.execute("PRAGMA wal_autocheckpoint=0")
        fill(running, {**session(message("m2", "user", text("two", "p2"))), "info": {"id": "ses_2"}})
        running.commit()
        assert (tmp_path / "o.db-wal").stat().st_size > 0
        assert [one.name for one in collect(path)] == ["ses_1", "ses_2"]
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))), session(id="ses_2"))
    found = opencode.collect(path)
    assert next(found).name == "ses_1"
    with closing(sqlite3.connect(path, timeout=0)) as running:
        running.execute("DELETE FROM session WHERE id = 'ses_2'")
        running.commit()
    assert list(found) == []  # it is gone, which is no error


def test_a_locked_database_is_refused_at_once_or_later(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT_S", 0.01)
    path = database(tmp_path / "o.db", session())
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputRefused, match=r"^the database is locked") as refused:
            opencode.collect(path)
        assert refused.value.remedy
    monkeypatch.setattr(sqlite, "_WAIT_S", 0.01)
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))), session(id="ses_2"))
    found = opencode.collect(path)
    next(found)
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputRefused, match=r"^the database is locked"):
            next(found)


def test_a_damaged_or_half_written_database_is_refused(tmp_path):
    path = database(
        tmp_path / "o.db", session(*(message(f"m{n}", "user", text("x" * 900, f"p{n}")) for n in range(99)))
    )
    whole = path.read_bytes()
    for number, data in enumerate((whole[:100], whole[: len(whole) // 2], whole[:100] + b"\xff" * (len(whole) - 100))):
        broken = tmp_path / f"broken{number}.db"
        broken.write_bytes(data)
        with pytest.raises(InputRefused, match="damaged or half written") as refused:
            collect(broken)
        assert "recover" in refused.value.remedy


def connect_where_nothing_can_be_created(monkeypatch):
    """Simulate a read-only medium, on which a database with a write-ahead log cannot be opened."""
    asked = []
    real = sqlite3.connect

    def connect(name, **options):
        asked.append(name.rpartition("?")[2])
        if "immutable" not in name:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return real(name, **options)

    monkeypatch.setattr(sqlite.sqlite3, "connect", connect)
    return asked


def test_a_database_without_a_log_is_read_in_a_read_only_folder(tmp_path, monkeypatch):
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))))
    asked = connect_where_nothing_can_be_created(monkeypatch)
    assert [one.name for one in collect(path)] == ["ses_1"]
    assert asked == ["mode=ro", "mode=ro&immutable=1"] * 2


@cases("log", "o.db-wal", "o.db-journal")
def test_a_database_with_a_log_is_refused_in_a_read_only_folder(tmp_path, monkeypatch, log):
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))))
    (tmp_path / log).write_bytes(b"changes")
    asked = connect_where_nothing_can_be_created(monkeypatch)
    with pytest.raises(InputRefused, match="log that is not merged yet") as refused:
        opencode.collect(path)
    assert "copy it with its -wal" in refused.value.remedy
    assert asked == ["mode=ro"]


def test_large_or_unreadable_values_are_left_out_and_counted(tmp_path):
    large = "x" * (sqlite.VALUE_BYTES + 1)
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one", "p1"), text(large, "p2"))))
    (one,) = collect(path)
    assert len(one.text) < 1000
    parsed = parse(one.text)
    assert parsed.sessions[0].turns[0].text == "one"
    assert parsed.unknown == {"(too large)": 1}
    deep = '{"type":"tool","tool":"x","state":{"input":' + '{"a":' * 600 + "1" + "}" * 600 + "}}"
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one", "p1"))))
    with closing(sqlite3.connect(path)) as made:
        for id, data in (
            ("p2", "{half"), ("p3", "7"), ("p4", deep), ("p5", b'{"type":"text","text":"caf\xc3\xa9 \xff"}'),
        ):  # fmt: skip
            made.execute("INSERT INTO part VALUES (?, 'm1', 'ses_1', 99, 99, ?)", (id, data))
        made.execute(
            "INSERT INTO part SELECT 'p6', message_id, session_id, 100, 100, CAST(data AS TEXT) FROM part"
            " WHERE id = 'p5'"
        )
        made.execute("INSERT INTO message VALUES ('m2', 'ses_1', 99, 99, '[]')")
        made.commit()
    parsed = parse(collect(path)[0].text)
    assert list_texts(parsed) == ["café �\ncafé �\none"]
    assert parsed.unknown == {"(not valid JSON)": 3, "role (no type)": 1}


def test_reading_writes_nothing_and_may_be_in_another_thread(tmp_path):
    path = database(tmp_path / "o.db", session(message("m1", "user", text("one"))))
    before = path.read_bytes()
    collect(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["o.db"]
    found = opencode.collect(database(tmp_path / "o.db", session(message("m1", "user", text("one")))))
    names = []
    thread = threading.Thread(target=lambda: names.extend(one.name for one in found))
    thread.start()
    thread.join()
    assert names == ["ses_1"]


@cases("schema",
    "CREATE TABLE notes (id, text)", "CREATE TABLE session (id); CREATE TABLE message (id, session_id, body)",
    "CREATE TABLE ItemTable (key, value)")  # fmt: skip
def test_other_databases_are_not_collected(tmp_path, schema):
    with closing(sqlite3.connect(tmp_path / "x.db")) as made:
        made.executescript(schema)
    assert opencode.collect(tmp_path / "x.db") is None


def test_other_files_are_not_collected(tmp_path):
    (tmp_path / "opencode.db").write_text("not one")
    assert opencode.collect(tmp_path / "opencode.db") is None
    assert opencode.collect(tmp_path / "missing.db") is None
    assert opencode.collect(tmp_path) is None


def test_parts_of_all_messages_in_one_folder(tmp_path):
    export = {"info": {**session()["info"], "projectID": "p", "time": {"created": 1778482800000}}, "messages": []}
    own = storage(tmp_path, export)
    for number, role, later in ((1, "assistant", 9), (2, "user", 0)):
        value = {"id": f"m_{role}", "role": role, "time": {"created": 1778482800000 + later}}
        path = tmp_path / "message" / "ses_1" / f"msg_{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    (tmp_path / "part").mkdir()
    for number, of in ((1, "m_assistant"), (2, "m_user"), (3, "m_assistant"), (4, "m_elsewhere")):
        part = {"messageID": of, "id": f"p{number}", "type": "text", "text": f"part {number}"}
        (tmp_path / "part" / f"prt_{number}.json").write_text(json.dumps(part))
    (one,) = collect(own)
    assert [turn.text for turn in parse(one.text).sessions[0].turns] == ["part 2", "part 1\npart 3"]


def test_a_session_that_was_moved_keeps_the_messages_under_the_name_of_its_file(tmp_path):
    export = session(message("m1", "user", text("one")), projectID="p", time={"created": 1778482800000})
    own = storage(tmp_path, export)
    own.write_text(json.dumps({**export["info"], "id": "ses_old"}))
    (one,) = collect(own)
    assert parse(one.text).sessions[0].turns[0].text == "one"


@cases("id", "..", "../../secret", "a/b", "a\0b", "x" * 5000, "\ud800")
def test_an_id_is_never_a_way_to_another_folder(tmp_path, id):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "m1.json").write_text(json.dumps({"id": "m1", "role": "user"}))
    info = {**session()["info"], "id": id, "projectID": "p", "time": {}}
    own = tmp_path / "storage" / "session" / "p" / "ses_1.json"
    (tmp_path / "storage" / "message").mkdir(parents=True)
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps(info))
    (one,) = collect(own)
    assert json.loads(one.text)["messages"] == []


@cases("name, value",
    ("session/p/ses_1.json", {"id": "ses_1"}), ("session/p/ses_1.json", ["id"]),
    ("session/p/ses_1.txt", {"id": "ses_1", "projectID": "p", "time": {}}),
    ("notes/p/ses_1.json", {"id": "ses_1", "projectID": "p", "time": {}}), ("x.json", {"info": {}, "messages": []}),
)  # fmt: skip
def test_files_that_only_resemble_a_session_are_not_collected(tmp_path, name, value):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    assert opencode.collect(path) is None


def test_files_that_belong_to_a_session_are_no_inputs(tmp_path):
    export = json.loads(EXPORT.read_text())
    own = storage(tmp_path / "storage", export)
    root = tmp_path / "storage"
    for name in ("todo/ses_1.json", "session_diff/ses_1.json", "project/p.json", "share/s.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("{}")
    others = ["project/plan.json", "a/project/plan.json", "b/project/plan.json"]
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "a" / "session").mkdir()
    (tmp_path / "b" / "message").mkdir()
    inputs = (path for path in tmp_path.rglob("*.json") if not opencode.is_companion(path))
    assert {path.relative_to(tmp_path).as_posix() for path in inputs} == {own.relative_to(tmp_path).as_posix(), *others}


def test_sidecars_of_a_database_are_companions(tmp_path):
    database(tmp_path / "o.db", session())
    for name in ("o.db-wal", "o.db-shm", "o.db-journal", "notes.md-wal"):
        (tmp_path / name).write_bytes(b"x")
    companions = [path.name for path in sorted(tmp_path.iterdir()) if opencode.is_companion(path)]
    assert companions == ["o.db-journal", "o.db-shm", "o.db-wal"]
