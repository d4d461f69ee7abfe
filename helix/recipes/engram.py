"""The recipe `engram`: channels weighted by intent, over a memory that decays, grows with use and has noise.

Dense, BM25, a Hopfield network's association and a walk over the graph are fused by rank. What the question's date, the
age of an episode and its accesses say multiplies the score. A cross-encoder, where there is one, reads the best and
sets a minimum; a trained retention model multiplies again; noise, as in ACT-R, comes last.
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
from helix.recipes import engram_formulas as formulas
from helix.recipes.common import (
    begin,
    bundle,
    items_of,
    judge,
    pack_kept,
    report_no_cross,
    score_rows,
    search_vectors,
)
from helix.recipes.engram_retention import build_features, open_model, predict, retention_boost
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import GraphConstants
from helix.stages.dense import dense_score
from helix.stages.fuse import fuse
from helix.stages.graph import walk
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.pack import pack
from helix.stages.replaced import add_replacements
from helix.stages.rerank import explain_unusable, rerank
from helix.stages.trace import Trace
from helix.types import F32, TYPES, U32, Bundle, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

_FADES = TYPES.index("episodic")


@dataclass(frozen=True, slots=True)
class EngramRetrieve:
    """Maximum rows of each channel."""

    dense: int
    bm25: int
    hopfield: int
    graph: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class EngramFuse:
    """Reciprocal rank fusion, and the factor of a matching date."""

    k: float
    date: float


@dataclass(frozen=True, slots=True)
class EngramHopfield:
    """The associative channel; weight 0 switches it off."""

    neighbours: int
    beta: float
    weight: float


@dataclass(frozen=True, slots=True)
class EngramDecay:
    """Decay of episodic items."""

    rate: float
    half_life: float
    floor: float


@dataclass(frozen=True, slots=True)
class EngramActivation:
    """Weights of accesses, the retention model and noise in a score."""

    access: float
    retention: float
    noise: float


@dataclass(frozen=True, slots=True)
class EngramCross:
    """The cross-encoder, if there is one."""

    top: int
    weight: float
    minimum: float


@dataclass(frozen=True, slots=True)
class EngramProfile:
    """A profile of the recipe `engram`."""

    name: str
    recipe: str
    retrieve: EngramRetrieve
    fuse: EngramFuse
    graph: GraphConstants
    hopfield: EngramHopfield
    decay: EngramDecay
    activation: EngramActivation
    cross: EngramCross
    intents: Mapping[str, Mapping[str, float]] = field(metadata={"keys": formulas.INTENTS, "inner": formulas.CHANNELS})


PROFILE = EngramProfile


def recall(query: Query, snap: Snapshot, profile: EngramProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    meaning = formulas.find_intent(query.text)
    weights = {**profile.intents[meaning], "hopfield": profile.hopfield.weight}
    trace.note("intent", intent=meaning, weights=weights)
    legs = _search_channels(query, vector, snap, plan, profile, weights, trace)
    pool = trace.run("rank", _activate, legs, query, snap, profile, weights)
    trace.note("rank", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = _rerank(pool, query, snap, profile.cross, trace, models)
    pool = trace.run("retention", _apply_retention, pool, query, vector, snap, profile.activation.retention, trace)
    pool = trace.run("noise", _add_noise, pool, query, snap, profile.activation.noise)
    trace.record_ranking(pool)
    passing = _apply_minimum(pool, profile.cross, trace)
    chosen = passing.take(np.arange(min(query.k, len(passing))))
    entries = add_replacements(snap.text(chosen.row), chosen.row, snap, query.moment)
    judged = judge(chosen.row, pool.row, query, vector, snap, plan, trace)
    items = items_of(chosen, entries, snap, relevance=judged.relevance)
    context, tokens, placed = trace.run("pack", pack_kept, judged, pack, entries, query.budget, snap.counter)
    return bundle(query, snap, profile, trace, items, context, tokens, placed, answered=judged.answered)


def _search_channels(
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: EngramProfile,
    weights: Mapping[str, float],
    trace: Trace,
) -> list[Leg]:
    """Search the channels dense, BM25, Hopfield and graph, each best first."""
    how, legs = profile.retrieve, list[Leg]()
    if vector is not None:
        legs.append(trace.run("dense", search_vectors, vector, snap, plan, how.dense, trace))
        trace.leg("dense", legs[0], plan.allowed_rows, how.dense, partial(dense_score, vector, snap))
    legs.append(trace.run("lexical", search_lexical, query, snap.lexical, plan, how.bm25, how.k1, how.b))
    score = partial(lexical_score, query, snap.lexical, k1=how.k1, b=how.b)
    trace.leg("lexical", legs[-1], plan.allowed_rows, how.bm25, score)
    first = trace.run("fuse", fuse, legs, snap, profile.fuse.k, weights)  # the start of the walk
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(first))
    if vector is not None and profile.hopfield.weight and len(legs[0].rows):
        nearest = snap.vectors.dequantise(legs[0].rows[: profile.hopfield.neighbours])
        state = formulas.hopfield(vector, nearest, profile.hopfield.beta)
        found = trace.run("hopfield", search_vectors, state, snap, plan, how.hopfield, trace)
        legs.append(replace(found, name="hopfield"))
        trace.leg("hopfield", legs[-1], plan.allowed_rows, how.hopfield, partial(dense_score, state, snap))
    walked, method = trace.run("graph", walk, first, query, snap, plan, profile.graph)
    trace.note("walk", method=method)
    mass = np.nan_to_num(walked.ppr)
    best = select_top(mass, snap.columns.key[walked.row], how.graph)
    best = best[mass[best] > 0]
    legs.append(Leg("graph", walked.row[best], mass[best]))
    trace.leg("graph", legs[-1], len(walked), how.graph, _find_mass(walked.row, mass))
    return legs


def _find_mass(rows: Any, mass: F32) -> Callable[[int], float]:
    """Return the walk's mass on any row."""
    return lambda row: float(mass[rows == row].sum())


def _activate(
    legs: list[Leg], query: Query, snap: Snapshot, profile: EngramProfile, weights: Mapping[str, float]
) -> Pool:
    """Fuse the channels: rrf·date·decay·access, divided by the best; best first."""
    # The published form counts ranks from 0, Σ weight / (k + rank + 1): the same as ranks from 1 with this k.
    rows, ranks = align_ranks(legs)
    fused = rrf([*ranks.values()], [weights[name] for name in ranks], profile.fuse.k).astype(np.float32)
    columns, fading, age = snap.columns, profile.decay, _find_age(rows, query, snap)
    left = formulas.decay(age, columns.type[rows] == _FADES, fading.rate, fading.half_life, fading.floor)
    access = formulas.access_boost(snap.catalog.access_count[rows], profile.activation.access)
    most = max(query.k, profile.cross.top, query.rerank_top)
    dated = _boost_dates(rows, fused * left * access, query, snap, profile.fuse.date, most)
    factors = {"rrf": fused, "date": dated, "decay": left, "access": access}
    activation = formulas.normalise(np.prod(list(factors.values()), axis=0, dtype=np.float64).astype(np.float32))
    pool = Pool(rows, activation, ranks, factors)
    return pool.take(sort_rows(pool.final, columns.key[rows]))


def _find_age(rows: U32, query: Query, snap: Snapshot) -> F32:
    """Return days since the last access."""
    return formulas.age_days(snap.catalog.last_access[rows], query.now.timestamp())


def _boost_dates(rows: U32, score: F32, query: Query, snap: Snapshot, boost: float, most: int) -> F32:
    """Return the factor of items that match a day of the question, by their time or by a date in their text.

    Only texts that the factor could lift among the best are read.

    Args:
        score: float32[n], without this factor.
        most: how many the best are.
    """
    weight = formulas.match_days(snap.columns.time[rows], query.days)
    factor = formulas.date_boost(weight, boost)
    if not query.days or not len(rows):
        return factor
    least = np.partition(score * factor, -min(most, len(rows)))[-min(most, len(rows))]
    surest = max(sure for *_, sure in query.days)
    unmatched = np.flatnonzero((weight < surest) & (score * boost >= least))
    entries = snap.text(rows[unmatched])
    texts, times = [str(entry["text"]) for entry in entries], [entry["time"] for entry in entries]
    stated = formulas.match_stated_days(texts, times, query.days)
    factor[unmatched] = np.maximum(factor[unmatched], formulas.date_boost(stated, boost))
    return factor


def _apply_retention(pool: Pool, query: Query, vector: F32 | None, snap: Snapshot, weight: float, trace: Trace) -> Pool:
    """Multiply by the factor of the retention model, if one is trained and the question has a vector."""
    model = open_model(snap.root, snap.manifest)
    if model is None:
        trace.note("retention", off="no model was trained: 'helix train', once items were of use")
        return pool
    if vector is None:
        trace.note("retention", off="without an encoder nothing is known of the cosine")
        return pool
    columns, rows, age = snap.columns, pool.row, _find_age(pool.row, query, snap)
    rate, half_life, floor = model.decay.tolist()  # as in training, not those of the profile
    left = formulas.decay(age, columns.type[rows] == _FADES, rate, half_life, floor)
    cosine, salience = snap.vectors.dequantise(rows) @ vector, columns.salience[rows]
    x = build_features(cosine, salience, snap.catalog.access_count[rows], age, columns.type[rows], left)
    trace.note("retention", rows_in=len(rows), rows_out=len(rows), weight=weight)
    factor = retention_boost(predict(model, x), weight)
    changed = replace(pool, final=pool.final * factor, signals={**pool.signals, "retention": factor})
    return changed.take(sort_rows(changed.final, columns.key[rows]))


def _add_noise(pool: Pool, query: Query, snap: Snapshot, sigma: float) -> Pool:
    """Add the noise of this question and generation."""
    key = snap.columns.key[pool.row]
    noise = formulas.activation_noise(query.text, snap.generation, key, sigma)
    changed = replace(pool, final=pool.final + noise, signals={**pool.signals, "noise": noise})
    return changed.take(sort_rows(changed.final, key))


def _rerank(pool: Pool, query: Query, snap: Snapshot, how: EngramCross, trace: Trace, models: Rerankers) -> Pool:
    """Rerank the best items; the scores become a signal.

    The reranker is the cross-encoder on the best `top`, if there is one, unless the question names another.
    """
    tier, top = (query.rerank, query.rerank_top) if query.rerank else ("cross", how.top)
    head = pool.row[:top]
    if not len(head) or (tier == "cross" and not _has_cross(models)):
        trace.note("rerank", off="no cross-encoder: HELIX_CROSS_ENCODER would name one" if len(head) else "no items")
        if len(head):
            report_no_cross(query, trace)
        return pool
    scores, by = trace.run("rerank", score_rows, replace(query, rerank=tier), head, snap, models, trace)
    off = explain_unusable(scores)
    trace.note("rerank", rows_in=len(head), rows_out=len(head), by=tier, weight=how.weight, off=off, **by)
    if off:
        return pool
    signal = np.full(len(pool), np.nan, np.float32)
    signal[: len(head)] = scores
    final = rerank(pool.final, scores, how.weight)
    blended = replace(pool, final=final, signals={**pool.signals, tier: signal})
    return blended.take(sort_rows(final, snap.columns.key[pool.row]))


def _has_cross(models: Rerankers) -> bool:
    """Return whether the settings name a cross-encoder; `score_rows` reports one that cannot be opened."""
    try:
        return models.cross is not None
    except EncoderError:
        return True


def _apply_minimum(pool: Pool, how: EngramCross, trace: Trace) -> Pool:
    """Keep items that the cross-encoder gives at least the minimum; without one keep all."""
    signal = pool.signals.get("cross")
    if signal is None or how.minimum <= 0:
        return pool
    passes = signal >= how.minimum  # false for items that the cross-encoder did not read
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
