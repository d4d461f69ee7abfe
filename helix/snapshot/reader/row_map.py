"""Rows of a snapshot: where each is in its segments, and which of them are live."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final

import numpy as np

from helix.errors import UsageError
from helix.snapshot.reader.generation import Generation
from helix.snapshot.segment.arrays import flatten_rows, look_up, select_alive
from helix.snapshot.segment.columns import SnapshotColumns, link_sessions, read_order, relink_sessions
from helix.snapshot.segment.open import OpenSegment
from helix.types import I64, ROLES, U32, U64, AnyArray, Bool

ID_DIGITS: Final = 16

_SHORT_ID: Final = re.compile(rf"[0-9a-f]{{4,{ID_DIGITS - 1}}}")
"""The first digits of an id; fewer than four would name many items."""


class RowMap:
    """Rows of a generation, one after the other over its segments, of which some are live.

    Args:
        alive: bool[rows].
        columns: one entry a row; neighbours are live rows.
        sessions: uint64[s], the keys of the session codes.
        at: seconds, of a view as of a moment; None: now.
    """

    def __init__(
        self, generation: Generation, alive: Bool, columns: SnapshotColumns, sessions: U64, at: int | None = None
    ) -> None:
        self.generation, self.alive, self.columns, self.sessions, self.at = generation, alive, columns, sessions, at
        self.rows, self.segments = generation.rows, generation.segments

    @cached_property
    def live(self) -> int:
        """The number of live rows."""
        return int(self.alive.sum())

    def narrow(self, alive: Bool, at: int | None) -> RowMap:
        """Return the same rows with fewer live ones; columns are shared, neighbours are not.

        As of a moment, projects keep their names: a question asks by them.
        """
        linked = relink_sessions(self.columns, read_order(self.segments), alive, self.alive & ~alive)
        columns = self.columns.replace_links(*linked)
        return RowMap(
            self.generation, alive, columns.rename_projects(alive) if at is None else columns, self.sessions, at
        )

    def exclude(self, sessions: Sequence[int], rows: Sequence[int] = ()) -> RowMap:
        """Return the same rows without those of some sessions, by code, and some others; neighbours stay."""
        rest = copy(self)
        for name in ("live", "whole"):
            vars(rest).pop(name, None)
        rest.alive = self.alive.copy()
        for code in sessions:
            rest.alive &= self.columns.session != code
        rest.alive[list(rows)] = False
        return rest

    # ------------------------------------------------------------ by segment

    def by_segment(self) -> Iterator[tuple[int, OpenSegment]]:
        """Yield each segment after its first row."""
        return zip(self.generation.starts.tolist(), self.segments, strict=True)

    def split(self, rows: AnyArray) -> Sequence[tuple[OpenSegment, I64, I64]]:
        """Return the rows by segment: (segment, positions in `rows`, rows within the segment)."""
        rows = np.asarray(rows, np.int64)
        if len(self.segments) == 1:
            return [(self.segments[0], np.arange(len(rows)), rows)]
        starts = self.generation.starts
        which = starts.searchsorted(rows, "right") - 1
        counts = np.bincount(which)
        parts: list[tuple[OpenSegment, I64, I64]] = []
        for i in counts.nonzero()[0].tolist():
            here = np.arange(len(rows)) if counts[i] == len(rows) else (which == i).nonzero()[0]
            parts.append((self.segments[i], here, rows[here] - starts[i]))
        return parts

    def lists(self, rows: AnyArray, indptr: str, values: str, dtype: Any) -> tuple[I64, AnyArray]:
        """Return the list of each row, from two arrays of its segment: (position in `rows` int64[m], value[m])."""
        positions: list[I64] = []
        found: list[AnyArray] = []
        for segment, here, local in self.split(rows):
            lists, flat = flatten_rows(segment[indptr], local)
            positions.append(here.repeat(lists[1:] - lists[:-1]))
            found.append(segment[values].take(flat))
        return concatenate(positions, np.int64), concatenate(found, dtype)

    @cached_property
    def whole(self) -> dict[int, bool]:
        """By first row of a segment: whether none of its rows is deleted."""
        return {start: bool(self.alive[start : start + segment.rows].all()) for start, segment in self.by_segment()}

    def count_live(self, start: int, rows: U32) -> int:
        """Return how many rows are live, of the segment that begins at `start`."""
        if self.whole[start]:
            return len(rows)
        return int(np.count_nonzero(select_alive(self.alive, start + rows.astype(np.int64))))

    # ------------------------------------------------------------ by item id

    def by_key(self, keys: U64) -> I64:
        """Return the live row of each item key, −1 if it is unknown: int64[len(keys)]."""
        out = np.full(len(keys), -1, np.int64)
        for start, segment in self.by_segment():
            found = look_up(segment["ids.key"], segment["ids.row"], keys)
            row = np.maximum(found, 0) + start
            here = (found >= 0) & self.alive[row] if segment.rows else found >= 0
            out[here] = row[here]
        return out

    def find(self, identity: str) -> int | None:
        """Return the row of an item id; None if no live item has it."""
        try:
            key = np.array([int(identity, 16)], np.uint64)
        except (ValueError, OverflowError):
            return None
        row = int(self.by_key(key)[0])
        return row if row >= 0 else None

    def find_beginning(self, digits: str) -> int | None:
        """Return the row of the only live item whose id begins with these digits; None for no item.

        Raises:
            UsageError: several ids do.
        """
        if not _SHORT_ID.fullmatch(digits):
            return None
        shift = np.uint64(4 * (ID_DIGITS - len(digits)))
        rows = np.flatnonzero((self.columns.key >> shift == np.uint64(int(digits, 16))) & self.alive)
        if len(rows) > 1:
            ids = ", ".join(f"{int(key):016x}" for key in self.columns.key[rows[:5]])
            raise UsageError(f"{len(rows)} items have an id that begins with {digits}", f"give more digits: {ids}")
        return int(rows[0]) if len(rows) else None

    # ------------------------------------------------------------ contents

    def texts(self, rows: AnyArray) -> list[dict[str, Any]]:
        """Read the shown fields of rows: id, text, session, turns, speaker, role, ord, time, project, title, more."""
        out: list[dict[str, Any]] = [{}] * len(rows)
        for segment, here, local in self.split(rows):
            for position, entry in zip(here.tolist(), segment.texts(local), strict=True):
                out[position] = entry
        columns = self.columns
        for entry, role, place in zip(out, columns.role[rows].tolist(), columns.ord[rows].tolist(), strict=True):
            entry["role"], entry["ord"] = ROLES[role], place
        if self.columns.renamed:
            for entry, code in zip(out, self.columns.project[rows].tolist(), strict=True):
                entry["project"] = self.columns.projects[code]
        return out

    def signatures(self, rows: AnyArray) -> U32:
        """Return MinHash signatures: uint32[len(rows), 64]."""
        out = np.empty((len(rows), 64), np.uint32)
        for segment, here, local in self.split(rows):
            found = segment["minhash"].take(local, axis=0)
            if len(local) == len(rows):
                return found
            out[here] = found
        return out


def map_rows(generation: Generation) -> RowMap:
    """Return the rows of a whole generation."""
    alive = generation.undeleted
    session, previous, following, sessions = link_sessions(generation.segments, generation.starts, alive)
    columns = SnapshotColumns(generation.segments, session, previous, following, alive)
    return RowMap(generation, alive, columns, sessions)


def concatenate(parts: Sequence[AnyArray], dtype: Any) -> AnyArray:
    """Join arrays; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype)


def owners_of(low: I64, high: I64) -> tuple[I64, I64]:
    """Return the elements of the ranges low[i] to high[i] in turn: (i of each element, the element)."""
    size = high - low
    owner = np.arange(len(low)).repeat(size)
    return owner, np.arange(len(owner)) + (low - size.cumsum() + size)[owner]
