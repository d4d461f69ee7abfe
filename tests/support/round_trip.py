"""Export and ingest again: what two stores of the same turns must have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from pipelines.embedded.ingest import ingest
from pipelines.export.jsonl import write_lines
from pipelines.export.parquet import write_parquet
from pipelines.export.selection import ExportFilter, ExportSelection, select_items
from pipelines.export.turns import read_sessions
from pipelines.export.vault import write_vault

ITEMS = (
    "id, source, session, branch_of, turns, piece, speaker, role, origin, title, text, type, type_confidence, project, "
    "workspace, time, time_quality, t_invalid, priority, pinned, acl, content, vouched, confidence"
)
FACTS = "item, subject, relation, object, qualifier, t_valid, t_invalid, said, reason, confidence, project"
STEPS = "item, action, tool, target, outcome, exit_code, tests_passed, tests_failed, error, commits, call, place"
NAMED = "kind, key, items"
LINKED = "src, kind, dst"
SESSIONS = "source, session, title, projects, first_time, last_time, items, turns, speakers"


def ignore_progress(turns: int) -> None:
    """Take the turns written so far."""


def select(root: Path, **wanted: Any) -> ExportSelection:
    """Return every item of a store, or what a filter leaves."""
    return select_items(Snapshot.open(root), ExportFilter(**(wanted or {"everyone": True})))


def to_lines(root: Path, target: Path, **wanted: Any) -> list[dict[str, Any]]:
    """Export JSON lines; return them."""
    with target.open("wb") as file:
        write_lines(read_sessions(select(root, **wanted), load()), file, ignore_progress)
    return [orjson.loads(line) for line in target.read_bytes().splitlines()]


def to_parquet(root: Path, target: Path, **wanted: Any) -> dict[str, Any]:
    """Export Parquet; return the report."""
    return write_parquet(select(root, **wanted), target, load(), False, ignore_progress)


def to_notes(root: Path, target: Path, *, force: bool = False, **wanted: Any) -> dict[str, Any]:
    """Export notes; return the report."""
    return write_vault(select(root, **wanted), target, load(), force, ignore_progress)


FORMS: dict[str, Callable[[Path, Path], object]] = {"lines": to_lines, "parquet": to_parquet, "notes": to_notes}


def export_and_ingest(root: Path, form: str, folder: Path) -> Path:
    """Export a whole store in a form and ingest that into an empty store; return it."""
    target = folder / {"lines": "memory.jsonl", "parquet": "parquet", "notes": "notes"}[form]
    FORMS[form](root, target)
    again = folder / "again"
    report = ingest(again, [target], load())
    assert not report.refused, report.refused
    return again


def read_table(root: Path, table: str, columns: str) -> Counter[str]:
    """Return the rows of a view."""
    with run_statement(root, f"SELECT {columns} FROM {table}") as answer:
        return Counter(repr(row) for row in answer.rows)


def list_links(root: Path) -> set[tuple[str, str]]:
    """List the items that others replace."""
    snap = Snapshot.open(root)
    links = snap.changes.links
    sure = links.certainty >= 0.93
    keys = snap.columns.key
    return {
        (f"{old:016x}", f"{new:016x}") for old, new in zip(keys[links.old[sure]], keys[links.new[sure]], strict=True)
    }


def list_order(root: Path) -> list[tuple[str, list[str]]]:
    """List the items of each session in reading order."""
    snap = Snapshot.open(root)
    rows = sorted(range(snap.rows), key=lambda row: (int(snap.columns.session[row]), int(snap.columns.ord[row]), row))
    found: dict[int, list[str]] = {}
    for row in rows:
        if snap.alive[row]:
            found.setdefault(int(snap.sessions[snap.columns.session[row]]), []).append(f"{snap.columns.key[row]:016x}")
    return sorted(found.items())  # type: ignore[arg-type]


def compare_stores(one: Path, other: Path) -> None:
    """Assert that two stores have the same items, facts, steps, entities, edges, links and sessions."""
    for table, columns in (
        ("items", ITEMS),
        ("facts", FACTS),
        ("steps", STEPS),
        ("entities", NAMED),
        ("edges", LINKED),
        ("sessions", SESSIONS),
    ):
        here, there = read_table(one, table, columns), read_table(other, table, columns)
        assert not here - there, (table, list((here - there).elements())[:3], list((there - here).elements())[:3])
        assert not there - here, (table, list((there - here).elements())[:3])
    assert list_order(one) == list_order(other)
