"""Small networks over the items of a list: their arithmetic, their training, and those of the package."""

from __future__ import annotations

import numpy as np
import pytest

from helix.ranking.network import FARTHEST, ListNetwork, load_network, score_rows
from helix.stages.features.reading import FEATURES


def test_scores_by_hand() -> None:
    hidden = np.array([[[1, 0], [0, 1]], [[2, 0], [0, 0]]], np.float32)
    network = ListNetwork(
        mean=np.array([1, 0], np.float32),
        deviation=np.array([2, 1], np.float32),
        hidden=hidden,
        bias=np.array([[0, -1], [1, 0]], np.float32),
        out=np.array([[1, 10], [100, 0]], np.float32),
        linear=np.array([0, 0.5], np.float32),
    )
    rows = np.array([[3, 2], [1, 0], [1, 1000], [-1, 0]], np.float32)  # in deviations: (1, 2), (0, 0), (0, 4), (−1, 0)
    expected = [(1 + 10 + 300) / 2 + 1, 100 / 2, (30 + 100) / 2 + FARTHEST / 2, 0]
    assert score_rows(network, rows).tolist() == expected
    assert score_rows(network, rows[:0]).tolist() == []


@pytest.mark.parametrize("kind", ["now", "then", "why"])
def test_the_networks_of_the_package_take_the_features_of_a_reading(kind: str) -> None:
    network = load_network("helix.stages", f"reading_{kind}")
    rows = np.random.default_rng(0).normal(size=(5, len(FEATURES))).astype(np.float32)
    scores = score_rows(network, rows)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0.1
