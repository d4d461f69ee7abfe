"""Every stage against hand arithmetic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.recipes.load_profile import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.dense import search_dense
from helix.stages.diversify import diversify, explain_left_out, find_repeats, mmr
from helix.stages.fuse import fuse
from helix.stages.graph import pagerank, spread
from helix.stages.lexical import search_lexical
from helix.stages.rank import minmax, rank, recency, type_weights
from helix.stages.route import route
from helix.types import TYPES, Candidates, Leg
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

NOW = datetime(2023, 11, 15, tzinfo=UTC)
LONG = "the quick brown fox jumps over the lazy dog near the old mill by the river in spring"
PAPER = load("helix-paper")
BY_SCORE = replace(PAPER.diversify, relevance="score")


def leg(name: str, *rows: int) -> Leg:
    return Leg(name, np.array(rows, np.uint32), np.linspace(1, 0.1, len(rows), dtype=np.float32))


def test_rrf(tmp_path: Path) -> None:
    """Ranks count from one; ties go to the smaller id; a list weighs as much as is given."""
    snap = make_store(tmp_path / "three", ["a b", "c d", "e f"])
    pool = fuse([leg("dense", 1, 0), leg("bm25", 1, 2)], snap, 60, {"dense": 1.0, "bm25": 1.0})
    assert pool.row[0] == 1
    by_row = dict(zip(pool.row.tolist(), pool.rrf.tolist(), strict=True))
    assert by_row == pytest.approx({1: 2 / 61, 0: 1 / 62, 2: 1 / 62})
    assert np.isnan(pool.bm25[pool.row == 0]).all()
    assert pool.dense[pool.row == 0] == 2
    pool = fuse([leg("dense", 0), leg("bm25", 1)], snap, 60, {"dense": 1.0, "bm25": 2.0})
    assert pool.row.tolist() == [1, 0]
    assert pool.rrf[0] == pytest.approx(2 / 61)
    given = [{"id": "00000000000000ff"}, {"id": "0000000000000001"}]
    snap = make_store(tmp_path / "ties", ["a b", "c d"], given=given)
    pool = fuse([leg("dense", 0), leg("bm25", 1)], snap, 60, {"dense": 1.0, "bm25": 1.0})
    assert pool.row.tolist() == [1, 0]


def test_idf_and_saturation_by_hand() -> None:
    assert compute_idf(1, 3) == pytest.approx(np.log(1 + 2.5 / 1.5), rel=1e-6)
    assert compute_idf(3, 3) > 0
    # tf 2 in a document of mean length: 2 · 2.2 / (2 + 1.2)
    one = np.ones(1, np.float32)
    assert saturate_tf(2 * one, 5 * one, 5.0, 1.2, 0.75)[0] == pytest.approx(2 * 2.2 / 3.2)


def test_filters_are_pre_filters(tmp_path: Path) -> None:
    kinds = (("a", "decision", BASE), ("a", "code", BASE + 86_400), ("b", "decision", None))
    given = [{"project": project, "type": type_, "time": time} for project, type_, time in kinds]
    snap = make_store(tmp_path, ["red one", "red two", "red three"], given=given)

    def allowed_rows(**filters):
        query = make_query("red", snap, SETTINGS, now=NOW, **filters)
        plan = route(query, None, snap)
        leg = search_lexical(query, snap.lexical, plan, 100, 0.9, 0.6)
        near = search_dense(np.array([1, 0, 0], np.float32), snap, plan, 100)
        assert set(leg.rows.tolist()) == set(near.rows.tolist())
        return set(leg.rows.tolist())

    assert allowed_rows() == {0, 1, 2}
    assert allowed_rows(project="a") == {0, 1}
    assert allowed_rows(type="decision") == {0, 2}
    assert allowed_rows(project="a", type="decision") == {0}
    assert allowed_rows(since="2023-11-15") == {1}
    assert allowed_rows(until="2023-11-14") == {0}  # the whole day; an unknown time is in no window
    assert allowed_rows(since="2023-11-14", until="2023-11-15") == {0, 1}


def test_as_of_and_ingested_as_of_are_two_times(tmp_path: Path) -> None:
    given = [
        {"t_valid": BASE, "t_invalid": BASE + 1000, "t_ingested": BASE},
        {"t_valid": BASE + 1000, "t_ingested": BASE + 1000},
        {"t_valid": BASE, "t_ingested": BASE + 5000},  # said early, imported late
    ]
    snap = make_store(tmp_path, ["red one", "red two", "red three"], given=given)

    def rows(said: int | None = None, ingested: int | None = None) -> list[int]:
        times = [None if at is None else datetime.fromtimestamp(BASE + at, UTC) for at in (said, ingested)]
        query = make_query("red", snap, SETTINGS, as_of=times[0], ingested_as_of=times[1], now=NOW)
        plan = route(query, None, snap.known_at(*times))
        return [0, 1, 2] if plan.allowed is None else np.flatnonzero(plan.allowed).tolist()

    assert rows(said=500) == [0, 2]
    assert rows(said=1000) == [1, 2]
    assert rows(ingested=1000) == [1]  # of what was stored by then, what holds now
    assert rows(said=500, ingested=1000) == [0]
    assert rows(said=500, ingested=5000) == [0, 2]
    assert rows() == [1, 2]  # now: what has become invalid is out


def test_pagerank_by_hand() -> None:
    # seed – a, one edge: p = ½·s + ½·Wᵀp has the solution (2/3, 1/3)
    p = pagerank(np.array([0]), np.array([1]), np.ones(1, np.float32), np.array([1.0, 0.0]), alpha=0.5, steps=60)
    assert p.tolist() == pytest.approx([2 / 3, 1 / 3], abs=1e-9)


def test_pagerank_is_a_distribution_and_equals_the_linear_solution() -> None:
    rng = np.random.default_rng(7)
    left, right = rng.integers(0, 30, 80), rng.integers(0, 30, 80)
    weight = rng.random(80).astype(np.float32) + 0.1
    restart = np.zeros(30)
    restart[:3] = 1 / 3
    p = pagerank(left, right, weight, restart, 0.3, 200)
    assert p.sum() == pytest.approx(1)
    dense = np.zeros((30, 30))
    for a, b, w in zip(left, right, weight, strict=True):
        dense[a, b] += w
        dense[b, a] += w
    out = dense.sum(axis=1)
    steps = np.divide(dense, out[:, None], out=np.zeros_like(dense), where=out[:, None] > 0)
    steps[out == 0] = restart
    exact = np.linalg.solve(np.eye(30) - 0.7 * steps.T, 0.3 * restart)
    assert p.tolist() == pytest.approx(exact.tolist(), abs=1e-6)


def spread_words(snap: Snapshot, **filters: Any) -> tuple[Candidates, Candidates]:
    """Return the pool of a word before and after the walk."""
    query = make_query("vacation", snap, SETTINGS, now=NOW, **filters)
    plan = route(query, None, snap)
    pool = fuse([search_lexical(query, snap.lexical, plan, 100, 0.9, 0.6)], snap, 60, {"dense": 1.0, "bm25": 1.0})
    return pool, spread(pool, query, snap, plan, PAPER.graph)


def test_the_walk_brings_items_that_share_a_rare_entity_and_no_word(tmp_path: Path) -> None:
    goa = [("name", "goa", "Goa")]
    given = [{"session": name, "project": name} for name in "abcd"]
    texts = ["plan vacation", "look at flights", "walnut bread", "pick a database"]
    snap = make_store(tmp_path / "four", texts, given=given, mentions=[goa, goa, [], []])
    before, after = spread_words(snap)
    assert before.row.tolist() == [0]
    assert set(after.row.tolist()) == {0, 1}
    assert np.isnan(after.rrf[after.row == 1]).all()
    assert (after.ppr > 0).all()
    assert (after.ppr <= PAPER.graph.mass + 1e-6).all()
    assert spread_words(snap, project="a")[1].row.tolist() == [0]  # it never leaves the filter
    n = PAPER.graph.entity_df + 1  # a hub carries nothing
    texts, given = ["plan vacation", *(f"thing{i}" for i in range(n - 1))], [{"session": str(i)} for i in range(n)]
    snap = make_store(tmp_path / "hub", texts, np.eye(n, 4) + 0.1, given, [goa] * n)
    assert spread_words(snap)[1].row.tolist() == [0]


def test_minmax() -> None:
    assert minmax(np.array([2, 4, 3], np.float32)).tolist() == [0, 1, 0.5]
    assert minmax(np.array([5, 5], np.float32)).tolist() == [0, 0]


def test_the_papers_weights_are_the_designs() -> None:
    table = type_weights(PAPER, recent=False)
    expected = {
        "episodic": [0.35, 0.30, 0.15, 0.10, 0.10],
        "semantic": [0.40, 0.05, 0.20, 0.20, 0.15],
        "procedural": [0.45, 0.10, 0.25, 0.15, 0.05],
        "decision": [0.35, 0.10, 0.25, 0.25, 0.05],
        "code": [0.50, 0.15, 0.10, 0.10, 0.15],
    }
    for column, kind in enumerate(TYPES):
        assert table[:, column].tolist() == pytest.approx(expected[kind])
    assert PAPER.fuse.k == 60
    assert PAPER.diversify.lambda_ == 0.5
    assert PAPER.diversify.jaccard == 0.8


def test_weights_of_a_type_sum_to_one_and_recency_not_asked_for_goes_to_sim() -> None:
    default = load("helix")
    for profile, recent in product((default, PAPER), (True, False)):
        assert type_weights(profile, recent).sum(axis=0).tolist() == pytest.approx([1.0] * len(TYPES))
    asked, silent = type_weights(default, True), type_weights(default, False)
    assert (silent[1] == 0).all()
    assert (asked[1] > 0).all()
    assert (silent[0] == asked[0] + asked[1]).all()


def test_recency_decays_from_last_access_by_type(tmp_path: Path) -> None:
    hour = int(NOW.timestamp()) - 3600
    given = [{"time": hour}, {"time": hour - 3600}, {"time": hour, "type": "code"}, {"time": hour + 7200}]
    given.append({"time": None, "t_valid": BASE, "t_ingested": hour - 3600})  # undated: never recent
    snap = make_store(tmp_path, ["a b", "c d", "e f", "g h", "i j"], given=given)
    query = make_query("a", snap, SETTINGS, now=NOW)
    found = recency(np.arange(5), query, snap, load("helix"))
    assert found.tolist() == pytest.approx([0.995, 0.995**2, 0.999, 1.0, 0])


def test_a_turn_between_matching_turns_beats_a_lone_match(tmp_path: Path) -> None:
    """The window and the neighbours count: that is where recall is won in dialogue."""
    texts = ["budget spreadsheet", "yes", "budget spreadsheet again", "other", "more other", "spreadsheet"]
    given = [{"session": "a"}] * 4 + [{"session": "b"}, {"session": "c"}]
    snap = make_store(tmp_path, texts, given=given, vectors=np.ones((6, 4)))
    query = make_query("budget spreadsheet", snap, SETTINGS, now=NOW)
    plan = route(query, None, snap)
    pool = fuse([leg("bm25", 0, 1, 2, 3, 4, 5)], snap, 60, {"dense": 1.0, "bm25": 1.0})
    ranked = rank(pool, query, None, snap, plan, load("helix"))
    place = {row: i for i, row in enumerate(ranked.row.tolist())}
    assert place[1] < place[3]  # both without the words; 1 is between two matches
    assert place[1] < place[4]
    assert place[0] < place[5]


def test_ranking_does_not_depend_on_the_order_of_the_pool(tmp_path: Path) -> None:
    texts = [f"red {w}" for w in ("one", "two", "three", "four")]
    snap = make_store(tmp_path, texts)
    query = make_query("red two", snap, SETTINGS, now=NOW)
    plan = route(query, None, snap)
    pool = spread(fuse([leg("bm25", 0, 1, 2, 3)], snap, 60, {"bm25": 1.0}), query, snap, plan, PAPER.graph)
    backwards = pool.take(np.arange(len(pool))[::-1])
    a, b = (rank(p, query, None, snap, plan, PAPER) for p in (pool, backwards))
    assert a.row.tolist() == b.row.tolist()
    assert a.final.tolist() == b.final.tolist()
    assert a.row[0] == 1


def test_mmr_by_hand() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    score = np.array([1.0, 0.9, 0.5], np.float32)
    # second choice: λ·.9 − (1 − λ)·1 against λ·.5 − 0
    assert mmr(score, vectors, 0.5, 2).tolist() == [0, 2]  # −.05 < .25
    assert mmr(score, vectors, 0.9, 2).tolist() == [0, 1]  # .71 > .45
    assert mmr(score, vectors, 1.0, 3).tolist() == [0, 1, 2]
    assert mmr(score, vectors, 0.5, 99).tolist() == [0, 2, 1]
    assert mmr(score[:0], vectors[:0], 0.5, 3).tolist() == []


def test_near_duplicates_leave_the_better_one(tmp_path: Path) -> None:
    texts = [LONG, "something else entirely about bread", LONG + " ok"]
    snap = make_store(tmp_path, texts)
    unique = find_repeats(snap.row_map.signatures(np.arange(3)), 0.8) < 0
    assert unique.tolist() == [True, True, False]
    assert find_repeats(snap.row_map.signatures(np.array([2, 1, 0])), 0.8).tolist() == [-1, -1, 0]
    assert find_repeats(snap.row_map.signatures(np.empty(0, int)), 0.8).tolist() == []
    # a ~ b and b ~ c do not make a ~ c: c stays, since only b, which is gone, is near it.
    a = np.arange(64, dtype=np.uint32)
    b = a.copy()
    b[:12] += 1000
    c = b.copy()
    c[12:24] += 1000
    assert find_repeats(np.stack([a, b, c]), 0.8).tolist() == [-1, 0, -1]


def make_pool(*final: float) -> Candidates:
    nothing = np.full(len(final), np.nan, np.float32)
    return Candidates(np.arange(len(final), dtype=np.uint32), *([nothing] * 12), np.array(final, np.float32))


def test_diversify_returns_k_best_first_and_explains_what_it_leaves_out(tmp_path: Path) -> None:
    def choose_two(name: str, texts: list[str], vectors: Any, *score: float) -> tuple[list[int], Any]:
        snap, pool = make_store(tmp_path / name, texts, vectors), make_pool(*score)
        chosen = diversify(pool, snap, 2, BY_SCORE)
        return chosen.row.tolist(), explain_left_out(pool, chosen, snap, BY_SCORE)

    rows, left = choose_two("far", ["a one", "b two", "c three"], np.eye(3), 0.9, 0.8, 0.7)
    assert (rows, left.near.tolist(), left.far.tolist()) == ([0, 1], [], [])  # the third is out by its score alone
    texts, vectors = [LONG, LONG + " ok", "b two", "c three"], np.eye(4)[[0, 0, 0, 1]]
    rows, left = choose_two("near", texts, vectors, 0.9, 0.85, 0.8, 0.7)
    assert rows == [0, 3]  # .5·.8 − .5·1 < .5·.7
    assert (left.near.tolist(), left.of.tolist()) == ([1], [0])
    assert left.far.tolist() == [2]
    assert left.alike == pytest.approx([1], abs=0.01)


def test_dropped_near_duplicates_make_room_for_lower_rows(tmp_path: Path) -> None:
    """With λ = 1 only the best k count, and one more for each copy among them."""
    snap = make_store(tmp_path, [LONG, LONG + " ok", "b two", LONG + " yes", "c three"], np.eye(5))
    pool = make_pool(*np.linspace(1, 0.5, 5))
    plain = replace(BY_SCORE, lambda_=1.0)
    assert [diversify(pool, snap, k, plain).row.tolist() for k in range(1, 5)] == [[0], [0, 2], [0, 2, 4], [0, 2, 4]]
    assert diversify(pool.take(np.arange(0)), snap, 3, plain).row.tolist() == []
