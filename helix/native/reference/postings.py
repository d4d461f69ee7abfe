"""`search_postings` of `postings.c` in NumPy: the same rows in the same order, with the same scores."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappush, heapreplace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from helix.native.arrays import FLOAT32, INT64, UINT8, UINT16, UINT32, UINT64
from helix.native.reference.memory import divide, view_array, write_array
from helix.types import F32, I64, U8, U16, U32

FEW: Final = 16
"""Postings are few if there is not one in so many rows of a range; as in postings.c."""

_AT_A_TIME: Final = 1024  # scores compared with the lower bound before each is


class _WrongPosting(Exception):
    """A posting outside the rows, or a score that falls when a term is added."""


class _Part(NamedTuple):
    """Ascending rows that have a term, counted from `start`, and how often each has it."""

    row: U32
    one: memoryview  # the same, for reading one at a time
    tf: U16
    start: int


def _read_parts(row_at: int, tf_at: int, size: int, start: int, parts: int, every: int) -> list[_Part]:
    """Return the parts of all terms. Rows ascend, so that checking the last suffices."""
    addresses = [view_array(at, UINT64, parts).tolist() for at in (row_at, tf_at)]
    numbers = [view_array(at, INT64, parts).tolist() for at in (size, start)]
    held = []
    for row, tf, count, first in zip(*addresses, *numbers, strict=True):
        rows = view_array(row, UINT32, count)
        if not 0 <= first <= every or (count and first + int(rows[-1]) >= every):
            raise _WrongPosting
        held.append(_Part(rows, rows.data, view_array(tf, UINT16, count), first))
    return held


def _gallop(row: memoryview, at: int, wanted: int) -> int:
    """Return the first place from `at` on whose row is not below the wanted one: steps that double, then bisection."""
    step = 1
    while at + step <= len(row) and row[at + step - 1] < wanted:
        at += step
        step *= 2
    return bisect_left(row, wanted, at, min(at + step - 1, len(row)))


def _bisect_all(row: U32, begin: int, end: int, wanted: I64) -> I64:
    """Return the first place in [begin, end) whose row is not below each wanted one, or `end`; as C bisects."""
    low, high = np.full(len(wanted), begin), np.full(len(wanted), end)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        is_below = row[np.where(open_, middle, begin)] < wanted
        low = np.where(open_ & is_below, middle + 1, low)
        high = np.where(open_ & ~is_below, middle, high)
    return low


def _split_ascending(place: I64) -> Iterator[slice]:
    """Yield slices of places that ascend, all of them unless the store is damaged: no place is twice in one."""
    for low, high in pairwise([0, *(np.flatnonzero(place[1:] <= place[:-1]) + 1).tolist(), len(place)]):
        yield slice(low, high)


class _TopScores:
    """Rows that may be among the top k, and a lower bound of the k-th best score."""

    def __init__(self, k: int, slack: float, floor: float, room: int) -> None:
        self._k, self._slack, self._room, self._heap = k, np.float32(slack), room, list[float]()
        self.floor, self.rows, self.scores = np.float32(floor), list[int](), list[float]()

    def add(self, row: I64, score: F32) -> None:
        """Add rows in their order, without those below the bound at their turn."""
        for part in divide(len(row), _AT_A_TIME):
            kept = np.flatnonzero(~(score[part] < self.floor)) + part.start
            self._add_some(row[kept].tolist(), score[kept].tolist())

    def _add_some(self, rows: list[int], scores: list[float]) -> None:
        floor = float(self.floor)
        for row, score in zip(rows, scores, strict=True):
            if score < floor:
                continue
            if len(self.rows) == self._room:
                raise _WrongPosting
            self.rows.append(row)
            self.scores.append(score)
            if len(self._heap) < self._k:
                heappush(self._heap, score)
            elif score > self._heap[0]:
                heapreplace(self._heap, score)
            if len(self._heap) == self._k and (reached := self._slack * np.float32(self._heap[0])) > floor:
                self.floor, floor = reached, float(reached)


class _Search(NamedTuple):
    """The arguments of a search, read."""

    span: int  # rows of a range
    look_up: int
    parts: list[_Part]
    first: list[int]
    weight: F32
    rest: F32
    allowed: U8 | None
    norm: F32 | None
    every: int


class _Range:
    """The scores of a range of rows. `touched` are the places that have one, while they are listed."""

    def __init__(self, search: _Search, low: int, scores: F32, following: list[int]) -> None:
        self.search, self.low, self.high = search, low, min(low + search.span, search.every)
        self.scores, self.touched, self.is_listed = scores, np.empty(0, np.int64), True
        self._following = following  # by part: its first posting that no range has read
        self._passes = None if search.allowed is None else search.allowed[low : self.high] != 0
        self._norm = None if search.norm is None else search.norm[low : self.high]
        self._read = 0

    def score(self, essential: int, floor: np.float32) -> None:
        """Add the terms. Those from `essential` on alone cannot lift a row into the top k."""
        search = self.search
        terms = len(search.weight)
        left = sum(len(part.row) for part in search.parts[search.first[essential] :])
        for t in range(terms):
            if t >= essential and not self._narrow(t == essential, floor - search.rest[t], terms - t, left):
                break
            for p in range(search.first[t], search.first[t + 1]):
                self._add_part(p, search.weight[t], t >= essential)
        if not self.is_listed:
            self._keep_scores(floor)

    def _narrow(self, is_first: bool, least: np.float32, terms: int, left: int) -> bool:
        """Drop the rows below `least`; return False if none is left. All rows are listed if that saves work."""
        width = self.high - self.low
        if self.is_listed:
            self._drop_places(least)
        elif is_first:
            remain = int(np.count_nonzero(self.scores[:width] >= least))
            if remain * self.search.look_up * terms < left * width // self.search.every:
                self._keep_scores(least)
                self.is_listed = True
        return not self.is_listed or len(self.touched) > 0

    def _keep_scores(self, least: np.float32) -> None:
        """List the places of the scores from `least` on that pass; the others become 0."""
        here = self.scores[: self.high - self.low]
        if not (here >= 0).all():
            raise _WrongPosting
        kept = (here > 0) & (here >= least)
        if self._passes is not None:
            kept &= self._passes
        here[~kept] = 0
        self.touched = np.flatnonzero(kept)

    def _drop_places(self, least: np.float32) -> None:
        """Drop the listed places whose score is below `least`; it becomes 0."""
        kept = self.scores[self.touched] >= least
        if least > 0 or kept.all():
            self.scores[self.touched[~kept]] = 0
        else:  # scores below 0: a place may be listed twice
            for i, at in enumerate(self.touched.tolist()):
                kept[i] = self.scores[at] >= least
                self.scores[at] = self.scores[at] if kept[i] else 0
        self.touched = self.touched[kept]

    def _add_part(self, p: int, weight: np.float32, is_frequent: bool) -> None:
        """Add the postings of a part that are in the range."""
        part, span = self.search.parts[p], self.search.span
        begin = _gallop(part.one, self._following[p], self.low - part.start)
        end = self._following[p] = _gallop(part.one, begin, self.high - part.start)
        if is_frequent and self.is_listed and len(self.touched) * self.search.look_up < end - begin:
            self._look_up(part, begin, end, weight)
            return
        for some in divide(end - begin, span):
            at = slice(begin + some.start, begin + some.stop)
            place = part.row[at].astype(np.int64) + (part.start - self.low) & 0xFFFFFFFF
            if (place >= self.high - self.low).any():
                raise _WrongPosting
            gain = self._compute_gains(part.tf[at], place, weight)
            self._read += len(place)
            if not is_frequent and self._read > span // FEW:
                self.is_listed = False
            for one in _split_ascending(place):
                self._add_gains(place[one], gain[one], is_frequent)

    def _compute_gains(self, tf: U16, place: I64, weight: np.float32) -> F32:
        count = tf.astype(np.float32)
        gain: F32 = count * weight if self._norm is None else count / (self._norm[place] + count) * weight
        return gain

    def _look_up(self, part: _Part, begin: int, end: int, weight: np.float32) -> None:
        """Add the postings of the listed places."""
        wanted = self.touched + (self.low - part.start)
        at = _bisect_all(part.row, begin, end, wanted)
        found = np.flatnonzero(at < end)
        found = found[part.row[at[found]] == wanted[found]]
        place = self.touched[found]
        np.add.at(self.scores, place, self._compute_gains(part.tf[at[found]], place, weight))

    def _add_gains(self, place: I64, gain: F32, is_frequent: bool) -> None:
        """Add the gains of distinct places and list the new ones. A frequent term adds to places that have a score."""
        if not self.is_listed:
            self.scores[place] += gain
            return
        before = self.scores[place]
        if is_frequent:
            self.scores[place] = before + np.where(before == 0, np.float32(0), gain)
            return
        if self._passes is not None:
            seen = self._passes[place]
            place, gain, before = place[seen], gain[seen], before[seen]
        after = before + gain
        self.scores[place] = after
        self.touched = np.concatenate([self.touched, place[(before == 0) & (after > 0)]])
        if len(self.touched) > self.search.span:
            raise _WrongPosting

    def take_scores(self) -> tuple[I64, F32]:
        """Return (rows, scores) of the listed places, whose scores become 0."""
        found = self.scores[self.touched]
        order = np.arange(len(found))
        first = np.full(self.high - self.low, len(found))
        np.minimum.at(first, self.touched, order)
        found[first[self.touched] != order] = 0  # a place that is listed twice
        self.scores[self.touched] = 0
        return self.touched + self.low, found


@np.errstate(all="ignore")
def search_postings(
    span: int, look_up: int, row_at: int, tf_at: int, size: int, start: int, parts: int, first: int, terms: int,
    weight: int, rest: int, allowed: int | None, norm: int | None, every: int, k: int, slack: float, floor_at: int,
    heap: int, following: int, work: int, room: int, out_row: int, out_score: int,
) -> int:  # fmt: skip
    """Write rows that may be among the top k, with the top k among them, and their scores; raise the lower bound.

    Return the number of rows, −1 for a posting outside all rows or a score that falls when a term is added, −2 if the
    parts do not belong to the terms. `heap`, `following` and `work` are not needed.
    """
    ends, floor = view_array(first, INT64, terms + 1).tolist(), view_array(floor_at, FLOAT32, 1, written=True)
    if ends[0] or ends[-1] != parts or any(low > high for low, high in pairwise(ends)):
        return -2
    try:
        search = _Search(
            span, look_up, _read_parts(row_at, tf_at, size, start, parts, every), ends,
            view_array(weight, FLOAT32, terms), view_array(rest, FLOAT32, terms + 1),
            view_array(allowed, UINT8, every), view_array(norm, FLOAT32, every), every,
        )  # fmt: skip
        best = _TopScores(k, slack, float(floor[0]), room)
        _search_ranges(search, best)
    except _WrongPosting:
        return -1
    write_array(out_row, np.array(best.rows, np.uint32))
    write_array(out_score, np.array(best.scores, np.float32))
    floor[0] = best.floor
    return len(best.rows)


def _search_ranges(search: _Search, best: _TopScores) -> None:
    scores, following = np.zeros(search.span, np.float32), [0] * len(search.parts)
    for low in range(0, search.every, search.span):
        essential = len(search.weight)
        while essential and search.rest[essential - 1] < best.floor:
            essential -= 1
        if not essential:
            return  # no other row can reach the top k
        here = _Range(search, low, scores, following)
        here.score(essential, best.floor)
        best.add(*here.take_scores())
