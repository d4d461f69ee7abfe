"""Stage 3, lexical leg: exact BM25 over the postings of the question's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.bm25 import idf, saturate
from helix.topk import top_k
from helix.types import Leg, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot


def search_lexical(query: Query, snap: Snapshot, plan: Plan, k: int, k1: float, b: float) -> Leg:
    """The k best allowed rows by BM25, best first. Statistics are of the whole snapshot, whatever the filter."""
    scores = np.zeros(snap.rows, np.float32)
    for term in query.terms:
        rows, tf = snap.postings(term)
        if len(rows):
            gain = saturate(tf, snap.columns.length[rows], snap.mean_length, k1, b)
            scores[rows] += idf(len(rows), snap.live) * gain
    if plan.allowed is not None:
        scores *= plan.allowed
    hits = np.flatnonzero(scores)
    best = hits[top_k(scores[hits], snap.columns.key[hits], k)]
    return Leg("bm25", best.astype(np.uint32), scores[best])
