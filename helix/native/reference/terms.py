"""The functions of `terms.c` in NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.native.arrays import FLOAT32, INT64, UINT8, UINT32, UINT64
from helix.native.reference.memory import view_array, write_array

_TINY: Final = np.float32(1e-9)


@np.errstate(all="ignore")
def count_terms(
    indptr: int, lists: int, words: int, w: int, rows: int, n: int, terms: int, slot: int, t: int, left: int,
    right: int, p: int, slots: int, count: int, follows: int,
) -> int:  # fmt: skip
    """Count t terms in the lists of n rows, float32[slots, n], and p pairs of adjacent terms, float32[p, n].

    Return −1 for a row without a list or with one outside the w words, −2 for a slot outside `slots`, else 0.
    """
    slot_of, chosen, ends = view_array(slot, INT64, t), view_array(rows, INT64, n), view_array(indptr, INT64, lists + 1)
    if ((slot_of < 0) | (slot_of >= slots)).any():
        return -2
    if ((chosen < 0) | (chosen >= lists)).any():
        return -1
    begin, end = ends[chosen], ends[chosen + 1]
    if ((begin < 0) | (end < begin) | (end > w)).any():
        return -1
    size = end - begin
    item = np.repeat(np.arange(n), size)  # the place of the row among n, of each word
    at = np.arange(len(item)) + np.repeat(begin - (np.cumsum(size) - size), size)
    word, first = np.unique(view_array(terms, UINT32, t), return_index=True)
    here = view_array(words, UINT32, w)[at]
    among = np.minimum(np.searchsorted(word, here), max(len(word) - 1, 0))
    known = np.flatnonzero(word[among] == here) if t else np.empty(0, np.int64)
    item, found = item[known], slot_of[first[among[known]]]
    np.add.at(view_array(count, FLOAT32, slots * n, written=True), found * n + item, np.float32(1))
    pair = np.flatnonzero((known[1:] == known[:-1] + 1) & (item[1:] == item[:-1]))
    before, after, item = found[pair], found[pair + 1], item[pair + 1]
    out = view_array(follows, FLOAT32, p, n, written=True)
    wanted = zip(view_array(left, INT64, p).tolist(), view_array(right, INT64, p).tolist(), strict=True)
    for q, (one, other) in enumerate(wanted):
        np.add.at(out[q], item[(before == one) & (after == other)], np.float32(1))
    return 0


@np.errstate(all="ignore")
def score_joined(
    count: int, t: int, u: int, place: int, width: int, n: int, weight: int, length: int, gain: float, k1: float,
    bare: float, longer: float, out: int,
) -> int:  # fmt: skip
    """Write the BM25 of n texts, each joined from `width` of u rows, float32[n].

    Return −1 for a place outside u, else 0.
    """
    places, lengths = view_array(place, INT64, width, n), view_array(length, FLOAT32, u)
    if ((places < 0) | (places >= u)).any():
        return -1
    counts, weights = view_array(count, FLOAT32, t, u), view_array(weight, FLOAT32, t)
    joined, total = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for each in places:
        joined += lengths[each]
    norm = np.float32(k1) * (np.float32(bare) + np.float32(longer) * joined)
    for k in range(t):
        tf = np.zeros(n, np.float32)
        for each in places:
            tf += counts[k, each]
        base = tf + norm
        total += weights[k] * (tf * np.float32(gain) / np.where(base > _TINY, base, _TINY))
    write_array(out, total)
    return 0


def find_ngrams(
    text: int, terms: int, n: int, power: int, longest: int, wanted: int, mask: int, key_out: int, start: int, size: int
) -> int:
    """Write the n-grams of up to `longest` terms of one text whose key has its bit set: (key, first term, terms).

    Return their number.
    """
    text_of, term = view_array(text, INT64, n), view_array(terms, UINT32, n).astype(np.uint64) + np.uint64(1)
    powers, bits = view_array(power, UINT64, longest), view_array(wanted, UINT8, (mask >> 3) + 1)
    key, keys, kept = np.zeros(n, np.uint64), np.zeros((n, longest), np.uint64), np.zeros((n, longest), np.bool_)
    first = np.arange(n)  # of those n-grams that are within one text
    for j in range(min(longest, n)):
        first = first[first < n - j]
        first = first[text_of[first + j] == text_of[first]]
        key[first] += term[first + j] * powers[j]
        each = key[first]
        bit = bits[(each & np.uint64(mask)) >> np.uint64(3)] >> (each & np.uint64(7)).astype(np.uint8)
        keys[first, j], kept[first, j] = each, (bit & 1) != 0
    row, last = np.nonzero(kept)
    write_array(key_out, keys[row, last])
    write_array(start, row.astype(np.int64))
    write_array(size, last.astype(np.int64) + 1)
    return len(row)
