"""Stage 2, where a profile says so: what the question hints at filters both legs, instead of a boost in stage 6.

The filters of the caller come first. A hint that would leave fewer than k rows is dropped, and so is an unsure one:
then the legs search as if the question did not hint at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.types import F32, TYPES, Bool, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import RouteConstants


class Hint(NamedTuple):
    """The outcome of one hint; `off` says why it does not filter, empty if it does."""

    name: str
    rows_in: int
    rows_out: int
    off: str = ""


def apply_hints(plan: Plan, query: Query, snap: Snapshot, how: RouteConstants) -> tuple[Plan, list[Hint]]:
    """Filter the rows of a plan by project, days and type, in this order; return also what became of each hint."""
    allowed, count, hints = plan.allowed, plan.allowed_rows, list[Hint]()
    for name, rows, unsure in _list_hints(plan, query, snap, how):
        if rows is None:
            hints.append(Hint(name, count, count, unsure))
            continue
        left = rows & (snap.alive if allowed is None else allowed)
        n = int(np.count_nonzero(left))
        if n < query.k:
            hints.append(Hint(name, count, count, f"{n} rows would be left, fewer than k = {query.k}"))
        else:
            hints.append(Hint(name, count, n))
            allowed, count = left, n
    return replace(plan, allowed=None if count == snap.rows else allowed, allowed_rows=count), hints


def _list_hints(
    plan: Plan, query: Query, snap: Snapshot, how: RouteConstants
) -> Iterator[tuple[str, Bool | None, str]]:
    """Yield (description, bool[rows], why it is not sure enough: then without rows)."""
    columns = snap.columns
    if plan.projects:
        names = " and ".join(f"project {snap.projects[code]}" for code in plan.projects)
        one = len(plan.projects) == 1
        yield names, columns.project == plan.projects[0] if one else None, "" if one else "it names several"
    if plan.days:
        named = [(first, last) for first, last, weight in plan.days if weight >= how.days]
        rows = [(columns.time >= first) & (columns.time <= last) for first, last in named]
        off = "" if rows else f"no window is as sure as {how.days:g}"
        yield "the days named", np.logical_or.reduce(rows) if rows else None, off
    if plan.type_scores is not None and query.type is None:
        kind, off = int(plan.type_scores.argmax()), _explain_unsure(plan.type_scores, snap, how)
        yield f"type {TYPES[kind]}", None if off else columns.type == kind, off


def _explain_unsure(scores: F32, snap: Snapshot, how: RouteConstants) -> str:
    """Explain why the type of the nearest centroid is not sure; empty if it is."""
    second, first = np.partition(scores, -2)[-2:].tolist()
    if first - second < how.type_lead:
        return f"it leads by {first - second:.3f}, less than {how.type_lead:g}"
    items = np.bincount(snap.columns.type[snap.alive], minlength=len(TYPES))
    few = [f"{name} has {n}" for name, n in zip(TYPES, items.tolist(), strict=True) if 0 < n < how.type_items]
    return f"too few items for a centroid: {', '.join(few)}, of {how.type_items} at least" if few else ""
