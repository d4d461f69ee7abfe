"""Postings in parts, one for each segment, and the look-up of few rows in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.native.postings import Postings
from helix.types import F32, U16, U32

Rows = npt.NDArray[np.intp]
Counts = U16
PostingsPart = tuple[int, U32, Counts]
"""(the number that the rows count from, ascending rows, the term's frequency or learned-sparse weight in each)."""

WEIGHT_STEP: Final = 1 / 1_024
"""The learned-sparse weight of a stored 1 (helix/snapshot/FORMAT.md)."""


def flatten_parts(terms: Sequence[Sequence[PostingsPart]]) -> Postings:
    """Return the parts of all terms, for `helix.native.postings.search_postings`."""
    parts = [part for each in terms for part in each]
    first = np.cumsum([0, *map(len, terms)])
    start = np.array([start for start, _, _ in parts], np.int64)
    return Postings(first, start, [rows for _, rows, _ in parts], [counts for _, _, counts in parts])


def narrow_parts(parts: Sequence[PostingsPart], few: Rows, cost: int) -> Iterator[PostingsPart]:
    """Yield the parts of a term, reduced to few allowed rows wherever looking them up is faster than reading all.

    Args:
        few: ascending.
        cost: of looking up one row, in postings read one after the other.
    """
    for part in parts:
        if cost * len(few) < len(part[1]):
            for rows, counts in look_up_rows([part], few):
                yield 0, rows.astype(np.uint32), counts
        else:
            yield part


def look_up_rows(parts: Sequence[PostingsPart], rows: Rows) -> Iterator[tuple[Rows, Counts]]:
    """Yield those of the ascending rows that hold the term, part by part, with their counts."""
    for start, local, counts in parts:
        low, high = rows.searchsorted((start + int(local[0]), start + int(local[-1]) + 1)).tolist()
        places, found = _intersect((rows[low:high] - start).astype(np.uint32), local)
        yield rows[low:high].take(places), counts.take(found)


def _intersect(a: U32, b: U32) -> tuple[Rows, Rows]:
    """Return the places of common values in each; both ascend without repeats. Search the shorter in the longer."""
    if len(a) > len(b):
        in_b, in_a = _intersect(b, a)
        return in_a, in_b
    at = np.minimum(b.searchsorted(a), len(b) - 1)
    hit = np.flatnonzero(b.take(at) == a)
    return hit, at.take(hit)


def find_kth_best(scores: F32, k: int) -> float:
    """Return the k-th best score, or 0 if there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else 0.0
