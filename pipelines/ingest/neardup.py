"""Marks near-duplicates among new items: each points at the earliest item it nearly repeats, and none is dropped.

Candidates share a band of their MinHash signatures (Broder 1997; banding as in Leskovec, Rajaraman & Ullman, "Mining of
Massive Datasets", ch. 3); near means an estimated Jaccard similarity of at least 0.8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helix.snapshot.segment.arrays import BANDS, hash_bands, select_alive
from helix.snapshot.segment.open import OpenSegment
from helix.types import I64, U32, U64, Bool

NEAR = 0.8
_FIRST = 8  # live entries of a band that are compared, earliest first: boilerplate repeats thousands of times
_DEAD = 4  # times as many entries are read at most: compaction rewrites segments with a quarter of dead rows


def mark_near_duplicates(keys: U64, signatures: U32, segments: Sequence[OpenSegment], alive: Sequence[Bool]) -> U64:
    """Return the key of each new item's earliest near-duplicate, 0 for none: uint64[n].

    Args:
        keys: uint64[n] ids of the new items.
        signatures: uint32[n, 64].
        segments: the published segments, oldest first.
        alive: the live rows of each segment, bool[rows].
    """
    n = len(keys)
    out = np.zeros(n, np.uint64)
    bands = hash_bands(signatures)
    for segment, live in zip(segments, alive, strict=True):
        todo = np.flatnonzero(out == 0)
        row, at = _find_shared(bands[:, todo], segment["bands.key"], segment["bands.row"], live)
        here = segment.column("key")[row] != keys[todo[at]]  # a changed item does not repeat itself
        _set_first(out, todo[at[here]], segment["minhash"], row[here], segment.column("key"), signatures)
    order = np.argsort(bands, axis=1, kind="stable")
    row, at = _find_shared(bands, np.take_along_axis(bands, order, axis=1), order.astype(np.uint32), np.ones(n, bool))
    earlier = (row < at) & (keys[row] != keys[at]) & (out[at] == 0)
    _set_first(out, at[earlier], signatures, row[earlier], keys, signatures)
    return out


def _find_shared(bands: U32, key: U32, rows: U32, live: Bool) -> tuple[I64, I64]:
    """Return (row, position in `bands`) of the first live entries that share a band with each new item."""
    found, at = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for band in range(BANDS):
        low = np.searchsorted(key[band], bands[band])
        seen = np.zeros(bands.shape[1], np.int64)
        for step in range(_DEAD * _FIRST):
            place = low + step
            inside = np.flatnonzero((place < key.shape[1]) & (seen < _FIRST))
            inside = inside[key[band][place[inside]] == bands[band][inside]]
            if not len(inside):
                break
            row = rows[band][place[inside]].astype(np.int64)
            here = select_alive(live, row)
            seen[inside] += here
            found.append(row[here])
            at.append(inside[here])
    pairs = np.unique(np.stack([np.concatenate(at), np.concatenate(found)]), axis=1)
    return pairs[1], pairs[0]


def _set_first(out: U64, at: I64, theirs: U32, row: I64, keys: U64, ours: U32) -> None:
    """Point each item at the first of its rows, ascending, that is near enough."""
    near = np.mean(ours[at] == theirs[row], axis=1) >= NEAR if len(at) else np.zeros(0, bool)
    items, first = np.unique(at[near], return_index=True)
    out[items] = keys[row[near][first]]
