"""Fit of the probabilities that an item sets something and that it alters something: two logistic regressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from helix.text.claims import BUCKETS, ClaimsModel, hash_words, read_features
from helix.types import I64, U8
from pipelines.eval.changes.material import SETS, Folds, Material

STRENGTH: Final = 0.3  # inverse regularisation


def fit_claims(materials: Sequence[Material], folds: Folds) -> tuple[ClaimsModel, list[U8]]:
    """Fit both; return them with the predictions for left-out histories: uint8[rows, 2] each, of 255."""
    inputs = [_read_inputs(one) for one in materials]
    predicted = [np.zeros((len(one.texts), 2), np.uint8) for one in materials]
    parts = []
    for column, labels in enumerate(zip(*((one.setting, one.altering) for one in materials), strict=True)):
        for train_on, left_out in folds:
            model = _fit([inputs[i] for i in train_on], [labels[i] for i in train_on])
            for at in left_out:
                predicted[at][:, column] = np.round(255 * model.predict_proba(inputs[at])[:, 1])
        whole = _fit(inputs, labels)
        parts.append((whole.coef_[0, :-BUCKETS], whole.coef_[0, -BUCKETS:], whole.intercept_[0]))
    return ClaimsModel(*(np.stack(arrays).astype(np.float32) for arrays in zip(*parts, strict=True))), predicted


def _read_inputs(one: Material) -> Any:
    """Return the features and hashed words of a history's rows: a sparse matrix."""
    from scipy import sparse

    words = [hash_words(text) for text in one.texts]
    indptr = np.cumsum([0, *(len(buckets) for buckets, _ in words)])
    weights = np.array([weight for _, weights in words for weight in weights], np.float32)
    index = np.array([bucket for buckets, _ in words for bucket in buckets], np.int64)
    counted = sparse.csr_matrix((weights, index, indptr), (len(words), BUCKETS))
    cues = read_features([row[:SETS].tolist() for row in one.claims], one.texts, one.roles)
    return sparse.hstack([sparse.csr_matrix(cues), counted]).tocsr()


def _fit(inputs: Sequence[Any], labels: Sequence[I64]) -> Any:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    x, y = sparse.vstack(inputs).tocsr(), np.concatenate(labels)
    return LogisticRegression(C=STRENGTH, max_iter=400, solver="liblinear").fit(x[y >= 0], y[y >= 0])
