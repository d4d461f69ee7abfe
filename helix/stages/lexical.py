"""Stage 3, lexical leg: exact BM25, without scoring every posting.

MaxScore (Turtle & Flood 1995) over ranges of rows, the rarest terms first (`helix/native/postings.c`). A few rare terms
alone come first of all: what the k-th best row has of them, the k-th best has at least.
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
"""To find one row among postings, in NumPy, costs as much as to read so many of them in a row."""

_SMALL: Final = 1 << 15
"""Postings of a term in a segment that are not worth an array of their own."""

_RARE: Final = 16
"""One posting in so many is read twice, for a bound before the rest is read."""


class Field(Protocol):
    """What is searched: postings and the statistics BM25 needs."""

    @property
    def rows(self) -> int:
        """Rows of the snapshot."""

    @property
    def live(self) -> int:
        """Rows that count."""

    @property
    def norm(self) -> FieldNorms:
        """What the lengths of the rows do to their terms."""

    @property
    def key(self) -> U64:
        """uint64[rows]: the tie key."""

    def term(self, term: np.uint64) -> list[PostingsPart]:
        """Postings of a term, in ascending parts."""

    def df(self, term: np.uint64) -> int:
        """Rows that count and hold the term."""


class _Term(NamedTuple):
    weight: float  # idf
    most: float  # what a row can gain from it: tf / (tf + …) is below 1
    size: int  # postings, deleted rows included
    parts: list[PostingsPart]


def search_lexical(query: Query, field: Field, plan: Plan, k: int, k1: float, b: float, name: str = "bm25") -> Leg:
    """The k best allowed rows by BM25, best first, ties to the smaller id. Statistics are of the whole field,
    whatever the filter; rows that hold none of the terms are never in it.

    Args:
        field: the field to search; `Snapshot.lexical` is that of the items' own text.
        name: of the leg.
    """
    terms = _terms(query, field, k1)
    if k <= 0 or not terms:
        return Leg(name, np.empty(0, np.uint32), np.empty(0, np.float32))
    norm, allowed = field.norm(k1, b), plan.allowed
    slack = 1 - (len(terms) + 8) * 2.0**-23  # scores and bounds are rounded apart; this is more than that can make
    few = np.flatnonzero(allowed) if allowed is not None and _LOOK_UP * plan.allowed_rows < field.rows else None
    parts = [term.parts if few is None else list(narrow_parts(term.parts, few, _LOOK_UP)) for term in terms]
    floor, rare = 0.0, _rare(parts)
    if 0 < rare < len(terms):
        *_, floor = search_postings(flatten_parts(parts[:rare]), *_bounds(terms[:rare], k1), allowed, norm, k, slack)
    rows, scores, _ = search_postings(flatten_parts(parts), *_bounds(terms, k1), allowed, norm, k, slack, floor)
    best = np.flatnonzero(scores >= find_kth_best(scores, k))
    rows, scores = rows.take(best), scores.take(best)
    order = select_top(scores, field.key.take(rows), k)
    return Leg(name, rows[order], scores[order])


def lexical_score(query: Query, field: Field, row: int, k1: float, b: float) -> float:
    """What the search gives one row; 0 where it holds none of the terms."""
    score, norm = np.zeros(1, np.float32), field.norm(k1, b)
    for term in _terms(query, field, k1):
        for rows, tf in look_up_rows(term.parts, np.array([row])):
            score[: len(rows)] += compute_gain(tf, norm.take(rows), term.weight, k1)
    return float(score[0])


def _terms(query: Query, field: Field, k1: float) -> list[_Term]:
    """The terms that some segment holds, rarest first, among equals the smaller hash."""
    found = []
    for hashed in query.terms:
        parts = field.term(hashed)
        if parts:
            size = sum(len(local) for _, local, _ in parts)
            df = size if field.live == field.rows else field.df(hashed)
            weight = float(compute_idf(df, field.live))
            found.append((df, int(hashed), _Term(weight, weight * (k1 + 1), size, _joined(parts))))
    return [term for *_, term in sorted(found, key=lambda entry: entry[:2])]


def _joined(parts: list[PostingsPart]) -> list[PostingsPart]:
    """Neighbouring small segments as one: many short arrays cost more in calls than in work."""
    joined: list[PostingsPart] = []
    for small, neighbours in groupby(parts, key=lambda part: len(part[1]) < _SMALL):
        run = list(neighbours)
        if small and len(run) > 1:
            rows = np.concatenate([local + np.uint32(start) for start, local, _ in run])
            run = [(0, rows, np.concatenate([tf for *_, tf in run]))]
        joined += run
    return joined


def _bounds(terms: list[_Term], k1: float) -> tuple[F32, F32]:
    """(what each term's saturated frequency is multiplied with: float32[t]; what terms t and on can give: [t + 1])."""
    weight = np.array([term.weight * (k1 + 1) for term in terms], np.float32)
    rest = np.cumsum([0.0, *(term.most for term in reversed(terms))])[::-1]
    return weight, np.ascontiguousarray(rest, np.float32)


def _rare(terms: list[list[PostingsPart]]) -> int:
    """How many of the first terms have, together, no more than one in _RARE of the postings."""
    sizes = [sum(len(rows) for _, rows, _ in parts) for parts in terms]
    return sum(_RARE * read <= sum(sizes) for read in accumulate(sizes))
