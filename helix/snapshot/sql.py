"""DuckDB over the Parquet files of a generation: an engine for statements, always in memory and restricted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

import duckdb
import pyarrow as pa

from helix.errors import UsageError
from helix.snapshot import manifest as manifests
from helix.snapshot.manifest import Manifest
from helix.snapshot.partial import require_all_parts
from helix.snapshot.pins import pin_generation, release_pin
from helix.snapshot.sql_values import REFUSALS, convert_column, name_distinct, translate_error


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """Connect to a DuckDB with bounded memory that never fetches an extension."""
    extensions = dict.fromkeys(("autoinstall_known_extensions", "autoload_known_extensions"), False)
    return duckdb.connect(config={"memory_limit": "2GB", "threads": 2, **extensions})


BATCH = 1_000  # rows converted to Python values at a time

_GRACE: Final = 2.0  # seconds in which DuckDB must stop after an interrupt
_REMEDY: Final = (
    "give one SELECT over items, facts, entities, edges, steps, sessions and clusters; "
    "DESCRIBE and SUMMARIZE show their columns"
)
_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """Result of a statement, with distinct column names and JSON values."""

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
    """Run one SELECT or EXPLAIN over the current generation, which stays pinned until the block ends.

    The views `items`, `facts`, `entities`, `edges`, `steps`, `sessions` and `clusters` hold live rows only. DuckDB gets
    open data, never a path, since it could write to a path it can read (`WITH x AS (COPY … TO …)` parses as a SELECT).

    Args:
        root: the store.
        statement: SQL of DuckDB.
        limit: most rows.
        seconds: computing time of DuckDB, without the time of the rows' reader. 0: no limit.
        stuck: called in another thread if DuckDB runs on after its time: a function working on one value cannot be
            interrupted. Without it the statement ends when the function does.

    Raises:
        UsageError: not one SELECT or EXPLAIN, DuckDB refuses it, or its time is over, also while rows are read.
        StoreError: no store at `root`, or it is damaged or newer.
    """
    with pin_manifest(root) as manifest, connect_duckdb() as db:
        _check_statement(db, statement)
        from helix.snapshot.sql_views import create_views  # slow to import, and a commit has no views

        create_views(db, root, manifest, statement.lower())
        _restrict(db)
        stopwatch = _Stopwatch(db, seconds, stuck)
        with stopwatch.measure():
            # A relation is lazy: the limit is part of the plan, so an ORDER BY keeps the best rows only.
            result = db.sql(statement)
            reader = (result if limit is None else result.limit(limit)).to_arrow_reader(BATCH)
        yield SqlAnswer(name_distinct(reader.schema.names), _read_rows(reader, stopwatch))


@contextmanager
def pin_manifest(root: Path, generation: int | None = None) -> Iterator[Manifest | None]:
    """Pin and load a retained generation, by default the current one; None if nothing is published yet.

    Raises:
        StoreError: it is damaged, or still arriving.
    """
    name = manifests.read_current(root) if generation is None else manifests.find_generation(root, generation)
    require_all_parts(root, name)
    held = pin_generation(root, name) if name else None
    try:
        yield manifests.load(root, name) if name else None
    finally:
        if held:
            release_pin(*held)


@dataclass
class _Stopwatch:
    """Computing time of DuckDB for one statement. It interrupts DuckDB when the time is over."""

    db: duckdb.DuckDBPyConnection
    seconds: float  # 0: no limit
    stuck: Callable[[UsageError], object] | None
    spent: float = 0.0
    over: bool = False

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the block, in which DuckDB works.

        Raises:
            UsageError: it refuses the statement, or its time is over.
            StoreError: a file cannot be read.
        """
        began, ended = monotonic(), threading.Event()
        timer = threading.Timer(max(0.0, self.seconds - self.spent), self._interrupt, (ended,))
        timer.daemon = True
        if self.seconds:
            timer.start()
        try:
            yield
        except REFUSALS as error:
            raise self._make_timeout() if self.over else translate_error(error) from None
        finally:
            ended.set()
            timer.cancel()
            self.spent += monotonic() - began
        if self.over:  # it finished at that moment
            raise self._make_timeout()

    def _interrupt(self, ended: threading.Event) -> None:
        self.over = True
        self.db.interrupt()
        if not ended.wait(_GRACE) and self.stuck:
            self.stuck(self._make_timeout())

    def _make_timeout(self) -> UsageError:
        return UsageError(
            f"the statement was ended: it took more than {self.seconds:g} s",
            "ask for less (WHERE, a LIMIT inside, fewer joins), or give it more time with --timeout or "
            "HELIX_SQL_TIMEOUT; 0: no limit",
        )


def _check_statement(db: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Raise UsageError unless it is one statement that reads; `_restrict` limits its reach."""
    try:
        parsed = db.extract_statements(statement)
        kinds = [one.type for one in parsed]
    except duckdb.Error as error:
        raise translate_error(error) from None
    except (TypeError, ValueError):  # not UTF-8; a kind of statement that the bindings cannot name
        raise UsageError("this is no statement that only reads", _REMEDY) from None
    if len(kinds) != 1:
        raise UsageError(f"{len(kinds)} statements were given" if kinds else "no statement was given", _REMEDY)
    if kinds[0] == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs what it explains.
        inner, explains = _EXPLAIN.subn("", parsed[0].query, count=1)
        if not explains:
            raise UsageError("EXPLAIN takes no options but ANALYZE here", "write EXPLAIN SELECT …")
        _check_statement(db, inner)
    elif kinds[0] != duckdb.StatementType.SELECT:
        name = "PIVOT … ON without IN" if kinds[0] == duckdb.StatementType.MULTI else kinds[0].name
        raise UsageError(f"{name} is refused: only reading statements are allowed", _REMEDY)


def _restrict(db: duckdb.DuckDBPyConnection) -> None:
    """Deny DuckDB files, network, extensions and spilling to disk, for good. There is no table to write to."""
    for setting in (
        "SET TimeZone = 'UTC'",
        "SET temp_directory = ''",
        "SET max_temp_directory_size = '0B'",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ):
        db.execute(setting).fetchall()


def _read_rows(reader: pa.RecordBatchReader, stopwatch: _Stopwatch) -> Iterator[tuple[Any, ...]]:
    while True:
        with stopwatch.measure():
            batch = next(reader, None)
        if batch is None:
            return
        yield from zip(
            *(convert_column(batch.schema.names[i], batch.column(i)) for i in range(batch.num_columns)), strict=True
        )
