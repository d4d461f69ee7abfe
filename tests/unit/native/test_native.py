"""The compiled kernels against loops in Python, on what an installation made of them."""

from __future__ import annotations

import ctypes
import subprocess
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helix import native
from helix.errors import KernelsError, StoreError
from helix.native import (
    RANGE,
    ZONE,
    Postings,
    around,
    best_rows,
    between,
    count_terms,
    distinct,
    fuse_legs,
    inner_products,
    leaning_products,
    pooled,
    vectors_of,
    zones,
)
from helix.ranking.bm25 import saturate
from helix.ranking.topk import order
from helix.types import F32
from tests.support.kernels import CALLS, COPIED, of_another_kind, places, replaced


@given(st.integers(1, 70), st.integers(0, 50), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_inner_products(d: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, scale = rng.integers(-127, 128, (30, d)).astype(np.int8), rng.random(30).astype(np.float32)
    query, rows = rng.normal(size=d).astype(np.float32), rng.integers(0, 30, n)
    found = inner_products(codes, scale, rows, query)
    np.testing.assert_allclose(found, (codes[rows].astype(np.float64) @ query) * scale[rows], rtol=1e-4, atol=1e-3)
    for row in range(30):  # equal codes have equal products, to the bit
        assert len(set(found[rows == row].tolist())) <= 1


@given(st.integers(1, 40), st.integers(0, 20), st.floats(0, 1), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_leaning_products(d: int, n: int, share: float, seed: int) -> None:
    """A neighbour that is not there is the zero vector. The rows lie in three parts, of which one is empty."""
    rng = np.random.default_rng(seed)
    codes, scale = rng.integers(-127, 128, (9, d)).astype(np.int8), rng.random(9).astype(np.float32) + 0.01
    query, rows = rng.normal(size=d).astype(np.float32), rng.integers(-1, 9, (3, n))
    rows[1] = np.maximum(rows[1], 0)
    parts = (slice(0, 4), slice(4, 4), slice(4, 9))
    held = vectors_of([codes[part] for part in parts], [scale[part] for part in parts], d)
    alone, leaning = leaning_products(held, rows, query, share)
    vectors = np.where(rows[..., None] < 0, 0, codes[rows] * scale[rows][..., None].astype(np.float64))
    whole = vectors[1] + np.float32(share) * (vectors[0] + vectors[2])
    length = np.maximum(np.linalg.norm(whole, axis=1), 1e-9)
    np.testing.assert_allclose(alone, vectors[1] @ query, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(leaning, whole @ query / length, rtol=1e-3, atol=1e-3)


LISTS = st.lists(st.lists(st.sampled_from([0, 1, 2, 255, 256, 257, 2**32 - 1]), max_size=9), max_size=6)


@given(LISTS, st.permutations([0, 1, 256, 300, 2**32 - 1]), st.integers(0, 5), st.data())
@settings(deadline=None)
def test_count_terms(lists: list[list[int]], some: list[int], t: int, data: st.DataObject) -> None:
    """Terms and pairs in the lists of some rows; each term is counted where `of` says."""
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8)) if lists else []
    terms, of = some[:t], data.draw(st.permutations(range(t)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, t - 1), st.integers(0, t - 1)), max_size=3)) if t else []
    indptr = np.cumsum([0, *map(len, lists)])
    said = np.array([word for one in lists for word in one], np.uint32)
    count, follows = np.zeros((t, len(rows)), np.float32), np.zeros((len(pairs), len(rows)), np.float32)
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    asked = np.array(rows, np.int64), np.array(terms, np.uint32), np.array(of, np.int64)
    count_terms(indptr, said, *asked, left, right, count, follows)
    term = {place: word for word, place in zip(terms, of, strict=True)}
    assert count.tolist() == [[lists[row].count(term[k]) for row in rows] for k in range(t)]
    assert follows.tolist() == [
        [sum(two == (term[a], term[b]) for two in pairwise(lists[row])) for row in rows] for a, b in pairs
    ]


@pytest.mark.parametrize("indptr", [[0, 2, 9], [0, -1, 2], [0, 3, 2], [5, 6, 7]])
def test_lists_that_lie_elsewhere_are_not_read(indptr: list[int]) -> None:
    said, terms, one, none = (
        np.zeros(3, np.uint32),
        np.zeros(1, np.uint32),
        np.zeros(1, np.int64),
        np.empty(0, np.int64),
    )
    count, follows = np.zeros((1, 2), np.float32), np.empty((0, 2), np.float32)
    for bounds, rows in ((indptr, [0, 1]), ([0, 1], [0, 1]), ([0, 1, 2], [0, -1])):
        with pytest.raises(StoreError):
            count_terms(np.array(bounds), said, np.array(rows), terms, one, none, none, count, follows)


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 9), st.integers(0, 2**32))
@settings(deadline=None)
def test_pooled(t: int, width: int, n: int, seed: int) -> None:
    """Against `saturate`, over the rows of each text together; a text without terms has nothing."""
    rng = np.random.default_rng(seed)
    count, weight = rng.integers(0, 3, (t, 7)).astype(np.float32), rng.random(t).astype(np.float32)
    place, length = (
        rng.integers(0, 7, (width, n)),
        np.maximum(count.sum(axis=0), rng.integers(0, 9, 7)).astype(np.float32),
    )
    for b in (0.6, 1.0):
        each = saturate(count[:, place].sum(axis=1), length[place].sum(axis=0), 4.5, 1.2, b)
        found = pooled(count, place, weight, length, 4.5, 1.2, b)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, (weight[:, None] * each).sum(axis=0), rtol=1e-5)


def test_around() -> None:
    """Rows 3, 0, 2 and 1 are a session, 4 is one of its own."""
    previous, following = np.array([3, 2, 0, -1, -1], np.int32), np.array([2, -1, 1, 0, -1], np.int32)
    assert around(previous, following, np.array([3, 2, 4, 1])).T.tolist() == [
        [-1, -1, 3, 0, 2],
        [3, 0, 2, 1, -1],
        [-1, -1, 4, -1, -1],
        [0, 2, 1, -1, -1],
    ]
    for row in (-1, 5):
        with pytest.raises(StoreError):
            around(previous, following, np.array([0, row]))


@given(st.lists(st.sampled_from([-1, 0, 1, 2**31, 2**40, 2**62, -(2**62)]), max_size=40))
def test_distinct(values: list[int]) -> None:
    found, place = distinct(np.array(values, np.int64))
    assert found.tolist() == list(dict.fromkeys(values))
    assert found[place].tolist() == values


def test_distinct_of_many() -> None:
    values = np.random.default_rng(1).integers(0, 3_000, 5_000)
    found, place = distinct(values)
    assert np.array_equal(found[place], values)
    assert np.array_equal(np.sort(found), np.unique(values))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_fuse_legs(data: st.DataObject) -> None:
    """As a dictionary says it; few rows, weights and keys, so that scores and keys are equal now and then."""
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
    assert [[None if np.isnan(rank) else rank for rank in of.tolist()] for of in ranks] == expected
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
    assert np.array_equal(order(score, key[rows]), np.arange(len(rows)))
    for leg, of in zip(legs, ranks, strict=True):
        assert np.array_equal(rows[np.argsort(of)[: len(leg)]], leg)


def said(*terms: list[tuple[int, list[int]]]) -> Postings:
    """Postings with a term frequency of 1, from (the row a part counts from, its rows) of each term."""
    parts = [part for term in terms for part in term]
    rows = [np.array(part, np.uint32) for _, part in parts]
    first, start = np.cumsum([0, *map(len, terms)]), np.array([start for start, _ in parts], np.int64)
    return Postings(first, start, rows, [np.ones(len(part), np.uint16) for part in rows])


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_best_rows_by_hand() -> None:
    """1 / (norm + 1) of the weight each: row 3 has both terms, and lies in the second part of one of them."""
    norm = numbers(1, 1, 1, 3, 1)
    postings = said([(0, [1]), (2, [1])], [(0, [0, 3, 4])])
    rows, scores, floor = best_rows(postings, numbers(8, 4), numbers(12, 4, 0), None, norm, 2, 0.999)
    assert dict(zip(rows.tolist(), scores.tolist(), strict=True))[3] == 8 / 4 + 4 / 4
    assert sorted(scores.tolist())[-2:] == [3, 4]
    assert floor == pytest.approx(3 * 0.999)
    rows, scores, _ = best_rows(
        postings, numbers(8, 4), numbers(12, 4, 0), np.array([1, 0, 1, 0, 1], bool), norm, 2, 0.999
    )
    assert rows.tolist() == [0, 4]
    assert scores.tolist() == [2, 2]


@pytest.mark.parametrize("bad", [[0, 5], [2**32 - 1], [3, 0, 4]])
def test_postings_of_no_row_are_an_error(bad: list[int]) -> None:
    """Rows there are not, and rows out of order."""
    norm = np.ones(5, np.float32)
    for postings in (said([(0, bad)]), said([(0, [0])], [(0, bad)])):
        terms = len(postings.first) - 1
        given = np.ones(terms, np.float32), np.ones(terms + 1, np.float32)
        with pytest.raises(StoreError, match="none of 5 rows"), patch.object(native, "RANGE", 2):
            best_rows(postings, *given, None, norm, 1, 1.0)
    with pytest.raises(StoreError):
        best_rows(said([(3, [0, 2])]), numbers(1), numbers(1, 0), None, norm, 1, 1.0)


def test_arrays_that_do_not_fit_together_are_not_read() -> None:
    postings, one, norm = said([(0, [0, 1])]), (numbers(1), numbers(1, 0)), np.ones(5, np.float32)
    with pytest.raises(ValueError):
        best_rows(postings, *one, np.ones(4, bool), norm, 1, 1.0)
    with pytest.raises(ValueError):
        best_rows(postings, numbers(1, 1), numbers(1, 0), None, norm, 1, 1.0)
    with pytest.raises(ValueError):
        best_rows(postings._replace(tf=[np.ones(1, np.uint16)]), *one, None, norm, 1, 1.0)
    with pytest.raises(ValueError):
        best_rows(postings._replace(start=np.zeros(2, np.int64)), *one, None, norm, 1, 1.0)


def test_what_cannot_lift_a_row_among_the_best_is_not_read() -> None:
    """The frequent term is out of order where no row has the rare one: reading it there would be an error."""
    rows = 3 * RANGE
    frequent = list(range(rows))
    frequent[RANGE + 10] = 0
    postings, norm = said([(0, [5, 2 * RANGE + 7])], [(0, frequent)]), np.ones(rows, np.float32)
    given = postings, numbers(10, 1), numbers(11, 1, 0), None, norm, 1, 1.0
    found, scores, _ = best_rows(*given, 2.0)
    assert found.tolist() == [5, 2 * RANGE + 7]
    assert scores.tolist() == [5.5, 5.5]
    with pytest.raises(StoreError):
        best_rows(*given[:-2], 3, 1.0)  # three are wanted: the third has the frequent term alone


@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from([1, 7, 64]), st.integers(0, 2**32))
@settings(deadline=None)
def test_no_row_of_the_best_is_left_out(k: int, terms: int, width: int, seed: int) -> None:
    """Each of them with every gain, summed in the order of the terms."""
    rng = np.random.default_rng(seed)
    n = 60
    norm, allowed = rng.random(n).astype(np.float32) + np.float32(0.2), rng.random(n) < 0.7
    weight = np.sort(rng.random(terms).astype(np.float32))[::-1].copy()
    rest = np.cumsum([0, *weight[::-1] * np.float32(1.001)])[::-1].astype(np.float32)
    held = [np.flatnonzero(rng.random(n) < 0.6).tolist() for _ in range(terms)]
    whole = np.zeros(n, np.float32)
    for rows, each in zip(held, weight, strict=True):
        whole[rows] += np.where(allowed[rows], np.float32(1) / (norm[rows] + np.float32(1)) * each, np.float32(0))
    with patch.object(native, "RANGE", width):
        found, scores, floor = best_rows(said(*([(0, rows)] for rows in held)), weight, rest, allowed, norm, k, 0.999)
    chosen = np.argsort(-whole, kind="stable")[:k]
    chosen = chosen[whole[chosen] > 0]
    assert set(chosen.tolist()) <= set(found.tolist())
    assert len(set(found.tolist())) == len(found)
    assert scores.tolist() == whole[found].tolist()
    assert floor <= whole[chosen].min(initial=np.inf)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@given(st.data())
@settings(deadline=None)
def test_between(dtype: str, data: st.DataObject) -> None:
    """Zones of one value, all inside, all outside, and mixed; ends beyond what the dtype holds."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    runs = data.draw(st.lists(st.tuples(st.integers(int(least), int(most)), st.integers(1, 400)), max_size=6))
    counts = [count for _, count in runs]
    values = np.repeat(np.array([value for value, _ in runs], dtype), counts)
    first = np.cumsum([0, *counts])[: len(runs)]
    told = zones(values, first[data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))])
    alive = np.random.default_rng(len(values)).random(len(values)) < 0.8
    ends = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([value for value, _ in runs] or [0]))
    low, high = data.draw(ends), data.draw(ends)
    expected = [lives and low <= value <= high for value, lives in zip(values.tolist(), alive, strict=True)]
    passed = np.ones(len(values), bool)
    assert between(values, told, low, high, alive, passed) == sum(expected)
    assert passed.tolist() == expected
    assert between(values, told, low, high, None, passed) == passed.sum()
    assert passed.tolist() == [low <= value <= high for value in values.tolist()]
    with pytest.raises(ValueError):
        between(values, told, low, high, alive, np.append(alive, True))
    with pytest.raises(ValueError):
        between(values, told, low, high, np.append(alive, True), passed)
    with pytest.raises(ValueError):
        between(values, zones(np.zeros(len(values) + 1, dtype), first), low, high, alive, passed)


def test_zones_begin_where_they_have_to_and_are_not_too_long() -> None:
    told = zones(np.arange(3 * ZONE), np.array([0, 5, 2 * ZONE + 7]))
    assert told.begin.tolist() == [0, 5, ZONE, 2 * ZONE, 2 * ZONE + 7, 3 * ZONE]
    assert told.least.tolist() == told.begin[:-1].tolist()
    assert told.most.tolist() == (told.begin[1:] - 1).tolist()


def test_zones_decide_what_is_not_read() -> None:
    told = zones(np.arange(3 * ZONE), np.array([], np.int64))
    every, passed = np.ones((2, 3 * ZONE), bool)
    between(np.full(3 * ZONE, -1), told, ZONE, 2 * ZONE - 1, every, passed)  # had they been read, none would pass
    assert np.flatnonzero(passed).tolist() == list(range(ZONE, 2 * ZONE))


@pytest.mark.parametrize("code", ["int missing;", "long kernels_version(void) { return 1; }"])
def test_a_library_of_another_release_is_not_used(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its kernels would take what they are given for something else."""
    (tmp_path / "old.c").write_text(code)
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "old.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", native.LIBRARY, tmp_path / "old.c"], check=True)
    with pytest.raises(KernelsError, match="version 1, not"):
        native._load(ctypes.CDLL)


def test_a_library_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "none.so")
    with pytest.raises(KernelsError, match=r"none.so does not exist; install Helix anew where there is a C compiler"):
        native._load(ctypes.CDLL)
    native.LIBRARY.write_bytes(b"\x7fELF, but no more of it")
    with pytest.raises(KernelsError, match="cannot be loaded: "):
        native._load(ctypes.PyDLL)


def test_values_of_a_query_are_read_as_they_are() -> None:
    codes = np.eye(3, dtype=np.int8)
    query: F32 = np.array([1, 2, 3], np.float32)
    assert inner_products(codes, np.ones(3, np.float32), np.arange(3), query).tolist() == [1, 2, 3]


# ------------------------------------------------------------------ what a kernel is given


@pytest.mark.parametrize("name", CALLS)
def test_no_kernel_is_given_an_array_of_another_kind(name: str) -> None:
    """Each array of each call in turn: what is not read as it lies is an error, whatever the values."""
    make, call = CALLS[name]
    given_, taken = make(np.random.default_rng(5)), []
    call(**given_)
    for where, array in places(given_):
        for kind, other in of_another_kind(array):
            try:
                call(**replaced(given_, where, other))
                taken.append((where, kind))
            except (TypeError, ValueError, StoreError):
                pass
            except AttributeError:
                assert kind == "a list", (where, kind)
    assert [entry for entry in taken if (name, entry[0][0]) not in COPIED and (name, entry[1]) not in OF_ANY] == []


OF_ANY = {("in_steps", "an axis more")}
"""Kinds that are as good to a kernel: number for number, it does not ask for the shape."""

AS_LONG_AS_OTHERS = {
    "best_rows": ("first", "start", "tf", "rest"),
    "inner_products": ("scale", "query"),
    "leaning_products": ("codes", "rows", "query"),
    "best_coded": ("codes", "near", "added"),
    "code_parts": ("query",),
    "between": ("begin", "least", "most", "passed"),
    "count_terms": ("of", "right", "follows"),
    "pooled": ("weight", "length"),
    "wanted_runs": ("text", "wanted"),
    "around": ("following",),
    "walk": ("named", "session", "alive", "key", "session_size", "other", "confidence", "row", "hub_rows"),
}


@pytest.mark.parametrize("change", [-1, 1])
def test_arrays_that_do_not_fit_together_are_no_call(change: int) -> None:
    taken = set()
    for name, arguments in AS_LONG_AS_OTHERS.items():
        make, call = CALLS[name]
        given_ = make(np.random.default_rng(6))
        for where, array in places(given_):
            if where[0] in arguments:
                other = np.resize(array, (len(array) + change, *array.shape[1:]))
                try:
                    call(**replaced(given_, where, other))
                    taken.add((name, *where))
                except ValueError:
                    pass
    assert taken == set()


PLACES = (
    ("inner_products", ("rows",)),
    ("leaning_products", ("rows",)),
    ("count_terms", ("rows",)),
    ("count_terms", ("of",)),
    ("pooled", ("place",)),
    ("around", ("rows",)),
    ("between", ("begin",)),
    ("best_rows", ("first",)),
    ("best_rows", ("start",)),
    ("best_coded", ("chosen",)),
    ("best_coded", ("rows", 0)),
    ("walk", ("session",)),
    ("walk", ("nodes",)),
    ("walk", ("segments", 0, "mentions.indptr")),
    ("walk", ("segments", 1, "mentioned.indptr")),
    ("walk", ("segments", 0, "sessions.indptr")),
    ("walk", ("segments", 1, "links.indptr")),
)
"""Numbers that say where to read, by call and argument."""


@pytest.mark.parametrize("wrong", [-9, 10**6, 2**31 - 1, 2**62, -(2**63)])
def test_a_place_that_is_none_is_an_error_not_an_address(wrong: int) -> None:
    """One of many, at the end of them, so that all others are looked at, too."""
    read = set()
    for name, where in PLACES:
        make, call = CALLS[name]
        given_ = make(np.random.default_rng(8))
        array = next(found for at, found in places(given_) if at == where)
        low, high = (int(bound) for bound in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
        array.reshape(-1)[-1] = min(max(wrong, low), high)
        try:
            call(**given_)
            read.add((name, where))
        except (StoreError, ValueError):
            pass
    assert read == set()


def test_what_is_written_to_can_be_written_to() -> None:
    for name, written in (("between", ["passed"]), ("count_terms", ["count", "follows"])):
        make, call = CALLS[name]
        for each in written:
            given_ = make(np.random.default_rng(7))
            given_[each].flags.writeable = False
            with pytest.raises(TypeError, match=f"{each} cannot be written to"):
                call(**given_)


def test_an_error_names_the_array_and_what_belongs_there() -> None:
    values = np.arange(6)
    for wrong, why in (
        (values.astype(np.int32), "values is an array of int32, where int64 belongs"),
        (values[::2], "values does not lie in one piece: np.ascontiguousarray makes it one"),
        (values[None], r"values is of shape \(1, 6\), where \(1,\) belongs"),
        ([1, 2], "values is a list, where an array of int64 belongs"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            distinct(wrong)  # type: ignore[arg-type]
