"""The fitted weight of the ranking next to a ranker's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from helix.errors import UsageError
from helix.types import F64
from pipelines.eval.ranker.pools import PooledSet, RankedPool
from pipelines.eval.ranker.train import simplify, split_pools
from pipelines.eval.ranker.weigh import choose_weight, judge_order, order_pool


def make_pool(gold: int, *, project: str = "p", question: str = "which?", n: int = 12) -> RankedPool:
    rows, scores = np.arange(n), np.linspace(1.0, 0.0, n, dtype=np.float32)
    right = rows == gold
    turns = [f"t{i}" for i in range(n)]
    return RankedPool(question, project, n, rows, scores, right, right & False, turns, 1, turns)


def test_only_scored_items_change_places() -> None:
    pool = make_pool(4)
    assert order_pool(pool, np.array([0.0, 0.0, 9.0]), 1.0).tolist()[:4] == [2, 0, 1, 3]
    assert order_pool(pool, np.array([0.0, 0.0, 9.0]), 60.0).tolist() == list(range(12))


def test_an_order_is_judged_by_its_first_ten_and_pieces_of_a_turn_count_once() -> None:
    assert judge_order(make_pool(1), np.arange(12)) == pytest.approx((1 / 2 + 1) / 2)
    assert judge_order(make_pool(11), np.arange(12)) == pytest.approx((1 / 12 + 0) / 2)
    pieces = make_pool(11)._replace(turns=["t0", "t0", *(f"t{i}" for i in range(2, 12))])
    assert judge_order(pieces, np.arange(12)) == pytest.approx((1 / 11 + 0) / 2)


@pytest.mark.parametrize(("strength", "expected"), [(100.0, "ranker"), (0.0, "ranking")])
def test_a_ranker_that_knows_counts_and_one_that_knows_nothing_harms_nothing(strength: float, expected: str) -> None:
    def score(question: str, texts: Sequence[str]) -> F64:
        return np.array([strength * (text == f"t{question}") for text in texts])

    sets = {"a": PooledSet("a", [make_pool(i, question=str(i)) for i in range(3, 9)])}
    weight, report = choose_weight(sets, score)
    assert weight > 0
    if expected == "ranker":
        assert report["a"]["ranker"] == pytest.approx(1.0)
        assert report["a"]["ranking"] < 0.7
    else:
        assert report["a"]["ranker"] == report["a"]["ranking"]


def test_projects_are_held_out_whole_and_questions_where_there_are_few() -> None:
    pools = [make_pool(1, project=f"p{i % 24}", question=f"{i}") for i in range(96)]
    learnt, held = split_pools(PooledSet("a", pools), 0)
    assert len(held.pools) == 8
    assert not {pool.project for pool in learnt.pools} & {pool.project for pool in held.pools}
    few, apart = split_pools(PooledSet("b", [pool._replace(project="one") for pool in pools]), 0)
    assert len(apart.pools) == 8
    assert not {pool.question for pool in few.pools} & {pool.question for pool in apart.pools}


def test_a_copy_of_a_question_is_found_in_other_letters() -> None:
    assert simplify("Who is “Ana's” boss ?") == simplify("who is ana 's boss?") == "whoisanasboss"


def test_without_questions_of_enough_candidates_there_is_no_weight() -> None:
    with pytest.raises(UsageError, match="no question of a has 10 candidates"):
        choose_weight({"a": PooledSet("a", [])}, lambda question, texts: np.zeros(len(texts)))
