"""The rank base of reciprocal rank fusion: ours counts from 1, that of others from 0, and k means another thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from helix.stages.fuse import fuse
from helix.types import Leg
from tests.support.tiny import make_store

Lists = Mapping[str, Sequence[int]]


def fuse_lists(root: Path, k: float, lists: Lists) -> dict[int, float]:
    """Scores by item, best first."""
    snap = make_store(root, [f"item {i}" for i in range(6)])
    legs = [Leg(name, np.array(rows, np.uint32), np.ones(len(rows), np.float32)) for name, rows in lists.items()]
    pool = fuse(legs, snap, k, {"dense": 1.0, "bm25": 1.0})
    return dict(zip(pool.row.tolist(), pool.rrf.tolist(), strict=True))


def test_first_in_two_lists_is_two_sixty_firsts(tmp_path: Path) -> None:
    """Switch: `fuse` with `np.arange(len(…))` for the ranks: 2/60."""
    assert fuse_lists(tmp_path, 60, {"dense": [4], "bm25": [4]}) == pytest.approx({4: 2 / 61}, rel=1e-6)


def test_our_k_of_one_is_a_zero_based_k_of_two(tmp_path: Path) -> None:
    """Switch: as above; then k = 1 is a zero-based k of 1, whose first place counts 1 and not a half.

    Qdrant gives a hit 1 / (2 + place), places from 0. By hand, of the lists 3 0 1 and 1 3 2:
    item 3 has 1/2 + 1/3, item 1 has 1/4 + 1/2, item 0 has 1/3, item 2 has 1/4.
    """
    lists: Lists = {"dense": [3, 0, 1], "bm25": [1, 3, 2]}
    by_hand = {3: Fraction(5, 6), 1: Fraction(3, 4), 0: Fraction(1, 3), 2: Fraction(1, 4)}
    theirs = {
        item: sum((Fraction(1, 2 + rows.index(item)) for rows in lists.values() if item in rows), Fraction())
        for item in by_hand
    }
    assert theirs == by_hand
    found = fuse_lists(tmp_path, 1, lists)
    assert list(found) == list(by_hand)
    assert found == pytest.approx({item: float(score) for item, score in by_hand.items()}, rel=1e-6)


def test_the_base_decides_who_wins(tmp_path: Path) -> None:
    """Switch: as above.

    With k = 1, a second and a fourth place (1/3 + 1/5) beat a first one (1/2); counted from 0
    they would lose (1/2 + 1/4 against 1).
    """
    found = fuse_lists(tmp_path, 1, {"dense": [0, 1], "bm25": [2, 3, 4, 1]})
    assert next(iter(found)) == 1
    assert found[1] == pytest.approx(8 / 15, rel=1e-6)
    assert found[0] == found[2] == pytest.approx(1 / 2, rel=1e-6)
