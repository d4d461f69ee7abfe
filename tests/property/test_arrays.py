"""Compressed sparse rows against lists of lists; quantising against its error bound; the best rows against a sort."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helix.ranking.topk import select_top, sort_rows
from helix.snapshot.segment.arrays import expand_rows, flatten_rows, invert_csr, quantise_vectors

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=12)


def csr(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    return indptr, np.array([value for row in lists for value in row], np.uint64)


@given(lists=LISTS, data=st.data())
def test_taking_rows(lists: list[list[int]], data: st.DataObject) -> None:
    indptr, flat = csr(lists)
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    out, positions = flatten_rows(indptr, np.array(rows, np.int64))
    assert [flat[positions[a:b]].tolist() for a, b in pairwise(out)] == [lists[row] for row in rows]
    assert expand_rows(indptr).tolist() == [row for row, values in enumerate(lists) for _ in values]


@given(lists=LISTS)
def test_inverting(lists: list[list[int]]) -> None:
    indptr, flat = csr(lists)
    keys, starts, rows, order = invert_csr(indptr, flat)
    found = {int(key): rows[a:b].tolist() for key, a, b in zip(keys, starts, starts[1:], strict=False)}
    expected: dict[int, list[int]] = {}
    for row, values in enumerate(lists):
        for value in values:
            expected.setdefault(value, []).append(row)
    assert found == expected
    assert keys.tolist() == sorted(expected)
    assert flat[order].tolist() == np.repeat(keys, np.diff(starts)).tolist()


@given(values=st.lists(st.lists(st.floats(-2, 2, width=32), min_size=4, max_size=4), min_size=1, max_size=6))
def test_quantising_errs_by_half_a_step_at_most(values: list[list[float]]) -> None:
    vectors = np.array(values, np.float32)
    codes, scale = quantise_vectors(vectors)
    assert codes.dtype == np.int8
    error = np.abs(codes * scale[:, None] - vectors).max(axis=1)
    assert (error <= scale / 2 * 1.001 + 1e-30).all()


SCORES = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, math.inf, -math.inf]), st.floats(width=32))
ROWS = st.lists(st.tuples(SCORES, st.integers(0, 9)), max_size=60)


@given(ROWS, st.integers(-1, 70))
def test_top_k_is_the_sorted_oracle(rows: list[tuple[float, int]], k: int) -> None:
    scores = np.array([score for score, _ in rows], dtype=np.float32)
    tie = np.array([key for _, key in rows], dtype=np.uint64)
    oracle = sorted(
        range(len(rows)),
        key=lambda i: (math.isnan(rows[i][0]), 0.0 if math.isnan(rows[i][0]) else -rows[i][0], rows[i][1], i),
    )
    assert sort_rows(scores, tie).tolist() == oracle
    assert select_top(scores, tie, k).tolist() == oracle[: max(k, 0)]
