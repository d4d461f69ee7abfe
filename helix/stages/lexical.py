"""Stage 3, lexical leg: exact BM25, without scoring every posting.

MaxScore (Turtle & Flood 1995), a term at a time, rarest first. While a row that only the terms ahead know could still be
one of the k best, their postings are scattered into an array of scores. From then on no row is new: the terms
ahead only add to the rows that can still get there. A row's terms are added in the same order either way, so its
score is the same bits as if every posting had been scored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.bm25 import gain, idf, most
from helix.topk import top_k
from helix.types import F32, U32, Leg, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot

Rows = npt.NDArray[np.intp]
TFs = npt.NDArray[np.uint16]

_LOOK_UP: Final = 25
"""To find one row among postings costs as much as to read so many of them in a row."""

_LONG: Final = 50_000
"""Postings that are worth scoring the k best so far in full first: a higher floor saves more than that costs."""

_SPARSE: Final = 16
"""One row in so many: with more of them, going through all rows is faster than picking them."""


class _Term(NamedTuple):
    weight: float  # idf
    most: float  # a row's gain from it, at most
    size: int  # postings, deleted rows included
    parts: Sequence[tuple[int, U32, TFs]]  # segment by segment: first row, rows within it, term frequencies


def search_lexical(query: Query, snap: Snapshot, plan: Plan, k: int, k1: float, b: float) -> Leg:
    """The k best allowed rows by BM25, best first, ties to the smaller id. Statistics are of the whole snapshot,
    whatever the filter; rows that hold none of the terms are never in it.
    """
    terms = _terms(query, snap, k1, b)
    if k <= 0 or not terms:
        return Leg("bm25", np.empty(0, np.uint32), np.empty(0, np.float32))
    rest = np.cumsum([0.0, *(term.most for term in reversed(terms))])[::-1].tolist()  # rest[i]: terms i and on, at most
    slack = 1 - (len(terms) + 8) * 2.0**-23  # bounds are sums of their own: what rounding may differ

    def add(term: _Term, rows: Rows, tf: TFs) -> F32:
        return gain(tf, snap.columns.length.take(rows), term.weight, snap.mean_length, k1, b)

    narrow = plan.allowed is not None and 2 * plan.allowed_rows < snap.rows
    allowed_rows = np.flatnonzero(plan.allowed) if narrow else None
    scores, touched = _borrow(snap.rows), []
    floor, done = 0.0, 0  # the k-th best score is at least `floor`
    while done < len(terms) and rest[done] >= floor:
        term, done = terms[done], done + 1
        rows, tf = _scan(term) if allowed_rows is None else _postings(term, allowed_rows, plan.allowed, True)
        before = scores.take(rows)
        after = before + add(term, rows, tf)
        keep = np.flatnonzero(after >= floor - rest[done])  # no other can get there any more
        if plan.allowed is not None and not narrow:
            keep = keep[plan.allowed.take(rows.take(keep))]
        rows, before, after = rows.take(keep), before.take(keep), after.take(keep)
        scores[rows] = after
        touched.append(rows[before == 0])
        floor = max(floor, slack * _kth(after, k))
        if len(rows) >= k and done < len(terms) and (rest[done] < floor or terms[done].size > _LONG):
            best = np.sort(np.argpartition(after, -k)[-k:])
            floor = max(floor, slack * _least_in_full(rows.take(best), after.take(best), terms[done:], add))

    rows = _reaching(scores, touched, floor - rest[done])
    for term, ahead in zip(terms[done:], rest[done:], strict=False):
        so_far = scores.take(rows)
        floor = max(floor, slack * _kth(so_far, k))
        rows = rows[so_far >= floor - ahead]
        found, tf = _postings(term, rows, scores, floor - ahead)
        scores[found] += add(term, found, tf)

    final = scores.take(rows)
    _give_back(scores, touched)
    best = np.flatnonzero(final >= _kth(final, k))
    rows, final = rows.take(best), final.take(best)
    best = top_k(final, snap.columns.key.take(rows), k)
    return Leg("bm25", rows[best].astype(np.uint32), final[best])


def _terms(query: Query, snap: Snapshot, k1: float, b: float) -> list[_Term]:
    """The terms that some segment holds, rarest first."""
    found = []
    for hashed in query.terms:
        parts = snap.term(hashed)
        if parts:
            df = snap.df(hashed)
            weight = float(idf(df, snap.live))
            ceiling = most(max([int(tf.max()) for _, _, tf in parts]), weight, k1, b)
            size = sum([len(rows) for _, rows, _ in parts])
            found.append((df, int(hashed), _Term(weight, ceiling, size, parts)))
    return [term for *_, term in sorted(found, key=lambda entry: entry[:2])]


def _postings(term: _Term, among: Rows, values: npt.NDArray[Any], least: float) -> tuple[Rows, TFs]:
    """(rows intp[m] ascending, term frequencies): a term's postings in the rows `among`, which are ascending and have
    `values` of at least `least`; by look-ups where they are few, else by reading all and asking `values`, where other rows
    may pass that have such a value.
    """
    if _LOOK_UP * len(among) < term.size:
        at, tf = _look_up(term, among)
        return among.take(at), tf
    rows, tf = _scan(term)
    keep = np.flatnonzero(values.take(rows) >= least)
    return rows.take(keep), tf.take(keep)


def _scan(term: _Term) -> tuple[Rows, TFs]:
    """All postings: (rows of the snapshot intp[p] ascending, term frequencies)."""
    if len(term.parts) == 1:
        start, local, tf = term.parts[0]
        return local.astype(np.intp) + start, tf
    rows, end = np.empty(term.size, np.intp), 0
    for start, local, _ in term.parts:
        np.add(local, np.uint32(start), out=rows[end : end + len(local)])
        end += len(local)
    return rows, np.concatenate([tf for _, _, tf in term.parts])


def _look_up(term: _Term, rows: Rows) -> tuple[Rows, TFs]:
    """(positions in `rows`, which are ascending, of those that hold the term; term frequencies)."""
    at: list[Rows] = [np.empty(0, np.intp)]
    tfs: list[TFs] = [np.empty(0, np.uint16)]
    for start, local, tf in term.parts:
        low, high = rows.searchsorted((start + int(local[0]), start + int(local[-1]) + 1)).tolist()
        here, there = _common((rows[low:high] - start).astype(np.uint32), local)
        at.append(here + low)
        tfs.append(tf.take(there))
    return np.concatenate(at), np.concatenate(tfs)


def _common(a: U32, b: U32) -> tuple[Rows, Rows]:
    """Positions in each of what both hold; ascending, without repeats. Searches the shorter in the longer."""
    if len(a) > len(b):
        there, here = _common(b, a)
        return here, there
    at = np.minimum(b.searchsorted(a), len(b) - 1)
    hit = np.flatnonzero(b.take(at) == a)
    return hit, at.take(hit)


def _least_in_full(rows: Rows, scores: F32, terms: list[_Term], add: Callable[[_Term, Rows, TFs], F32]) -> float:
    """The smallest score of these rows once the terms ahead are in; `scores` is overwritten."""
    for term in terms:
        at, tf = _look_up(term, rows)
        scores[at] += add(term, rows.take(at), tf)
    return float(scores.min())


def _kth(scores: F32, k: int) -> float:
    """The k-th best; 0 where there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else 0.0


def _reaching(scores: F32, touched: list[Rows], least: float) -> Rows:
    """The touched rows with a score of at least `least`, ascending."""
    if _SPARSE * sum(map(len, touched)) > len(scores):
        return np.flatnonzero(scores >= max(least, float(np.finfo(np.float32).tiny)))
    rows = np.concatenate(touched)
    return np.sort(rows[scores.take(rows) >= least])


_spare = threading.local()


def _borrow(rows: int) -> F32:
    """float32[rows], all zero. The thread's last one is used again: a fresh one costs more than many a search."""
    scores: F32 | None = _spare.__dict__.pop("scores", None)
    return scores if scores is not None and len(scores) == rows else np.zeros(rows, np.float32)


def _give_back(scores: F32, touched: list[Rows]) -> None:
    """Zero again and kept; one that a failed search left behind is not."""
    if _SPARSE * sum(map(len, touched)) > len(scores):
        scores.fill(0)
    else:
        for rows in touched:
            scores[rows] = 0
    _spare.scores = scores
