"""Trained classifier of item types: a softmax regression over cue scores, vector, role, origin and terms."""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from helix.enrich.classify import PRIORS, choose_type, score_types
from helix.enrich.type_terms import list_terms
from helix.errors import StoreError
from helix.text.languages import ENGLISH
from helix.types import F32, ROLES, TYPES

_HIGHEST_SCORE: Final = 0.999
"""Higher scores count as it."""

TERM_SCALE: Final = 2.0
"""Length of a text's vector of known terms, next to a vector of length 1."""


class TypeModel(NamedTuple):
    """A softmax regression over `build_features` and the terms, with one column per type in the order of TYPES."""

    weights: F32  # float32[f, 5]
    bias: F32  # float32[5]
    temperature: F32  # float32[], divides the logits (Guo et al. 2017, On Calibration of Modern Neural Networks)
    terms: Mapping[str, int]  # known term → row of `term_weights`
    term_weights: F32  # float32[t, 5]


DAMAGE: Final = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,  # an entry marked as encrypted, or of an unknown compression
    tokenize.TokenError,  # numpy parses an array's header as Python
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions of numpy and zipfile for a damaged npz file."""


_ARRAYS: Final = ("weights", "bias", "temperature", "term_weights")


def load_types(data: bytes) -> TypeModel:
    """Return the model in the bytes of an npz file.

    Raises:
        StoreError: the bytes are damaged, or of another layout.
    """
    remedy = "delete the folder 'classifiers' in HELIX_CACHE: Helix trains it again"
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            weights, bias, temperature, term_weights = (np.asarray(arrays[name], np.float32) for name in _ARRAYS)
            terms = np.asarray(arrays["terms"], np.uint8).tobytes().decode().splitlines()
    except DAMAGE as error:
        raise StoreError(f"the type classifier cannot be read: {error}", remedy) from None
    model = TypeModel(weights, bias, temperature, {term: i for i, term in enumerate(terms)}, term_weights)
    k = len(TYPES)
    fits = (weights.shape[1:], bias.shape, temperature.shape, term_weights.shape) == ((k,), (k,), (), (len(terms), k))
    if not fits or len(model.terms) != len(terms) or temperature <= 0:
        raise StoreError(f"the type classifier cannot be read: its arrays do not fit {len(TYPES)} types", remedy)
    return model


def classify_all(
    texts: Sequence[str],
    roles: Sequence[str],
    origins: Sequence[str],
    vectors: F32 | None,
    model: TypeModel | None,
    languages: Sequence[str] = (),
) -> list[tuple[str, float]]:
    """Return the type of each text and its probability; without vectors or a model, the type and score by cues.

    Args:
        texts, roles, origins: as for `classify`, n of each.
        vectors: float32[n, d], the texts' embeddings by the model's encoder.
        languages: of each text; English by default.

    Raises:
        StoreError: the model is for vectors of another width.
    """
    languages = languages or [ENGLISH] * len(texts)
    scores = [score_types(*item) for item in zip(texts, roles, origins, languages, strict=True)]
    if vectors is None or model is None or not scores:
        return [choose_type(row) for row in scores]
    chances = compute_probabilities(build_features(scores, roles, origins, vectors), weigh_terms(texts, model), model)
    best = chances.argmax(axis=1)
    highest = chances[np.arange(len(best)), best]
    return [(TYPES[i], round(p, 4)) for i, p in zip(best.tolist(), highest.tolist(), strict=True)]


def build_features(
    scores: Sequence[tuple[float, ...]], roles: Sequence[str], origins: Sequence[str], vectors: F32
) -> F32:
    """Return the model's input: the vector, each type's evidence -log(1 - score), role and origin one-hot.

    Evidence adds up where scores saturate, as a linear model needs it.

    Args:
        scores: n of `score_types`.
        vectors: float32[n, d].

    Returns:
        float32[n, d + 5 + 5 + 7].
    """
    evidence = -np.log1p(-np.minimum(np.asarray(scores, np.float32), _HIGHEST_SCORE))
    return np.hstack([vectors, evidence, _encode_one_hot(roles, ROLES), _encode_one_hot(origins, tuple(PRIORS))])


def find_terms(text: str, known: Mapping[str, int]) -> list[int]:
    """Return the rows of a text's known terms, in ascending order: a sum over them is the same in every process."""
    return sorted(row for term in list_terms(text) if (row := known.get(term)) is not None)


def weigh_terms(texts: Sequence[str], model: TypeModel) -> F32:
    """Return the share of the terms in the logits of n texts: float32[n, 5]."""
    out = np.zeros((len(texts), len(TYPES)), np.float32)
    for i, text in enumerate(texts):
        if rows := find_terms(text, model.terms):
            out[i] = model.term_weights[rows].sum(0) * (TERM_SCALE / len(rows) ** 0.5)
    return out


def compute_probabilities(x: F32, shares: F32, model: TypeModel) -> F32:
    """Return the softmax of the model's logits: float32[n, 5], rows sum to 1.

    Args:
        x: float32[n, f] of `build_features`.
        shares: float32[n, 5] of `weigh_terms`.

    Raises:
        StoreError: x is of another width than the model.
    """
    if x.shape[1] != len(model.weights):
        raise StoreError(
            f"the type classifier takes {len(model.weights)} features, not {x.shape[1]}",
            "it belongs to another encoder: rebuild the store with 'helix reindex'",
        )
    logits = (x @ model.weights + shares + model.bias) / model.temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def _encode_one_hot(values: Sequence[str], known: tuple[str, ...]) -> F32:
    """Return float32[n, len(known)], with a row of zeros for an unknown value."""
    rows = np.vstack([np.eye(len(known), dtype=np.float32), np.zeros(len(known), np.float32)])
    place = {name: i for i, name in enumerate(known)}
    return np.asarray(rows[[place.get(value, len(known)) for value in values]], np.float32)
