"""Metrics of one ranking, best first, against the gold (Manning, Raghavan & Schütze 2008, chapter 8).

A ranking has an entry at most once. Only `bootstrap` averages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2

import numpy as np
import numpy.typing as npt

DRAWS = 2_000
"""Draws of the bootstrap."""


def recall_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return the share of the gold among the first k."""
    return len(gold & set(ranking[:k])) / len(gold) if gold else 0.0


def any_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return 1 if the first k have any of the gold (trec_eval's success), else 0."""
    return float(not gold.isdisjoint(ranking[:k]))


def all_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return 1 if the first k have all of the gold, else 0."""
    return float(gold <= set(ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], gold: AbstractSet[str]) -> float:
    """Return 1 / rank of the first gold entry, ranks from 1; 0 if the ranking has none."""
    return next((1 / rank for rank, entry in enumerate(ranking, 1) if entry in gold), 0.0)


def ndcg_at(ranking: Sequence[str], grades: Mapping[str, float], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first k (Järvelin & Kekäläinen 2002), as trec_eval does.

    Gain is the grade, discount log2(rank + 1), and the best possible order of `grades` is 1.

    Args:
        grades: of relevant entries; an entry without one, or with one of at most 0, is not relevant.
    """
    best = _dcg(sorted((max(grade, 0.0) for grade in grades.values()), reverse=True)[:k])
    return _dcg(max(grades.get(entry, 0.0), 0.0) for entry in ranking[:k]) / best if best else 0.0


def _dcg(gains: Iterable[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def bootstrap(values: npt.NDArray[np.float64], seed: int = 0) -> npt.NDArray[np.float64]:
    """Return the 95 % interval of the mean over the first axis, by the percentile bootstrap (Efron 1979).

    Differences, one a question, make it the paired bootstrap.

    Args:
        values: float64[n] or float64[n, metrics]; a draw takes whole questions, so metrics stay together.

    Returns:
        (low, high): float64[2] or float64[2, metrics].
    """
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(0, len(values), len(values))].mean(axis=0) for _ in range(DRAWS)]
    interval: npt.NDArray[np.float64] = np.percentile(means, (2.5, 97.5), axis=0)
    return interval
