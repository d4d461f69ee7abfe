"""Lexical features of stage 6: BM25 of items, of the turns before them and of windows, and adjacent words.

It reads the items' own lists of terms, once, not the postings: the cost depends on the pool, not on document
frequencies.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.native.rows import find_distinct, list_neighbours
from helix.native.terms import score_joined
from helix.ranking.bm25 import compute_idf
from helix.types import F32, I64, U64

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import HelixProfile

_FIELDS = (1.2, 0.75)  # k1, b of the window and of adjacent words
_NONE = np.full(1, -1, np.int64)
RARE = 4
"""Power of idf / (idf at df 1): an identifier counts, a word of a hundredth of the items does not."""


class TermCounts(NamedTuple):
    """Term counts in a pool of n items and in two turns on either side of each."""

    rows: I64  # int64[u], distinct; the first is −1 and has no terms
    ring: I64  # int64[5, n]: positions in `rows` of two turns before, one before, the item, one after, two after
    df: I64  # int64[t]: items that hold each term
    weight: F32  # float32[t]: idf of each term; 0 if no item has it
    counts: F32  # float32[t, u]: of each term in each row
    pairs: I64  # int64[2, p]: positions of terms that are adjacent in the question
    follows: F32  # float32[p, u]: of each pair in each row


class LexicalFeatures(NamedTuple):
    """BM25 features of the pool: float32[n] each."""

    own: F32
    before: F32  # of the turn before
    window: F32  # of the item and two turns on either side
    rare: F32  # rarity of the question's rarest term in the row, see RARE


def count_terms(rows: I64, terms: U64, ordered: U64, snap: Snapshot, weights: F32 | None = None) -> TermCounts:
    """Count terms in rows and in the turns around them.

    Args:
        rows: int64[n], of the pool.
        terms: ascending.
        ordered: the same in reading order, with repeats.
        weights: float32[t], factors of the terms' idf; None: all 1.
    """
    ring = list_neighbours(snap.columns.previous, snap.columns.next, rows)
    unique, place = find_distinct(np.concatenate([_NONE, ring.ravel()]))
    df = np.array([snap.lexical.df(term) for term in terms], np.int64)
    weight = np.where(df > 0, compute_idf(df, snap.live), np.float32(0))
    weight = weight if weights is None else weight * weights
    order = terms.searchsorted(ordered).tolist()
    follow = [pair for pair in dict.fromkeys(pairwise(order)) if pair[0] != pair[1]]
    pairs = np.array(follow, np.int64).reshape(-1, 2).T.copy()
    counts = np.zeros((len(terms), len(unique)), np.float32)
    follows = np.zeros((len(follow), len(unique)), np.float32)
    counts[:, 1:], follows[:, 1:] = snap.lexical.occurrences(unique[1:], terms, pairs)
    return TermCounts(unique, place[1:].reshape(ring.shape), df, weight, counts, pairs, follows)


def score_lexical(found: TermCounts, snap: Snapshot, how: HelixProfile) -> LexicalFeatures:
    """Return the BM25 features of the pool."""
    ring, weight, item = found.ring, found.weight, found.ring[2]
    length = row_lengths(found, snap)
    k1, b = how.retrieve.k1, how.retrieve.b
    near = ring[1:3].reshape(1, -1)  # the turn before, and the item
    before, own = score_joined(found.counts, near, weight, length, snap.lexical.mean_length, k1, b).reshape(2, -1)
    window = score_joined(found.counts, ring, weight, length, snap.lexical.mean_window_length, *_FIELDS)
    rarity = ((weight / compute_idf(1, snap.live)) ** RARE).astype(np.float32)
    rare = ((found.counts.take(item, axis=1) > 0) * rarity[:, None]).max(axis=0, initial=0)
    return LexicalFeatures(own, before, window, rare)


def row_lengths(found: TermCounts, snap: Snapshot) -> F32:
    """Return the number of terms of each row: float32[u]."""
    length = snap.columns.length[found.rows]
    length[0] = 0
    return length


def score_adjacent(found: TermCounts, snap: Snapshot) -> F32:
    """Return BM25 of pairs of terms adjacent in the question and in the item: float32[n]; a pair weighs both idf.

    The ordered part of the sequential dependence model (Metzler & Croft 2005).
    """
    weight = found.weight[found.pairs[0]] + found.weight[found.pairs[1]]
    lengths, mean = row_lengths(found, snap), snap.lexical.mean_length
    return score_joined(found.follows, found.ring[2:3], weight, lengths, mean, *_FIELDS)
