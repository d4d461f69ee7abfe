"""Reciprocal rank fusion, by hand and against the kernel of the recipe `helix`; the order of scores and keys."""

from __future__ import annotations

import numpy as np
import pytest

from helix.native.rows import fuse_legs
from helix.ranking.membership import is_one_of
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import select_top, sort_rows
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


NAN = float("nan")


def _scores(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def test_descending_score_then_ascending_tie_key_then_nan() -> None:
    for scores, tie, expected in (
        (_scores(1, NAN, 3, 1, 3, NAN), [9, 2, 7, 4, 6, 1], [4, 2, 3, 0, 5, 1]),
        (_scores(0.0, -0.0), [2, 1], [1, 0]),
        (_scores(1, 1, 1, 2, 1), [5, 3, 4, 9, 1], [3, 4, 1, 2, 0]),
        (_scores(1, 1, 1), [2**64 - 1, 2**63, 1], [2, 1, 0]),
        (_scores(NAN, 1, NAN, NAN), [3, 9, 2, 1], [1, 3, 2, 0]),
    ):
        keys = np.array(tie, np.uint64)
        assert sort_rows(scores, keys).tolist() == expected
        for k in range(-1, len(tie) + 2):
            top = select_top(scores, keys, k)
            assert (top.tolist(), top.dtype) == (expected[: max(k, 0)], np.intp)
    assert select_top(_scores(), np.array([], dtype=np.uint64), 5).tolist() == []
    scores, tie = _scores(1, 3, 2), np.array([3, 2, 1])
    select_top(scores, tie, 2)
    assert (scores.tolist(), tie.tolist()) == ([1, 3, 2], [3, 2, 1])  # the input is left alone


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (40, 9), (300, 60), (20, 2_000)])
def test_membership_is_that_of_numpy_for_few_and_for_many(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    values = rng.integers(0, 50, shape[0]).astype(np.uint32)
    others = rng.integers(-5, 50, shape[1])
    assert is_one_of(values, others).tolist() == np.isin(values, others).tolist()
