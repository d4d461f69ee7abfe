"""Stage 6: order the pool by a blend of signals.

`sim` is itself a blend, computed for the pool only, of the fused ranks and of scores: BM25 of the item, of the item
with the turns around it and of its whole session, smoothed over neighbours; and the inner product with the mean vector
taken off. Each part is divided by its maximum over the pool. Then every signal is scaled to [0, 1] over the pool and
weighted by the item's type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from helix.bm25 import idf, saturate
from helix.topk import order
from helix.types import F32, I64, ROLES, TYPES, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.profiles import Profile, Sim
    from helix.snapshot.queries import Expansion
    from helix.snapshot.reader import Snapshot

SIGNALS = ("sim", "recency", "salience", "confidence", "graph")
_FIELDS = (1.2, 0.75)  # k1, b of the window and session fields
_FLAT = 1e-6  # a signal that varies less than this over the pool says nothing


def rank(
    pool: Candidates, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: Profile
) -> Candidates:
    """The pool with its signals and final score, best first; ties go to the smaller item id."""
    if not len(pool):
        return pool
    columns = snap.columns
    rows = pool.row.astype(np.int64)
    kinds = columns.type[rows]
    signals: dict[str, Any] = {
        "sim": minmax(link(rows, similarity(pool, query, vector, snap, plan, profile), snap, profile.sim)),
        "recency": minmax(recency(rows, query, snap, profile)),
        "salience": minmax(columns.salience[rows]),
        "confidence": minmax(columns.confidence[rows]),
        "graph": minmax(np.nan_to_num(pool.ppr)),
    }
    weights = type_weights(profile, plan.recent)[:, kinds]
    final = np.einsum("sn,sn->n", weights, np.stack([signals[name] for name in SIGNALS]))
    ranked = replace(pool, **signals, final=final.astype(np.float32))
    return ranked.take(order(ranked.final, columns.key[ranked.row]))


def minmax(values: F32) -> F32:
    """Scale to [0, 1] over the pool; all zero where the pool does not differ."""
    low, high = float(values.min()), float(values.max())
    if high - low < _FLAT:
        return np.zeros(len(values), np.float32)
    return np.asarray((values - low) / (high - low), np.float32)


def type_weights(profile: Profile, recent: bool) -> F32:
    """float32[signals, types]. A recency weight that is not asked for goes to `sim`."""
    table = np.array([[profile.weights[kind][name] for kind in TYPES] for name in SIGNALS], np.float32)
    if profile.rank.recency == "asked" and not recent:
        table[0] += table[1]
        table[1] = 0
    return table


def recency(rows: npt.NDArray[Any], query: Query, snap: Snapshot, profile: Profile) -> F32:
    """decay ** hours since last access, by type; the future counts as now."""
    hours = np.maximum(query.now.timestamp() - snap.last_access[rows], 0) / 3600
    decay = np.array([profile.rank.decay[kind] for kind in TYPES])[snap.columns.type[rows]]
    return np.asarray(np.power(decay, hours), np.float32)


def similarity(pool: Candidates, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: Profile) -> F32:
    """The blend over the pool, before scaling: float32[n]."""
    sim, rows = profile.sim, pool.row.astype(np.int64)
    score = np.zeros(len(rows), np.float32)
    if sim.rrf:
        score += sim.rrf * _over_max(np.nan_to_num(pool.rrf))  # what the walk brought has none
    if sim.lexical and len(query.terms):
        score += sim.lexical * _over_max(lexical(rows, query, snap, profile))
    if sim.dense and vector is not None:
        centred = snap.vectors(rows) @ vector - sim.mean * float(snap.centroids[-1] @ vector)
        score += sim.dense * _over_max(centred)
    return score + hints(rows, query, snap, plan, sim)


def link(rows: I64, score: F32, snap: Snapshot, sim: Sim) -> F32:
    """One step from the best items over the entities they name: what answers a question without sharing its words.

    An item that shares rare entities with one of the first `walk_seeds` may rise, but never past them:
    s ← max(s, min(s + walk·y, 0.98·s of the last seed)), y the idf mass it shares, 1 for the best linked item.
    """
    if not sim.walk or len(rows) <= sim.walk_seeds:
        return score
    seeds = order(score, snap.columns.key[rows])[: sim.walk_seeds]
    at, keys = snap.entities_of(rows)
    distinct, entity = np.unique(keys, return_inverse=True)
    where, _ = snap.rows_of(distinct)
    df = np.bincount(where, minlength=len(distinct))
    is_document = snap.columns.role[rows] == ROLES.index("document")
    most = np.where(is_document, sim.walk_df, sim.walk_df_turns)[at]
    edge = np.where((df[entity] >= 2) & (df[entity] <= most), np.log1p(snap.live / np.maximum(df, 1))[entity], 0)
    is_seed = np.zeros(len(rows), bool)
    is_seed[seeds] = True
    total = np.bincount(at, edge, minlength=len(rows))
    # From a seed over its entities, each taking its share of the seed's score, and on to the others.
    from_seed = edge * is_seed[at] * score[at] / np.maximum(total[at], 1e-9)
    through = np.bincount(entity, from_seed, minlength=len(distinct))
    reached = np.bincount(at, (edge > 0) * through[entity] / np.maximum(df[entity] - 1, 1), minlength=len(rows))
    reached[is_seed] = 0
    if reached.max(initial=0) <= 0:
        return score
    risen = np.minimum(score + sim.walk * reached / reached.max(), 0.98 * score[seeds[-1]])
    return np.where(is_seed, score, np.maximum(score, risen)).astype(np.float32)


def hints(rows: I64, query: Query, snap: Snapshot, plan: Plan, sim: Sim) -> F32:
    """What the question says besides its words: who spoke, whose memory, which day."""
    columns = snap.columns
    named = np.array([bool(query.words & snap.speaker_words[code]) for code in range(len(snap.speakers))] + [False])
    bonus = np.float32(0 if plan.asker_speaks else sim.speaker) * named[columns.speaker[rows]].astype(np.float32)
    if plan.first_person:
        bonus += np.float32(sim.user) * (columns.role[rows] == ROLES.index("user"))
    if sim.type and plan.type_scores is not None:
        second, first = np.partition(plan.type_scores, -2)[-2:]
        # As far as the nearest type is nearer than the next one.
        bonus += np.float32(sim.type) * (first - second) * (columns.type[rows] == plan.type_scores.argmax())
    if sim.project and plan.projects:
        bonus += np.float32(sim.project) * np.isin(columns.project[rows], plan.projects)
    day = np.zeros(len(rows), np.float32)
    for first, last, weight in plan.days:
        within = (columns.time[rows] >= first) & (columns.time[rows] <= last)
        day = np.maximum(day, np.float32(weight) * within)
    return np.asarray(bonus + np.float32(sim.date) * day, np.float32)


def lexical(rows: I64, query: Query, snap: Snapshot, profile: Profile) -> F32:
    """L = own + window·w + session·s + doc2query·q, then L + smooth·(L of the turn before + L of the one after).

    Returns:
        float32[n].
    """
    columns, sim = snap.columns, profile.sim
    before, after = _step(rows, columns.previous), _step(rows, columns.next)
    # Five rows around each candidate, −1 where there is none: enough for the windows of both neighbours.
    ring = np.stack([_step(before, columns.previous), before, rows, after, _step(after, columns.next)])
    length = np.where(ring >= 0, columns.length[ring], 0)
    window_length = length[:-2] + length[1:-1] + length[2:]
    own = np.zeros(ring[1:-1].shape, np.float32)
    asked = expansion(rows, query, snap.expansion, profile) if sim.doc2query and snap.expansion else np.float32(0)
    window, session = np.zeros_like(own), np.zeros(len(rows), np.float32)
    sessions, mean_session = snap.session_statistics
    code = columns.session[rows]
    for term in query.terms:
        hits, tfs = snap.postings(term)
        if not len(hits):
            continue
        weight = idf(len(hits), snap.live)
        at = np.minimum(np.searchsorted(hits, np.maximum(ring, 0)), len(hits) - 1)
        tf = np.where((ring >= 0) & (hits[at] == ring), tfs[at], 0)
        own += weight * saturate(tf[1:-1], length[1:-1], snap.mean_length, profile.retrieve.k1, profile.retrieve.b)
        around = tf[:-2] + tf[1:-1] + tf[2:]
        window += weight * saturate(around, window_length, snap.mean_window_length, *_FIELDS)
        if sim.session:
            whole = np.bincount(columns.session[hits], tfs, minlength=len(snap.session_length)).astype(np.float32)
            session_weight = idf(int(np.count_nonzero(whole)), sessions)
            session += session_weight * saturate(whole[code], snap.session_length[code], mean_session, *_FIELDS)
    score = own + np.float32(sim.window) * window
    score[1] += np.float32(sim.session) * session + np.float32(sim.doc2query) * asked
    score[0] += np.float32(sim.session) * session * (ring[1] >= 0)
    score[2] += np.float32(sim.session) * session * (ring[3] >= 0)
    score *= ring[1:-1] >= 0
    return np.asarray(score[1] + np.float32(sim.smooth) * (score[0] + score[2]), np.float32)


def expansion(rows: I64, query: Query, field: Expansion, profile: Profile) -> F32:
    """BM25 of the questions a model wrote for each row: float32[n]; 0 for those it was not asked about yet."""
    score = np.zeros(len(rows), np.float32)
    length, how = field.length[rows], profile.retrieve
    for term in query.terms:
        for _, hits, tfs in field.term(term):
            at = np.minimum(np.searchsorted(hits, rows), len(hits) - 1)
            tf = np.where(hits[at] == rows, tfs[at], 0)
            score += idf(len(hits), field.live) * saturate(tf, length, field.mean_length, how.k1, how.b)
    return score


def _step(rows: I64, link: npt.NDArray[Any]) -> I64:
    return np.where(rows >= 0, link[rows], np.int64(-1))


def _over_max(values: F32) -> F32:
    return (values / max(float(values.max()), 1e-9)).astype(np.float32)
