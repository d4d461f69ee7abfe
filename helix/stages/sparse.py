"""Stage 3, sparse-semantic leg: the inner product Σ q_t · d_t of learned weights over a vocabulary, exactly.

SPLADE (Formal, Piwowarski & Clinchant 2021, "SPLADE: Sparse Lexical and Expansion Model for First Stage Ranking") puts
a text's meaning into such weights, expansions included, so postings find it. What bounds a term is its largest impact
(MaxScore, Turtle & Flood 1995; `helix/native/postings.c`), the question's heaviest terms first.
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
    from helix.snapshot.index.sparse import ImpactField

_LOOK_UP: Final = 25
"""To find one row among postings, in NumPy, costs as much as to read so many of them in a row."""

_FEW: Final = 16
"""One posting in so many is read twice, for a bound before the rest is read."""


def search_sparse(asked: Sparse, field: ImpactField, plan: Plan, k: int) -> Leg:
    """The k best allowed rows, best first, ties to the smaller id; rows that share no term are never in it.

    A row's score is the float32 sum of its products, the heaviest term of the question first: it hangs on nothing but
    the question and the row, whatever else is in the store.
    """
    weight, most, postings = field.asked(asked)
    if k <= 0 or not postings:
        return Leg("sparse", np.empty(0, np.uint32), np.empty(0, np.float32))
    allowed = plan.allowed
    slack = 1 - (len(postings) + 8) * 2.0**-23  # scores and bounds are rounded apart; this is more than that can make
    if allowed is not None and _LOOK_UP * plan.allowed_rows < field.rows:
        few = np.flatnonzero(allowed)
        postings = [list(narrow_parts(parts, few, _LOOK_UP)) for parts in postings]
    size = [sum(len(rows) for _, rows, _ in parts) for parts in postings]
    first = sum(_FEW * read <= sum(size) for read in accumulate(size))  # terms: what the k-th best has of them alone
    rest = np.append(np.cumsum((weight.astype(np.float64) * most)[::-1])[::-1], 0).astype(np.float32)
    floor = 0.0
    if 0 < first < len(postings):
        alone = rest[: first + 1] - rest[first]
        *_, floor = search_postings(
            flatten_parts(postings[:first]), weight[:first], alone, allowed, field.rows, k, slack
        )
    rows, scores, _ = search_postings(flatten_parts(postings), weight, rest, allowed, field.rows, k, slack, floor)
    best = np.flatnonzero(scores >= find_kth_best(scores, k))
    rows, scores = rows.take(best), scores.take(best)
    order = select_top(scores, field.key.take(rows), k)
    return Leg("sparse", rows[order], scores[order])
