"""A manifest, opened: arrays mapped from the segments, and the few columns that scoring needs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from helix.encoders.onnx import Encoder, EstimatedCounter, TokenCounter
from helix.errors import EncoderError, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.arrays import flat_index, owners
from helix.snapshot.manifest import Manifest
from helix.snapshot.rows import NO_TIME
from helix.types import F32, I64, TYPES, U32, Bool

U64 = npt.NDArray[np.uint64]

_ARRAYS = (
    "vectors.i8",
    "vectors.scale",
    "vectors.sum",
    "minhash",
    "terms.key",
    "terms.indptr",
    "terms.rows",
    "terms.tf",
    "mentions.indptr",
    "mentions.entity",
    "mentioned.key",
    "mentioned.indptr",
    "mentioned.rows",
)


@dataclass(frozen=True, slots=True)
class Columns:
    """One entry a row of the snapshot. Codes point into the lists beside them; −1 is none."""

    key: U64  # the item id as a number: the tie key
    time: I64  # seconds since 1970 UTC; NO_TIME where unknown
    t_valid: I64
    t_invalid: I64
    t_ingested: I64
    salience: F32
    confidence: F32
    priority: F32
    type: npt.NDArray[np.uint8]  # position in TYPES
    role: npt.NDArray[np.uint8]  # position in ROLES
    tokens: U32
    length: F32  # terms
    session: npt.NDArray[np.int64]  # dense code of the session
    project: npt.NDArray[np.int32]
    speaker: npt.NDArray[np.int32]
    previous: I64  # row of the turn before in the session, −1 at its start
    next: I64


@dataclass(frozen=True, slots=True)
class Block:
    """The vectors of one segment. Row i of `codes` is row `start + i` of the snapshot."""

    start: int
    codes: npt.NDArray[np.int8]
    scale: F32


@dataclass(frozen=True, slots=True)
class _Part:
    """One open segment."""

    start: int
    rows: int
    arrays: dict[str, npt.NDArray[Any]]
    text: pa.Table


class Snapshot:
    """One generation, read-only. Opening maps files; nothing is copied but the columns.

    Raises:
        StoreError: the store is missing, damaged or of a newer format.
    """

    def __init__(self, root: Path, name: str | None = None, *, threads: int = 0) -> None:
        self.root = root
        self.name = name or manifests.current_name(root)
        self.manifest: Manifest | None = manifests.load(root, self.name) if self.name else None
        self._threads = threads
        self._parts: list[_Part] = []
        tables: list[pa.Table] = []
        start = 0
        for segment in self.manifest.segments if self.manifest else ():
            folder = root / "segments" / segment.id
            part = _Part(
                start,
                segment.rows,
                {name: _map(folder / f"{name}.npy") for name in _ARRAYS},
                _ipc(folder / "text.arrow"),
            )
            table = _ipc(folder / "columns.arrow")
            if table.num_rows != segment.rows or part.text.num_rows != segment.rows:
                raise _damaged(folder, f"holds {table.num_rows} rows, the manifest says {segment.rows}")
            self._parts.append(part)
            tables.append(table)
            start += segment.rows
        self.rows = start
        self.alive = self._alive()
        self.columns, self.projects, self.speakers = self._columns(tables)
        self._acl_of, self._acl = _acl(tables)
        self.restricted: Bool = np.bincount(self._acl_of, minlength=self.rows).astype(bool)

    # ------------------------------------------------------------ what a row is

    @property
    def generation(self) -> int:
        """Number of the generation; 0 for a store nothing was published to."""
        return self.manifest.generation if self.manifest else 0

    def _alive(self) -> Bool:
        alive = np.ones(self.rows, bool)
        starts = {segment.id: part.start for segment, part in zip(self._segments(), self._parts, strict=True)}
        for deletes in self.manifest.deletes if self.manifest else ():
            alive[starts[deletes.segment] + _map(self.root / deletes.file.path).astype(np.int64)] = False
        return alive

    def _segments(self) -> tuple[manifests.Segment, ...]:
        return self.manifest.segments if self.manifest else ()

    def _columns(self, tables: list[pa.Table]) -> tuple[Columns, list[str], list[str]]:
        def stack(name: str, dtype: Any) -> Any:
            arrays = [np.asarray(table[name].to_numpy()) for table in tables]
            return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.empty(0, dtype)

        keys = stack("session", np.uint64)
        _, session = np.unique(keys, return_inverse=True)
        project, projects = _dictionary(tables, "project")
        speaker, speakers = _dictionary(tables, "speaker")
        previous, following = _neighbours(session, stack("ord", np.int64), self.alive)
        return (
            Columns(
                key=stack("key", np.uint64),
                time=stack("time", np.int64),
                t_valid=stack("t_valid", np.int64),
                t_invalid=stack("t_invalid", np.int64),
                t_ingested=stack("t_ingested", np.int64),
                salience=stack("salience", np.float32),
                confidence=stack("confidence", np.float32),
                priority=stack("priority", np.float32),
                type=stack("type", np.uint8),
                role=stack("role", np.uint8),
                tokens=stack("tokens", np.uint32),
                length=stack("length", np.float32),
                session=session.astype(np.int64),
                project=project,
                speaker=speaker,
                previous=previous,
                next=following,
            ),
            projects,
            speakers,
        )

    def adopt(self, before: Snapshot) -> None:
        """Take over what an earlier generation of the same lineage has loaded already: the encoder."""
        if self.manifest and before.manifest and self.manifest.lineage.encoder == before.manifest.lineage.encoder:
            for name in ("encoder", "counter"):
                if name in before.__dict__:
                    self.__dict__[name] = before.__dict__[name]

    def warm(self) -> Snapshot:
        """Do now what the first question would have to wait for."""
        for name in ("live", "mean_length", "mean_window_length", "session_length", "last_access", "centroids"):
            getattr(self, name)
        _ = self.speaker_words, self.router, self.counter
        return self

    @cached_property
    def speaker_words(self) -> list[frozenset[str]]:
        """The words of each speaker's name, lower case."""
        return [frozenset(name.lower().split()) for name in self.speakers]

    def named_in_acl(self, principal: str) -> Bool:
        """bool[rows]: the row's ACL names this principal."""
        out = np.zeros(self.rows, bool)
        out[self._acl_of[np.asarray(pc.equal(self._acl, principal).to_numpy(zero_copy_only=False), bool)]] = True
        return out

    @cached_property
    def last_access(self) -> I64:
        """int64[rows]: when an item was last of use; its own time, else when it came in."""
        return np.where(self.columns.time != NO_TIME, self.columns.time, self.columns.t_ingested)

    # ------------------------------------------------------------ dense

    @cached_property
    def encoder(self) -> Encoder:
        """The lineage's query encoder.

        Raises:
            EncoderError: its files are missing, or not the ones the lineage was built with.
        """
        if self.manifest is None:
            raise EncoderError("the store is empty", "ingest something first")
        fingerprint = self.manifest.lineage.encoder
        return Encoder(self.root / "encoders" / fingerprint, self._threads, fingerprint)

    @cached_property
    def counter(self) -> TokenCounter | EstimatedCounter:
        """Counts tokens as the encoder does; an estimate where the encoder is out of reach."""
        try:
            return TokenCounter(self.encoder.folder)
        except EncoderError:
            return EstimatedCounter()

    @property
    def blocks(self) -> list[Block]:
        """The vectors, segment by segment."""
        return [Block(part.start, part.arrays["vectors.i8"], part.arrays["vectors.scale"]) for part in self._parts]

    def vectors(self, rows: npt.NDArray[Any]) -> F32:
        """float32[len(rows), d], dequantised."""
        out = np.empty((len(rows), self.manifest.lineage.dim if self.manifest else 0), np.float32)
        for part, here, local in self._split(rows):
            out[here] = part.arrays["vectors.i8"][local] * part.arrays["vectors.scale"][local, None]
        return out

    @cached_property
    def centroids(self) -> F32:
        """float32[types + 1, d]: mean vector by type, last row of all items; zero where a type has none.

        Deleted rows still count until their segment is merged: a centroid moves little by one row.
        """
        counts = np.append(np.bincount(self.columns.type, minlength=len(TYPES)), self.rows).astype(np.float64)
        sums = sum((part.arrays["vectors.sum"] for part in self._parts), np.zeros((len(counts), 1)))
        return np.asarray(sums / np.maximum(counts, 1)[:, None], np.float32)

    # ------------------------------------------------------------ lexical

    def postings(self, term: np.uint64) -> tuple[U32, F32]:
        """(rows uint32[p] ascending, term frequencies float32[p]) of one term, deleted rows left out."""
        rows, tfs = [], []
        for part in self._parts:
            keys = part.arrays["terms.key"]
            at = int(np.searchsorted(keys, term))
            if at < len(keys) and keys[at] == term:
                low, high = part.arrays["terms.indptr"][at : at + 2]
                rows.append(part.arrays["terms.rows"][low:high] + np.uint32(part.start))
                tfs.append(part.arrays["terms.tf"][low:high])
        if not rows:
            return np.empty(0, np.uint32), np.empty(0, np.float32)
        row, tf = np.concatenate(rows), np.concatenate(tfs).astype(np.float32)
        keep = self.alive[row]
        return row[keep], tf[keep]

    @cached_property
    def live(self) -> int:
        """Items that are not deleted."""
        return int(self.alive.sum())

    @cached_property
    def mean_length(self) -> float:
        """Mean terms an item, at least one."""
        return max(1.0, float(self.columns.length[self.alive].mean())) if self.live else 1.0

    @cached_property
    def window_length(self) -> F32:
        """float32[rows]: terms of an item and of the turns right before and after it."""
        own = np.append(self.columns.length, np.float32(0))
        return own[:-1] + own[self.columns.previous] + own[self.columns.next]

    @cached_property
    def mean_window_length(self) -> float:
        """Mean of `window_length` over live items, at least one."""
        return max(1.0, float(self.window_length[self.alive].mean())) if self.live else 1.0

    @cached_property
    def session_length(self) -> F32:
        """float32[sessions]: terms of a session."""
        return np.bincount(self.columns.session, weights=self.columns.length * self.alive).astype(np.float32)

    # ------------------------------------------------------------ graph

    def entities_of(self, rows: npt.NDArray[Any]) -> tuple[I64, U64]:
        """(position in `rows` int64[m], entity hash uint64[m])."""
        at: list[I64] = []
        keys: list[U64] = []
        for part, here, local in self._split(rows):
            indptr, flat = flat_index(part.arrays["mentions.indptr"], local)
            at.append(here[owners(indptr)])
            keys.append(part.arrays["mentions.entity"][flat])
        return (
            np.concatenate(at) if at else np.empty(0, np.int64),
            np.concatenate(keys) if keys else np.empty(0, np.uint64),
        )

    def rows_of(self, entities: U64) -> tuple[I64, U32]:
        """(position in `entities` int64[m], row uint32[m]), deleted rows left out."""
        at: list[I64] = []
        rows: list[U32] = []
        for part in self._parts:
            keys = part.arrays["mentioned.key"]
            found = np.searchsorted(keys, entities)
            hit = (
                np.flatnonzero((found < len(keys)) & (keys[np.minimum(found, len(keys) - 1)] == entities))
                if len(keys)
                else ()
            )
            if not len(hit):
                continue
            indptr, flat = flat_index(part.arrays["mentioned.indptr"], found[hit])
            at.append(np.asarray(hit)[owners(indptr)])
            rows.append(part.arrays["mentioned.rows"][flat] + np.uint32(part.start))
        if not rows:
            return np.empty(0, np.int64), np.empty(0, np.uint32)
        position, row = np.concatenate(at), np.concatenate(rows)
        keep = self.alive[row]
        return position[keep], row[keep]

    # ------------------------------------------------------------ what is shown

    def signatures(self, rows: npt.NDArray[Any]) -> U32:
        """uint32[len(rows), 64]: MinHash signatures."""
        out = np.zeros((len(rows), 64), np.uint32)
        for part, here, local in self._split(rows):
            out[here] = part.arrays["minhash"][local]
        return out

    def text(self, rows: npt.NDArray[Any]) -> list[dict[str, Any]]:
        """What is shown of each row: id, text, session, turns, speaker, time, project, path, title."""
        out: list[dict[str, Any]] = [{}] * len(rows)
        for part, here, local in self._split(rows):
            for position, entry in zip(here.tolist(), part.text.take(pa.array(local)).to_pylist(), strict=True):
                out[position] = entry
        return out

    @cached_property
    def router(self) -> dict[str, npt.NDArray[np.float32]] | None:
        """Arrays of the skip classifier; None where it was not trained."""
        for index in self.manifest.indexes if self.manifest else ():
            if index.kind == "router":
                with np.load(self.root / "indexes" / index.id / "router" / "router.npz", allow_pickle=False) as arrays:
                    return {name: arrays[name] for name in arrays.files}
        return None

    def find(self, identity: str) -> int | None:
        """The row of an item id; None if no live item has it."""
        try:
            key = np.uint64(int(identity, 16))
        except (ValueError, OverflowError):
            return None
        rows = np.flatnonzero((self.columns.key == key) & self.alive)
        return int(rows[0]) if len(rows) else None

    def _split(self, rows: npt.NDArray[Any]) -> Sequence[tuple[_Part, I64, I64]]:
        """The rows by segment: (segment, positions in `rows`, rows within the segment)."""
        rows = np.asarray(rows, np.int64)
        starts = np.array([part.start for part in self._parts], np.int64)
        which = np.searchsorted(starts, rows, side="right") - 1
        return [
            (self._parts[i], np.flatnonzero(which == i), rows[which == i] - self._parts[i].start)
            for i in np.unique(which).tolist()
        ]


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged: {why}", "run 'helix verify' and restore what it names from a backup")


def _map(path: Path) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, FileNotFoundError):
            raise _damaged(path, "the file is missing") from None
        # np.memmap refuses to map a file of no elements, which is how an empty array looks.
        return _load_empty(path, error)


def _load_empty(path: Path, error: Exception) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise _damaged(path, str(error)) from None
    if array.size:
        raise _damaged(path, str(error))
    return array


def _ipc(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except FileNotFoundError:
        raise _damaged(path, "the file is missing") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, str(error)) from None


def _dictionary(tables: list[pa.Table], name: str) -> tuple[npt.NDArray[np.int32], list[str]]:
    """(codes int32[rows], −1 for null; names)."""
    if not tables:
        return np.empty(0, np.int32), []
    column = pa.concat_tables([table.select([name]) for table in tables]).unify_dictionaries()[name]
    codes = [np.asarray(pc.fill_null(chunk.indices, -1).to_numpy(), np.int32) for chunk in column.chunks]
    names = column.chunks[-1].dictionary.to_pylist() if column.num_chunks else []
    return np.concatenate(codes) if codes else np.empty(0, np.int32), names


def _neighbours(session: I64, order: I64, alive: Bool) -> tuple[I64, I64]:
    """Rows of the turns before and after, within the session, deleted rows left out."""
    previous = np.full(len(session), -1, np.int64)
    following = np.full(len(session), -1, np.int64)
    live = np.flatnonzero(alive)
    reading = live[np.lexsort((live, order[live], session[live]))]
    joined = session[reading][1:] == session[reading][:-1]
    left, right = reading[:-1][joined], reading[1:][joined]
    previous[right], following[left] = left, right
    return previous, following


def _acl(tables: list[pa.Table]) -> tuple[I64, pa.Array]:
    """(row int64[m], name string[m]): one entry for every name in an ACL."""
    rows: list[I64] = []
    names: list[pa.Array] = []
    start = 0
    for table in tables:
        column = table["acl"].combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
        if table.num_rows:
            rows.append(np.asarray(pc.list_parent_indices(column).to_numpy(), np.int64) + start)
            names.append(pc.list_flatten(column))
        start += table.num_rows
    if not rows:
        return np.empty(0, np.int64), pa.array([], pa.string())
    return np.concatenate(rows), pa.concat_arrays(names)
