"""Stage 3, learned-sparse leg: the inner product Σ q_t · d_t of learned weights over a vocabulary, exactly.

SPLADE (Formal, Piwowarski & Clinchant 2021, "SPLADE: Sparse Lexical and Expansion Model for First Stage Ranking") puts
a text's meaning into such weights, expansions included, so postings find it. A term is bounded by its largest weight
(MaxScore, Turtle & Flood 1995; `helix/native/postings.c`); the question's heaviest terms come first.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from helix.native.postings import search_postings
from helix.ranking.postings import find_kth_best, flatten_parts, narrow_parts
from helix.ranking.topk import select_top
from helix.types import Leg, Plan, Sparse

if TYPE_CHECKING:
    from helix.snapshot.index.sparse import SparseField

_LOOK_UP: Final = 25
"""Postings read in sequence that cost as much as one look-up, in NumPy."""

_FEW: Final = 16
"""One posting in so many is read twice, for an early bound."""


def search_sparse(weights: Sparse, field: SparseField, plan: Plan, k: int) -> Leg:
    """Find the k best allowed rows that share a term, best first; ties keep the smaller id first.

    A row's score is the float32 sum of its products, the question's heaviest term first. It depends on the question and
    the row alone.
    """
    weight, most, postings = field.find_terms(weights)
    if k <= 0 or not postings:
        return Leg("sparse", np.empty(0, np.uint32), np.empty(0, np.float32))
    allowed = plan.allowed
    slack = 1 - (len(postings) + 8) * 2.0**-23  # more than rounding of scores and bounds can differ
    if allowed is not None and _LOOK_UP * plan.allowed_rows < field.rows:
        few = np.flatnonzero(allowed)
        postings = [list(narrow_parts(parts, few, _LOOK_UP)) for parts in postings]
    size = [sum(len(rows) for _, rows, _ in parts) for parts in postings]
    first = sum(_FEW * read <= sum(size) for read in accumulate(size))  # rare terms alone bound the k-th best score
    rest = np.append(np.cumsum((weight.astype(np.float64) * most)[::-1])[::-1], 0).astype(np.float32)
    floor = 0.0
    if 0 < first < len(postings):
        alone = rest[: first + 1] - rest[first]
        rare = flatten_parts(postings[:first])
        *_, floor = search_postings(rare, weight[:first], alone, allowed, field.rows, k, slack)
    rows, scores, _ = search_postings(flatten_parts(postings), weight, rest, allowed, field.rows, k, slack, floor)
    best = np.flatnonzero(scores >= find_kth_best(scores, k))
    rows, scores = rows.take(best), scores.take(best)
    order = select_top(scores, field.key.take(rows), k)
    return Leg("sparse", rows[order], scores[order])
