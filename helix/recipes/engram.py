"""The recipe `engram`: channels weighed by what the question intends, over a memory that fades, grows with use, wavers.

Dense, BM25, a Hopfield network's association and a walk over the graph are fused by rank. What the question's date, the
age of an episode, its accesses and a trained retention model say multiplies the score; its share of the best is then
shaken by noise, as in ACT-R. A cross-encoder, where there is one, reads the best and sets a minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from helix.errors import EncoderError
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import select_top, sort_rows
from helix.recipes.common import begin, bundle, items_of, scored
from helix.recipes.engram_formulas import (
    CHANNELS,
    INTENTS,
    access_boost,
    activation_noise,
    age_days,
    date_boost,
    decay,
    hopfield,
    intent,
    normalised,
)
from helix.recipes.engram_retention import features, forward, open_model, retention_boost
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import GraphConstants
from helix.stages.dense import dense_score, search_dense
from helix.stages.fuse import fuse
from helix.stages.graph import walk
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.pack import pack
from helix.stages.rerank import explain_unusable, rerank
from helix.stages.trace import Trace
from helix.types import F32, TYPES, Bundle, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

_FADES = TYPES.index("episodic")


@dataclass(frozen=True, slots=True)
class EngramRetrieve:
    """How many rows each channel gives at most."""

    dense: int
    bm25: int
    hopfield: int
    graph: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class EngramFuse:
    """Reciprocal rank fusion, and the factor of a date that matches."""

    k: float
    date: float


@dataclass(frozen=True, slots=True)
class EngramHopfield:
    """The associative channel; of the weight 0 there is none."""

    neighbours: int
    beta: float
    weight: float


@dataclass(frozen=True, slots=True)
class EngramDecay:
    """Of episodic items."""

    rate: float
    half_life: float
    floor: float


@dataclass(frozen=True, slots=True)
class EngramActivation:
    """What accesses, the retention model and noise do to a score."""

    access: float
    retention: float
    noise: float


@dataclass(frozen=True, slots=True)
class EngramCross:
    """The cross-encoder; nothing of it counts where there is none."""

    top: int
    weight: float
    minimum: float


@dataclass(frozen=True, slots=True)
class EngramProfile:
    """A file of the recipe `engram`."""

    name: str
    recipe: str
    retrieve: EngramRetrieve
    fuse: EngramFuse
    graph: GraphConstants
    hopfield: EngramHopfield
    decay: EngramDecay
    activation: EngramActivation
    cross: EngramCross
    intents: Mapping[str, Mapping[str, float]] = field(metadata={"keys": INTENTS, "inner": CHANNELS})


PROFILE = EngramProfile


def recall(query: Query, snap: Snapshot, profile: EngramProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    wanted = intent(query.text)
    weights = {**profile.intents[wanted], "hopfield": profile.hopfield.weight}
    trace.note("intent", intent=wanted, weights=weights)
    legs = _channels(query, vector, snap, plan, profile, weights, trace)
    pool = trace.run("rank", _activated, legs, query, vector, snap, profile, weights, trace)
    trace.note("rank", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = _reranked(pool, query, snap, profile.cross, trace, models)
    trace.ranked(pool)
    kept = _above_minimum(pool, profile.cross, trace)
    chosen = kept.take(np.arange(min(query.k, len(kept))))
    entries = snap.text(chosen.row)
    items = items_of(chosen, entries, snap)
    context, tokens, placed = trace.run("pack", pack, entries, query.budget, snap.counter)
    return bundle(query, snap, profile, trace, items, context, tokens, placed)


def _channels(
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: EngramProfile,
    weights: Mapping[str, float],
    trace: Trace,
) -> list[Leg]:
    """What dense, BM25, the Hopfield step and the graph find, each best first."""
    how, legs = profile.retrieve, list[Leg]()
    if vector is not None:
        legs.append(trace.run("dense", search_dense, vector, snap, plan, how.dense))
        trace.leg("dense", legs[0], plan.allowed_rows, how.dense, partial(dense_score, vector, snap))
    legs.append(trace.run("lexical", search_lexical, query, snap.lexical, plan, how.bm25, how.k1, how.b))
    score = partial(lexical_score, query, snap.lexical, k1=how.k1, b=how.b)
    trace.leg("lexical", legs[-1], plan.allowed_rows, how.bm25, score)
    first = trace.run("fuse", fuse, legs, snap, profile.fuse.k, weights)  # what the walk starts from
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(first))
    if vector is not None and profile.hopfield.weight and len(legs[0].rows):
        nearest = snap.vectors.dequantise(legs[0].rows[: profile.hopfield.neighbours])
        state = hopfield(vector, nearest, profile.hopfield.beta)
        found = trace.run("hopfield", search_dense, state, snap, plan, how.hopfield)
        legs.append(replace(found, name="hopfield"))
        trace.leg("hopfield", legs[-1], plan.allowed_rows, how.hopfield, partial(dense_score, state, snap))
    walked, method = trace.run("graph", walk, first, query, snap, plan, profile.graph)
    trace.note("walk", method=method)
    mass = np.nan_to_num(walked.ppr)
    best = select_top(mass, snap.columns.key[walked.row], how.graph)
    best = best[mass[best] > 0]
    legs.append(Leg("graph", walked.row[best], mass[best]))
    trace.leg("graph", legs[-1], len(walked), how.graph, _held(walked.row, mass))
    return legs


def _held(rows: Any, mass: F32) -> Callable[[int], float]:
    """The mass the walk left on a row."""
    return lambda row: float(mass[rows == row].sum())


def _activated(
    legs: list[Leg],
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    profile: EngramProfile,
    weights: Mapping[str, float],
    trace: Trace,
) -> Pool:
    """The union of the channels, best first: rrf·date·decay·access·retention over the best of these, and noise."""
    # The published form counts ranks from 0, Σ weight / (k + rank + 1): the same as ranks from 1 with this k.
    rows, ranks = align_ranks(legs)
    fused = rrf([*ranks.values()], [weights[name] for name in ranks], profile.fuse.k).astype(np.float32)
    columns, how = snap.columns, profile.activation
    age = age_days(snap.catalog.last_access[rows], query.now.timestamp())
    fading = profile.decay
    factors = {
        "rrf": fused,
        "date": date_boost(columns.time[rows], query.days, profile.fuse.date),
        "decay": decay(age, columns.type[rows] == _FADES, fading.rate, fading.half_life, fading.floor),
        "access": access_boost(snap.catalog.access_count[rows], how.access),
    }
    factors |= _retention(rows, age, vector, snap, how.retention, trace)
    activation = normalised(np.prod(list(factors.values()), axis=0, dtype=np.float64).astype(np.float32))
    noise = activation_noise(query.text, columns.key[rows], how.noise)
    pool = Pool(rows, activation + noise, ranks, {**factors, "noise": noise})
    return pool.take(sort_rows(pool.final, columns.key[rows]))


def _retention(rows: Any, age: F32, vector: F32 | None, snap: Snapshot, weight: float, trace: Trace) -> dict[str, F32]:
    """The factor of the retention model, where one was trained and the question has a vector; else none."""
    model = open_model(snap.root, snap.manifest)
    if model is None:
        trace.note("retention", off="no model was trained: 'helix train', once items were of use")
        return {}
    if vector is None:
        trace.note("retention", off="without an encoder nothing is known of the cosine")
        return {}
    columns = snap.columns
    rate, half_life, floor = model.decay.tolist()  # as it was trained, whatever the profile says now
    left = decay(age, columns.type[rows] == _FADES, rate, half_life, floor)
    cosine, salience = snap.vectors.dequantise(rows) @ vector, columns.salience[rows]
    x = features(cosine, salience, snap.catalog.access_count[rows], age, columns.type[rows], left)
    trace.note("retention", rows_in=len(rows), rows_out=len(rows), weight=weight)
    return {"retention": retention_boost(forward(model, x), weight)}


def _reranked(pool: Pool, query: Query, snap: Snapshot, how: EngramCross, trace: Trace, models: Rerankers) -> Pool:
    """The pool with the best in the order a reranker helps to make, and its scores as a signal.

    That is the cross-encoder on the best `top`, where there is one, unless the question asks for another tier.
    """
    tier, top = (query.rerank, query.rerank_top) if query.rerank else ("cross", how.top)
    head = pool.row[:top]
    if not len(head) or (tier == "cross" and not _has_cross(models)):
        trace.note("rerank", off="no cross-encoder: HELIX_CROSS_ENCODER would name one" if len(head) else "no items")
        return pool
    texts = [str(entry["text"]) for entry in snap.text(head)]
    scores = trace.run("rerank", scored, replace(query, rerank=tier), texts, snap, models, trace)
    off = explain_unusable(scores)
    trace.note("rerank", rows_in=len(head), rows_out=len(head), by=tier, weight=how.weight, off=off)
    if off:
        return pool
    signal = np.full(len(pool), np.nan, np.float32)
    signal[: len(head)] = scores
    final = rerank(pool.final, scores, how.weight)
    blended = replace(pool, final=final, signals={**pool.signals, tier: signal})
    return blended.take(sort_rows(final, snap.columns.key[pool.row]))


def _has_cross(models: Rerankers) -> bool:
    """Whether the settings name a cross-encoder; what becomes of one that cannot be opened is for `scored` to say."""
    try:
        return models.cross is not None
    except EncoderError:
        return True


def _above_minimum(pool: Pool, how: EngramCross, trace: Trace) -> Pool:
    """What the cross-encoder gives the minimum at least; without it everything: the other scores mean nothing alone."""
    signal = pool.signals.get("cross")
    if signal is None or how.minimum <= 0:
        return pool
    passes = signal >= how.minimum  # never of one that was not among the best, and so not read
    if trace.on:
        read = int(np.count_nonzero(~np.isnan(signal)))
        out = [
            f"below the best {read}, so the cross-encoder did not read it"
            if np.isnan(score)
            else f"the cross-encoder gives it {score:.3f}, the minimum is {how.minimum:g}"
            for score in signal[~passes].tolist()
        ]
        trace.drop("rerank", pool.row[~passes], out)
    return pool.take(np.flatnonzero(passes))
