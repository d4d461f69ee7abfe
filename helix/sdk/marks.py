"""Marks of an answer: what the question's words hint at, where they are in each item, and which items decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from helix.question.hints import describe_hints
from helix.question.terms import list_terms
from helix.sdk.decisions.plain_words import find_decision
from helix.snapshot.reader.snapshot import Snapshot
from helix.text.matches import find_matches
from helix.text.tokenize import tokenise
from helix.types import Bundle, Query


def describe_marks(query: Query, snap: Snapshot, bundle: Bundle) -> dict[str, Any]:
    """Return the marks of an answer, for its trace.

    `hints`: what the question's words hint at. `matches`: their places in each item's text, as (start, end) in
    characters. `decides`: whether an item of the type decision states one in plain words.
    """
    own, others = list_terms(query.text, query.language, query.stored)
    meant = {word for item in bundle.items for word in item.why.get("corrected", {}).values()}
    terms = {*own, *others}.union(*(tokenise(word, query.language) for word in meant))
    rows = np.array([snap.find(item.id) for item in bundle.items], np.int64)
    items = [*zip(bundle.items, snap.lexical.languages_of(rows), strict=True)]
    return {
        "hints": describe_hints(query, snap),
        "matches": [find_matches(item.text, terms, code) for item, code in items],
        "decides": [
            item.type == "decision" and bool(find_decision(item.text, item.role or "user", code))
            for item, code in items
        ],
    }
