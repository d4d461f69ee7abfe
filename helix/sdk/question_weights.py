"""The weights of a question's terms over several stores, for excerpts of a context that has items of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from helix.question.terms import find_language, list_terms
from helix.ranking.bm25 import compute_idf
from helix.text.tokenize import hash_terms

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def weigh_question(text: str, views: Sequence[Snapshot]) -> dict[str, float]:
    """Return the greatest idf of each of a question's terms in any of the views, by term."""
    weights: dict[str, float] = {}
    for snap in views:
        stored = snap.lexical.languages
        own, others = list_terms(text, find_language(text, stored), stored)
        words = sorted({*own, *others})
        frequency = np.array([snap.lexical.df(key) for key in hash_terms(words)], np.int64)
        for word, weight in zip(words, compute_idf(frequency, snap.live).tolist(), strict=True):
            weights[word] = max(weight, weights.get(word, 0.0))
    return weights
