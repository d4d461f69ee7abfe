"""The weights of the similarity, fitted to lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.cli.main import main
from helix.recipes.load_profile import load
from helix.settings import load as settings
from helix.stages.constants import SimilarityConstants
from pipelines.eval import fit_weights
from tests.support.benchmarks import locomo

GOLD = frozenset({"s\t1"})

pytestmark = pytest.mark.usefixtures("no_router")


def make_pool(*rows: tuple[float, ...], gold: frozenset[str] = GOLD) -> fit_weights.FeaturePool:
    """Items of the turns 1, 2, … of a session."""
    return fit_weights.FeaturePool(np.array(rows, np.float32), [f"s\t{i + 1}" for i in range(len(rows))], gold, 0)


def test_every_weight_has_a_feature_or_is_fixed() -> None:
    assert set(fit_weights.list_features()) | set(fit_weights.FIXED) == set(SimilarityConstants.__dataclass_fields__)


def test_a_feature_of_the_gold_gains_weight_until_the_slope_is_zero() -> None:
    weights = fit_weights.minimise_loss({"a": [make_pool((1, 0, 0.5), (0, 1, 0.5))]}, np.zeros(3), 0.1)
    assert weights[0] > 0.05
    assert weights[1] == pytest.approx(-weights[0], rel=1e-3)
    assert weights[2] == pytest.approx(0, abs=1e-6)  # both have it
    weight = fit_weights.minimise_loss({"a": [make_pool((1,), (0,))]}, np.zeros(1), 0.5)[0]
    odds = 1 / (1 + np.exp(-fit_weights.TEMPERATURE * weight))
    assert fit_weights.TEMPERATURE * (1 - odds) == pytest.approx(2 * 0.5 * weight, rel=1e-3)


def test_strength_holds_the_weights_and_sets_of_any_size_weigh_the_same() -> None:
    prior = np.array([0.4, 0.2])
    held, free = (
        fit_weights.minimise_loss({"a": [make_pool((0, 1), (1, 0))]}, prior, strength) for strength in (1e6, 1e-3)
    )
    assert held == pytest.approx(prior, abs=1e-4)
    assert free[1] - free[0] > 0.3
    left, right = make_pool((1, 0), (0, 1)), make_pool((0, 1), (1, 0))
    weights = fit_weights.minimise_loss({"small": [left], "large": [right] * 50}, np.zeros(2), 0.1)
    assert weights == pytest.approx([0, 0], abs=1e-3)


def test_pools_without_gold_have_no_effect() -> None:
    prior = np.array([0.3, 0.1])
    missed = make_pool((1, 0), (0, 1), gold=frozenset({"s\t9"}))
    taught = make_pool((0, 1), (1, 0))
    assert fit_weights.minimise_loss({"a": [missed, taught]}, prior, 0.1) == pytest.approx(
        fit_weights.minimise_loss({"a": [taught]}, prior, 0.1)
    )


def test_a_set_is_fitted_through_the_normal_recall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = locomo(tmp_path / "locomo.json")
    pools = fit_weights.read_pools("locomo", path, settings(), load("helix"))
    assert pools
    assert {one.fold for one in pools} <= set(range(fit_weights.FOLDS))
    for one in pools:
        assert one.features.shape == (len(one.turns), len(fit_weights.list_features()))
        assert any(turn in one.gold for turn in one.turns)
    own = pools[0].features[:, fit_weights.list_features().index("own")]
    assert own.max() == pytest.approx(1)  # of weight one, divided by the best
    assert main(["eval", "fit", f"locomo:a={path}", f"locomo:b={path}", "--json"]) == 0
    fitted = fit_weights.Fitted(**orjson.loads(capsys.readouterr().out))
    assert set(fitted.weights) == set(fit_weights.list_features())
    assert set(fitted.before) == set(fitted.held_out) == set(fitted.across) == {"a", "b"}
    assert "dense = " in fit_weights.format_weights(fitted)
