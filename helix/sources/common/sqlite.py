"""Read-only access to the SQLite databases of other programs while they run.

A read-only connection still shows the write-ahead log. Each session is read whole in one short transaction, which does
not keep its program from writing. A value over the limit is never fetched.

In a folder where no file can be created, SQLite cannot open a database with a write-ahead log. It is then read as
immutable, but only without a log file: the read would miss what is in the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from helix.errors import InputRefused

VALUE_BYTES: Final = 4 << 20  # of one value; larger ones are file contents and images
TOO_LARGE: Final = "(too large)"  # type of the record that replaces such a value

_MAGIC: Final = b"SQLite format 3\0"
_SIDECARS: Final = ("-wal", "-shm", "-journal")
_WAIT_S: Final = 5.0  # for a lock; programs hold theirs for milliseconds


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def is_sidecar(path: Path) -> bool:
    """Return whether a file is the log or the index that SQLite writes next to a database."""
    name = next((path.name.removesuffix(suffix) for suffix in _SIDECARS if path.name.endswith(suffix)), "")
    return bool(name) and is_database(path.with_name(name))


def has_columns(path: Path, wanted: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a database has all these columns of all these tables.

    Raises:
        InputRefused: it cannot be read.
    """
    with open_database(path) as database:
        return all(columns <= list_columns(database, table) for table, columns in wanted.items())


def list_columns(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the names of a table's columns; none for a table that does not exist."""
    return frozenset(str(row[0]) for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,)))


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading.

    Raises:
        InputRefused: it is locked, damaged, half written or cannot be opened, now or later while it is read.
    """
    database: sqlite3.Connection | None = None
    try:
        database = _open(path)
        yield database
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    finally:
        if database is not None:
            database.close()


@contextmanager
def read_transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Begin a transaction, in which all reads see one state."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if _get_primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or _has_log(path):
            raise
        return _connect(path, "mode=ro&immutable=1")


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?{options}"
    database = sqlite3.connect(uri, timeout=_WAIT_S, isolation_level=None, uri=True)
    try:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read opens the file
    except sqlite3.Error:
        database.close()
        raise
    return database


def _has_log(path: Path) -> bool:
    """Return whether a log has changes to merge into the database or to roll back."""
    logs = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size > 0 for log in logs)


def _get_primary_code(error: sqlite3.Error) -> int:
    """Return the result code without its extension; 0 for an error that is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _explain(path: Path, error: sqlite3.Error) -> InputRefused:
    code = _get_primary_code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InputRefused(f"the database is locked ({error})", "try again when its program has written")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        logged = "; it has a log that is not merged yet" if _has_log(path) else ""
        return InputRefused(
            f"the database cannot be opened for reading ({error}){logged}",
            "open it once with its own program, or copy it with its -wal file to a folder that can be written",
        )
    return InputRefused(
        f"the database is damaged or half written ({error})",
        "let its program finish writing; if the error stays, recover it with: sqlite3 FILE .recover",
    )
