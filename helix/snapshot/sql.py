"""DuckDB over a snapshot's Parquet. It is the engine, never the store: always in memory, always on a leash."""

from __future__ import annotations

import math
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from pathlib import Path, PurePath
from time import monotonic
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pafs

from helix.errors import StoreError, UsageError
from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.index.doc2query import KIND
from helix.snapshot.index.fact_columns import FactColumns, find_ends, join_facts
from helix.snapshot.manifest import Deletes, Index, Manifest, Segment
from helix.snapshot.pins import pin_generation, release_pin
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, NO_TIME
from helix.snapshot.segment.open import check_files, map_deleted_rows, open_segment, read_table
from helix.text.entities import EVERGREEN
from helix.util.sanitise import printable


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A DuckDB with bounded memory that fetches no extension from anywhere."""
    return duckdb.connect(
        config={
            "memory_limit": "2GB",
            "threads": 2,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


_EMPTY = """
CREATE VIEW published AS
SELECT ''::VARCHAR AS id, '' AS content, 0 AS t_ingested, '' AS source, '' AS session, '' AS type, '' AS project,
       '' AS segment, 0 AS row WHERE false
"""


def register_live_items(
    db: duckdb.DuckDBPyConnection, root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes]
) -> None:
    """The view `published`: every live item, with the segment and the row it stands in; t_ingested in microseconds."""
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
                np.repeat(np.array([entry.segment for entry in deletes], object), _lengths(rows)),
                pa.string(),
            ),
            "row": pa.array(np.concatenate([*rows, np.empty(0, np.uint32)]).astype(np.int64)),
        }
    )
    db.register("gone", gone)
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
    db.execute(
        f"""
        CREATE VIEW published AS
        SELECT id, content, epoch_us(t_ingested) AS t_ingested, source, session, type, project, segment,
               file_row_number AS row
        FROM read_parquet([{names}], filename = true, file_row_number = true) JOIN files ON filename = file
        WHERE NOT EXISTS (SELECT 1 FROM gone WHERE gone.segment = files.segment AND gone.row = file_row_number)
        """
    )


def _lengths(arrays: Sequence[Any]) -> npt.NDArray[np.int64]:
    return np.array([len(array) for array in arrays], np.int64)


# ---------------------------------------------------------------- the owner's questions (`helix sql`)

_SCHEMAS = {
    "items": ITEMS,
    "entities": ENTITIES.append(pa.field("items", pa.int64())),
    "edges": pa.schema([("src", pa.string()), ("kind", pa.string()), ("dst", pa.string()), ("weight", pa.float32())]),
}
"""The Parquet files of a segment that are scanned as they lie, by name."""

_ITEM = {"items": "id", "edges": "src"}
"""The column that names the item a row goes with."""

_FACTS = (
    *("subject", "relation", "object", "qualifier", "t_valid", "t_invalid", "t_ingested", "item", "project"),
    *("confidence", "said", "subject_entity", "object_entity", "id"),
)
"""Columns of the view `facts`."""

BATCH = 1_000
"""Rows that are turned into Python values at a time."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """What a statement gave. Column names are distinct; values are those JSON knows."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def run_statement(
    root: Path,
    statement: str,
    limit: int | None = None,
    seconds: float = 0.0,
    stuck: Callable[[UsageError], object] | None = None,
) -> Iterator[SqlAnswer]:
    """Answer one SELECT or EXPLAIN over the current generation, which stays claimed until the block ends.

    The views `items`, `facts`, `entities`, `edges`, `sessions` and `clusters` hold live rows only. Nothing else can be
    read: DuckDB is handed the open data, never a path, since a path it may read is one it may write (`WITH x AS (COPY …
    TO …)` is a SELECT to its parser).

    Args:
        root: the store.
        statement: SQL, as DuckDB speaks it.
        limit: at most this many rows.
        seconds: that DuckDB may compute; what the reader of the rows takes does not count. 0: no limit.
        stuck: called, in another thread, where DuckDB goes on though its time is over: a function of SQL at work on one
            value hears of nothing. Without it the statement ends when that is done.

    Raises:
        UsageError: not one SELECT or EXPLAIN, DuckDB refuses it, or its time is over; while the rows are read, too.
        StoreError: no store at `root`, or it is damaged or newer.
    """
    with _claimed(root) as manifest, connect_duckdb() as db:
        _check(db, statement)
        _register(db, root, manifest, statement.lower())
        _leash(db)
        clock = _Clock(db, seconds, stuck)
        with clock.running():
            # A relation is lazy: the limit is part of the plan, so an ORDER BY keeps the best rows only.
            found = db.sql(statement)
            reader = (found if limit is None else found.limit(limit)).to_arrow_reader(BATCH)
        yield SqlAnswer(_distinct(reader.schema.names), _rows(reader, clock))


@contextmanager
def _claimed(root: Path) -> Iterator[Manifest | None]:
    """The current generation, which `gc` leaves alone meanwhile."""
    name = manifests.read_current(root)
    held = pin_generation(root, name) if name else None
    try:
        yield manifests.load(root, name) if name else None
    finally:
        if held:
            release_pin(*held)


# ---------------------------------------------------------------- how long it may take

_GRACE: Final = 2.0
"""Seconds that DuckDB has to end once it is told to."""


@dataclass
class _Clock:
    """The time that DuckDB works on one statement. When there is none left, it is told to stop."""

    db: duckdb.DuckDBPyConnection
    seconds: float  # 0: no limit
    stuck: Callable[[UsageError], object] | None
    spent: float = 0.0
    over: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """While DuckDB works.

        Raises:
            UsageError: it refuses the statement, or there is no time left.
            StoreError: a file cannot be read.
        """
        began, ended = monotonic(), threading.Event()
        timer = threading.Timer(max(0.0, self.seconds - self.spent), self._end, (ended,))
        timer.daemon = True
        if self.seconds:
            timer.start()
        try:
            yield
        except _REFUSALS as error:
            raise self._late() if self.over else _refused(error) from None
        finally:
            ended.set()
            timer.cancel()
            self.spent += monotonic() - began
        if self.over:  # it was done just then
            raise self._late()

    def _end(self, ended: threading.Event) -> None:
        self.over = True
        self.db.interrupt()
        if not ended.wait(_GRACE) and self.stuck:
            self.stuck(self._late())

    def _late(self) -> UsageError:
        return UsageError(
            f"the statement was ended: it took more than {self.seconds:g} s",
            "ask for less (WHERE, a LIMIT inside, fewer joins), or give it more time with --timeout or "
            "HELIX_SQL_TIMEOUT; 0: no limit",
        )


# ---------------------------------------------------------------- what may be asked

_REMEDY = (
    "give one SELECT over items, facts, entities, edges, sessions and clusters; "
    "DESCRIBE and SUMMARIZE show what they hold"
)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?", re.IGNORECASE)


def _check(db: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raises UsageError unless it is one statement that reads. What it reads is the leash's business."""
    try:
        found = db.extract_statements(statement)
        kinds = [one.type for one in found]
    except duckdb.Error as error:
        raise _refused(error) from None
    except (TypeError, ValueError):  # not UTF-8; a kind of statement that the bindings cannot name
        raise UsageError("this is no statement that only reads", _REMEDY) from None
    if len(kinds) != 1:
        raise UsageError(f"{len(kinds)} statements were given" if kinds else "no statement was given", _REMEDY)
    if kinds[0] == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs what it explains.
        inner, explains = _EXPLAIN.subn("", found[0].query, count=1)
        if not explains:
            raise UsageError("EXPLAIN takes no options but ANALYZE here", "write EXPLAIN SELECT …")
        _check(db, inner)
    elif kinds[0] != duckdb.StatementType.SELECT:
        name = "PIVOT … ON without IN" if kinds[0] == duckdb.StatementType.MULTI else kinds[0].name
        raise UsageError(f"{name} is refused: only statements that read are taken", _REMEDY)


def _leash(db: duckdb.DuckDBPyConnection) -> None:
    """No file, no network, no extension, no spill to disk, and no way back. There is no table that could be written."""
    for setting in (
        "SET TimeZone = 'UTC'",
        "SET temp_directory = ''",
        "SET max_temp_directory_size = '0B'",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        db.execute(setting).fetchall()


# ---------------------------------------------------------------- the views


def _register(db: duckdb.DuckDBPyConnection, root: Path, manifest: Manifest | None, statement: str) -> None:
    """The views over the live rows of a generation; over nothing where there is none.

    Args:
        statement: in lower case. FactColumns are read and joined only for one that speaks of them.
    """
    segments = manifest.segments if manifest else ()
    deletes = manifest.deletes if manifest else ()
    files = {name: _files(root, segments, f"{name}.parquet") for name in _SCHEMAS}
    check_files(root, [file for found in files.values() for _, file in found])
    check_files(root, [entry.file for entry in deletes])
    place = {segment.id: i for i, segment in enumerate(segments)}
    gone = {place[entry.segment]: _ids(root, entry) for entry in deletes if entry.rows}
    # What the views are made of has a name that no statement can know, so the views are all there is to ask.
    stored = f"stored_{secrets.token_hex(8)}"
    db.execute(f"CREATE SCHEMA {stored}; USE memory.{stored}").fetchall()
    for name, schema in _SCHEMAS.items():
        live = _live(gone, _ITEM[name]) if name in _ITEM and gone else None
        db.from_arrow(_dataset(root, files[name], schema, live)).create_view(name)
    asked = any(name in statement for name in ("facts", "edges"))
    db.from_arrow(_facts(root, segments, deletes) if asked else _no_facts()).create_view("facts")
    expansions = [index for index in (manifest.indexes if manifest else ()) if index.kind == KIND]
    if expansions:
        db.from_arrow(pa.concat_tables([_queries(root, index, place) for index in expansions])).create_view("queries")
    db.execute("USE memory.main").fetchall()
    for view in _views(stored, sorted(gone), bool(expansions)):
        db.execute(view).fetchall()


def _queries(root: Path, index: Index, place: Mapping[str, int]) -> pa.Table:
    """id, queries, and the place of the segment: an older row of the same item may have had others."""
    table = read_table(root / "indexes" / index.id / KIND / "queries.parquet")
    return table.append_column("segment", pa.array([place[index.covers[0]]] * len(table), pa.int32()))


def _no_facts() -> pa.Table:
    table = FACTS.empty_table()
    return table.append_column("t_invalid", table["until"])


def _facts(root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes]) -> pa.Table:
    """FACTS of live items and, further, since when each no longer holds."""
    gone = {entry.segment: entry for entry in deletes}
    tables, columns = [], []
    for segment in segments:
        opened = open_segment(root, segment, ())
        row = opened.facts["row"].to_numpy()
        if not len(row):
            continue
        alive = np.ones(segment.rows, bool)
        if segment.id in gone:
            alive[map_deleted_rows(root, gone[segment.id], segment.rows)] = False
        tables.append(read_table(root / "segments" / segment.id / "facts.parquet").filter(pa.array(alive[row])))
        columns.append(join_facts([opened], np.zeros(1, np.int64), alive))
    if not tables:
        return _no_facts()
    numbers = FactColumns(*map(np.concatenate, zip(*columns, strict=True)))
    since = find_ends(numbers)
    ends = pa.array(since, mask=since == NO_TIME).cast(FACTS.field("t_valid").type)
    return pa.concat_tables(tables).cast(FACTS).append_column("t_invalid", ends)


def _files(root: Path, segments: Sequence[Segment], name: str) -> list[tuple[int, manifests.File]]:
    """The files of that name, each with the place of its segment."""
    return [
        (i, file) for i, segment in enumerate(segments) for file in segment.files if PurePath(file.path).name == name
    ]


class _Live(pds.FileSystemDataset):  # type: ignore[misc]  # DuckDB takes a data set by its class
    """Files whose scan leaves out deleted rows: an anti-join would have DuckDB hash every item, whose number it cannot
    know beforehand. It reads little ahead, since what Arrow holds is not in DuckDB's memory limit.
    """

    live: pds.Expression | None = None

    def scanner(self, *, columns: list[str] | None = None, filter: pds.Expression | None = None) -> pds.Scanner:
        """A scan of some columns and rows."""
        kept = [condition for condition in (filter, self.live) if condition is not None]
        return super().scanner(
            columns=columns,
            filter=reduce(and_, kept) if kept else None,
            batch_size=16_384,
            batch_readahead=2,
            fragment_readahead=1,
        )


def _dataset(
    root: Path, files: Sequence[tuple[int, manifests.File]], schema: pa.Schema, live: pds.Expression | None
) -> _Live:
    """Parquet files as one lazy table with the further column `segment`: the place of the segment, int32."""
    parquet, here = pds.ParquetFileFormat(), pafs.LocalFileSystem()
    fragments = [parquet.make_fragment(str((root / file.path).absolute()), here, _of(i)) for i, file in files]
    found = _Live(fragments, schema.append(pa.field("segment", pa.int32())), parquet, here)
    found.live = live
    return found


def _of(segment: int) -> pds.Expression:
    return pds.field("segment") == pa.scalar(segment, pa.int32())


def _live(gone: Mapping[int, pa.Array], column: str) -> pds.Expression:
    """What holds of rows whose item, in `column`, is not deleted from their segment; `gone` is not empty.

    Arrow knows the segment of a file, so of the whole it evaluates what concerns that file, and nothing for most.
    """
    return ~reduce(or_, [_of(segment) & pds.field(column).isin(ids) for segment, ids in gone.items()])


def _ids(root: Path, deletes: Deletes) -> pa.Array:
    """The ids that stand in the deleted rows. An id stands once in a segment."""
    path = root / "segments" / deletes.segment / "items.parquet"
    try:
        ids = read_table(path, columns=["id"])["id"].combine_chunks()
        return ids.take(pa.array(map_deleted_rows(root, deletes, len(ids))))
    except (pa.ArrowException, OSError) as error:
        raise make_damage_error(path, str(error)) from None


def _views(stored: str, dirty: Sequence[int], expanded: bool) -> list[str]:
    """The views, in SQL.

    Args:
        stored: the schema of what they are made of.
        dirty: the segments that have deleted rows.
        expanded: a model wrote questions for some items.
    """
    columns = {name: ", ".join(schema.names) for name, schema in _SCHEMAS.items()}
    listed = ", ".join(map(str, dirty))
    evergreen = ", ".join(f"'{kind}'" for kind in sorted(EVERGREEN))

    counted = f"SELECT {columns['entities']} FROM {stored}.entities"
    if dirty:
        # A segment's own counts know of no deletion.
        counted = f"""
        {counted} WHERE segment NOT IN ({listed})
        UNION ALL
        SELECT kind, key, name, hash, found.items
        FROM {stored}.entities JOIN (
            SELECT segment, dst, count(*) AS items FROM {stored}.edges
            WHERE kind = 'mentions' AND segment IN ({listed}) GROUP BY ALL
        ) found ON found.segment = entities.segment AND found.dst = printf('%016x', entities.hash)
        """
    asked = f"{stored}.items LEFT JOIN {stored}.queries USING (id, segment)" if expanded else f"{stored}.items"
    return [
        f"CREATE VIEW items AS SELECT {columns['items']}, "
        + ("coalesce(queries, [])" if expanded else "[]::VARCHAR[]")
        + f" AS queries FROM {asked}",
        # What only says that something ended is in the end of what it ended.
        f"CREATE VIEW facts AS SELECT {', '.join(_FACTS)} FROM {stored}.facts WHERE NOT closes",
        f"CREATE VIEW edges AS SELECT {columns['edges']} FROM {stored}.edges "
        + ("WHERE kind NOT IN ('next', 'reply', 'same') OR dst IN (SELECT id FROM items)" if dirty else "")
        + f""" UNION ALL
        SELECT printf('%016x', subject_entity), 'fact', printf('%016x', object_entity), confidence
        FROM {stored}.facts WHERE NOT closes AND t_invalid IS NULL""",
        # The hash as the edges write it; of several spellings the one that most items use.
        f"""
        CREATE VIEW entities AS
        SELECT kind, key, arg_max(name, (named.items, name)) AS name, printf('%016x', named.hash) AS hash,
               sum(named.items)::BIGINT AS items, kind IN ({evergreen}) AS evergreen
        FROM ({counted}) named GROUP BY kind, key, named.hash
        """,
        # Each points at the earliest it nearly repeats; the first of a chain stands for all.
        """
        CREATE VIEW clusters AS
        WITH RECURSIVE chain(id, near, step) AS (
            SELECT id, near, 0 FROM items WHERE near IS NOT NULL
            UNION
            SELECT chain.id, items.near, step + 1 FROM chain JOIN items ON items.id = chain.near
            WHERE items.near IS NOT NULL AND step < 64
        ), first AS (SELECT id, arg_max(near, step) AS representative FROM chain GROUP BY id)
        SELECT representative, count(*) + 1 AS items, list(id ORDER BY id) AS repeated
        FROM first GROUP BY representative
        """,
        """
        CREATE VIEW sessions AS
        SELECT source, session, substr(sha256(source || chr(0) || session || chr(0)), 1, 16) AS key,
               arg_max(title, t_ingested) AS title,
               coalesce(list(DISTINCT project ORDER BY project) FILTER (project IS NOT NULL), []) AS projects,
               min(time) AS first_time, max(time) AS last_time, count(*) AS items,
               list_unique(flatten(list(turns)))::BIGINT AS turns,
               coalesce(list(DISTINCT speaker ORDER BY speaker) FILTER (speaker IS NOT NULL), []) AS speakers
        FROM items GROUP BY source, session
        """,
    ]


# ---------------------------------------------------------------- values

# Arrow hands on what DuckDB says while rows are read as an OSError.
_REFUSALS = (duckdb.Error, OSError, RuntimeError, pa.ArrowException)
_SCAN = "reading the Arrow source failed"


def _refused(error: Exception) -> UsageError | StoreError:
    """DuckDB's first line. It may quote recalled text, which must not steer a terminal."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT Error" in said or _SCAN in said:
        return StoreError(
            f"a file of the store cannot be read: {printable(said)}", "'helix verify' names what is damaged"
        )
    return UsageError(printable(said), "see 'helix sql --help'")


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, numbered where they repeat: an object has each key once."""
    out: list[str] = []
    for name in names:
        free = (f"{name}_{n}" if n else name for n in range(len(names)))
        out.append(next(new for new in free if new not in out))
    return tuple(out)


def _rows(reader: pa.RecordBatchReader, clock: _Clock) -> Iterator[tuple[Any, ...]]:
    while True:
        with clock.running():
            batch = next(reader, None)
        if batch is None:
            return
        yield from zip(
            *(_values(batch.schema.names[i], batch.column(i)) for i in range(batch.num_columns)), strict=True
        )


def _values(name: str, column: pa.Array) -> list[Any]:
    try:
        values = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError) as error:
        raise UsageError(f"column {printable(name)}: {error}", "cast it: … ::VARCHAR") from None
    if any(test(column.type) for test in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)):
        return list(values)  # most of what is asked for: as it is
    if pa.types.is_float32(column.type):  # 0.3, not 0.30000001192092896
        return [None if value is None else convert_value(float(str(np.float32(value)))) for value in values]
    return [convert_value(value) for value in values]


def convert_value(value: Any) -> Any:
    """A value as JSON knows it: times in ISO 8601 UTC, bytes in hex, numbers that are none as null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value.as_tuple().exponent == 0 else float(value)
        case datetime():  # a time without a zone is of the session's, which is UTC
            aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return aware.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case pa.MonthDayNano():
            return f"P{value.months}M{value.days}DT{Decimal(value.nanoseconds) / 10**9:f}S"
        case dict():
            return {str(convert_value(key)): convert_value(entry) for key, entry in value.items()}
        case list() | tuple():
            return [convert_value(entry) for entry in value]
        case _:
            return str(value)
