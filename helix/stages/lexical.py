"""Stage 3, lexical leg: exact BM25, without scoring every posting.

MaxScore (Turtle & Flood 1995) over ranges of rows, the rarest terms first (`helix/native/postings.c`). A few rare terms
alone are scored first: their k-th best score is a lower bound.
"""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import Final, NamedTuple, Protocol

import numpy as np

from helix.native.postings import search_postings
from helix.ranking.bm25 import FieldNorms, compute_gain, compute_idf
from helix.ranking.postings import PostingsPart, find_kth_best, flatten_parts, look_up_rows, narrow_parts
from helix.ranking.topk import select_top
from helix.types import F32, U64, Leg, Plan, Query

_LOOK_UP: Final = 25
"""Postings read in sequence that cost as much as one look-up, in NumPy."""

_SMALL: Final = 1 << 15
"""Postings of a term in a segment below which segments are joined."""

_RARE: Final = 16
"""One posting in so many is read twice, for an early bound."""


class Field(Protocol):
    """A field to search: postings, and the statistics of BM25."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def live(self) -> int:
        """The number of live rows."""

    @property
    def norm(self) -> FieldNorms:
        """Length normalisation of each row."""

    @property
    def key(self) -> U64:
        """The tie key: uint64[rows]."""

    def term(self, term: np.uint64) -> list[PostingsPart]:
        """Return a term's postings, in ascending parts."""

    def df(self, term: np.uint64) -> int:
        """Count the live rows that hold a term."""


class _Term(NamedTuple):
    weight: float  # idf
    most: float  # bound of a row's score: tf / (tf + …) is below 1
    size: int  # postings, deleted rows included
    parts: list[PostingsPart]


def search_lexical(query: Query, field: Field, plan: Plan, k: int, k1: float, b: float, name: str = "bm25") -> Leg:
    """Find the k best allowed rows by BM25 that hold a term, best first; ties keep the smaller id first.

    Statistics are those of the whole field, whatever the filter.

    Args:
        field: the field to search; `Snapshot.lexical` is that of the items' own text.
        name: of the leg.
    """
    terms = _look_up_terms(query, field, k1)
    if k <= 0 or not terms:
        return Leg(name, np.empty(0, np.uint32), np.empty(0, np.float32))
    norm, allowed = field.norm(k1, b), plan.allowed
    slack = 1 - (len(terms) + 8) * 2.0**-23  # more than rounding of scores and bounds can differ
    few = np.flatnonzero(allowed) if allowed is not None and _LOOK_UP * plan.allowed_rows < field.rows else None
    parts = [term.parts if few is None else list(narrow_parts(term.parts, few, _LOOK_UP)) for term in terms]
    floor, rare = 0.0, _count_rare(parts)
    if 0 < rare < len(terms):
        *_, floor = search_postings(flatten_parts(parts[:rare]), *_bounds(terms[:rare], k1), allowed, norm, k, slack)
    rows, scores, _ = search_postings(flatten_parts(parts), *_bounds(terms, k1), allowed, norm, k, slack, floor)
    best = np.flatnonzero(scores >= find_kth_best(scores, k))
    rows, scores = rows.take(best), scores.take(best)
    order = select_top(scores, field.key.take(rows), k)
    return Leg(name, rows[order], scores[order])


def lexical_score(query: Query, field: Field, row: int, k1: float, b: float) -> float:
    """Return the score of one row; 0 if it holds none of the terms."""
    score, norm = np.zeros(1, np.float32), field.norm(k1, b)
    for term in _look_up_terms(query, field, k1):
        for rows, tf in look_up_rows(term.parts, np.array([row])):
            score[: len(rows)] += compute_gain(tf, norm.take(rows), term.weight, k1)
    return float(score[0])


def _look_up_terms(query: Query, field: Field, k1: float) -> list[_Term]:
    """Look up the terms, rarest first; ties keep the smaller hash first."""
    found = []
    factors = np.ones(len(query.terms)) if query.term_weights is None else query.term_weights
    for hashed, factor in zip(query.terms, factors.tolist(), strict=True):
        parts = field.term(hashed)
        if parts:
            size = sum(len(local) for _, local, _ in parts)
            df = size if field.live == field.rows else field.df(hashed)
            weight = factor * float(compute_idf(df, field.live))
            found.append((df, int(hashed), _Term(weight, weight * (k1 + 1), size, _join_small(parts))))
    return [term for *_, term in sorted(found, key=lambda entry: entry[:2])]


def _join_small(parts: list[PostingsPart]) -> list[PostingsPart]:
    """Join neighbouring small segments: many short arrays cost more in calls than in work."""
    joined: list[PostingsPart] = []
    for small, neighbours in groupby(parts, key=lambda part: len(part[1]) < _SMALL):
        run = list(neighbours)
        if small and len(run) > 1:
            rows = np.concatenate([local + np.uint32(start) for start, local, _ in run])
            run = [(0, rows, np.concatenate([tf for *_, tf in run]))]
        joined += run
    return joined


def _bounds(terms: list[_Term], k1: float) -> tuple[F32, F32]:
    """Return (factor of each term's saturated frequency float32[t], bound of terms t and later float32[t + 1])."""
    weight = np.array([term.weight * (k1 + 1) for term in terms], np.float32)
    rest = np.cumsum([0.0, *(term.most for term in reversed(terms))])[::-1]
    return weight, np.ascontiguousarray(rest, np.float32)


def _count_rare(terms: list[list[PostingsPart]]) -> int:
    """Count the first terms that together hold at most one in _RARE of the postings."""
    sizes = [sum(len(rows) for _, rows, _ in parts) for parts in terms]
    return sum(_RARE * read <= sum(sizes) for read in accumulate(sizes))
