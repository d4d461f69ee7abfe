from __future__ import annotations

import numpy as np

from helix.ranking.topk import select_top, sort_rows

NAN = float("nan")


def _scores(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def test_descending_score_then_ascending_tie_key_then_nan() -> None:
    scores = _scores(1, NAN, 3, 1, 3, NAN)
    tie = np.array([9, 2, 7, 4, 6, 1], dtype=np.uint64)
    assert sort_rows(scores, tie).tolist() == [4, 2, 3, 0, 5, 1]


def test_zero_and_minus_zero_tie() -> None:
    assert sort_rows(_scores(0.0, -0.0), np.array([2, 1])).tolist() == [1, 0]


def test_the_tie_key_chooses_at_the_boundary() -> None:
    scores = _scores(1, 1, 1, 2, 1)
    tie = np.array([5, 3, 4, 9, 1], dtype=np.uint64)
    assert select_top(scores, tie, 3).tolist() == [3, 4, 1]


def test_large_unsigned_keys_keep_their_order() -> None:
    tie = np.array([2**64 - 1, 2**63, 1], dtype=np.uint64)
    assert sort_rows(_scores(1, 1, 1), tie).tolist() == [2, 1, 0]
    assert select_top(_scores(1, 1, 1), tie, 2).tolist() == [2, 1]


def test_nan_fills_up_only_at_the_end() -> None:
    scores = _scores(NAN, 1, NAN, NAN)
    tie = np.array([3, 9, 2, 1])
    assert select_top(scores, tie, 3).tolist() == [1, 3, 2]


def test_sizes() -> None:
    scores, tie = _scores(1, 2), np.array([0, 1])
    assert select_top(scores, tie, 0).tolist() == []
    assert select_top(scores, tie, -1).tolist() == []
    assert select_top(scores, tie, 9).tolist() == [1, 0]
    assert select_top(_scores(), np.array([], dtype=np.uint64), 5).tolist() == []
    assert select_top(scores, tie, 1).dtype == np.intp


def test_the_input_is_left_alone() -> None:
    scores, tie = _scores(1, 3, 2), np.array([3, 2, 1])
    select_top(scores, tie, 2)
    assert scores.tolist() == [1, 3, 2]
    assert tie.tolist() == [3, 2, 1]
