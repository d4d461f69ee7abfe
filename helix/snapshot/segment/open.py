"""Opens segments: files are mapped into memory, not copied, and hold no file descriptor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from helix.snapshot.checked_arrays import ArrayKind, check_below, make_damage_error, map_arrays, map_ipc, map_npy
from helix.snapshot.manifest import Deletes, File, Manifest, Segment
from helix.snapshot.segment import layout
from helix.snapshot.segment.batch import ITEMS
from helix.types import ACTIONS, F32, I64, OUTCOMES, ROLES, TYPES, U32, U64, AnyArray, Bool

DIGEST_UP_TO = 1 << 20  # bytes: up to here a file's digest is checked on opening, above only its size

_UNKNOWN = dict.fromkeys(layout.LATER)  # of an earlier release


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """An open segment of n rows. `starts` holds the first row of each record batch of `text`."""

    id: str
    folder: Path
    rows: int
    arrays: dict[str, AnyArray]
    columns: pa.Table
    text: tuple[pa.RecordBatch, ...]
    readers: tuple[Mapping[str, Callable[[int], Any]], ...]  # of the columns of each batch; `time` in seconds
    starts: I64
    facts: pa.Table  # FACT_NUMBERS
    fact_text: pa.Table  # FACT_TEXT; empty if the facts have no index
    steps: pa.Table  # STEP_COLUMNS

    def __getitem__(self, name: str) -> AnyArray:
        return self.arrays[name]

    def column(self, name: str) -> AnyArray:
        """Return a numeric column, mapped."""
        return np.asarray(self.columns[name].to_numpy())

    def texts(self, rows: I64) -> list[dict[str, Any]]:
        """Read the columns of TEXT for the given rows.

        Raises:
            StoreError: the text of one is damaged.
        """
        batch = self.starts.searchsorted(rows, "right") - 1
        places = zip(batch.tolist(), (rows - self.starts[batch]).tolist(), strict=True)
        try:
            return [_read_row(self.readers[b], row) for b, row in places]
        except (ValueError, LookupError, OverflowError, OSError) as error:  # large files open with a size check only
            raise make_damage_error(self.folder / "text.arrow", str(error)) from None


def _read_row(readers: Mapping[str, Callable[[int], Any]], row: int) -> dict[str, Any]:
    """Read one row of a record batch."""
    entry = {**_UNKNOWN, **{name: read(row) for name, read in readers.items()}}
    if entry["time"] is not None:
        entry["time"] = datetime.fromtimestamp(entry["time"], UTC)
    return entry


def open_segment(
    root: Path,
    segment: Segment,
    arrays: Collection[str] = layout.ARRAYS,
    *,
    dim: int | None = None,
    absent: Collection[str] = (),
) -> OpenSegment:
    """Map a segment, or some of its arrays.

    Args:
        dim: dimensions of a vector in the lineage; needed if vectors are among the arrays.
        absent: paths of files that have not arrived; substitutes stand for their arrays.

    Raises:
        StoreError: a file is missing or damaged; it is named.
    """
    folder = root / "segments" / segment.id
    columns = _map_columns(folder / "columns.arrow")
    text = tuple(map_ipc(folder / "text.arrow", layout.TEXT, optional=layout.LATER))
    counts = [batch.num_rows for batch in text]
    if columns.num_rows != segment.rows or sum(counts) != segment.rows:
        raise make_damage_error(folder, f"holds {columns.num_rows} rows, the manifest says {segment.rows}")
    for name, names in (("type", TYPES), ("role", ROLES)):
        check_below(folder / "columns.arrow", columns[name].to_numpy(), len(names))
    present = {file.path.rpartition("/")[2] for file in segment.files}
    missing = {file.path.rpartition("/")[2] for file in segment.files if file.path in absent} if absent else set[str]()
    facts = _map_table(folder / "facts.arrow", present, layout.FACT_NUMBERS)
    if len(facts) and facts["row"].to_numpy().max() >= segment.rows:
        raise make_damage_error(folder / "facts.arrow", f"it names a row that is not among {segment.rows}")
    steps = _map_table(folder / "steps.arrow", present, layout.STEP_COLUMNS)
    for name, bound in (("row", segment.rows), ("action", len(ACTIONS)), ("outcome", len(OUTCOMES))):
        if len(steps):
            check_below(folder / "steps.arrow", steps[name].to_numpy(), bound)
    return OpenSegment(
        segment.id,
        folder,
        segment.rows,
        _map_arrays(folder, arrays, present, segment.rows, len(facts), dim, len(steps), missing),
        columns,
        text,
        tuple(
            dict(zip(batch.schema.names, map(_make_reader, map(_view_seconds, batch.columns)), strict=True))
            for batch in text
        ),
        np.cumsum([0, *counts[:-1]], dtype=np.int64),
        facts,
        _map_table(folder / "facts.text.arrow", present, layout.FACT_TEXT),
        steps,
    )


def _map_columns(path: Path) -> pa.Table:
    """Map columns.arrow; a column that an earlier release did not write is null."""
    table = pa.Table.from_batches(map_ipc(path, layout.COLUMNS, optional=(layout.WORKSPACE,), full=True))
    for name in set(layout.COLUMNS.names) - set(table.column_names):
        kind = layout.COLUMNS.field(name).type
        table = table.append_column(name, pa.nulls(len(table), kind))
    return table.select(layout.COLUMNS.names)


def _map_arrays(
    folder: Path,
    names: Collection[str],
    present: set[str],
    rows: int,
    facts: int,
    dim: int | None,
    steps: int = 0,
    missing: Collection[str] = (),
) -> dict[str, AnyArray]:
    """Map arrays of a segment and check that their sizes fit together; those of `missing` files are substitutes."""
    sizes = {"n": rows, "f": facts, "a": steps, **({"d": dim} if dim is not None else {})}
    if dim is None and any("d" in layout.ARRAYS[name].shape for name in names):
        raise ValueError("to open vectors, give the number of their dimensions")
    lacking = {name for name in names if name in layout.OPTIONAL and f"{name}.npy" not in present}
    arriving = {name: layout.make_absent(name, sizes) for name in names if f"{name}.npy" in missing}
    kinds = {name: layout.ARRAYS[name] for name in names if name not in lacking and name not in arriving}
    mapped = {**map_arrays(folder, kinds, layout.OFFSETS, sizes), **arriving}
    return {name: layout.make_missing(name, rows) if name in lacking else mapped[name] for name in names}


def _view_seconds(column: pa.Array) -> pa.Array:
    """View a timestamp column as integers; return any other unchanged."""
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _make_reader(column: pa.Array) -> Callable[[int], Any]:
    """Return a function like `column[row].as_py()`, without Arrow scalars for text and lists of it."""
    if column.null_count == len(column):
        return lambda row: None
    buffers, first = column.buffers(), column.offset
    if pa.types.is_string(column.type):
        ends, letters = memoryview(buffers[1]).cast("i")[first:], memoryview(buffers[2] or b"")

        def read(row: int) -> Any:
            return str(letters[ends[row] : ends[row + 1]], "utf-8")

    elif pa.types.is_list(column.type):
        ends, inner = memoryview(buffers[1]).cast("i")[first:], _make_reader(column.values)

        def read(row: int) -> Any:
            return [inner(i) for i in range(ends[row], ends[row + 1])]

    elif pa.types.is_map(column.type):
        ends, key, value = (
            memoryview(buffers[1]).cast("i")[first:],
            _make_reader(column.keys),
            _make_reader(column.items),
        )

        def read(row: int) -> Any:
            return [(key(i), value(i)) for i in range(ends[row], ends[row + 1])]

    else:
        return lambda row: column[row].as_py()
    if not column.null_count:
        return read
    valid = memoryview(buffers[0])
    return lambda row: read(row) if valid[(first + row) >> 3] >> ((first + row) & 7) & 1 else None


def map_fact_scales(root: Path, segment: Segment) -> tuple[U32, F32]:
    """Map the row of each fact and the scale of its vector (0: no vector): uint32[f], float32[f].

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "segments" / segment.id
    present = {file.path.rpartition("/")[2] for file in segment.files}
    rows = _map_table(folder / "facts.arrow", present, layout.FACT_NUMBERS)["row"].to_numpy()
    scale = _map_arrays(folder, ["facts.scale"], present, segment.rows, len(rows), None)["facts.scale"]
    return rows, scale if len(scale) else np.zeros(len(rows), np.float32)


def _map_table(path: Path, present: set[str], schema: pa.Schema) -> pa.Table:
    """Map an optional Arrow file of a segment; empty if it is absent."""
    return pa.Table.from_batches(map_ipc(path, schema, full=True)) if path.name in present else schema.empty_table()


def map_ids(root: Path, segment: Segment) -> tuple[U64, U32]:
    """Map the sorted keys of a segment's items and the row of each: uint64[n], uint32[n].

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder, sizes = root / "segments" / segment.id, {"n": segment.rows}
    key, row = (map_npy(folder / f"{name}.npy", layout.ARRAYS[name], sizes) for name in ("ids.key", "ids.row"))
    return key, row


def map_deleted_rows(root: Path, entry: Deletes, rows: int) -> U32:
    """Map the deleted rows of a segment with `rows` rows: uint32[m], ascending.

    Raises:
        StoreError: the file is missing or damaged, or names a row the segment does not have.
    """
    path = root / entry.file.path
    deleted = map_npy(path, ArrayKind(np.uint32, ("m",)))
    if len(deleted) and deleted.max() >= rows:
        raise make_damage_error(path, f"it names row {deleted.max()} of a segment of {rows} rows")
    return deleted


def map_forgotten_keys(root: Path, manifest: Manifest | None) -> U64:
    """Map the keys of the items that a generation never ingests again: uint64[n], sorted.

    Raises:
        StoreError: the file is missing or damaged.
    """
    if manifest is None or manifest.forgotten is None:
        return np.empty(0, np.uint64)
    return map_npy(root / manifest.forgotten.path, ArrayKind(np.uint64, ("n",)))


def load_alive(root: Path, manifest: Manifest, segment: OpenSegment | Segment) -> Bool:
    """Return which rows of a segment are live in a generation: bool[rows]."""
    alive = np.ones(segment.rows, bool)
    for entry in manifest.deletes:
        if entry.segment == segment.id:
            alive[map_deleted_rows(root, entry, segment.rows)] = False
    return alive


def check_files(root: Path, files: Iterable[File]) -> None:
    """Compare files with the manifest: all by size, small ones by digest.

    Raises:
        StoreError: a file is missing, torn or changed; it is named.
    """
    for file in files:
        path = root / file.path
        try:
            size = path.stat().st_size
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if size <= DIGEST_UP_TO else file.sha256
        except FileNotFoundError:
            raise make_damage_error(path, "the file is missing") from None
        except OSError as error:
            raise make_damage_error(path, error.strerror or str(error)) from None
        if size != file.bytes:
            raise make_damage_error(path, f"it has {size} bytes, the manifest says {file.bytes}")
        if digest != file.sha256:
            raise make_damage_error(path, f"its sha256 is {digest[:12]}…, the manifest says {file.sha256[:12]}…")


def read_items(root: Path, segment: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of a segment's items.parquet; one that an earlier release did not write is null.

    Raises:
        StoreError: the file is damaged.
        FileNotFoundError: it is missing; another process may have removed it.
    """
    return read_table(root / "segments" / segment / "items.parquet", columns, ITEMS)


def read_table(path: Path, columns: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """Read a Parquet file, or some of its columns.

    Args:
        schema: a column of it that the file lacks is null; None: each column has to be in the file.

    Raises:
        StoreError: the file is damaged.
        FileNotFoundError: it is missing; another process may have removed it.
    """
    import pyarrow.parquet as pq  # here: a recall reads none

    try:
        return pq.read_table(path, columns=columns and list(columns), schema=schema)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise make_damage_error(path, str(error).splitlines()[0]) from None
