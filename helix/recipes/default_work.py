"""Rows that answer a question about work, put first in the pool of the recipe `helix`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from helix.recipes.common import JudgedRows
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.relevance import find_least
from helix.types import U32, Candidates, Plan, Query
from helix.work.ask import READ, FoundWork, find_work


def look_up_work(query: Query, snap: Snapshot, plan: Plan, pool: Candidates) -> list[FoundWork]:
    """Return the rows that answer a question about work, among those that may be searched."""
    return find_work(query.text, snap, plan.allowed, pool.row[:READ].tolist())


def put_first(pool: Candidates, found: Sequence[FoundWork]) -> Candidates:
    """Return the pool with some rows first, in their order; their scores are just above the best one's."""
    if not found:
        return pool
    rows = np.array([one.row for one in found], np.uint32)
    pool = pool.append(rows[~np.isin(rows, pool.row)])
    place = {int(row): at for at, row in enumerate(pool.row.tolist())}
    first = np.array([place[int(row)] for row in rows], np.int64)
    top = float(np.nanmax(pool.final)) if not np.isnan(pool.final).all() else 0.0
    final = np.nan_to_num(pool.final, nan=0.0)
    final[first] = top + 1e-4 * np.arange(len(first), 0, -1)
    rest = np.setdiff1d(np.arange(len(pool)), first, assume_unique=True)
    return replace(pool, final=final.astype(np.float32)).take(np.concatenate([first, rest]))


def judge_work(judged: JudgedRows, rows: U32, found: Sequence[FoundWork], query: Query) -> JudgedRows:
    """Return the relevance of rows, with that of rows that answer a question about work.

    Args:
        rows: uint32[n], those that were judged.
    """
    if not found:
        return judged
    certain = {one.row: one.relevance for one in found}
    known = np.array([certain.get(int(row), 0.0) for row in rows], np.float32)
    relevance = np.maximum(judged.relevance, known)
    kept = sorted({*judged.kept, *np.flatnonzero(known >= find_least(query.min_relevance)).tolist()})
    return JudgedRows(relevance, max(judged.answered, round(float(known.max(initial=0.0)), 4)), kept)
