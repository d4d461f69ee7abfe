"""The trace of a recall: every stage, every candidate, and why another item is not in the answer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helix
from helix.encoders.rerank import Rerankers
from helix.errors import UsageError
from helix.recipes.default import recall
from helix.recipes.load_profile import load
from helix.settings import load as load_settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.trace import Trace, why_not
from helix.types import TYPES
from pipelines.embedded.ingest import ingest
from pipelines.maintain.compact import compact
from query.schema.answers import render_bundle
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

NOW = datetime(2023, 11, 20, tzinfo=UTC)
LONG = "the quick brown fox jumps over the lazy dog near the old mill by the river in spring"


def ask(snap: Snapshot, text: str, profile: Any = None, **given: Any) -> tuple[Any, Trace]:
    trace = Trace(on=True)
    query = make_query(text, snap, SETTINGS, now=NOW, **given)
    chosen = profile or load("helix")
    return recall(query, snap.known_at(query.as_of), chosen, trace, Rerankers(SETTINGS)), trace


def reason(snap: Snapshot, row: int, text: str, profile: Any = None, **given: Any) -> str:
    found, trace = ask(snap, text, profile, **given)
    identity = f"{int(snap.columns.key[row]):016x}"
    return why_not(identity, snap.find(identity), trace, found.items, found.packed)


def test_every_stage_says_rows_in_and_out_and_milliseconds(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [LONG, "another fox", "walnut bread"])
    found, _ = ask(snap, "fox")
    stages = {stage["stage"]: stage for stage in found.trace["stages"]}
    assert list(stages) == [
        "route",
        "lexical",
        "fuse",
        "graph",
        "rank",
        "work",
        "diversify",
        "standing",
        "relevance",
        "pack",
    ]  # no encoder: no dense leg
    assert found.degraded
    assert (stages["route"]["rows_in"], stages["route"]["rows_out"]) == (3, 3)
    assert (stages["lexical"]["rows_in"], stages["lexical"]["rows_out"]) == (3, 2)
    assert stages["fuse"]["rows_in"] == {"bm25": 2}
    assert all(stage["ms"] >= 0 for stage in stages.values())
    spent = dict.fromkeys(found.ms, 0.0)
    for span in found.trace["spans"]:
        assert 0 <= span["at"] <= span["at"] + span["ms"] <= found.ms["total"] + 0.01
        spent[span["stage"]] += span["ms"]
    del spent["total"]
    ends = {span["stage"]: span["at"] + span["ms"] for span in found.trace["spans"]}
    begins = {span["stage"]: span["at"] for span in reversed(found.trace["spans"])}
    for earlier, later in pairwise(("lexical", "fuse", "graph", "rank", "diversify", "pack")):
        assert begins[later] >= ends[earlier] - 0.01
    assert spent == pytest.approx({name: ms for name, ms in found.ms.items() if name != "total"}, abs=0.01)
    first = found.trace["candidates"][0]
    assert (first["rank"], first["id"], first["bm25"], first["dense"]) == (1, found.items[0].id, 1, None)
    assert first["score"] == found.items[0].score
    assert first["sim"] == found.items[0].why["sim"]


def check_sums(candidates: list[dict[str, Any]]) -> None:
    """Check that each candidate comes once, and that its shares add up to its score."""
    assert len({one["id"] for one in candidates}) == len(candidates)
    for one in candidates:
        assert sum(one["shares"].values()) == pytest.approx(one["score"], abs=1e-5)


def test_shares_are_weight_times_signal(tmp_path: Path) -> None:
    snap = make_store(tmp_path, [LONG, "a recent fox", "walnut bread"], given=[{"type": "code"}, {}, {}])
    for name, text in (("helix", "fox"), ("helix", "the recent fox"), ("helix-paper", "fox")):
        found, _ = ask(snap, text, load(name))
        recent = name == "helix-paper" or "recent" in text
        for one in found.trace["candidates"]:
            weights = load(name).weights[TYPES[snap.columns.type[snap.find(one["id"])]]]
            if not recent:  # what is not asked for goes to the similarity
                weights = {**weights, "sim": weights["sim"] + weights["recency"], "recency": 0}
            expected = {signal: weight * one[signal] for signal, weight in weights.items() if weight * one[signal]}
            assert one["shares"] == pytest.approx(expected, abs=2e-6)
        check_sums(found.trace["candidates"])


def test_shares_say_what_later_steps_added_or_took_off(tmp_path: Path) -> None:
    given = [{"session": f"s{i}", "time": BASE + i} for i in range(3)]
    home = {"subject": "ana", "relation": "lives_in"}
    facts = [[{**home, "object_": "oslo"}], [{**home, "object_": "rome"}], []]
    snap = make_store(tmp_path, ["the house is in oslo", "it is in rome", "house, house"], given=given, facts=facts)
    found, _ = ask(snap, "where is the house in oslo")
    shares = {snap.find(one["id"]): one["shares"] for one in found.trace["candidates"]}
    assert shares[0]["superseded"] < 0 < shares[1]["superseded"]
    assert "superseded" not in shares[2]
    check_sums(found.trace["candidates"])


def test_shares_with_a_reranker_add_up(sample_store: Path) -> None:
    found = helix.open(sample_store).recall("who reviews signing", rerank="late", explain=True, now="2026-06-01")
    candidates = (found.trace or {})["candidates"]
    assert any(one["shares"].get("rerank") for one in candidates)
    check_sums(candidates)


def test_why_not_names_the_stage_and_the_margin(tmp_path: Path) -> None:
    texts = [LONG, LONG + " ok", "a fox", "walnut bread", "fox " * 3 + "and hen"]
    given = [{}, {}, {"project": "q"}, {}, {"time": BASE - 900_000}]
    given = [{"session": f"s{i}", **one} for i, one in enumerate(given)]  # nothing is anything's neighbour
    snap = make_store(tmp_path, texts, given=given)
    assert reason(snap, 3, "fox") == "retrieve: bm25 finds nothing in it (score 0.000)"
    assert reason(snap, 2, "fox", project="p") == "route: outside the filter project p"
    assert reason(snap, 4, "fox", since="2023-11-14") == "route: outside the filter since 2023-11-14 00:00"
    better = f"{int(snap.columns.key[0]):016x}"
    assert reason(snap, 1, "fox brown mill").startswith(f"diversify: a near-duplicate of {better} (rank ")
    assert reason(snap, 4, "fox").startswith("it is in the answer, at rank 1")
    assert reason(snap, 2, "fox", k=1).startswith("rank: rank 2 of 4, score ")
    assert "the last item returned has" in reason(snap, 2, "fox", k=1)
    assert reason(snap, 0, "fox", budget=45).startswith("pack: it is in the answer at rank ")


def test_why_not_below_the_limit_of_a_leg(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["fox fox fox", "fox and a hen that crow all day long", "walnut"])
    profile = load("helix")
    graph, link = replace(profile.graph, extra=0), replace(profile.link, beside=0)  # nor may it come by another way
    one = replace(profile, retrieve=replace(profile.retrieve, bm25=1), graph=graph, link=link)
    found, trace = ask(snap, "fox", one)
    said = reason(snap, 1, "fox", one)
    leg, _, score, _ = trace.retrieved[0]
    last, own = float(leg.scores[0]), score(1)
    assert 0 < own < last
    assert said == f"retrieve: below bm25 rank 1: {own:.3f}, the last of them has {last:.3f} ({last - own:.3f} more)"
    assert score(0) == pytest.approx(last)  # the margin is in the leg's own scores
    assert len(found.items) == 1


def test_mmr_explains_what_it_does_not_choose(tmp_path: Path) -> None:
    texts = ["fox hen owl elk", "fox hen owl asp", "fox emu"]
    snap = make_store(tmp_path, texts, np.eye(3)[[0, 0, 1]], given=[{"session": f"s{i}"} for i in range(3)])
    profile = load("helix")
    spread = replace(profile, diversify=replace(profile.diversify, lambda_=0.1))
    found, trace = ask(snap, "fox hen owl", spread, k=2)
    out = next(row for row in (0, 1) if row not in [snap.find(item.id) for item in found.items])
    assert trace.pool is not None
    said = reason(snap, out, "fox hen owl", spread, k=2)
    assert said.endswith("; it is in the context all the same")
    assert said.startswith("diversify: another was preferred, since it is 1.00 alike to one that was chosen (rank 2 of")


def answer(memory: helix.Memory, text: str, **options: Any) -> str:
    """Return an answer as JSON, without the milliseconds."""
    wire = render_bundle(memory.recall(text, now="2026-03-01", explain=True, **options))
    del wire["ms"]
    for stage in wire["trace"]["stages"]:
        stage.pop("ms", None)
    del wire["trace"]["spans"]
    return json.dumps(wire)


def test_a_replay_gives_the_same_bytes(sample_store: Path) -> None:
    """Snapshot, query, `now` and profile decide everything but the milliseconds."""
    options = {"why_not": helix.open(sample_store).recall("coffee", k=1).items[0].id, "rerank": "late"}
    asked = "What did I tell Priya about vacation?"
    once, again = (answer(helix.open(sample_store), asked, **options) for _ in range(2))
    assert once == again


def test_a_generation_that_is_kept_answers_as_it_did(tmp_path: Path, cache: Path) -> None:
    """Later generations, a merge included, do not change an answer by an earlier snapshot."""
    for i, text in enumerate(("the red fox hunts at night", "the red hen sleeps at night", "a red elk at noon")):
        (tmp_path / f"{i}.jsonl").write_text(json.dumps({"session": f"s{i}", "text": text, "ts": "2026-01-02"}))

    root, asked = tmp_path / "store", "what does the red fox do"
    ingest(root, [tmp_path / "0.jsonl", tmp_path / "1.jsonl"], load_settings())
    first = helix.open(root)
    before, number = answer(first, asked), first.snapshot.generation
    ingest(root, [tmp_path / "2.jsonl"], load_settings())
    compact(root, load_settings(), full=True)
    kept = helix.open(root, snapshot=number)
    assert answer(kept, asked) == before
    assert answer(helix.open(root), asked) != before
    assert not kept.stale()
    assert not kept.refresh()
    with pytest.raises(UsageError, match=f"no generation 99 of .* there are: {number}, "):
        helix.open(root, snapshot=99)
