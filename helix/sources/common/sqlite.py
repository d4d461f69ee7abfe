"""Reading the SQLite databases of other programs while they run.

A database is opened read-only, which still shows what lies in its write-ahead log. One session is read in one short
transaction, so that a session is whole and a slow reader never keeps its program from writing. A value that is too
large is never fetched.

Where nothing may be created beside the database, SQLite cannot open one that has a write-ahead log. Such a one is
read as if it never changed, but only while there is no log: what is in a log would be missed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from helix.errors import InputRefused

VALUE_BYTES: Final = 4 << 20  # of one value; larger ones are file contents and images
TOO_LARGE: Final = "(too large)"  # type of what stands in place of such a value

_MAGIC: Final = b"SQLite format 3\0"
_BESIDE: Final = ("-wal", "-shm", "-journal")
_WAIT_S: Final = 5.0  # for a lock; programs hold theirs for milliseconds


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def belongs(path: Path) -> bool:
    """Whether a file is a log or an index that SQLite keeps beside a database."""
    name = next((path.name.removesuffix(suffix) for suffix in _BESIDE if path.name.endswith(suffix)), "")
    return bool(name) and is_database(path.with_name(name))


def has_columns(path: Path, wanted: Mapping[str, frozenset[str]]) -> bool:
    """Whether a database has all these columns of all these tables.

    Raises:
        InputRefused: it cannot be read.
    """
    with reading(path) as database:
        return all(columns <= columns_of(database, table) for table, columns in wanted.items())


def columns_of(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """Names of a table's columns; none where there is no such table."""
    return frozenset(str(row[0]) for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,)))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A database, open for reading.

    Raises:
        InputRefused: it is locked, damaged, half written or cannot be opened, now or later while it is read.
    """
    database: sqlite3.Connection | None = None
    try:
        database = _opened(path)
        yield database
    except sqlite3.Error as error:
        raise _refused(path, error) from error
    finally:
        if database is not None:
            database.close()


@contextmanager
def one_state(database: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all that is read inside is of one moment."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return _connected(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or _has_log(path):
            raise
        return _connected(path, "mode=ro&immutable=1")


def _connected(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?{options}"
    database = sqlite3.connect(uri, timeout=_WAIT_S, isolation_level=None, uri=True)
    try:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # it is opened only when it is read
    except sqlite3.Error:
        database.close()
        raise
    return database


def _has_log(path: Path) -> bool:
    """Whether changes wait beside the database that are not in it yet, or must be taken back first."""
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size > 0 for log in beside)


def _code(error: sqlite3.Error) -> int:
    """Primary result code, without what extends it; 0 where the error is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _refused(path: Path, error: sqlite3.Error) -> InputRefused:
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InputRefused(f"the database is locked ({error})", "try again when its program has written")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        logged = "; it has a log that is not in it yet" if _has_log(path) else ""
        return InputRefused(
            f"the database cannot be opened for reading ({error}){logged}",
            "open it once with its own program, or copy it with its -wal file to a folder that can be written",
        )
    return InputRefused(
        f"the database is damaged or half written ({error})",
        "let its program finish writing; if it stays so, recover it with: sqlite3 FILE .recover",
    )
