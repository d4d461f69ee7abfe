"""Membership of values in another array."""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.types import AnyArray, Bool

_PAIRS: Final = 1 << 14
"""Most pairs that are compared; for more, a search in sorted values takes less."""


def is_one_of(values: AnyArray, others: AnyArray) -> Bool:
    """Return which values are among others: bool[len(values)].

    Two short arrays are compared pair by pair, in a fifth of the time that `numpy.isin` takes to choose its way.
    """
    if values.size * others.size > _PAIRS:
        return is_among(values, np.sort(others))
    return np.asarray((values[:, None] == others).any(axis=1))


def is_among(values: AnyArray, few: AnyArray) -> Bool:
    """Return which values are among a few sorted ones: bool[len(values)]."""
    if not len(few):
        return np.zeros(len(values), bool)
    found: Bool = few[np.minimum(np.searchsorted(few, values), len(few) - 1)] == values
    return found
