"""After stage 7: how likely each item helps with the question, and whether the answer helps at all.

`score` orders one answer. `relevance` and `answered` are calibrated probabilities, comparable between answers and
stores. Boosted trees weigh an item's signals; a logistic regression weighs the best of them with signals of the whole
list; another joins both. They are trained on questions to their own and to other haystacks
(`pipelines/eval/relevance`), once with vectors and once without, for a store whose encoder is missing.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.ranking.trees import Trees, predict, sigmoid
from helix.stages.features.across import blind_words, take_rows
from helix.stages.features.relevance import (
    Evidence,
    QuestionSigns,
    compute_answer_features,
    compute_item_features,
    read_evidence,
)
from helix.types import F32, AnyArray, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

VARIANTS: Final = ("vectors", "words", "across")
"""Models for a question with a vector, for one without, and for items in another language than the question."""

OWN: Final = ("multilingual-e5-small",)
"""Encoders with models of their own, those of `vectors` and `across`; others have those of all-MiniLM-L6-v2."""

FARTHEST: Final = np.float32(4)
"""Standard deviations from the mean at which a signal is cut off."""

LEAST_ANSWERED: Final = 0.12
"""Least `answered` of an answer whose context is not empty: docs/quality.md has what it loses and saves."""

LEAST_RELEVANCE: Final = 0.005
"""Least relevance of an item in a context."""


class Regression(NamedTuple):
    """A logistic regression over f signals, standardised, with two hinges of each: max(0, x) and max(0, x − 1)."""

    mean: F32  # float32[f]
    deviation: F32  # float32[f]
    weights: F32  # float32[3, f]
    bias: F32  # float32[]


class RelevanceModel(NamedTuple):
    """The model of one variant."""

    item: Trees  # signals of an item → log-odds
    answer: Regression  # signals of the answer → log-odds
    joint: F32  # float32[4], weights of an item's log-odds, of the answer's, of their product, and bias


class Relevance(NamedTuple):
    """Probabilities for the rows of an answer."""

    items: F32  # float32[n], each row helps
    answered: float  # any does


NOTHING: Final = Relevance(np.empty(0, np.float32), 0.0)


def estimate_relevance(
    rows: AnyArray, signs: QuestionSigns, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan
) -> Relevance:
    """Estimate the relevance of rows, best first.

    Args:
        rows: integer[n], distinct.
        signs: of the question.
        vector: of the question, float32[d]; None without an encoder.
    """
    if not len(rows):
        return NOTHING
    found = read_evidence(rows.astype(np.int64), signs, query, vector, snap, plan)
    if vector is None:
        return weigh_evidence(found, load_model("words"))
    own = name_own(snap)
    across = load_model("across", own) if own and not found.shared.all() else None
    return weigh_evidence(found, load_model("vectors", own), across)


def name_own(snap: Snapshot) -> str:
    """Return the encoder of a store if it is one of OWN, or ""."""
    return snap.files.encoder_name if snap.files.encoder_name in OWN else ""


def find_least(wanted: float | None) -> float:
    """Return the least relevance of an item in a context: as wanted, else as measured."""
    return LEAST_RELEVANCE if wanted is None else wanted


def select_relevant(relevance: F32, answered: float, wanted: float | None) -> list[int]:
    """Return the positions of items that may enter the context, ascending.

    None may where the answer probably does not help, unless the caller wants every item (0).

    Args:
        relevance: float32[n].
        wanted: least relevance; None: as measured.
    """
    if answered < LEAST_ANSWERED and wanted != 0:
        return []
    return [int(i) for i in np.flatnonzero(relevance >= find_least(wanted))]


def weigh_evidence(found: Evidence, model: RelevanceModel, across: RelevanceModel | None = None) -> Relevance:
    """Return the probabilities of the rows of some evidence.

    Args:
        across: for rows in another language than the question's; by default the same model is.
    """
    if across is None or found.shared.all():
        items = predict(model.item, without_gaps(compute_item_features(found)))
        answer = regress(model.answer, compute_answer_features(found, items)[None, :])[0]
        joint = join_logits(items, answer) @ model.joint
        return Relevance(sigmoid(joint), float(sigmoid(answer[None])[0]))
    foreign = weigh_evidence(blind_words(take_rows(found, ~found.shared)), across)
    own = weigh_evidence(take_rows(found, found.shared), model) if found.shared.any() else NOTHING
    relevance = np.empty(len(found.rows), np.float32)
    relevance[found.shared], relevance[~found.shared] = own.items, foreign.items
    return Relevance(relevance, max(own.answered, foreign.answered))


def without_gaps(signals: F32) -> F32:
    """Return the signals of items with 0 for those that cannot be computed without an encoder."""
    return np.nan_to_num(signals, nan=0.0)


def regress(model: Regression, signals: F32) -> F32:
    """Return the log-odds of rows of signals: float32[n]."""
    return np.asarray(
        expand_signals(model.mean, model.deviation, signals) @ model.weights.ravel() + model.bias, np.float32
    )


def expand_signals(mean: F32, deviation: F32, signals: F32) -> F32:
    """Return the inputs of a regression: float32[n, 3 · f]. A signal that is missing counts as the mean."""
    x = np.nan_to_num(np.clip((signals - mean) / deviation, -FARTHEST, FARTHEST), nan=0.0)
    return np.hstack([x, np.maximum(x, 0), np.maximum(x - 1, 0)])


def join_logits(items: F32, answer: np.float32) -> F32:
    """Return the inputs of the joint regression: float32[n, 4]."""
    inputs = np.empty((len(items), 4), np.float32)
    inputs[:, 0], inputs[:, 1], inputs[:, 2], inputs[:, 3] = items, answer, items * answer, 1
    return inputs


@cache
def load_model(variant: str, encoder: str = "") -> RelevanceModel:
    """Load the packaged model of one of VARIANTS.

    Args:
        encoder: one of OWN, or "".
    """
    from importlib.resources import files  # slow to import

    data = files("helix.stages").joinpath("data", name_file(encoder)).read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return decode_model({name: arrays[name] for name in arrays.files}, variant)


def name_file(encoder: str) -> str:
    """Return the name of the file of an encoder's models, one of OWN or ""."""
    return f"relevance-{encoder}.npz" if encoder else "relevance.npz"


def decode_model(arrays: dict[str, AnyArray], variant: str) -> RelevanceModel:
    """Return the model of a variant from the arrays of `encode_model`."""

    def read(part: str, name: str) -> AnyArray:
        values = arrays[f"{variant}.{part}.{name}"]
        return values.astype(np.int32 if name == "feature" else np.float32)

    item = Trees(*(read("item", name) for name in Trees._fields))
    return RelevanceModel(
        item, Regression(*(read("answer", name) for name in Regression._fields)), read("joint", "weights")
    )


def encode_model(model: RelevanceModel, variant: str) -> dict[str, AnyArray]:
    """Return the arrays of a model, by names that begin with its variant."""
    arrays = {f"item.{name}": value for name, value in model.item._asdict().items()}
    arrays["item.feature"] = model.item.feature.astype(np.int16)
    arrays |= {f"answer.{name}": value for name, value in model.answer._asdict().items()}
    return {f"{variant}.{name}": value for name, value in {**arrays, "joint.weights": model.joint}.items()}
