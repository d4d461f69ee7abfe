"""Counts of terms and term pairs in rows of one segment, read from the rows' term lists."""

from __future__ import annotations

import numpy as np

from helix.native.terms import count_terms
from helix.snapshot.segment.open import OpenSegment
from helix.text.tokenize import shorten_ids
from helix.types import F32, I64, U64

_HIGH = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def count_occurrences(segment: OpenSegment, rows: I64, terms: U64, pairs: I64) -> tuple[F32, F32]:
    """Count terms, and pairs of adjacent terms, in the rows.

    Lists hold short ids of terms. The postings are read for a term that shares its short id with another one, and for
    segments without lists, which an earlier release wrote. Postings do not count pairs.

    Args:
        rows: int64[n], of the segment.
        terms: uint64[t].
        pairs: int64[2, p], of positions in `terms`.

    Returns:
        (counts of terms float32[t, n], of pairs float32[p, n]).
    """
    keys, short = segment["terms.key"], shorten_ids(terms)
    count = np.zeros((len(terms), len(rows)), np.float32)
    follows = np.zeros((pairs.shape[1], len(rows)), np.float32)
    first = terms >> _HIGH << _HIGH
    low, high = keys.searchsorted(first), keys.searchsorted(first | _LOW, "right")  # terms with that short id
    alone = high == low + 1
    alone[alone] = keys[low[alone]] == terms[alone]
    alone &= len(segment["order.term"]) > 0
    chosen = alone.nonzero()[0]
    indptr, order = segment["order.indptr"], segment["order.term"]
    count_terms(indptr, order, rows, short[chosen], chosen, pairs[0], pairs[1], count, follows)
    for other in (~alone).nonzero()[0].tolist():
        for at in range(low[other], high[other]):
            if keys[at] == terms[other]:
                here, tf = _read_counts(segment, at, rows)
                count[other, here] = tf
    return count, follows


def _read_counts(segment: OpenSegment, at: int, rows: I64) -> tuple[I64, F32]:
    """Return (position in `rows` int64[m], count float32[m]) of the rows that hold the term at position `at`."""
    first, end = segment["terms.indptr"][at : at + 2]
    holding, tf = segment["terms.rows"][first:end], segment["terms.tf"][first:end]
    place = np.minimum(holding.searchsorted(rows), len(holding) - 1)
    here = (holding[place] == rows).nonzero()[0]
    return here, tf[place[here]].astype(np.float32)
