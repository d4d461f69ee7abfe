"""A useless reranker costs places inside the top, and never an item of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.errors import UsageError
from helix.recipes.common import RerankScores
from helix.sdk.memory import Memory
from tests.support.tiny import at_cosine, make_store, memory_of

AXIS = np.eye(16)[0]
SIZE = 40
TOP = 8

RNG = np.random.default_rng(1)
USELESS: dict[str, Callable[[int], Any]] = {
    "random": lambda n: RNG.normal(size=n),
    "backwards": lambda n: np.arange(n),
    "huge": lambda n: RNG.normal(size=n) * 1e30,
    "one outlier": lambda n: np.eye(n)[n - 1],
}
MUTE: dict[str, Callable[[int], Any]] = {
    "constant": lambda n: np.full(n, 0.7),
    "NaN": lambda n: np.full(n, np.nan),
    "one NaN": lambda n: np.where(np.arange(n) == 3, np.nan, np.arange(n)),
    "infinite": lambda n: np.where(np.arange(n) == 3, np.inf, np.arange(n)),
    "nothing": lambda n: np.empty(0),
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("rerank")
    vectors = at_cosine(AXIS, np.linspace(0.9, 0.3, SIZE), SIZE, np.random.default_rng(0))
    make_store(folder, [f"number{i}" for i in range(SIZE)], vectors, [{"session": f"s{i}"} for i in range(SIZE)])
    return memory_of(folder, lambda text: AXIS)


def ranking(memory: Memory, rerank: str | None = None) -> list[str]:
    """Everything that was ranked, best first."""
    found = memory.recall("question", rerank=rerank, rerank_top=TOP, explain=True)
    assert found.trace is not None
    scores = [one["score"] for one in found.trace["candidates"]]
    assert scores == sorted(scores, reverse=True)
    assert np.isfinite(scores).all()
    return [one["id"] for one in found.trace["candidates"]]


def scoring(monkeypatch: pytest.MonkeyPatch, scores: Callable[[int], Any]) -> list[int]:
    """Put such a reranker in; says of how many texts it was asked."""
    asked: list[int] = []

    def score_rows(query: Any, rows: Any, *rest: Any) -> RerankScores:
        asked.append(len(rows))
        return RerankScores(np.asarray(scores(len(rows)), np.float32))

    monkeypatch.setattr("helix.recipes.default_rerank.score_rows", score_rows)
    return asked


@pytest.mark.parametrize("kind", USELESS)
def test_a_bad_reranker_keeps_the_top_and_leaves_the_rest(
    memory: Memory, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switch: the reranker's scores taken as they are for those it saw (`final[:m] = scores`)."""
    before = ranking(memory)
    asked = scoring(monkeypatch, USELESS[kind])
    for _ in range(20):
        after = ranking(memory, "late")
        assert set(after[:TOP]) == set(before[:TOP])
        assert after[TOP:] == before[TOP:]
    assert asked == [TOP] * 20
    if kind != "random":
        assert after != before  # it was listened to


@pytest.mark.parametrize("kind", MUTE)
def test_a_reranker_that_says_nothing_changes_nothing(
    memory: Memory, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switch: `unusable` that always gives ""."""
    before = ranking(memory)
    scoring(monkeypatch, MUTE[kind])
    assert ranking(memory, "late") == before
    found = memory.recall("question", rerank="late", rerank_top=TOP, explain=True)
    assert found.trace is not None
    assert next(stage["unusable"] for stage in found.trace["stages"] if stage["stage"] == "rerank")


def test_a_hundred_items_are_not_reranked(memory: Memory) -> None:
    """Switch: `check_top` that lets everything pass."""
    with pytest.raises(UsageError, match="at most 30"):
        memory.recall("question", rerank="late", rerank_top=100)


def test_late_interaction_by_the_default_encoder(sample_store: Path) -> None:
    """Switch: `own_tokens` left out of `scored`: nothing is scored then, and nothing said.

    On the bundled sample, with nothing set: the best ten change places among themselves only.
    """
    memory = Memory(sample_store)
    given: dict[str, Any] = {"now": "2026-07-01", "explain": True}
    plain = memory.recall("What did I tell Priya about vacation?", **given)
    late = memory.recall("What did I tell Priya about vacation?", rerank="late", rerank_top=10, **given)
    assert late.degraded == ()
    assert plain.trace is not None
    assert late.trace is not None
    before, after = ([one["id"] for one in found.trace["candidates"]] for found in (plain, late) if found.trace)
    assert set(after[:10]) == set(before[:10])
    assert after[10:] == before[10:]
    scores = [one["rerank"] for one in late.trace["candidates"]]
    assert all(-1 <= score <= 1 for score in scores[:10])
    assert len(set(scores[:10])) > 1
    assert scores[10:] == [None] * (len(scores) - 10)
    assert late.items[0].text == plain.items[0].text  # both find the answer first
