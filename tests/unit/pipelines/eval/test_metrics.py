from __future__ import annotations

from math import log2

import numpy as np
import pytest

from pipelines.eval.score import all_at, any_at, bootstrap, ndcg_at, recall_at, reciprocal_rank


def test_by_hand() -> None:
    ranking, gold = ["a", "b", "c", "d"], {"b", "d", "x"}
    assert recall_at(ranking, gold, 2) == pytest.approx(1 / 3)
    assert recall_at(ranking, gold, 4) == pytest.approx(2 / 3)
    assert any_at(ranking, gold, 1) == 0
    assert any_at(ranking, gold, 2) == 1
    assert all_at(ranking, gold, 4) == 0
    assert all_at(ranking, {"a", "b"}, 2) == 1
    assert reciprocal_rank(ranking, gold) == 1 / 2
    assert reciprocal_rank(ranking, {"x"}) == 0


def test_graded_gain_by_hand() -> None:
    grades = {"a": 3.0, "b": 2.0, "c": 1.0}
    best = 3 + 2 / log2(3) + 1 / 2
    assert ndcg_at(["a", "b", "c"], grades, 10) == pytest.approx(1)
    assert ndcg_at(["c", "x", "a"], grades, 10) == pytest.approx((1 + 3 / 2) / best)
    assert ndcg_at(["c", "x", "a"], grades, 2) == pytest.approx(1 / (3 + 2 / log2(3)))  # the best two of three
    assert ndcg_at(["b"], {"b": 2.0, "x": -1.0, "y": 0.0}, 10) == 1
    assert ndcg_at(["x"], {"b": 2.0, "x": -1.0}, 10) == 0
    assert ndcg_at(["x"], {}, 10) == 0
    assert ndcg_at([], grades, 10) == 0


def test_the_interval_is_that_of_the_mean_and_always_the_same() -> None:
    values = np.array([1.0] * 50 + [0.0] * 50)
    low, high = bootstrap(values)
    assert bootstrap(values).tolist() == [low, high]
    width = 1.96 * 0.5 / 10  # of the normal approximation
    assert low == pytest.approx(0.5 - width, abs=0.015)
    assert high == pytest.approx(0.5 + width, abs=0.015)
    few, many = bootstrap(values[::10]), bootstrap(np.tile(values, 10))
    assert few[0] < low < many[0] < 0.5 < many[1] < high < few[1]
    assert bootstrap(np.full(7, 0.25)).tolist() == [0.25, 0.25]
    assert bootstrap(np.array([1.0])).tolist() == [1.0, 1.0]


def test_metrics_of_one_question_are_drawn_together() -> None:
    values = np.random.default_rng(0).random((60, 3))
    values[:, 2] = values[:, 0] - values[:, 1]
    both = bootstrap(values)
    assert both.shape == (2, 3)
    assert both[:, 1].tolist() == bootstrap(values[:, 1]).tolist()
    # The difference of each question has an interval of its own, narrower than the two put together.
    shifted = bootstrap(np.stack([values[:, 0], values[:, 0] - 0.1], axis=1))
    assert (shifted[1] - shifted[0])[0] == pytest.approx((shifted[1] - shifted[0])[1])
    assert bootstrap(values[:, 0] - (values[:, 0] - 0.1)) == pytest.approx([0.1, 0.1])
