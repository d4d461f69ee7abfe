"""Each stage against plain NumPy for the same work, with a generous factor, in one run on one machine.

A stage that fails has lost its algorithm: a loop in Python over rows, a copy of everything, an unused index. Times of
busy machines differ from second to second, so a factor has to be exceeded several times.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.recipes.load_profile import load as load_profile
from helix.sdk.memory import Memory
from helix.settings import load
from pipelines.bench.exact import PosedQuestion, pose_question, score_all
from pipelines.bench.process import time_call
from pipelines.bench.questions import OPEN, draw_questions
from tests.unit.pipelines.bench.conftest import copy_synthetic

ITEMS = 12_000  # enough for a dense index
QUESTIONS = 18
ATTEMPTS = 4
POOL, SHOWN = 200, 10

FACTORS = {"embed": 1.7, "dense": 0.7, "lexical": 1.0, "fuse": 1.8, "graph": 2.6, "rank": 4.5, "diversify": 0.1,
           "pack": 0.8}  # fmt: skip
"""Median of a stage over that of its reference, at most."""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Memory:
    root = copy_synthetic(tmp_path_factory.mktemp("ratios"), ITEMS, 100)
    return Memory(root, replace(load(), answers=0))  # without cached answers


def embed(one: PosedQuestion) -> None:
    """Tokens, one run, one mean."""
    encoder = one.snap.encoder
    feed = encoder.feed(encoder.tokens([one.query.embedded]))
    encoder.run(feed).mean(axis=1)


def dense(one: PosedQuestion) -> None:
    """Every row scored, and the best sorted."""
    for block in one.snap.vectors.blocks:
        scores = (block.codes.astype(np.float32) @ one.vector) * block.scale
        best = np.argpartition(scores, -100)[-100:]
        best[np.argsort(-scores[best])]


def lexical(one: PosedQuestion) -> None:
    """Every posting scored, and the best sorted."""
    scores = score_all(one.query, one.snap, one.plan, 0.9, 0.6)
    best = np.argpartition(scores, -100)[-100:]
    best[np.argsort(-scores[best])]


def fuse(one: PosedQuestion) -> None:
    """Reciprocal ranks of two lists of 100, added up and sorted."""
    rows = np.concatenate([one.snap.columns.key[:100], one.snap.columns.key[50:150]])
    found, place = np.unique(rows, return_inverse=True)
    fused = np.bincount(place, 1 / (60 + np.tile(np.arange(1, 101), 2)))
    found[np.argsort(-fused, kind="stable")]


def graph(one: PosedQuestion) -> None:
    """Entities of the best, other items with them, adjacent turns, and the same from there."""
    rows = np.arange(0, POOL, POOL // 5)
    for _ in range(2):
        _, named = one.snap.graph.entities_of(rows)
        found, count = np.unique(one.snap.graph.rows_of(np.unique(named))[1], return_counts=True)
        adjacent = np.concatenate([one.snap.columns.previous[rows], one.snap.columns.next[rows]])
        rows = np.unique(np.concatenate([rows, adjacent[adjacent >= 0], found[np.argsort(-count)[:20]]])).astype(
            np.int64
        )


def rank(one: PosedQuestion) -> None:
    """Inner products of a pool and its neighbours, and term frequencies of the question in five turns of each."""
    rows = np.arange(POOL)
    near = np.clip(rows[:, None] + np.arange(-1, 2), 0, ITEMS - 1).ravel()
    one.snap.vectors.dequantise(near) @ one.vector
    window = np.clip(rows[:, None] + np.arange(-2, 3), 0, ITEMS - 1).ravel()
    at, terms = one.snap.lexical.order_of(window)
    for term in one.query.terms >> np.uint64(32):
        np.bincount(at[terms == np.uint32(term)], minlength=len(window))


def diversify(one: PosedQuestion) -> None:
    """Every pair of a pool compared by signature and by vector, then maximal marginal relevance."""
    rows = np.arange(POOL)
    signatures, vectors = one.snap.row_map.signatures(rows), one.snap.vectors.dequantise(rows)
    [np.mean(signatures == each, axis=1) for each in signatures]
    alike, chosen = vectors @ vectors.T, [0]
    while len(chosen) < SHOWN:
        left = alike[:, 0] - alike[:, chosen].max(axis=1)
        left[chosen] = -np.inf
        chosen.append(int(left.argmax()))


def pack(one: PosedQuestion) -> None:
    """The texts of the results and of the turns around them, counted, and again as one context."""
    entries = one.snap.text(np.arange(3 * SHOWN))
    texts = [f"{entry['speaker']}: {entry['text']}" for entry in entries]
    one.snap.counter(texts)
    one.snap.counter(["\n".join(texts)])


REFERENCES = {"embed": embed, "dense": dense, "lexical": lexical, "fuse": fuse, "graph": graph, "rank": rank,
              "diversify": diversify, "pack": pack}  # fmt: skip


def measure_ratios(memory: Memory) -> dict[str, float]:
    """Median of every stage over the median of its reference, each question of both asked in turn."""
    profile = load_profile("helix")
    spent: dict[str, list[float]] = defaultdict(list)
    plain: dict[str, list[float]] = defaultdict(list)
    posed = [pose_question(memory, ask, profile) for ask in draw_questions(memory.root, 7, QUESTIONS)]
    for one in [one for one in posed if one.ask["kind"] in OPEN] * 3:
        for stage, took in memory.recall(one.ask["query"], **one.ask["with"]).ms.items():
            spent[stage].append(took)
        for stage, reference in REFERENCES.items():
            plain[stage].append(time_call(reference, one))
    return {stage: statistics.median(spent[stage]) / statistics.median(plain[stage]) for stage in REFERENCES}


@pytest.mark.soak  # it needs a machine without other load
def test_no_stage_is_slower_than_plain_numpy(memory: Memory) -> None:
    measure_ratios(memory)  # to warm up
    least = dict.fromkeys(FACTORS, np.inf)
    for _ in range(ATTEMPTS):
        least = {stage: min(least[stage], ratio) for stage, ratio in measure_ratios(memory).items()}
        if all(least[stage] <= most for stage, most in FACTORS.items()):
            return
    slow = {stage: round(ratio, 2) for stage, ratio in least.items() if ratio > FACTORS[stage]}
    pytest.fail(f"slower than plain NumPy by {slow}; at most { ({stage: FACTORS[stage] for stage in slow}) }")
