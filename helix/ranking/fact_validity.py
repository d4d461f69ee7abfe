"""Validity of facts: the end of each by later assertions and closings, for all facts of a store at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from helix.types import I64, U64, AnyArray, Bool

NO_END: Final = int(np.iinfo(np.int64).min)
"""The end of a fact that still holds."""

_NEVER: Final = int(np.iinfo(np.int64).max)


def resolve_ends(
    group: U64, family: U64, object: U64, valid: I64, said: I64, until: I64, functional: Bool, closes: Bool
) -> I64:
    """Return the end of each fact: int64[n] seconds, `NO_END` if it still holds.

    Facts of a group are ordered by (valid, said, position). Position matters only for ties, so a late arrival takes its
    place in time. An assertion ends with the first later

    - closing of its object, or of any object (`object` 0);
    - closing of its object in the same family without a qualifier: "we no longer use Redis" ends "for the queue";
    - assertion of another object, if its relation is functional, unless that one ends before it begins (`until` ≤
      `valid`).

    A repeated assertion of the same object ends nothing. `until` ends a fact earlier. A closing is an event: it ends at
    its own `valid`.

    Args:
        group: uint64[n], hash of (scope, subject, relation, qualifier).
        family: uint64[n], the group of the same fact without its qualifier; a fact without one is in its own family.
        object: uint64[n], hash of the object; 0 for a closing that names none.
        valid: int64[n] seconds, the start of a fact; never `NO_END`.
        said: int64[n], the rank of each fact in the order in which they were said; see `order_sayings`.
        until: int64[n] seconds, `NO_END` if not stated.
        functional: bool[n], one object at a time.
        closes: bool[n], the fact is a closing.
    """
    order = np.lexsort((said, valid, group))
    wide = (closes & (group == family))[order]
    group, family, object = group[order], family[order], object[order]
    valid, until = valid[order], until[order]
    functional, closes = functional[order], closes[order]

    end = _find_next(group, np.flatnonzero(closes & (object == 0)), valid)
    np.minimum(end, _find_same(group, object, valid, closes), out=end)
    np.minimum(end, _find_in_family(family, object, valid, said[order], order, wide), out=end)
    begins = np.flatnonzero(~closes & ((until == NO_END) | (until > valid)))
    other = _find_other(group, object, valid, begins)
    end[begins] = np.where(functional[begins], np.minimum(end[begins], other), end[begins])
    np.minimum(end, np.where(until == NO_END, _NEVER, until), out=end)
    end[closes] = valid[closes]

    result = np.empty(len(order), np.int64)
    result[order] = np.where(end == _NEVER, NO_END, end)
    return result


def order_sayings(time: I64, session: AnyArray, place: AnyArray, ingested: I64) -> I64:
    """Return the rank of each fact in the order in which they were said: int64[n], from 0, all different.

    The time decides; within a session then its reading order, whenever its parts were ingested. Where nothing else
    tells two sessions of one second apart, the one that was ingested first comes first.

    Args:
        time: int64[n] seconds, of the turn.
        session: integers[n], one number a session.
        place: integers[n], in the reading order of the session.
        ingested: int64[n] microseconds.
    """
    arrival = ingested.argsort(kind="stable")
    sessions, first = np.unique(session[arrival], return_index=True)
    order = np.lexsort((place, first[sessions.searchsorted(session)], time))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _find_next(group: U64, where: npt.NDArray[np.intp], valid: I64) -> I64:
    """Return `valid` of the first of the ascending rows `where` after each row in its group, or `_NEVER`."""
    at = np.searchsorted(where, np.arange(len(group)), side="right")
    found = np.full(len(group), _NEVER, np.int64)
    has = np.flatnonzero(at < len(where))
    rows = where[at[has]]
    same = group[rows] == group[has]
    found[has[same]] = valid[rows[same]]
    return found


def _find_same(group: U64, object: U64, valid: I64, closes: Bool) -> I64:
    """Return `valid` of the first later closing of the same object, or `_NEVER`."""
    found = np.full(len(group), _NEVER, np.int64)
    named = np.flatnonzero(closes & (object != 0))
    if not len(named):
        return found
    # Sorted by group and object, rows stay in time order: the next closing there is the first later one.
    by = np.lexsort((object, group))
    starts = np.ones(len(by), bool)
    starts[1:] = (group[by][1:] != group[by][:-1]) | (object[by][1:] != object[by][:-1])
    run = np.cumsum(starts).astype(np.uint64)
    found[by] = _find_next(run, np.flatnonzero((closes & (object != 0))[by]), valid[by])
    return found


def _find_in_family(family: U64, object: U64, valid: I64, said: I64, position: AnyArray, wide: Bool) -> I64:
    """Return `valid` of the first later closing of the same object without a qualifier, or `_NEVER`."""
    if not wide.any():
        return np.full(len(family), _NEVER, np.int64)
    by = np.lexsort((position, said, valid, family))
    found = np.empty(len(family), np.int64)
    found[by] = _find_same(family[by], object[by], valid[by], wide[by])
    return found


def _find_other(group: U64, object: U64, valid: I64, rows: npt.NDArray[np.intp]) -> I64:
    """Return `valid` of the first later row with another object in its group, for ascending rows, or `_NEVER`."""
    found = np.full(len(rows), _NEVER, np.int64)
    g, o, v = group[rows], object[rows], valid[rows]
    border = np.flatnonzero((g[1:] != g[:-1]) | (o[1:] != o[:-1])) + 1  # starts of runs but the first
    run = np.searchsorted(border, np.arange(len(rows)), side="right")
    has = np.flatnonzero(run < len(border))
    after = border[run[has]]
    same = g[after] == g[has]
    found[has[same]] = v[after[same]]
    return found
