"""Postings in parts, as the legs read them that search by words or by weights, and how few rows are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.native.postings import Postings
from helix.types import F32, U32

Rows = npt.NDArray[np.intp]
Counts = npt.NDArray[np.uint16]
Part = tuple[int, U32, Counts]
"""The row that the rows count from, rows ascending, what each has of the term: its frequency, or its impact."""

STEP: Final = 1 / 1_024
"""What an impact of 1 weighs (helix/snapshot/FORMAT.md)."""


def flat(terms: Sequence[Sequence[Part]]) -> Postings:
    """The parts of each term, as `helix.native.best_rows` takes them."""
    parts = [part for each in terms for part in each]
    first = np.cumsum([0, *map(len, terms)])
    start = np.array([start for start, _, _ in parts], np.int64)
    return Postings(first, start, [rows for _, rows, _ in parts], [counts for _, _, counts in parts])


def narrow(parts: Sequence[Part], few: Rows, cost: int) -> Iterator[Part]:
    """The parts of a term, but for those where the few allowed rows are looked up in less time than all are read.

    Args:
        few: ascending.
        cost: to look one row up, in postings read in a row.
    """
    for part in parts:
        if cost * len(few) < len(part[1]):
            for rows, found in look_up([part], few):
                yield 0, rows.astype(np.uint32), found
        else:
            yield part


def look_up(parts: Sequence[Part], rows: Rows) -> Iterator[tuple[Rows, Counts]]:
    """Those of the rows, ascending, that hold the term, part by part."""
    for start, local, counts in parts:
        low, high = rows.searchsorted((start + int(local[0]), start + int(local[-1]) + 1)).tolist()
        here, there = common((rows[low:high] - start).astype(np.uint32), local)
        yield rows[low:high].take(here), counts.take(there)


def common(a: U32, b: U32) -> tuple[Rows, Rows]:
    """Positions in each of what both hold; ascending, without repeats. Searches the shorter in the longer."""
    if len(a) > len(b):
        there, here = common(b, a)
        return here, there
    at = np.minimum(b.searchsorted(a), len(b) - 1)
    hit = np.flatnonzero(b.take(at) == a)
    return hit, at.take(hit)


def kth(scores: F32, k: int) -> float:
    """The k-th best; 0 where there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else 0.0
