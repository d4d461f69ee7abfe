"""Stage 2: which rows may be searched, and what the question hints at.

Explicit options filter; hints only boost. Skipping is the exception: it needs a conservative threshold, and a question
without any filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from helix.native.zones import filter_range
from helix.stages.conditions import list_conditions
from helix.stages.skip_rules import describe_prompt, is_general
from helix.stages.time_limits import explain_row, read_limits
from helix.text.asks import asks_advice, read_extent
from helix.text.ignored import blank_words
from helix.text.language_words import has_words, is_courtesy
from helix.text.languages import ENGLISH
from helix.text.tokenize import split_project_words
from helix.types import F32, TYPES, AnyArray, Bool, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

_FIRST_PERSON = re.compile(r"\b(i|i'm|i've|i'd|me|my|mine)\b", re.IGNORECASE)
_ASKER_SPEAKS = re.compile(r"\bI\b(?!')", re.IGNORECASE)  # "I" as the subject, not "me" or "my"
_RECENT = re.compile(
    r"\b(recent(ly)?|latest|newest|just now|right now|currently|these days|so far|today|yesterday"
    r"|this (morning|week|month)|last (time|night|week|few days)|most recent|up to date|as of now)\b",
    re.IGNORECASE,
)


def scope(query: Query, snap: Snapshot) -> Plan:
    """Return the part of the plan that the question's filters decide: the rows that may be searched."""
    allowed, count = _filter_rows(query, snap)
    conditions = list_conditions(query, snap)
    return Plan(allowed=None if count == snap.rows else allowed, allowed_rows=count, conditions=conditions)


def route(query: Query, vector: F32 | None, snap: Snapshot, within: Plan | None = None) -> Plan:
    """Decide the plan.

    Args:
        query: checked.
        vector: float32[d]; None if the encoder is missing: then nothing is skipped.
        within: the question's `scope`, if known.
    """
    within = within or scope(query, snap)
    score = _skip_score(vector, snap)
    first_person = _has(query, _FIRST_PERSON, "first_person")
    named = (query.project, query.type, query.session, query.speaker, query.principal)
    filters = (*named, query.since, query.until, query.as_of, query.ingested_as_of)
    # A question about the caller, or with a filter, needs the memory.
    wants_memory = first_person or bool(query.entities) or any(given is not None for given in filters)
    return replace(
        within,
        skip=not wants_memory and _is_general(query, score, snap),
        skip_score=score,
        needless=_score_needless(query, vector, snap),
        first_person=first_person,
        asker_speaks=_has(query, _ASKER_SPEAKS, "asker"),
        recent=_has(query, _RECENT, "recent"),
        extent=read_extent(query.text, query.language),
        advice=asks_advice(query.text, query.language),
        days=query.days,
        type_scores=_score_types(vector, snap),
        projects=_find_projects(query, snap) if query.project is None else (),
    )


def _has(query: Query, english: re.Pattern[str], words: str) -> bool:
    """Return whether a question has words of its language, those of `helix.text.language_words` but for English."""
    if query.language == ENGLISH:
        return english.search(_read_hinting(query)) is not None
    return has_words(query.language, _read_hinting(query), words)


def _read_hinting(query: Query) -> str:
    """Return the question without the words that hint at nothing."""
    return blank_words(query.text, query.ignored)


def _is_general(query: Query, score: float, snap: Snapshot) -> bool:
    """Return whether a question needs no memory; in another language than English only a courtesy needs none."""
    if query.language != ENGLISH:
        return is_courtesy(query.language, query.text)
    return is_general(query.text, score, _find_threshold(snap))


def _find_projects(query: Query, snap: Snapshot) -> tuple[int, ...]:
    """Return the codes of projects whose whole name is in the question."""
    words = split_project_words(_read_hinting(query))
    found = []
    for at, word in enumerate(words):
        for name, code in snap.catalog.project_names.get(word, ()):
            if words[at : at + len(name)] == name:
                found.append(code)
    return tuple(sorted(set(found)))


_FIRST, _LAST = -(2**63) + 1, 2**63 - 1  # seconds; a missing time is before _FIRST, in no window


def _filter_rows(query: Query, snap: Snapshot) -> tuple[Bool | None, int]:
    """Return the pre-filter of every leg, bool[rows] or None for all rows, and how many rows it leaves.

    Rows hidden by an ACL, `as_of` or `ingested_as_of` are not alive in the view: see `Snapshot.seen_by`, `known_at`.
    """
    columns = snap.columns
    sets, expired = list(_list_sets(query, snap)), _find_expired(query, snap)
    ranges: dict[str, tuple[int, int]] = {}  # by column; since and until are one range
    for _, name, least, most in _list_ranges(query, snap):
        other = ranges.get(name, (least, most))
        ranges[name] = max(least, other[0]), min(most, other[1])
    allowed, count = None if snap.live == snap.rows else snap.alive, snap.live  # the array itself, not a copy
    for name, (least, most) in ranges.items():
        among, allowed = allowed, np.empty(snap.rows, bool)
        count = filter_range(getattr(columns, name), columns.zones(name), least, most, among, allowed)
    for _, codes, wanted in sets:
        named = np.logical_or.reduce([codes == code for code in wanted])  # usually one
        allowed = named if allowed is None else allowed & named
        count = int(np.count_nonzero(allowed))
    if len(expired):
        allowed = np.ones(snap.rows, bool) if allowed is None else allowed.copy()
        count -= int(np.count_nonzero(allowed[expired]))
        allowed[expired] = False
    return allowed, count


def select_named(query: Query, snap: Snapshot) -> Bool:
    """Return the live rows of the project, type, session and speaker that the question names: bool[rows]."""
    rows = snap.alive.copy()
    for _, name, least, most in _list_ranges(replace(query, since=None, until=None), snap):
        rows &= (getattr(snap.columns, name) >= least) & (getattr(snap.columns, name) <= most)
    for _, codes, wanted in _list_sets(query, snap):
        rows &= np.isin(codes, wanted)
    return rows


def _find_expired(query: Query, snap: Snapshot) -> AnyArray:
    """Return rows that no longer hold; with `current_only` also superseded rows."""
    ends = snap.columns.ends
    expired = ends[snap.columns.t_invalid[ends] <= query.moment] if len(ends) else ends
    return np.union1d(expired, snap.changes.find_outdated(query.moment)) if query.current_only else expired


def _list_ranges(query: Query, snap: Snapshot) -> Iterator[tuple[str, str, int, int]]:
    """Yield the filters by a range of numbers: (description, column, least, most)."""
    if query.project is not None:
        code = snap.projects.index(query.project)
        yield f"project {query.project}", "project", code, code
    if query.type is not None:
        code = TYPES.index(query.type)
        yield f"type {query.type}", "type", code, code
    if query.since is not None:
        yield f"since {query.since:%Y-%m-%d %H:%M}", "time", int(query.since.timestamp()), _LAST
    if query.until is not None:
        yield f"until {query.until:%Y-%m-%d %H:%M}", "time", _FIRST, int(query.until.timestamp())


def _list_sets(query: Query, snap: Snapshot) -> Iterator[tuple[str, AnyArray, tuple[int, ...]]]:
    """Yield the filters by name: (description, code of each row, allowed codes)."""
    if query.session is not None:
        yield f"session {query.session}", snap.columns.session, query.sessions
    if query.speaker is not None:
        yield f"speaker {query.speaker}", snap.columns.speaker, query.speakers


def explain_filter(query: Query, snap: Snapshot, row: int) -> str | None:
    """Describe the filter that excludes a row; None if none does."""
    if not snap.alive[row]:
        return explain_row(read_limits(query), snap, row) or "it is not live"
    for text, name, least, most in _list_ranges(query, snap):
        if not least <= getattr(snap.columns, name)[row] <= most:
            return f"outside the filter {text}"
    for text, codes, wanted in _list_sets(query, snap):
        if codes[row] not in wanted:
            return f"outside the filter {text}"
    if row in _find_expired(query, snap):
        ended = snap.columns.t_invalid[row]
        return "it no longer holds" if ended >= _FIRST else "what it says no longer holds (current_only)"
    return None


def _skip_score(vector: F32 | None, snap: Snapshot) -> float:
    """Return the probability that the question needs no memory: logistic regression over its vector."""
    router = snap.router
    if vector is None or router is None:
        return 0.0
    return float(1 / (1 + np.exp(-(vector @ router["weights"] + router["bias"]))))


def _score_needless(query: Query, vector: F32 | None, snap: Snapshot) -> float:
    """Return the log-odds that a prompt needs no memory, by its vector and its wording.

    NaN without a classifier, and in another language than English, whose wording it does not know.
    """
    router = snap.router
    if vector is None or router is None or "prompt_weights" not in router or query.language != ENGLISH:
        return np.nan
    weights = router["prompt_weights"]
    known = np.concatenate([vector, describe_prompt(query.text)])
    return float(known @ weights + router["prompt_bias"]) if len(known) == len(weights) else np.nan


def _find_threshold(snap: Snapshot) -> float:
    return float(snap.router["threshold"]) if snap.router is not None else 1.0


def _score_types(vector: F32 | None, snap: Snapshot) -> F32 | None:
    """Return the cosine of the question to each type's centroid: float32[types]; 0 where a type has no items."""
    if vector is None or not snap.rows:
        return None
    return np.asarray(snap.vectors.type_directions @ vector)
