"""Stage 3, lexical leg: exact BM25, without scoring every posting.

MaxScore (Turtle & Flood 1995), a term at a time, rarest first. As long as a row that only the terms ahead know could
be one of the k best, postings are scattered into an array of scores. From then on no row is new: the terms ahead only
add to the rows that can still get there. Either way a row's terms are added in the same order, so its score has the
same bits as if every posting had been scored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from helix.bm25 import Norms, gain, idf
from helix.native import Best
from helix.topk import top_k
from helix.types import F32, U32, U64, Bool, Leg, Plan, Query

Rows = npt.NDArray[np.intp]
TFs = npt.NDArray[np.uint16]
Part = tuple[int, U32, TFs]  # postings: the row they count from, rows ascending, term frequencies

_LOOK_UP: Final = 25
"""To find one row among postings costs as much as to read so many of them in a row."""

_BLOCK: Final = 1 << 16
"""Postings worked on at a time: they stay in a processor's own cache."""

_SMALL: Final = 1 << 15
"""Postings of a term in a segment that are not worth calls of their own."""

_MANY: Final = 8
"""Where one row in so many has a score, going through all scores beats sorting those rows."""

_TINY: Final = float(np.finfo(np.float32).tiny)
"""Less than any score, more than none."""


class Field(Protocol):
    """What is searched: postings and the statistics BM25 needs."""

    @property
    def rows(self) -> int:
        """Rows of the snapshot."""

    @property
    def live(self) -> int:
        """Rows that count."""

    @property
    def norm(self) -> Norms:
        """What the lengths of the rows do to their terms."""

    @property
    def key(self) -> U64:
        """uint64[rows]: the tie key."""

    def term(self, term: np.uint64) -> list[Part]:
        """Postings of a term, in ascending parts."""

    def df(self, term: np.uint64) -> int:
        """Rows that count and hold the term."""


class _Term(NamedTuple):
    weight: float  # idf
    most: float  # what a row can gain from it: tf / (tf + …) is below 1
    size: int  # postings, deleted rows included
    parts: list[Part]


def search_lexical(query: Query, snap: Field, plan: Plan, k: int, k1: float, b: float, name: str = "bm25") -> Leg:
    """The k best allowed rows by BM25, best first, ties to the smaller id. Statistics are of the whole field,
    whatever the filter; rows that hold none of the terms are never in it.

    Args:
        snap: the field that is searched; a snapshot is that of the items' own text.
        name: of the leg.
    """
    terms = _terms(query, snap, k1)
    if k <= 0 or not terms:
        return Leg(name, np.empty(0, np.uint32), np.empty(0, np.float32))
    rest = np.cumsum([0.0, *(term.most for term in reversed(terms))])[::-1].tolist()  # rest[i]: terms i and on, at most
    slack = 1 - (len(terms) + 8) * 2.0**-23  # scores and bounds are rounded apart; this is more than that can make

    norm, allowed, best = snap.norm(k1, b), plan.allowed, Best(k, slack)
    few = np.flatnonzero(allowed) if allowed is not None and _LOOK_UP * plan.allowed_rows < snap.rows else None
    scores, touched, done = _borrow(snap.rows), list[Rows](), 0
    while done < len(terms) and rest[done] >= best.floor[0]:
        term, done = terms[done], done + 1
        best.next_term()
        for start, local, tf in term.parts if few is None else _narrow(term, few):
            gives = term.weight * (k1 + 1)
            touched.append(best.add(local, tf, start, allowed, norm, gives, scores, rest[done]))

    floor = float(best.floor[0])
    rows = _reaching(scores, touched, max(floor - rest[done], _TINY))
    for term, ahead in zip(terms[done:], rest[done:], strict=False):
        so_far = scores.take(rows)
        floor = max(floor, slack * _kth(so_far, k))
        least = max(floor - ahead, _TINY)
        rows = rows.compress(so_far >= least)
        for found, tf in _postings(term, rows, scores, least):
            scores[found] += gain(tf, norm.take(found), term.weight, k1)

    final = scores.take(rows)
    _give_back(scores, touched)
    rows, final = _pick(final >= _kth(final, k), rows, final)
    order = top_k(final, snap.key.take(rows), k)
    return Leg(name, rows[order].astype(np.uint32), final[order])


def lexical_score(query: Query, snap: Field, row: int, k1: float, b: float) -> float:
    """What the search gives one row; 0 where it holds none of the terms."""
    score, norm = np.zeros(1, np.float32), snap.norm(k1, b)
    for term in _terms(query, snap, k1):
        for rows, tf in _look_up(term, np.array([row])):
            score[: len(rows)] += gain(tf, norm.take(rows), term.weight, k1)
    return float(score[0])


def _terms(query: Query, snap: Field, k1: float) -> list[_Term]:
    """The terms that some segment holds, rarest first, among equals the smaller hash."""
    found = []
    for hashed in query.terms:
        parts = snap.term(hashed)
        if parts:
            size = sum(len(local) for _, local, _ in parts)
            df = size if snap.live == snap.rows else snap.df(hashed)
            weight = float(idf(df, snap.live))
            found.append((df, int(hashed), _Term(weight, weight * (k1 + 1), size, _joined(parts))))
    return [term for *_, term in sorted(found, key=lambda entry: entry[:2])]


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbouring small segments as one: many short arrays cost more in calls than in work."""
    joined: list[Part] = []
    for small, neighbours in groupby(parts, key=lambda part: len(part[1]) < _SMALL):
        run = list(neighbours)
        if small and len(run) > 1:
            rows = np.concatenate([local + np.uint32(start) for start, local, _ in run])
            run = [(0, rows, np.concatenate([tf for *_, tf in run]))]
        joined += run
    return joined


def _postings(term: _Term, among: Rows, values: npt.NDArray[Any], least: float) -> Iterator[tuple[Rows, TFs]]:
    """(rows intp[m] ascending, term frequencies) of a term within the rows `among`, ascending: those, and no others,
    whose `values` reach `least`. Looked up where they are few, else all postings are read and `values` asked.
    """
    if _LOOK_UP * len(among) < term.size:
        yield from _look_up(term, among)
    else:
        for rows, tf in _scan(term):
            rows, tf = _pick(values.take(rows) >= least, rows, tf)
            yield rows, tf


def _narrow(term: _Term, few: Rows) -> Iterator[tuple[int, U32, TFs]]:
    """The parts of a term, but for those where the few allowed rows are looked up in less time than all are read."""
    for start, local, tf in term.parts:
        if _LOOK_UP * len(few) < len(local):
            for rows, found in _look_up(_Term(term.weight, term.most, len(local), [(start, local, tf)]), few):
                yield 0, rows.astype(np.uint32), found
        else:
            yield start, local, tf


def _scan(term: _Term) -> Iterator[tuple[Rows, TFs]]:
    """All postings, block by block: (rows of the snapshot intp[p] ascending, term frequencies)."""
    for start, local, tf in term.parts:
        for low in range(0, len(local), _BLOCK):
            rows = local[low : low + _BLOCK].astype(np.intp)
            yield rows + start if start else rows, tf[low : low + _BLOCK]


def _look_up(term: _Term, rows: Rows) -> Iterator[tuple[Rows, TFs]]:
    """Those of the rows, ascending, that hold the term, segment by segment."""
    for start, local, tf in term.parts:
        low, high = rows.searchsorted((start + int(local[0]), start + int(local[-1]) + 1)).tolist()
        here, there = _common((rows[low:high] - start).astype(np.uint32), local)
        yield rows[low:high].take(here), tf.take(there)


def _common(a: U32, b: U32) -> tuple[Rows, Rows]:
    """Positions in each of what both hold; ascending, without repeats. Searches the shorter in the longer."""
    if len(a) > len(b):
        there, here = _common(b, a)
        return here, there
    at = np.minimum(b.searchsorted(a), len(b) - 1)
    hit = np.flatnonzero(b.take(at) == a)
    return hit, at.take(hit)


def _pick(mask: Bool, *arrays: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Where the mask holds, of each array; faster than indexing with it."""
    at = np.flatnonzero(mask)
    return [array.take(at) for array in arrays]


def _kth(scores: F32, k: int) -> float:
    """The k-th best; 0 where there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else 0.0


def _reaching(scores: F32, touched: list[Rows], least: float) -> Rows:
    """The touched rows with a score of at least `least`, ascending."""
    if _MANY * sum(map(len, touched)) > len(scores):
        return np.flatnonzero(scores >= least)
    rows = np.concatenate(touched)
    return np.sort(rows.compress(scores.take(rows) >= least), kind="stable")  # a merge: each list is ascending


_spare = threading.local()


def _borrow(rows: int) -> F32:
    """float32[rows], all zero. The thread's last one is used again: a fresh one costs more than many a search."""
    scores: F32 | None = _spare.__dict__.pop("scores", None)
    return scores if scores is not None and len(scores) == rows else np.zeros(rows, np.float32)


def _give_back(scores: F32, touched: list[Rows]) -> None:
    """Zero again, and kept for the next search; what a failed one leaves behind is not."""
    for rows in touched:
        scores[rows] = 0
    _spare.scores = scores
