"""The weight of recall's own ranking next to a ranker's scores, fitted on questions that it did not learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from helix.errors import UsageError
from helix.types import F64, I64
from pipelines.eval.ranker.pools import PooledSet, RankedPool

WEIGHTS: Final = (6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0, 25.0, 30.0, 40.0)

DEPTH: Final = 20
"""Best items that are scored."""

MOST: Final = 150
"""Questions of a set."""

_SEEN: Final = 10  # items of an answer

Score = Callable[[str, Sequence[str]], F64]
"""(the question, what is read of each item) → float64[n], higher is better."""


def choose_weight(sets: Mapping[str, PooledSet], score: Score) -> tuple[float, dict[str, dict[str, float]]]:
    """Return the weight that orders best, each set counting the same, and each set's figures without and with it.

    A figure is the mean of reciprocal rank and recall among the first ten.

    Raises:
        UsageError: no question has ten candidates.
    """
    chosen = {label: _choose_pools(found.pools) for label, found in sets.items()}
    scores = {
        label: [score(pool.question, pool.texts[:DEPTH]) for pool in pools] for label, pools in chosen.items() if pools
    }
    if not scores:
        raise UsageError(f"no question of {', '.join(sets) or 'no set'} has {_SEEN} candidates", "give larger sets")
    figures = {
        weight: {label: _judge(chosen[label], given, weight) for label, given in scores.items()} for weight in WEIGHTS
    }
    best = max(WEIGHTS, key=lambda weight: float(np.mean([*figures[weight].values()])))
    plain = {
        label: _judge(chosen[label], [np.zeros(len(one)) for one in given], 1.0) for label, given in scores.items()
    }
    report = {
        label: {"ranking": round(plain[label], 4), "ranker": round(figures[best][label], 4)} for label in sorted(scores)
    }
    return best, report


def _choose_pools(pools: Sequence[RankedPool]) -> list[RankedPool]:
    usable = [pool for pool in pools if pool.found >= _SEEN and pool.wanted]
    return usable[:: max(1, len(usable) // MOST)][:MOST]


def _judge(pools: Sequence[RankedPool], scores: Sequence[F64], weight: float) -> float:
    return float(
        np.mean([judge_order(pool, order_pool(pool, one, weight)) for pool, one in zip(pools, scores, strict=True)])
    )


def order_pool(pool: RankedPool, scores: F64, weight: float) -> I64:
    """Return the places of a pool's found items in their new order; only the scored ones change places."""
    m = min(len(scores), pool.found)
    own = pool.scores[:m].astype(np.float64)
    spread = own.max() - own.min()
    scaled = (own - own.min()) / spread if spread > 0 else np.zeros(m)
    return np.concatenate([np.argsort(-(weight * scaled + scores[:m]), kind="stable"), np.arange(m, pool.found)])


def judge_order(pool: RankedPool, order: I64) -> float:
    """Return the mean of reciprocal rank and recall of the first ten; pieces of a turn count once."""
    turns = [*dict.fromkeys(pool.turns[i] for i in order.tolist())]
    gold = {turn for turn, right in zip(pool.turns, pool.gold.tolist(), strict=True) if right}
    places = [i for i, turn in enumerate(turns) if turn in gold]
    recall = sum(i < _SEEN for i in places) / pool.wanted
    return ((1 / (1 + places[0]) if places else 0.0) + recall) / 2
