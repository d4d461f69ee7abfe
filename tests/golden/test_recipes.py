"""Behaviour that the recipes of other systems share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helix.recipes import annie, cems
from helix.recipes.load_profile import load
from helix.stages.trace import Trace
from helix.types import Bundle
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, add_encoder, f32, make_store

RECIPES: dict[str, Any] = {"annie": annie.recall, "cems": cems.recall}


@pytest.mark.parametrize("name", RECIPES)
def test_a_question_may_be_skipped_and_a_missing_reranker_is_named(name: str, tmp_path: Path) -> None:
    snap = add_encoder(make_store(tmp_path, ["ferry", "boat"]), lambda _: f32(1, 0))

    def ask(text: str, **options: Any) -> Bundle:
        query = make_query(text, snap, SETTINGS, now="2023-11-16", **options)
        found: Bundle = RECIPES[name](query, snap, load(name), Trace(True), SimpleNamespace())
        return found

    assert f"rerank: the recipe {name} has none" in ask("ferry", rerank="late").degraded
    router = {"weights": f32(9, 0), "bias": f32(0)[0], "threshold": f32(0.5)[0]}
    snap.files.__dict__["router"] = router
    found = ask("what is a ferry")
    assert found.skipped
    assert not found.items
