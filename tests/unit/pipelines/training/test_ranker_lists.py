"""Lists that the ranker learns from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipelines.eval.ranker.pools import PooledSet, RankedPool
from pipelines.training.ranker.lists import QUESTION_WORDS, ListSource, scale_scores, shorten_question


def make_pool(name: str, gold: list[int], aside: list[int], n: int = 9) -> RankedPool:
    rows = np.arange(n)
    scores = np.linspace(0.9, 0.1, n, dtype=np.float32)
    return RankedPool(
        f"what of {name}", "p", n, rows, scores, np.isin(rows, gold), np.isin(rows, aside), [""] * n, len(gold), ()
    )


def make_set(label: str, *pools: RankedPool) -> PooledSet:
    return PooledSet(label, [pool._replace(texts=[f"{label} {row}" for row in range(9)]) for pool in pools])


def test_a_list_has_one_right_item_first_and_none_that_is_neither() -> None:
    source = ListSource({"a": make_set("a", make_pool("x", [2, 5], [0, 1]))}, {"a": 1.0}, 4, seed=0)
    rights, wrongs = Counter[str](), Counter[str]()
    for _ in range(200):
        drawn = source.draw()
        assert len(set(drawn.texts)) == 4
        assert (drawn.label, drawn.question) == ("a", "what of x")
        rights[drawn.texts[0]] += 1
        wrongs.update(drawn.texts[1:])
        assert drawn.scores.tolist() == pytest.approx([1 - int(text.split()[1]) / 8 for text in drawn.texts])
    assert set(rights) == {"a 2", "a 5"}
    assert set(wrongs) == {"a 3", "a 4", "a 6", "a 7", "a 8"}
    assert wrongs["a 3"] > wrongs["a 8"]  # what ranks high is drawn more often


def test_each_question_comes_once_before_any_comes_again_and_sets_by_their_shares() -> None:
    pools = [make_pool(str(i), [0], []) for i in range(5)]
    sets = {"a": make_set("a", *pools), "b": make_set("b", pools[0]), "c": make_set("c", pools[0])}
    source = ListSource(sets, {"a": 3.0, "b": 1.0, "c": 0.0}, 4, seed=0)
    drawn = [source.draw() for _ in range(400)]
    assert Counter(one.label for one in drawn).keys() == {"a", "b"}
    assert 250 < sum(one.label == "a" for one in drawn) < 350
    asked = [one.question for one in drawn if one.label == "a"]
    for at in range(0, 250, 5):
        assert len(set(asked[at : at + 5])) == 5


def test_a_pool_without_a_right_or_with_few_wrong_items_is_left_out() -> None:
    useless = [make_pool("none", [], []), make_pool("few", [0], [1, 2, 3, 4, 5, 6])]
    source = ListSource({"a": make_set("a", *useless, make_pool("good", [8], []))}, {"a": 1.0}, 4, seed=0)
    assert {source.draw().question for _ in range(20)} == {"what of good"}


def test_the_same_seed_draws_the_same() -> None:
    sets = {"a": make_set("a", *[make_pool(str(i), [i], []) for i in range(5)])}
    one, same, other = (ListSource(sets, {"a": 1.0}, 4, seed=seed) for seed in (1, 1, 2))
    drawn = [one.draw().texts for _ in range(9)]
    assert drawn == [same.draw().texts for _ in range(9)]
    assert drawn != [other.draw().texts for _ in range(9)]


def test_scores_are_scaled_over_the_best() -> None:
    scores = np.r_[np.linspace(2, 1, 30), 0.9, -9].astype(np.float32)
    scaled = scale_scores(scores)
    assert (scaled[0], scaled[29]) == (1, 0)
    assert scaled[30] == pytest.approx(-0.1)
    assert scaled[31] == -0.5
    assert scale_scores(np.full(3, 0.5, np.float32)).tolist() == [0, 0, 0]
    assert len(scale_scores(np.empty(0, np.float32))) == 0


def test_a_long_question_is_cut() -> None:
    assert len(shorten_question("word " * 99).split()) == QUESTION_WORDS
