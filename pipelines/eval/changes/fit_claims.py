"""Fit of the probability that an item sets something: a logistic regression over cues and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from helix.text.claims import BUCKETS, SetsModel, hash_words, read_features
from helix.types import F32, I64
from pipelines.eval.changes.material import SETS, Folds, Material

STRENGTH: Final = 0.3  # inverse regularisation


def fit_sets(materials: Sequence[Material], folds: Folds) -> tuple[SetsModel, list[F32]]:
    """Fit the probability that an item sets something; return it with the predictions for left-out histories."""
    from scipy import sparse

    inputs, labels = [], []
    for one in materials:
        words = [hash_words(text) for text in one.texts]
        indptr = np.cumsum([0, *(len(buckets) for buckets, _ in words)])
        weights = np.array([weight for _, weights in words for weight in weights], np.float32)
        index = np.array([bucket for buckets, _ in words for bucket in buckets], np.int64)
        counted = sparse.csr_matrix((weights, index, indptr), (len(words), BUCKETS))
        cues = read_features([row[:SETS].tolist() for row in one.claims], one.texts, one.roles)
        inputs.append(sparse.hstack([sparse.csr_matrix(cues), counted]).tocsr())
        labels.append(one.setting)
    predicted = [np.empty(0, np.float32)] * len(materials)
    for train_on, left_out in folds:
        model = _fit_sets([inputs[i] for i in train_on], [labels[i] for i in train_on])
        for at in left_out:
            predicted[at] = model.predict_proba(inputs[at])[:, 1].astype(np.float32)
    whole = _fit_sets(inputs, labels)
    split = whole.coef_.shape[1] - BUCKETS
    coefficients = whole.coef_[0].astype(np.float32)
    return SetsModel(coefficients[:split], coefficients[split:], np.float32(whole.intercept_[0])), predicted  # type: ignore[arg-type]


def _fit_sets(inputs: Sequence[Any], labels: Sequence[I64]) -> Any:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    x, y = sparse.vstack(inputs).tocsr(), np.concatenate(labels)
    return LogisticRegression(C=STRENGTH, max_iter=400, solver="liblinear").fit(x[y >= 0], y[y >= 0])
