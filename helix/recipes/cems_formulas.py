"""Formulas of the recipe `cems`: saturation, bonus, blend, factors of a score, MMR in two phases.

Pure functions on arrays; every constant is in `cems.toml`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from helix.ranking.mmr import Places, mmr
from helix.types import F32, F64, I32, Bool


def saturate(scores: F32) -> F32:
    """Return s / (1 + s): float32[n] from 0 to 1, so that BM25 scores compare with cosines."""
    return np.asarray(scores / (1 + scores), np.float32)


def is_strong(scores: F32, top: float, gap: float) -> bool:
    """Return whether the best lexical score is certain: it is at least top, and at least gap above the second.

    Args:
        scores: float32[n], from 0 to 1, best first; a missing second counts as 0.
    """
    if not len(scores):
        return False
    best, second = float(scores[0]), float(scores[1]) if len(scores) > 1 else 0.0
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


def diversify_sessions(score: F32, alike: F32, session: I32, trade: float, k: int) -> Places:
    """Choose k items by MMR in two phases: first the best of each session, then among all: intp[≤ k], in order.

    An item counts λ·score / best score − (1 − λ)·(its largest Jaccard similarity to a chosen one).

    Args:
        score: float32[n], best first, none negative.
        alike: float32[n, n], in [0, 1].
        session: int32[n], codes.
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    best = float(score.max(initial=0))
    relevance = score / best if best else score
    _, first = np.unique(session, return_index=True)
    chosen = mmr(relevance, alike, trade, min(k, len(first)), np.sort(first))
    return mmr(relevance, alike, trade, k, chosen=chosen.tolist())


def fit(sizes: Sequence[int], room: int) -> list[int]:
    """Return the positions that fit, in order; sizes that do not fit are skipped."""
    fitting: list[int] = []
    for i, size in enumerate(sizes):
        if size <= room:
            fitting.append(i)
            room -= size
    return fitting
