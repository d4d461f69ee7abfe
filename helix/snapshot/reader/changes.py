"""Changes between the live rows of a snapshot: which row is superseded, since when, and by which.

Three sources agree in one answer: links of the index of changes, found by topic, facts of one slot that exclude each
other, and notes that correct an item. All follow from live rows only, so forgetting the newer row restores the older.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.index.changes import join_judgements, mix_contents
from helix.snapshot.reader.facts import Facts
from helix.snapshot.reader.row_map import RowMap, owners_of
from helix.snapshot.reader.steps import CORRECT, Steps
from helix.snapshot.segment.batch import NO_TIME
from helix.types import F32, I64, U64, AnyArray, Bool

BY_FACT: Final = np.float32(0.95)
"""Certainty of a change between facts of one slot."""

MARKED: Final = 0.93
"""Least certainty of a link that marks its old row as superseded."""


class Links(NamedTuple):
    """Links by old row: p of them, ascending."""

    old: I64
    new: I64
    certainty: F32


class Settled(NamedTuple):
    """All changes as they stand at any moment from `begin` to before `end`, in seconds."""

    begin: int
    end: int
    links: Links


class Changes:
    """The changes between live rows."""

    def __init__(self, rows: RowMap, facts: Facts, steps: Steps) -> None:
        self._rows, self._facts, self._steps = rows, facts, steps

    def warm(self) -> None:
        """Compute what a recall looks up."""
        _ = self._newest, self._either_end

    @cached_property
    def links(self) -> Links:
        """All links between live rows, by old row and then by time of the new one."""
        found = join_judgements(self._rows.generation.changes).links
        before, after = self._rows.by_key(found.old), self._rows.by_key(found.new)
        here = np.flatnonzero((before >= 0) & (after >= 0))
        before, after = before[here], after[here]
        project = self._rows.columns.project  # as it is named now: two repositories may have had one name
        valid = mix_contents(self._read_contents(before), self._read_contents(after)) == found.content[here]
        valid &= project[before] == project[after]
        before, after, certainty = before[valid], after[valid], found.certainty[here[valid]]
        old, new = self._list_corrections()
        before, after = np.concatenate([before, old]), np.concatenate([after, new])
        certainty = np.concatenate([certainty, np.ones(len(old), np.float32)])
        order = np.lexsort((after, self.said_at[after], before))
        return Links(before[order], after[order], certainty[order])

    def _list_corrections(self) -> tuple[I64, I64]:
        """Return (corrected row int64[m], row of the note that corrects it int64[m])."""
        columns = self._steps.columns
        steps = np.flatnonzero((columns.action == CORRECT) & self._rows.alive[columns.row])
        pairs = [(self._rows.find(entry["target"]), entry["row"]) for entry in self._steps.read(steps)]
        known = np.array([(old, new) for old, new in pairs if old is not None], np.int64).reshape(-1, 2)
        return known[:, 0], known[:, 1]

    def _read_contents(self, rows: I64) -> U64:
        """Return the digests of rows' contents: uint64[len(rows)]."""
        out = np.empty(len(rows), np.uint64)
        for segment, here, local in self._rows.split(rows):
            out[here] = segment.column("content")[local]
        return out

    @cached_property
    def said_at(self) -> I64:
        """Time at which each row was said, in seconds; the place of an undated one: int64[rows]."""
        return self._rows.columns.place

    def find_later(self, rows: AnyArray, at: int) -> tuple[I64, I64, F32]:
        """Find what changes rows by a moment, in seconds, and how certainly.

        Returns:
            (position in `rows` int64[m], the later row int64[m], certainty float32[m]); a pair may come twice.
        """
        rows = np.asarray(rows, np.int64)
        some = np.flatnonzero(self.changing[rows])
        if not len(some):
            return some, some, np.empty(0, np.float32)
        now = self._newest
        if not now.begin <= at < now.end:
            owner, new, certainty = self._compute_later(rows[some], at)
            return some[owner], new, certainty
        low, high = (now.links.old.searchsorted(rows[some], side) for side in ("left", "right"))
        owner, place = owners_of(low, high)
        return some[owner], now.links.new[place], now.links.certainty[place]

    def _compute_later(self, rows: I64, at: int) -> tuple[I64, I64, F32]:
        low, high = (self.links.old.searchsorted(rows, side) for side in ("left", "right"))
        owner, place = owners_of(low, high)
        new, certainty = self.links.new[place], self.links.certainty[place]
        stale = np.flatnonzero(self._facts.stale(rows, at))
        if len(stale):
            of, by_fact = self._facts.successors(rows[stale], at)
            owner, new = np.concatenate([owner, stale[of]]), np.concatenate([new, by_fact])
            certainty = np.concatenate([certainty, np.full(len(of), BY_FACT, np.float32)])
        said = (self.said_at[new] <= at) & (new != rows[owner])
        return owner[said], new[said], certainty[said]

    @cached_property
    def _newest(self) -> Settled:
        """The changes since the newest item was said, until the next moment at which something begins or ends."""
        facts = self._facts.columns
        turning = [self.said_at[self.links.new], self.said_at[facts.row], facts.t_valid, self._facts.ends]
        times = np.unique(np.concatenate(turning))
        newest = int(self.said_at[self._rows.alive].max(initial=NO_TIME))
        next_ = int(times.searchsorted(newest, "right"))
        end = int(times[next_]) if next_ < len(times) else int(np.iinfo(np.int64).max)
        rows = np.flatnonzero(self.changing)
        owner, new, certainty = self._compute_later(rows, newest)
        order = np.argsort(owner, kind="stable")
        return Settled(newest, end, Links(rows[owner[order]], new[order], certainty[order]))

    @cached_property
    def changing(self) -> Bool:
        """Rows that a link or the end of a fact may supersede at some moment: bool[rows]."""
        out = self._facts.ending.copy()
        out[self.links.old] = True
        return out

    def touch(self, rows: AnyArray) -> bool:
        """Return whether any of the rows is at either end of a change."""
        return bool(self._either_end[rows].any())

    @cached_property
    def _either_end(self) -> Bool:
        """Rows at either end of a change at some moment: bool[rows]."""
        out = self.changing.copy()
        out[self.links.new] = True
        return out

    def find_earlier(self, rows: AnyArray) -> tuple[I64, I64, F32]:
        """Find the links to rows: (position in `rows` int64[m], the earlier row int64[m], certainty float32[m])."""
        low, high = (self._by_new[0].searchsorted(rows, side) for side in ("left", "right"))
        owner, place = owners_of(low, high)
        link = self._by_new[1][place]
        return owner, self.links.old[link], self.links.certainty[link]

    @cached_property
    def _by_new(self) -> tuple[I64, I64]:
        """(new rows, ascending; the link of each)."""
        order = np.argsort(self.links.new, kind="stable")
        return self.links.new[order], order

    def are_superseded(self, rows: AnyArray, at: int) -> Bool:
        """Return which rows are superseded at a moment, in seconds: bool[len(rows)]."""
        return self.successors(rows, at) >= 0

    def successors(self, rows: AnyArray, at: int) -> I64:
        """Return the row that supersedes each row at a moment, −1 for none: int64[len(rows)].

        It is the newest one that was said by then, at the end of a chain of changes.

        Args:
            rows: int64[n], live.
            at: the moment, in seconds.
        """
        rows = np.asarray(rows, np.int64)
        found = self._next(rows, at)
        for _ in range(_STEPS):
            on = np.flatnonzero(found >= 0)
            if not len(on):
                break
            further = self._next(found[on], at)
            moved = (further >= 0) & (further != rows[on]) & (self._place(further) > self._place(found[on]))
            if not moved.any():
                break
            found[on[moved]] = further[moved]
        return found

    def _next(self, rows: I64, at: int) -> I64:
        """Return the newest row that directly supersedes each row by a moment, −1 for none."""
        owner, new, certainty = self.find_later(rows, at)
        sure = certainty >= MARKED
        owner, new = owner[sure], new[sure]
        newest = np.full(len(rows), -1, np.int64)
        order = np.lexsort((new, self.said_at[new], owner))
        newest[owner[order]] = new[order]  # the last one of each wins
        return newest

    def _place(self, rows: I64) -> AnyArray:
        """Return numbers that order rows by time, then by row."""
        return self.said_at[rows] * np.int64(1 << 28) + rows

    def find_superseded(self, at: int) -> I64:
        """Return all rows, ascending, that are superseded at a moment, in seconds."""
        maybe = np.union1d(np.unique(self.links.old[self.links.certainty >= MARKED]), self._facts.find_superseded(at))
        return maybe[self.are_superseded(maybe, at)]

    def find_outdated(self, at: int) -> I64:
        """Return all rows, ascending, that are superseded at a moment, in seconds, or of whose facts none holds."""
        linked = np.unique(self.links.old[self.links.certainty >= MARKED])
        return np.union1d(linked[self.are_superseded(linked, at)], self._facts.find_superseded(at))


_STEPS: Final = 32  # changes of one chain that are followed
