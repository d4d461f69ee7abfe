"""Stage 3, dense leg: the nearest allowed rows by inner product.

A segment with an index is asked for its candidates; one without is scanned, and so is every segment where a filter
leaves few rows of the whole store: then the answer is exact. Both ways the score is the same: the query in full
precision times the int8 codes times their scale; where the store keeps float16 vectors too, the best by that are scored
anew by those. An index's own scores are never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from helix.native.vectors import score_vectors
from helix.ranking.topk import select_top
from helix.types import F32, I64, Bool, Leg, Plan
from helix.util.threads import WorkStarter, defer_work

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.snapshot.reader.vectors import Block

F16 = npt.NDArray[np.float16]

EXACT_ROWS = 16_384
"""Rows a filter may leave for all of them to be scored: more are found faster in the index."""

_EXACT = 4  # best rows by int8, of each wanted, that are scored by float16: it moves rows by a few ranks
_SCANNED = 16_384  # allowed rows of a segment whose scan costs no more than its index, whatever the rest of the store


def search_dense(vector: F32, snap: Snapshot, plan: Plan, k: int) -> Leg:
    """The k nearest allowed rows by inner product, best first, ties to the smaller id.

    Under a filter that leaves at most EXACT_ROWS rows these are the nearest of all allowed ones. A deletion is none.
    """
    few = plan.allowed is not None and plan.allowed_rows <= EXACT_ROWS
    scan = few and (snap.is_view or plan.allowed_rows < snap.live)
    others = [snap.start_work(_of_block, vector, snap, block, plan, k, scan) for block in snap.vectors.blocks[1::2]]
    found = [_of_block(vector, snap, block, plan, k, scan) for block in snap.vectors.blocks[::2]]
    found += [other() for other in others]
    rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
    scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)])
    best = select_top(scores, snap.columns.key[rows], k)
    return Leg("dense", rows[best].astype(np.uint32), scores[best])


def _of_block(vector: F32, snap: Snapshot, block: Block, plan: Plan, k: int, scan: bool) -> tuple[I64, F32]:
    """Rows of one segment, among which its k nearest are, and their scores: (int64[m], float32[m])."""
    allowed = None if plan.allowed is None else plan.allowed[block.start : block.start + len(block.codes)]
    left = plan.allowed_rows if len(snap.vectors.blocks) == 1 else None
    rows = candidates(vector, block, allowed, k, scan, left, snap.start_work)
    scores = score(vector, block, rows)
    if block.exact is not None:
        rows = np.sort(rows[select_top(scores, snap.columns.key[block.start + rows], _EXACT * k)])
        scores = exact_score(vector, block.exact, rows)
    return block.start + rows, scores


def dense_score(vector: F32, snap: Snapshot, row: int) -> float:
    """What the search gives one row, but for half precision."""
    return float((snap.vectors.dequantise(np.array([row])) @ vector)[0])


def candidates(
    vector: F32,
    block: Block,
    allowed: Bool | None,
    k: int,
    scan: bool = False,
    left: int | None = None,
    start_work: WorkStarter = defer_work,
) -> I64:
    """Rows of one segment, ascending, among which its k best are: int64[m].

    Args:
        scan: all that are allowed, whether there is an index or not.
        left: how many are, where that is known.
        start_work: how half of the work is done.
    """
    if left is None:
        left = len(block.codes) if allowed is None else int(np.count_nonzero(allowed))
    if block.dense is not None and not scan and (left > _SCANNED or 2 * left > len(block.codes)):
        return np.sort(block.dense.search(vector, k, allowed, left, start_work))
    return np.arange(len(block.codes)) if allowed is None else np.flatnonzero(allowed)


def score(vector: F32, block: Block, rows: I64) -> F32:
    """Inner products of the given rows, ascending: float32[len(rows)]. Equal rows have equal scores, to the bit.

    Raises:
        StoreError: there is no such row.
    """
    return score_vectors(block.codes, block.scale, rows, np.ascontiguousarray(vector, np.float32))


def exact_score(vector: F32, exact: F16, rows: I64) -> F32:
    """Inner products with the vectors as the encoder gave them, but for float16: float32[len(rows)].

    Args:
        exact: float16[n, d].
    """
    return np.asarray(exact[rows].astype(np.float32) @ vector)
