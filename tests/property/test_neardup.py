from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.neardup import PERMUTATIONS, compute_signatures, estimate_jaccard

TEXTS = st.lists(st.text(st.characters(exclude_categories=[]), max_size=60), max_size=8)


@given(TEXTS)
def test_total_and_reflexive(texts: list[str]) -> None:
    marks = compute_signatures(texts)
    assert marks.shape == (len(texts), PERMUTATIONS)
    assert estimate_jaccard(marks, compute_signatures(["a"])).shape == (len(texts), 1)
    shares = estimate_jaccard(marks, marks)
    assert np.array_equal(shares, shares.T)
    assert (np.diag(shares) == 1).all()
    assert ((shares >= 0) & (shares <= 1)).all()


@given(st.integers(0, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_jaccard_is_the_naive_loop(n: int, m: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    a = chance.integers(0, 3, (n, PERMUTATIONS)).astype(np.uint32)
    b = chance.integers(0, 3, (m, PERMUTATIONS)).astype(np.uint32)
    naive = [[sum(x == y for x, y in zip(row, other, strict=True)) / PERMUTATIONS for other in b] for row in a]
    assert estimate_jaccard(a, b).dtype == np.float32
    assert np.allclose(estimate_jaccard(a, b), np.array(naive, dtype=np.float32).reshape(n, m))
