"""Stage 6: order the pool by a weighted sum of signals.

`sim` is how well an item answers (`helix.stages.features.similarity`), after one step along links
(`helix.stages.features.linked`). Every signal is scaled to [0, 1] over the pool and weighted by the item's type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from helix.ranking.topk import sort_rows
from helix.stages.features.linked import raise_linked
from helix.stages.features.similarity import similarity
from helix.types import F32, TYPES, AnyArray, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import HelixProfile

SIGNALS = ("sim", "recency", "salience", "confidence", "graph")
_FLAT = 1e-6  # a signal that varies less over the pool is ignored


def rank(
    pool: Candidates, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: HelixProfile
) -> Candidates:
    """Score and order the pool, best first; ties keep the smaller item id first."""
    if not len(pool):
        return pool
    columns = snap.columns
    rows = pool.row.astype(np.int64)
    kinds = columns.type[rows]
    raw: dict[str, F32] = {
        "sim": raise_linked(rows, similarity(rows, pool.rrf, query, vector, snap, plan, profile), snap, profile.link),
        "recency": recency(rows, query, snap, profile),
        "salience": columns.salience[rows],
        "confidence": columns.confidence[rows],
        "graph": np.where(np.isnan(pool.ppr), np.float32(0), pool.ppr),
    }
    signals = minmax(np.stack([raw[name] for name in SIGNALS]))
    if len(pool) == 1:  # nothing differs, and it is the best there is
        signals[0] = 1
    weights = type_weights(profile, plan.recent).take(kinds, axis=1)
    final = np.einsum("sn,sn->n", weights, signals)
    ranked = replace(pool, **dict(zip(SIGNALS, signals, strict=True)), final=final)
    return ranked.take(sort_rows(ranked.final, columns.key[ranked.row]))


def split_score(pool: Candidates, snap: Snapshot, plan: Plan, profile: HelixProfile) -> dict[str, F32]:
    """Return what each signal adds to the score of `rank`: by name, float32[n]."""
    weights = type_weights(profile, plan.recent).take(snap.columns.type[pool.row], axis=1)
    return {name: weight * getattr(pool, name) for name, weight in zip(SIGNALS, weights, strict=True)}


def minmax(values: F32) -> F32:
    """Scale to [0, 1] over the last axis, the pool; all zero where values do not differ. float32."""
    low = values.min(axis=-1, keepdims=True)
    span = values.max(axis=-1, keepdims=True) - low
    flat = span < _FLAT
    return np.asarray((values - low) / (span + flat) * ~flat, np.float32)


def type_weights(profile: HelixProfile, recent: bool) -> F32:
    """Return the weights: float32[signals, types]. Unless the question asks for recency, its weight goes to `sim`."""
    table = np.array([[profile.weights[kind][name] for kind in TYPES] for name in SIGNALS], np.float32)
    if profile.rank.recency == "asked" and not recent:
        table[0] += table[1]
        table[1] = 0
    return table


def recency(rows: AnyArray, query: Query, snap: Snapshot, profile: HelixProfile) -> F32:
    """Return decay ** (hours since last access), decay by type; the future counts as now."""
    hours = np.maximum(query.now.timestamp() - snap.catalog.last_access[rows], 0) / 3600
    decay = np.array([profile.rank.decay[kind] for kind in TYPES])[snap.columns.type[rows]]
    return np.asarray(np.power(decay, hours), np.float32)
