"""Stale facts: superseded facts rank below their successors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.types import Bundle
from tests.support.tiny import BASE, at_cosine, make_store, memory_of

AXIS = np.eye(16)[0]
DAY = 86_400
NOW = datetime.fromtimestamp(BASE + 90 * DAY, UTC)
OLD, NEW = "Ana lives in Berlin", "Ana lives in Paris"
QUESTION = "where does Ana live?"


def world(root: Path, *, functional: bool = True, successor: bool = True, new: str = NEW) -> Path:
    """Two statements of one person's home, the older one a little nearer to the question, and other things."""
    texts = [OLD, new, *(f"other thing {i}" for i in range(30))]
    given: list[dict[str, Any]] = [{"session": f"s{i}", "time": BASE + i * DAY} for i in range(len(texts))]
    said = {"subject": "ana", "relation": "lives_in", "functional": functional}
    facts: list[list[dict[str, Any]]] = [[] for _ in texts]
    facts[0] = [{**said, "object_": "berlin"}]
    if successor:
        facts[1] = [{**said, "object_": "paris"}]
    cosine = [0.62, 0.6, *np.linspace(0.3, 0.1, 30)]
    make_store(root, texts, at_cosine(AXIS, cosine, len(texts), np.random.default_rng(3)), given, facts=facts)
    return root


def ask(root: Path, profiles: Path | None = None, **given: Any) -> Bundle:
    return memory_of(root, lambda text: AXIS, profiles).recall(QUESTION, **{"now": NOW, **given})


def best(found: Bundle) -> list[str]:
    return [item.text for item in found.items[:2]]


@pytest.mark.parametrize("profile", ["helix", "helix-paper"])
def test_the_successor_stands_above(tmp_path: Path, profile: str) -> None:
    """Switch: `rank.superseded = 0` and `reading.top = 0` (tried below), or `stale` that knows of none."""
    root = world(tmp_path / "store")
    assert best(ask(root, profile=profile)) == [NEW, OLD]
    (tmp_path / "off.toml").write_text(f'base = "{profile}"\n[rank]\nsuperseded = 0.0\n[reading]\ntop = 0\n')
    assert best(ask(root, tmp_path, profile="off")) == [OLD, NEW]


@pytest.mark.parametrize("profile", ["helix", "helix-paper"])
def test_the_successor_stands_above_in_other_words_too(tmp_path: Path, profile: str) -> None:
    """The older statement answers in the question's own words, the newer one does not.

    Switch: `demote` that lifts nothing.
    """
    new = "Ana moved to Paris"
    assert best(ask(world(tmp_path, new=new), profile=profile)) == [new, OLD]


def test_a_successor_no_leg_brings_comes_with_what_it_superseded(tmp_path: Path) -> None:
    """Neither its words nor its vector are near, and it shares no session. Switch: `succeed` that adds nothing."""
    new = "the flat in Montmartre is signed"
    root = world(tmp_path / "store", new=new)
    narrow = 'base = "helix"\n[retrieve]\ndense = 1\nbm25 = 1\n[graph]\nextra = 0\n'
    (tmp_path / "narrow.toml").write_text(narrow)
    assert best(ask(root, tmp_path, profile="narrow")) == [new, OLD]
    elsewhere = ask(root, tmp_path, profile="narrow", until="2023-11-15T12:00:00Z")
    assert [item.text for item in elsewhere.items] == [OLD]  # what the filter leaves out does not come in this way


@pytest.mark.parametrize("given", [{"functional": False}, {"successor": False}], ids=["both hold", "alone"])
def test_facts_that_hold_keep_their_score(tmp_path: Path, given: dict[str, Any]) -> None:
    """Switch: `stale` that takes every older statement for superseded."""
    assert best(ask(world(tmp_path, **given))) == [OLD, NEW]


def test_before_it_was_replaced_it_stood_above(tmp_path: Path) -> None:
    """Switch: `Snapshot.known_at` that gives the snapshot itself: then the answer knows what was said later."""
    root = world(tmp_path)
    then = datetime.fromtimestamp(BASE + DAY // 2, UTC)
    assert [item.text for item in ask(root, as_of=then).items] == [OLD]
    assert best(ask(root, as_of=NOW)) == [NEW, OLD]


def test_the_current_alone_on_request(tmp_path: Path) -> None:
    """Switch: `current_only` left out of `_over` in `route`."""
    found = ask(world(tmp_path), current_only=True, k=50)
    assert found.items[0].text == NEW
    assert OLD not in [item.text for item in found.items]
    assert OLD not in found.context
    assert OLD in [item.text for item in ask(tmp_path, k=50).items]
