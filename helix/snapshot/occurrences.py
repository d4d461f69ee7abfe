"""Where some terms occur in some rows of one segment, read from the rows' own lists of terms."""

from __future__ import annotations

import numpy as np

from helix import native
from helix.snapshot.segment import Opened
from helix.text import short_ids
from helix.types import I64, U64


def occurrences(segment: Opened, rows: I64, terms: U64) -> tuple[I64, I64, I64]:
    """Every occurrence of the terms in the rows, row by row in reading order.

    Lists hold the short ids of terms. A term whose short id another term of the segment has, too, and all terms of a
    segment that an earlier release wrote without lists, are looked up in the postings: there, what follows what is not
    known.

    Args:
        rows: int64[n], of the segment.
        terms: ascending.

    Returns:
        (position in `rows` int64[h], position in `terms` int64[h], place int64[h]: neighbours differ by one).
    """
    keys, short = segment["terms.key"], short_ids(terms)
    low = keys.searchsorted(terms)
    known = keys.take(np.minimum(low, len(keys) - 1)) == terms if len(keys) else np.zeros(len(terms), bool)
    alone = known & (_twins(keys, terms) == 1) if len(segment["order.term"]) else np.zeros(len(terms), bool)
    chosen = np.flatnonzero(alone)
    at, term, place = native.occurrences(segment["order.indptr"], segment["order.term"], rows, short[chosen])
    found = [(at, chosen[term], place)]
    last = int(place[-1]) + 2 if len(place) else 0
    for other in np.flatnonzero(known & ~alone).tolist():
        first, end = segment["terms.indptr"][low[other] : low[other] + 2]
        holding = segment["terms.rows"][first:end]
        there = np.minimum(holding.searchsorted(rows), len(holding) - 1)
        here = np.flatnonzero(holding[there] == rows)
        again = np.repeat(here, segment["terms.tf"][first:end][there[here]])
        found.append((again, np.full(len(again), other), last + 2 * np.arange(len(again))))
        last += 2 * len(again)
    one, two, three = (np.concatenate(part) for part in zip(*found, strict=True))
    return one, two, three


def _twins(keys: U64, terms: U64) -> I64:
    """int64[n]: how many terms of the segment have the short id of each term."""
    first = terms >> np.uint64(32) << np.uint64(32)
    last = first | np.uint64(0xFFFFFFFF)
    return np.asarray(keys.searchsorted(last, "right") - keys.searchsorted(first), np.int64)
