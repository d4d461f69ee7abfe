"""Reciprocal rank fusion, by hand and against the kernel of the recipe `helix`."""

from __future__ import annotations

import numpy as np
import pytest

from helix.native.rows import fuse_legs
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import sort_rows
from helix.types import Leg


def test_ranks_count_from_one() -> None:
    score = rrf([np.array([1, np.nan, 2]), np.array([2, 1, np.nan])], [2.0, 1.0], 60)
    assert score.tolist() == pytest.approx([2 / 61 + 1 / 62, 1 / 61, 2 / 62])
    assert rrf([], [], 60).tolist() == []
    rows, ranks = align_ranks([])
    assert (len(rows), ranks) == (0, {})


@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_fuses_like_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, weights = 50, [1.0, 0.5, 2.5]
    key = rng.permutation(n).astype(np.uint64)
    legs = [Leg(name, rng.permutation(n)[: rng.integers(0, 40)].astype(np.uint32), np.empty(0)) for name in "abc"]
    rows, ranks = align_ranks(legs)
    score = rrf([*ranks.values()], weights, 60).astype(np.float32)
    best = sort_rows(score, key[rows])
    found, scores, places = fuse_legs([leg.rows for leg in legs], weights, 60, key)
    assert found.tolist() == rows[best].tolist()
    assert scores.tolist() == score[best].tolist()
    for place, leg in zip(places, legs, strict=True):
        np.testing.assert_array_equal(place, ranks[leg.name][best])
