from __future__ import annotations

import pytest

from helix.metrics import all_at, any_at, recall_at, reciprocal_rank


def test_by_hand() -> None:
    ranking, gold = ["a", "b", "c", "d"], {"b", "d", "x"}
    assert recall_at(ranking, gold, 2) == pytest.approx(1 / 3)
    assert recall_at(ranking, gold, 4) == pytest.approx(2 / 3)
    assert any_at(ranking, gold, 1) == 0
    assert any_at(ranking, gold, 2) == 1
    assert all_at(ranking, gold, 4) == 0
    assert all_at(ranking, {"a", "b"}, 2) == 1
    assert reciprocal_rank(ranking, gold) == 1 / 2
    assert reciprocal_rank(ranking, {"x"}) == 0
