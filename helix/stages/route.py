"""Stage 2: what may be searched at all, and what the question hints at.

Explicit arguments filter; hints only ever boost. Skipping is the one hint with consequences, so it is held to a
conservative threshold and to questions without any filter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from helix.types import F32, TYPES, Bool, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot

_FIRST_PERSON = re.compile(r"\b(i|i'm|i've|i'd|me|my|mine)\b", re.IGNORECASE)
_ASKER_SPEAKS = re.compile(r"\bI\b(?!')", re.IGNORECASE)  # "I" as the subject, not "me" or "my"
_RECENT = re.compile(
    r"\b(recent(ly)?|latest|newest|just now|right now|currently|these days|so far|today|yesterday"
    r"|this (morning|week|month)|last (time|night|week|few days)|most recent|up to date|as of now)\b",
    re.IGNORECASE,
)


def route(query: Query, vector: F32 | None, snap: Snapshot) -> Plan:
    """Decide the plan.

    Args:
        query: checked.
        vector: float32[d], or None where the encoder is missing: then nothing is ever skipped.
        snap: the open snapshot.
    """
    allowed = _allowed(query, snap)
    score = _skip_score(vector, snap)
    first_person = bool(_FIRST_PERSON.search(query.text))
    filters = (query.project, query.type, query.since, query.until, query.as_of, query.principal)
    # Whoever asks about themselves, or says where to look, wants the memory.
    wants_memory = first_person or bool(query.entities) or any(given is not None for given in filters)
    return Plan(
        allowed=None if allowed.all() else allowed,
        allowed_rows=int(allowed.sum()),
        skip=score > _threshold(snap) and not wants_memory,
        skip_score=score,
        first_person=first_person,
        asker_speaks=bool(_ASKER_SPEAKS.search(query.text)),
        recent=bool(_RECENT.search(query.text)),
        days=query.days,
        type_scores=_type_scores(vector, snap),
    )


def _allowed(query: Query, snap: Snapshot) -> Bool:
    """bool[rows]: the pre-filter of both legs. An item with an ACL is only for those it names."""
    columns = snap.columns
    allowed = snap.alive & ~snap.restricted
    if query.principal is not None:
        allowed |= snap.alive & snap.named_in_acl(query.principal)
    if query.project is not None:
        allowed &= columns.project == snap.projects.index(query.project)
    if query.type is not None:
        allowed &= columns.type == TYPES.index(query.type)
    # A missing time is the smallest number there is: never within a window.
    if query.since is not None:
        allowed &= columns.time >= int(query.since.timestamp())
    if query.until is not None:
        allowed &= (columns.time <= int(query.until.timestamp())) & (columns.time > np.iinfo(np.int64).min)
    return allowed & _valid(query, snap)


def _valid(query: Query, snap: Snapshot) -> Bool:
    """t_valid ≤ asOf and (t_invalid null or > asOf) and t_ingested ≤ asOf. Without asOf: not yet invalid."""
    columns = snap.columns
    at = int((query.as_of or query.now).timestamp())
    valid: Bool = (columns.t_invalid == np.iinfo(np.int64).min) | (columns.t_invalid > at)
    if query.as_of is not None:
        valid &= (columns.t_valid <= at) & (columns.t_ingested <= at)
    return valid


def _skip_score(vector: F32 | None, snap: Snapshot) -> float:
    """Probability that the question needs no memory (logistic regression over its vector)."""
    router = snap.router
    if vector is None or router is None:
        return 0.0
    return float(1 / (1 + np.exp(-(vector @ router["weights"] + router["bias"]))))


def _threshold(snap: Snapshot) -> float:
    return float(snap.router["threshold"]) if snap.router is not None else 1.0


def _type_scores(vector: F32 | None, snap: Snapshot) -> F32 | None:
    """Cosine of the question to the centroid of each type: float32[types]; 0 where a type has no items."""
    if vector is None or not snap.rows:
        return None
    centroids = snap.centroids[:-1]
    norms = np.linalg.norm(centroids, axis=1)
    return np.asarray(centroids @ vector / np.maximum(norms, 1e-9), np.float32)
