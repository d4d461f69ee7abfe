"""One segment, opened: its files mapped into memory, nothing copied, no file descriptor kept."""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.errors import StoreError
from helix.snapshot.manifest import File, Manifest, Segment
from helix.types import Bool

ARRAYS = (
    "vectors.f16",
    "vectors.i8",
    "vectors.scale",
    "vectors.sum",
    "minhash",
    "bands.key",
    "bands.row",
    "ids.key",
    "ids.row",
    "sessions.key",
    "sessions.indptr",
    "sessions.rows",
    "terms.key",
    "terms.indptr",
    "terms.rows",
    "terms.tf",
    "order.indptr",
    "order.term",
    "cues",
    "titles.key",
    "titles.row",
    "mentions.indptr",
    "mentions.entity",
    "mentioned.key",
    "mentioned.indptr",
    "mentioned.rows",
    "links.indptr",
    "links.key",
    "links.kind",
    "linked.key",
    "linked.row",
    "linked.kind",
    "facts.key",
    "facts.i8",
    "facts.scale",
    "facts.length",
    "facts.terms.key",
    "facts.terms.indptr",
    "facts.terms.rows",
    "facts.terms.tf",
)

OPTIONAL = {
    "vectors.f16": np.float16,
    "order.indptr": np.int64,
    "order.term": np.uint32,
    "cues": np.uint8,
    "titles.key": np.uint64,
    "titles.row": np.uint32,
    "links.indptr": np.int64,
    "links.key": np.uint64,
    "links.kind": np.uint8,
    "linked.key": np.uint64,
    "linked.row": np.uint32,
    "linked.kind": np.uint8,
    "facts.key": np.uint64,
    "facts.i8": np.int8,
    "facts.scale": np.float32,
    "facts.length": np.uint32,
    "facts.terms.key": np.uint64,
    "facts.terms.indptr": np.int64,
    "facts.terms.rows": np.uint32,
    "facts.terms.tf": np.uint16,
}
"""Arrays a segment may lack: the vectors in half precision where the lineage keeps none, links in format 2, the index
of its facts where none has a vector, the order of its terms, cues and titles where an earlier release wrote it."""

_LENGTHS = {"links.indptr": 1, "order.indptr": 1, "cues": 0}
"""How much longer than the segment has rows an array is; one of these that is missing is all zero."""

_ROWS = {"vectors.i8": 0, "vectors.scale": 0, "order.indptr": 1}
"""How much longer than the segment has rows an array is that is read by address."""

_UNKNOWN = {"vouched": None, "salience_parts": None}  # in format 2

FACT_NUMBERS = pa.schema(
    [
        ("row", pa.uint32()),
        *((name, pa.uint64()) for name in ("object", "group", "family", "subject_entity", "object_entity")),
        *((name, pa.int64()) for name in ("t_valid", "until", "t_ingested")),
        ("confidence", pa.float32()),
        ("functional", pa.uint8()),
        ("closes", pa.uint8()),
    ]
)
"""facts.arrow."""

FACT_TEXT = pa.schema(
    [*((name, pa.string()) for name in ("subject", "relation", "object", "qualifier")), ("closes", pa.bool_())]
)
"""facts.text.arrow: what a fact's sentence is made of."""

DIGEST_UP_TO = 1 << 20
"""Bytes: smaller files are compared with their digest when they are opened, larger ones by size; `verify` reads all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """n rows. `text` comes in record batches; `starts` is the first row of each."""

    id: str
    rows: int
    arrays: dict[str, npt.NDArray[Any]]
    columns: pa.Table
    text: tuple[pa.RecordBatch, ...]
    readers: tuple[Mapping[str, Callable[[int], Any]], ...]  # of the same, by name; `time` in seconds
    starts: npt.NDArray[np.int64]
    facts: pa.Table  # FACT_NUMBERS
    fact_text: pa.Table  # FACT_TEXT; empty where the facts have no index

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]

    def column(self, name: str) -> npt.NDArray[Any]:
        """One numeric column, mapped."""
        return np.asarray(self.columns[name].to_numpy())

    def texts(self, rows: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
        """What is shown of the given rows."""
        batch = self.starts.searchsorted(rows, "right") - 1
        places = zip(batch.tolist(), (rows - self.starts[batch]).tolist(), strict=True)
        return [_shown(self.readers[b], row) for b, row in places]


def _shown(readers: Mapping[str, Callable[[int], Any]], row: int) -> dict[str, Any]:
    """One row of a record batch."""
    entry = {**_UNKNOWN, **{name: read(row) for name, read in readers.items()}}
    if entry["time"] is not None:
        entry["time"] = datetime.fromtimestamp(entry["time"], UTC)
    return entry


def open_segment(root: Path, segment: Segment, arrays: Sequence[str] = ARRAYS) -> Opened:
    """Map a segment, or some of its arrays.

    Raises:
        StoreError: a file is missing or damaged; it is named.
    """
    folder = root / "segments" / segment.id
    columns = pa.Table.from_batches(map_ipc(folder / "columns.arrow"))
    text = tuple(map_ipc(folder / "text.arrow"))
    counts = [batch.num_rows for batch in text]
    if columns.num_rows != segment.rows or sum(counts) != segment.rows:
        raise damaged(folder, f"holds {columns.num_rows} rows, the manifest says {segment.rows}")
    there = {file.path.rpartition("/")[2] for file in segment.files}
    found = {name: _array(folder, name, there, segment.rows) for name in arrays}
    for name, more in _ROWS.items():  # of these, addresses are computed
        if name in found and len(found[name]) != segment.rows + more:
            raise damaged(folder / f"{name}.npy", f"holds {len(found[name])} rows, the manifest says {segment.rows}")
    return Opened(
        segment.id,
        segment.rows,
        found,
        columns,
        text,
        tuple(dict(zip(batch.schema.names, map(_reader, map(_seconds, batch.columns)), strict=True)) for batch in text),
        np.cumsum([0, *counts[:-1]], dtype=np.int64),
        _table(folder / "facts.arrow", there, FACT_NUMBERS),
        _table(folder / "facts.text.arrow", there, FACT_TEXT),
    )


def _seconds(column: pa.Array) -> pa.Array:
    """A column of moments as the numbers they are; any other as it is."""
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _reader(column: pa.Array) -> Callable[[int], Any]:
    """What gives `column[row].as_py()` of a row: of text, and of lists of it, without Arrow's scalars in between."""
    if column.null_count == len(column):
        return lambda row: None
    buffers, first = column.buffers(), column.offset
    if pa.types.is_string(column.type):
        ends, letters = memoryview(buffers[1]).cast("i")[first:], memoryview(buffers[2] or b"")

        def read(row: int) -> Any:
            return str(letters[ends[row] : ends[row + 1]], "utf-8")

    elif pa.types.is_list(column.type):
        ends, inner = memoryview(buffers[1]).cast("i")[first:], _reader(column.values)

        def read(row: int) -> Any:
            return [inner(i) for i in range(ends[row], ends[row + 1])]

    else:
        return lambda row: column[row].as_py()
    if not column.null_count:
        return read
    there = memoryview(buffers[0])
    return lambda row: read(row) if there[(first + row) >> 3] >> ((first + row) & 7) & 1 else None


def fact_scales(root: Path, segment: Segment) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
    """Of each fact its row and the scale of its vector (0: it has none), mapped: uint32[f], float32[f].

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "segments" / segment.id
    there = {file.path.rpartition("/")[2] for file in segment.files}
    rows = _table(folder / "facts.arrow", there, FACT_NUMBERS)["row"].to_numpy()
    scale = _array(folder, "facts.scale", there, segment.rows)
    return rows, scale if len(scale) else np.zeros(len(rows), np.float32)


def _table(path: Path, there: set[str], schema: pa.Schema) -> pa.Table:
    """An Arrow file of a segment, mapped; empty where it may be left out, and is."""
    return pa.Table.from_batches(map_ipc(path)) if path.name in there else schema.empty_table()


def _array(folder: Path, name: str, there: set[str], rows: int) -> npt.NDArray[Any]:
    """One array of a segment, mapped; empty where it may be left out, and is."""
    if name in OPTIONAL and f"{name}.npy" not in there:
        return np.zeros(rows + _LENGTHS[name] if name in _LENGTHS else 0, OPTIONAL[name])
    return map_npy(folder / f"{name}.npy")


def alive_of(root: Path, manifest: Manifest, segment: Opened | Segment) -> Bool:
    """bool[rows]: the rows of a segment that a generation has not deleted."""
    alive = np.ones(segment.rows, bool)
    for entry in manifest.deletes:
        if entry.segment == segment.id:
            alive[map_npy(root / entry.file.path)] = False
    return alive


def check_files(root: Path, files: Iterable[File]) -> None:
    """Compare files with what the manifest says of them: all by size, small ones by digest.

    Raises:
        StoreError: a file is missing, torn or changed; it is named.
    """
    for file in files:
        path = root / file.path
        try:
            found = path.stat().st_size
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if found <= DIGEST_UP_TO else file.sha256
        except FileNotFoundError:
            raise damaged(path, "the file is missing") from None
        except OSError as error:
            raise damaged(path, error.strerror or str(error)) from None
        if found != file.bytes:
            raise damaged(path, f"it has {found} bytes, the manifest says {file.bytes}")
        if digest != file.sha256:
            raise damaged(path, f"its sha256 is {digest[:12]}…, the manifest says {file.sha256[:12]}…")


def damaged(path: Path, why: str) -> StoreError:
    """The error for a file that is not what the manifest says."""
    return StoreError(
        f"{path} is damaged: {why}",
        "restore it from a backup or another copy of the store ('helix pull'), or return to an earlier generation "
        "with 'helix rollback'; 'helix verify' names everything that is damaged",
    )


def map_npy(path: Path) -> npt.NDArray[Any]:
    """A .npy file, mapped.

    numpy's own memmap keeps a file descriptor an array; Arrow's map outlives its file, and a store has thousands.

    Raises:
        StoreError: the file is missing or damaged.
    """
    buffer = _map(path)
    start = buffer.slice(0, min(buffer.size, 4096)).to_pybytes()
    data = 10 + int.from_bytes(start[8:10], "little")
    try:
        shape, dtype = _header(start[:data])
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(buffer, dtype, count, data) if count else np.empty(0, dtype)
        return array.reshape(shape)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError) as error:  # numpy reads a header as Python does
        raise damaged(path, str(error)) from None


@lru_cache(maxsize=1024)
def _header(text: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and kind of an array. NumPy has Python parse what it reads, and the arrays of a segment are much alike."""
    head = io.BytesIO(text)
    np.lib.format.read_magic(head)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    if fortran or dtype.hasobject:
        raise ValueError("not a plain C array")
    return shape, dtype


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some of its columns.

    Raises:
        StoreError: the file is damaged.
        FileNotFoundError: it is not there; another process may have removed it.
    """
    import pyarrow.parquet as pq  # here: a recall reads none

    try:
        return pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(error).splitlines()[0]) from None


def map_ipc(path: Path) -> list[pa.RecordBatch]:
    """The record batches of an Arrow file, mapped.

    Raises:
        StoreError: the file is missing or damaged.
    """
    try:
        reader = pa.ipc.open_file(_map(path))
        return [reader.get_batch(i) for i in range(reader.num_record_batches)] or [
            pa.RecordBatch.from_pylist([], schema=reader.schema)
        ]
    except (pa.ArrowException, ValueError, OSError) as error:
        raise damaged(path, str(error)) from None


def _map(path: Path) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except FileNotFoundError:
        raise damaged(path, "the file is missing") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise damaged(path, str(error)) from None
