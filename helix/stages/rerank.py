"""Reranking, off by default: a second look at the few best items, by late interaction or by a cross-encoder.

Late interaction scores by MaxSim over token vectors (ColBERT: Khattab & Zaharia 2020; v2: Santhanam et al. 2022). It
and a cross-encoder run a network on the query path, late interaction only for items without kept vectors. So both see
at most the best `MAX_ITEMS` items. They change the order among these only: a bad reranker costs places inside the top,
never an item of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.errors import UsageError
from helix.types import F32, AnyArray

MAX_ITEMS: Final = 30
"""Items to rerank."""

_FLAT: Final = 1e-6  # scores that differ less are ignored
_SPAN: Final = 1e-4  # range of new scores for items of equal score


def check_top(top: int) -> None:
    """Check the number of items to rerank.

    Raises:
        UsageError: `top` is below 1 or above `MAX_ITEMS`.
    """
    if top < 1:
        raise UsageError(f"rerank {top} items", "give 1 to 30, or leave reranking off")
    if top > MAX_ITEMS:
        raise UsageError(
            f"rerank {top} items: each is a forward pass on the query path, and a reranker over the top 100 cut "
            "2Wiki all-support@10 from .907 to .467",
            f"give at most {MAX_ITEMS}",
        )


def maxsim(query: F32, passage: F32) -> float:
    """Return the mean, over the query's tokens, of the largest inner product with a token of the passage.

    ColBERT sums; the mean gives the same order and stays in [−1, 1].

    Args:
        query: float32[q, d], unit length.
        passage: float32[t, d], unit length.

    Returns:
        0 if either has no tokens.
    """
    if not len(query) or not len(passage):
        return 0.0
    return float((query @ passage.T).max(axis=1).mean())


def maxsims(query: F32, passages: Sequence[F32]) -> F32:
    """Return `maxsim` with each passage: float32[n]."""
    return np.array([maxsim(query, passage) for passage in passages], np.float32)


def explain_unusable(scores: F32) -> str:
    """Explain why rerank scores cannot order items; empty if they can."""
    if not len(scores):
        return "there are no rerank scores"
    if not np.isfinite(scores).all():
        bad = int(np.count_nonzero(~np.isfinite(scores)))
        return f"{bad} of {len(scores)} rerank scores are not finite"
    if float(scores.max()) - float(scores.min()) < _FLAT:
        return f"all {len(scores)} rerank scores are the same ({float(scores[0]):.4g})"
    return ""


def rerank(final: F32, scores: F32, weight: float, ranking: float = 0.0) -> F32:
    """Return new scores of the pool, in its order; only those of the first m = len(scores) items change.

    With f and s scaled to [0, 1] over the first m, b = (1 − weight)·f + weight·s; for a network that was trained as an
    addition to the ranking, b = ranking·f + scores, scaled to [0, 1]. The new score is low + b·(high − low), where high
    is the best item's score and low that of item m. So all of the first m stay above item m + 1. If item m + 1 has the
    score of item m, low is the next float32 above it; if high − low < 0.0001, high is low + 0.0001, so that equal items
    get an order.

    If the rerank scores are flat or not finite, or the weight is 0, nothing changes; see `explain_unusable`.

    Args:
        final: float32[n], finite, best first.
        scores: float32[m], m ≤ n, higher is better, of the first m.
        weight: weight of the rerank scores; at 1 they alone order the first m.
        ranking: weight of f next to the scores as they are; 0: `weight` counts.

    Raises:
        UsageError: more than `MAX_ITEMS` scores or more than items, or a weight outside 0 to 1.
    """
    m = len(scores)
    if not 0 <= weight <= 1:
        raise UsageError(f"a rerank weight of {weight}", "give 0 to 1")
    if m > len(final):
        raise UsageError(f"{m} rerank scores for {len(final)} items", "score only items of the pool")
    if m:
        check_top(m)
    if weight == 0 or explain_unusable(scores):
        return final.copy()
    low, high = float(final[m - 1]), float(final[0])
    if m < len(final) and final[m] >= final[m - 1]:
        low = float(np.nextafter(final[m], np.float32(np.inf), dtype=np.float32))
    high = max(high, low + _SPAN)
    own = _scale(final[:m])
    blend = _scale(ranking * own + scores) if ranking else (1 - weight) * own + weight * _scale(scores)
    out = final.copy()
    out[:m] = np.maximum(low + blend * (high - low), low)
    return out


def _scale(values: AnyArray) -> F32:
    """Scale to [0, 1], in float64; all 0 if values do not differ."""
    wide = values.astype(np.float64)
    low, high = wide.min(), wide.max()
    return np.asarray((wide - low) / (high - low) if high > low else np.zeros(len(wide)))
