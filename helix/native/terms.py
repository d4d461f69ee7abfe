"""Terms in texts: counts, BM25 of several rows together, n-grams (`terms.c`)."""

from __future__ import annotations

from helix.native.arrays import FLOAT32, INT64, UINT8, UINT32, UINT64, allocate, check_array, explain_damage
from helix.native.library import FLOAT, INT, POINTER, SHORT, UINT, declare_kernel
from helix.types import F32, I64, U8, U32, U64

_count_terms = declare_kernel(
    SHORT, "count_terms", *[POINTER, INT] * 3, *[POINTER] * 2, INT, *[POINTER] * 2, INT, INT, *[POINTER] * 2
)
_score_joined = declare_kernel(
    SHORT, "score_joined", POINTER, INT, INT, POINTER, INT, INT, *[POINTER] * 2, *[FLOAT] * 4, POINTER
)
_find_ngrams = declare_kernel(SHORT, "find_ngrams", *[POINTER] * 2, INT, POINTER, INT, POINTER, UINT, *[POINTER] * 3)


def count_terms(
    indptr: I64, words: U32, rows: I64, terms: U32, slot: I64, left: I64, right: I64, count: F32, follows: F32
) -> None:
    """Count some terms in the word lists of some rows, and how often one directly follows another.

    Args:
        indptr: int64[n + 1], words: uint32[w]: the list of each row.
        rows: int64[m].
        terms: uint32[k], distinct; slot: int64[k], below t: the row of `count` for each.
        left: int64[p], right: int64[p]: the pairs, by the slots of their terms.
        count: float32[t, m], zeros; written to.
        follows: float32[p, m], zeros; written to.

    Raises:
        StoreError: a row has no list, or one that exceeds `words`.
    """
    w, m, k, p, t = len(words), len(rows), len(terms), len(left), len(count)
    failed = _count_terms(
        check_array("indptr", indptr, INT64, max(len(indptr), 1)),
        len(indptr) - 1,
        check_array("words", words, UINT32, w),
        w,
        check_array("rows", rows, INT64, m),
        m,
        check_array("terms", terms, UINT32, k),
        check_array("slot", slot, INT64, k),
        k,
        check_array("left", left, INT64, p),
        check_array("right", right, INT64, p),
        p,
        t,
        check_array("count", count, FLOAT32, t, m, written=True),
        check_array("follows", follows, FLOAT32, p, m, written=True),
    )
    if failed == -2:
        raise ValueError(f"a term has a slot outside {t} slots")
    if failed:
        raise explain_damage(f"a row's list of terms exceeds the {w} terms of its segment")


def score_joined(count: F32, place: I64, weight: F32, length: F32, mean_length: float, k1: float, b: float) -> F32:
    """Return the BM25 of n texts, each joined from some of u rows: float32[n].

    Equals `helix.ranking.bm25.saturate_tf` times the weights, summed in the order of the terms.

    Args:
        count: float32[t, u], the frequency of each term in each row.
        place: int64[rows of a text, n], below u.
        weight: float32[t], the idf of each term.
        length: float32[u].
        mean_length: of the texts.
    """
    (t, u), (width, n) = count.shape, place.shape
    out, out_at = allocate(FLOAT32, n)
    failed = _score_joined(
        check_array("count", count, FLOAT32, t, u),
        t,
        u,
        check_array("place", place, INT64, width, n),
        width,
        n,
        check_array("weight", weight, FLOAT32, t),
        check_array("length", length, FLOAT32, u),
        k1 + 1,
        k1,
        1 - b,
        b / mean_length,
        out_at,
    )
    if failed:
        raise ValueError(f"a place is outside {u} rows")
    return out


def find_ngrams(text: I64, terms: U32, power: U64, wanted: U8) -> tuple[U64, I64, I64]:
    """Return n-grams of terms whose keys pass a bit filter: (key uint64[m], first term int64[m], terms int64[m]).

    Args:
        text: int64[n], the text of each term; those of one text are adjacent.
        terms: uint32[n].
        power: uint64[longest]: the key is Σ (term + 1) · power[i] over the n-gram, modulo 2⁶⁴.
        wanted: uint8[2ᵇ]: one bit for each value of the lowest 3 + b bits of a key, lowest first.
    """
    n, longest, filter_size = len(terms), len(power), len(wanted)
    if filter_size.bit_count() != 1:
        raise ValueError(f"wanted has {filter_size} bytes, not a power of two")
    most = n * longest
    (key, key_at), (start, start_at), (size, size_at) = (
        allocate(UINT64, most),
        allocate(INT64, most),
        allocate(INT64, most),
    )
    found = _find_ngrams(
        check_array("text", text, INT64, n),
        check_array("terms", terms, UINT32, n),
        n,
        check_array("power", power, UINT64, longest),
        longest,
        check_array("wanted", wanted, UINT8, filter_size),
        8 * filter_size - 1,
        key_at,
        start_at,
        size_at,
    )
    return key[:found], start[:found], size[:found]
