"""How good an answer is (Manning, Raghavan & Schütze 2008, chapter 8): a ranking, best first, against the gold set."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet


def recall_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Share of the gold that is among the first k."""
    return len(gold & set(ranking[:k])) / len(gold) if gold else 0.0


def any_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """1 where any of the gold is among the first k."""
    return float(not gold.isdisjoint(ranking[:k]))


def all_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """1 where all of the gold is among the first k."""
    return float(gold <= set(ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], gold: AbstractSet[str]) -> float:
    """1 / rank of the first gold entry, ranks from 1; 0 where there is none."""
    return next((1 / rank for rank, entry in enumerate(ranking, 1) if entry in gold), 0.0)
