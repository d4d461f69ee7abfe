"""Stage 7: near-duplicates out, then maximal marginal relevance (Carbonell & Goldstein 1998).

Near means an estimated Jaccard similarity of at least the profile's threshold, from the MinHash signatures (Broder
1997) made at ingest; locality-sensitive hashing in bands finds the pairs to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.topk import sort_rows
from helix.snapshot.segment.arrays import BANDS
from helix.types import F32, U32, Candidates

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import DiversifyConstants

_MIX = np.array([pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i in range(4)], np.uint64)
"""Makes one number of a band's values. Pairs that have it in common are compared in full: a chance does no harm."""

_LONGEST = 1.02  # no inner product of two quantised unit vectors is above


class Left(NamedTuple):
    """What was left out."""

    near: U32  # rows that nearly repeat a better one
    of: U32  # which
    far: U32  # rows MMR did not choose, although they score as high as the last it chose
    alike: F32  # their inner product with the nearest chosen one


def diversify(pool: Candidates, snap: Snapshot, k: int, profile: DiversifyConstants) -> Candidates:
    """The k items to return, best first.

    Which items are returned is MMR's choice; their order is the score's.
    """
    score, trade = pool.final, profile.lambda_
    seen, reach = 0, within_reach(score, trade, k)
    kept = np.arange(0)
    while seen < reach:  # what is left out makes room for what is further down
        seen = reach
        unique = repeats(snap.row_map.signatures(pool.row[:seen]), profile.jaccard) < 0
        kept = unique.nonzero()[0]
        left = np.concatenate([score[kept], score[seen:]])
        reach = within_reach(left, trade, k) + seen - len(kept)
    chosen = kept[mmr(score[kept], snap.vectors.dequantise(pool.row[kept]), trade, k)]
    rows = pool.row[chosen]
    return pool.take(chosen[sort_rows(score[chosen], snap.columns.key[rows])])


def left_out(pool: Candidates, chosen: Candidates, snap: Snapshot, profile: DiversifyConstants) -> Left:
    """Why the rest of the pool is not among the chosen: for the explanation."""
    repeated = repeats(snap.row_map.signatures(pool.row), profile.jaccard)
    near = repeated >= 0
    as_good = pool.final >= chosen.final.min(initial=np.inf)
    passed = pool.row[as_good & ~near & ~np.isin(pool.row, chosen.row)]
    alike = (snap.vectors.dequantise(passed) @ snap.vectors.dequantise(chosen.row).T).max(axis=1, initial=-1)
    return Left(pool.row[near], pool.row[repeated[near]], passed, alike)


def repeats(signatures: U32, threshold: float) -> npt.NDArray[np.intp]:
    """intp[n]: the better row of the pool, itself kept, that each nearly repeats; −1 for none. Rows come best first.

    Pairs that agree in one whole band of the signature are compared in full. Most pools have none.
    """
    of = np.full(len(signatures), -1, np.intp)
    keys = (signatures.reshape(len(signatures), BANDS, len(_MIX)) @ _MIX).T
    ordered = np.sort(keys, axis=1)
    again = ordered[:, 1:] == ordered[:, :-1]
    if not again.any():
        return of
    band, at = again.nonzero()
    rows = (keys[band] == ordered[band, at][:, None]).any(axis=0).nonzero()[0]
    alike = np.zeros((len(rows), len(rows)), bool)
    for band in keys[:, rows]:
        alike |= band[:, None] == band[None, :]
    better, worse = (rows[at] for at in np.nonzero(np.triu(alike, 1)))
    near = (signatures[better] == signatures[worse]).mean(axis=1) >= threshold
    for high, low in zip(better[near].tolist(), worse[near].tolist(), strict=True):  # near pairs only, best first
        if of[high] < 0 and of[low] < 0:
            of[low] = high
    return of


def within_reach(score: F32, trade: float, k: int) -> int:
    """How many of the first MMR can choose its k from: k rows keep λ·score − (1 − λ) at least, so one whose λ·score is
    below that of all of them is never chosen.

    Args:
        score: float32[n], best first.
    """
    if len(score) <= k:
        return len(score)
    least = trade * float(score[k - 1]) - (1 - trade) * _LONGEST
    return max(k, int(np.count_nonzero(trade * score >= least)))


def mmr(score: F32, vectors: F32, trade: float, k: int) -> npt.NDArray[np.intp]:
    """Greedy argmax of λ·score − (1 − λ)·(largest inner product with what is chosen): intp[≤ k], in order of choice.

    Args:
        score: float32[n], best first, in [0, 1].
        vectors: float32[n, d], unit length.
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    chosen: list[int] = []
    gain = trade * score
    nearest = np.zeros(len(score), np.float32)  # the first choice is by score alone
    for _ in range(min(k, len(score))):
        best = int((gain - (1 - trade) * nearest).argmax())  # the first of equals: the better one
        chosen.append(best)
        gain[best] = -np.inf
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return np.array(chosen, np.intp)
