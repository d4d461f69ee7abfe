"""The lexical leg against dictionaries and loops, on stores where it skips most of its work."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.errors import StoreError
from helix.native import postings
from helix.ranking.bm25 import FieldNorms
from helix.stages import lexical
from helix.stages.lexical import search_lexical
from helix.text.tokenize import hash_terms
from helix.types import Leg, Plan
from tests.support.bench.lexical import Segment, Store, exhaustive
from tests.support.worlds import World

WORDS = [f"word{chr(97 + i)}" for i in range(12)]  # the first in most texts, the last in hardly any
SEEDS = range(8)


class WordWorld(World):
    """A random store of many segments with repeated texts."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        n = rng.randint(80, 160)
        weights = [1 / (i + 1) ** 1.5 for i in range(len(WORDS))]
        texts = [" ".join(rng.choices(WORDS, weights, k=rng.choice([1, 2, 3, 5, 8, 13]))) for _ in range(n)]
        for _ in range(n // 4):  # the same text twice: the same score
            texts[rng.randrange(n)] = texts[rng.randrange(n)]
        items = [{"text": text, "alive": rng.random() > 0.15, "session": f"s{rng.randrange(9)}"} for text in texts]
        super().__init__(folder, items, sorted(rng.sample(range(1, n), rng.randint(2, 8))))

    def plan(self, share: float | None) -> Plan:
        """Allow all live rows, or a share of them."""
        allowed = self.snap.alive & (np.array([self.rng.random() for _ in self.items]) < (share or 1.0))
        return Plan(None if allowed.all() else allowed, int(allowed.sum()))


@pytest.fixture(params=["defaults", "every shortcut"])
def shortcuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the thresholds: otherwise small stores take no shortcut."""
    if request.param == "every shortcut":
        for name, value in (("_LOOK_UP", 2), ("_SMALL", 4), ("_RARE", 2)):
            monkeypatch.setattr(lexical, name, value)
        monkeypatch.setattr(postings, "RANGE", 5)
        monkeypatch.setattr(postings, "LOOK_UP", 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("shortcuts")
def test_the_top_rows_are_the_naive_top_rows(tmp_path: Path, seed: int) -> None:
    world = WordWorld(tmp_path / "store", seed)
    for share in (None, 0.5, 0.05):
        for k in (1, 3, 10, 1000):
            plan = world.plan(share)
            words = world.rng.sample(WORDS, world.rng.randint(1, 8))
            query: Any = SimpleNamespace(terms=hash_terms([*words, "absent"]), term_weights=None)
            found = search_lexical(query, world.snap.lexical, plan, k, 0.9, 0.6)
            scores = world.score_bm25(words, 0.9, 0.6)
            naive = {i: score for i, score in scores.items() if score and (plan.allowed is None or plan.allowed[i])}
            check(found, naive, world, k)
            same = exhaustive(query, world.snap.lexical, plan, k, 0.9, 0.6)
            assert found.rows.tolist() == same.rows.tolist()
            assert found.scores.tolist() == same.scores.tolist()


def check(found: Leg, naive: dict[int, float], world: WordWorld, k: int) -> None:
    rows, scores = found.rows.tolist(), found.scores.tolist()
    assert len(rows) == len(set(rows)) == min(k, len(naive))
    assert scores == pytest.approx(sorted(naive.values(), reverse=True)[:k], rel=1e-5)
    assert scores == pytest.approx([naive[row] for row in rows], rel=1e-5)
    order = [(-score, world.keys[row]) for row, score in zip(rows, scores, strict=True)]
    assert order == sorted(order)
    for row in naive.keys() - set(rows):  # of repeated texts, the one with the larger id is left out
        twins = [other for other in rows if world.texts[other] == world.texts[row]]
        assert all(world.keys[other] < world.keys[row] for other in twins)


def make_skewed_store(seed: int, rows: int = 80_000, terms: int = 9) -> tuple[Store, Any]:
    """Make posting lists of 20 rows to two thirds of all, in seven segments; few lengths, so that many scores tie."""
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.integers(1, 2**63, terms).astype(np.uint64))
    share = np.geomspace(20 / rows, 2 / 3, terms)[rng.permutation(terms)]
    tf = np.where(rng.random((terms, rows)) < share[:, None], rng.geometric(0.7, (terms, rows)), 0).astype(np.uint16)
    bounds = [0, *np.sort(rng.choice(np.arange(1, rows), 6, replace=False)).tolist(), rows]
    segments = [(low, invert(keys, tf[:, low:high])) for low, high in pairwise(bounds)]
    length = np.maximum(tf.sum(axis=0), rng.choice([10, 20, 40], rows)).astype(np.float32)
    return Store(segments, length, rng.permutation(rows).astype(np.uint64)), keys


def invert(keys: Any, tf: Any) -> Segment:
    """Invert tf: uint16[terms, rows], 0 if a row lacks a term."""
    held = tf.any(axis=1)
    term, row = np.nonzero(tf[held])
    counts = np.bincount(term, minlength=int(held.sum()))
    return Segment(keys[held], np.append(0, np.cumsum(counts)), row.astype(np.uint32), tf[held][term, row])


def is_exhaustive(query: Any, snap: Any, plan: Plan, k: int) -> bool:
    found, expected = (search(query, snap, plan, k, 1.2, 0.75) for search in (search_lexical, exhaustive))
    return np.array_equal(found.rows, expected.rows) and np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("seed", range(4))
def test_long_lists_equal_an_exhaustive_search_under_every_filter(seed: int) -> None:
    store, keys = make_skewed_store(seed)
    rng = np.random.default_rng(seed)
    for terms in (keys, keys[:1], keys[-3:], rng.choice(keys, 5, replace=False)):
        query = SimpleNamespace(terms=terms, term_weights=None)
        assert is_exhaustive(query, store, Plan(None, store.rows), 100)
        for share in (0.99, 0.4, 0.02, 0.001, 0.0):
            allowed = rng.random(store.rows) < share
            assert is_exhaustive(query, store, Plan(allowed, int(allowed.sum())), 100)


def test_a_narrow_filter_reads_no_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    store, keys = make_skewed_store(1)
    sizes: list[int] = []
    best = lexical.search_postings

    def count_sizes(postings: Any, *given: Any) -> Any:
        sizes.extend(map(len, postings.rows))
        return best(postings, *given)

    monkeypatch.setattr(lexical, "search_postings", count_sizes)
    allowed = np.zeros(store.rows, bool)
    allowed[::2000] = True
    assert is_exhaustive(SimpleNamespace(terms=keys, term_weights=None), store, Plan(allowed, int(allowed.sum())), 10)
    assert max(sizes) < 25 * allowed.sum() < max(map(store.df, keys))


def test_a_failed_search_does_not_change_the_next() -> None:
    store, keys = make_skewed_store(2, rows=2_000)
    query: Any = SimpleNamespace(terms=keys, term_weights=None)
    broken: Any = Store(store.segments, store.columns.length, store.columns.key)
    broken.norm = FieldNorms(store.columns.length[:50], store.mean_length)
    with pytest.raises(StoreError, match="none of 50 rows"):
        search_lexical(query, broken, Plan(None, store.rows), 10, 1.2, 0.75)
    assert is_exhaustive(query, store, Plan(None, store.rows), 10)


def test_word_order_changes_no_bit() -> None:
    store, keys = make_skewed_store(3)
    snap: Any = store
    queries: list[Any] = [SimpleNamespace(terms=terms, term_weights=None) for terms in (keys, keys[::-1])]
    legs = [search_lexical(query, snap, Plan(None, store.rows), 50, 1.2, 0.75) for query in queries]
    assert legs[0].rows.tolist() == legs[1].rows.tolist()
    assert legs[0].scores.tolist() == legs[1].scores.tolist()


@pytest.mark.parametrize("k", [0, -1, 5])
def test_an_empty_result_has_the_right_dtypes(k: int) -> None:
    store, keys = make_skewed_store(4, rows=100)
    snap: Any = store
    for terms in (keys if k <= 0 else keys[:0], np.array([1], np.uint64)):
        query: Any = SimpleNamespace(terms=terms, term_weights=None)
        found = search_lexical(query, snap, Plan(None, store.rows), k, 1.2, 0.75)
        assert (len(found.rows), len(found.scores)) == (0, 0)
        assert (found.rows.dtype, found.scores.dtype) == (np.uint32, np.float32)
