"""The constants of the ranking, fitted by coordinate ascent through the normal recall."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.cli.main import main
from helix.recipes.encoder_weights import get_constant, set_constants
from helix.recipes.load_profile import load
from helix.stages.constants import HelixProfile
from pipelines.eval import fit_weights
from tests.support.benchmarks import locomo

pytestmark = pytest.mark.usefixtures("no_router")


def test_every_fitted_constant_is_in_the_profile() -> None:
    profile = load("helix")
    for name in (*fit_weights.FITTED, fit_weights.SPARSE):
        assert get_constant(profile, name) >= 0
        assert get_constant(set_constants(profile, {name: 0.123}), name) == 0.123
    assert get_constant(profile, "sim.dense") != 0.123  # the profile itself stays


def measure_dense(peaks: Mapping[int, float]):
    """Measure a profile whose recall falls with the distance of `sim.dense` from each fold's peak."""

    def measure(profile: HelixProfile) -> dict[str, np.ndarray]:
        at = get_constant(profile, "sim.dense")
        return {"set": np.array([[1 - abs(at - peak), 0.0, fold] for fold, peak in peaks.items()])}

    return measure


def test_steps_that_raise_the_objective_are_kept() -> None:
    profile, said = load("helix"), list[str]()
    names = ["sim.own", "sim.dense"]
    assert get_constant(profile, "sim.dense") == 0.4
    both = fit_weights.ascend(profile, names, measure_dense({0: 0.8, 1: 0.8}), (0, 1), said.append)
    assert both == {"sim.dense": pytest.approx(0.784)}  # 1.4 · 1.4 of .4
    assert [line.partition(":")[0] for line in said] == ["sim.dense = 0.56", "sim.dense = 0.784"]
    # A step that one fold loses by is not kept, unless only the other counts.
    apart = measure_dense({0: 0.8, 1: 0.1})
    assert fit_weights.ascend(profile, names, apart, (0, 1), said.append) == {}
    assert fit_weights.ascend(profile, names, apart, (1,), said.append) == {"sim.dense": pytest.approx(0.196)}


def test_a_set_is_fitted_through_the_normal_recall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = locomo(tmp_path / "locomo.json")
    command = ["eval", "fit", f"locomo:a={path}", f"locomo:b={path}", "--store", str(tmp_path / "work"), "--json"]
    assert main(command) == 0
    fitted = fit_weights.Fitted(**orjson.loads(capsys.readouterr().out))
    assert fitted.encoders == "all-MiniLM-L6-v2"
    assert set(fitted.constants) <= set(fit_weights.FITTED)
    assert set(fitted.before) == set(fitted.held_out) == set(fitted.after) == {"a", "b"}
    assert fitted.before["a"] == fitted.before["b"]
    assert all(
        0 < value <= 1 for figures in (fitted.before, fitted.after) for pair in figures.values() for value in pair
    )
    text = fit_weights.format_weights(fitted._replace(constants={"sim.dense": 0.5}))
    assert text.startswith('[encoders."all-MiniLM-L6-v2"]\n"sim.dense" = 0.5\n')
    assert main(["eval", "fit", f"locomo={path}", "--each", "0"]) == 2
