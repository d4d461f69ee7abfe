"""The inner loops in C (`*.c`), as functions on arrays. Compiled when Helix is installed (`hatch_build.py`).

Every array that is given goes through `checked.pointer`: it has the dtype and shape said and lies in one piece, or the
call is an error; nothing is copied or converted. Kernels get arrays, their lengths and numbers of rows. They compare
each number that says where to read with what there is: one that is out of its range comes from a damaged file. Loops
that take long give the interpreter's lock away while they run.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.errors import KernelsError, StoreError
from helix.native.checked import Table, pointer, room, table
from helix.types import F32, I64, U32, U64, Bool

LIBRARY: Final = Path(__file__).with_name("_kernels.so")

VERSION: Final = 2
"""Counted up with every change of what a kernel takes; as in kernels.c."""

_ANEW: Final = (
    "install Helix anew where there is a C compiler: pip install --force-reinstall --no-deps helix-recall; "
    "in a checkout: pip install --no-deps --editable ."
)


def _load(library: type[ctypes.CDLL]) -> ctypes.CDLL:
    """Load the kernels.

    Raises:
        KernelsError: they are not there, not for this machine, or of another release.
    """
    if not LIBRARY.is_file():
        raise KernelsError(f"the compiled kernels are missing: {LIBRARY} does not exist", _ANEW)
    try:
        loaded = library(str(LIBRARY))
        version = int(loaded.kernels_version())
    except OSError as error:
        raise KernelsError(f"the compiled kernels cannot be loaded: {error}", _ANEW) from None
    except AttributeError:  # of a release that did not count
        version = 1
    if version != VERSION:
        raise KernelsError(f"the compiled kernels are of version {version}, not {VERSION}: {LIBRARY} is old", _ANEW)
    return loaded


_long = _load(ctypes.CDLL)  # gives the lock away
short = _load(ctypes.PyDLL)
"""The library, called without giving the lock away: microseconds of work."""

_P, _N, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float

_best_rows = _long.best_rows
_best_rows.argtypes = (_N, _N, *[_P] * 4, _N, _P, _N, *[_P] * 4, _N, _N, _F, *[_P] * 4, _N, _P, _P)
_best_rows.restype = ctypes.c_int64
_inner_products = _long.inner_products
_inner_products.argtypes = (_P, _P, _N, _N, _P, _N, _P, _P)
_inner_products.restype = ctypes.c_int64
_best_coded = _long.best_coded
_best_coded.argtypes = (*[_P] * 3, _N, _P, _P, _N, _P, _N, _P, *[_N] * 3, _P, _P)
_best_coded.restype = ctypes.c_int64
_code_parts = short.code_parts
_code_parts.argtypes = (_P, _N, _N, _P, _P)
_code_parts.restype = _F
_in_steps = short.in_steps
_in_steps.argtypes = (_P, _N, _F, _P)
_in_steps.restype = None
_leaning_products = short.leaning_products
_leaning_products.argtypes = (*[_P] * 3, _N, _N, _P, _N, _P, _F, *[_P] * 5)
_leaning_products.restype = ctypes.c_int64
_between = {np.dtype(name): getattr(_long, f"between_{name}") for name in ("int64", "int32", "uint8")}
for _each in _between.values():
    _each.argtypes = (*[_P] * 4, *[_N] * 4, *[_P] * 3)
    _each.restype = ctypes.c_int64
_count_terms = short.count_terms
_count_terms.argtypes = (_P, _N, _P, _N, _P, _N, _P, _P, _N, _P, _P, _N, _N, _P, _P)
_count_terms.restype = ctypes.c_int64
_pooled = short.pooled
_pooled.argtypes = (_P, _N, _N, _P, _N, _N, _P, _P, _F, _F, _F, _F, _P)
_pooled.restype = ctypes.c_int64
_wanted_runs = short.wanted_runs
_wanted_runs.argtypes = (_P, _P, _N, _P, _N, _P, ctypes.c_uint64, _P, _P, _P)
_wanted_runs.restype = ctypes.c_int64
_around = short.around
_around.argtypes = (_P, _P, _N, _P, _N, _P)
_around.restype = ctypes.c_int64
_distinct = short.distinct
_distinct.argtypes = (_P, _N, _P, _N, _P, _P)
_distinct.restype = ctypes.c_int64
_fuse_legs = short.fuse_legs
_fuse_legs.argtypes = (_P, _P, _N, _P, ctypes.c_double, _P, _N, _P, _N, *[_P] * 4)
_fuse_legs.restype = ctypes.c_int64
_add_pieces = short.add_pieces
_add_pieces.argtypes = (_P, _P, _N, _N, _P, ctypes.c_uint64)
_add_pieces.restype = None
_count_pieces = short.count_pieces
_count_pieces.argtypes = (_P, _P, _N, _P, _P, _P, _N, _P, ctypes.c_uint64, *[_N] * 3, *[_P] * 3, _N)
_count_pieces.restype = ctypes.c_int64

BOOL: Final = np.dtype(np.bool_)
INT8, INT32, INT64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
UINT8, UINT16, UINT32, UINT64 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def damaged(what: str) -> StoreError:
    """The error for a number, read from a file, that leads out of the store."""
    return StoreError(
        f"the store is damaged: {what}",
        "restore it from a backup or another copy ('helix pull'), or return to an earlier generation with "
        "'helix rollback'; 'helix verify' names files whose bytes have changed",
    )


RANGE: Final = 32_768
"""Rows whose scores are worked out at a time: they and their norms stay in a processor's own cache."""

LOOK_UP: Final = 16
"""To find one row among postings costs as much as to read so many of them in a row."""


class Postings(NamedTuple):
    """Where some terms stand, in parts; those of term t are first[t] to first[t + 1]."""

    first: I64  # int64[t + 1]
    start: I64  # int64[p]: the row that the rows of a part count from
    rows: list[U32]  # uint32[m] each, ascending; a row is in one part of a term at most
    tf: list[npt.NDArray[np.uint16]]  # uint16[m] each: how often it has the term, or what weight it has there


def best_rows(
    postings: Postings,
    weight: F32,
    rest: F32,
    allowed: Bool | None,
    norm: F32 | int,
    k: int,
    slack: float,
    floor: float = 0,
) -> tuple[U32, F32, float]:
    """Rows that may be among the k best by BM25 or by impact, the k best among them, in no order.

    Args:
        postings: of t terms, the rarest or heaviest first: a row's gains are summed in their order.
        weight: float32[t]: idf · (k1 + 1), or what an impact is multiplied with.
        rest: float32[t + 1], what terms t and on can give a row.
        allowed: bool[n]; None allows every row.
        norm: float32[n], of `helix.ranking.bm25.norms`; n alone where `tf` are impacts, each worth tf · weight.
        k: at least 1.
        slack: below 1 by more than scores and bounds, which are rounded apart, can differ.
        floor: a score that the k-th best has at least.

    Returns:
        (rows uint32[m]; scores float32[m]; a score that the k-th best has at least).

    Raises:
        StoreError: a posting is of no row there is.
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    first, start, rows, tf = postings
    sizes, terms = [len(part) for part in rows], len(weight)
    n = norm if isinstance(norm, int) else len(norm)
    if k < 1:
        raise ValueError(f"the {k} best")
    row_at, tf_at = table("rows of postings", rows, UINT32, sizes), table("frequencies", tf, UINT16, sizes)
    size = np.array(sizes, np.int64)
    most = min(n, int(size.sum()))
    (_best, best), (_read, read), (_work, work) = room(FLOAT32, k), room(INT64, len(rows)), room(UINT32, 4, RANGE)
    (out_rows, rows_to), (out_scores, scores_to), (reached, reach) = (
        room(UINT32, most),
        room(FLOAT32, most),
        room(FLOAT32, 1),
    )
    reached[0] = floor
    found = _best_rows(
        RANGE,
        LOOK_UP,
        pointer("row_at", row_at.at, UINT64, len(rows)),
        pointer("tf_at", tf_at.at, UINT64, len(rows)),
        pointer("size", size, INT64, len(rows)),
        pointer("start", start, INT64, len(rows)),
        len(rows),
        pointer("first", first, INT64, terms + 1),
        terms,
        pointer("weight", weight, FLOAT32, terms),
        pointer("rest", rest, FLOAT32, terms + 1),
        None if allowed is None else pointer("allowed", allowed, BOOL, n),
        None if isinstance(norm, int) else pointer("norm", norm, FLOAT32, n),
        n,
        k,
        slack,
        reach,
        best,
        read,
        work,
        most,
        rows_to,
        scores_to,
    )
    if found == -2:
        raise ValueError(f"the {len(rows)} parts of the postings are not those of {terms} terms")
    if found < 0:
        raise damaged(f"a posting is of none of {n} rows, or scored by a length that is none")
    return out_rows[:found], out_scores[:found], float(reached[0])


def inner_products(codes: npt.NDArray[np.int8], scale: F32, rows: I64, query: F32) -> F32:
    """scale · ⟨codes, query⟩ of some rows: float32[n]. Equal codes have equal products, to the bit.

    Args:
        codes: int8[all, d].
        scale: float32[all].
        rows: int64[n].
        query: float32[d].

    Raises:
        StoreError: a row is none of all.
        TypeError, ValueError: arrays are not as said.
    """
    n, (every, d) = len(rows), codes.shape
    out, to = room(FLOAT32, n)
    broken = _inner_products(
        pointer("codes", codes, INT8, every, d),
        pointer("scale", scale, FLOAT32, every),
        every,
        d,
        pointer("rows", rows, INT64, n),
        n,
        pointer("query", query, FLOAT32, d),
        to,
    )
    if broken:
        raise damaged(f"a vector is asked for of a row that is none of {every}")
    return out


def code_parts(book: F32, query: F32) -> tuple[F32, float]:
    """What each code of each piece adds to an inner product, from the least of its piece on: (float32[m, 16], the
    largest).

    Args:
        book: float32[dimensions of a piece, m, 16]: what each code stands for.
        query: float32[m · dimensions of a piece].

    Raises:
        TypeError, ValueError: arrays are not as said.
    """
    size, m, _ = book.shape
    part, to = room(FLOAT32, m, CODES)
    most = _code_parts(
        pointer("book", book, FLOAT32, size, m, CODES),
        size,
        m,
        pointer("query", query, FLOAT32, size * m),
        to,
    )
    return part, float(most)


def in_steps(part: F32, steps: float) -> npt.NDArray[np.uint8]:
    """part · steps, rounded: uint8 of the same shape. They are below 255.5."""
    out, to = room(UINT8, *part.shape)
    _in_steps(pointer("part", part, FLOAT32, *part.shape), part.size, steps, to)
    return out


CODES: Final = 16
"""Codes of a piece."""

GROUP: Final = 32
"""Rows whose codes `best_coded` looks up at a time; as in lists.c."""


class Lists(NamedTuple):
    """Some lists of rows and their 4-bit codes."""

    code: Table  # uint8[groups, m, 16] of each, as lists.c says, in one dimension
    row: Table  # int64[size] of each
    size: I64  # int64[lists]: the rows of each
    m: int


def lists_of(codes: Sequence[npt.NDArray[np.uint8]], rows: Sequence[I64], m: int) -> Lists:
    """Lists, for `best_coded`.

    Args:
        codes: uint8[groups · m · 16] of each list, m even.
        rows: int64 of each.

    Raises:
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    if m < 2 or m % 2:
        raise ValueError(f"{m} pieces are no even number of them")
    sizes = [len(one) for one in rows]
    groups = [-(-size // GROUP) * m * CODES for size in sizes]
    return Lists(table("codes", codes, UINT8, groups), table("rows", rows, INT64, sizes), np.array(sizes, np.int64), m)


def best_coded(
    lists: Lists,
    chosen: I64,
    near: npt.NDArray[np.int32],
    added: npt.NDArray[np.uint8],
    allowed: Bool | None,
    rows: int,
    k: int,
    registers: int = 0,
) -> I64:
    """The k best of the rows in some lists by 4-bit codes, in no order: int64[≤ k]. Of equal ones the smaller rows.

    Args:
        lists: of `lists_of`, for as many pieces as `added` has.
        chosen: int64[n], which are looked into.
        near: int32[n], 0 to 2²⁴, what each gives its rows.
        added: uint8[m, 16], m even: what each code gives; the largest of all m add up to less than 2¹⁶.
        allowed: bool[rows]; None allows all.
        k: at least 1.
        registers: bytes of those that are used, 1 for none; 0: the widest of this machine.

    Raises:
        StoreError: a list names a row that is none of `rows`, or its centre is no number.
        ValueError: this machine has no such registers, or there is no such list.
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    n, there, m = len(chosen), len(lists.size), len(added)
    if k < 1 or not 0 <= rows <= 1 << 32:
        raise ValueError(f"the {k} best of {rows} rows")
    if m != lists.m:
        raise ValueError(f"what codes add is said of {m} pieces, the lists are of {lists.m}")
    (_key, key), (out, to) = room(UINT64, 4 * k), room(INT64, k)
    found = _best_coded(
        pointer("code", lists.code.at, UINT64, there),
        pointer("row", lists.row.at, UINT64, there),
        pointer("size", lists.size, INT64, there),
        there,
        pointer("chosen", chosen, INT64, n),
        pointer("near", near, INT32, n),
        n,
        pointer("added", added, UINT8, m, CODES),
        m,
        None if allowed is None else pointer("allowed", allowed, BOOL, rows),
        rows,
        k,
        registers,
        key,
        to,
    )
    if found == -2:
        raise ValueError(f"this machine has no registers of {registers} bytes for such sums")
    if found == -3:
        raise ValueError(f"a list is none of {there}")
    if found < 0:
        why = "a list of its dense index names a row that is none of" if found == -1 else "a centre is no number, of"
        raise damaged(f"{why} {rows}")
    return out[:found]


class Vectors(NamedTuple):
    """The vectors of all rows, part by part."""

    start: I64  # int64[parts + 1]: the first row of each, and the number of rows
    code: Table  # int8[rows of the part · d] each
    scale: Table  # float32[rows of the part] each
    d: int


def vectors_of(codes: Sequence[npt.NDArray[np.int8]], scales: Sequence[F32], d: int) -> Vectors:
    """Vectors, for `leaning_products`.

    Args:
        codes: int8[rows, d] of each part.
        scales: float32[rows] of each.

    Raises:
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    sizes = [len(scale) for scale in scales]
    at = [pointer("codes", code, INT8, size, d) for code, size in zip(codes, sizes, strict=True)]
    code = Table(np.array(at, np.uint64), tuple(codes))
    return Vectors(np.cumsum([0, *sizes], dtype=np.int64), code, table("scales", scales, FLOAT32, sizes), d)


def leaning_products(vectors: Vectors, rows: I64, query: F32, share: float) -> tuple[F32, F32]:
    """(⟨v, query⟩, ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖): float32[n] each, where v, b and a are the
    vectors of items and of what stands before and after each.

    Args:
        rows: int64[3, n]: of what stands before, of the item, of what stands after; −1 is nothing.
        query: float32[d].

    Raises:
        StoreError: there is no such row.
        TypeError, ValueError: arrays are not as said.
    """
    n, d, parts = rows.shape[-1], vectors.d, len(vectors.code.at)
    (alone, alone_to), (leaning, leaning_to) = room(FLOAT32, n), room(FLOAT32, n)
    (_code, code), (_factor, factor), nothing = room(UINT64, 3, n), room(FLOAT32, 3, n), np.zeros(d, np.int8)
    broken = _leaning_products(
        pointer("code_at", vectors.code.at, UINT64, parts),
        pointer("scale_at", vectors.scale.at, UINT64, parts),
        pointer("start", vectors.start, INT64, parts + 1),
        parts,
        d,
        pointer("rows", rows, INT64, 3, n),
        n,
        pointer("query", query, FLOAT32, d),
        share,
        pointer("nothing", nothing, INT8, d),
        code,
        factor,
        alone_to,
        leaning_to,
    )
    if broken:
        raise damaged(f"a vector is asked for of a row that is none of {vectors.start[-1]}")
    return alone, leaning


ZONE: Final = 192
"""Rows of a zone at most: three of the widest registers, and fewer than 2⁸, since `between` counts them in a byte."""


class Zones(NamedTuple):
    """The least and the most value in each of some runs of rows (a zone map: G. Moerkotte, VLDB 1998)."""

    begin: npt.NDArray[np.int32]  # int32[z + 1]: the first row of each, and the number of rows
    least: npt.NDArray[Any]  # [z], of the values' dtype
    most: npt.NDArray[Any]


def zones(values: npt.NDArray[Any], first: npt.NDArray[Any]) -> Zones:
    """The zones of some values.

    Args:
        first: integer[m], ascending, the rows where one has to begin; others begin so that none has more than ZONE.
    """
    begin = np.union1d(first, np.arange(0, len(values), ZONE))
    ends = np.append(begin, len(values)).astype(np.int32)
    if not len(values):
        return Zones(ends, values, values)
    return Zones(ends, np.minimum.reduceat(values, begin), np.maximum.reduceat(values, begin))


def between(values: npt.NDArray[Any], within: Zones, low: int, high: int, among: Bool | None, passed: Bool) -> int:
    """Of some rows those whose value is in low ≤ value ≤ high, and how many there are. Most zones are decided unread.

    Args:
        values: int64[n], int32[n] or uint8[n].
        within: their `zones`.
        low, high: in 64 bits with a sign.
        among: bool[n], the rows that may pass; None: all.
        passed: bool[n], written to; another array.

    Raises:
        TypeError, ValueError: arrays are not as said, or not of the same rows.
    """
    begin, least, most = within
    n, count, dtype = len(values), len(least), values.dtype
    kernel = _between.get(dtype)
    if kernel is None:
        raise TypeError(f"values is an array of {dtype}, where int64, int32 or uint8 belongs")
    if not (_LEAST <= low <= _MOST and _LEAST <= high <= _MOST):
        raise ValueError(f"{low} to {high} is beyond 64 bits")
    _some, some = room(INT32, count + 1)
    found = kernel(
        pointer("values", values, dtype, n),
        pointer("begin", begin, INT32, count + 1),
        pointer("least", least, dtype, count),
        pointer("most", most, dtype, count),
        count,
        n,
        low,
        high,
        None if among is None else pointer("among", among, BOOL, n),
        pointer("passed", passed, BOOL, n, written=True),
        some,
    )
    if found < 0 or begin[-1] != n:
        raise ValueError(f"the zones are not those of {n} values")
    return int(found)


_LEAST, _MOST = -(2**63), 2**63 - 1


def count_terms(
    indptr: I64, said: U32, rows: I64, terms: U32, of: I64, left: I64, right: I64, count: F32, follows: F32
) -> None:
    """How often some terms stand in the lists of some rows, and how often one stands right before another.

    Args:
        indptr: int64[n + 1], said: uint32[w]: the list of each row.
        rows: int64[m].
        terms: uint32[k], different ones; `of` int64[k], below t: where each is counted.
        left: int64[p], right: int64[p]: the pairs, by where their terms are counted.
        count: float32[t, m], zeros; written to.
        follows: float32[p, m], zeros; written to.

    Raises:
        StoreError: a row has no list, or one that is not within `said`.
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    w, m, k, p, t = len(said), len(rows), len(terms), len(left), len(count)
    broken = _count_terms(
        pointer("indptr", indptr, INT64, max(len(indptr), 1)),
        len(indptr) - 1,
        pointer("said", said, UINT32, w),
        w,
        pointer("rows", rows, INT64, m),
        m,
        pointer("terms", terms, UINT32, k),
        pointer("of", of, INT64, k),
        k,
        pointer("left", left, INT64, p),
        pointer("right", right, INT64, p),
        p,
        t,
        pointer("count", count, FLOAT32, t, m, written=True),
        pointer("follows", follows, FLOAT32, p, m, written=True),
    )
    if broken == -2:
        raise ValueError(f"a term is counted in none of {t} rows")
    if broken:
        raise damaged(f"a row's list of terms is not within the {w} there are")


def pooled(count: F32, place: I64, weight: F32, length: F32, mean_length: float, k1: float, b: float) -> F32:
    """BM25 of n texts, each made of some rows of u: float32[n]. As `helix.ranking.bm25.saturate`, times the weights,
    added up in the order of the terms.

    Args:
        count: float32[t, u]: how often each term occurs in each row.
        place: int64[rows of a text, n], below u.
        weight: float32[t]: the idf of each term.
        length: float32[u].
        mean_length: of the texts.

    Raises:
        TypeError, ValueError: arrays are not as said, or do not fit together.
    """
    (t, u), (width, n) = count.shape, place.shape
    out, to = room(FLOAT32, n)
    broken = _pooled(
        pointer("count", count, FLOAT32, t, u),
        t,
        u,
        pointer("place", place, INT64, width, n),
        width,
        n,
        pointer("weight", weight, FLOAT32, t),
        pointer("length", length, FLOAT32, u),
        k1 + 1,
        k1,
        1 - b,
        b / mean_length,
        to,
    )
    if broken:
        raise ValueError(f"a place is none of {u}")
    return out


def wanted_runs(text: I64, terms: U32, power: U64, wanted: npt.NDArray[np.uint8]) -> tuple[U64, I64, I64]:
    """The runs of terms of one text that may be wanted: (key uint64[m], first term int64[m], terms int64[m]).

    Args:
        text: int64[n], of each term; the terms of one text lie together.
        terms: uint32[n].
        power: uint64[longest]: the key is Σ (term + 1) · power[i] over the run, modulo 2⁶⁴.
        wanted: uint8[2ᵇ]: one bit for each value of the lowest 3 + b bits of a key, lowest first.

    Raises:
        TypeError, ValueError: arrays are not as said.
    """
    n, longest, size_of = len(terms), len(power), len(wanted)
    if size_of.bit_count() != 1:
        raise ValueError(f"{size_of} bytes of wanted bits are no power of two")
    most = n * longest
    (key, key_to), (start, start_to), (size, size_to) = room(UINT64, most), room(INT64, most), room(INT64, most)
    found = _wanted_runs(
        pointer("text", text, INT64, n),
        pointer("terms", terms, UINT32, n),
        n,
        pointer("power", power, UINT64, longest),
        longest,
        pointer("wanted", wanted, UINT8, size_of),
        8 * size_of - 1,
        key_to,
        start_to,
        size_to,
    )
    return key[:found], start[:found], size[:found]


def around(previous: npt.NDArray[np.int32], following: npt.NDArray[np.int32], rows: I64) -> I64:
    """int64[5, n]: of each row the second before it, the one before, itself, the one after and the second after; −1
    beyond either end.

    Args:
        previous: int32[all], following: int32[all]: the row before and after each, −1 for none.
        rows: int64[n].

    Raises:
        StoreError: a row is none of them.
        TypeError, ValueError: arrays are not as said.
    """
    every, n = len(previous), len(rows)
    ring, to = room(INT64, 5, n)
    broken = _around(
        pointer("previous", previous, INT32, every),
        pointer("following", following, INT32, every),
        every,
        pointer("rows", rows, INT64, n),
        n,
        to,
    )
    if broken:
        raise damaged(f"a row, or what stands beside it, is none of the {every} there are")
    return ring


def distinct(values: I64) -> tuple[I64, I64]:
    """(the different values int64[m] in the order in which they come first, the place there of each int64[n]): quicker
    than to sort them where they are few thousands.

    Raises:
        TypeError, ValueError: it is no int64[n] in one piece.
    """
    n = len(values)
    slots = 2 << n.bit_length()
    (_table, work), (out, to), (place, place_to) = room(INT64, slots), room(INT64, n), room(INT64, n)
    found = _distinct(pointer("values", values, INT64, n), n, work, slots, to, place_to)
    return out[:found], place


def fuse_legs(legs: Sequence[U32], weights: Sequence[float], k: float, key: U64) -> tuple[U32, F32, F32]:
    """Reciprocal rank fusion: the different rows of some legs, the highest Σ weight / (k + rank) first.

    Args:
        legs: uint32 each, best first, ranks from 1; none has a row twice.
        weights: of each leg.
        key: uint64[rows]: of equal scores, as float32, the smaller key goes first.

    Returns:
        (row uint32[n]; score float32[n]; rank in each leg, NaN where it has it not, float32[legs, n]).

    Raises:
        StoreError: a leg has a row that has no key.
        TypeError, ValueError: arrays are not as said; a leg's rows are of wider numbers.
    """
    end = np.array([*accumulate(map(len, legs))], np.int64)
    rows = np.concatenate([np.empty(0, np.uint32), *legs], dtype=np.uint32)  # of no wider numbers
    count, m, every = len(legs), len(rows), len(key)
    slots, weight = 2 << m.bit_length(), np.array(weights, np.float64)
    (_table, table_at), (_work, work) = room(INT32, slots + m), room(UINT64, 4, m)
    (row, row_to), (score, score_to), (rank, rank_to) = room(UINT32, m), room(FLOAT32, m), room(FLOAT32, count, m)
    found = _fuse_legs(
        pointer("rows", rows, UINT32, m),
        pointer("end", end, INT64, count),
        count,
        pointer("weights", weight, FLOAT64, count),
        k,
        pointer("key", key, UINT64, every),
        every,
        table_at,
        slots,
        work,
        row_to,
        score_to,
        rank_to,
    )
    if found < 0:
        raise damaged(f"a leg has a row that is none of {every}")
    return row[:found], score[:found], rank[:, :found]


class Pieces(NamedTuple):
    """A vocabulary of word pieces, for `count_pieces`."""

    given: tuple[Any, ...]  # to the kernel
    held: tuple[npt.NDArray[Any], ...]  # arrays whose addresses are among what is given


def pieces(first: Sequence[str], inner: Sequence[str], names: Sequence[str], *, lower: bool, most: int) -> Pieces:
    """The vocabulary.

    Args:
        first, inner: plain pieces that a word begins with, and that go on with it.
        names: tokens with a name.
        lower: small letters are looked up for capital ones.
        most: letters of a word; a longer one is unknown.
    """
    slots = np.zeros(4 << (len(first) + len(inner)).bit_length(), np.uint64)
    mask, known = len(slots) - 1, pointer("slots", slots, UINT64, len(slots), written=True)
    for some, other in ((first, 0), (inner, 1)):
        text, ends = _joined(some)
        _add_pieces(text, ends.buffer_info()[0], len(ends), other, known, mask)
    kind = np.array([_kind(chr(byte)) for byte in range(256)], np.uint8)
    for letter in {letter for name in names for letter in (name[:1].lower(), name[:1].upper()) if letter.isascii()}:
        kind[list(letter.encode())] |= 8  # a name may begin
    text, ends = _joined(names)
    name_ends, longest = np.array(ends, np.int64), max(map(len, (*first, *inner)), default=1)
    hashes, at = room(UINT64, longest)
    held = (kind, name_ends, slots, hashes)
    named = (pointer("kind", kind, UINT8, 256), text, pointer("name_ends", name_ends, INT64, len(names)), len(names))
    return Pieces((*named, known, mask, lower, most, longest, at), held)


def _kind(letter: str) -> int:
    """1 a letter or digit, 2 a sign, 4 white space, 0 neither."""
    if not letter.isascii():
        return 0
    return 1 if letter.isalnum() else 4 if letter in " \t\n\r" else 2 if letter.isprintable() else 0


def _joined(texts: Sequence[str]) -> tuple[bytes, array[int]]:
    """(bytes of all, where each ends)."""
    parts = [text.encode() for text in texts]
    return b"".join(parts), array("q", accumulate(map(len, parts)))


_LEFT: Final = 64  # places for what is not plain; more are made where they are needed


def count_pieces(texts: Sequence[str], known: Pieces) -> tuple[list[int], list[tuple[int, str]]]:
    """(word pieces of what is plain in each text; the rest: (the text's place, what stands between white space)).

    Plain is printable ASCII without tokens that have a name. Arrays of the standard library: several times as quick to
    make as NumPy's, and these calls take microseconds.
    """
    text, ends = _joined(texts)
    n, most, found = len(ends), 0, _LEFT
    while found > most:
        most, tokens, left = found, array("q", bytes(8 * n)), array("q", bytes(24 * found))
        out = (tokens.buffer_info()[0], left.buffer_info()[0], most)
        found = _count_pieces(text, ends.buffer_info()[0], n, *known.given, *out)
    return tokens.tolist(), [(left[i], text[left[i + 1] : left[i + 2]].decode()) for i in range(0, 3 * found, 3)]
