"""Reranking in the recipe `helix`: the best few are scored again, and change places among themselves only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from helix.errors import EncoderError
from helix.ranking.topk import sort_rows
from helix.recipes.common import score_rows, weigh_terms
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, ReadingConstants
from helix.stages.pair_text import read_pair_texts
from helix.stages.rerank import explain_unusable, rerank
from helix.stages.trace import Trace
from helix.text.asks import WIDE
from helix.types import F32, ROLES, AnyArray, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers


_DOCUMENT: Final = ROLES.index("document")
_MOST_DOCUMENTS: Final = 0.5
_NONE: Final = np.empty(0, np.float32)


def rerank_best(
    pool: Candidates,
    query: Query,
    snap: Snapshot,
    plan: Plan,
    profile: HelixProfile,
    trace: Trace,
    models: Rerankers,
) -> Candidates:
    """Score the best few again, by token or by a network that reads question and item together."""
    rows = pool.row[: query.rerank_top]
    if query.rerank == "late":
        scores, how = score_rows(query, rows, snap, models, trace)
        found = PairScores(scores, how, explain_unusable(scores))
    elif reason := _explain_left(rows, query, snap, plan, profile.reading):
        found = PairScores(_NONE, {}, reason)
    else:
        found = _score_pairs(query, rows, snap, models, trace)
    n = len(found.scores)
    trace.note("rerank", rows_in=n, rows_out=n, by=query.rerank, unusable=found.unusable, **found.how)
    seen = np.full(len(pool), np.nan, np.float32)
    seen[:n] = found.scores
    final = rerank(pool.final, found.scores, profile.rerank.weight, found.ranking)
    pool = replace(pool, rerank=seen, final=final)
    return pool.take(sort_rows(pool.final, snap.columns.key[pool.row]))


def _explain_left(rows: AnyArray, query: Query, snap: Snapshot, plan: Plan, how: ReadingConstants) -> str:
    """Explain why a cross-encoder leaves the order of some rows as it is; empty if it may change it.

    A question that many turns answer has no best turn. And the network knows no time: what replaces one of the best few
    is where the stage `reading` put it.
    """
    if not len(rows):
        return "nothing was found"
    if plan.extent in WIDE:
        return f"the question asks for: {plan.extent}"
    old, new, certainty = snap.changes.find_later(rows, int((query.as_of or query.now).timestamp()))
    changed = (old < how.hops) & (certainty >= how.least) & np.isin(new, rows)
    return "some of the best items replace others" if changed.any() else ""


class PairScores(NamedTuple):
    """The scores of a cross-encoder."""

    scores: F32  # float32[n]; empty if it cannot be used
    how: Mapping[str, Any]  # for the trace
    unusable: str  # why they change nothing; empty if they do
    ranking: float = 0.0  # weight of recall's own scores next to them; 0: as the profile says


def _score_pairs(query: Query, rows: AnyArray, snap: Snapshot, models: Rerankers, trace: Trace) -> PairScores:
    """Score rows by a network that reads question and item together."""
    try:
        cross = models.ranker
        how, spec = {"model": cross.name}, cross.spec
        if spec.language and query.language != spec.language:
            fault = f"{cross.name} reads questions in {spec.language!r}, this is in {query.language!r}"
            trace.degraded.append(f"rerank: {fault}")
            return PairScores(_NONE, how, fault)
        if spec.turns_only and (snap.columns.role[rows] == _DOCUMENT).mean() > _MOST_DOCUMENTS:
            return PairScores(_NONE, how, f"most items are documents, and {cross.name} orders turns")
        logits = cross.weigh(query.text, read_pair_texts(rows, snap, weigh_terms(query, snap)))
    except EncoderError as error:
        trace.degraded.append(f"rerank: {error.what}")
        return PairScores(_NONE, {}, error.what)
    scores = logits.astype(np.float32)
    return PairScores(scores, how, explain_unusable(scores), spec.ranking)
