"""Lists to learn from: of a question one item that answers it, and others that recall ranked high and do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from helix.errors import UsageError
from helix.types import F32, I64, Bool

QUESTION_WORDS: Final = 48
"""Words of a question that are read."""

SCALED: Final = 30
"""Best candidates over which a pool's scores are scaled to 0 to 1."""

_HARDNESS: Final = 5  # a candidate at place i is drawn in proportion to 1 / (_HARDNESS + i)
_FEWEST: Final = 3  # wrong candidates of a pool that is used


class PoolLike(Protocol):
    """A question with its candidates, best first."""

    question: str
    rows: I64
    scores: F32
    gold: Bool
    aside: Bool
    texts: Sequence[str]


class SetLike(Protocol):
    """The pools of a set."""

    @property
    def pools(self) -> Sequence[Any]:
        """Of type `PoolLike`."""


class DrawnList(NamedTuple):
    """A question and its candidates, the right one first."""

    label: str
    question: str
    texts: list[str]
    scores: F32  # of the ranking so far, 0 to 1 over the pool's best


class ListSource:
    """Draws lists from sets by their shares, each question once before any comes again.

    Raises:
        UsageError: no list can be drawn.
    """

    def __init__(self, sets: Mapping[str, SetLike], shares: Mapping[str, float], length: int, seed: int) -> None:
        self._usable = {
            label: [pool for pool in one.pools if _is_usable(pool)] for label, one in sets.items() if shares[label] > 0
        }
        self._labels = [label for label, pools in self._usable.items() if pools]
        if not self._labels:
            count, names = sum(len(one.pools) for one in sets.values()), ", ".join(sets) or "no set"
            fault = f"none of {count} questions of {names} has an answer and {_FEWEST} other items"
            raise UsageError(fault, "give more or larger sets")
        weights = np.array([shares[label] for label in self._labels])
        self._weights, self._length = weights / weights.sum(), length
        self._random = np.random.default_rng(seed)
        self._queues: dict[str, list[int]] = {label: [] for label in self._labels}

    def draw(self) -> DrawnList:
        """Draw a list."""
        label = self._labels[int(self._random.choice(len(self._labels), p=self._weights))]
        queue, pools = self._queues[label], self._usable[label]
        if not queue:
            queue.extend(self._random.permutation(len(pools)).tolist())
        pool = pools[queue.pop()]
        right = int(self._random.choice(np.flatnonzero(pool.gold)))
        wrong = np.flatnonzero(~pool.gold & ~pool.aside)
        chance = 1 / (_HARDNESS + np.arange(len(wrong)))
        n = min(self._length - 1, len(wrong))
        others = self._random.choice(wrong, n, replace=False, p=chance / chance.sum())
        chosen = np.concatenate([[right], others])
        texts = [pool.texts[i] for i in chosen.tolist()]
        return DrawnList(label, shorten_question(pool.question), texts, scale_scores(pool.scores)[chosen])


def _is_usable(pool: PoolLike) -> bool:
    return bool(pool.gold.any()) and int((~pool.gold & ~pool.aside).sum()) >= _FEWEST


def shorten_question(text: str) -> str:
    """Return the words of a question that are read."""
    return " ".join(text.split()[:QUESTION_WORDS])


def scale_scores(scores: F32) -> F32:
    """Scale a pool's scores to 0 to 1 over its best: float32[n], best first."""
    if not len(scores):
        return scores
    low, high = float(scores[:SCALED].min()), float(scores[0])
    return np.asarray(np.clip((scores - low) / max(high - low, 1e-6), -0.5, 1.0), np.float32)
