"""Similarity of a candidate to the question, by words, meaning and context: the signal `sim` of stage 6.

A weighted sum of features of the pool, each at most 1. Scores are divided by the best of the pool: BM25 of the item and
of its window, adjacent words, the inner product of the question with an item's vector blended with its neighbours' and
without the mean vector, and the best of the item's session. Other features are yes or no: speaker, time, whether the
item answers a question or gives a standing instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.native.rows import find_distinct
from helix.native.vectors import score_neighbours
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.stages.features.languages import find_shared
from helix.stages.features.lexical import TermCounts, count_terms, score_adjacent, score_lexical
from helix.stages.features.linked import find_titled
from helix.text.cues import ASKS, FIRST_PERSON, STANDING
from helix.text.tokenize import shorten_ids
from helix.types import F32, I64, ROLES, AnyArray, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.index.doc2query import QueryField
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import HelixProfile

_MIN_BEST = 0.05  # a smaller best score would turn noise into the best


def similarity(
    rows: I64, rrf: F32, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, how: HelixProfile
) -> F32:
    """Sum the features of the pool, before scaling: float32[n]; see `compute_parts`."""
    score = np.zeros(len(rows), np.float32)
    for part in compute_parts(rows, rrf, query, vector, snap, plan, how).values():
        score += part
    return score


def compute_parts(
    rows: I64, rrf: F32, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, how: HelixProfile
) -> dict[str, F32]:
    """Return what each weighted feature adds to the similarity of the pool: by name, float32[n].

    Args:
        rows: of the pool.
        rrf: fused scores, NaN for rows that the walk added.
        vector: of the question, float32[d]; None without an encoder.
    """
    sim, columns = how.sim, snap.columns
    found: dict[str, AnyArray] = find_hints(rows, query, snap, plan)
    if sim.rrf:
        found["rrf"] = divide_by_best(np.nan_to_num(rrf))
    own = meaning = np.zeros(len(rows), np.float32)
    counted = count_terms(rows, query.terms, query.term_order, snap, query.term_weights)
    if len(query.terms) and (sim.own or sim.window or sim.rare or sim.reply or sim.session):
        words = score_lexical(counted, snap, how)
        best = np.float32(max(float(words.own.max()), _MIN_BEST))
        answers = snap.lexical.cues(np.maximum(columns.previous[rows], 0)) & ASKS > 0
        own = words.own / best
        found |= {"own": own, "window": divide_by_best(words.window), "rare": words.rare}
        found["reply"] = np.where(answers, words.before, 0) / best
    if sim.adjacent:
        found["adjacent"] = divide_by_best(score_adjacent(counted, snap))
    if sim.doc2query and snap.lexical.expansion:
        found["doc2query"] = divide_by_best(score_expansion(rows, query, snap.lexical.expansion, how))
    if sim.sparse and snap.lexical.impacts and query.sparse:
        found["sparse"] = divide_by_best(snap.lexical.impacts.scores(rows, query.sparse))
    if vector is not None and (sim.dense or sim.standing or sim.session):
        mean = np.float32(sim.mean) * np.float32(snap.vectors.centroids[-1] @ vector)
        alone, blended = score_vectors_blended(counted, vector, snap, sim.lean)
        meaning = divide_by_best(alone - mean)
        found["dense"] = divide_by_best(blended - mean)
        if sim.across and not (shared := find_shared(rows, query, snap)).all() and snap.encoder.joins_languages:
            found["across"] = np.where(shared, np.float32(0), found["dense"])
    document = columns.role[rows] == ROLES.index("document")
    if "window" in found and "dense" in found:
        # A document has no turns around it: its own words and vector replace the window, half each.
        halves = np.float32(0.5) * (found["window"] + found["dense"])
        found["window"] = np.where(document, halves, found["window"])
    if sim.first_person or sim.standing:
        cues = snap.lexical.cues(rows)
        found |= {"first_person": cues & FIRST_PERSON > 0, "standing": meaning * (cues & STANDING > 0)}
    salience = columns.salience[rows]
    found["salience"] = np.where(document, salience.mean(), salience)  # salience compares turns, not documents
    if sim.title:
        documents = (
            find_titled(shorten_ids(query.term_order), snap, how.link.title_df) if plan.titled is None else plan.titled
        )
        found["title"] = np.isin(rows, documents) if len(documents) else np.zeros(len(rows), bool)
    if sim.session:
        found["session"] = score_session(rows, np.float32(0.5) * (own + meaning), snap)
    weights = {name: np.float32(getattr(sim, name)) for name in found}
    if vector is None and "own" in weights:  # only words are left
        weights["own"] += np.float32(sim.dense)
    return {name: (weights[name] * found[name]).astype(np.float32, copy=False) for name in found if weights[name]}


def divide_by_best(values: F32) -> F32:
    """Divide values by the largest."""
    return np.asarray(values / np.float32(max(float(values.max()), _MIN_BEST)), np.float32)


def score_vectors_blended(counted: TermCounts, vector: F32, snap: Snapshot, share: float) -> tuple[F32, F32]:
    """Return inner products with items' vectors, alone and blended with their neighbours': float32[n] each.

    Blended vectors have unit length. Neighbours tell half of what a turn is about.

    Args:
        vector: of the question, float32[d].
        share: weight of each neighbour.
    """
    rows, question = counted.rows[counted.ring[1:4]], np.ascontiguousarray(vector, np.float32)
    alone, blended = score_neighbours(snap.vectors.table, rows, question, share)
    return alone, blended if share else alone


def score_session(rows: I64, score: F32, snap: Snapshot) -> F32:
    """Return the best score of each item's session; a document's session is the document itself."""
    codes, at = find_distinct(snap.columns.session[rows].astype(np.int64))
    best = np.full(len(codes), -np.inf, np.float32)
    np.maximum.at(best, at, score)
    return np.where(snap.columns.role[rows] == ROLES.index("document"), score, best[at]).astype(np.float32)


def find_hints(rows: I64, query: Query, snap: Snapshot, plan: Plan) -> dict[str, AnyArray]:
    """Return the features of speaker, project, day and type that the question names: by name, [n]."""
    columns = snap.columns
    found: dict[str, AnyArray] = {}
    if not plan.asker_speaks:
        named = [code for word in query.words for code in snap.catalog.speaker_codes.get(word, ())]
        if named:
            found["speaker"] = np.isin(columns.speaker[rows], named)
    if plan.first_person:
        found["user"] = columns.role[rows] == ROLES.index("user")
    if plan.type_scores is not None:
        second, first = np.partition(plan.type_scores, -2)[-2:]
        # The margin of the nearest type over the next.
        found["type"] = (first - second) * (columns.type[rows] == plan.type_scores.argmax())
    if plan.projects:
        found["project"] = np.isin(columns.project[rows], plan.projects)
    if plan.days:
        at = columns.time[rows]
        within = [np.float32(weight) * ((at >= first) & (at <= last)) for first, last, weight in plan.days]
        found["date"] = np.max(within, axis=0)
    return found


def score_expansion(rows: I64, query: Query, field: QueryField, how: HelixProfile) -> F32:
    """Return BM25 of the questions a model wrote for each row: float32[n]; 0 for rows without."""
    score = np.zeros(len(rows), np.float32)
    length, k1, b = field.length[rows], how.retrieve.k1, how.retrieve.b
    for term in query.terms:
        for _, hits, tfs in field.term(term):
            at = np.minimum(np.searchsorted(hits, rows), len(hits) - 1)
            tf = np.where(hits[at] == rows, tfs[at], 0)
            score += compute_idf(len(hits), field.live) * saturate_tf(tf, length, field.mean_length, k1, b)
    return score
