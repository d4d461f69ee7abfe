"""Stage 7: near-duplicates out, then maximal marginal relevance (Carbonell & Goldstein 1998).

Near means an estimated Jaccard similarity of at least the profile's threshold, from the MinHash signatures (Broder
1997) made at ingest; locality-sensitive hashing in bands finds the pairs to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.membership import is_one_of
from helix.ranking.topk import sort_rows
from helix.snapshot.segment.arrays import BANDS
from helix.types import F32, U32, Candidates

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import DiversifyConstants

_MIX = np.array([pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) for i in range(4)], np.uint64)
"""Hashes a band's values to one number. Pairs with a common number are compared in full, so collisions do no harm."""

_MAX_PRODUCT = 1.02  # of two quantised unit vectors


class LeftOut(NamedTuple):
    """Rows of the pool that were not chosen."""

    near: U32  # near-duplicates of a better row
    of: U32  # that row
    far: U32  # rows that MMR did not choose, although they score as high as the last chosen one
    alike: F32  # their inner product with the nearest chosen one
    sim: F32  # their similarity to the question


def diversify(pool: Candidates, snap: Snapshot, k: int, profile: DiversifyConstants) -> Candidates:
    """Choose the k items to return by MMR; order them by score, best first.

    Of near-duplicates the one of the best score stays. MMR then weighs the score, or `sim` alone.
    """
    score, trade = pool.final, profile.lambda_
    if profile.relevance == "sim":
        rest = np.flatnonzero(find_repeats(snap.row_map.signatures(pool.row), profile.jaccard) < 0)
        rest = rest[sort_rows(pool.sim[rest], snap.columns.key[pool.row[rest]])]
        return pool.take(np.sort(rest[mmr(pool.sim[rest], snap.vectors.dequantise(pool.row[rest]), trade, k)]))
    seen, reach = 0, count_reachable(score, trade, k)
    unique = np.arange(0)
    while seen < reach:  # dropping near-duplicates makes room for lower rows
        seen = reach
        unique = np.flatnonzero(find_repeats(snap.row_map.signatures(pool.row[:seen]), profile.jaccard) < 0)
        left = np.concatenate([score[unique], score[seen:]])
        reach = count_reachable(left, trade, k) + seen - len(unique)
    chosen = unique[mmr(score[unique], snap.vectors.dequantise(pool.row[unique]), trade, k)]
    rows = pool.row[chosen]
    return pool.take(chosen[sort_rows(score[chosen], snap.columns.key[rows])])


def choose_reserve(
    pool: Candidates, chosen: Candidates, snap: Snapshot, most: int, profile: DiversifyConstants
) -> Candidates:
    """Return the best rows that were not chosen, without near-duplicates, so that there are `most` with the chosen."""
    first = pool.row[: 2 * most]
    repeated = find_repeats(snap.row_map.signatures(first), profile.jaccard) >= 0
    free = np.flatnonzero(~repeated & ~is_one_of(first, chosen.row))
    return pool.take(free[: max(0, most - len(chosen))])


def explain_left_out(pool: Candidates, chosen: Candidates, snap: Snapshot, profile: DiversifyConstants) -> LeftOut:
    """Explain why the rest of the pool was not chosen."""
    repeated = find_repeats(snap.row_map.signatures(pool.row), profile.jaccard)
    near = repeated >= 0
    as_good = pool.final >= chosen.final.min(initial=np.inf)
    left = as_good & ~near & ~is_one_of(pool.row, chosen.row)
    passed = pool.row[left]
    alike = (snap.vectors.dequantise(passed) @ snap.vectors.dequantise(chosen.row).T).max(axis=1, initial=-1)
    return LeftOut(pool.row[near], pool.row[repeated[near]], passed, alike, pool.sim[left])


def find_repeats(signatures: U32, threshold: float) -> npt.NDArray[np.intp]:
    """Return the better row that each row nearly repeats, −1 for none: intp[n]. Rows come best first.

    Pairs that agree in a whole band of the signature are compared in full. Most pools have no such pair.
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


def count_reachable(score: F32, trade: float, k: int) -> int:
    """Count the first rows that MMR can choose its k from.

    k rows keep at least λ·score − (1 − λ), so a row whose λ·score is below all of these is never chosen.

    Args:
        score: float32[n], best first.
    """
    if len(score) <= k:
        return len(score)
    least = trade * float(score[k - 1]) - (1 - trade) * _MAX_PRODUCT
    return max(k, int(np.count_nonzero(trade * score >= least)))


def mmr(score: F32, vectors: F32, trade: float, k: int) -> npt.NDArray[np.intp]:
    """Choose greedily by λ·score − (1 − λ)·(largest inner product with a chosen row): intp[≤ k], in order of choice.

    Args:
        score: float32[n], best first, in [0, 1].
        vectors: float32[n, d], unit length.
        trade: λ; 1 is plain ranking.
        k: how many.
    """
    chosen: list[int] = []
    gain = trade * score
    nearest = np.zeros(len(score), np.float32)
    for _ in range(min(k, len(score))):
        best = int((gain - (1 - trade) * nearest).argmax())  # of equals the first, which is the better one
        chosen.append(best)
        gain[best] = -np.inf
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return np.array(chosen, np.intp)
