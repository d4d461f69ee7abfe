"""Trees as plain arrays answer as scikit-learn's, of which they are a copy."""

from __future__ import annotations

import numpy as np
import pytest

from helix.ranking.trees import DEPTH, Trees, predict, sigmoid


def test_a_tree_by_hand() -> None:
    feature = np.array([[0, 1, 0, 0, 0, 0, 0]], np.int32)
    threshold = np.array([[0.5, 2, *[np.inf] * 5]], np.float32)
    leaf = np.array([[1, 0, 2, 0, 4, 0, 0, 0]], np.float32)
    trees = Trees(feature, threshold, leaf, np.float32(0.25))  # type: ignore[arg-type]
    rows = np.array([[0.5, 2], [0.5, 2.1], [0.6, 0], [0.6, 9]], np.float32)
    assert predict(trees, rows).tolist() == [1.25, 2.25, 4.25, 4.25]
    assert predict(trees, rows[:0]).tolist() == []
    assert sigmoid(np.array([0], np.float32)).tolist() == [0.5]


@pytest.mark.parametrize("n", [40, 400])  # few rows make short branches
def test_fitted_trees_equal_those_of_scikit_learn(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    from pipelines.eval.changes import fit_links

    monkeypatch.setattr(fit_links, "TREES", 20)
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    x[:, 3] = rng.integers(0, 3, n)
    y = (x[:, 0] * x[:, 1] + x[:, 3] + 0.3 * rng.normal(size=n) > 1).astype(np.int64)
    own = fit_links.fit_trees(x, y)
    options = {"learning_rate": fit_links.RATE, "max_depth": DEPTH, "l2_regularization": fit_links.RIDGE}
    other = HistGradientBoostingClassifier(max_iter=20, early_stopping=False, random_state=0, **options).fit(x, y)
    rows = np.concatenate([x, rng.normal(size=(200, 6)).astype(np.float32)])
    np.testing.assert_allclose(predict(own, rows), other.decision_function(rows), rtol=0, atol=1e-5)
    assert float(np.ptp(predict(own, rows))) > 0.1
