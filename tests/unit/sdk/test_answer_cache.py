"""The same question again: the same answer, without the work; anything else is worked out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.sdk.answer_cache import AnswerCache
from helix.sdk.memory import Memory
from helix.types import Bundle
from pipelines.embedded.ingest import ingest
from tests.support.tiny import SETTINGS, make_store, memory_of

TEXTS = ["the red apple", "the green apple", "a pear"]


def embed(text: str) -> object:
    return np.eye(3)[0]


def answer() -> Bundle:
    return Bundle(1, "helix", False, (), (), (), "", 0, 0, "words", {})


def test_the_most_recently_used_answers_stay() -> None:
    kept, (a, b, c) = AnswerCache(2), (answer() for _ in range(3))
    kept.put("a", a)
    kept.put("b", b)
    assert kept.get("a") is a
    kept.put("c", c)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (a, None, c)
    none = AnswerCache(0)
    none.put("a", a)
    assert none.get("a") is None


def test_the_same_again_takes_no_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path / "s", TEXTS)
    memory = memory_of(tmp_path / "s", embed)
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    first = memory.recall("which apple", k=2)
    again = memory.recall("which apple", k=2)
    assert replace(again, ms=first.ms) == first
    assert {name: ms for name, ms in again.ms.items() if name != "total"} == dict.fromkeys(
        first.ms.keys() - {"total"}, 0
    )
    assert again.ms["total"] >= 0
    assert min(memory.recall("which apple", k=2).ms["total"] for _ in range(5)) < first.ms["total"]  # one may stall
    assert memory.recall("which apple", k=2, explain=True).trace is not None
    for other in ({"k": 1}, {"budget": 100}, {"type": "episodic"}, {"now": "2024-01-01"}, {"profile": "helix-paper"}):
        assert memory.recall("which apple", **{"k": 2, **other}).ms["fuse"] > 0, other
    monkeypatch.setattr("time.time", lambda: 1_700_000_060.0)
    assert memory.recall("which apple", k=2).ms["fuse"] > 0


def test_without_the_encoder_nothing_is_kept(tmp_path: Path) -> None:
    make_store(tmp_path / "s", TEXTS)
    memory = memory_of(tmp_path / "s")
    assert memory.recall("apple", now="2024-01-01").degraded
    assert memory.recall("apple", now="2024-01-01").ms["fuse"] > 0


def test_a_new_generation_is_not_answered_from_the_cache(tmp_path: Path, cache: Path) -> None:
    root, file, settings = tmp_path / "s", tmp_path / "notes.md", replace(SETTINGS, cache=str(cache))
    file.write_text("The apple is red.", "utf-8")
    ingest(root, [file], settings)
    memory = Memory(root, settings)
    before = memory.recall("which colour is the apple", now="2030-01-01")
    assert memory.recall("which colour is the apple", now="2030-01-01").ms["fuse"] == 0
    file.write_text("The apple is red.\n\nThe apple was green before.", "utf-8")
    ingest(root, [file], settings)
    assert memory.refresh()
    after = memory.recall("which colour is the apple", now="2030-01-01")
    assert (before.snapshot, after.snapshot) == (1, memory.snapshot.generation)
    assert "green" in after.items[0].text


def test_callers_do_not_share_answers(tmp_path: Path) -> None:
    make_store(tmp_path / "s", TEXTS, given=[{"acl": ["ana"]}, {}, {}])
    memory = memory_of(tmp_path / "s", embed)
    shown = [
        {item.text for item in memory.recall("apple", principal=who, now="2024-01-01").items}
        for who in ("ana", None, "bo")
    ]
    assert "the red apple" in shown[0]
    assert "the red apple" not in shown[1] | shown[2]
