"""One DuckDB file of a generation's views, for programs that know DuckDB and not Helix."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from helix.errors import StoreError, UsageError
from helix.snapshot.paths import TEMPORARY, is_held, sync_file, sync_folder
from helix.snapshot.sql import connect_duckdb, pin_manifest
from helix.snapshot.sql_comments import COLUMNS, TABLES
from helix.snapshot.sql_values import REFUSALS, translate_error
from helix.snapshot.sql_views import create_views

STORAGE: Final = "v1.0.0"
"""Storage version of the file: every DuckDB since 1.0 opens it. An older one cannot open the newest version."""

WORKPLACE: Final = ".helix-export-"
"""Prefix of the folder next to the target in which a file is made."""


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export."""

    file: str
    bytes: int
    tables: dict[str, int]  # rows by name
    snapshot: int  # generation; 0: nothing is published yet


def export_duckdb(root: Path, target: Path, *, generation: int | None = None, force: bool = False) -> ExportReport:
    """Write the views of `helix sql` as tables of one DuckDB file, with a comment for each column.

    The file holds every project and every ACL, and live rows only. It appears whole or not at all, with mode 0600.

    Args:
        root: the store. The generation stays pinned meanwhile.
        target: the file.
        generation: a retained one; None: the newest.
        force: replace an existing file.

    Raises:
        UsageError: the target exists or cannot be written, or the generation is not retained.
        StoreError: no store at `root`, it is damaged or newer, or the disk is full.
    """
    with pin_manifest(root, generation) as manifest:
        try:
            log = _check_target(root, target, force)
        except OSError as error:  # a name too long, or a folder that may not be searched
            raise _make_write_error(target, error) from None
        with open_workplace(target) as folder, connect_duckdb() as db:
            made = folder / "tables.duckdb"
            try:
                create_views(db, root, manifest, "edges")
                tables = _run_interruptible(db, partial(_write_tables, db, made, folder / "spill"))
            except REFUSALS as error:
                raise _explain_failure(error, target) from None
            sync_file(made)
            log.unlink(missing_ok=True)  # it belongs to the file that is replaced
            made.replace(target)
            sync_folder(target.parent)
    return ExportReport(str(target), target.stat().st_size, tables, manifest.generation if manifest else 0)


def _check_target(root: Path, target: Path, force: bool) -> Path:
    """Check that the target may be written; return the path of its write-ahead log."""
    log = Path(f"{target}.wal")
    if root.resolve() in target.resolve().parents:
        raise UsageError(
            f"{target} is inside the store {root}", "name a file outside: a store holds its own files only"
        )
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {target.parent}", "make the folder first")
    for path in (target, log):
        if path.exists() and not path.is_file():
            raise UsageError(f"cannot write {target}: {path} is no regular file", "name another file")
        if os.path.lexists(path) and not force:
            raise UsageError(f"{path} exists", "--force replaces it, or name another file")
    return log


@contextmanager
def open_workplace(target: Path) -> Iterator[Path]:
    """Yield a private folder next to the target, which is removed at the end, like those of killed exports.

    Raises:
        UsageError: it cannot be made.
    """
    for path in target.parent.glob(f"{WORKPLACE}*"):
        if not is_held(path):
            shutil.rmtree(path, ignore_errors=True)
    folder = target.parent / f"{WORKPLACE}{secrets.token_hex(8)}"
    hidden = folder.with_name(f"{TEMPORARY}{folder.name}")
    try:
        hidden.mkdir(mode=0o700)
        handle = os.open(hidden, os.O_RDONLY)
    except OSError as error:
        raise _make_write_error(target, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        hidden.rename(folder)  # others see it only when it is locked
        yield folder
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _make_write_error(target: Path, error: OSError) -> UsageError:
    remedy = "check the permissions and the free space of its folder, or name another file"
    return UsageError(f"cannot write {target}: {error.strerror or error}", remedy)


def _write_tables(db: duckdb.DuckDBPyConnection, path: Path, spill: Path) -> dict[str, int]:
    """Copy the views into tables of a new file; return the rows of each."""
    db.execute(f"SET temp_directory = {_quote(str(spill))}")  # private, and removed with its folder
    db.execute(f"ATTACH {_quote(str(path.absolute()))} AS made (STORAGE_VERSION '{STORAGE}')")
    rows: dict[str, int] = {}
    for name, meaning in TABLES.items():
        ((rows[name],),) = db.execute(f"CREATE TABLE made.{name} AS FROM memory.main.{name}").fetchall()
        db.execute(f"COMMENT ON TABLE made.{name} IS {_quote(meaning)}")
        for column, text in COLUMNS[name].items():
            db.execute(f'COMMENT ON COLUMN made.{name}."{column}" IS {_quote(text)}')
    db.execute("DETACH made")  # writes what is left of the log into the file
    return rows


def _run_interruptible(db: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Run statements in another thread, since DuckDB may miss Ctrl-C while this thread waits for it."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            return running.result()
        except BaseException:
            while not running.done():  # an interrupt between two statements has no effect
                db.interrupt()
                wait([running], 0.1)
            raise


def _quote(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _explain_failure(error: Exception, target: Path) -> StoreError:
    """Return a damaged store as it is reported elsewhere, and all else as a fault of the target."""
    found = translate_error(error)
    if isinstance(found, StoreError):
        return found
    return StoreError(
        f"cannot write {target}: {found.what}", "check the free space of its folder; 'helix verify' checks the store"
    )
