"""Every vectorised stage against a slow second implementation that only uses dictionaries and loops."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from helix.recipes.load_profile import load
from helix.stages.dense import search_dense
from helix.stages.diversify import count_reachable, find_repeats, mmr
from helix.stages.features.lexical import count_terms, score_adjacent
from helix.stages.features.lexical import score_lexical as pool_lexical
from helix.stages.fuse import fuse
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.text.tokenize import hash_terms, tokenise
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS
from tests.support.worlds import World

WORDS = ("red", "green", "blue", "walnut", "parsley", "saffron", "redis", "timeout", "queue", "worker", "snapshot")
NOW = datetime(2024, 1, 1, tzinfo=UTC)
SEEDS = range(6)


class AskedWorld(World):
    """A random store and a question."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        n = rng.randint(20, 60)
        items = [
            {
                **{"text": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))), "session": f"s{rng.randrange(6)}"},
                **{"project": rng.choice("ab"), "time": BASE + i, "alive": rng.random() > 0.15},
            }
            for i in range(n)
        ]
        vectors = np.random.default_rng(seed).normal(size=(n, 16)).astype(np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        super().__init__(folder, items, sorted(rng.sample(range(1, n), 3)), self.vectors)
        project = rng.choice([None, "a", "b"])
        self.query = make_query(" ".join(rng.sample(WORDS, 3)), self.snap, SETTINGS, project=project, now=NOW)
        self.asked = tokenise(self.query.text)
        self.allowed = [i for i in self.live if project in (None, items[i]["project"])]

    def best(self, scores: dict[int, float], k: int) -> list[int]:
        return sorted(scores, key=lambda i: (-round(scores[i], 9), self.keys[i]))[:k]


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AskedWorld:
    return AskedWorld(tmp_path_factory.mktemp("world") / "store", request.param)


def test_dense(world: AskedWorld) -> None:
    vector = world.vectors[0]
    found = search_dense(vector, world.snap, route(world.query, None, world.snap), 10)
    codes = {}
    for i in world.allowed:
        scale = max(abs(x) for x in world.vectors[i].tolist()) / 127
        codes[i] = sum(
            round(float(x) / scale) * scale * float(y) for x, y in zip(world.vectors[i], vector, strict=True)
        )
    assert found.scores.tolist() == pytest.approx([codes[i] for i in world.best(codes, 10)], abs=1e-4)
    exact = {i: float(world.vectors[i] @ vector) for i in world.allowed}
    assert found.scores.tolist() == pytest.approx([exact[int(row)] for row in found.rows], abs=0.02)  # int8 error
    assert set(found.rows.tolist()) <= set(world.allowed)


def test_fuse(world: AskedWorld) -> None:
    plan = route(world.query, None, world.snap)
    legs = [
        search_dense(world.vectors[1], world.snap, plan, 12),
        search_lexical(world.query, world.snap.lexical, plan, 12, 0.9, 0.6),
    ]
    pool = fuse(legs, world.snap, 60, {"dense": 1.0, "bm25": 1.0})
    naive: dict[int, float] = {}
    for leg in legs:
        for rank, row in enumerate(leg.rows.tolist(), 1):
            naive[row] = naive.get(row, 0) + 1 / (60 + rank)
    assert pool.row.tolist() == world.best(naive, len(naive))
    assert pool.rrf.tolist() == pytest.approx([naive[int(row)] for row in pool.row])


def test_the_words_of_the_pool(world: AskedWorld) -> None:
    """BM25 of an item, of the turn before and of the five turns around it, straight from the formula."""
    query, rows, how = world.query, world.live, load("helix")
    counts = count_terms(np.array(rows, np.int64), query.terms, query.term_order, world.snap)
    got = pool_lexical(counts, world.snap, how)
    own = {i: world.terms[i] for i in rows}
    before, after = world.find_neighbours()
    window: dict[int, Counter[str]] = {}
    for i in rows:
        window[i] = Counter(own[i])
        for link in (before, after):
            at = i
            for _ in range(2):
                at = link.get(at, -1)
                window[i] += own.get(at, Counter())
    single = world.score_bm25(world.asked, how.retrieve.k1, how.retrieve.b)
    assert got.own.tolist() == pytest.approx([single[i] for i in rows], rel=1e-4, abs=1e-5)
    assert got.before.tolist() == pytest.approx([single.get(before.get(i, -1), 0.0) for i in rows], rel=1e-4, abs=1e-5)
    around = world.score_bm25(world.asked, 1.2, 0.75, window)
    assert got.window.tolist() == pytest.approx([around[i] for i in rows], rel=1e-4, abs=1e-5)
    assert max(around.values()) > 0
    # The rarest term of the question each has, against one that a single item holds.
    most = math.log(1 + (len(rows) - 0.5) / 1.5)
    rarest = [max([(world.idf(term) / most) ** 4 for term in world.asked if own[i][term]], default=0.0) for i in rows]
    assert got.rare.tolist() == pytest.approx(rarest, rel=1e-4)
    # A pool of some of them, in any order, is scored the same.
    some = random.Random(3).sample(range(len(rows)), len(rows) // 2)
    fewer = count_terms(np.array([rows[i] for i in some], np.int64), query.terms, query.term_order, world.snap)
    part = pool_lexical(fewer, world.snap, how)
    for field, whole in zip(part, got, strict=True):
        assert field.tolist() == whole[some].tolist()


def test_adjacent_words(world: AskedWorld) -> None:
    """Every pair of the question, once, against every place of every item."""
    rng, rows = random.Random(world.query.text), world.live
    texts = {i: tokenise(world.texts[i]) for i in rows}
    mean = sum(map(len, texts.values())) / len(rows)
    best = 0.0
    for _ in range(4):
        said = [*rng.choices(WORDS, k=6), "absent", *rng.choices(WORDS, k=2)]
        asked = tokenise(" ".join(said))
        expected = []
        for i in rows:
            score = 0.0
            for left, right in {pair for pair in pairwise(asked) if pair[0] != pair[1]}:
                tf = sum(pair == (left, right) for pair in pairwise(texts[i]))
                if world.df[left] and world.df[right] and tf:
                    score += (
                        (world.idf(left) + world.idf(right))
                        * tf
                        * 2.2
                        / (tf + 1.2 * (0.25 + 0.75 * len(texts[i]) / mean))
                    )
            expected.append(score)
        terms = hash_terms(asked)
        got = score_adjacent(count_terms(np.array(rows, np.int64), np.unique(terms), terms, world.snap), world.snap)
        assert got.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)
        best = max(best, *expected)
    assert best > 0


def test_mmr(world: AskedWorld) -> None:
    scores = np.sort(np.random.default_rng(5).random(len(world.texts)).astype(np.float32))[::-1].copy()
    got = mmr(scores, world.vectors, 0.7, 8).tolist()
    chosen: list[int] = []
    while len(chosen) < 8:

        def value(i: int) -> float:
            nearest = max((float(world.vectors[i] @ world.vectors[j]) for j in chosen), default=0.0)
            return 0.7 * float(scores[i]) - 0.3 * max(nearest, 0.0)

        chosen.append(max((i for i in range(len(scores)) if i not in chosen), key=value))
    assert got == chosen


@pytest.mark.parametrize("trade", [0.3, 0.5, 0.9, 1.0])
def test_mmr_of_what_is_within_reach_is_mmr_of_all(trade: float) -> None:
    """Rows below it are never chosen, however much alike the better ones are."""
    left_out = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 80)), int(rng.integers(1, 15))
        scores = np.sort(rng.random(n).astype(np.float32) ** rng.integers(1, 4))[::-1].copy()
        vectors = rng.normal(size=(n, 4)).astype(np.float32) + rng.integers(0, 3, 4).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[: n // 2] = vectors[0]  # the best all say the same
        near = count_reachable(scores, trade, k)
        left_out += n - near
        assert mmr(scores[:near], vectors[:near], trade, k).tolist() == mmr(scores, vectors, trade, k).tolist()
    assert left_out or trade < 0.9


def test_repeats_are_found_whatever_else_is_there() -> None:
    """Against comparing every pair: signatures of which a few agree in some, most or all of their places."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(0, 60))
        signatures = rng.integers(0, 2**32, (n, 64), dtype=np.uint32)
        for _ in range(n // 3):
            one, other = rng.integers(0, n, 2)
            shared = rng.random(64) < rng.choice([0.5, 0.78, 0.82, 0.95, 1.0])
            signatures[other, shared] = signatures[one, shared]
        of = [-1] * n
        for low in range(n):
            for high in range(low):
                if of[high] < 0 and of[low] < 0 and (signatures[high] == signatures[low]).mean() >= 0.8:
                    of[low] = high
        assert find_repeats(signatures, 0.8).tolist() == of
