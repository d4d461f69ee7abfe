"""The sparse leg against a dense product: filters, ties, several indexes of a segment, merged ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.native import postings as native
from helix.ranking.postings import WEIGHT_STEP
from helix.snapshot.index import sparse as impacts
from helix.snapshot.index.sparse import (
    SparseField,
    SparseIndex,
    merge_sparse,
    open_sparse,
    quantise_weights,
    write_sparse,
)
from helix.snapshot.manifest import Index
from helix.stages import sparse
from helix.stages.sparse import search_sparse
from helix.types import Plan, Sparse
from tests.support.draws import draw_share

VOCABULARY = 40


def weights_of(rng: np.random.Generator, rows: int, vocabulary: int = VOCABULARY, share: float = 0.3) -> Any:
    """float32[rows, vocabulary]: few different values, so that many rows tie; some rows are empty."""
    held = rng.random((rows, vocabulary)) < share * rng.random((1, vocabulary)) * 2
    held &= rng.random((rows, 1)) > 0.1
    return np.where(held, rng.choice([0.25, 0.5, 1.0, 3.0], (rows, vocabulary)), 0).astype(np.float32)


def index_of(folder: Path, weights: Any, rows: Any) -> SparseIndex:
    """An index of some rows of a segment whose weights are given."""
    row, term = np.nonzero(weights[rows])
    indptr = np.append(0, np.cumsum(np.bincount(row, minlength=len(rows)))).astype(np.int64)
    target = folder / "indexes" / f"{len(list(folder.glob('indexes/*')))}"
    write_sparse(
        target / impacts.KIND, rows.astype(np.uint32), indptr, term.astype(np.uint32), weights[rows][row, term]
    )
    return open_sparse(folder, Index(target.name, impacts.KIND, (), ()))


class World:
    """A random store of segments with one to three indexes each, and the same as one dense array."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 140))
        self.weights = weights_of(rng, n)
        self.key = rng.permutation(n).astype(np.uint64)
        bounds = [0, *sorted(rng.choice(np.arange(1, n), 3, replace=False).tolist()), n]
        self.parts = []
        for low, high in pairwise(bounds):
            for rows in np.array_split(rng.permutation(high - low), int(rng.integers(1, 4))):
                if len(rows):
                    self.parts.append((low, index_of(folder, self.weights[low:high], np.sort(rows))))
        self.field = SparseField(self.parts, n, np.ones(n, bool), self.key)

    def draw_question(self) -> Sparse:
        terms = np.sort(self.rng.choice(VOCABULARY + 5, int(self.rng.integers(1, 20)), replace=False))  # some unknown
        return Sparse(terms.astype(np.uint32), self.rng.choice([0.5, 1.0, 2.0], len(terms)).astype(np.float32))

    def naive(self, asked: Sparse, allowed: Any) -> Any:
        known = asked.terms < VOCABULARY
        scores = self.weights[:, asked.terms[known]] @ asked.weights[known]
        return np.where(allowed, scores, 0)


@pytest.fixture(params=["as it is", "every short cut"])
def short_cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "every short cut":
        monkeypatch.setattr(sparse, "_LOOK_UP", 2)
        monkeypatch.setattr(sparse, "_FEW", 2)
        monkeypatch.setattr(impacts, "_SMALL", 8)
        monkeypatch.setattr(impacts, "_AT_ONCE", 50)
        monkeypatch.setattr(native, "RANGE", 5)
        monkeypatch.setattr(native, "LOOK_UP", 1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("short_cuts")
def test_the_best_are_those_of_a_dense_product(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    n = len(world.key)
    for share in (1.0, 0.5, 0.05):
        allowed = world.rng.random(n) < share
        plan = Plan(None if allowed.all() else allowed, int(allowed.sum()))
        asked = world.draw_question()
        naive = world.naive(asked, allowed)
        order = [row for row in np.lexsort((world.key, -naive)).tolist() if naive[row] > 0]
        for k in (0, 1, 3, 10, 1_000):
            found = search_sparse(asked, world.field, plan, k)
            # Quarters times halves: exact in float32, so ties are ties and the whole order is known.
            assert found.rows.tolist() == order[:k]
            assert found.scores.tolist() == naive[order[:k]].tolist()
        rows = world.rng.permutation(n)
        assert world.field.scores(rows, asked).tolist() == world.naive(asked, True)[rows].tolist()


@pytest.mark.usefixtures("short_cuts")
@pytest.mark.parametrize("seed", range(4))
def test_merged_indexes_hold_what_their_parts_do(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    n = len(world.key)
    kept = world.rng.random(n) < 0.8
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    folder = tmp_path / "indexes" / "merged" / impacts.KIND
    rows = merge_sparse(folder, [(held, place[start + held.rows.astype(np.int64)]) for start, held in world.parts])
    assert rows.tolist() == list(range(int(kept.sum())))
    merged = open_sparse(tmp_path, Index("merged", impacts.KIND, (), ()))
    alone = index_of(tmp_path, world.weights[kept], np.arange(int(kept.sum())))
    found, expected = (
        {name: (array.dtype, array.tolist()) for name, array in index.arrays.items()} for index in (merged, alone)
    )
    assert found == expected


def test_of_a_row_in_two_indexes_the_first_counts(tmp_path: Path) -> None:
    one = index_of(tmp_path, np.array([[1, 0], [0, 2]], np.float32), np.array([0, 1]))
    other = index_of(tmp_path, np.array([[0, 3], [4, 0]], np.float32), np.array([0, 1]))
    folder = tmp_path / "indexes" / "both" / impacts.KIND
    rows = merge_sparse(folder, [(one, np.array([0, 1])), (other, np.array([1, 2]))])
    assert rows.tolist() == [0, 1, 2]
    field = SparseField([(0, open_sparse(tmp_path, Index("both", "", (), ())))], 3, np.ones(3, bool), np.arange(3))
    for term, expected in ((0, [1, 0, 4]), (1, [0, 2, 0])):
        asked = Sparse(np.array([term], np.uint32), np.ones(1, np.float32))
        assert field.scores(np.arange(3), asked).tolist() == expected
    assert merge_sparse(tmp_path / "none", [(one, np.array([-1, -1]))]).tolist() == []
    assert not (tmp_path / "none").exists()


def test_a_weight_is_kept_in_steps() -> None:
    given = np.array([0.0, WEIGHT_STEP / 3, WEIGHT_STEP, 1.0, 63.5, 64.0, 1e6], np.float32)
    assert quantise_weights(given).tolist() == [0, 0, 1, 1_024, 65_024, 65_535, 65_535]
    weights = np.linspace(0.001, 60, 7_919, dtype=np.float32)
    assert np.abs(quantise_weights(weights) * WEIGHT_STEP - weights).max() <= WEIGHT_STEP / 2 + 1e-5


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0.02, 1.0))
@draw_share(0.6)
def test_any_weights_are_searched_exactly(seed: int, k: int, share: float) -> None:
    """Weights of any size, whose sums are rounded: against the same float32 sums of every row, in the same order."""
    rng = np.random.default_rng(seed)
    n, terms = 50, 12
    weights = np.where(rng.random((n, terms)) < 0.5, rng.gamma(1.0, 1.0, (n, terms)), 0).astype(np.float32)
    weights[rng.integers(0, n, 10)] = weights[0]  # rows alike to the bit
    codes = quantise_weights(weights)
    held = SparseIndex(_arrays(codes))
    field = SparseField([(0, held)], n, np.ones(n, bool), rng.permutation(n).astype(np.uint64))
    asked = Sparse(np.arange(terms, dtype=np.uint32), rng.gamma(1.0, 1.0, terms).astype(np.float32))
    allowed = rng.random(n) < share
    found = search_sparse(asked, field, Plan(allowed, int(allowed.sum())), k)
    whole = np.zeros(n, np.float32)
    step = asked.weights * np.float32(WEIGHT_STEP)
    for term in np.lexsort((asked.terms, -step)).tolist():
        whole += codes[:, term] * step[term]
    order = [row for row in np.lexsort((field.key, -whole)).tolist() if allowed[row] and whole[row] > 0][:k]
    assert found.rows.tolist() == order
    assert found.scores.tolist() == whole[order].tolist()
    assert field.scores(np.arange(n), asked).tolist() == whole.tolist()


def _arrays(codes: Any) -> dict[str, Any]:
    term, row = np.nonzero(codes.T)
    held = np.unique(term)
    return {
        "rows": np.arange(len(codes), dtype=np.uint32),
        "terms.key": held.astype(np.uint32),
        "terms.most": codes.max(0)[held],
        "terms.indptr": np.searchsorted(term, [*held, term[-1] + 1 if len(term) else 0]),
        "terms.rows": row.astype(np.uint32),
        "terms.impact": codes[row, term],
    }
