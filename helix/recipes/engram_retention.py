"""The retention model of the recipe `engram`: a small network that predicts whether an item will be useful again.

`helix train` fits it to a store's access events and publishes it as an index of its own: see
`pipelines.training.retention`. Here it is only read, and its forward pass is numpy.
"""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.manifest import Index, Manifest
from helix.snapshot.npz import NpzKind, read_npz
from helix.types import F32, TYPES, U8, U32

KIND: Final = "retention"
"""Of the index."""

FILE: Final = "retention.npz"

FEATURES: Final = ("cosine", "salience", "accesses", "age", *TYPES, "retention")
"""Columns of `build_features`: ten."""


class Perceptron(NamedTuple):
    """Two layers, with the constants of its features."""

    low: F32  # float32[10]: of each feature in training
    high: F32
    mean: F32
    scale: F32  # standard deviation
    hidden: F32  # float32[10, h]
    hidden_bias: F32  # float32[h]
    output: F32  # float32[h]
    output_bias: F32  # float32[]
    decay: F32  # float32[3]: rate, half-life in days, floor


_KINDS: Final[dict[str, NpzKind]] = {
    name: (np.float32, {"hidden": 2, "output_bias": 0}.get(name, 1)) for name in Perceptron._fields
}


def build_features(cosine: F32, salience: F32, count: U32, age: F32, kinds: U8, retention: F32) -> F32:
    """Build features float32[n, 10]: cosine, salience, ln(1 + accesses), age in days, one of five types, retention.

    Args:
        cosine: float32[n], to the question.
        count: uint32[n], accesses.
        age: float32[n], days since the last access.
        kinds: uint8[n], positions in TYPES.
        retention: float32[n], the decay factor.
    """
    layer = kinds[:, None] == np.arange(len(TYPES))
    return np.column_stack([cosine, salience, np.log1p(count), age, layer, retention]).astype(np.float32)


def predict(model: Perceptron, x: F32) -> F32:
    """Predict the probability that each item is useful: float32[n].

    It is sigmoid(w₂·relu(W₁ z + b₁) + b₂), z the standardised features. A feature is clipped to its range in training,
    since the model knows nothing beyond it.

    Args:
        x: float32[n, 10] of `build_features`.
    """
    z = (np.clip(x.astype(np.float64), model.low, model.high) - model.mean) / model.scale
    hidden = np.maximum(z @ model.hidden + model.hidden_bias, 0)
    logit = np.clip(hidden @ model.output + model.output_bias, -60, 60)  # beyond, the exponential overflows
    return np.asarray(1 / (1 + np.exp(-logit)), np.float32)


def retention_boost(probability: F32, weight: float) -> F32:
    """Return 1 + weight·(p − ½): float32[n]; an even chance changes nothing."""
    return (1 + weight * (probability.astype(np.float64) - 0.5)).astype(np.float32)


def dump(model: Perceptron) -> bytes:
    """Serialise a model to the bytes of retention.npz; equal models give equal bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **model._asdict())
    return buffer.getvalue()


def index_of(manifest: Manifest | None) -> Index | None:
    """Return the index of a generation's model; None if none is trained."""
    return next((index for index in (manifest.indexes if manifest else ()) if index.kind == KIND), None)


def open_model(root: Path, manifest: Manifest | None) -> Perceptron | None:
    """Open the model of a generation; None if none is trained.

    Raises:
        StoreError: its file is missing or damaged.
    """
    index = index_of(manifest)
    return _read(root / "indexes" / index.id / KIND / FILE) if index else None


@lru_cache(maxsize=16)  # an index is never changed, and its name never used again
def _read(path: Path) -> Perceptron:
    model = Perceptron(**read_npz(path, _KINDS))
    if model.hidden.shape != (len(FEATURES), len(model.output)):
        raise make_damage_error(path, f"its first layer is {model.hidden.shape}")
    return model
