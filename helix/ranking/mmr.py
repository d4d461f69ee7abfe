"""Maximal marginal relevance over shared words, for a few texts (Carbonell & Goldstein 1998)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from helix.text.tokenize import split_words
from helix.types import F32

Places = npt.NDArray[np.intp]


def jaccard(texts: Sequence[str]) -> F32:
    """Return |A ∩ B| / |A ∪ B| over the distinct words of each two texts: float32[n, n]; 0 if neither has any."""
    sets = [set(split_words(text)) for text in texts]
    place = {word: i for i, word in enumerate(sorted(set().union(*sets)))}
    holds = np.zeros((len(sets), len(place)), np.float32)
    for row, words in zip(holds, sets, strict=True):
        row[[place[word] for word in words]] = 1
    shared = holds @ holds.T
    size = holds.sum(axis=1)
    return np.asarray(shared / np.maximum(size[:, None] + size - shared, 1), np.float32)


def mmr(
    score: F32, alike: F32, trade: float, k: int, among: Places | None = None, chosen: Sequence[int] = ()
) -> Places:
    """Choose greedily by λ·score − (1 − λ)·(largest similarity to a chosen one): intp[≤ k], in order.

    Args:
        score: float32[n], best first.
        alike: float32[n, n], in [0, 1].
        trade: λ; 1 is plain ranking.
        k: how many, those chosen before included.
        among: intp[m], ascending, the places that may be chosen; None: all.
        chosen: places chosen before, in order; the result begins with them.
    """
    order = list(chosen)
    left = np.zeros(len(score), bool)
    left[slice(None) if among is None else among] = True
    left[order] = False
    relevance = score.astype(np.float64)
    nearest = alike[order].max(axis=0, initial=0).astype(np.float64) if order else np.zeros(len(score))
    while len(order) < k and left.any():
        value = np.where(left, trade * relevance - (1 - trade) * nearest, -np.inf)
        best = int(value.argmax())  # of equals the first, which is the better one
        order.append(best)
        left[best] = False
        nearest = np.maximum(nearest, alike[best])
    return np.array(order, np.intp)
