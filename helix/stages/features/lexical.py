"""BM25 of the pool, of the turns before its items and of the windows around them, and adjacent words, for stage 6.

The items' own lists of terms are read, once, and not the postings: what it costs hangs on the pool and not on how many
items hold a term.
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
"""Power of idf / (idf of a term that one item holds): an identifier counts, a word that a hundredth holds does not."""


class Heard(NamedTuple):
    """How often terms occur in a pool of n items and in the two turns to either side of each."""

    rows: I64  # int64[u], different ones; the first is −1 and has no terms
    ring: I64  # int64[5, n]: places in `rows` of two turns before, one before, the item, one after, two after
    weight: F32  # float32[t]: idf of each term; 0 where no item has it
    counts: F32  # float32[t, u]: how often a row has it
    pairs: I64  # int64[2, p]: of terms that follow each other in the question, by position
    follows: F32  # float32[p, u]: how often they do in a row


class Lexical(NamedTuple):
    """BM25 over the pool: float32[n] each."""

    own: F32
    before: F32  # of the turn before
    window: F32  # of the item and two turns to either side
    rare: F32  # how rare the rarest term is that the row has of the question, see RARE


def hear(rows: I64, terms: U64, said: U64, snap: Snapshot) -> Heard:
    """Read the rows and the turns around them.

    Args:
        rows: int64[n], of the pool.
        terms: ascending.
        said: the same in reading order, with repeats.
    """
    ring = list_neighbours(snap.columns.previous, snap.columns.next, rows)
    there, place = find_distinct(np.concatenate([_NONE, ring.ravel()]))
    df = np.array([snap.lexical.df(term) for term in terms], np.int64)
    weight = np.where(df > 0, compute_idf(df, snap.live), np.float32(0))
    order = terms.searchsorted(said).tolist()
    follow = [pair for pair in dict.fromkeys(pairwise(order)) if pair[0] != pair[1]]
    pairs = np.array(follow, np.int64).reshape(-1, 2).T.copy()
    counts = np.zeros((len(terms), len(there)), np.float32)
    follows = np.zeros((len(follow), len(there)), np.float32)
    counts[:, 1:], follows[:, 1:] = snap.lexical.occurrences(there[1:], terms, pairs)
    return Heard(there, place[1:].reshape(ring.shape), weight, counts, pairs, follows)


def lexical(heard: Heard, snap: Snapshot, how: HelixProfile) -> Lexical:
    """BM25 of the pool, of the turns before it and of the windows around it; the rarest term each item has."""
    ring, weight, item = heard.ring, heard.weight, heard.ring[2]
    length = lengths(heard, snap)
    k1, b = how.retrieve.k1, how.retrieve.b
    near = ring[1:3].reshape(1, -1)  # the turn before, and the item
    before, own = score_joined(heard.counts, near, weight, length, snap.lexical.mean_length, k1, b).reshape(2, -1)
    window = score_joined(heard.counts, ring, weight, length, snap.lexical.mean_window_length, *_FIELDS)
    rarity = ((weight / compute_idf(1, snap.live)) ** RARE).astype(np.float32)
    rare = ((heard.counts.take(item, axis=1) > 0) * rarity[:, None]).max(axis=0, initial=0)
    return Lexical(own, before, window, rare)


def lengths(heard: Heard, snap: Snapshot) -> F32:
    """float32[u]: terms of each row."""
    length = snap.columns.length[heard.rows]
    length[0] = 0
    return length


def adjacent(heard: Heard, snap: Snapshot) -> F32:
    """BM25 of pairs of terms that follow each other in the question and in the item; a pair weighs both idf.

    The ordered part of the sequential dependence model (Metzler & Croft 2005).

    Returns:
        float32[n].
    """
    weight = heard.weight[heard.pairs[0]] + heard.weight[heard.pairs[1]]
    return score_joined(
        heard.follows, heard.ring[2:3], weight, lengths(heard, snap), snap.lexical.mean_length, *_FIELDS
    )
