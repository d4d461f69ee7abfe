"""Formulas of the recipe `cems`: bonus, blend, factors of a score, MMR.

Pure functions on arrays; every constant is in `cems.toml`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from helix.types import F32, F64, I32, Bool

Places = npt.NDArray[np.intp]


def is_strong(scores: F32, top: float, gap: float) -> bool:
    """Return whether the best lexical score is certain: its s/(1 + s) ≥ top, and ≥ gap above the second's.

    Args:
        scores: float32[n], BM25, best first; a missing second counts as 0.
    """
    if not len(scores):
        return False
    best, second = (float(one) / (1 + float(one)) for one in (scores[0], scores[1] if len(scores) > 1 else 0.0))
    return best >= top and best - second >= gap


def rank_bonus(ranks: F32, first: float, third: float) -> F64:
    """Return `first` for each rank 1 and `third` for each rank 2 or 3, summed over the lists: float64[n].

    Args:
        ranks: float32[lists, n], NaN where a list lacks the row.
    """
    bonus = np.where(ranks == 1, first, np.where(ranks <= 3, third, 0.0))
    return np.asarray(bonus.sum(axis=0), np.float64)


def minmax(values: F32) -> F32:
    """Return (v − min) / (max − min): float32[n]; 1 if values do not differ, since all are the best."""
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    if high == low:
        return np.ones(len(values), np.float32)
    return np.asarray((values - low) / (high - low), np.float32)


def blend(fused: F32, vector: F32 | None, share: float) -> F32:
    """Return share · fused + (1 − share) · vector: float32[n]; fused alone without vectors."""
    return fused if vector is None else np.asarray(share * fused + (1 - share) * vector, np.float32)


def time_decay(days: F64, scale: float) -> F32:
    """Return 1 / (1 + days / scale): float32[n]; the future counts as now."""
    return np.asarray(1 / (1 + np.maximum(days, 0) / scale), np.float32)


def project_factor(project: I32, wanted: int | None, none: int, same: float, other: float, unknown: float) -> F32:
    """Return `same` for items of the question's project, `unknown` without one, else `other`: float32[n].

    Args:
        project: int32[n], codes; −1 is none.
        wanted: code of the question's project; None: every item has 1.
        none: code of the default project.
    """
    if wanted is None:
        return np.ones(len(project), np.float32)
    nowhere = (project == none) | (project < 0)
    return np.where(project == wanted, same, np.where(nowhere, unknown, other)).astype(np.float32)


def mark_first(keys: Sequence[Hashable]) -> Bool:
    """Return which keys have no equal before them: bool[n]."""
    seen = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    return np.array([seen[key] == i for i, key in enumerate(keys)], bool)


def mmr(score: F32, session: I32, trade: float, k: int) -> Places:
    """Choose greedily by λ·score / best score − (1 − λ)·[its session was chosen]: intp[≤ k], in order.

    Maximal marginal relevance (Carbonell & Goldstein 1998); items of one session are similar, since things to count or
    to list are in many sessions.

    Args:
        score: float32[n], best first, none negative.
        session: int32[n], codes.
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    best_score = float(score.max(initial=0))
    relevance = score / best_score if best_score else score
    left, known = np.ones(len(score), bool), np.zeros(len(score), bool)
    chosen: list[int] = []
    for _ in range(min(k, len(score))):
        value = np.where(left, trade * relevance - (1 - trade) * known, -np.inf)
        best = int(value.argmax())  # of equals the first, which is the better one
        chosen.append(best)
        left[best] = False
        known |= session == session[best]
    return np.array(chosen, np.intp)


def fit(sizes: Sequence[int], room: int) -> list[int]:
    """Return the positions that fit, in order; sizes that do not fit are skipped."""
    fitting: list[int] = []
    for i, size in enumerate(sizes):
        if size <= room:
            fitting.append(i)
            room -= size
    return fitting
