"""Each feature of the similarity alone, by hand: a profile with one weight shows what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import log, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, SimilarityConstants
from helix.stages.features.lexical import TermCounts, count_terms, score_adjacent, score_lexical
from helix.stages.features.similarity import (
    compute_parts,
    divide_by_best,
    score_session,
    score_vectors_blended,
    similarity,
)
from helix.stages.route import route
from helix.text.tokenize import hash_terms, tokenise
from helix.types import F32, I64, U64
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, make_store

NOW = datetime(2023, 11, 20, tzinfo=UTC)
DEFAULT = load("helix")
QUIET = dict.fromkeys((field.name for field in fields(SimilarityConstants)), 0.0)


def single_feature(**sim: float) -> HelixProfile:
    """The default with no weight but those given."""
    return replace(DEFAULT, sim=SimilarityConstants(**{**QUIET, **sim}))


def score_rows(
    snap: Snapshot,
    text: str,
    vector: Sequence[float] | None = None,
    rows: Sequence[int] | None = None,
    ranks: Sequence[float] | None = None,
    **sim: float,
) -> list[float]:
    """Score the given rows, by default all live ones, with the given weights alone."""
    profile = single_feature(**sim)
    meant = None if vector is None else np.array(vector, np.float32)
    query = add_search_terms(make_query(text, snap, SETTINGS, now=NOW), snap, profile.ask)
    pool = np.flatnonzero(snap.alive) if rows is None else np.array(rows, np.int64)
    fused = np.zeros(len(pool), np.float32) if ranks is None else np.array(ranks, np.float32)
    return similarity(pool, fused, query, meant, snap, route(query, meant, snap), profile).tolist()


def around(rows: I64, snap: Snapshot) -> TermCounts:
    """Read the rows and their neighbours, without words."""
    nothing = np.empty(0, np.uint64)
    return count_terms(rows, nothing, nothing, snap)


def neighbour_rows(rows: I64, said: U64, snap: Snapshot) -> F32:
    return score_adjacent(count_terms(rows, np.unique(said), said, snap), snap)


def leaning_vectors(rows: I64, snap: Snapshot, share: float) -> F32:
    """The leaning vectors themselves: their inner products with each direction of space."""
    axes = np.eye(2, dtype=np.float32)
    return np.stack([score_vectors_blended(around(rows, snap), axis, snap, share)[1] for axis in axes], axis=1)


def bm25(tf: float, length: float, mean: float, df: int, n: int, k1: float = 1.2, b: float = 0.75) -> float:
    return log(1 + (n - df + 0.5) / (df + 0.5)) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean))


def talk(*texts: str, session: str = "s", **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(text, {"session": session, **more}) for text in texts]


def store(folder: Path, turns: Sequence[tuple[str, dict[str, Any]]], vectors: Any = None, **more: Any) -> Snapshot:
    return make_store(folder, [text for text, _ in turns], vectors, [said for _, said in turns], **more)


def test_a_score_is_divided_by_the_best_of_the_pool() -> None:
    assert divide_by_best(np.array([1, 2, -4], np.float32)).tolist() == [0.5, 1, -2]
    assert divide_by_best(np.array([0.01, 0.02], np.float32)).tolist() == pytest.approx([0.2, 0.4])  # not of noise
    assert divide_by_best(np.array([0.0, 0.0], np.float32)).tolist() == [0, 0]


def test_own_words(tmp_path: Path) -> None:
    snap = store(tmp_path, [*talk("walnut bread"), *talk("walnut walnut flour oven"), *talk("parsley")])
    first, second = bm25(1, 2, 7 / 3, 2, 3, 0.9, 0.6), bm25(2, 4, 7 / 3, 2, 3, 0.9, 0.6)
    assert score_rows(snap, "walnut", own=0.5) == pytest.approx([0.5 * first / second, 0.5, 0], rel=1e-5)
    assert score_rows(snap, "walnut", rows=[2, 0], own=0.5) == pytest.approx([0, 0.5])  # the best of this pool
    assert score_rows(snap, "absent", own=0.5) == [0, 0, 0]
    assert score_rows(snap, "the of and", own=0.5) == [0, 0, 0]  # no term at all

    # A word of every item: log(1 + .5/20.5) = .024 is less than half of what counts as a score.
    snap = store(tmp_path / "red", talk(*["red"] * 20))
    assert score_rows(snap, "red", own=1.0) == pytest.approx([log(1 + 0.5 / 20.5) / 0.05] * 20, rel=1e-4)


def test_the_window_is_two_turns_to_either_side(tmp_path: Path) -> None:
    """Terms 1 2 1 2 1 3 1: windows of 4, 6, 7, 9, 8, 7 and 5; and a session of one before, whose window is itself.

    Without "five", in whatever segments the others are: windows of 4, 6, 9, 9, 7 and 6.
    """
    seven = talk("one", "two two", "three", "walnut four", "five", "six six six", "seven")
    whole = store(tmp_path / "whole", [*talk("zero zero", session="r"), *seven, *talk("eight", session="t")])
    for snap, lengths, counts in (
        (whole, [2, 4, 6, 7, 9, 8, 7, 5, 1], (0, 0, 1, 1, 1, 1, 1, 0, 0)),
        (store(tmp_path / "cut", seven, cuts=(3, 5), deleted={1: [1]}), [4, 6, 9, 9, 7, 6], (0, 1, 1, 1, 1, 1)),
    ):
        n, mean = len(lengths), sum(lengths) / len(lengths)
        assert snap.lexical.mean_window_length == pytest.approx(mean)
        own = [bm25(tf, length, mean, 1, n) for tf, length in zip(counts, lengths, strict=True)]
        assert score_rows(snap, "walnut", window=0.3) == pytest.approx([0.3 * one / max(own) for one in own], rel=1e-5)


def test_a_window_adds_up_its_words(tmp_path: Path) -> None:
    """Two different words of the question, one in the turn before the last, and one in the last."""
    snap = store(tmp_path, [*talk("walnut", "bread"), *talk("walnut walnut", session="t"), *talk("x", session="u")])
    query = make_query("walnut bread", snap, SETTINGS, now=NOW)
    mean = (2 + 2 + 2 + 1) / 4
    both = bm25(1, 2, mean, 2, 4) + bm25(1, 2, mean, 1, 4)
    found = score_lexical(count_terms(np.arange(4), query.terms, query.term_order, snap), snap, single_feature())
    assert found.window.tolist() == pytest.approx([both, both, bm25(2, 2, mean, 2, 4), 0], rel=1e-5)
    assert found.before.tolist() == pytest.approx([0, found.own[0], 0, 0])


def test_the_rarest_word(tmp_path: Path) -> None:
    """Of nine items one holds "walnut", two "bread", all "x": the fourth power of the share of the idf of "walnut"."""
    turns = talk("x walnut bread", "x bread bread", *["x"] * 7)
    snap = store(tmp_path, turns, cuts=(1,))
    once, twice, all_nine = (log(1 + (9 - df + 0.5) / (df + 0.5)) for df in (1, 2, 9))
    by_hand = [1, (twice / once) ** 4, *[(all_nine / once) ** 4] * 7]
    assert by_hand[1] == pytest.approx(0.285, abs=0.001)
    assert score_rows(snap, "walnut x bread", rare=1) == pytest.approx(by_hand, rel=1e-5)
    assert score_rows(snap, "x bread", rare=0.5) == pytest.approx(
        [0.5 * by_hand[1]] * 2 + [0.5 * by_hand[2]] * 7, rel=1e-5
    )
    assert score_rows(snap, "absent", rare=1) == [0] * 9  # not of the best of the pool, but of what could be


def test_the_order_of_the_words(tmp_path: Path) -> None:
    """Two words follow each other once in the first, twice in the second, in the wrong order in the third.

    In the fourth another is between them; stop words between them are none.
    """
    texts = ["walnut bread", "walnut and bread then walnut bread", "bread walnut", "walnut rye bread", "bread walnut"]
    snap = store(tmp_path, talk(*texts), cuts=(2,), deleted={1: [2]})
    weight = 2 * log(1 + (4 - 4 + 0.5) / 4.5)
    lengths = [len(tokenise(text)) for text in texts[:4]]
    mean = sum(lengths) / 4
    norms = [1.2 * (0.25 + 0.75 * length / mean) for length in lengths]
    by_hand = [weight * tf * 2.2 / (tf + norm) for tf, norm in zip((1, 2, 0, 0), norms, strict=True)]
    assert lengths == [2, 4, 2, 3]
    assert neighbour_rows(np.arange(4), terms("walnut bread"), snap).tolist() == pytest.approx(by_hand, rel=1e-5)
    shares = [one / max(by_hand) for one in by_hand]
    assert score_rows(snap, "the walnut bread", adjacent=0.2) == pytest.approx([0.2 * one for one in shares], rel=1e-5)
    # The other way round: in the third, and once in the second, which is longer.
    longer = (1 + 1.2 * (0.25 + 0.75 * 2 / mean)) / (1 + 1.2 * (0.25 + 0.75 * 4 / mean))
    assert score_rows(snap, "bread, walnut", adjacent=0.2) == pytest.approx([0, 0.2 * longer, 0.2, 0], rel=1e-5)
    for nothing in ("walnut", "walnut walnut", "walnut absent", "absent walnut"):
        assert neighbour_rows(np.arange(4), terms(nothing), snap).tolist() == [0] * 4
    # A pair is counted once, however often it is asked; an item's end and the next one's start are none.
    snap = store(tmp_path / "two", talk("walnut bread", "rye walnut", "bread rye"))
    texts = ("walnut bread", "walnut bread walnut bread")
    once, twice = (neighbour_rows(np.arange(3), terms(text), snap).tolist() for text in texts)
    assert twice[0] == once[0] > 0
    assert once[1:] == [0, 0]


def terms(text: str) -> U64:
    return hash_terms(tokenise(text))


def test_an_answer_gets_its_questions_words(tmp_path: Path) -> None:
    turns = [
        *talk("where is the walnut bread?", "in the oven", "fine"),
        *talk("the walnut bread is done", "in the oven", session="t"),
        *talk("what is parsley?", "a herb", session="u"),
    ]
    snap = store(tmp_path, turns)
    said = terms("walnut bread")
    own = score_lexical(count_terms(np.arange(7), np.unique(said), said, snap), snap, single_feature()).own
    assert own[0] > own[3] * 0.99 > 0  # the same words and length
    assert score_rows(snap, "walnut bread", reply=0.4) == pytest.approx([0, 0.4 * own[0] / own.max(), 0, 0, 0, 0, 0])
    # The first of a session answers nothing, though the last row before it may ask.
    turns = [*talk("walnut bread?"), *talk("walnut", session="t")]
    assert score_rows(store(tmp_path / "two", turns), "walnut", reply=1) == [0, 0]


SLANT = [[1, 0], [0.6, 0.8], [0, 1]]


def test_the_inner_product(tmp_path: Path) -> None:
    snap = store(tmp_path, talk("a", "b", "c"), SLANT)
    assert score_rows(snap, "x", [1, 0], dense=0.5) == pytest.approx([0.5, 0.3, 0], abs=0.005)
    assert score_rows(snap, "x", [0.8, 0.6], dense=0.5) == pytest.approx(
        [0.5 * 0.8 / 0.96, 0.5, 0.5 * 0.6 / 0.96], abs=0.005
    )
    assert score_rows(snap, "x", None, dense=0.5) == [0, 0, 0]  # no encoder

    # The mean vector is (.533, .6): of the question (1, 0) half of .533, the same of every item, without deleted ones.
    turns = [*talk("a", "b", "c"), *talk("d", session="t")]
    snap = store(tmp_path / "mean", turns, [*SLANT, [-1, 0]], deleted={0: [3]})
    left = [1 - 0.5 * 1.6 / 3, 0.6 - 0.5 * 1.6 / 3, -0.5 * 1.6 / 3]
    by_hand = [one / left[0] for one in left]
    assert score_rows(snap, "x", [1, 0], dense=1, mean=0.5) == pytest.approx(by_hand, abs=0.01)


def test_a_vector_leans_to_its_neighbours(tmp_path: Path) -> None:
    """By a quarter of each; then it is of unit length again. The last has no neighbour; a deleted one is none."""
    turns = [*talk("a", "b", "c"), *talk("d", session="t")]
    snap = store(tmp_path, turns, [*SLANT, [0, 1]])
    leaning = [(1 + 0.15, 0.2), (0.6 + 0.25, 0.8 + 0.25), (0.15, 1 + 0.2), (0, 1)]
    unit = [(x / sqrt(x * x + y * y), y / sqrt(x * x + y * y)) for x, y in leaning]
    np.testing.assert_allclose(leaning_vectors(np.arange(4), snap, 0.25), unit, atol=0.005)
    best = max(x for x, _ in unit)
    by_hand = [x / best for x, _ in unit]
    assert score_rows(snap, "x", [1, 0], dense=1, lean=0.25) == pytest.approx(by_hand, abs=0.01)
    assert (leaning_vectors(np.arange(4), snap, 0.0) == snap.vectors.dequantise(np.arange(4))).all()
    alone, _ = score_vectors_blended(around(np.arange(4), snap), np.array([1, 0], np.float32), snap, 0.25)
    assert alone.tolist() == snap.vectors.dequantise(np.arange(4))[:, 0].tolist()
    snap = store(tmp_path / "cut", turns, [[1, 0], [-1, 0], [0, 1], [1, 0]], cuts=(1, 3), deleted={1: [0]})
    side = np.array([1, 0.5]) / sqrt(1.25)
    expected = [side, side[::-1], [1, 0]]
    np.testing.assert_allclose(leaning_vectors(np.array([0, 2, 3]), snap, 0.5), expected, atol=0.005)
    opposite = store(tmp_path / "opposite", talk("a", "b"), [[1, 0], [-1, 0]])
    assert np.isfinite(leaning_vectors(np.arange(2), opposite, 1.0)).all()


def test_the_best_of_its_session(tmp_path: Path) -> None:
    """Half of each score, words and vector. A document, whose session is itself, keeps its own."""
    turns = [
        *talk("walnut", "rye", session="a"),
        *talk("walnut", session="b"),
        *talk("walnut", "rye", session="c", role="document"),
        *talk("rye", "rye", session="d"),
        *talk("walnut", "gone", session="e"),
    ]
    vectors = [[0, 1], [0.6, 0.8], [1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    snap = store(tmp_path, turns, vectors, deleted={0: [8]})
    assert score_rows(snap, "walnut", session=0.3) == pytest.approx([0.15, 0.15, 0.15, 0.15, 0, 0, 0, 0.15])
    by_hand = [0.15 * both for both in (1, 1, 2, 2, 1, 1, 1, 1)]
    assert score_rows(snap, "walnut", [1, 0], session=0.3) == pytest.approx(by_hand, abs=0.005)
    # Only what is in the pool counts.
    assert score_rows(snap, "walnut", rows=[1, 2, 5], session=0.3) == pytest.approx([0, 0.15, 0])
    assert score_session(np.array([0, 1]), np.array([-0.5, -0.25], np.float32), snap).tolist() == [-0.25, -0.25]


def test_a_standing_instruction_counts_as_far_as_it_is_meant(tmp_path: Path) -> None:
    turns = [*talk("always bake", "always wash", "bake"), *talk("always bake", role="assistant")]
    snap = store(tmp_path, turns, [[1, 0], [0.6, 0.8], [1, 0], [1, 0]])
    assert score_rows(snap, "x", [1, 0], standing=0.2) == pytest.approx([0.2, 0.12, 0, 0], abs=0.002)
    assert score_rows(snap, "x", [1, 0], rows=[1], standing=0.2) == pytest.approx([0.2], abs=0.002)
    off = 0.5 * 3.6 / 4  # half of the mean vector
    by_hand = [0.2, 0.2 * (0.6 - off) / (1 - off), 0, 0]
    assert score_rows(snap, "x", [1, 0], standing=0.2, mean=0.5) == pytest.approx(by_hand, abs=0.005)
    assert score_rows(snap, "x", None, standing=0.2) == [0, 0, 0, 0]


def test_features_of_an_item_alone(tmp_path: Path) -> None:
    """First person, salience and the fused rank, which what the walk brought has not."""
    turns = [*talk("I bake", salience=0.25), *talk("Bo bakes", salience=1.0), *talk("our bread", salience=0.5)]
    snap = store(tmp_path, turns)
    assert score_rows(snap, "x", first_person=0.06) == pytest.approx([0.06, 0, 0.06])
    assert score_rows(snap, "x", salience=0.1) == pytest.approx([0.025, 0.1, 0.05])
    assert score_rows(snap, "x", ranks=[0.1, np.nan, 0.2], rrf=0.5) == pytest.approx([0.25, 0, 0.5])
    assert score_rows(snap, "bread", [1, 0, 0]) == [0, 0, 0]  # nothing has a weight


def test_salience_says_nothing_of_documents(tmp_path: Path) -> None:
    """They get what the pool has in the mean: as much as a turn, and one as much as another."""
    kinds = (("a", 0.2, "document"), ("b", 0.9, "document"), ("c", 0.4, "user"))
    snap = store(tmp_path, [turn for text, level, role in kinds for turn in talk(text, salience=level, role=role)])
    assert score_rows(snap, "x", salience=0.5) == pytest.approx([0.25, 0.25, 0.2])
    assert score_rows(snap, "x", rows=[0, 2], salience=0.5) == pytest.approx([0.15, 0.2])


def test_the_window_of_a_document_is_half_its_words_and_half_its_vector(tmp_path: Path) -> None:
    """Inner products .6, 1 and .8; one word of three, in the first and the last, which is a turn."""
    texts = [
        *talk("walnut", role="document"),
        *talk("parsley", role="document", session="t"),
        *talk("walnut", session="u"),
    ]
    snap = store(tmp_path, texts, np.array([[0.6, 0.8], [1, 0], [0.8, 0.6]], np.float32))
    found = score_rows(snap, "walnut", [1, 0], window=0.5, standing=1.0)
    assert found == pytest.approx([0.5 * (1 + 0.6) / 2, 0.5 * (0 + 1) / 2, 0.5], abs=5e-3)
    assert score_rows(snap, "walnut", window=0.5) == pytest.approx([0.5, 0, 0.5])  # without a vector its words alone


def test_the_document_a_question_names(tmp_path: Path) -> None:
    turns = [
        *talk("monster", title="Alien (film)", role="document"),
        *talk("mould", title="Space Alien", role="document", session="t"),
        *talk("alien", title="Alien", session="u"),  # no document
    ]
    snap = store(tmp_path, turns)
    assert score_rows(snap, "Who made Alien?", title=0.15) == pytest.approx([0.15, 0, 0])
    assert score_rows(snap, "Who made Alien?", rows=[1, 2], title=0.15) == [0, 0]
    assert score_rows(snap, "Who made it?", title=0.15) == [0, 0, 0]


def test_a_part_is_told_by_its_name(tmp_path: Path) -> None:
    """Of the features that have a weight and apply. Without a vector its weight goes to the words."""
    snap = store(tmp_path, talk("walnut bread", "I bake"))
    query = make_query("walnut", snap, SETTINGS, now=NOW)
    profile, none = single_feature(own=0.5, first_person=0.1, dense=1), np.zeros(2, np.float32)
    found = compute_parts(np.arange(2), none, query, None, snap, route(query, None, snap), profile)
    assert {name: part.tolist() for name, part in found.items()} == {
        "own": pytest.approx([1.5, 0]),
        "first_person": pytest.approx([0, 0.1]),
    }


def test_the_parts_add_up(tmp_path: Path) -> None:
    """Weights are those of a sum: what two features give together is what each gives alone."""
    turns = [*talk("I ask: where is the walnut bread?", "in my oven"), *talk("always bake walnut bread", session="t")]
    snap = store(tmp_path, turns, SLANT)
    sim = {"own": 0.08, "window": 0.23, "adjacent": 0.06, "dense": 0.4, "session": 0.3, "reply": 0.12, "standing": 0.21}
    sim |= {"first_person": 0.06, "salience": 0.09}
    alone = [score_rows(snap, "walnut bread", [0.8, 0.6], **{name: weight}) for name, weight in sim.items()]
    together = score_rows(snap, "walnut bread", [0.8, 0.6], **sim)
    assert together == pytest.approx(np.sum(alone, axis=0).tolist(), rel=1e-5)


def test_the_pool_is_scored_as_it_is_given(tmp_path: Path) -> None:
    turns = [*talk("walnut bread", "I bake", "rye?"), *talk("bread walnut", "walnut", session="t")]
    snap = store(tmp_path, turns, np.random.default_rng(1).normal(size=(5, 4)), cuts=(2,))
    order = [3, 0, 4, 2, 1]
    every = {field.name: getattr(DEFAULT.sim, field.name) for field in fields(SimilarityConstants)}
    forth = score_rows(snap, "walnut bread", [1, 0, 0, 0], rows=range(5), **every)
    back = score_rows(snap, "walnut bread", [1, 0, 0, 0], rows=order, **every)
    assert [forth[row] for row in order] == pytest.approx(back)
    assert len(set(forth)) == 5
    assert all(left != right for left, right in pairwise(forth))


def test_an_item_in_another_language_has_its_meaning_again(tmp_path: Path) -> None:
    """It cannot have the question's words. Only vectors that are alike in all languages tell its meaning."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)
    given = [{"session": f"s{i}", "language": language} for i, language in enumerate(("en", "de", ""))]
    snap = make_store(tmp_path, ["walnut", "Nuss", "x"], vectors, given)
    snap.files.__dict__["encoder"] = SimpleNamespace(joins_languages=True)
    scores = score_rows(snap, "where is the walnut", (1, 0), dense=0.4, across=0.5)
    assert scores == pytest.approx([0.4, (0.4 + 0.5) * 0.8, 0.4 * 0.6], abs=0.02)
    snap.files.__dict__["encoder"] = SimpleNamespace(joins_languages=False)
    assert score_rows(snap, "where is the walnut", (1, 0), dense=0.4, across=0.5) == pytest.approx(
        [0.4, 0.4 * 0.8, 0.4 * 0.6], abs=0.02
    )
