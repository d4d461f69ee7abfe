"""Stage 7: near-duplicates out, then maximal marginal relevance (Carbonell & Goldstein 1998).

Near means an estimated Jaccard similarity of at least the profile's threshold, from the MinHash signatures (Broder
1997) made at ingest; locality-sensitive hashing in bands finds the pairs to compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.snapshot.arrays import band_keys
from helix.topk import order
from helix.types import F32, U32, Candidates

if TYPE_CHECKING:
    from helix.profiles import Diversify
    from helix.snapshot.reader import Snapshot

_LONGEST = 1.02  # no inner product of two quantised unit vectors is above


class Left(NamedTuple):
    """What was left out."""

    near: U32  # rows that nearly repeat a better one
    of: U32  # which
    far: U32  # rows MMR did not choose, although they score as high as the last it chose
    alike: F32  # their inner product with the nearest chosen one


def diversify(pool: Candidates, snap: Snapshot, k: int, profile: Diversify) -> tuple[Candidates, Left]:
    """The k items to return, best first, and what was left out.

    Which items are returned is MMR's choice; their order is the score's.
    """
    repeated = repeats(snap.signatures(pool.row), profile.jaccard)
    unique = repeated < 0
    kept = pool.take(np.flatnonzero(unique))
    vectors = snap.vectors(kept.row[: within_reach(kept.final, profile.lambda_, k)])
    chosen = mmr(kept.final[: len(vectors)], vectors, profile.lambda_, k)
    out = kept.take(chosen)
    out = out.take(order(out.final, snap.columns.key[out.row]))
    passed = np.setdiff1d(np.flatnonzero(kept.final >= out.final.min(initial=np.inf)), chosen)
    alike = (vectors[passed] @ vectors[chosen].T).max(axis=1, initial=-1)
    return out, Left(pool.row[~unique], pool.row[repeated[~unique]], kept.row[passed], alike)


def repeats(signatures: U32, threshold: float) -> npt.NDArray[np.intp]:
    """intp[n]: the better row of the pool, itself kept, that each nearly repeats; −1 for none. Rows come best first.

    Pairs that agree in one whole band of the signature are compared in full. Most pools have none.
    """
    of = np.full(len(signatures), -1, np.intp)
    keys = band_keys(signatures)
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
    n = len(score)
    chosen: list[int] = []
    nearest = np.zeros(n, np.float32)  # the first choice is by score alone
    left = np.ones(n, bool)
    for _ in range(min(k, n)):
        value: npt.NDArray[Any] = np.where(left, trade * score - (1 - trade) * nearest, -np.inf)
        best = int(value.argmax())  # the first of equals: the better one
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return np.array(chosen, np.intp)
