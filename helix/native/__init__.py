"""The inner loops in C (`kernels.c`), as functions on arrays. Compiled when Helix is installed (`hatch_build.py`).

Arrays that are passed have the dtype said and lie in one piece; nothing is copied. Loops that take long give the
interpreter's lock away while they run.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from helix.errors import StoreError
from helix.types import F32, I64, U32, U64, Bool

LIBRARY: Final = Path(__file__).with_name("_kernels.so")


def _load(library: type[ctypes.CDLL]) -> ctypes.CDLL:
    try:
        return library(str(LIBRARY))
    except OSError as error:
        raise StoreError(
            f"the compiled kernels cannot be loaded: {error}",
            "install Helix anew with a C compiler at hand: pip install --force-reinstall --no-deps helix-recall",
        ) from None


_long = _load(ctypes.CDLL)  # gives the lock away
_short = _load(ctypes.PyDLL)  # keeps it: microseconds of work

_P, _N, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float

_add_postings = _long.add_postings
_add_postings.argtypes = (_P, _P, _N, _N, _P, _P, _F, _P, _N, _F, _F, _P, _N, _P, _P, _P)
_add_postings.restype = ctypes.c_int64
_inner_products = _long.inner_products
_inner_products.argtypes = (_P, _P, _N, _N, _P, _P)
_inner_products.restype = None
_leaning_products = _short.leaning_products
_leaning_products.argtypes = (_P, _P, _N, _N, _P, _F, _P, _P, _P)
_leaning_products.restype = None
_between = _long.between
_between.argtypes = (_P, _P, _N, _N, _N, _P)
_between.restype = ctypes.c_int64
_occurrences = _short.occurrences
_occurrences.argtypes = (_P, _P, _N, _N, _P, _N, _P, _N, _P, _P, _P)
_occurrences.restype = ctypes.c_int64


def _at(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array lie."""
    return int(array.__array_interface__["data"][0])


class Best:
    """The k-th best score of a search, at least: what a term's rows are held against while its postings are added.

    Args:
        slack: below 1 by more than scores and bounds, which are rounded apart, can differ.
    """

    def __init__(self, k: int, slack: float) -> None:
        self.floor = np.zeros(1, np.float32)
        self._slack = slack
        self._heap = np.empty(k, np.float32)
        self._held = np.zeros(1, np.int64)

    def next_term(self) -> None:
        """Rows of one term are distinct; those of two are not, and would be counted twice."""
        self._held[0] = 0

    def add(
        self,
        rows: U32,
        tf: npt.NDArray[np.uint16],
        start: int,
        allowed: Bool | None,
        norm: F32,
        weight: float,
        scores: F32,
        rest: float,
    ) -> I64:
        """Add some postings of one term to the scores; rows that can no longer be among the k best are left out.

        Args:
            rows: uint32[p], counted from `start`.
            tf: uint16[p].
            allowed: bool[n]; None allows every row.
            norm: float32[n], of `helix.bm25.norms`.
            weight: idf · (k1 + 1).
            scores: float32[n], written to.
            rest: what the terms ahead can give a row.

        Returns:
            int64[m]: rows whose score was 0.

        Raises:
            IndexError: a posting is of no row there is.
        """
        if not len(scores) == len(norm) == (len(scores) if allowed is None else len(allowed)) or len(rows) > len(tf):
            raise IndexError("scores, norms and filter are not of the same rows")
        touched = np.empty(len(rows), np.int64)
        mask = None if allowed is None else _at(allowed)
        n = _add_postings(
            _at(rows), _at(tf), len(rows), start, mask, _at(norm), weight, _at(scores), len(scores), rest, self._slack,
            _at(self._heap), len(self._heap), _at(self._held), _at(self.floor), _at(touched),
        )  # fmt: skip
        if n < 0:
            raise IndexError(f"a posting is of none of {len(scores)} rows")
        return touched[:n]


def inner_products(address: U64, scale: F32, query: F32) -> F32:
    """scale · ⟨codes, query⟩: float32[n]. Equal codes have equal products, to the bit.

    Args:
        address: uint64[n], where each row of int8 codes lies.
        scale: float32[n].
        query: float32[d].
    """
    out = np.empty(len(address), np.float32)
    _inner_products(_at(address), _at(scale), len(address), len(query), _at(query), _at(out))
    return out


def leaning_products(address: U64, scale: F32, query: F32, share: float) -> tuple[F32, F32]:
    """(⟨v, query⟩, ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖): float32[n] each, where v, b and a are the
    vectors of items and of what stands before and after each.

    Args:
        address: uint64[3, n]: of the codes of what stands before, of the item, of what stands after; 0 is nothing.
        scale: float32[3, n].
        query: float32[d].
    """
    n, d = address.shape[1], len(query)
    alone, leaning, nothing = np.empty(n, np.float32), np.empty(n, np.float32), np.zeros(d, np.int8)
    _leaning_products(_at(address), _at(scale), n, d, _at(query), share, _at(nothing), _at(alone), _at(leaning))
    return alone, leaning


def between(values: I64, alive: Bool, low: int, high: int) -> Bool:
    """bool[n]: where `alive` holds and low ≤ value ≤ high, in one pass.

    Args:
        values: int64[n].
        alive: bool[n].

    Raises:
        IndexError: they are not of one length.
    """
    if len(values) != len(alive):
        raise IndexError("values and mask are not of the same rows")
    out = np.empty(len(values), bool)
    _between(_at(values), _at(alive), len(values), low, high, _at(out))
    return out


def occurrences(indptr: I64, said: U32, rows: I64, terms: U32) -> tuple[I64, I64, I64]:
    """Where some terms stand in the lists of some rows, row by row: (position in `rows`, position in `terms`, place in
    all of the lists): int64[h] each.

    Args:
        indptr: int64[n + 1], said: uint32[w]: the list of each row.
        rows: int64[m].
        terms: ascending.

    Raises:
        IndexError: a row has no list, or one that is not within `said`.
    """
    most = max(0, int((indptr[rows + 1] - indptr[rows]).sum()))
    at, term, place = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    n = _occurrences(
        _at(indptr), _at(said), len(said), most, _at(rows), len(rows), _at(terms), len(terms),
        _at(at), _at(term), _at(place),
    )  # fmt: skip
    if n < 0:
        raise IndexError(f"a list of terms is not within the {len(said)} there are")
    return at[:n], term[:n], place[:n]
