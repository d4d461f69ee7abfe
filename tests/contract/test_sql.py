"""`helix sql`: the views, against answers worked out by hand, and refused statements."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helix.errors import StoreError, UsageError
from helix.snapshot import paths, pins
from helix.snapshot import sql as snapshot_sql
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.sql import run_statement
from helix.snapshot.status import count_by_field
from tests.support.paths import ROOT
from tests.support.processes import wait_until
from tests.support.serving import HELIX
from tests.support.terminals import run_on_terminal
from tests.support.tiny import BASE, make_store

DATA = ROOT / "tests" / "support" / "data"
VIEWS = ("items", "facts", "entities", "edges", "steps", "sessions", "clusters")
ANA, FILE, BOB = ("person", "ana", "Ana"), ("file", "db.py", "db.py"), ("person", "bob", "Bob")

# Three segments of rows 0-3, 4-6 and 7. The new b1 of the second one replaces row 1. Rows 3 and 5 are deleted,
# and with them every mention of Bob.
TEXTS = ["zero", "one, old", "two", "three", "one, new", "five", "six", "seven"]
GIVEN: list[dict[str, Any]] = [
    {"session": "a", "turn": "a0", "ord": 0, "speaker": "Ana"}, {"session": "b", "turn": "b1", "ord": 1},
    {"session": "a", "turn": "a2", "ord": 2, "speaker": "Bob", "type": "decision", "acl": ["ana", "bob"]},
    {"session": "a", "turn": "a3", "ord": 3},
    {"session": "b", "turn": "b1", "ord": 1, "speaker": "Ana", "salience": 0.3},
    {"session": "b", "turn": "b5", "ord": 5}, {"session": "b", "turn": "b6", "ord": 6, "project": "q"},
    {"session": "a", "turn": "a7", "ord": 7, "project": "q"},
]  # fmt: skip
SPELT = ("person", "ana", "ana")
MENTIONS = [[ANA], [ANA], [FILE], [BOB], [SPELT, FILE], [BOB], [SPELT], []]
DELETED = {0: [1, 3], 1: [1]}
A0, B1, A2, A3, B6, A7 = (hash_parts("tiny", turn[0], turn, "0") for turn in ("a0", "b1", "a2", "a3", "b6", "a7"))


def utc(seconds: int) -> str:
    return (datetime.fromtimestamp(BASE, UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rows(root: Path, statement: str, limit: int | None = None, seconds: float = 0.0) -> list[dict[str, Any]]:
    with run_statement(root, statement, limit, seconds) as found:
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def one(root: Path, statement: str) -> Any:
    (row,) = rows(root, statement)
    (value,) = row.values()
    return value


def tree(*roots: Path) -> dict[str, str]:
    """Return the digest of every file below."""
    files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sql") / "the owner's [own] store"
    make_store(root, TEXTS, given=GIVEN, mentions=MENTIONS, cuts=[4, 7], deleted=DELETED)
    return root


def test_items_are_the_live_rows(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(store, "SELECT id, text FROM items ORDER BY ord, session")
    expected = [(A0, "zero"), (B1, "one, new"), (A2, "two"), (B6, "six"), (A7, "seven")]
    assert [(row["id"], row["text"]) for row in found] == expected
    assert count_by_field(store)["project"] == {"p": 3, "q": 2}
    assert count_by_field(store)["type"] == {"episodic": 4, "decision": 1}
    monkeypatch.chdir(store.parent)
    assert one(Path(store.name), "SELECT count(*) FROM items") == 5


def test_an_item_has_every_column(store: Path) -> None:
    (row,) = rows(store, "SELECT * FROM items WHERE type = 'decision'")
    assert row == (
        {"id": A2, "source": "tiny", "path": "tiny.jsonl", "document": "0" * 64, "session": "a", "branch_of": None}
        | {"turns": ["a2"], "piece": 0, "ord": 2, "speaker": "Bob", "role": "user", "origin": "human", "title": None}
        | {"text": "two", "type": "decision", "type_confidence": 1.0, "project": "p", "workspace": None}
        | {"time": utc(120), "time_quality": "exact", "t_valid": utc(120), "t_invalid": None, "t_ingested": utc(0)}
        | {"salience": 0.5, "confidence": 0.5, "priority": 1.0, "pinned": False, "acl": ["ana", "bob"], "tokens": 1}
        | {"content": hash_parts("two"), "near": None, "vouched": None, "salience_parts": None, "queries": []}
    )


CONDITIONS = [
    (f"time = '{utc(120)}'", ["two"]), (f"time > '{utc(120)[:-1]}.5Z' AND time < '{utc(360)}'", ["one, new"]),
    ("project IN ('q')", ["six", "seven"]), ("salience < 0.4", ["one, new"]), ("speaker IS NULL", ["six", "seven"]),
    ("list_contains(acl, 'bob')", ["two"]), ("ord >= 6 AND text LIKE '%v%'", ["seven"]), ("near IS NOT NULL", []),
    ("id IN (SELECT src FROM edges WHERE kind = 'next')", ["zero"]),
]  # fmt: skip


def test_conditions_reach_the_scan(store: Path) -> None:
    def select(condition: str) -> list[str]:
        return [row["text"] for row in rows(store, f"SELECT text FROM items WHERE {condition} ORDER BY time, ord")]

    assert {condition: select(condition) for condition, _ in CONDITIONS} == dict(CONDITIONS)


def test_edges_leave_from_live_items(store: Path) -> None:
    mentions = ((A0, ANA), (A2, FILE), (B1, ANA), (B1, FILE), (B6, ANA))
    found = {(row["src"], row["kind"], row["dst"]) for row in rows(store, "FROM edges")}
    assert found == {
        *((item, "mentions", hash_parts(*entity[:2])) for item, entity in mentions),
        (A0, "next", A2),  # no edge of a deleted row: A2 to A3, the old B1, and through b5
        *((item, "session", hash_parts("tiny", "a")) for item in (A0, A2, A7)),
        *((item, "session", hash_parts("tiny", "b")) for item in (B1, B6)),
    }
    assert len(rows(store, "FROM edges")) == len(found)


def test_a_next_edge_to_an_item_that_was_replaced_stays(tmp_path: Path) -> None:
    given = [{"turn": "1", "ord": 0}, {"turn": "2", "ord": 1}, {"turn": "2", "ord": 1}]
    make_store(tmp_path / "s", ["first", "old", "new"], given=given, cuts=[2], deleted={0: [1]})
    found = rows(
        tmp_path / "s", "SELECT a.text, b.text AS next FROM edges JOIN items a ON src = a.id JOIN items b ON dst = b.id"
    )
    assert found == [{"text": "first", "next": "new"}]


def test_entities_count_live_items_and_need_one(store: Path) -> None:
    found = rows(store, "FROM entities ORDER BY kind, key")
    file, person = ("file", "db.py"), ("person", "ana")
    assert found == [
        {"kind": "file", "key": "db.py", "name": "db.py", "hash": hash_parts(*file), "items": 2, "evergreen": False},
        {"kind": "person", "key": "ana", "name": "ana", "hash": hash_parts(*person), "items": 3, "evergreen": True},
    ]
    joined = "SELECT name, count(*) AS n FROM entities JOIN edges ON dst = hash GROUP BY ALL ORDER BY name"
    assert rows(store, joined) == [{"name": "ana", "n": 3}, {"name": "db.py", "n": 2}]


def test_entities_of_segments_without_deletions_come_from_their_own_counts(tmp_path: Path) -> None:
    make_store(tmp_path / "s", TEXTS[2:], given=GIVEN[2:], mentions=MENTIONS[2:], cuts=[2])
    assert rows(tmp_path / "s", "SELECT name, items FROM entities ORDER BY name") == [
        {"name": name, "items": 2} for name in ("Bob", "ana", "db.py")
    ]


def test_sessions_count_their_live_items_and_distinct_turns(store: Path, sample_store: Path) -> None:
    shared = {"source": "tiny", "title": None, "projects": ["p", "q"]}
    a = {"session": "a", "key": hash_parts("tiny", "a"), "first_time": utc(0), "last_time": utc(420)}
    b = {"session": "b", "key": hash_parts("tiny", "b"), "first_time": utc(240), "last_time": utc(360)}
    assert rows(store, "FROM sessions ORDER BY session") == [
        {**shared, **a, "items": 3, "turns": 3, "speakers": ["Ana", "Bob"]},
        {**shared, **b, "items": 2, "turns": 2, "speakers": ["Ana"]},
    ]
    found = rows(sample_store, "SELECT * FROM sessions WHERE title IS NOT NULL")
    assert found
    for row in found:
        turns = rows(sample_store, f"SELECT DISTINCT unnest(turns) AS t FROM items WHERE session = '{row['session']}'")
        assert row["turns"] == len(turns)
    assert one(sample_store, "SELECT sum(items) FROM sessions") == one(sample_store, "SELECT count(*) FROM items")


def test_facts_follow_their_items(tmp_path: Path) -> None:
    """Facts of row 3 and of the replaced B1 are deleted. A row that only closes a fact is none."""
    fact = {"subject": "ana", "relation": "likes", "functional": False}
    objects = ["figs", "oats", "", "rye", "spelt", "", "spelt", ""]
    facts = [[{**fact, "object_": name}] if name else [] for name in objects]
    facts[6][0]["closes"] = True
    root = tmp_path / "s"
    make_store(root, TEXTS, given=GIVEN, mentions=MENTIONS, cuts=[4, 7], deleted=DELETED, facts=facts)
    likes = {"subject": "ana", "relation": "likes", "qualifier": "", "project": "p", "confidence": 0.5, "reason": ""}
    expected = []
    for item, object_, said, since, until in (
        (A0, "figs", "zero", utc(0), None),
        (B1, "spelt", "one, new", utc(240), utc(360)),
    ):
        identity = hash_parts(item, "ana", "likes", object_)
        hashed = {
            f"{part}_entity": int(hash_parts("person", key), 16)
            for part, key in (("subject", "ana"), ("object", object_))
        }
        times = {"t_valid": since, "t_invalid": until, "t_ingested": utc(0)}
        expected.append({**likes, **hashed, **times, "id": identity, "object": object_, "item": item, "said": said})
    assert rows(root, "FROM facts ORDER BY t_valid") == expected


def test_near_duplicates_are_in_a_cluster_with_the_first(tmp_path: Path) -> None:
    """b repeats a, c repeats b and d repeats c: a represents them all."""
    names = [hash_parts("tiny", "s", f"t{i}", "0") for i in range(5)]
    make_store(tmp_path / "s", list("abcde"), near=[None, names[0], names[1], names[2], None])
    assert rows(tmp_path / "s", "FROM clusters") == [
        {"representative": names[0], "items": 4, "repeated": sorted(names[1:4])}
    ]


def test_an_empty_store_has_the_same_columns_and_no_rows(tmp_path: Path, store: Path) -> None:
    paths.create_folders(tmp_path / "empty")
    for view in VIEWS:
        assert rows(tmp_path / "empty", f"FROM {view}") == []
        assert rows(tmp_path / "empty", f"DESCRIBE {view}") == rows(store, f"DESCRIBE {view}")
    assert [row["name"] for row in rows(store, "SHOW TABLES")] == sorted(VIEWS)


VALUES: list[tuple[str, Any]] = [
    ("TIMESTAMPTZ '2024-02-29 12:00:00.25+02'", "2024-02-29T10:00:00.250000Z"),
    ("TIMESTAMP '2024-02-29 12:00:00'", "2024-02-29T12:00:00Z"),
    ("TIMESTAMPTZ '2024-02-29 23:30:00Z'::DATE", "2024-02-29"),
    ("[TIMESTAMPTZ '2024-01-01 00:00:00Z']", ["2024-01-01T00:00:00Z"]),
    ("{'a': 1, 'b': [NULL, 2]}", {"a": 1, "b": [None, 2]}), ("MAP {'x': 1.5}", {"x": 1.5}), ("0.3::FLOAT", 0.3),
    ("'\\xFF\\x00'::BLOB", "ff00"), ("1.25::DECIMAL(9, 2)", 1.25), ("sum(9007199254740993)", 9007199254740993),
    ("170141183460469231731687303715884105727::HUGEINT", 170141183460469231731687303715884105727),
    ("'nan'::DOUBLE", None), ("['-infinity'::DOUBLE]", [None]), ("NULL", None),
    ("INTERVAL '1 month 2 days 1.5 seconds'", "P1M2DT1.5S"),
]  # fmt: skip


def test_values_are_those_of_json(store: Path) -> None:
    found = {expression: one(store, f"SELECT {expression}") for expression, _ in VALUES}
    assert found == dict(VALUES)
    assert json.loads(json.dumps(found, allow_nan=False)) == dict(VALUES)
    assert rows(store, "SELECT 1 AS a, 2 AS a, 3 AS a_1") == [{"a": 1, "a_1": 2, "a_1_1": 3}]  # repeated names


def test_a_limit_keeps_the_order(store: Path) -> None:
    assert [row["text"] for row in rows(store, "SELECT text FROM items ORDER BY ord DESC", 2)] == ["seven", "six"]
    assert len(rows(store, "EXPLAIN SELECT * FROM items", 1)) == 1


REFUSED = [
    *(line for line in (DATA / "refused_statements.txt").read_text("utf-8").splitlines() if line[:1] not in "# "),
    *("", "SELECT '\udcff'", "SELECT (chr(27) || '[2J')::INTEGER"),
]


def quote(path: Path) -> str:
    """Return a path as the text of an SQL string."""
    return str(path).replace("'", "''")


QUERIES = [
    "SELECT 1;", "FROM items LIMIT 1", "VALUES (1)", "TABLE sessions", "WITH x AS (SELECT 1) SELECT * FROM x",
    "DESCRIBE items", "SUMMARIZE items", "SHOW TABLES", "EXPLAIN SELECT * FROM items",
    "explain  analyze\nSELECT count(*) FROM edges", "/* why */ EXPLAIN SELECT 1 -- so",
    "PIVOT items ON type IN ('episodic', 'decision') USING count(*)",
]  # fmt: skip


def test_only_queries_are_answered(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused are statements that write, read files or are no query."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(snapshot_sql, "leaked", pa.table({"a": [1]}), raising=False)  # no name is a Python variable
    parquet = quote(next((store / "segments").glob("*/items.parquet")))
    names = {"out": tmp_path / "out", "store": quote(store), "current": quote(store / "CURRENT"), "parquet": parquet}
    names |= {"manifest": quote(next((store / "manifests").iterdir())), "parquet2": parquet.replace("'", "''")}
    before, faults = tree(store, tmp_path), []
    for statement in REFUSED:
        try:
            faults.append((statement, rows(store, statement.format(**names))))
        except UsageError as error:
            if error.exit_status != 2 or not error.remedy or not str(error).isprintable():
                faults.append((statement, error))
        if list(tmp_path.iterdir()):
            pytest.fail(f"{statement} makes files")
    assert faults == []
    assert [statement for statement in QUERIES if not rows(store, statement)] == []
    assert tree(store, tmp_path) == before


def test_memory_is_bounded_and_nothing_spills(store: Path) -> None:
    bounds = {"temp_directory": "", "max_temp_directory_size": "0 bytes", "memory_limit": "1.8 GiB", "threads": 2}
    assert {name: one(store, f"SELECT current_setting('{name}')") for name in bounds} == bounds


ENDLESS = [
    "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(1000000) b",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "SELECT a.range FROM range(10000000) a, range(1000000) b ORDER BY hash(a.range) DESC LIMIT 3",
    "EXPLAIN ANALYZE SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11",
    "SELECT a.range FROM range(10000000) a, range(1000000) b, items WHERE a.range + b.range = -1",
]


def test_an_endless_query_is_ended(store: Path) -> None:
    for statement in ENDLESS:
        with pytest.raises(UsageError, match=r"more than 0\.3 s; .*--timeout or HELIX_SQL_TIMEOUT"):
            rows(store, statement, seconds=0.3)
    assert pins.list_pinned(store) == set()


def test_the_time_of_a_slow_reader_does_not_count(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later, clock = 0.0, time.monotonic
    monkeypatch.setattr(snapshot_sql, "monotonic", lambda: clock() + later)
    with run_statement(store, "SELECT range FROM range(5000)", seconds=600.0) as found:
        for _ in found.rows:
            later += 1000.0
    assert later == 5_000_000.0


def test_the_generation_is_pinned_while_rows_are_read(store: Path) -> None:
    name, _ = inbox.load_current(store)
    with run_statement(store, "FROM items") as found:
        assert pins.list_pinned(store) == {name}
        assert len(list(found.rows)) == 5
    assert pins.list_pinned(store) == set()
    assert list((store / "pins").iterdir()) == []


def test_a_missing_store_and_a_damaged_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="no Helix store"):
        rows(tmp_path / "nowhere", "SELECT 1")
    assert list(tmp_path.iterdir()) == []
    make_store(tmp_path / "s", ["a", "b"])
    (edges,) = (tmp_path / "s" / "segments").glob("*/edges.parquet")
    whole = edges.read_bytes()
    os.truncate(edges, 100)
    with pytest.raises(StoreError, match=r"edges\.parquet is damaged"):
        rows(tmp_path / "s", "SELECT count(*) FROM items")
    edges.write_bytes(whole)
    (path,) = (tmp_path / "s" / "segments").glob("*/items.parquet")
    path.write_bytes(path.read_bytes()[:4] + bytes(path.stat().st_size - 4))
    monkeypatch.setattr("helix.snapshot.sql_views.check_files", lambda *_: None)  # the scan finds it
    with pytest.raises(StoreError, match="helix verify"):
        rows(tmp_path / "s", "SELECT text FROM items")


def test_the_command_prints_json(store: Path, run_helix, call_helix) -> None:
    done = run_helix("sql", "SELECT text, time, turns FROM items ORDER BY ord", "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == {"text": "zero", "time": utc(0), "turns": ["a0"]}
    assert len(json.loads(done.stdout)) == 5
    none = call_helix("sql", "SELECT 1 WHERE false", "--store", store, "--json")
    assert (none.returncode, json.loads(none.stdout)) == (0, [])
    done = call_helix("sql", "SELECT range AS n FROM range(2500)", "--store", store, "--json", "--limit", 1)
    assert json.loads(done.stdout) == [{"n": n} for n in range(2500)]
    assert "every project and every ACL" in call_helix("sql", "--help").stdout


def test_the_command_prints_a_table_and_an_explanation(store: Path, run_helix, call_helix) -> None:
    done = run_helix("sql", "SELECT text, ord, branch_of, turns FROM items ORDER BY ord", "--store", store)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["text\tord\tbranch_of\tturns", 'zero\t0\t\t["a0"]']
    assert (len(done.stdout.splitlines()), done.stderr) == (6, "5 rows\n")
    done = call_helix("sql", "EXPLAIN SELECT text FROM items", "--store", store)
    assert "Projections: text" in done.stdout
    assert len(done.stdout.splitlines()) > 3
    more = "200 rows shown, there are more: --limit N, 0 for all\n"
    for limit, lines, note in ((None, 201, more), (300, 301, "300 rows\n"), (0, 301, "300 rows\n")):
        options = () if limit is None else ("--limit", limit)
        done = call_helix("sql", "SELECT range AS n FROM range(300)", "--store", store, *options)
        assert (len(done.stdout.splitlines()), done.stderr) == (lines, note)


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


WRONG = [
    (["SELEC 1"], "syntax error"), (["SELECT nope FROM items"], "nope"), ([], "SELECT"),
    (["COPY items TO 'x'"], "COPY is refused"), (["SELECT 1; SELECT 2"], "2 statements"),
    (["SELECT 1", "--limit", "-1"], "limit is -1"), (["SELECT 1", "--timeout", "-1"], "time limit is -1.0 s"),
    (["SELECT 1", "--timeout", "nan"], "time limit is nan s"), ([ENDLESS[0], "--timeout", "0.5"], "took more than 0.5"),
    (["SELECT text::INTEGER FROM items", "--json"], "Conversion Error"),
]  # fmt: skip


def test_wrong_use_is_one_line_and_status_2(store: Path, run_helix, call_helix) -> None:
    for arguments, message in WRONG:
        call = run_helix if ENDLESS[0] in arguments else call_helix  # a time limit ends the process
        done = call("sql", *arguments, "--store", store)
        assert (done.returncode, message in one_line(done.stderr)) == (2, True), (arguments, done.stderr)


def test_a_query_that_computes_one_value_for_hours_is_ended(store: Path, run_helix) -> None:
    """DuckDB checks for an interruption only between values."""
    query = "SELECT levenshtein(repeat('a', 2000000), repeat('b', 2000000))"
    done = run_helix("sql", query, "--store", store, "--json", HELIX_SQL_TIMEOUT="0.5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "took more than 0.5 s" in one_line(done.stderr)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe [bold red]markup[/] \U000e0041 end"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "s"
    make_store(root, [HOSTILE, "plain " * 50 + "tail"], given=[{"speaker": "a\tb\nc"}, {}])
    return root


def test_recalled_text_cannot_steer_a_pipe(hostile: Path, call_helix) -> None:
    done = call_helix("sql", "SELECT text, speaker FROM items ORDER BY ord", "--store", hostile)
    assert all(line.replace("\t", "").isprintable() for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == 3
    assert done.stdout.splitlines()[1].endswith("\ta b c")
    assert "plain " * 50 + "tail" in done.stdout  # complete, for other programs
    answer = call_helix("sql", "SELECT text, speaker FROM items ORDER BY ord", "--store", hostile, "--json").stdout
    assert answer.replace("\n", "").isprintable()
    assert json.loads(answer)[0] == {"text": HOSTILE, "speaker": "a\tb\nc"}


def test_a_terminal_gets_short_cells_and_no_controls(hostile: Path) -> None:
    call = ("sql", "SELECT ord, text FROM items ORDER BY ord", "--store", hostile)
    shown = run_on_terminal(*call)
    for foreign in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\U000e0041", "\x07"):
        assert foreign not in shown
    assert "[bold red]markup[/]" in shown
    assert "…" in shown
    assert "tail" not in shown
    assert "tail" in run_on_terminal(*call, "--full")
    wide = run_on_terminal("sql", "FROM items", "--store", hostile, "--limit", 1)  # a table for each row
    assert any("type_confidence" in line and "1.0" in line for line in wide.splitlines())


def test_ctrl_c_ends_a_long_query(tmp_path: Path) -> None:
    make_store(tmp_path / "s", ["a"])
    command = [HELIX, "sql", ENDLESS[0], "--store", str(tmp_path / "s"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        wait_until(60, lambda: bool(pins.list_pinned(tmp_path / "s")))
        time.sleep(1)  # DuckDB is at work
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    assert pins.list_pinned(tmp_path / "s") == set()
