"""Recency runaway: what was decided long ago stays on top of what was chatted about it since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.types import Bundle
from tests.support.tiny import at_cosine, make_store, memory_of

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OLD = 400
"""Days."""

AXIS = np.eye(16)[0]
DECISION = "we decided to keep the ledger in sqlite, since it needs no server"
CHATTER = (
    "sqlite again, here we go", "ok, sqlite then", "haha, sqlite of all things", "my cat walked over the sqlite mug",
    "is the ledger open on your screen", "lunch first, sqlite later", "the ledger, the ledger, always the ledger",
    "sqlite sticker on the laptop of a stranger today",
)  # fmt: skip
COSINE = {"decision": 0.6, "chatter": 0.5, "other": 0.1}

ASKED = "what was decided of sqlite and the ledger?"
ASKED_RECENT = "what was decided recently of sqlite and the ledger?"


def world(root: Path) -> Path:
    """The old decision, chatter of the last hour, and other things from the time between."""
    rng = np.random.default_rng(4)
    ages = [timedelta(days=OLD)]
    ages += [timedelta(minutes=5 * (i + 1)) for i in range(len(CHATTER))]
    ages += [timedelta(days=int(days)) for days in rng.integers(1, 800, 200)]
    others = [f"thing {i} of another kind {rng.integers(1000)}" for i in range(200)]
    cosine = [COSINE["decision"], *[COSINE["chatter"]] * len(CHATTER), *[COSINE["other"]] * 200]
    given: list[dict[str, Any]] = [
        {"session": f"s{i}", "time": int((NOW - age).timestamp()), "salience": 0.2, "confidence": 0.5}
        for i, age in enumerate(ages)
    ]
    given[0] |= {"type": "decision", "salience": 0.7, "confidence": 0.8}
    make_store(root, [DECISION, *CHATTER, *others], at_cosine(AXIS, cosine, len(ages), rng), given)
    return root


def ask(root: Path, question: str, profile: str, profiles: Path | None = None) -> Bundle:
    return memory_of(root, lambda text: AXIS, profiles).recall(question, profile=profile, now=NOW)


def place(found: Bundle) -> int:
    """Of the old decision, from 1; 11 where it is not among the ten."""
    return next((rank for rank, item in enumerate(found.items, 1) if item.text == DECISION), 11)


@pytest.mark.parametrize(
    ("profile", "question"),
    [("helix-paper", ASKED), ("helix-paper", ASKED_RECENT), ("helix", ASKED), ("helix", ASKED_RECENT)],
)
def test_fresh_chatter_does_not_bury_an_old_decision(tmp_path: Path, profile: str, question: str) -> None:
    """Switch: a weight of recency that outweighs the rest (the next test), or a score multiplied by its decay."""
    found = ask(world(tmp_path), question, profile)
    assert place(found) == 1
    assert found.items[0].why["recency"] < 0.2
    assert found.packed[0].text == DECISION


@pytest.mark.parametrize(("base", "question"), [("helix-paper", ASKED), ("helix", ASKED_RECENT)])
def test_a_recency_that_outweighs_the_rest_would(tmp_path: Path, base: str, question: str) -> None:
    """Switch: chatter that is no temptation, which would make the test above empty."""
    world(tmp_path / "store")
    weights = "{ sim = 0.2, recency = 0.8, salience = 0.0, confidence = 0.0, graph = 0.0 }"
    kinds = "\n".join(f"{kind} = {weights}" for kind in ("episodic", "decision"))
    (tmp_path / "fresh.toml").write_text(f'base = "{base}"\n[weights]\n{kinds}\n')
    assert place(ask(tmp_path / "store", question, "fresh", tmp_path)) > len(CHATTER)


def test_recency_counts_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """Switch: `type_weights` without its case `asked`, or `_RECENT` that knows no such words."""
    root = world(tmp_path)
    chatter = {
        question: max(item.score for item in ask(root, question, "helix").items if item.text in CHATTER)
        for question in (ASKED, ASKED_RECENT)
    }
    assert chatter[ASKED_RECENT] > chatter[ASKED] + 0.01
