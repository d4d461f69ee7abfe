"""The formulas of `pipelines.eval.score` against trec_eval; the bootstrap against the normal law."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

from pipelines.eval.score import all_at, any_at, bootstrap, ndcg_at, recall_at, reciprocal_rank

KS = (1, 5, 10, 20)
NAMES = {"recip_rank", *(f"{name}_{k}" for name in ("recall", "success", "ndcg_cut") for k in KS)}


def random_questions(seed: int, n: int = 150) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Judgements, and rankings of none to thirty of forty documents; some gold is never returned."""
    rng = np.random.default_rng(seed)
    documents = [f"d{i}" for i in range(40)]
    judged, rankings = {}, {}
    for i in range(n):
        gold = rng.choice(documents, rng.integers(1, 25), replace=False).tolist()
        judged[f"q{i}"] = {one: int(rng.integers(0, 5)) for one in gold}
        judged[f"q{i}"][gold[0]] = int(rng.integers(1, 5))  # at least one is relevant
        rankings[f"q{i}"] = rng.choice(documents, rng.integers(1, 31), replace=False).tolist()
    return judged, rankings


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_trec_eval(seed: int) -> None:
    judged, rankings = random_questions(seed)
    runs = {query: {one: float(-rank) for rank, one in enumerate(found)} for query, found in rankings.items()}
    expected_all = pytrec_eval.RelevanceEvaluator(judged, NAMES).evaluate(runs)
    assert len(expected_all) == len(judged)
    for query, ranking in rankings.items():
        grades = {one: float(grade) for one, grade in judged[query].items()}
        gold = {one for one, grade in grades.items() if grade > 0}
        expected = expected_all[query]
        assert reciprocal_rank(ranking, gold) == pytest.approx(expected["recip_rank"])
        for k in KS:
            assert recall_at(ranking, gold, k) == pytest.approx(expected[f"recall_{k}"])
            assert any_at(ranking, gold, k) == expected[f"success_{k}"]
            assert all_at(ranking, gold, k) == float(expected[f"recall_{k}"] == 1)
            assert ndcg_at(ranking, grades, k) == pytest.approx(expected[f"ndcg_cut_{k}"])


def test_the_interval_is_about_that_of_the_normal_law() -> None:
    values = np.random.default_rng(7).normal([0.3, 0.6], [0.1, 0.2], (400, 2))
    low, high = bootstrap(values)
    error = values.std(axis=0) / 20
    # At 2.5 % the draws themselves leave an error of some .06 standard errors; 5 % would lie at 1.64.
    assert (values.mean(axis=0) - low) / error == pytest.approx([1.96, 1.96], abs=0.2)
    assert (high - values.mean(axis=0)) / error == pytest.approx([1.96, 1.96], abs=0.2)
