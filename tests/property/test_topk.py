from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helix.ranking.topk import select_top, sort_rows

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
