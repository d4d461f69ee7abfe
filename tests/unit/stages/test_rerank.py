"""The blend of scores with a reranker's, and its guard rail, by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helix.errors import UsageError
from helix.stages.rerank import MAX_ITEMS, check_top, explain_unusable, maxsim, maxsims
from helix.stages.rerank import rerank as blend
from tests.support.tiny import f32


def test_maxsim_by_hand() -> None:
    query = f32(1, 0, 0, 1).reshape(2, 2)
    passage = f32(0.6, 0.8, 1, 0, -1, 0).reshape(3, 2)
    assert maxsim(query, passage) == pytest.approx((1 + 0.8) / 2)
    assert maxsim(query, passage[2:]) == pytest.approx((-1 + 0) / 2)
    assert maxsim(query[:0], passage) == maxsim(query, passage[:0]) == 0
    scores = maxsims(query, [passage, passage[2:]])
    assert scores.dtype == np.float32
    assert scores == pytest.approx([0.9, -0.5])


def test_more_than_thirty_are_refused_with_the_reason() -> None:
    check_top(1)
    check_top(MAX_ITEMS)
    with pytest.raises(UsageError, match=r"forward pass .* all-support@10 from \.907 to \.467; give at most 30"):
        check_top(31)
    with pytest.raises(UsageError, match="rerank 0 items"):
        check_top(0)
    with pytest.raises(UsageError, match="at most 30"):
        blend(np.linspace(1, 0, 50, dtype=np.float32), np.linspace(0, 1, 31, dtype=np.float32), 0.5)
    with pytest.raises(UsageError, match=r"a rerank weight of 1\.5"):
        blend(f32(1, 0), f32(0, 1), 1.5)
    with pytest.raises(UsageError, match="3 rerank scores for 2 items"):
        blend(f32(1, 0), f32(0, 1, 2), 0.5)


def test_the_blend_by_hand() -> None:
    final = f32(0.9, 0.7, 0.5, 0.4, 0.1)
    # f = 1, .5, 0 and s = 0, .5, 1; between .5 and .9.
    assert blend(final, f32(1, 2, 3), 0.25) == pytest.approx([0.8, 0.7, 0.6, 0.4, 0.1])
    assert blend(final, f32(1, 2, 3), 1) == pytest.approx([0.5, 0.7, 0.9, 0.4, 0.1])
    assert (blend(final, f32(1, 2, 3), 0) == final).all()
    assert blend(final, f32(-5, 0, 5, 5, 5), 1) == pytest.approx([0.1, 0.5, 0.9, 0.9, 0.9])  # all of them
    assert (final == f32(0.9, 0.7, 0.5, 0.4, 0.1)).all()  # the input is unchanged
    assert np.argsort(-blend(f32(0.5, 0.5, 0.5, 0.5), f32(1, 3, 2), 0.5)).tolist() == [1, 2, 0, 3]  # ties are broken


def test_scores_that_add_to_the_ranking_by_hand() -> None:
    """f = 1, .5, 0; 4·f + s = 4, 3, 5, scaled to .5, 0, 1 and to .9 and .5."""
    final = f32(0.9, 0.7, 0.5, 0.4)
    assert blend(final, f32(0, 1, 5), 0.25, 4.0) == pytest.approx([0.7, 0.5, 0.9, 0.4])
    assert blend(final, f32(0, 0.1, 0.2), 0.25, 4.0)[:3].tolist() == sorted(final[:3].tolist(), reverse=True)


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0])
def test_no_item_passes_the_border_of_the_top_at_any_scores(weight: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 60))
        m = int(rng.integers(1, min(n, MAX_ITEMS) + 1))
        # Few different values: ties inside, outside and across the border.
        final = np.sort(rng.integers(0, int(rng.integers(1, 8)), n).astype(np.float32) / 7)[::-1].copy()
        new = blend(final, rng.normal(size=m).astype(np.float32), weight)
        assert new.dtype == np.float32
        assert (new[m:] == final[m:]).all()
        if 1 < m < n:
            assert new[:m].min() > new[m:].max()
        assert new.max() <= final[0] + 2e-4


def test_unusable_scores_leave_the_order_and_give_the_reason() -> None:
    final = f32(0.9, 0.7, 0.5, 0.4)
    for scores, reason in (
        ([0.5, 0.5, 0.5], r"all 3 rerank scores are the same \(0\.5\)"),
        ([0.5, np.nan, 0.7], "1 of 3 rerank scores are not finite"),
        ([np.inf, 0.1, -np.inf], "2 of 3 rerank scores are not finite"),
        ([], "there are no rerank scores"),
    ):
        assert re.search(reason, explain_unusable(f32(*scores)))
        assert (blend(final, f32(*scores), 1) == final).all()
    assert explain_unusable(f32(0.1, 0.2)) == ""
