"""Metrics and the figures of given answers, checked by hand."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from pipelines.eval import score
from pipelines.eval.score import all_at, any_at, bootstrap, ndcg_at, recall_at, reciprocal_rank
from pipelines.eval.sets.benchmark import Question


def test_by_hand() -> None:
    ranking, gold = ["a", "b", "c", "d"], {"b", "d", "x"}
    assert recall_at(ranking, gold, 2) == pytest.approx(1 / 3)
    assert (recall_at(ranking, gold, 4), any_at(ranking, gold, 1)) == (pytest.approx(2 / 3), 0)
    assert (any_at(ranking, gold, 2), all_at(ranking, gold, 4)) == (1, 0)
    assert (all_at(ranking, {"a", "b"}, 2), reciprocal_rank(ranking, gold)) == (1, 1 / 2)
    assert reciprocal_rank(ranking, {"x"}) == 0


def test_graded_gain_by_hand() -> None:
    grades = {"a": 3.0, "b": 2.0, "c": 1.0}
    best = 3 + 2 / log2(3) + 1 / 2
    assert ndcg_at(["a", "b", "c"], grades, 10) == pytest.approx(1)
    assert ndcg_at(["c", "x", "a"], grades, 10) == pytest.approx((1 + 3 / 2) / best)
    assert ndcg_at(["c", "x", "a"], grades, 2) == pytest.approx(1 / (3 + 2 / log2(3)))  # the best two of three
    assert ndcg_at(["b"], {"b": 2.0, "x": -1.0, "y": 0.0}, 10) == 1
    assert (ndcg_at(["x"], {"b": 2.0, "x": -1.0}, 10), ndcg_at(["x"], {}, 10)) == (0, 0)
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
    assert (both.shape, both[:, 1].tolist()) == ((2, 3), bootstrap(values[:, 1]).tolist())
    # The difference of each question has an interval of its own, narrower than the two put together.
    shifted = bootstrap(np.stack([values[:, 0], values[:, 0] - 0.1], axis=1))
    assert (shifted[1] - shifted[0])[0] == pytest.approx((shifted[1] - shifted[0])[1])
    assert bootstrap(values[:, 0] - (values[:, 0] - 0.1)) == pytest.approx([0.1, 0.1])


ROW = [*score.METRICS, "low", "high", "skipped", "short", "p50", "p95", "ci"]


def ask(text: str, *gold: str, kind: str = "", grades: dict[str, float] | None = None) -> Question:
    return Question(None, text, frozenset(gold), kind, grades)


def answer(ranking: str, pack: str = "", skipped: bool = False, ms: float = 1.0) -> score.RankedAnswer:
    """Every letter is a turn; the smallest pack holds the first of `pack`, the largest all."""
    return score.RankedAnswer(
        list(ranking), {budget: set(pack[: i + 1]) for i, budget in enumerate(score.BUDGETS)}, skipped, ms
    )


QUESTIONS = (ask("1", "a", "b"), ask("2", "c"), ask("3", "z"), ask("4", "k"))
ANSWERS = (
    answer("xbya", "aqq", ms=1.0),
    answer("cd", "xxc", ms=2.0),
    answer("", skipped=True, ms=3.0),
    answer("abcdefghijklmnopqrstuvw", "k", ms=4.0),  # k comes eleventh
)


def test_the_figures_of_given_answers_and_grades() -> None:
    row = score.make_row(score.score_answers(QUESTIONS, ANSWERS), ANSWERS, [30, 2, 30, 30])
    assert list(row) == ROW
    by_hand = {
        **{"any@1": 1 / 4, "any@5": 2 / 4, "any@10": 2 / 4, "any@20": 3 / 4},
        **{"rec@1": 1 / 4, "rec@5": 2 / 4, "rec@10": 2 / 4, "rec@20": 3 / 4},
        **{"all@1": 1 / 4, "all@5": 2 / 4, "all@10": 2 / 4, "all@20": 3 / 4},
        "mrr": (1 / 2 + 1 + 0 + 1 / 11) / 4,
        "ndcg@10": ((1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3)) + 1) / 4,
        **{"pack@500": (1 / 2 + 1) / 4, "pack@1000": (1 / 2 + 1) / 4, "pack@2000": (1 / 2 + 1 + 1) / 4},
    }
    assert {name: row[name] for name in score.METRICS} == pytest.approx(by_hand, abs=1e-4)
    assert row["skipped"] == 1
    assert row["short"] == 2  # the first and the skipped one; a haystack of two turns has no more
    assert ((row["p50"], row["p95"]), list(row["ci"])) == ((2.5, 3.85), list(score.METRICS))
    assert all(low <= row[name] <= high for name, (low, high) in row["ci"].items())
    assert [row["low"], row["high"]] == row["ci"]["rec@10"]
    half = score.score_answer(ask("?", "a", "b", grades={"a": 1.0, "b": 3.0}), answer("xa", "b"))
    assert (half["any@5"], half["rec@5"], half["all@5"], half["pack@500"]) == (1, 0.5, 0, 0.5)
    assert half["ndcg@10"] == pytest.approx((1 / np.log2(3)) / (3 + 1 / np.log2(3)))


def test_the_gain_is_over_the_better_leg() -> None:
    questions = [ask(str(i), "a") for i in range(20)]
    better = score.score_answers(questions, [answer("a")] * 10 + [answer("xa")] * 4 + [answer("x")] * 6)
    worse = score.score_answers(questions, [answer("a")] * 12 + [answer("x")] * 8)
    ours = score.score_answers(questions, [answer("a")] * 15 + [answer("x")] * 5)
    gain = score.measure_gain(ours, {"dense": worse, "bm25": better})
    assert gain["rec@10"][0] == pytest.approx(0.75 - 0.7)
    assert gain["ndcg@10"][0] == pytest.approx(0.75 - (10 + 4 / np.log2(3)) / 20, abs=1e-4)
    assert gain["over"] == {"rec@10": "bm25", "ndcg@10": "bm25"}
    # Only one question of twenty differs: the interval is that of the differences, not of two means.
    assert gain["rec@10"][1] == 0
    assert gain["rec@10"][2] < 0.2
    assert score.measure_gain(better, {"dense": worse, "bm25": better})["rec@10"] == [0, 0, 0]


def test_kinds_of_questions() -> None:
    questions = [ask("1", "a", "b", kind="temporal"), ask("2", "a", kind="temporal"), ask("3", "c", kind="plain")]
    answers = [answer("a"), answer("x"), answer("c")]
    found = score.summarise_kinds(questions, answers, score.score_answers(questions, answers))
    assert list(found) == ["plain", "temporal"]
    assert found["plain"] == {"questions": 1, "any@10": 1, "rec@10": 1, "low": 1, "high": 1}
    assert found["temporal"] == {"questions": 2, "any@10": 0.5, "rec@10": 0.25, "low": 0, "high": 0.5}
    assert score.summarise_kinds(QUESTIONS, ANSWERS, score.score_answers(QUESTIONS, ANSWERS)) == {}


def test_the_newest_gold_turn_above_the_others() -> None:
    questions = [ask("?", "a", "b", kind="update")._replace(newest="b")] * 4 + [ask("?", "a", kind="plain")]
    answers = [answer("xba"), answer("ab"), answer("xb"), answer("xa"), answer("a")]
    found = score.summarise_kinds(questions, answers, score.score_answers(questions, answers))
    assert found["update"]["newest"] == 0.5  # above the other, below it, without it, not in the answer
    assert found["update"]["newest_low"] < 0.5 < found["update"]["newest_high"]
    assert "newest" not in found["plain"]


def test_a_large_k_and_rows_of_too_few_turns_are_named() -> None:
    assert score.list_warnings([100, 5_000]) == []
    assert score.list_warnings([99, 100, 25]) == [
        "k = 10 is more than a fifth of the haystack for 1 of 3 questions (the smallest has 25 turns)",
        "k = 20 is more than a fifth of the haystack for 2 of 3 questions (the smallest has 25 turns)",
    ]
    assert score.list_shortfalls({"dense": {"short": 0}, "bm25": {"short": 2}, "helix": {"short": 1_000}}) == [
        "questions for which fewer than 20 turns came back: bm25 2, helix 1,000"
    ]
    assert score.list_shortfalls({"dense": {"short": 0}}) == []


def test_a_session_ranks_as_its_best_turn() -> None:
    questions = [ask("1", "s1\ta", "s2\tb"), ask("2", "s3\tc"), ask("3", "s9\tz")]
    rankings = ["s4\tx s1\tq s4\ty s1\ta s2\tz", "s3\tq", "s1\ta"]
    answers = [score.RankedAnswer([part.replace("\\t", "\t") for part in one.split(" ")], {}) for one in rankings]
    row = score.score_sessions(questions, answers)
    assert row == pytest.approx(
        {"any@1": 1 / 3, "any@5": 2 / 3, "any@10": 2 / 3, "rec@1": 1 / 3, "rec@5": 2 / 3, "rec@10": 2 / 3}
        | {"all@1": 1 / 3, "all@5": 2 / 3, "all@10": 2 / 3},
        abs=1e-4,
    )
    assert score.list_sessions(["b\t1", "a\t1", "b\t2"]) == ["b", "a"]


def test_questions_with_a_wrong_gold_are_counted_apart() -> None:
    questions = [QUESTIONS[0]._replace(doubted=True), *QUESTIONS[1:]]
    values = score.score_answers(questions, ANSWERS)
    assert score.score_undoubted(QUESTIONS, values) == {}
    assert score.score_undoubted(questions, values) == {"doubted": 1, "any@10": 0.3333, "rec@10": 0.3333}
