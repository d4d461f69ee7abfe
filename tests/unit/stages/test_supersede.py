"""Successors rank above superseded items, and many copies of one item take one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.collapse import clusters, collapse
from helix.stages.fuse import fuse
from helix.stages.supersede import Superseded, add_successors, demote, find_superseded
from helix.types import Leg, Plan
from tests.support.tiny import BASE, make_store, record

NOW = BASE + 100_000


def home(place: str, **more: object) -> dict[str, object]:
    return {"subject": "ana", "relation": "lives_in", "object_": place, **more}


def homes(root: Path) -> Snapshot:
    """Oslo, then Rome, then Bern; a hobby that has no successor; and one who says two things of which one holds."""
    texts = ["Oslo", "Rome", "Bern", "chess", "both", "nothing"]
    given = [{"session": f"s{i}", "time": BASE + i * 100} for i in range(len(texts))]
    hobby = {"subject": "ana", "relation": "likes", "object_": "chess", "functional": False, "until": BASE + 350}
    both = [home("york", subject="bo"), {**hobby, "object_": "go", "subject": "bo"}]
    facts = [[home("oslo")], [home("rome")], [home("bern")], [hobby], both, []]
    return make_store(root, texts, given=given, facts=facts)


def test_successors_are_those_that_hold(tmp_path: Path) -> None:
    snap = homes(tmp_path)
    rows = np.arange(6)
    assert snap.facts.stale(rows, NOW).tolist() == [True, True, False, True, False, False]
    found = superseded_in(rows, snap)
    assert found.rows.tolist() == [0, 1, 3]
    assert list(zip(found.old.tolist(), found.new.tolist(), strict=True)) == [(0, 2), (1, 2)]  # not the one between
    found = superseded_in(rows, snap, BASE + 150)
    assert list(zip(found.old.tolist(), found.new.tolist(), strict=True)) == [(0, 1)]
    assert find_superseded(np.array([2, 5], np.uint32), snap, NOW) is None


def superseded_in(rows: np.ndarray, snap: Snapshot, at: int = NOW) -> Superseded:
    found = find_superseded(rows.astype(np.uint32), snap, at)
    assert found
    return found


def test_demotion_by_hand(tmp_path: Path) -> None:
    """A successor gets what the old one has; the old one keeps nine tenths of the lower of the two."""
    snap = homes(tmp_path)
    rows = np.array([2, 0, 3, 4, 5, 1])
    final = np.array([0.3, 0.8, 0.6, 0.5, 0.4, 0.2], np.float32)
    expected = [0.8, 0.9 * 0.8, 0.9 * 0.6, 0.5, 0.4, 0.9 * 0.2]
    assert demote(rows, final, superseded_in(rows, snap), 0.1).tolist() == pytest.approx(expected)
    assert final.tolist() == pytest.approx([0.3, 0.8, 0.6, 0.5, 0.4, 0.2])  # nothing is changed in place
    assert demote(rows, final, superseded_in(rows, snap), 0.0).tolist() == final.tolist()
    # A better successor stays where it is; without one in the pool the share alone is taken.
    for rows in (np.array([0, 2]), np.array([0, 5])):
        after = demote(rows, np.array([0.5, 0.9], np.float32), superseded_in(rows, snap), 0.1)
        assert after.tolist() == pytest.approx([0.45, 0.9])


def test_a_successor_joins_the_pool_if_it_may_be_searched(tmp_path: Path) -> None:
    snap = homes(tmp_path)
    pool = fuse([Leg("bm25", np.array([0, 5], np.uint32), np.ones(2, np.float32))], snap, 60, {"bm25": 1.0})
    everything, found = Plan(None, 6), superseded_in(pool.row, snap)
    assert add_successors(pool, found, everything).row.tolist() == [0, 5, 2]
    assert np.isnan(add_successors(pool, found, everything).rrf[-1])
    without = np.array([True, True, False, True, True, True])
    assert add_successors(pool, found, Plan(without, 5)).row.tolist() == [0, 5]
    assert find_superseded(pool.row, snap, BASE + 50) is None
    both = fuse([Leg("bm25", np.array([0, 2], np.uint32), np.ones(2, np.float32))], snap, 60, {"bm25": 1.0})
    assert add_successors(both, superseded_in(both.row, snap), everything).row.tolist() == [0, 2]  # it is there


def crowd(root: Path, sizes: list[int], others: int) -> tuple[Snapshot, np.ndarray]:
    """Crowds of copies of their first, then others; and a score for each row."""
    near: list[str | None] = []
    for size in sizes:
        first = str(record(len(near), "x", {})["id"])
        near += [None, *[first] * (size - 1)]
    near += [None] * others
    rng = np.random.default_rng(sum(sizes))
    score = rng.random(len(near)).astype(np.float32)
    score[: sum(sizes)] += 1  # every copy is better than all others
    return make_store(root, [f"text {i}" for i in range(len(near))], np.ones((len(near), 2)), near=near), score


K = 20


def search_best(plan: Plan, score: np.ndarray) -> Leg:
    rows = np.flatnonzero(np.ones(len(score), bool) if plan.allowed is None else plan.allowed)
    best = rows[np.argsort(-score[rows], kind="stable")][:K]
    return Leg("dense", best.astype(np.uint32), score[best])


@pytest.mark.parametrize("sizes", [[60], [40, 40], [25, 25, 25, 25], [3, 2], [1]])
def test_a_crowd_takes_one_place(tmp_path: Path, sizes: list[int]) -> None:
    """Against taking every copy out by hand; a leg that is not crowded is left alone."""
    snap, score = crowd(tmp_path, sizes, 40)
    k, plans = K, list[Plan]()
    leg, copies, better = collapse(
        lambda plan: plans.append(plan) or search_best(plan, score), Plan(None, snap.rows), snap, k
    )
    group = clusters(np.arange(snap.rows, dtype=np.uint32), snap)
    in_order = np.argsort(-score, kind="stable")
    if len(sizes) * 2 > k or sum(sizes) < k // 2:
        assert len(plans) == 1
        assert leg.rows.tolist() == in_order[:k].tolist()
        return
    _, first = np.unique(group[in_order], return_index=True)
    assert leg.rows.tolist() == in_order[np.sort(first)][:k].tolist()
    assert set(group[copies].tolist()) <= set(group[: sum(sizes)].tolist())
    assert (group[copies] == group[better]).all()
    assert set(better.tolist()) <= set(leg.rows.tolist())
    assert (score[better] > score[copies]).all()


def test_only_what_may_be_searched_is_searched_again(tmp_path: Path) -> None:
    snap, score = crowd(tmp_path, [60], 40)
    allowed = np.ones(snap.rows, bool)
    allowed[60:90] = False

    def search(plan: Plan) -> Leg:
        assert plan.allowed is not None
        assert not plan.allowed[60:90].any()
        assert plan.allowed_rows == int(plan.allowed.sum())
        return search_best(plan, score)

    leg, _, _ = collapse(search, Plan(allowed, 70), snap, K)
    assert len(leg.rows) == 11  # one of the crowd, and the ten others that may be searched
