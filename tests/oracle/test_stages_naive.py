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

from helix.profiles import load
from helix.question import make_query
from helix.snapshot.reader import Snapshot
from helix.stages.dense import search_dense
from helix.stages.diversify import mmr
from helix.stages.fuse import fuse
from helix.stages.lexical import search_lexical
from helix.stages.rank import lexical as pool_lexical
from helix.stages.route import route
from helix.text import tokenise
from tests.tiny import BASE, SETTINGS, make_store

WORDS = ("red", "green", "blue", "walnut", "parsley", "saffron", "redis", "timeout", "queue", "worker", "snapshot")
NOW = datetime(2024, 1, 1, tzinfo=UTC)
SEEDS = range(6)


class World:
    """A random store, and the same items as plain lists."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        n = rng.randint(20, 60)
        self.texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(n)]
        self.sessions = [f"s{rng.randrange(6)}" for _ in range(n)]
        self.projects = [rng.choice("ab") for _ in range(n)]
        vectors = np.random.default_rng(seed).normal(size=(n, 16)).astype(np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cuts = sorted(rng.sample(range(1, n), 3))
        bounds = [0, *cuts, n]
        deleted: dict[int, list[int]] = {}
        self.alive = [True] * n
        for segment in range(4):
            for local in range(bounds[segment + 1] - bounds[segment]):
                if rng.random() < 0.15:
                    deleted.setdefault(segment, []).append(local)
                    self.alive[bounds[segment] + local] = False
        given = [
            {"session": s, "project": p, "time": BASE + i}
            for i, (s, p) in enumerate(zip(self.sessions, self.projects, strict=True))
        ]
        self.snap: Snapshot = make_store(folder, self.texts, self.vectors, given, cuts=cuts, deleted=deleted)
        self.ids = [int(k) for k in self.snap.columns.key]
        self.terms = [Counter(tokenise(text)) for text in self.texts]
        self.query_text = " ".join(rng.sample(WORDS, 3))
        self.project = rng.choice([None, "a", "b"])

    def query(self):
        return make_query(self.query_text, self.snap, SETTINGS, project=self.project, now=NOW)

    def rows(self) -> list[int]:
        return [
            i
            for i in range(len(self.texts))
            if self.alive[i] and (self.project is None or self.projects[i] == self.project)
        ]

    def live(self) -> list[int]:
        return [i for i, alive in enumerate(self.alive) if alive]

    def bm25(
        self, row: int, k1: float, b: float, documents: dict[int, Counter[str]], df: dict[str, int], n: int
    ) -> float:
        lengths = {i: sum(terms.values()) for i, terms in documents.items()}
        mean = max(1.0, sum(lengths.values()) / len(lengths))
        score = 0.0
        for term in set(tokenise(self.query_text)):
            tf = documents[row][term]
            if tf:
                weight = math.log(1 + (n - df[term] + 0.5) / (df[term] + 0.5))
                score += weight * tf * (k1 + 1) / (tf + k1 * (1 - b + b * lengths[row] / mean))
        return score

    def df(self) -> dict[str, int]:
        return Counter(term for i in self.live() for term in self.terms[i])

    def best(self, scores: dict[int, float], k: int) -> list[int]:
        return sorted(scores, key=lambda i: (-round(scores[i], 9), self.ids[i]))[:k]


@pytest.fixture(params=SEEDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path / "store", request.param)


def test_lexical(world: World) -> None:
    query = world.query()
    found = search_lexical(query, world.snap, route(query, None, world.snap), 10, 0.9, 0.6)
    documents = {i: world.terms[i] for i in world.live()}
    naive = {i: world.bm25(i, 0.9, 0.6, documents, world.df(), len(world.live())) for i in world.rows()}
    naive = {i: score for i, score in naive.items() if score > 0}
    assert sorted(found.scores.tolist(), reverse=True) == found.scores.tolist()
    assert found.scores.tolist() == pytest.approx([naive[i] for i in world.best(naive, 10)], rel=1e-4)
    assert all(
        naive[int(row)] == pytest.approx(score, rel=1e-4) for row, score in zip(found.rows, found.scores, strict=True)
    )


def test_dense(world: World) -> None:
    query = world.query()
    vector = world.vectors[0]
    found = search_dense(vector, world.snap, route(query, None, world.snap), 10)
    codes = {}
    for i in world.rows():
        scale = max(abs(x) for x in world.vectors[i].tolist()) / 127
        codes[i] = sum(
            round(float(x) / scale) * scale * float(y) for x, y in zip(world.vectors[i], vector, strict=True)
        )
    assert found.scores.tolist() == pytest.approx([codes[i] for i in world.best(codes, 10)], abs=1e-4)
    exact = {i: float(world.vectors[i] @ vector) for i in world.rows()}
    assert found.scores.tolist() == pytest.approx([exact[int(row)] for row in found.rows], abs=0.02)  # int8 error
    assert set(found.rows.tolist()) <= set(world.rows())


def test_fuse(world: World) -> None:
    query = world.query()
    plan = route(query, None, world.snap)
    legs = [
        search_dense(world.vectors[1], world.snap, plan, 12),
        search_lexical(query, world.snap, plan, 12, 0.9, 0.6),
    ]
    pool = fuse(legs, world.snap, 60, {"dense": 1.0, "bm25": 1.0})
    naive: dict[int, float] = {}
    for leg in legs:
        for rank, row in enumerate(leg.rows.tolist(), 1):
            naive[row] = naive.get(row, 0) + 1 / (60 + rank)
    assert pool.row.tolist() == world.best(naive, len(naive))
    assert pool.rrf.tolist() == pytest.approx([naive[int(row)] for row in pool.row])


def test_the_lexical_half_of_sim(world: World) -> None:
    """Own text, window, session and smoothing, straight from the formula."""
    query, profile = world.query(), load("helix")
    rows = world.live()
    got = pool_lexical(np.array(rows, np.int64), query, world.snap, profile)
    n, df = len(rows), world.df()
    own = {i: world.terms[i] for i in rows}
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for session in set(world.sessions):
        talk = [i for i in rows if world.sessions[i] == session]
        for left, right in pairwise(talk):
            after[left], before[right] = right, left
    window = {
        i: own[i] + (own[before[i]] if i in before else Counter()) + (own[after[i]] if i in after else Counter())
        for i in rows
    }
    sessions: dict[str, Counter[str]] = {}
    for i in range(len(world.texts)):
        sessions.setdefault(world.sessions[i], Counter())
    for i in rows:
        sessions[world.sessions[i]] += own[i]
    names = sorted(sessions)
    whole = {k: sessions[name] for k, name in enumerate(names)}
    session_df = Counter(term for terms in whole.values() for term in terms)
    place = {name: k for k, name in enumerate(names)}

    def score(i: int) -> float:
        return (
            world.bm25(i, profile.retrieve.k1, profile.retrieve.b, own, df, n)
            + profile.sim.window * world.bm25(i, 1.2, 0.75, window, df, n)
            + profile.sim.session * world.bm25(place[world.sessions[i]], 1.2, 0.75, whole, session_df, len(whole))
        )

    smooth = profile.sim.smooth
    expected = [
        score(i) + smooth * (score(before[i]) if i in before else 0) + smooth * (score(after[i]) if i in after else 0)
        for i in rows
    ]
    assert got.tolist() == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_mmr(world: World) -> None:
    scores = np.sort(np.random.default_rng(5).random(len(world.texts)).astype(np.float32))[::-1].copy()
    got = mmr(scores, world.vectors, 0.7, 8).tolist()
    chosen: list[int] = []
    while len(chosen) < 8:

        def value(i: int) -> float:
            nearest = max((float(world.vectors[i] @ world.vectors[j]) for j in chosen), default=0.0)
            return 0.7 * float(scores[i]) - 0.3 * max(nearest, 0.0)

        chosen.append(max((i for i in range(len(scores)) if i not in chosen), key=value))
    assert got == chosen


def test_every_filter_equals_brute_force(world: World) -> None:
    """Top-k under a filter is the top-k of the allowed rows, however few there are."""
    vector = world.vectors[3]
    scored = world.snap.vectors(np.arange(world.snap.rows)) @ vector
    for low in range(0, 60, 7):
        since = datetime.fromtimestamp(BASE + low, UTC)
        query = make_query(world.query_text, world.snap, SETTINGS, since=since, now=NOW)
        found = search_dense(vector, world.snap, route(query, None, world.snap), 5)
        allowed = {i: float(scored[i]) for i in world.live() if i >= low}
        assert found.rows.tolist() == world.best({i: round(s, 6) for i, s in allowed.items()}, 5)
