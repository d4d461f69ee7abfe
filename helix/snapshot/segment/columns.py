"""Per-row columns over all segments, the ACL of each row, and the reading order of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.native.arrays import explain_damage
from helix.native.zones import Zones, build_zones
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.open import OpenSegment
from helix.snapshot.segment.projects import NameColumn, hash_scopes, resolve_projects
from helix.types import I32, I64, U32, U64, AnyArray, Bool
from helix.util.undated import SHIFT

D = TypeVar("D", bound=np.generic)

_FEW = 4  # rows: shorter zones would cost more memory than the reading they save


def _join_column(name: str, dtype: type[D]) -> cached_property[npt.NDArray[D]]:
    """Return a property that joins a column over the segments on first use; that of one segment stays mapped."""

    def join(columns: SnapshotColumns) -> npt.NDArray[D]:
        arrays = [segment.column(name) for segment in columns.segments]
        if len(arrays) == 1:
            return arrays[0].astype(dtype, copy=False)
        return np.concatenate(arrays, dtype=dtype) if arrays else np.empty(0, dtype)

    return cached_property(join)


class SnapshotColumns:
    """One entry per row of the snapshot, joined over the segments on first use.

    Codes index the list of names of the same column; −1 is none.
    """

    def __init__(
        self, segments: Sequence[OpenSegment], session: I32, previous: I32, following: I32, alive: Bool
    ) -> None:
        self.segments = segments
        self.session = session  # dense code of the session
        self.previous = previous  # row of the turn before in the session, −1 at its start
        self.next = following
        tables = [segment.columns for segment in segments]
        self.speaker, self.speakers = NameColumn.join(tables, "speaker")
        self.workspace, self.workspaces = self._workspaces = NameColumn.join(tables, "workspace")
        self._stored_projects = NameColumn.join(tables, "project")
        self._zones: dict[str, Zones] = {}  # views share them: but for projects, columns do not depend on the view
        self._resolve_projects(alive)

    def _resolve_projects(self, alive: Bool) -> None:
        """Name the projects of the live rows."""
        found = resolve_projects(self._stored_projects, self._workspaces, alive)
        (self.project, self.projects), self.renamed = found.projects, found.renamed

    def replace_links(self, session: I32, previous: I32, following: I32) -> SnapshotColumns:
        """Return the same columns with other neighbours."""
        other = copy(self)
        other.session, other.previous, other.next = session, previous, following
        return other

    def rename_projects(self, alive: Bool) -> SnapshotColumns:
        """Return the same columns with the projects of fewer live rows, which no other row has a part in."""
        other = copy(self)
        other._resolve_projects(alive)
        if other.renamed != self.renamed:
            other._zones = {name: zones for name, zones in self._zones.items() if name != "project"}
        return other

    @property
    def stored_projects(self) -> NameColumn:
        """The project that each row's workspace alone, or the caller, gave it: the same in every view."""
        return self._stored_projects

    @property
    def fact_scopes(self) -> U64 | None:
        """Numbers that tell the facts of renamed projects apart: uint64[rows]; None if no project is renamed."""
        return hash_scopes(self._workspaces, self.renamed) if self.renamed else None

    def zones(self, name: str) -> Zones:
        """Return the least and the greatest value of a column in runs of rows, computed on first use.

        Args:
            name: "time", "project" or "type".
        """
        if name not in self._zones:
            # A session has one project and close times; the type changes from item to item.
            first = np.empty(0, np.int64) if name == "type" else self._find_session_starts()
            self._zones[name] = build_zones(getattr(self, name), first)
        return self._zones[name]

    def _find_session_starts(self) -> I64:
        """Return rows where the session changes; one for every few rows."""
        first = np.flatnonzero(np.diff(self.session, prepend=-1))
        return first[np.flatnonzero(np.diff(first // _FEW, prepend=-1))]

    key = _join_column("key", np.uint64)  # item id as a number: the tie key
    time = _join_column("time", np.int64)  # seconds since 1970 UTC; NO_TIME if unknown, or only that of the file
    t_valid = _join_column("t_valid", np.int64)  # start of validity, in seconds
    t_invalid = _join_column("t_invalid", np.int64)  # end of validity, in seconds; NO_TIME if it is open
    t_ingested = _join_column("t_ingested", np.int64)  # time of ingestion, in seconds
    accepted = _join_column("accepted", np.int64)  # time of ingestion, in microseconds
    salience = _join_column("salience", np.float32)  # in [0, 1]
    confidence = _join_column("confidence", np.float32)  # in [0, 1]
    priority = _join_column("priority", np.float32)  # 1 to 2
    type = _join_column("type", np.uint8)  # position in TYPES
    role = _join_column("role", np.uint8)  # position in ROLES
    ord = _join_column("ord", np.uint32)  # position in the reading order of its session
    tokens = _join_column("tokens", np.uint32)  # word pieces of the text
    length = _join_column("length", np.float32)  # terms
    near = _join_column("near", np.uint64)  # key of the earlier item it is a near-duplicate of, 0 for none

    @cached_property
    def place(self) -> I64:
        """Place of each row in the order of time, in seconds; see `helix.util.undated`: int64[rows]."""
        return np.where(self.time == NO_TIME, self.t_valid - SHIFT, self.time)

    @cached_property
    def ends(self) -> I64:
        """Rows with an end of validity, ascending: few, if any."""
        return np.flatnonzero(self.t_invalid != NO_TIME)


def link_sessions(segments: Sequence[OpenSegment], starts: I64, alive: Bool) -> tuple[I32, I32, I32, U64]:
    """Find each row's session and its neighbours there, deleted rows left out.

    Each segment stores its own reading order. Only sessions in several segments, or with deleted rows, are sorted.

    Returns:
        (session code int32[rows], previous int32[rows], next int32[rows], −1 at either end; session keys uint64[s]).

    Raises:
        StoreError: a row belongs to no session.
    """
    n = len(alive)
    keys = np.unique(np.concatenate([np.empty(0, np.uint64), *(segment["sessions.key"] for segment in segments)]))
    session = np.full(n, -1, np.int32)
    order = read_order(segments)
    previous, following = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    parts = np.zeros(len(keys), np.int32)
    for start, segment in zip(starts.tolist(), segments, strict=True):
        code = np.searchsorted(keys, segment["sessions.key"]).astype(np.int32)
        parts[code] += 1
        row = start + segment["sessions.rows"].astype(np.int64)
        owner = np.repeat(code, np.diff(segment["sessions.indptr"]))
        session[row] = owner
        joined = owner[1:] == owner[:-1]
        left, right = row[:-1][joined], row[1:][joined]
        previous[right], following[left] = left, right
    if n and session.min() < 0:
        raise explain_damage(f"the row {session.argmin()} belongs to no session")
    broken = parts > 1
    broken[session[~alive]] = True
    if broken.any():
        _link_rows(np.flatnonzero(broken[session]), session, previous, following, order, alive)
    return session, previous, following, keys


def read_order(segments: Sequence[OpenSegment]) -> U32:
    """Read the position of each row in its session's reading order: uint32[rows]."""
    return np.concatenate([np.empty(0, np.uint32), *(segment.column("ord") for segment in segments)])


def relink_sessions(columns: SnapshotColumns, order: U32, alive: Bool, lost: Bool) -> tuple[I32, I32, I32]:
    """Relink the sessions of rows that a view leaves out; returns as `link_sessions`, without the keys."""
    previous, following = columns.previous.copy(), columns.next.copy()
    broken = np.zeros(int(columns.session.max(initial=-1)) + 1, bool)
    broken[columns.session[lost]] = True
    _link_rows(np.flatnonzero(broken[columns.session]), columns.session, previous, following, order, alive)
    return columns.session, previous, following


def _link_rows(rows: AnyArray, session: I32, previous: I32, following: I32, order: U32, alive: Bool) -> None:
    """Link the rows of whole sessions, in place."""
    previous[rows] = following[rows] = -1
    rows = rows[alive[rows]]
    reading = rows[np.lexsort((rows, order[rows], session[rows]))]
    joined = session[reading][1:] == session[reading][:-1]
    left, right = reading[:-1][joined], reading[1:][joined]
    previous[right], following[left] = left, right


def list_acl(tables: list[pa.Table]) -> tuple[I64, pa.Array]:
    """List (row int64[m], name string[m]): one entry for every name in an ACL."""
    rows: list[I64] = []
    names: list[pa.Array] = []
    start = 0
    for table in tables:
        column = table["acl"].combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
        if table.num_rows:
            offsets = column.offsets.to_numpy()
            rows.append(np.arange(start, start + table.num_rows).repeat(offsets[1:] - offsets[:-1]))
            names.append(column.values.slice(offsets[0], offsets[-1] - offsets[0]))
        start += table.num_rows
    if not rows:
        return np.empty(0, np.int64), pa.array([], pa.string())
    return np.concatenate(rows), pa.concat_arrays(names)


def list_distinct(names: pa.Array) -> frozenset[str]:
    """Return the distinct strings of a string array without nulls, without an Arrow scalar for each."""
    if not len(names):
        return frozenset()
    _, ends, letters = names.buffers()
    at = np.frombuffer(ends, np.int32)[names.offset : names.offset + len(names) + 1].tolist()
    data = memoryview(letters or b"").tobytes()
    return frozenset(word.decode() for word in {data[start:stop] for start, stop in pairwise(at)})
