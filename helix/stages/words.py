"""BM25 of the pool, of the turns before its items and of the windows around them, and adjacent words, for stage 6.

The items' own lists of terms are read, once, and not the postings: what it costs hangs on the pool and not on how many
items hold a term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.bm25 import idf, saturate
from helix.types import F32, I64, U64

if TYPE_CHECKING:
    from helix.profiles import Profile
    from helix.snapshot.reader import Snapshot

_FIELDS = (1.2, 0.75)  # k1, b of the window and of adjacent words
RARE = 4
"""Power of idf / (idf of a term that one item holds): an identifier counts, a word that a hundredth holds does not."""


class Heard(NamedTuple):
    """Where terms occur in a pool of n items and in the two turns to either side of each."""

    terms: U64  # ascending
    rows: I64  # int64[u], ascending; the first is −1 and has no terms
    ring: I64  # int64[5, n]: places in `rows` of two turns before, one before, the item, one after, two after
    at: I64  # int64[h]: place in `rows` of each occurrence
    term: I64  # int64[h]: place in `terms`
    place: I64  # int64[h]: where in the row; neighbours in reading order differ by one


class Lexical(NamedTuple):
    """BM25 over the pool: float32[n] each."""

    own: F32
    before: F32  # of the turn before
    window: F32  # of the item and two turns to either side
    rare: F32  # how rare the rarest term is that the row has of the question, see RARE


def hear(rows: I64, terms: U64, snap: Snapshot) -> Heard:
    """Read the rows and the turns around them.

    Args:
        rows: int64[n], of the pool.
        terms: ascending.
    """
    before, after = step(rows, snap.columns.previous), step(rows, snap.columns.next)
    ring = np.stack([step(before, snap.columns.previous), before, rows, after, step(after, snap.columns.next)])
    distinct, place = np.unique(np.append(np.int64(-1), ring), return_inverse=True)
    at, term, where = snap.occurrences(distinct[1:], terms)
    return Heard(terms, distinct, place[1:].reshape(ring.shape), at + 1, term, where)


def step(rows: I64, link: npt.NDArray[np.int32]) -> I64:
    """The row each one is linked to; −1 stays −1."""
    return np.where(rows >= 0, link[rows], np.int64(-1))


def lexical(heard: Heard, snap: Snapshot, how: Profile) -> Lexical:
    """BM25 of the pool, of the turns before it and of the windows around it; the rarest term each item has."""
    rows, ring = heard.rows, heard.ring
    length = np.where(rows >= 0, snap.columns.length[rows], 0).astype(np.float32)
    counts = np.bincount(heard.term * len(rows) + heard.at, minlength=len(heard.terms) * len(rows))
    tf = counts.reshape(len(heard.terms), len(rows)).astype(np.float32)
    df = np.array([snap.df(term) for term in heard.terms], np.int64)
    weight = np.where(df > 0, idf(df, snap.live), np.float32(0))[:, None]
    near, k1, b = ring[1:3].ravel(), how.retrieve.k1, how.retrieve.b  # the turn before, and the item
    own = (weight * saturate(tf[:, near], length[near], snap.mean_length, k1, b)).sum(axis=0).reshape(2, -1)
    said, around = tf[:, ring].sum(axis=1), length[ring].sum(axis=0)
    window = (weight * saturate(said, around, snap.mean_window_length, *_FIELDS)).sum(axis=0)
    rarity = ((weight / idf(1, snap.live)) ** RARE).astype(np.float32)
    rare = np.where(tf[:, ring[2]] > 0, rarity, np.float32(0)).max(axis=0, initial=0)
    return Lexical(own[1], own[0], window, rare)


def adjacent(heard: Heard, said: U64, snap: Snapshot) -> F32:
    """BM25 of pairs of terms that follow each other in the question and in the item; a pair weighs both idf.

    The ordered part of the sequential dependence model (Metzler & Croft 2005).

    Args:
        said: the question's terms in reading order.

    Returns:
        float32[n].
    """
    n, item = len(heard.rows), heard.ring[2]
    score, length = np.zeros(len(item), np.float32), snap.columns.length[heard.rows[item]]
    follows = (heard.at[1:] == heard.at[:-1]) & (heard.place[1:] == heard.place[:-1] + 1)
    at = heard.at[1:][follows]
    code = (heard.term[:-1] * len(heard.terms) + heard.term[1:])[follows]
    order = heard.terms.searchsorted(said)
    for left, right in dict.fromkeys(zip(order[:-1].tolist(), order[1:].tolist(), strict=True)):
        found = at[code == left * len(heard.terms) + right]
        if left != right and len(found):
            count = np.bincount(found, minlength=n)[item].astype(np.float32)
            weight = sum(idf(snap.df(heard.terms[term]), snap.live) for term in (left, right))
            score += weight * saturate(count, length, snap.mean_length, *_FIELDS)
    return score
