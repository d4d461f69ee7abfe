"""Graph over-expansion: what everybody names leads nowhere, and no walk goes far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helix.sdk.memory import Memory
from helix.stages.rank import rank
from helix.types import Candidates
from tests.support.tiny import make_store, memory_of

SIZE = 10_000
HUB, GATE, RARE = ("name", "redis", "Redis"), ("name", "gate", "Gate"), ("name", "quillon", "Quillon")
FEW = 90
"""Just above what counts as a hub, of names and of sessions; that of ten thousand is held back by other bounds, too."""

CHAIN = 12


def link(i: int) -> tuple[str, str, str]:
    return "name", f"knot{i}", f"Knot{i}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 0 to 2 hold the question's word, all name the hub, as every other item does.

    Row 3 shares a rare name with row 0. Rows 10 to 21 are a chain: each shares a name with the next, row 10 with row 1.
    Row 2 is the start of a session of 3,000 turns, row 4 of one of 90; 90 others share a name with row 5.
    """
    texts = [f"note {i} on redis" for i in range(SIZE)]
    texts[0], texts[1], texts[2] = "vacation plans beside redis", "vacation budget of redis", "vacation and redis"
    texts[4], texts[5] = "voyage by sea", "harbour at night"
    mentions = [[HUB] for _ in range(SIZE)]
    mentions[0].append(RARE)
    for i in [5, *range(9_000, 9_000 + FEW)]:
        mentions[i].append(GATE)
    mentions[3] = [RARE]
    mentions[1].append(link(0))
    for i in range(CHAIN):
        mentions[10 + i] = [link(i), link(i + 1)]
    given: list[dict[str, Any]] = [{"session": f"s{i}"} for i in range(SIZE)]
    for i in [2, *range(5_000, 8_000)]:
        given[i] = {"session": "long"}
    for i in [4, *range(8_500, 8_500 + FEW)]:
        given[i] = {"session": "longish"}
    folder = tmp_path_factory.mktemp("hub")
    make_store(folder, texts, [[1.0, 0.0]] * SIZE, given, mentions)
    return folder


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged profiles, and one that walks breadth first."""
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "breadth.toml").write_text('base = "helix"\n[graph]\nmethod = "bfs"\n')
    return folder


def answer(memory: Memory, question: str, profile: str, k: int = 200) -> dict[int, dict[str, Any]]:
    """Return the candidates by row."""
    found = memory.recall(question, k=k, profile=profile, explain=True)
    assert found.degraded  # no encoder: dense neighbours would be unrelated by nature
    assert found.trace is not None
    rows = {memory.snapshot.find(one["id"]): one for one in found.trace["candidates"]}
    assert {memory.snapshot.find(item.id) for item in found.items} <= rows.keys()
    return {row: one for row, one in rows.items() if row is not None}


def is_related(row: int) -> bool:
    """Of the question, of its rare name, early in the chain, or among the next turns of the long sessions."""
    return row <= 5 or 10 <= row < 10 + CHAIN or 5_000 <= row < 5_010 or 8_500 <= row < 8_510


EXPECTED = {"vacation": {0, 1, 2, 3}, "vacation with Quillon": {0, 1, 2, 3}, "harbour": {5}, "voyage": {4, 8_500}}
"""Rows that each question finds: 3 by a walk over the rare name, 8500 as the next turn of a session."""


@pytest.mark.parametrize("profile", ["helix", "helix-paper", "breadth"])
@pytest.mark.parametrize("question", EXPECTED)
def test_no_hub_and_no_long_session_drags_anything_in(root: Path, profiles: Path, question: str, profile: str) -> None:
    """Switches: `entity_df`, `epsilon` and `work` all without effect: each holds a hub of ten thousand back (vacation).

    `graph.entity_df` above 91: what shares the name with the one item that answers floods the answer (harbour).
    `graph.session_size` above 91: a turn then brings its whole session, not the next turns only (voyage).
    """
    found = answer(memory_of(root, profiles=profiles), question, profile)
    assert EXPECTED[question] <= found.keys()
    assert EXPECTED[question] - {3, 8_500} <= {row for row, one in found.items() if one["bm25"] is not None}
    assert [row for row in found if not is_related(row)] == []


def test_a_hub_that_the_question_names_drags_nothing_in(root: Path) -> None:
    """Switch: as in the first test. A hundred come by its word, with the turns next to them; the walk may add a few."""
    memory = memory_of(root)
    found = answer(memory, "vacation Redis", "helix")
    named = [row for row, one in found.items() if one["bm25"] is not None]
    assert len(named) == 100
    columns = memory.snapshot.columns
    beside = {*columns.previous[named].tolist(), *columns.next[named].tolist()}
    assert sum(row not in {*named, *beside} and not is_related(row) for row in found) <= 10


@pytest.mark.parametrize("profile", ["helix", "helix-paper"])
def test_a_walk_does_not_go_far(root: Path, profile: str) -> None:
    """Switch: `graph.hops = 50`, and an `epsilon` that lets them count. The seventh knot does not concern vacation."""
    found = answer(memory_of(root), "vacation", profile)
    assert 10 in found
    assert [row for row in range(16, 10 + CHAIN) if row in found] == []


def masses(root: Path, monkeypatch: pytest.MonkeyPatch, profile: str, profiles: Path | None = None) -> list[float]:
    """Return the masses that `rank` gets of the walk, best first."""
    seen: list[Candidates] = []

    def note_pool(pool: Candidates, *rest: Any) -> Candidates:
        seen.append(pool)
        return rank(pool, *rest)

    monkeypatch.setattr("helix.recipes.default.rank", note_pool)
    memory_of(root, profiles=profiles).recall("vacation", profile=profile)
    monkeypatch.undo()
    return sorted(seen[0].ppr.tolist(), reverse=True)


def test_no_item_holds_more_than_its_share_of_the_mass(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switch: `np.clip` of the mass left out of the walk."""
    (tmp_path / "narrow.toml").write_text('base = "helix"\n[graph]\nmass = 0.01\n')
    free = masses(root, monkeypatch, "helix")
    held = masses(root, monkeypatch, "narrow", tmp_path)
    assert 0.01 < free[0] <= 0.3
    assert held[0] == pytest.approx(0.01)
    assert len(held) == len(free)
