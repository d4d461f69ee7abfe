"""The installed kernels against loops in Python."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helix.errors import StoreError
from helix.native import postings as kernels
from helix.native.postings import RANGE, Postings, search_postings
from helix.native.rows import find_distinct, fuse_legs, list_neighbours
from helix.native.terms import count_terms, score_joined
from helix.native.vectors import build_vector_table, score_neighbours, score_tokens, score_vectors
from helix.native.zones import ZONE, build_zones, filter_range
from helix.ranking.bm25 import saturate_tf
from helix.ranking.topk import sort_rows
from tests.support.draws import draw_share


@given(st.integers(1, 70), st.integers(0, 50), st.integers(0, 2**32))
def test_score_vectors(d: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, scale = rng.integers(-127, 128, (30, d)).astype(np.int8), rng.random(30).astype(np.float32)
    query, rows = rng.normal(size=d).astype(np.float32), rng.integers(0, 30, n)
    found = score_vectors(codes, scale, rows, query)
    np.testing.assert_allclose(found, (codes[rows].astype(np.float64) @ query) * scale[rows], rtol=1e-4, atol=1e-3)
    for row in range(30):  # equal codes have equal products, to the bit
        assert len(set(found[rows == row].tolist())) <= 1


@given(st.integers(1, 40), st.integers(0, 20), st.floats(0, 1), st.integers(0, 2**32))
def test_score_neighbours(d: int, n: int, share: float, seed: int) -> None:
    """A missing neighbour is the zero vector; one of three parts is empty."""
    rng = np.random.default_rng(seed)
    codes, scale = rng.integers(-127, 128, (9, d)).astype(np.int8), rng.random(9).astype(np.float32) + 0.01
    query, rows = rng.normal(size=d).astype(np.float32), rng.integers(-1, 9, (3, n))
    rows[1] = np.maximum(rows[1], 0)
    parts = (slice(0, 4), slice(4, 4), slice(4, 9))
    held = build_vector_table([codes[part] for part in parts], [scale[part] for part in parts], d)
    alone, leaning = score_neighbours(held, rows, query, share)
    vectors = np.where(rows[..., None] < 0, 0, codes[rows] * scale[rows][..., None].astype(np.float64))
    whole = vectors[1] + np.float32(share) * (vectors[0] + vectors[2])
    length = np.maximum(np.linalg.norm(whole, axis=1), 1e-9)
    np.testing.assert_allclose(alone, vectors[1] @ query, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(leaning, whole @ query / length, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 70), st.lists(st.integers(0, 4), max_size=9), st.integers(0, 5), st.integers(0, 2**32))
def test_score_tokens(d: int, sizes: list[int], q: int, seed: int) -> None:
    """MaxSim by its definition, in Python; a passage or a question without tokens has 0."""
    rng = np.random.default_rng(seed)
    indptr = np.cumsum([0, *sizes], dtype=np.int64)
    codes = rng.integers(-127, 128, (int(indptr[-1]), d)).astype(np.int8)
    scale, query = rng.random(len(codes)).astype(np.float32) / 127, rng.normal(size=(q, d)).astype(np.float32)
    found = score_tokens(codes, scale, indptr, query)
    vectors, wanted = codes.astype(np.float64) * scale[:, None], []
    for low, high in pairwise(indptr.tolist()):
        best = [max(sum(v * w) for v in vectors[low:high]) for w in query] if high > low else []
        wanted.append(sum(best) / len(best) if best else 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    for i in range(len(sizes)):  # the others change nothing, to the bit
        part = slice(indptr[i], indptr[i + 1])
        alone = score_tokens(codes[part], scale[part], np.array([0, sizes[i]]), query)
        assert alone[0] == found[i]


LISTS = st.lists(st.lists(st.sampled_from([0, 1, 2, 255, 256, 257, 2**32 - 1]), max_size=9), max_size=6)


@given(LISTS, st.permutations([0, 1, 256, 300, 2**32 - 1]), st.integers(0, 5), st.data())
def test_count_terms(lists: list[list[int]], some: list[int], t: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8)) if lists else []
    terms, slots = some[:t], data.draw(st.permutations(range(t)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, t - 1), st.integers(0, t - 1)), max_size=3)) if t else []
    indptr = np.cumsum([0, *map(len, lists)])
    words = np.array([word for one in lists for word in one], np.uint32)
    count, follows = np.zeros((t, len(rows)), np.float32), np.zeros((len(pairs), len(rows)), np.float32)
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    arguments = np.array(rows, np.int64), np.array(terms, np.uint32), np.array(slots, np.int64)
    count_terms(indptr, words, *arguments, left, right, count, follows)
    term = {place: word for word, place in zip(terms, slots, strict=True)}
    assert count.tolist() == [[lists[row].count(term[k]) for row in rows] for k in range(t)]
    assert follows.tolist() == [
        [sum(two == (term[a], term[b]) for two in pairwise(lists[row])) for row in rows] for a, b in pairs
    ]


def test_lists_outside_the_words_are_not_read() -> None:
    words, terms, slot, none = np.zeros(3, "u4"), np.zeros(1, "u4"), np.zeros(1, "i8"), np.empty(0, "i8")
    count, follows = np.zeros((1, 2), np.float32), np.empty((0, 2), np.float32)
    outside = [(bounds, [0, 1]) for bounds in ([0, 2, 9], [0, -1, 2], [0, 3, 2], [5, 6, 7], [0, 1])]
    for bounds, rows in (*outside, ([0, 1, 2], [0, -1])):
        with pytest.raises(StoreError):
            count_terms(np.array(bounds), words, np.array(rows), terms, slot, none, none, count, follows)


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 9), st.integers(0, 2**32))
def test_score_joined(t: int, width: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, weight = rng.integers(0, 3, (t, 7)).astype(np.float32), rng.random(t).astype(np.float32)
    place = rng.integers(0, 7, (width, n))
    length = np.maximum(count.sum(axis=0), rng.integers(0, 9, 7)).astype(np.float32)
    for b in (0.6, 1.0):
        each = saturate_tf(count[:, place].sum(axis=1), length[place].sum(axis=0), 4.5, 1.2, b)
        found = score_joined(count, place, weight, length, 4.5, 1.2, b)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, (weight[:, None] * each).sum(axis=0), rtol=1e-5)


def test_list_neighbours() -> None:
    """Rows 3, 0, 2 and 1 are one session, row 4 is another."""
    previous, following = np.array([3, 2, 0, -1, -1], np.int32), np.array([2, -1, 1, 0, -1], np.int32)
    expected = [[-1, -1, 3, 0, 2], [3, 0, 2, 1, -1], [-1, -1, 4, -1, -1], [0, 2, 1, -1, -1]]
    assert list_neighbours(previous, following, np.array([3, 2, 4, 1])).T.tolist() == expected
    for row in (-1, 5):
        with pytest.raises(StoreError):
            list_neighbours(previous, following, np.array([0, row]))


@given(st.lists(st.sampled_from([-1, 0, 1, 2**31, 2**40, 2**62, -(2**62)]), max_size=40))
@example(np.random.default_rng(1).integers(0, 3_000, 5_000).tolist())
def test_find_distinct(values: list[int]) -> None:
    found, place = find_distinct(np.array(values, np.int64))
    assert found.tolist() == list(dict.fromkeys(values))
    assert found[place].tolist() == values


@given(st.data())
@draw_share(2)
def test_fuse_legs(data: st.DataObject) -> None:
    """Few rows, weights and keys, so that scores and keys tie."""
    legs = data.draw(st.lists(st.lists(st.integers(0, 11), unique=True, max_size=12), max_size=3))
    weights = data.draw(st.lists(st.sampled_from([0.5, 1.0]), min_size=len(legs), max_size=len(legs)))
    key = np.array(data.draw(st.lists(st.sampled_from([0, 5, 2**63, 2**64 - 1]), min_size=12, max_size=12)), np.uint64)
    score: dict[int, float] = {}
    for leg, weight in zip(legs, weights, strict=True):
        for place, row in enumerate(leg):
            score[row] = score.get(row, 0.0) + weight / (7.5 + place + 1)
    best = sorted(score, key=lambda row: (-float(np.float32(score[row])), int(key[row])))
    given_legs = [np.array(leg, np.uint32) for leg in legs]
    rows, found, ranks = fuse_legs(given_legs, weights, 7.5, key)
    assert rows.tolist() == best
    assert found.tolist() == [float(np.float32(score[row])) for row in best]
    expected = [[leg.index(row) + 1.0 if row in leg else None for row in best] for leg in legs]
    assert [[None if np.isnan(rank) else rank for rank in row.tolist()] for row in ranks] == expected
    with pytest.raises(StoreError):
        fuse_legs([*given_legs, np.array([12], np.uint32)], [*weights, 1.0], 7.5, key)
    with pytest.raises(TypeError):
        fuse_legs([*given_legs, np.array([1])], [*weights, 1.0], 7.5, key)  # int64


def test_fuse_legs_of_many() -> None:
    rng = np.random.default_rng(2)
    key = rng.integers(0, 2**63, 50_000).astype(np.uint64)
    legs = [rng.permutation(50_000)[:5_000].astype(np.uint32) for _ in range(3)]
    rows, score, ranks = fuse_legs(legs, [1.0, 1.0, 1.0], 60, key)
    assert np.array_equal(np.sort(rows), np.unique(np.concatenate(legs)))
    assert np.array_equal(sort_rows(score, key[rows]), np.arange(len(rows)))
    for leg, rank in zip(legs, ranks, strict=True):
        assert np.array_equal(rows[np.argsort(rank)[: len(leg)]], leg)


def make_postings(*terms: list[tuple[int, list[int]]]) -> Postings:
    """Make postings with a term frequency of 1, from (start, rows) of the parts of each term."""
    parts = [part for term in terms for part in term]
    rows = [np.array(part, np.uint32) for _, part in parts]
    first, start = np.cumsum([0, *map(len, terms)]), np.array([start for start, _ in parts], np.int64)
    return Postings(first, start, rows, [np.ones(len(part), np.uint16) for part in rows])


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_search_postings_by_hand() -> None:
    """A gain is weight / (norm + 1); row 3 has both terms and is in the second part of one of them."""
    norm = numbers(1, 1, 1, 3, 1)
    postings = make_postings([(0, [1]), (2, [1])], [(0, [0, 3, 4])])
    rows, scores, floor = search_postings(postings, numbers(8, 4), numbers(12, 4, 0), None, norm, 2, 0.999)
    assert dict(zip(rows.tolist(), scores.tolist(), strict=True))[3] == 8 / 4 + 4 / 4
    assert sorted(scores.tolist())[-2:] == [3, 4]
    assert floor == pytest.approx(3 * 0.999)
    allowed = np.array([1, 0, 1, 0, 1], bool)
    rows, scores, _ = search_postings(postings, numbers(8, 4), numbers(12, 4, 0), allowed, norm, 2, 0.999)
    assert rows.tolist() == [0, 4]
    assert scores.tolist() == [2, 2]


def test_postings_outside_the_rows_or_out_of_order_are_an_error() -> None:
    norm, one = np.ones(5, np.float32), (numbers(1), numbers(1, 0))
    for bad in ([0, 5], [2**32 - 1], [3, 0, 4]):
        for postings in (make_postings([(0, bad)]), make_postings([(0, [0])], [(0, bad)])):
            terms = len(postings.first) - 1
            given = np.ones(terms, np.float32), np.ones(terms + 1, np.float32)
            with pytest.raises(StoreError, match="none of 5 rows"), patch.object(kernels, "RANGE", 2):
                search_postings(postings, *given, None, norm, 1, 1.0)
    with pytest.raises(StoreError):
        search_postings(make_postings([(3, [0, 2])]), *one, None, norm, 1, 1.0)
    postings = make_postings([(0, [0, 1])])
    for unfit in (  # arrays that do not fit together are not read
        (postings, *one, np.ones(4, bool)),
        (postings, numbers(1, 1), numbers(1, 0), None),
        (postings._replace(tf=[np.ones(1, np.uint16)]), *one, None),
        (postings._replace(start=np.zeros(2, np.int64)), *one, None),
    ):
        with pytest.raises(ValueError):
            search_postings(*unfit, norm, 1, 1.0)


def test_postings_that_cannot_lift_a_row_into_the_top_are_not_read() -> None:
    """The frequent term is out of order where no row has the rare one: reading it there would raise an error."""
    rows = 3 * RANGE
    frequent = list(range(rows))
    frequent[RANGE + 10] = 0
    postings, norm = make_postings([(0, [5, 2 * RANGE + 7])], [(0, frequent)]), np.ones(rows, np.float32)
    given = postings, numbers(10, 1), numbers(11, 1, 0), None, norm, 1, 1.0
    found, scores, _ = search_postings(*given, 2.0)
    assert found.tolist() == [5, 2 * RANGE + 7]
    assert scores.tolist() == [5.5, 5.5]
    with pytest.raises(StoreError):
        search_postings(*given[:-2], 3, 1.0)  # the third row has only the frequent term


@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from([1, 7, 64, 1024]), st.integers(0, 2**32))
def test_the_top_rows_are_complete(k: int, terms: int, width: int, seed: int) -> None:
    """Each has every gain, summed in the order of the terms: with few postings in a range, with many, and both."""
    rng = np.random.default_rng(seed)
    n = 60
    norm, allowed = rng.random(n).astype(np.float32) + np.float32(0.2), rng.random(n) < 0.7
    weight = np.sort(rng.random(terms).astype(np.float32))[::-1].copy()
    rest = np.cumsum([0, *weight[::-1] * np.float32(1.001)])[::-1].astype(np.float32)
    held = [np.flatnonzero(rng.random(n) < share).tolist() for share in rng.choice([0.03, 0.2, 0.6], terms)]
    whole = np.zeros(n, np.float32)
    for rows, each in zip(held, weight, strict=True):
        whole[rows] += np.where(allowed[rows], np.float32(1) / (norm[rows] + np.float32(1)) * each, np.float32(0))
    postings = make_postings(*([(0, rows)] for rows in held))
    with patch.object(kernels, "RANGE", width), patch.object(kernels, "LOOK_UP", int(rng.integers(0, 3))):
        found, scores, floor = search_postings(postings, weight, rest, allowed, norm, k, 0.999)
    chosen = np.argsort(-whole, kind="stable")[:k]
    chosen = chosen[whole[chosen] > 0]
    assert set(chosen.tolist()) <= set(found.tolist())
    assert len(set(found.tolist())) == len(found)
    assert scores.tolist() == whole[found].tolist()
    assert floor <= whole[chosen].min(initial=np.inf)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@given(st.data())
def test_filter_range(dtype: str, data: st.DataObject) -> None:
    """Zones of one value, inside, outside and mixed; bounds beyond the dtype."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    runs = data.draw(st.lists(st.tuples(st.integers(int(least), int(most)), st.integers(1, 400)), max_size=6))
    counts = [count for _, count in runs]
    values = np.repeat(np.array([value for value, _ in runs], dtype), counts)
    first = np.cumsum([0, *counts])[: len(runs)]
    bounds = build_zones(values, first[data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))])
    alive = np.random.default_rng(len(values)).random(len(values)) < 0.8
    ends = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([value for value, _ in runs] or [0]))
    low, high = data.draw(ends), data.draw(ends)
    expected = [lives and low <= value <= high for value, lives in zip(values.tolist(), alive, strict=True)]
    passed = np.ones(len(values), bool)
    assert filter_range(values, bounds, low, high, alive, passed) == sum(expected)
    assert passed.tolist() == expected
    assert filter_range(values, bounds, low, high, None, passed) == passed.sum()
    assert passed.tolist() == [low <= value <= high for value in values.tolist()]
    longer, other = np.append(alive, True), build_zones(np.zeros(len(values) + 1, dtype), first)
    for zones, lives, target in ((bounds, alive, longer), (bounds, longer, passed), (other, alive, passed)):
        with pytest.raises(ValueError):
            filter_range(values, zones, low, high, lives, target)


def test_zones_have_a_largest_size_and_decide_without_reading_values() -> None:
    bounds = build_zones(np.arange(3 * ZONE), np.array([0, 5, 2 * ZONE + 7]))
    assert bounds.begin.tolist() == [0, 5, ZONE, 2 * ZONE, 2 * ZONE + 7, 3 * ZONE]
    assert bounds.least.tolist() == bounds.begin[:-1].tolist()
    assert bounds.most.tolist() == (bounds.begin[1:] - 1).tolist()
    bounds = build_zones(np.arange(3 * ZONE), np.array([], np.int64))
    every, passed = np.ones((2, 3 * ZONE), bool)
    filter_range(np.full(3 * ZONE, -1), bounds, ZONE, 2 * ZONE - 1, every, passed)  # no value would pass
    assert np.flatnonzero(passed).tolist() == list(range(ZONE, 2 * ZONE))
