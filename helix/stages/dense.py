"""Stage 3, dense leg: the nearest allowed rows by inner product.

A segment's index gives candidates; a segment without one is scanned. If a filter leaves few rows of the store, every
segment is scanned and the answer is exact. The score is the query in full precision times the int8 codes times their
scale; if the store has float16 vectors, the best are scored again by those. An index's own scores are never used.

On a GPU all rows of a segment are compared with many questions at once. The answer is that of a scan, to the bit.

An engine (`helix.engines`) gives candidates of all segments in place of their indexes, narrowed by the filter. Each row
is checked against the filter here once more, and scored as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from helix.engines.base import FETCHED
from helix.native.vectors import score_vectors
from helix.ranking.topk import select_top
from helix.snapshot.index.flat import MOST
from helix.types import F16, F32, I64, Bool, Leg, Plan
from helix.util.threads import WorkStarter, defer_work

if TYPE_CHECKING:
    from helix.engines.base import Engine
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.snapshot.reader.vectors import VectorBlock


EXACT_ROWS = 16_384
"""Allowed rows up to which all are scored; with more, the index is faster."""

_EXACT = 4  # times k: rows by int8 that are scored again by float16, which moves rows by a few ranks
_FETCHED = 2  # times k: candidates of an engine, whose search is approximate
_SCANNED = 16_384  # allowed rows of a segment whose scan costs no more than its index


def search_dense(vector: F32, snap: Snapshot, plan: Plan, k: int) -> Leg:
    """Find the k nearest allowed rows by inner product, best first; ties keep the smaller id first.

    Under a filter that leaves at most EXACT_ROWS rows the result is exact. A deletion does not count as a filter.

    Raises:
        EngineError: an engine is to give the candidates, and it cannot be used.
    """
    blocks = snap.vectors.blocks
    if blocks and snap.files.engine:
        return _search_engine(vector, snap, snap.files.engine, plan, k)
    if blocks and blocks[0].flat is not None:
        return search_dense_batch(vector[None, :], snap, [plan], k)[0]
    few = plan.allowed is not None and plan.allowed_rows <= EXACT_ROWS
    scan = few and (snap.is_view or plan.allowed_rows < snap.live)
    others = [snap.start_work(_search_block, vector, snap, block, plan, k, scan) for block in blocks[1::2]]
    found = [_search_block(vector, snap, block, plan, k, scan) for block in blocks[::2]]
    return _merge(found + [other() for other in others], snap, k)


def search_dense_batch(vectors: F32, snap: Snapshot, plans: Sequence[Plan], k: int) -> list[Leg]:
    """Find the k nearest allowed rows of each question on a GPU, best first: the legs of a scan, to the bit.

    Args:
        vectors: float32[q, d].
        snap: opened with a GPU.
        plans: one a question.
    """
    found = [_search_flat(vectors, snap, block, plans, k) for block in snap.vectors.blocks]
    return [_merge([block[i] for block in found], snap, k) for i in range(len(plans))]


def _search_engine(vector: F32, snap: Snapshot, engine: Engine, plan: Plan, k: int) -> Leg:
    """Find the k nearest allowed rows among an engine's candidates; if it finds too few, among all allowed rows.

    A row may fail what no condition says: it is superseded, a near-duplicate, or gone since the export.
    """
    if not plan.allowed_rows or k <= 0:
        return Leg("dense", np.empty(0, np.uint32), np.empty(0, np.float32))
    wanted, fetched = min(k, plan.allowed_rows), min(_FETCHED * k, FETCHED)
    while True:
        keys = engine.search(vector, fetched, plan.conditions)
        rows = snap.row_map.by_key(keys)
        rows = np.unique(rows[rows >= 0])
        rows = rows if plan.allowed is None else rows[plan.allowed[rows]]
        if len(rows) >= wanted or len(keys) < fetched or fetched == FETCHED:
            break
        fetched = min(4 * fetched, FETCHED)
    if len(rows) < wanted:
        rows = np.arange(snap.rows) if plan.allowed is None else np.flatnonzero(plan.allowed)
    found = []
    for block in snap.vectors.blocks:
        first, last = np.searchsorted(rows, (block.start, block.start + len(block.codes))).tolist()
        local = rows[first:last] - block.start
        found.append(_rescore(vector, snap, block, local, score(vector, block, local), k))
    return _merge(found, snap, k)


def _merge(found: Sequence[tuple[I64, F32]], snap: Snapshot, k: int) -> Leg:
    """Return the best k of what the segments gave."""
    rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
    scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)])
    best = select_top(scores, snap.columns.key[rows], k)
    return Leg("dense", rows[best].astype(np.uint32), scores[best])


def _search_block(vector: F32, snap: Snapshot, block: VectorBlock, plan: Plan, k: int, scan: bool) -> tuple[I64, F32]:
    """Return candidates of one segment, its k nearest among them, with scores: (int64[m], float32[m])."""
    allowed = None if plan.allowed is None else plan.allowed[block.start : block.start + len(block.codes)]
    left = plan.allowed_rows if len(snap.vectors.blocks) == 1 else None
    rows = candidates(vector, block, allowed, k, scan, left, snap.start_work)
    return _rescore(vector, snap, block, rows, score(vector, block, rows), k)


def _rescore(vector: F32, snap: Snapshot, block: VectorBlock, rows: I64, scores: F32, k: int) -> tuple[I64, F32]:
    """Return rows of the snapshot with their scores; of float16 vectors the best only, scored by those."""
    if block.exact is not None:
        rows = np.sort(rows[select_top(scores, snap.columns.key[block.start + rows], _EXACT * k)])
        scores = exact_score(vector, block.exact, rows)
    return block.start + rows, scores


def _search_flat(
    vectors: F32, snap: Snapshot, block: VectorBlock, plans: Sequence[Plan], k: int
) -> list[tuple[I64, F32]]:
    """Return for each question candidates of one segment, its k nearest among them, with scores.

    The GPU knows no filter: it returns twice the rows that an even spread of the allowed ones needs. If the result
    cannot be proven, it returns MOST rows, and after that, like under a narrow filter, all allowed rows are scanned.
    """
    n, wanted = len(block.codes), k if block.exact is None else _EXACT * k
    allowed = [None if plan.allowed is None else plan.allowed[block.start : block.start + n] for plan in plans]
    left = [n if one is None else int(np.count_nonzero(one)) for one in allowed]
    needed = [ceil(2 * wanted * n / max(one, 1)) for one in left]
    open_ones = [i for i in range(len(plans)) if n > MOST and needed[i] <= min(MOST, left[i])]
    found: dict[int, tuple[I64, F32]] = {}
    for fetched in sorted({max((needed[i] for i in open_ones), default=MOST), MOST}):
        if block.flat is not None and open_ones:
            rows, approximate = block.flat.search(vectors[open_ones], fetched)
            for i, near, last in zip(open_ones, rows, approximate[:, -1], strict=True):
                unseen = float(last) + block.flat.bound_error(vectors[i])
                proven = _prove_nearest(vectors[i], block, near, allowed[i], min(wanted, left[i]), unseen)
                found |= {} if proven is None else {i: proven}
            open_ones = [i for i in open_ones if i not in found]
    for i in range(len(plans)):
        if i not in found:
            rows = candidates(vectors[i], block, allowed[i], k, scan=True, left=left[i])
            found[i] = rows, score(vectors[i], block, rows)
    return [_rescore(vectors[i], snap, block, *found[i], k) for i in range(len(plans))]


def _prove_nearest(
    vector: F32, block: VectorBlock, near: I64, allowed: Bool | None, wanted: int, unseen: float
) -> tuple[I64, F32] | None:
    """Return the allowed rows and their scores, if the `wanted` nearest are certainly among them; None otherwise.

    Args:
        near: rows that the GPU returned, of any order.
        unseen: no other row has a higher score.
    """
    rows = np.sort(near if allowed is None else near[allowed[near]])
    if len(rows) < wanted:
        return None
    scores = score(vector, block, rows)
    is_proven = not wanted or np.partition(scores, -wanted)[-wanted] > unseen
    return (rows, scores) if is_proven else None


def dense_score(vector: F32, snap: Snapshot, row: int) -> float:
    """Return the score of one row, without the float16 vectors."""
    return float((snap.vectors.dequantise(np.array([row])) @ vector)[0])


def candidates(
    vector: F32,
    block: VectorBlock,
    allowed: Bool | None,
    k: int,
    scan: bool = False,
    left: int | None = None,
    start_work: WorkStarter = defer_work,
) -> I64:
    """Return candidates of one segment, ascending, its k best among them: int64[m].

    Args:
        scan: return all allowed rows, also where the segment has an index.
        left: the number of allowed rows, if known.
        start_work: starts half of the work.
    """
    if left is None:
        left = len(block.codes) if allowed is None else int(np.count_nonzero(allowed))
    if block.dense is not None and not scan and (left > _SCANNED or 2 * left > len(block.codes)):
        return np.sort(block.dense.search(vector, k, allowed, left, start_work))
    return np.arange(len(block.codes)) if allowed is None else np.flatnonzero(allowed)


def score(vector: F32, block: VectorBlock, rows: I64) -> F32:
    """Return inner products of rows, ascending: float32[len(rows)]. Equal rows have equal scores, to the bit.

    Raises:
        StoreError: a row is out of range.
    """
    return score_vectors(block.codes, block.scale, rows, np.ascontiguousarray(vector, np.float32))


def exact_score(vector: F32, exact: F16, rows: I64) -> F32:
    """Return inner products with the float16 vectors: float32[len(rows)].

    Args:
        exact: float16[n, d].
    """
    return np.asarray(exact[rows].astype(np.float32) @ vector)
