"""The inner loops in C (`*.c`), as functions on arrays. Compiled when Helix is installed (`hatch_build.py`).

Arrays that are passed have the dtype said and lie in one piece; nothing is copied. Loops that take long give the
interpreter's lock away while they run.
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
short = _load(ctypes.PyDLL)
"""The library, called without giving the lock away: microseconds of work."""

_P, _N, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float

_best_rows = _long.best_rows
_best_rows.argtypes = (_N, _N, *[_P] * 5, _N, *[_P] * 4, _N, _N, _F, *[_P] * 9)
_best_rows.restype = ctypes.c_int64
_inner_products = _long.inner_products
_inner_products.argtypes = (_P, _P, _N, _N, _P, _P)
_inner_products.restype = None
_best_coded = _long.best_coded
_best_coded.argtypes = (*[_P] * 4, _N, _P, _N, _P, *[_N] * 3, _P, _P)
_best_coded.restype = ctypes.c_int64
_code_parts = short.code_parts
_code_parts.argtypes = (_P, _N, _N, _P, _P)
_code_parts.restype = _F
_in_steps = short.in_steps
_in_steps.argtypes = (_P, _N, _F, _P)
_in_steps.restype = None
_leaning_products = short.leaning_products
_leaning_products.argtypes = (_P, _P, _N, _N, _P, _F, _P, _P, _P)
_leaning_products.restype = None
_between = {name: getattr(_long, f"between_{name}") for name in ("int64", "int32", "uint8")}
for _each in _between.values():
    _each.argtypes = (*[_P] * 4, *[_N] * 3, *[_P] * 3)
    _each.restype = ctypes.c_int64
_count_terms = short.count_terms
_count_terms.argtypes = (_P, _N, _P, _N, _P, _N, _P, _P, _N, _P, _P, _N, _P, _P)
_count_terms.restype = ctypes.c_int64
_pooled = short.pooled
_pooled.argtypes = (_P, _N, _N, _P, _N, _N, _P, _P, _F, _F, _F, _F, _P)
_pooled.restype = None
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
_fuse_legs.argtypes = (_P, _P, _N, _P, ctypes.c_double, _P, _N, _P, _N, *[_P] * 6)
_fuse_legs.restype = ctypes.c_int64
_add_pieces = short.add_pieces
_add_pieces.argtypes = (_P, _P, _N, _N, _P, ctypes.c_uint64)
_add_pieces.restype = None
_count_pieces = short.count_pieces
_count_pieces.argtypes = (_P, _P, _N, _P, _P, _P, _N, _P, ctypes.c_uint64, *[_N] * 3, *[_P] * 3, _N)
_count_pieces.restype = ctypes.c_int64


def addr(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array lie."""
    return int(array.__array_interface__["data"][0])


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
        norm: float32[n], of `helix.bm25.norms`; n alone where `tf` are impacts, each worth tf · weight.
        k: at least 1.
        slack: below 1 by more than scores and bounds, which are rounded apart, can differ.
        floor: a score that the k-th best has at least.

    Returns:
        (rows uint32[m]; scores float32[m]; a score that the k-th best has at least).

    Raises:
        IndexError: a posting is of no row there is, or arrays are not of one length.
    """
    first, start, rows, tf = postings
    size = np.array([len(part) for part in rows], np.int64)
    fits = len(first) == len(weight) + 1 == len(rest) and len(start) == len(rows) == int(first[-1])
    n = norm if isinstance(norm, int) else len(norm)
    fits &= [len(part) for part in tf] == size.tolist() and (allowed is None or len(allowed) == n)
    if not fits:
        raise IndexError("postings, weights, norms and filter do not fit together")
    most = min(n, int(size.sum()))
    row_at, tf_at = (np.array([addr(part) for part in parts], np.uint64) for parts in (rows, tf))
    best, scores, gain = np.empty(k, np.float32), np.zeros(RANGE, np.float32), np.empty(RANGE, np.float32)
    read, (place, touched) = np.zeros(len(rows), np.int64), np.empty((2, RANGE), np.uint32)
    out_rows, out_scores, reached = np.empty(most, np.uint32), np.empty(most, np.float32), np.array([floor], np.float32)
    mask = None if allowed is None else addr(allowed)
    norm_at = None if isinstance(norm, int) else addr(norm)
    found = _best_rows(
        RANGE, LOOK_UP, addr(row_at), addr(tf_at), addr(size), addr(start), addr(first), len(weight),
        addr(weight), addr(rest), mask, norm_at, n, k, slack, addr(reached), addr(best), addr(read),
        addr(scores), addr(place), addr(gain), addr(touched), addr(out_rows), addr(out_scores),
    )  # fmt: skip
    if found < 0:
        raise IndexError(f"a posting is of none of {n} rows")
    return out_rows[:found], out_scores[:found], float(reached[0])


def inner_products(address: U64, scale: F32, query: F32) -> F32:
    """scale · ⟨codes, query⟩: float32[n]. Equal codes have equal products, to the bit.

    Args:
        address: uint64[n], where each row of int8 codes lies.
        scale: float32[n].
        query: float32[d].
    """
    out = np.empty(len(address), np.float32)
    _inner_products(addr(address), addr(scale), len(address), len(query), addr(query), addr(out))
    return out


def code_parts(book: F32, query: F32) -> tuple[F32, float]:
    """What each code of each piece adds to an inner product, from the least of its piece on: (float32[m, 16], the
    largest).

    Args:
        book: float32[dimensions of a piece, m, 16]: what each code stands for.
        query: float32[m · dimensions of a piece].

    Raises:
        IndexError: the query is of another length.
    """
    size, m, codes = book.shape
    if len(query) != size * m:
        raise IndexError(f"a query of {len(query)} dimensions for {m} pieces of {size}")
    part = np.empty((m, codes), np.float32)
    return part, float(_code_parts(addr(book), size, m, addr(query), addr(part)))


def in_steps(part: F32, steps: float) -> npt.NDArray[np.uint8]:
    """part · steps, rounded: uint8 of the same shape. They are below 255.5."""
    out = np.empty(part.shape, np.uint8)
    _in_steps(addr(part), part.size, steps, addr(out))
    return out


GROUP: Final = 32
"""Rows whose codes `best_coded` looks up at a time; as in lists.c."""


def best_coded(
    code: U64,
    row: U64,
    size: I64,
    near: npt.NDArray[np.int32],
    table: npt.NDArray[np.uint8],
    allowed: Bool | None,
    rows: int,
    k: int,
    registers: int = 0,
) -> I64:
    """The k best of the rows in some lists by 4-bit codes, in no order: int64[≤ k]. Of equal ones the smaller rows.

    Args:
        code, row: uint64[n], where each list's codes lie, as lists.c says, and its rows, int64.
        size: int64[n], how many it has.
        near: int32[n], 0 to 2²⁴, what each gives its rows.
        table: uint8[m, 16], m even: what each code gives; the largest of all m add up to less than 2¹⁶.
        allowed: bool[rows]; None allows all.
        k: at least 1.
        registers: bytes of those that are used, 1 for none; 0: the widest of this machine.

    Raises:
        IndexError: a list names a row that is none of `rows`, or arrays are not of one length.
        ValueError: this machine has no such registers.
    """
    if not len(code) == len(row) == len(size) == len(near) or (allowed is not None and len(allowed) != rows):
        raise IndexError("lists and filter do not fit together")
    key, out = np.empty(4 * k, np.uint64), np.empty(k, np.int64)
    mask = None if allowed is None else addr(allowed)
    found = _best_coded(
        addr(code), addr(row), addr(size), addr(near), len(code), addr(table), len(table), mask, rows, k, registers,
        addr(key), addr(out),
    )  # fmt: skip
    if found == -2:
        raise ValueError(f"this machine has no registers of {registers} bytes for such sums")
    if found < 0:
        raise IndexError(f"a list names a row that is none of {rows}")
    return out[:found]


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
    _leaning_products(
        addr(address),
        addr(scale),
        n,
        d,
        addr(query),
        share,
        addr(nothing),
        addr(alone),
        addr(leaning),
    )
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
        IndexError: they are not of one length.
        KeyError: values of another dtype.
    """
    begin, least, most = within
    if not len(values) == len(passed) == begin[-1] or (among is not None and len(among) != len(values)):
        raise IndexError("values, zones and masks are not of the same rows")
    kernel, some = _between[values.dtype.name], np.empty(len(least) + 1, np.int32)
    may = None if among is None else addr(among)
    told = addr(begin), addr(least), addr(most), len(least)
    return int(kernel(addr(values), *told, low, high, may, addr(passed), addr(some)))


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
        IndexError: a row has no list, or one that is not within `said`.
    """
    broken = _count_terms(
        addr(indptr), len(indptr) - 1, addr(said), len(said), addr(rows), len(rows), addr(terms), addr(of), len(terms),
        addr(left), addr(right), len(left), addr(count), addr(follows),
    )  # fmt: skip
    if broken:
        raise IndexError(f"a list of terms is not within the {len(said)} there are")


def pooled(count: F32, place: I64, weight: F32, length: F32, mean_length: float, k1: float, b: float) -> F32:
    """BM25 of n texts, each made of some rows of u: float32[n]. As `helix.bm25.saturate` says, times the weights,
    added up in the order of the terms.

    Args:
        count: float32[t, u]: how often each term occurs in each row.
        place: int64[rows of a text, n], below u.
        weight: float32[t]: the idf of each term.
        length: float32[u].
        mean_length: of the texts.
    """
    out = np.empty(place.shape[1], np.float32)
    _pooled(
        addr(count), *count.shape, addr(place), *place.shape, addr(weight), addr(length),
        k1 + 1, k1, 1 - b, b / mean_length, addr(out),
    )  # fmt: skip
    return out


def wanted_runs(text: I64, terms: U32, power: U64, wanted: npt.NDArray[np.uint8]) -> tuple[U64, I64, I64]:
    """The runs of terms of one text that may be wanted: (key uint64[m], first term int64[m], terms int64[m]).

    Args:
        text: int64[n], of each term; the terms of one text lie together.
        terms: uint32[n].
        power: uint64[longest]: the key is Σ (term + 1) · power[i] over the run, modulo 2⁶⁴.
        wanted: uint8[2ᵇ]: one bit for each value of the lowest 3 + b bits of a key, lowest first.
    """
    most = len(terms) * len(power)
    key, start, size = np.empty(most, np.uint64), np.empty(most, np.int64), np.empty(most, np.int64)
    n = _wanted_runs(
        addr(text), addr(terms), len(terms), addr(power), len(power), addr(wanted), 8 * len(wanted) - 1,
        addr(key), addr(start), addr(size),
    )  # fmt: skip
    return key[:n], start[:n], size[:n]


def around(previous: npt.NDArray[np.int32], following: npt.NDArray[np.int32], rows: I64) -> I64:
    """int64[5, n]: of each row the second before it, the one before, itself, the one after and the second after; −1
    beyond either end.

    Args:
        previous: int32[all], following: int32[all]: the row before and after each, −1 for none.
        rows: int64[n].

    Raises:
        IndexError: a row is none of them.
    """
    ring = np.empty((5, len(rows)), np.int64)
    if _around(addr(previous), addr(following), len(previous), addr(rows), len(rows), addr(ring)):
        raise IndexError(f"a row is none of the {len(previous)} there are")
    return ring


def distinct(values: I64) -> tuple[I64, I64]:
    """(the different values int64[m] in the order in which they come first, the place there of each int64[n]): quicker
    than to sort them where they are few thousands.
    """
    n = len(values)
    table = np.full(2 << n.bit_length(), -1, np.int64)
    out, place = np.empty(n, np.int64), np.empty(n, np.int64)
    found = _distinct(addr(values), n, addr(table), len(table), addr(out), addr(place))
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
        IndexError: a leg has a row that has no key.
        TypeError: a leg's rows are of wider numbers.
    """
    end = np.array([*accumulate(map(len, legs))], np.int64)
    rows = np.concatenate([np.empty(0, np.uint32), *legs], dtype=np.uint32)  # of no wider numbers
    m = len(rows)
    table, slot, work = np.full(2 << m.bit_length(), -1, np.int32), np.empty(m, np.int32), np.empty((m, 4), np.uint64)
    row, score, rank = np.empty(m, np.uint32), np.empty(m, np.float32), np.empty((len(legs), m), np.float32)
    weight = np.array(weights, np.float64)
    found = _fuse_legs(
        addr(rows), addr(end), len(legs), addr(weight), k, addr(key), len(key), addr(table), len(table), addr(slot),
        addr(work), addr(work) + 8 * m, addr(row), addr(score), addr(rank),
    )  # fmt: skip
    if found < 0:
        raise IndexError(f"a leg has a row that is none of {len(key)}")
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
    table = np.zeros(4 << (len(first) + len(inner)).bit_length(), np.uint64)
    mask = len(table) - 1
    for some, other in ((first, 0), (inner, 1)):
        text, ends = _joined(some)
        _add_pieces(text, ends.buffer_info()[0], len(ends), other, addr(table), mask)
    kind = np.array([_kind(chr(byte)) for byte in range(256)], np.uint8)
    for letter in {letter for name in names for letter in (name[:1].lower(), name[:1].upper()) if letter.isascii()}:
        kind[list(letter.encode())] |= 8  # a name may begin
    text, ends = _joined(names)
    name_ends, longest = np.array(ends, np.int64), max(map(len, (*first, *inner)), default=1)
    hashes = np.empty(longest, np.uint64)
    held = (kind, name_ends, table, hashes)
    named = (addr(kind), text, addr(name_ends), len(names))
    return Pieces((*named, addr(table), mask, lower, most, longest, addr(hashes)), held)


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
    n, room, found = len(ends), 0, _LEFT
    while found > room:
        room, tokens, left = found, array("q", bytes(8 * n)), array("q", bytes(24 * found))
        out = (tokens.buffer_info()[0], left.buffer_info()[0], room)
        found = _count_pieces(text, ends.buffer_info()[0], n, *known.given, *out)
    return tokens.tolist(), [(left[i], text[left[i + 1] : left[i + 2]].decode()) for i in range(0, 3 * found, 3)]
