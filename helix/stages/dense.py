"""Stage 3, dense leg: the nearest allowed rows by inner product.

A segment with an index is asked for its candidates; one without, or one in which few rows are allowed, is scanned. Both
ways the score is the same: the query in full precision times the int8 codes times their scale; where the store keeps
float16 vectors too, the best by that are scored anew by those. An index's own scores are never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from helix.topk import top_k
from helix.types import F32, I64, Bool, Leg, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader import Block, Snapshot

F16 = npt.NDArray[np.float16]

_STEP = 65_536  # rows converted to float32 at a time: 100 MB at 384 dimensions
_EXACT = 4  # best rows by int8, of each wanted, that are scored by float16: it moves rows by a few ranks
_SCANNED = 32_768  # allowed rows of a segment up to which a scan is cheap; it is exact, where an index is not quite


def search_dense(vector: F32, snap: Snapshot, plan: Plan, k: int) -> Leg:
    """The k nearest allowed rows by inner product, best first."""
    found, scored = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for block in snap.blocks:
        allowed = None if plan.allowed is None else plan.allowed[block.start : block.start + len(block.codes)]
        rows = candidates(vector, block, allowed, k)
        scores = score(vector, block, rows)
        if block.exact is not None:
            rows = np.sort(rows[top_k(scores, snap.columns.key[block.start + rows], _EXACT * k)])
            scores = exact_score(vector, block.exact, rows)
        best = top_k(scores, snap.columns.key[block.start + rows], k)
        found.append(block.start + rows[best])
        scored.append(scores[best])
    rows, scores = np.concatenate(found), np.concatenate(scored)
    best = top_k(scores, snap.columns.key[rows], k)
    return Leg("dense", rows[best].astype(np.uint32), scores[best])


def candidates(vector: F32, block: Block, allowed: Bool | None, k: int) -> I64:
    """Rows of one segment, ascending, among which its k best are: int64[m]."""
    n = len(block.codes) if allowed is None else int(np.count_nonzero(allowed))
    if block.dense is not None and (n > _SCANNED or 2 * n > len(block.codes)):
        return np.sort(block.dense.search(vector, k, allowed))
    return np.arange(len(block.codes)) if allowed is None else np.flatnonzero(allowed)


def score(vector: F32, block: Block, rows: I64) -> F32:
    """Inner products of the given rows, ascending: float32[len(rows)]."""
    out = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _STEP):
        part = rows[start : start + _STEP]
        whole = len(part) == part[-1] - part[0] + 1  # contiguous: a view, not a copy
        chosen = slice(part[0], part[-1] + 1) if whole else part
        out[start : start + _STEP] = (block.codes[chosen].astype(np.float32) @ vector) * block.scale[chosen]
    return out


def exact_score(vector: F32, exact: F16, rows: I64) -> F32:
    """Inner products with the vectors as the encoder gave them, but for float16: float32[len(rows)].

    Args:
        exact: float16[n, d].
    """
    return np.asarray(exact[rows].astype(np.float32) @ vector)
