"""When a fact holds: which assertion or closing ends which, over all facts of a store at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from helix.types import I64, U64, Bool

HOLDS: Final = int(np.iinfo(np.int64).min)
"""As an end: there is none."""

_NEVER: Final = int(np.iinfo(np.int64).max)


def resolve(
    group: U64, family: U64, object: U64, valid: I64, ingested: I64, until: I64, functional: Bool, closes: Bool
) -> I64:
    """When each fact stopped holding: int64[n] seconds, `HOLDS` where it still does.

    Facts of a group follow each other by (valid, ingested, position); only facts that tie in the first two depend on
    their position, so one that arrives late falls into its place. An assertion ends with the first later

    - closing of its object, or of any object (`object` 0);
    - closing of its object in the same family that names no qualifier: "we no longer use Redis" ends "for the queue";
    - assertion of another object, where its relation is functional. One that was over before it began (`until` ≤
      `valid`) ends nothing.

    The same object again confirms it and ends nothing. `until` ends it earlier. A closing holds no longer than an
    event: it ends at its own `valid`.

    Args:
        group: uint64[n], hash of (scope, subject, relation, qualifier).
        family: uint64[n], the group of the same fact without its qualifier; a fact that has none is of its own family.
        object: uint64[n], hash of the object; 0 where a closing names none.
        valid: int64[n] seconds, from when a fact holds; never `HOLDS`.
        ingested: int64[n] microseconds.
        until: int64[n] seconds, `HOLDS` where nothing was said.
        functional: bool[n], one object at a time.
        closes: bool[n], the fact says that something ended.
    """
    order = np.lexsort((ingested, valid, group))
    wide = (closes & (group == family))[order]
    group, family, object = group[order], family[order], object[order]
    valid, until = valid[order], until[order]
    functional, closes = functional[order], closes[order]

    end = _next(group, np.flatnonzero(closes & (object == 0)), valid)
    np.minimum(end, _next_same(group, object, valid, closes), out=end)
    np.minimum(end, _in_family(family, object, valid, ingested[order], order, wide), out=end)
    begins = np.flatnonzero(~closes & ((until == HOLDS) | (until > valid)))
    other = _next_other(group, object, valid, begins)
    end[begins] = np.where(functional[begins], np.minimum(end[begins], other), end[begins])
    np.minimum(end, np.where(until == HOLDS, _NEVER, until), out=end)
    end[closes] = valid[closes]

    result = np.empty(len(order), np.int64)
    result[order] = np.where(end == _NEVER, HOLDS, end)
    return result


def _next(group: U64, where: npt.NDArray[np.intp], valid: I64) -> I64:
    """`valid` of the first of the rows `where` (ascending) after each row and in its group, or `_NEVER`."""
    at = np.searchsorted(where, np.arange(len(group)), side="right")
    found = np.full(len(group), _NEVER, np.int64)
    has = np.flatnonzero(at < len(where))
    rows = where[at[has]]
    same = group[rows] == group[has]
    found[has[same]] = valid[rows[same]]
    return found


def _next_same(group: U64, object: U64, valid: I64, closes: Bool) -> I64:
    """`valid` of the first later closing of the same object, or `_NEVER`."""
    found = np.full(len(group), _NEVER, np.int64)
    named = np.flatnonzero(closes & (object != 0))
    if not len(named):
        return found
    # Rows of one group and object side by side, still in time order: the next closing there is the one.
    by = np.lexsort((object, group))
    starts = np.ones(len(by), bool)
    starts[1:] = (group[by][1:] != group[by][:-1]) | (object[by][1:] != object[by][:-1])
    run = np.cumsum(starts).astype(np.uint64)
    found[by] = _next(run, np.flatnonzero((closes & (object != 0))[by]), valid[by])
    return found


def _in_family(family: U64, object: U64, valid: I64, ingested: I64, position: npt.NDArray[np.intp], wide: Bool) -> I64:
    """`valid` of the first later closing without a qualifier that names the same object, or `_NEVER`."""
    if not wide.any():
        return np.full(len(family), _NEVER, np.int64)
    by = np.lexsort((position, ingested, valid, family))
    found = np.empty(len(family), np.int64)
    found[by] = _next_same(family[by], object[by], valid[by], wide[by])
    return found


def _next_other(group: U64, object: U64, valid: I64, rows: npt.NDArray[np.intp]) -> I64:
    """For each of `rows` (ascending) `valid` of the first later one of its group with another object, or `_NEVER`."""
    found = np.full(len(rows), _NEVER, np.int64)
    g, o, v = group[rows], object[rows], valid[rows]
    border = np.flatnonzero((g[1:] != g[:-1]) | (o[1:] != o[:-1])) + 1  # starts of runs but the first
    run = np.searchsorted(border, np.arange(len(rows)), side="right")
    has = np.flatnonzero(run < len(border))
    after = border[run[has]]
    same = g[after] == g[has]
    found[has[same]] = v[after[same]]
    return found
