"""`helix export` to JSON lines, Parquet and Markdown: what is in them, who sees what, and the way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
import yaml

from helix.cli.main import main
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.sql import run_statement
from helix.snapshot.sql_export import WORKPLACE
from pipelines.embedded.ingest import ingest
from pipelines.export.notes_folder import MANIFEST
from pipelines.export.parquet import VIEWS
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from tests.support.paths import DATA, ROOT
from tests.support.round_trip import (
    compare_stores,
    export_and_ingest,
    list_links,
    read_table,
    to_lines,
    to_notes,
    to_parquet,
)

HIDDEN = {"session": "secret", "id": "1", "speaker": "Ana", "text": "The safe of the harbour is 1234.", "acl": ["ana"]}
OPEN = {"session": "open", "id": "1", "speaker": "Ben", "text": "The harbour closes at nine.", "project": "quay"}


def make_store(folder: Path, *lines: dict[str, Any], name: str = "given.jsonl") -> Path:
    """Ingest lines into a store of their own."""
    source = folder / name
    source.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    root = folder / "store"
    ingest(root, [source], load())
    return root


def run(*arguments: object) -> int:
    return main([*map(str, arguments)])


@pytest.fixture(scope="module")
def logs_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled sample and logs of every format, without a Slack channel in two exports, and notes of Helix."""
    root = tmp_path_factory.mktemp("logs") / "store"
    inputs = [path for path in sorted((DATA / "logs").iterdir()) if path.name not in ("cursor_store.json", "slack")]
    assert not ingest(root, [ROOT / "helix" / "sample", *inputs], load()).refused
    assert run("remember", "we release on Mondays", "--project", "ledgerline", "--pin", "--store", root) == 0
    with run_statement(root, "SELECT id FROM items WHERE text LIKE 'Looking at flights to Goa%'") as answer:
        ((item,),) = answer.rows
    assert run("correct", item, "the flights to Goa are booked", "--by", "user", "--store", root) == 0
    return root


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize("form", ["lines", "parquet", "notes"])
def test_a_store_of_many_formats_survives(logs_store: Path, tmp_path: Path, form: str) -> None:
    again = export_and_ingest(logs_store, form, tmp_path)
    compare_stores(logs_store, again)
    assert list_links(again) >= list_links(logs_store)
    asked = ("what did I tell Priya about vacation", "database is locked", "when do we release")
    for one, other in ((Memory(logs_store), Memory(again)),):
        for question in asked:
            here, there = one.recall(question, k=3), other.recall(question, k=3)
            # A batch of other texts gives slightly other vectors, so near ties may change places.
            best, others = here.items[0], {item.id: item for item in there.items}
            assert best.replaced_by == others[best.id].replaced_by


@pytest.mark.usefixtures("stores")
def test_a_second_round_changes_no_byte(logs_store: Path, tmp_path: Path) -> None:
    again = export_and_ingest(logs_store, "lines", tmp_path)
    first = (tmp_path / "memory.jsonl").read_bytes()
    to_lines(again, tmp_path / "second.jsonl")
    assert (tmp_path / "second.jsonl").read_bytes() == first
    report = ingest(logs_store_copy(logs_store, tmp_path), [tmp_path / "memory.jsonl"], load())
    assert report.items == 0  # the store it came from has all of it


def logs_store_copy(store: Path, folder: Path) -> Path:
    shutil.copytree(store, folder / "copy")
    return folder / "copy"


def test_a_copy_without_documents_gives_the_same_items(sample_store: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_store, tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "inbox")
    lines = to_lines(tmp_path / "store", tmp_path / "lines.jsonl")
    assert len(lines) == len(to_lines(sample_store, tmp_path / "whole.jsonl"))
    ingest(tmp_path / "again", [tmp_path / "lines.jsonl"], load())
    columns = "id, session, turns, piece, speaker, role, text, type, project, time, time_quality, title"
    assert read_table(sample_store, "items", columns) == read_table(tmp_path / "again", "items", columns)


def test_a_forgotten_piece_stays_out(tmp_path: Path, stores: None) -> None:
    paragraphs = [f"{name} " * 140 for name in ("walnut", "parsley", "saffron")]
    root = make_store(tmp_path, {"session": "s", "id": "1", "role": "user", "text": "\n\n".join(paragraphs)})
    with run_statement(root, "SELECT id, text FROM items ORDER BY piece") as answer:
        items = dict(answer.rows)
    gone = next(item for item, text in items.items() if text.startswith("parsley"))
    forget(root, Selection(items=(gone,)), load())
    again = export_and_ingest(root, "lines", tmp_path)
    assert b"parsley" not in (tmp_path / "memory.jsonl").read_bytes()
    assert read_table(again, "items", "id, text, piece") == read_table(root, "items", "id, text, piece")


@pytest.mark.usefixtures("stores")
def test_an_acl_hides_and_is_carried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path, HIDDEN, OPEN)
    for who, texts in (((), [OPEN]), (("--as", "ana"), [OPEN, HIDDEN]), (("--as", "eve"), [OPEN])):
        name = "-".join(["as", *who[1:]])
        target = tmp_path / f"{name}.jsonl"
        assert run("export", "--jsonl", target, *who, "--json", "--store", root) == 0
        report = json.loads(capsys.readouterr().out)
        assert sorted(json.loads(line)["text"] for line in target.read_text().splitlines()) == sorted(
            line["text"] for line in texts
        )
        assert report["hidden"] == 2 - len(texts)
        folder = tmp_path / name
        assert run("export", "--parquet", folder, *who, "--json", "--store", root) == 0
        capsys.readouterr()
        whole = b"".join(path.read_bytes() for path in folder.iterdir())
        ((rows,),) = duckdb.sql(f"SELECT count(*) FROM '{folder}/items.parquet'").fetchall()
        assert rows == len(texts)
        assert (b"secret" in whole) == (HIDDEN in texts)
    lines = to_lines(root, tmp_path / "all.jsonl")
    assert {tuple(line.get("acl", ())) for line in lines} == {("ana",), ()}


@pytest.mark.usefixtures("stores")
def test_filters_leave_the_rest_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dated = {"session": "may", "id": "1", "text": "Said in May.", "ts": "2026-05-04T10:00:00Z", "project": "quay"}
    root = make_store(tmp_path, OPEN, dated)
    for given, sessions in (
        (("--project", "quay"), {"open", "may"}),
        (("--session", "op"), {"open"}),
        (("--since", "2026-05-01"), {"may"}),
        (("--since", "2026-05-05"), set()),
        (("--until", "2026-05-04"), {"may"}),
    ):
        assert run("export", "--jsonl", "-", *given, "--store", root) == 0
        assert {json.loads(line)["session"] for line in capsys.readouterr().out.splitlines()} == sessions, given
    assert run("export", "--jsonl", "-", "--project", "nowhere", "--store", root) == 2
    assert run("export", "--jsonl", "-", "--session", "x", "--store", root) == 2


@pytest.mark.usefixtures("stores")
def test_wrong_calls_are_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_store(tmp_path, OPEN)
    taken = tmp_path / "taken.jsonl"
    taken.write_text("mine")
    for given in (
        (),
        ("--jsonl", taken),
        ("--jsonl", root / "lines.jsonl"),
        ("--jsonl", tmp_path / "missing" / "lines.jsonl"),
        ("--jsonl", "-", "--json"),
        ("--jsonl", "a", "--parquet", "b"),
        ("--markdown", taken),
        ("--markdown", tmp_path),
        ("--parquet", tmp_path),
        ("--duckdb", tmp_path / "x.duckdb", "--project", "quay"),
        ("--jsonl", tmp_path / "x", "--all", "--as", "ana"),
    ):
        assert run("export", *given, "--store", root) == 2, given
        error = capsys.readouterr().err
        assert error.startswith("helix export: "), error
        assert error.count("\n") == 1, error
    assert taken.read_text() == "mine"
    assert run("export", "--jsonl", taken, "--force", "--store", root) == 0
    assert taken.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(f"{WORKPLACE}*"))


def test_a_failed_export_leaves_the_old_file(own_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "lines.jsonl"
    target.write_text("old")
    monkeypatch.setattr("pipelines.export.turns.TurnReader.read_session", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("export", "--jsonl", target, "--force", "--store", own_store)
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl", "store"]


def test_parquet_has_the_views(sample_store: Path, tmp_path: Path) -> None:
    report = to_parquet(sample_store, tmp_path / "views")
    for name in VIEWS:
        with run_statement(sample_store, f"SELECT count(*) FROM {name}") as answer:
            ((rows,),) = answer.rows
        found = duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/views/{name}.parquet'").fetchall()
        assert found == [(rows,)]
        assert report["tables"][name] == rows
    with pytest.raises(UsageError, match="exists"):
        to_parquet(sample_store, tmp_path / "views")


# ---------------------------------------------------------------- notes


@pytest.mark.usefixtures("stores")
def test_hostile_names_make_safe_notes(tmp_path: Path) -> None:
    titles = [
        "../../etc/passwd",
        "CON",
        "con.txt",
        ".hidden",
        "a/b\\c:d|e",
        "[[x]] #tag ^id",
        "é" * 300,
        " ",
        "---",
        "A",
        "a",
    ]
    lines = [
        {"session": f"s{n}", "id": "1", "text": "It holds.", "title": title, "project": title, "speaker": f"x\n{title}"}
        for n, title in enumerate(titles)
    ]
    root = make_store(tmp_path, *lines)
    report = to_notes(root, tmp_path / "vault")
    assert report["sessions"] == len(titles)
    notes = [path.relative_to(tmp_path / "vault") for path in (tmp_path / "vault").rglob("*.md")]
    folded = [str(note).casefold() for note in notes]
    assert len(set(folded)) == len(folded) == report["notes"]
    for note in notes:
        for part in note.parts:
            assert not part.startswith(".")
            assert len(part.encode()) < 200
            assert not set('<>:"/\\|?*#^[]') & set(part.removesuffix(".md")), part
            assert part.split(".")[0].upper() not in ("CON", "NUL")
        front = (tmp_path / "vault" / note).read_text().split("---\n")[1]
        assert yaml.safe_load(front)["helix"] in ("session", "index", "decisions", "entity")
    again = export_and_ingest(root, "notes", tmp_path)
    compare_stores(root, again)


@pytest.mark.usefixtures("stores")
def test_a_second_export_replaces_only_its_own_notes(tmp_path: Path) -> None:
    root = make_store(tmp_path, OPEN)
    vault = tmp_path / "vault"
    to_notes(root, vault)
    (vault / "mine.md").write_text("my own")
    note = next((vault / "sessions").rglob("*.md"))
    (vault / "Helix index.md").write_text("edited")
    make_store(tmp_path, {**OPEN, "session": "later", "text": "It closes at ten now."}, name="more.jsonl")
    forget(root, Selection(session="open"), load())
    report = to_notes(root, vault)
    assert report["kept"] == ["Helix index.md"]
    assert (vault / "Helix index.md").read_text() == "edited"
    assert (vault / "mine.md").read_text() == "my own"
    assert not note.exists()
    assert len(list((vault / "sessions").rglob("*.md"))) == 1
    assert to_notes(root, vault, force=True)["kept"] == []
    assert "It closes at ten now" in (vault / "Helix index.md").read_text()
    assert (vault / "mine.md").read_text() == "my own"
    before = {path: path.read_bytes() for path in vault.rglob("*") if path.is_file()}
    to_notes(root, vault)
    assert before == {path: path.read_bytes() for path in vault.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("stores")
def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path) -> None:
    root = make_store(tmp_path, OPEN)
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    to_notes(root, vault)
    outside.mkdir()
    shutil.rmtree(vault / "sessions")
    (vault / "sessions").symlink_to(outside)
    assert to_notes(root, vault, force=True)["kept"]
    assert not list(outside.iterdir())
    (vault / MANIFEST).write_text('{"format": 1, "notes": {"../outside/x.md": ["0"]}}')
    with pytest.raises(UsageError, match="outside"):
        to_notes(root, vault)


@pytest.mark.usefixtures("stores")
def test_an_edited_note_is_ingested_as_edited(tmp_path: Path) -> None:
    root = make_store(tmp_path, OPEN)
    to_notes(root, tmp_path / "vault")
    note = next((tmp_path / "vault" / "sessions").rglob("*.md"))
    note.write_text(note.read_text().replace("> The harbour closes at nine.", "> The harbour closes at ten."))
    ingest(tmp_path / "again", [tmp_path / "vault"], load())
    assert read_table(tmp_path / "again", "items", "id") == read_table(root, "items", "id")
    with run_statement(tmp_path / "again", "SELECT text FROM items") as answer:
        assert list(answer.rows) == [("The harbour closes at ten.",)]


@pytest.mark.usefixtures("stores")
def test_a_secret_is_in_no_form(tmp_path: Path) -> None:
    key = "AKIA" + "IOSFODNN7QRSTUVW"
    root = make_store(tmp_path, {**OPEN, "text": f"The key is {key} of the harbour.", "speaker": "Ben"})
    for form in ("lines", "parquet", "notes"):
        (tmp_path / form).mkdir()
        compare_stores(root, export_and_ingest(root, form, tmp_path / form))
        files = [path for path in (tmp_path / form).rglob("*") if path.is_file() and "again" not in path.parts]
        assert files
        assert not [path for path in files if key.encode() in path.read_bytes()]
    assert "[REDACTED" in to_lines(root, tmp_path / "x.jsonl")[0]["text"]


def test_a_damaged_line_is_refused_by_name(tmp_path: Path, stores: None) -> None:
    good = {"session": "s", "id": "1", "role": "user", "text": "ok then", "helix": {"format": "jsonl"}}
    bad = [
        {**good, "id": "2", "role": "nobody"},
        {**good, "id": "3", "helix": {"format": "../x"}},
        {**good, "id": "4", "helix": {"format": "jsonl", "types": [["x", 1]]}},
        {**good, "id": "5", "helix": {"format": "jsonl", "pieces": [[0, 0, 99]]}},
        {**good, "id": "6", "ts": "yesterday"},
        {**good, "id": 7},
    ]
    source = tmp_path / "bad.jsonl"
    source.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in [good, *bad]))
    report = ingest(tmp_path / "store", [source], load())
    assert report.items == 1
    assert len(report.refused) == len(bad)
    assert all(refused["path"].rpartition("#")[2].startswith(("jsonl/s", "other/s")) for refused in report.refused)
    assert all("left out" in refused["reason"] for refused in report.refused)
