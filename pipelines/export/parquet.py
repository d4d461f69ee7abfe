"""A store as Parquet files: the views of `helix sql`, and the turns, which `helix ingest` reads again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.sql import connect_duckdb
from helix.snapshot.sql_values import REFUSALS, translate_error
from helix.snapshot.sql_views import create_views, write_session_view
from helix.sources.common.exported import FIELD
from helix.sources.exported_parquet import TURNS, TURNS_FILE
from pipelines.export.selection import ExportSelection
from pipelines.export.target import open_folder
from pipelines.export.turns import BATCH, ExportCounts, ExportedSession, read_sessions

VIEWS: Final = ("items", "facts", "entities", "edges", "steps", "sessions", "clusters")

_OF_ITEMS: Final = {
    "items": "SELECT * FROM items WHERE id IN (SELECT id FROM chosen)",
    "facts": """
        SELECT facts.* REPLACE (ends.t_invalid AS t_invalid)
        FROM facts JOIN ends USING (item, subject, relation, object, qualifier)
    """,
    "steps": "SELECT * FROM steps WHERE item IN (SELECT id FROM chosen)",
    "edges": """
        SELECT * FROM edges WHERE src IN (SELECT id FROM chosen)
        AND (kind NOT IN ('next', 'reply', 'same', 'result') OR dst IN (SELECT id FROM chosen))
        UNION ALL
        SELECT printf('%016x', facts.subject_entity), 'fact', printf('%016x', facts.object_entity), facts.confidence
        FROM facts JOIN ends USING (item, subject, relation, object, qualifier) WHERE ends.t_invalid IS NULL
    """,
    "entities": """
        SELECT entities.* REPLACE (found.items AS items) FROM entities JOIN (
            SELECT dst, count(*) AS items FROM edges
            WHERE kind = 'mentions' AND src IN (SELECT id FROM chosen) GROUP BY dst
        ) found ON found.dst = entities.hash
    """,
    "sessions": "SELECT * FROM chosen_sessions",
    "clusters": """
        SELECT representative, count(*) + 1 AS items, list(one ORDER BY one) AS repeated FROM (
            SELECT representative, unnest(repeated) AS one FROM clusters
        ) WHERE one IN (SELECT id FROM chosen) AND representative IN (SELECT id FROM chosen) GROUP BY representative
    """,
}
"""What a view shows of some items. What they do not state is not in it: no name, count or neighbour of another item."""


def write_parquet(
    selection: ExportSelection, target: Path, settings: Settings, force: bool, observe: Callable[[int], None]
) -> dict[str, Any]:
    """Write a folder of Parquet files, which appears whole or not at all.

    Args:
        force: replace a folder that holds such files only.

    Raises:
        UsageError: the target exists or cannot be written.
        StoreError: the store is damaged, or the disk is full.
    """
    _check_target(target, force)
    with open_folder(selection.root, target) as folder:
        spill = str(folder.with_name("spill"))
        counts = write_turns(read_sessions(selection, settings, spill), folder / TURNS_FILE, observe)
        rows = _write_views(selection, folder, spill)
        if target.exists():
            target.rename(folder.with_name("old"))  # removed with the workplace
        folder.rename(target)
    size = sum(path.stat().st_size for path in target.iterdir())
    return {"file": str(target), "bytes": size, **counts.describe(), "tables": rows}


def _check_target(target: Path, force: bool) -> None:
    if not target.exists() and not target.is_symlink():
        return
    names = {f"{name}.parquet" for name in VIEWS} | {TURNS_FILE}
    is_ours = target.is_dir() and not target.is_symlink() and all(path.name in names for path in target.iterdir())
    if not is_ours:
        raise UsageError(f"{target} exists and holds other files", "name a new folder")
    if any(target.iterdir()) and not force:
        raise UsageError(f"{target} exists", "--force replaces it, or name another folder")


def write_turns(sessions: Iterable[ExportedSession], path: Path, observe: Callable[[int], None]) -> ExportCounts:
    """Write turns as rows with the fields of a generic transcript; `helix` is a JSON object."""
    counts = ExportCounts()
    with pq.ParquetWriter(path, TURNS, compression="zstd") as writer:
        records = _list_records(sessions, counts, observe)
        while some := [*islice(records, BATCH)]:
            writer.write_table(pa.Table.from_pylist(some, schema=TURNS))
    path.chmod(0o600)
    return counts


def _list_records(
    sessions: Iterable[ExportedSession], counts: ExportCounts, observe: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    for found in sessions:
        for record in found.write_records():
            yield {**record, FIELD: orjson.dumps(record[FIELD]).decode()}
        counts.add(found)
        observe(counts.turns)


def _write_views(selection: ExportSelection, folder: Path, spill: str) -> dict[str, int]:
    """Write each view of the chosen items; return the rows of each."""
    with connect_duckdb() as db:
        db.execute(f"SET temp_directory = {_quote(spill)}")
        try:
            create_views(db, selection.root, selection.snap.manifest, "edges")
            db.register("chosen", selection.list_items())
            db.register("ends", _list_ends(selection))
            db.execute(write_session_view("chosen_sessions", _OF_ITEMS["items"]))
            return {name: _write_view(db, name, selection.whole, folder / f"{name}.parquet") for name in VIEWS}
        except REFUSALS as error:
            raise translate_error(error) from None


def _list_ends(selection: ExportSelection) -> pa.Table:
    """List the facts of the chosen items and when they end, as far as the caller may see what ended them."""
    facts = selection.snap.facts
    numbers = np.flatnonzero(selection.chosen[facts.columns.row])
    words, ends = facts.texts(numbers), facts.ends[numbers]
    names = ("subject", "relation", "object", "qualifier")
    columns: dict[str, Any] = {name: pa.array([entry[name] for entry in words], pa.string()) for name in names}
    keys = selection.snap.columns.key[facts.columns.row[numbers]]
    time = pa.array(ends, pa.int64(), mask=ends == NO_TIME).cast(pa.timestamp("s", tz="UTC"))
    return pa.table({"item": format_hex(keys), **columns, "t_invalid": time})


def _write_view(db: duckdb.DuckDBPyConnection, name: str, whole: bool, path: Path) -> int:
    statement = f"SELECT * FROM {name}" if whole else _OF_ITEMS[name]
    db.execute(f"COPY ({statement}) TO {_quote(str(path))} (FORMAT parquet, COMPRESSION zstd)")
    path.chmod(0o600)
    return int(pq.read_metadata(path).num_rows)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
