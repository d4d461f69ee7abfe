"""Of the recipe `helix`: questions that many turns answer, and the user's rules, which no ranking finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from helix.ranking.membership import is_one_of
from helix.ranking.topk import sort_rows
from helix.recipes.common import JudgedRows
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.cover import Covered, cover
from helix.text.asks import WIDE
from helix.text.reading import read_kind
from helix.types import I64, ROLES, U32, Candidates, Plan, Query
from helix.work.standing import Standing

COVERED: Final = ("summary", "about")
"""Extents of questions that whole stretches of talk answer."""

HELPS: Final = 0.05
"""Least relevance of an item that is counted."""

_USER: Final = ROLES.index("user")


class CoverageCounts(NamedTuple):
    """How much a question of many turns bears on."""

    extent: str
    turns: int
    sessions: int


def widen(pool: Candidates, snap: Snapshot, plan: Plan, profile: HelixProfile) -> Covered:
    """Return the pool in the order that a question of its extent needs; of other questions as it is."""
    if plan.extent in COVERED and profile.cover.top:
        return cover(pool, snap, plan, profile.cover)
    if plan.extent == "order" and plan.asker_speaks and profile.cover.top:
        pool = _put_asker_first(pool, snap)
    return leave(pool)


def leave(pool: Candidates) -> Covered:
    """Return a pool as it is."""
    return Covered(pool, np.empty(0, np.int64))


def describe_coverage(
    covered: Covered, judged: JudgedRows, rows: U32, snap: Snapshot, plan: Plan, profile: HelixProfile
) -> CoverageCounts | None:
    """Count the turns and sessions that a question of many turns bears on; None for another, or where nothing helps.

    Args:
        rows: uint32[n], those that were judged.
    """
    if plan.extent not in WIDE or not profile.pack.wide_items or not judged.kept:
        return None
    found = covered.bearing if len(covered.bearing) else rows[judged.relevance >= HELPS].astype(np.int64)
    if not len(found):
        return None
    columns = snap.columns
    keys = (columns.session[found].astype(np.int64) << 32) + columns.ord[found]
    return CoverageCounts(plan.extent, len(np.unique(keys)), len(np.unique(columns.session[found])))


def _put_asker_first(pool: Candidates, snap: Snapshot) -> Candidates:
    """Put the user's own turns first: "the order in which I brought up …" is about those alone."""
    others = snap.columns.role[pool.row] != _USER
    final = np.where(others, pool.final - (np.ptp(pool.final) + 1), pool.final) if others.any() else pool.final
    pool = replace(pool, final=final.astype(np.float32))
    return pool.take(sort_rows(pool.final, snap.columns.key[pool.row]))


def keep_covered(judged: JudgedRows, rows: U32, covered: Covered) -> JudgedRows:
    """Keep the rows that a question bears on, where the answer helps: most turns of a stretch say little alone.

    Args:
        rows: uint32[n], those that were judged.
    """
    if not len(covered.bearing) or not judged.kept:
        return judged
    return judged._replace(kept=np.flatnonzero(is_one_of(rows, covered.bearing)).tolist())


def put_rules_last(chosen: Candidates, pool: Candidates, rules: Standing, query: Query, plan: Plan) -> Candidates:
    """Give rules the last of the k places, at most half of them; their scores become that of the item before them.

    All bear on a question for advice; on one for what holds now the nearest instruction, as "with the time zone".

    Args:
        chosen: best first; rules among them stay where they are.
    """
    bearing = rules.rows if plan.advice else rules.instructions[:1]
    if not plan.advice and (plan.extent or read_kind(query.text, query.language) != "now"):
        return chosen
    k = query.k
    new = bearing[~is_one_of(bearing, chosen.row)][: k // 2]
    if not len(new):
        return chosen
    head = chosen.take(np.arange(min(len(chosen), k - len(new))))
    return _append(head, pool, new)


def add_rules(chosen: Candidates, pool: Candidates, rules: Standing) -> Candidates:
    """Return the chosen items and the rules that are not among them."""
    return _append(chosen, pool, rules.rows[~is_one_of(rules.rows, chosen.row)])


def _append(chosen: Candidates, pool: Candidates, rows: I64) -> Candidates:
    """Append rows of the snapshot with what the pool knows of them; no score is above the last one's."""
    if not len(rows):
        return chosen
    is_known = is_one_of(rows, pool.row)
    place = np.argsort(pool.row, kind="stable")
    found = pool.take(place[np.searchsorted(pool.row, rows[is_known], sorter=place)])
    new = found.append(rows[~is_known])
    last = chosen.final[-1] if len(chosen) else np.float32(0)
    return chosen.join(replace(new, final=np.minimum.accumulate(np.fmin(new.final, last))))
