"""Turns of `helix export --parquet`: rows with the fields of a generic transcript, read as its lines.

A session is a text of its own. The other files of such a folder are views of the same turns, and no inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from helix.errors import InputRefused
from helix.sources.common.exported import FIELD
from helix.sources.common.session_text import SessionText

TURNS_FILE: Final = "turns.parquet"

TURNS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("session", "id", "role", "speaker", "ts", "project", "title", "type")),
        ("acl", pa.list_(pa.string())),
        ("pinned", pa.bool_()),
        ("priority", pa.float64()),
        ("confidence", pa.float64()),
        ("text", pa.string()),
        (FIELD, pa.string()),  # a JSON object
    ]
)
"""Columns of `turns.parquet`; null is a field that a line lacks."""

_MAGIC: Final = b"PAR1"
_BATCH: Final = 5_000


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the sessions of a file of turns as JSON lines; None for any other file.

    Raises:
        InputRefused: it is Parquet without the columns of turns, or damaged.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
    except OSError:
        return None
    return _read_sessions(path)


def is_companion(path: Path) -> bool:
    """Return whether a file is a view of the turns next to it."""
    return path.suffix == ".parquet" and path.name != TURNS_FILE and (path.parent / TURNS_FILE).is_file()


def _read_sessions(path: Path) -> Iterator[SessionText]:
    import pyarrow.parquet as pq  # here: few inputs need it

    try:
        with pq.ParquetFile(path) as file:
            if not {"text", FIELD, "session"} <= set(file.schema_arrow.names):
                raise InputRefused(f"{path.name} is Parquet without turns", f"give the {TURNS_FILE} of 'helix export'")
            rows = (row for batch in file.iter_batches(_BATCH) for row in batch.to_pylist())
            for (kind, name), group in groupby(map(_read_row, rows), key=_name_session):
                text = "".join(orjson.dumps(record).decode() + "\n" for record in group)
                yield SessionText(f"{kind}/{name}", text, None)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputRefused(f"{path.name} cannot be read as Parquet: {reason}", "export it again") from None


def _read_row(row: dict[str, Any]) -> dict[str, Any]:
    record = {name: value for name, value in row.items() if value is not None}
    return {**record, FIELD: orjson.loads(record[FIELD])}


def _name_session(record: dict[str, Any]) -> tuple[str, str]:
    return str(record[FIELD]["format"]), str(record["session"])
