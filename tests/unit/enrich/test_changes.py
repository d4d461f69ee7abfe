"""Pairs of turns that are compared for a change, and what else is near them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helix.enrich import changes
from helix.enrich.changes import FEATURES, TurnRows
from helix.text.claims import CLAIMS, FORMER
from helix.types import ROLES

SETS = CLAIMS.index("sets")


def make_turns(vectors: Any, sets: Any = None, previous: Any = None) -> TurnRows:
    """Turns that a user says, a day apart, each of its own session, all of which set something."""
    unit = np.asarray(vectors, np.float32)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    n = len(unit)
    claims = np.zeros((n, len(CLAIMS)), np.uint8)
    claims[:, SETS] = 255 if sets is None else 255 * np.asarray(sets)
    return TurnRows(
        vectors=unit,
        previous=np.full(n, -1) if previous is None else np.asarray(previous),
        indptr=np.arange(n + 1),
        terms=np.arange(n, dtype=np.uint32),
        length=np.full(n, 6, np.float32),
        claims=claims,
        alters=np.zeros(n, np.uint8),
        former=np.zeros((n, FORMER), np.uint32),
        time=86_400 * np.arange(n),
        role=np.full(n, ROLES.index("user"), np.uint8),
        speaker=np.full(n, -1),
        session=np.arange(n),
    )


def compare(turns: TurnRows, judged: Any = None) -> dict[tuple[int, int], dict[str, float]]:
    """Return the features of each compared pair."""
    leaned = changes.lean_vectors(turns)
    all_ = np.ones(len(turns.time), bool)
    pairs = changes.choose_pairs(turns, leaned, all_ if judged is None else judged)
    features = changes.compute_features(turns, leaned, pairs)
    ends = zip(pairs.old.tolist(), pairs.new.tolist(), strict=True)
    return {end: dict(zip(FEATURES, row, strict=True)) for end, row in zip(ends, features.tolist(), strict=True)}


def test_a_pair_is_measured_against_its_rivals() -> None:
    found = compare(make_turns([[1, 0], [1, 1], [0, 1], [1, 0.1]]))
    assert found.keys() == {(i, j) for j in range(4) for i in range(j)}
    own = {pair: row["own"] for pair, row in found.items()}
    best = found[0, 3]  # the nearest turn before it, and nothing between them is nearer
    assert (best["ahead_own"], best["lead_own"]) == (0, pytest.approx(own[0, 3] - own[1, 3]))
    assert best["between_own"] == pytest.approx(own[0, 3] - own[0, 1])
    worst = found[2, 3]
    assert (worst["ahead_own"], worst["lead_own"]) == (2, pytest.approx(own[2, 3] - own[0, 3]))
    assert found[0, 1]["lead_own"] == found[0, 1]["between_own"] == pytest.approx(0.3)  # no rival
    assert found[0, 2]["between_own"] == pytest.approx(own[0, 2] - own[0, 1])


def test_later_turns_change_no_pair() -> None:
    turns = make_turns(np.random.default_rng(1).normal(size=(60, 8)))
    early = TurnRows(*(part[:41] if name == "indptr" else part[:40] for name, part in turns._asdict().items()))
    whole, before = compare(turns), compare(early)
    assert before.keys() == {pair for pair in whole if pair[1] < 40}
    assert all(row == pytest.approx(whole[pair], abs=1e-5) for pair, row in before.items())


def test_a_turn_that_sets_nothing_is_neither_compared_nor_a_rival() -> None:
    found = compare(make_turns([[1, 0], [1, 0], [1, 1]], sets=[1, 0, 1]))
    assert found.keys() == {(0, 2)}
    assert found[0, 2]["ahead_own"] == 0


def find_affected(turns: TurnRows, new: list[int]) -> list[int]:
    mask = np.isin(np.arange(len(turns.time)), new)
    return np.flatnonzero(changes.find_affected(turns, changes.lean_vectors(turns), mask)).tolist()


def test_new_turns_affect_the_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 40
    angles = np.linspace(0, np.pi, n)
    turns = make_turns(np.stack([np.cos(angles), np.sin(angles)], axis=1), previous=[-1, *range(n - 1)])
    assert find_affected(turns, []) == []
    assert find_affected(turns, [38, 39]) == [38, 39]
    assert find_affected(turns, [20]) == list(range(20, n))
    monkeypatch.setattr(changes, "AFFECTED", 10)
    assert find_affected(turns, [20]) == [*range(20, 20 + changes.NEAREST + 1)]  # those nearest to it
    assert find_affected(turns, [35]) == list(range(35, n))
