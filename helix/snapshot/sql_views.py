"""Views of a generation's Parquet files for DuckDB: live rows only."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from pathlib import Path, PurePath

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pafs

from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.index.doc2query import KIND
from helix.snapshot.index.fact_columns import FactColumns, Sayings, find_ends, join_facts
from helix.snapshot.manifest import Deletes, Index, Manifest, Segment
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, NO_TIME, STEPS, complete_facts
from helix.snapshot.segment.open import check_files, map_deleted_rows, open_segment, read_table
from helix.snapshot.segment.projects import NameColumn, hash_scopes, read_projects
from helix.text.entities import EVERGREEN
from helix.types import AnyArray
from helix.util.undated import EARLIEST

_SCHEMAS = {
    "items": ITEMS,
    "entities": ENTITIES.append(pa.field("items", pa.int64())),
    "edges": pa.schema([("src", pa.string()), ("kind", pa.string()), ("dst", pa.string()), ("weight", pa.float32())]),
}
"""Parquet files of a segment that are scanned directly, by name."""

_ITEM = {"items": "id", "edges": "src"}  # column with the item's id

_FACTS = (
    *("subject", "relation", "object", "qualifier", "t_valid", "t_invalid", "t_ingested", "item", "project"),
    *("confidence", "said", "reason", "subject_entity", "object_entity", "id"),
)
"""Columns of the view `facts`."""

_EMPTY = """
CREATE VIEW published AS
SELECT ''::VARCHAR AS id, '' AS content, 0 AS t_ingested, '' AS source, '' AS session, '' AS type, '' AS project,
       '' AS segment, 0 AS row WHERE false
"""


# Each item points at the earliest near-duplicate; the first of a chain represents all.
_CLUSTERS = """
CREATE VIEW clusters AS
WITH RECURSIVE chain(id, near, step) AS (
    SELECT id, near, 0 FROM items WHERE near IS NOT NULL
    UNION
    SELECT chain.id, items.near, step + 1 FROM chain JOIN items ON items.id = chain.near
    WHERE items.near IS NOT NULL AND step < 64
), first AS (SELECT id, arg_max(near, step) AS representative FROM chain GROUP BY id)
SELECT representative, count(*) + 1 AS items, list(id ORDER BY id) AS repeated
FROM first GROUP BY representative
"""

_SESSIONS = """
CREATE VIEW {name} AS
SELECT source, session, substr(sha256(source || chr(0) || session || chr(0)), 1, 16) AS key,
       arg_max(title, t_ingested) AS title,
       coalesce(list(DISTINCT project ORDER BY project) FILTER (project IS NOT NULL), []) AS projects,
       min(time) FILTER (time_quality IS DISTINCT FROM 'file') AS first_time,
       max(time) FILTER (time_quality IS DISTINCT FROM 'file') AS last_time, count(*) AS items,
       list_unique(flatten(list(turns)))::BIGINT AS turns,
       coalesce(list(DISTINCT speaker ORDER BY speaker) FILTER (speaker IS NOT NULL), []) AS speakers
FROM {items} GROUP BY source, session
"""


_STEPS = """
CREATE VIEW steps AS
SELECT steps.item, session, project, time, action, tool, target, outcome, exit_code, tests_passed, tests_failed, error,
       commits, call, ord, place
FROM {stored}.steps JOIN items ON items.id = steps.item
"""

# From a call to its result, and from a failed run to the next run of the same command that passed.
_STEP_EDGES = """
SELECT one.item, 'result', other.item, 1.0::FLOAT
FROM {stored}.steps one JOIN {stored}.steps other USING (pair)
WHERE one.action <> 'result' AND other.action = 'result' AND one.item <> other.item
UNION ALL
SELECT item, action, target, 1.0::FLOAT FROM {stored}.steps WHERE action IN ('run', 'edit') AND target <> ''
UNION ALL
SELECT item, outcome, error, 1.0::FLOAT FROM {stored}.steps WHERE action = 'result' AND error <> ''
UNION ALL
SELECT item, 'commit', unnest(commits), 1.0::FLOAT FROM {stored}.steps
"""


def write_session_view(name: str, items: str) -> str:
    """Write a view of the sessions of items in SQL.

    Args:
        items: a table like the view `items`, or a SELECT.
    """
    return _SESSIONS.format(name=name, items=f"({items})" if " " in items else items)


def register_live_items(
    db: duckdb.DuckDBPyConnection,
    root: Path,
    segments: Sequence[Segment],
    deletes: Sequence[Deletes],
    renamed: Mapping[str, str],
) -> None:
    """Create the view `published`: every live item, with its segment and row; t_ingested in microseconds.

    Args:
        renamed: names of projects by encoded workspace, from `read_projects`.
    """
    if not segments:
        db.execute(_EMPTY)
        return
    files = [str(root / "segments" / segment.id / "items.parquet") for segment in segments]
    db.register("files", pa.table({"file": files, "segment": [segment.id for segment in segments]}))
    sizes = {segment.id: segment.rows for segment in segments}
    rows = [map_deleted_rows(root, entry, sizes[entry.segment]) for entry in deletes]
    gone = pa.table(
        {
            "segment": pa.array(
                np.repeat(
                    np.array([entry.segment for entry in deletes], object),
                    np.array([len(found) for found in rows], np.int64),
                ),
                pa.string(),
            ),
            "row": pa.array(np.concatenate([*rows, np.empty(0, np.uint32)]).astype(np.int64)),
        }
    )
    db.register("gone", gone)
    db.register("renamed", _build_renamed(renamed))
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
    # Only where some are renamed, all segments need the column: those of an earlier release have none.
    join = "LEFT JOIN renamed USING (workspace)" if renamed else ""
    db.execute(
        f"""
        CREATE VIEW published AS
        SELECT id, content, epoch_us(t_ingested) AS t_ingested, source, session, type,
               {"coalesce(renamed.name, project) AS " if renamed else ""}project, segment, file_row_number AS row
        FROM read_parquet([{names}], filename = true, file_row_number = true, union_by_name = true)
        JOIN files ON filename = file {join}
        WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.segment = files.segment AND gone.row = file_row_number)
        """
    )


def create_views(db: duckdb.DuckDBPyConnection, root: Path, manifest: Manifest | None, statement: str) -> None:
    """Create the views over the live rows of a generation; without one they are empty.

    Args:
        statement: in lower case. Facts are read and joined only if it names them.
    """
    segments = manifest.segments if manifest else ()
    deletes = manifest.deletes if manifest else ()
    files = {name: _list_files(root, segments, f"{name}.parquet") for name in _SCHEMAS}
    check_files(root, [file for found in files.values() for _, file in found])
    check_files(root, [entry.file for entry in deletes])
    place = {segment.id: i for i, segment in enumerate(segments)}
    gone = {place[entry.segment]: _read_deleted_ids(root, entry) for entry in deletes if entry.rows}
    # The underlying tables have a secret name, so a statement can only read the views.
    renamed, _ = read_projects(root, manifest)
    stored = f"stored_{secrets.token_hex(8)}"
    db.execute(f"CREATE SCHEMA {stored}; USE memory.{stored}").fetchall()
    for name, schema in _SCHEMAS.items():
        live = _match_live(gone, _ITEM[name]) if name in _ITEM and gone else None
        db.from_arrow(_make_dataset(root, files[name], schema, live)).create_view(name)
    db.from_arrow(_build_renamed(renamed)).create_view("renamed")
    uses_facts = any(name in statement for name in ("facts", "edges"))
    facts = _read_facts(root, segments, deletes, renamed) if uses_facts else _make_no_facts()
    db.from_arrow(facts).create_view("facts")
    uses_steps = any(name in statement for name in ("steps", "edges"))
    db.from_arrow(_read_steps(root, segments, deletes) if uses_steps else STEPS.empty_table()).create_view("steps")
    expansions = [index for index in (manifest.indexes if manifest else ()) if index.kind == KIND]
    if expansions:
        queries = pa.concat_tables([_read_queries(root, index, place) for index in expansions])
        db.from_arrow(queries).create_view("queries")
    db.execute("USE memory.main").fetchall()
    for view in _write_views(stored, sorted(gone), bool(expansions), bool(renamed)):
        db.execute(view).fetchall()


def _read_queries(root: Path, index: Index, place: Mapping[str, int]) -> pa.Table:
    """Read id, queries and the segment's position: an older row of the same item may have other queries."""
    table = read_table(root / "indexes" / index.id / KIND / "queries.parquet")
    return table.append_column("segment", pa.array([place[index.covers[0]]] * len(table), pa.int32()))


def _make_no_facts() -> pa.Table:
    table = FACTS.empty_table()
    return table.append_column("t_invalid", table["until"])


def _build_renamed(renamed: Mapping[str, str]) -> pa.Table:
    """Return the columns workspace and name."""
    kinds = pa.schema([("workspace", pa.string()), ("name", pa.string())])
    return pa.table([list(renamed), list(renamed.values())], schema=kinds)


def _read_facts(
    root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes], renamed: Mapping[str, str]
) -> pa.Table:
    """Read FACTS of live items, with the end of each."""
    gone = {entry.segment: entry for entry in deletes}
    tables, columns, turns = [], [], []
    for segment in segments:
        opened = open_segment(root, segment, ())
        row = opened.facts["row"].to_numpy()
        if not len(row):
            continue
        alive = np.ones(segment.rows, bool)
        if segment.id in gone:
            alive[map_deleted_rows(root, gone[segment.id], segment.rows)] = False
        table = read_table(root / "segments" / segment.id / "facts.parquet")
        table = complete_facts(table.filter(pa.array(alive[row])))
        scopes = None
        if renamed:
            workspaces = NameColumn.join([opened.columns], "workspace")
            scopes = hash_scopes(workspaces, renamed)
            table = _rename_projects(table, workspaces, row[alive[row]], renamed)
        tables.append(table)
        columns.append(join_facts([opened], np.zeros(1, np.int64), alive, scopes))
        turns.append([opened.column(name)[columns[-1].row] for name in ("t_valid", "session", "ord")])
    if not tables:
        return _make_no_facts()
    numbers = FactColumns(*map(np.concatenate, zip(*columns, strict=True)))
    since = find_ends(numbers, Sayings(*map(np.concatenate, zip(*turns, strict=True))))
    ends = pa.array(since, mask=since == NO_TIME).cast(FACTS.field("t_valid").type)
    return pa.concat_tables(tables).append_column("t_invalid", ends)


def _read_steps(root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes]) -> pa.Table:
    """Read STEPS of live items."""
    gone = {entry.segment: entry for entry in deletes}
    tables = [STEPS.empty_table()]
    for segment in segments:
        if not any(PurePath(file.path).name == "steps.parquet" for file in segment.files):
            continue
        alive = np.ones(segment.rows, bool)
        if segment.id in gone:
            alive[map_deleted_rows(root, gone[segment.id], segment.rows)] = False
        row = open_segment(root, segment, ()).steps["row"].to_numpy()
        table = read_table(root / "segments" / segment.id / "steps.parquet")
        tables.append(table.filter(pa.array(alive[row])).cast(STEPS))
    return pa.concat_tables(tables)


def _rename_projects(facts: pa.Table, workspaces: NameColumn, rows: AnyArray, renamed: Mapping[str, str]) -> pa.Table:
    """Return facts with the projects of the rows that state them, as they are shown."""
    names = [*(renamed.get(text) for text in workspaces.names), None]
    projects = zip((names[code] for code in workspaces.codes[rows].tolist()), facts["project"].to_pylist(), strict=True)
    shown = pa.array([name or project for name, project in projects], pa.string())
    return facts.set_column(facts.schema.get_field_index("project"), FACTS.field("project"), shown)


def _list_files(root: Path, segments: Sequence[Segment], name: str) -> list[tuple[int, manifests.File]]:
    """List the files of that name, each with its segment's position."""
    return [(i, file) for i, one in enumerate(segments) for file in one.files if PurePath(file.path).name == name]


class _LiveDataset(pds.FileSystemDataset):  # type: ignore[misc]  # DuckDB accepts a data set by its class
    """Files whose scan leaves out deleted rows. An anti-join would make DuckDB hash every item.

    It reads little ahead, since Arrow's memory is outside DuckDB's limit.
    """

    live: pds.Expression | None = None

    def scanner(self, *, columns: list[str] | None = None, filter: pds.Expression | None = None) -> pds.Scanner:
        """Scan some columns and rows."""
        conditions = [condition for condition in (filter, self.live) if condition is not None]
        return super().scanner(
            columns=columns,
            filter=reduce(and_, conditions) if conditions else None,
            batch_size=16_384,
            batch_readahead=2,
            fragment_readahead=1,
        )


def _make_dataset(
    root: Path, files: Sequence[tuple[int, manifests.File]], schema: pa.Schema, live: pds.Expression | None
) -> _LiveDataset:
    """Return Parquet files as one lazy table, with the segment's position as int32 column `segment`."""
    parquet, here, root = pds.ParquetFileFormat(), pafs.LocalFileSystem(), root.absolute()
    fragments = [parquet.make_fragment(str(root / file.path), here, _match_segment(i)) for i, file in files]
    dataset = _LiveDataset(fragments, schema.append(pa.field("segment", pa.int32())), parquet, here)
    dataset.live = live
    return dataset


def _match_segment(segment: int) -> pds.Expression:
    return pds.field("segment") == pa.scalar(segment, pa.int32())


def _match_live(gone: Mapping[int, pa.Array], column: str) -> pds.Expression:
    """Return the condition that the item in `column` is not deleted from its segment; `gone` is not empty.

    Arrow knows the segment of a file, so it evaluates only that file's part, and none for most files.
    """
    return ~reduce(or_, [_match_segment(segment) & pds.field(column).isin(ids) for segment, ids in gone.items()])


def _read_deleted_ids(root: Path, deletes: Deletes) -> pa.Array:
    """Read the ids of the deleted rows. An id occurs once in a segment."""
    path = root / "segments" / deletes.segment / "items.parquet"
    try:
        ids = read_table(path, columns=["id"])["id"].combine_chunks()
        return ids.take(pa.array(map_deleted_rows(root, deletes, len(ids))))
    except (pa.ArrowException, OSError) as error:
        raise make_damage_error(path, str(error)) from None


def _write_fact_column(name: str) -> str:
    """Write a column of the view `facts`; the place of an undated fact is no time."""
    if name not in ("t_valid", "t_invalid"):
        return name
    return f"CASE WHEN epoch({name}) >= {EARLIEST} THEN {name} END AS {name}"


def _write_views(stored: str, dirty: Sequence[int], expanded: bool, renamed: bool) -> list[str]:
    """Write the views in SQL.

    Args:
        stored: the schema of the underlying tables.
        dirty: segments with deleted rows.
        expanded: whether a model wrote questions for some items.
        renamed: whether some projects have another name than the stored one.
    """
    columns = {name: ", ".join(schema.names) for name, schema in _SCHEMAS.items()}
    listed = ", ".join(map(str, dirty))
    evergreen = ", ".join(f"'{kind}'" for kind in sorted(EVERGREEN))

    counted = f"SELECT {columns['entities']} FROM {stored}.entities"
    if dirty:
        # A segment's stored counts ignore deletions.
        counted = f"""
        {counted} WHERE segment NOT IN ({listed})
        UNION ALL
        SELECT kind, key, name, hash, found.items
        FROM {stored}.entities JOIN (
            SELECT segment, dst, count(*) AS items FROM {stored}.edges
            WHERE kind = 'mentions' AND segment IN ({listed}) GROUP BY ALL
        ) found ON found.segment = entities.segment AND found.dst = printf('%016x', entities.hash)
        """
    items, shown_facts = f"{stored}.items", ", ".join(map(_write_fact_column, _FACTS))
    if renamed:
        shown = "items.* REPLACE (coalesce(renamed.name, project) AS project)"
        items = f"(SELECT {shown} FROM {items} items LEFT JOIN {stored}.renamed renamed USING (workspace)) items"
    if expanded:
        items += f" LEFT JOIN {stored}.queries USING (id, segment)"
    return [
        f"CREATE VIEW items AS SELECT {columns['items']}, "
        + ("coalesce(queries, [])" if expanded else "[]::VARCHAR[]")
        + f" AS queries FROM {items}",
        # A closing fact shows as the end of the facts it closed.
        f"CREATE VIEW facts AS SELECT {shown_facts} FROM {stored}.facts WHERE NOT closes",
        f"CREATE VIEW edges AS SELECT {columns['edges']} FROM {stored}.edges "
        + ("WHERE kind NOT IN ('next', 'reply', 'same') OR dst IN (SELECT id FROM items)" if dirty else "")
        + f""" UNION ALL
        SELECT printf('%016x', subject_entity), 'fact', printf('%016x', object_entity), confidence
        FROM {stored}.facts WHERE NOT closes AND t_invalid IS NULL UNION ALL {_STEP_EDGES.format(stored=stored)}""",
        _STEPS.format(stored=stored),
        # The hash has the form used in edges; of several spellings the most frequent one is shown.
        f"""
        CREATE VIEW entities AS
        SELECT kind, key, arg_max(name, (named.items, name)) AS name, printf('%016x', named.hash) AS hash,
               sum(named.items)::BIGINT AS items, kind IN ({evergreen}) AS evergreen
        FROM ({counted}) named GROUP BY kind, key, named.hash
        """,
        _CLUSTERS,
        write_session_view("sessions", "items"),
    ]
