"""`helix export --duckdb`: the file, read by DuckDB alone, against the views of `helix sql`."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from helix.errors import UsageError
from helix.snapshot import pins, sql_export, writer
from helix.snapshot.ledger import inbox
from helix.snapshot.sql import run_statement
from helix.snapshot.sql_export import WORKPLACE, export_duckdb
from helix.snapshot.sql_values import convert_column
from tests.contract.test_sql import DELETED, GIVEN, MENTIONS, TEXTS, VIEWS, one_line
from tests.support.tiny import BASE, make_store, without_fsync

FACT = {"subject": "ana", "relation": "likes", "object_": "figs", "functional": False}
OTHER = {**FACT, "object_": "what's \\ 'quoted'"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, deleted rows, facts of live and of deleted rows, a near-duplicate, hidden items."""
    root = tmp_path_factory.mktemp("export") / "the owner's store"
    facts = [[FACT], [OTHER], [], [FACT], [OTHER], [], [], []]
    near = [None] * 7 + ["0" * 16]
    make_store(root, TEXTS, given=GIVEN, mentions=MENTIONS, cuts=[4, 7], deleted=DELETED, facts=facts, near=near)
    return root


def read_file(path: Path, name: str) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Return (column, type) of a table, and its rows as JSON, with DuckDB alone."""
    with duckdb.connect(path, read_only=True) as db:
        columns = [(row[0], row[1]) for row in db.execute(f"DESCRIBE {name}").fetchall()]
        table = db.sql(f"FROM {name}").to_arrow_table().combine_chunks()
    values = [convert_column(column, table[column].combine_chunks()) for column in table.column_names]
    return columns, Counter(json.dumps(row) for row in zip(*values, strict=True))


def read_view(root: Path, name: str) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Return the same of a view of `helix sql`."""
    with run_statement(root, f"DESCRIBE {name}") as found:
        columns = [(row[0], row[1]) for row in found.rows]
    with run_statement(root, f"FROM {name}") as found:
        return columns, Counter(json.dumps(row) for row in found.rows)


def test_the_tables_are_the_views(store: Path, sample_store: Path, tmp_path: Path) -> None:
    for root, empty in ((store, {"steps"}), (sample_store, {"clusters"})):
        target = tmp_path / f"{root.name}'s file"
        report = export_duckdb(root, target)
        assert {name for name, rows in report.tables.items() if not rows} == empty
        assert tuple(report.tables) == VIEWS
        with duckdb.connect(target, read_only=True) as db:
            assert sorted(row[0] for row in db.execute("SHOW TABLES").fetchall()) == sorted(VIEWS)
        for name in VIEWS:
            assert read_file(target, name) == read_view(root, name)
            assert report.tables[name] == read_file(target, name)[1].total()
        assert (report.file, report.bytes, report.snapshot) == (str(target), target.stat().st_size, 1)


def test_times_are_moments(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("pytz", reason="DuckDB's fetchall of times needs it")
    export_duckdb(store, tmp_path / "f")
    with duckdb.connect(tmp_path / "f", read_only=True) as db:
        assert db.execute("SELECT min(time) FROM items").fetchall() == [(datetime.fromtimestamp(BASE, UTC),)]


def test_every_table_and_column_has_a_comment(store: Path, tmp_path: Path) -> None:
    export_duckdb(store, tmp_path / "f")
    with duckdb.connect(tmp_path / "f", read_only=True) as db:
        bare = db.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND NOT internal UNION ALL "
            "SELECT table_name, '' FROM duckdb_tables() WHERE comment IS NULL"
        ).fetchall()
        said = db.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'items' AND column_name = 'acl'")
        assert said.fetchall() == [("principals that may read it; empty: all readers of the project",)]
    assert bare == []


def test_no_byte_of_a_deleted_item_is_in_the_file(tmp_path: Path) -> None:
    texts = [f"the {name} word " * 3 for name in ("living", "forgotten")]
    facts = [[{**FACT, "object_": f"{name} object"}] for name in ("living", "forgotten")]
    mentions = [[("person", f"{name} person", f"{name} person")] for name in ("living", "forgotten")]
    make_store(tmp_path / "s", texts, facts=facts, mentions=mentions, deleted={0: [1]})
    export_duckdb(tmp_path / "s", tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    assert [data.count(word) > 0 for word in (b"living word", b"living object", b"living person", b"forgotten")] == [
        *(True, True, True, False)
    ]


def test_a_file_is_private_and_every_duckdb_since_1_0_reads_it(store: Path, tmp_path: Path) -> None:
    export_duckdb(store, tmp_path / "f")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    head = (tmp_path / "f").read_bytes()[:20]
    assert (head[8:12], int.from_bytes(head[12:], "little")) == (b"DUCK", 64)  # storage version of DuckDB 1.0
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_file_is_replaced_only_on_request(store: Path, tmp_path: Path) -> None:
    for name in ("f.wal", "f"):  # a log of the old file must not be replayed on the new one
        (tmp_path / name).write_text("mine")
        with pytest.raises(UsageError, match=rf"/{name} exists; --force replaces it"):
            export_duckdb(store, tmp_path / "f")
    export_duckdb(store, tmp_path / "f", force=True)
    assert read_file(tmp_path / "f", "items")[1].total() == 5
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_an_earlier_generation_and_an_empty_store(tmp_path: Path) -> None:
    root = tmp_path / "s"
    make_store(root, ["a", "b"])
    name, manifest = inbox.load_current(root)
    with without_fsync(), writer.acquire_lock(root, 1.0) as held:
        gone = writer.write_deletes(root, manifest.segments[0].id, [0])
        writer.publish_generation(held, replace(manifest, generation=2, parent=name, deletes=(gone,), token=held.token))
    found = {n: export_duckdb(root, tmp_path / f"{n}", generation=n).tables["items"] for n in (None, 1, 2)}
    assert found == {None: 1, 1: 2, 2: 1}
    with pytest.raises(UsageError, match="no generation 3"):
        export_duckdb(root, tmp_path / "f", generation=3)
    (tmp_path / "empty" / "inbox").mkdir(parents=True)
    report = export_duckdb(tmp_path / "empty", tmp_path / "f")
    assert (report.snapshot, report.tables) == (0, dict.fromkeys(VIEWS, 0))


def test_the_generation_is_pinned_while_it_is_read(store: Path, tmp_path: Path, monkeypatch: Any) -> None:
    seen = []
    monkeypatch.setattr(sql_export, "sync_file", lambda path: seen.append(pins.list_pinned(store)))
    export_duckdb(store, tmp_path / "f")
    assert seen == [{inbox.load_current(store)[0]}]
    assert pins.list_pinned(store) == set()


def run_export(store: Path, target: Path, before: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, after some code."""
    words = ["export", "--store", str(store), "--duckdb", str(target), *options]
    code = f"{before}\nimport sys\nfrom helix.cli.main import main\nsys.exit(main({words!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_kill_leaves_the_old_file_and_the_next_export_tidies(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_text("old")
    kill = "import os, helix.snapshot.sql_export as e; e.sync_file = lambda path: os.kill(os.getpid(), 9)"
    assert run_export(store, target, kill, "--force").returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    (left,) = tmp_path.glob(f"{WORKPLACE}*")
    assert left.stat().st_mode & 0o777 == 0o700
    export_duckdb(store, target, force=True)
    assert list(tmp_path.iterdir()) == [target]


def test_a_running_export_is_left_alone(store: Path, tmp_path: Path, monkeypatch: Any) -> None:
    settle = sql_export.sync_file

    def start_another(path: Path) -> None:
        monkeypatch.setattr(sql_export, "sync_file", settle)
        export_duckdb(store, tmp_path / "second")
        settle(path)

    monkeypatch.setattr(sql_export, "sync_file", start_another)
    export_duckdb(store, tmp_path / "first")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "first", tmp_path / "second"]


def test_a_full_disk_is_one_line_and_leaves_nothing(store: Path, tmp_path: Path) -> None:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, {resource.RLIM_INFINITY}))"
    done = run_export(store, tmp_path / "f", limit)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"helix export: cannot write {tmp_path}/f: " in one_line(done.stderr)
    assert "; check the free space" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_an_export_and_leaves_nothing(store: Path, tmp_path: Path, monkeypatch: Any) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def create_endless(db: duckdb.DuckDBPyConnection, *_: object) -> None:
        timer.start()
        db.execute("CREATE VIEW items AS SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(1000000) b")

    monkeypatch.setattr(sql_export, "create_views", create_endless)
    with pytest.raises(KeyboardInterrupt):
        export_duckdb(store, tmp_path / "f")
    timer.join()
    assert list(tmp_path.iterdir()) == []
    assert pins.list_pinned(store) == set()


def test_a_wrong_path_is_one_line_and_status_2(store: Path, tmp_path: Path, call_helix: Any) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    wrong = [
        (store / "f", "is inside the store"), (store / "new" / ".." / "f", "is inside the store"),
        (tmp_path / "no" / "f", f"there is no folder {tmp_path / 'no'}"), (tmp_path, "is no regular file"),
        (".", "is no regular file"), ("/dev/null", "is no regular file"), (tmp_path / "file" / "f", "no folder"),
        (tmp_path / ("x" * 256), "File name too long"),
    ]  # fmt: skip
    wrong += [(tmp_path / "locked" / "f", "Permission denied")] if os.geteuid() else []
    for target, message in wrong:
        done = call_helix("export", "--store", store, "--duckdb", target, "--force")
        assert (done.returncode, done.stdout) == (2, ""), (target, done.stderr)
        assert message in one_line(done.stderr)
    assert "--duckdb" in one_line(call_helix("export", "--store", store).stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "locked"]


def test_the_command_says_what_it_wrote(store: Path, tmp_path: Path, run_helix: Any, call_helix: Any) -> None:
    target = tmp_path / "f"
    done = run_helix("export", "--duckdb", target, "--store", store)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert one_line(done.stderr).startswith(f"{target} holds generation 1 of {store}: 5 items, ")
    done = call_helix("export", "--duckdb", target, "--store", store, "--force", "--json", "--snapshot", 1)
    assert (done.returncode, done.stderr) == (0, "")
    tables = {"items": 5, "facts": 2, "entities": 2, "edges": 13, "steps": 0, "sessions": 2, "clusters": 1}
    report = {"file": str(target), "bytes": target.stat().st_size, "tables": tables, "snapshot": 1}
    assert json.loads(done.stdout) == report
    assert "every project and every ACL" in call_helix("export", "--help").stdout
    done = call_helix("export", "--duckdb", tmp_path / "g", "--store", tmp_path / "nowhere")
    assert (done.returncode, "no Helix store" in one_line(done.stderr)) == (4, True)
    assert not (tmp_path / "g").exists()
