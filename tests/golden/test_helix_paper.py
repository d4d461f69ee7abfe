"""The design's first constants, to the letter."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from helix.recipes.load_profile import load
from helix.stages.fuse import fuse
from helix.stages.rank import rank
from helix.stages.route import route
from helix.types import TYPES, Leg
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

PAPER = load("helix-paper")
NOW = datetime.fromtimestamp(BASE + 100 * 3600, UTC)


def test_the_constants() -> None:
    assert (PAPER.retrieve.dense, PAPER.retrieve.bm25, PAPER.fuse.k) == (100, 100, 60)
    assert (PAPER.diversify.jaccard, PAPER.diversify.lambda_) == (0.8, 0.5)
    assert (PAPER.rank.recency, PAPER.rank.decay["episodic"]) == ("always", 0.995)
    table = {
        "episodic": (0.35, 0.30, 0.15, 0.10, 0.10),
        "semantic": (0.40, 0.05, 0.20, 0.20, 0.15),
        "procedural": (0.45, 0.10, 0.25, 0.15, 0.05),
        "decision": (0.35, 0.10, 0.25, 0.25, 0.05),
        "code": (0.50, 0.15, 0.10, 0.10, 0.15),
    }
    assert {kind: tuple(PAPER.weights[kind].values()) for kind in TYPES} == table


def test_a_score_by_hand(tmp_path: Path) -> None:
    """`sim` is the fused rank: 2/61, 1/62 and 1/62 make 1, 0 and 0. Ages of 100, 0 and 100 hours; salience .2 .6 .4."""
    given = [
        {"session": "a", "time": BASE, "salience": 0.2, "type": "episodic"},
        {"session": "b", "time": BASE + 360_000, "salience": 0.6, "type": "decision"},
        {"session": "c", "time": BASE, "salience": 0.4, "type": "code"},
    ]
    snap = make_store(tmp_path, ["red fox", "red hen", "red elk"], given=given)
    query = make_query("red", snap, SETTINGS, now=NOW)
    legs = [
        Leg("dense", np.array([0, 1], np.uint32), np.array([0.9, 0.8], np.float32)),
        Leg("bm25", np.array([0, 2], np.uint32), np.array([3, 2], np.float32)),
    ]
    pool = fuse(legs, snap, PAPER.fuse.k, PAPER.fuse.weights)
    assert pool.rrf[0] == pytest.approx(2 / 61)
    found = rank(pool, query, None, snap, route(query, None, snap), PAPER)
    by = {row: i for i, row in enumerate(found.row.tolist())}
    assert [found.sim[by[row]] for row in range(3)] == pytest.approx([1, 0, 0])
    recency = [0.995**100, 1.0, 0.999**100]  # .606, 1, .905; over the pool 0, 1, .759
    scaled = [(one - recency[0]) / (1 - recency[0]) for one in recency]
    assert [found.recency[by[row]] for row in range(3)] == pytest.approx(scaled, abs=1e-6)
    by_hand = [0.35 * 1 + 0.30 * 0 + 0.15 * 0, 0.35 * 0 + 0.10 * 1 + 0.25 * 1, 0.50 * 0 + 0.15 * scaled[2] + 0.10 * 0.5]
    assert [found.final[by[row]] for row in range(3)] == pytest.approx(by_hand, abs=1e-6)
    assert found.row.tolist() == [0, 1, 2]
