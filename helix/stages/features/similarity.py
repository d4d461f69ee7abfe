"""How well a candidate answers, from its words, its meaning and what stands around it: the signal `sim` of stage 6.

A weighted sum of features of the pool, each at most 1. Scores are divided by the best of the pool: BM25 of the item and
of the window around it, adjacent words of the question found adjacent, the inner product of the question with an item's
vector leant towards its neighbours' and with the mean vector taken off, and what the item's session holds besides. The
rest are yes or no: who speaks, when, whether it answers a question or gives a standing instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from helix.native.rows import find_distinct
from helix.native.vectors import score_neighbours
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.stages.features.lexical import Heard, adjacent, hear, lexical
from helix.stages.features.linked import titled
from helix.text.cues import ASKS, FIRST_PERSON, STANDING
from helix.text.tokenize import shorten_ids
from helix.types import F32, I64, ROLES, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.index.doc2query import Expansion
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import HelixProfile

_LEAST = 0.05  # a best score below is no score: dividing by it would make noise the best there is


def similarity(
    rows: I64, rrf: F32, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, how: HelixProfile
) -> F32:
    """The sum over the pool, before scaling: float32[n]; see `parts`."""
    score = np.zeros(len(rows), np.float32)
    for part in parts(rows, rrf, query, vector, snap, plan, how).values():
        score += part
    return score


def parts(
    rows: I64, rrf: F32, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, how: HelixProfile
) -> dict[str, F32]:
    """What each feature of a weight other than 0 adds to the similarity of the pool: by name, float32[n].

    Args:
        rows: of the pool.
        rrf: the fused score of each, NaN for those the walk brought.
        vector: of the question, float32[d]; None where the encoder is missing.
    """
    sim, columns = how.sim, snap.columns
    found: dict[str, npt.NDArray[Any]] = hints(rows, query, snap, plan)
    if sim.rrf:
        found["rrf"] = over_best(np.nan_to_num(rrf))
    own = meant = np.zeros(len(rows), np.float32)
    heard = hear(rows, query.terms, query.said, snap)
    if len(query.terms) and (sim.own or sim.window or sim.rare or sim.reply or sim.session):
        words = lexical(heard, snap, how)
        best = np.float32(max(float(words.own.max()), _LEAST))
        answers = snap.lexical.cues(np.maximum(columns.previous[rows], 0)) & ASKS > 0
        own = words.own / best
        found |= {"own": own, "window": over_best(words.window), "rare": words.rare}
        found["reply"] = np.where(answers, words.before, 0) / best
    if sim.adjacent:
        found["adjacent"] = over_best(adjacent(heard, snap))
    if sim.doc2query and snap.lexical.expansion:
        found["doc2query"] = over_best(expanded(rows, query, snap.lexical.expansion, how))
    if sim.sparse and snap.lexical.impacts and query.weighed:
        found["sparse"] = over_best(snap.lexical.impacts.scores(rows, query.weighed))
    if vector is not None and (sim.dense or sim.standing or sim.session):
        taken = np.float32(sim.mean) * np.float32(snap.vectors.centroids[-1] @ vector)
        alone, among = leant(heard, vector, snap, sim.lean)
        meant = over_best(alone - taken)
        found["dense"] = over_best(among - taken)
    document = columns.role[rows] == ROLES.index("document")
    if "window" in found and "dense" in found:
        # It has no turns around it: what they would say is asked of its words and of its vector, half and half.
        halves = np.float32(0.5) * (found["window"] + found["dense"])
        found["window"] = np.where(document, halves, found["window"])
    if sim.first_person or sim.standing:
        cues = snap.lexical.cues(rows)
        found |= {"first_person": cues & FIRST_PERSON > 0, "standing": meant * (cues & STANDING > 0)}
    salience = columns.salience[rows]
    found["salience"] = np.where(document, salience.mean(), salience)  # which turn matters is no question of a document
    if sim.title:
        documents = titled(shorten_ids(query.said), snap, how.link.title_df) if plan.titled is None else plan.titled
        found["title"] = np.isin(rows, documents) if len(documents) else np.zeros(len(rows), bool)
    if sim.session:
        found["session"] = company(rows, np.float32(0.5) * (own + meant), snap)
    weights = {name: np.float32(getattr(sim, name)) for name in found}
    if vector is None and "own" in weights:  # words are all there is
        weights["own"] += np.float32(sim.dense)
    return {name: (weights[name] * found[name]).astype(np.float32, copy=False) for name in found if weights[name]}


def over_best(values: F32) -> F32:
    """Divided by the largest."""
    return np.asarray(values / np.float32(max(float(values.max()), _LEAST)), np.float32)


def leant(heard: Heard, vector: F32, snap: Snapshot, share: float) -> tuple[F32, F32]:
    """Inner products of the question with the items' vectors, and with those leant towards the turns before and after
    and of unit length again: what a turn is about is half said by its neighbours. float32[n] each.

    Args:
        vector: of the question, float32[d].
        share: of each neighbour.
    """
    rows, question = heard.rows[heard.ring[1:4]], np.ascontiguousarray(vector, np.float32)
    alone, leaning = score_neighbours(snap.vectors.table, rows, question, share)
    return alone, leaning if share else alone


def company(rows: I64, score: F32, snap: Snapshot) -> F32:
    """The best score in the pool of each item's session: a turn among others that answer may say the rest. Of a
    document, whose session it is itself, its own.
    """
    codes, at = find_distinct(snap.columns.session[rows].astype(np.int64))
    best = np.full(len(codes), -np.inf, np.float32)
    np.maximum.at(best, at, score)
    return np.where(snap.columns.role[rows] == ROLES.index("document"), score, best[at]).astype(np.float32)


def hints(rows: I64, query: Query, snap: Snapshot, plan: Plan) -> dict[str, npt.NDArray[Any]]:
    """What the question says besides its words: who spoke, whose memory, which day, of what kind. By name, [n]."""
    columns = snap.columns
    found: dict[str, npt.NDArray[Any]] = {}
    if not plan.asker_speaks:
        named = [code for word in query.words for code in snap.catalog.speaker_codes.get(word, ())]
        if named:
            found["speaker"] = np.isin(columns.speaker[rows], named)
    if plan.first_person:
        found["user"] = columns.role[rows] == ROLES.index("user")
    if plan.type_scores is not None:
        second, first = np.partition(plan.type_scores, -2)[-2:]
        # As far as the nearest type is nearer than the next one.
        found["type"] = (first - second) * (columns.type[rows] == plan.type_scores.argmax())
    if plan.projects:
        found["project"] = np.isin(columns.project[rows], plan.projects)
    if plan.days:
        at = columns.time[rows]
        within = [np.float32(weight) * ((at >= first) & (at <= last)) for first, last, weight in plan.days]
        found["date"] = np.max(within, axis=0)
    return found


def expanded(rows: I64, query: Query, field: Expansion, how: HelixProfile) -> F32:
    """BM25 of the questions a model wrote for each row: float32[n]; 0 for those it was not asked about yet."""
    score = np.zeros(len(rows), np.float32)
    length, k1, b = field.length[rows], how.retrieve.k1, how.retrieve.b
    for term in query.terms:
        for _, hits, tfs in field.term(term):
            at = np.minimum(np.searchsorted(hits, rows), len(hits) - 1)
            tf = np.where(hits[at] == rows, tfs[at], 0)
            score += compute_idf(len(hits), field.live) * saturate_tf(tf, length, field.mean_length, k1, b)
    return score
