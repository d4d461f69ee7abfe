"""Proposals of a question, rows that its options leave out, and views."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.errors import UsageError
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import load as load_settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import SimilarityConstants
from helix.stages.features.similarity import similarity
from helix.stages.fuse import fuse
from helix.stages.rank import rank
from helix.stages.route import route
from helix.types import F32, Leg
from pipelines.embedded.ingest import ingest
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

NOW = datetime(2023, 11, 20, tzinfo=UTC)
DEFAULT = load("helix")


def bonus(snap: Snapshot, text: str, vector: F32 | None = None, **sim: float) -> list[float]:
    """Return the score of each row for these weights alone."""
    query = make_query(text, snap, SETTINGS, now=NOW)
    quiet = SimilarityConstants(**{**dict.fromkeys((field.name for field in fields(SimilarityConstants)), 0.0), **sim})
    rows, profile = np.arange(snap.rows), replace(DEFAULT, sim=quiet)
    none = np.full(snap.rows, np.nan, np.float32)
    return similarity(rows, none, query, vector, snap, route(query, vector, snap), profile).tolist()


def test_a_project_named_in_the_question_is_proposed(tmp_path: Path) -> None:
    given = [{"project": name} for name in ("ledgerline", "api-gateway", "the", "api", "gateway service")]
    snap = make_store(tmp_path, [f"text {i}" for i in range(5)], given=given)
    assert bonus(snap, "which port does ledgerline use", project=0.1) == pytest.approx([0.1, 0, 0, 0, 0])
    assert bonus(snap, "which port does the API gateway use", project=0.1) == pytest.approx([0, 0.1, 0, 0, 0])
    assert bonus(snap, "in api_gateway: which port?", project=0.1) == pytest.approx([0, 0.1, 0, 0, 0])
    # Half of a name is none, nor is a common word.
    assert bonus(snap, "what is the gateway for", project=0.1) == [0] * 5
    query = make_query("which port does ledgerline use", snap, SETTINGS, project="api", now=NOW)
    assert route(query, None, snap).projects == ()  # who says where to look is taken at their word


def test_the_type_nearest_to_the_question_is_proposed(tmp_path: Path) -> None:
    """By as much as the cosine to its mean vector exceeds the next one: .96 − .28."""
    given = [{"type": "code"}, {"type": "code"}, {"type": "decision"}]
    snap = make_store(tmp_path, ["a b", "c d", "e f"], [[1, 0], [1, 0], [0, 1]], given=given)
    vector = np.array([0.96, 0.28], np.float32)
    assert bonus(snap, "x", vector, type=0.2) == pytest.approx([0.136, 0.136, 0], abs=1e-3)
    assert bonus(snap, "x", None, type=0.2) == [0, 0, 0]


def move_scores(root: Path) -> Snapshot:
    """Ana lived in Oslo, then in Rome; Bo's dog has no facts."""
    given = [{"session": "a", "time": BASE}, {"session": "b", "time": BASE + 1000}, {"session": "c"}]
    facts = [[{"subject": "ana", "relation": "lives_in", "object_": place}] for place in ("oslo", "rome")]
    texts = ["Ana lives in Oslo", "Ana lives in Rome", "Ana lives with a dog"]
    return make_store(root, texts, given=given, facts=[*facts, []])


def test_superseded_facts_are_demoted(tmp_path: Path) -> None:
    snap = move_scores(tmp_path)
    query = make_query("where does Ana live", snap, SETTINGS, now=NOW)
    plan = route(query, None, snap)
    pool = fuse([Leg("bm25", np.arange(3, dtype=np.uint32), np.ones(3, np.float32))], snap, 60, {"bm25": 1.0})

    def rank_with(superseded: float) -> dict[int, float]:
        profile = replace(DEFAULT, rank=replace(DEFAULT.rank, superseded=superseded))
        found = rank(pool, query, None, snap, plan, profile)
        return dict(zip(found.row.tolist(), found.final.tolist(), strict=True))

    after, before = rank_with(0.25), rank_with(0.0)
    assert after[0] == pytest.approx(0.75 * before[0])
    assert (after[1], after[2]) == (before[1], before[2])
    assert DEFAULT.rank.superseded > 0


def test_current_only_leaves_them_out(tmp_path: Path) -> None:
    snap = move_scores(tmp_path)

    def allowed_rows(**given: Any) -> list[int]:
        query = make_query("where does Ana live", snap, SETTINGS, now=NOW, **given)
        seen = snap.known_at(query.as_of)
        plan = route(query, None, seen)
        return np.flatnonzero(np.ones(3, bool) if plan.allowed is None else plan.allowed).tolist()

    assert allowed_rows() == [0, 1, 2]
    assert allowed_rows(current_only=True) == [1, 2]
    then = datetime.fromtimestamp(BASE + 500, UTC)
    assert allowed_rows(current_only=True, as_of=then) == [0, 2]  # Rome was not yet said
    assert snap.facts.stale(np.arange(3), BASE + 5000).tolist() == [True, False, False]
    assert snap.facts.stale(np.arange(3), BASE + 500).tolist() == [False, False, False]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Memory:
    root = tmp_path_factory.mktemp("options")
    turns = [
        ("s1", "Ana", "The deploy key lives in the vault."),
        ("s1", "Bo", "And the deploy window is on Friday."),
        ("s2", "Ana", "The deploy of Friday went wrong."),
    ]
    fields, ts = ("session", "speaker", "text"), "2026-01-02T10:00:00Z"
    lines = [{**dict(zip(fields, turn, strict=True)), "id": f"t{i}", "ts": ts} for i, turn in enumerate(turns)]
    (root / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ingest(root / "store", [root / "log.jsonl"], load_settings())
    return Memory(root / "store")


def test_only_a_session_or_a_speaker(memory: Memory) -> None:
    def texts(**given: Any) -> set[str]:
        return {item.text.split()[-1] for item in memory.recall("deploy", now="2026-02-01", **given).items}

    assert texts() == {"vault.", "Friday.", "wrong."}
    assert texts(session="s1") == {"vault.", "Friday."}
    assert texts(speaker="ana") == {"vault.", "wrong."}
    assert texts(session="s1", speaker="Ana") == {"vault."}
    context = memory.recall("vault", session="s1", speaker="Ana", now="2026-02-01").context
    assert "window" not in context  # nor does a filtered turn come along as a neighbour
    assert "window" in memory.recall("vault", session="s1", k=1, now="2026-02-01").context
    for given, said in (({"session": "s3"}, "unknown session 's3'"), ({"speaker": "Cy"}, "unknown speaker 'cy'")):
        with pytest.raises(UsageError, match=said):
            memory.recall("deploy", **given)


def shared_store(root: Path) -> Snapshot:
    names = ["ana", "bo", "cy", "di", "eve"]
    return make_store(root, ["for all", *names], given=[{}, *({"acl": [name]} for name in names)])


def test_few_views_are_kept_and_the_next_question_finds_them(tmp_path: Path) -> None:
    whole = make_store(tmp_path / "whole", ["a", "b"])  # a store without ACLs is its own view
    assert whole.seen_by("ana") is whole.seen_by(None) is whole.known_at(None) is whole
    snap = shared_store(tmp_path / "s")
    view = snap.seen_by("ana")
    assert np.flatnonzero(view.alive).tolist() == [0, 1]
    assert snap.seen_by("ana") is view
    assert snap.seen_by("mallory") is snap.seen_by(None)  # whom no ACL names sees what everybody sees
    then = view.known_at(datetime.fromtimestamp(BASE + 70, UTC))
    assert view.known_at(datetime.fromtimestamp(BASE + 70, UTC)) is then
    assert view.known_at(NOW) is not then
    assert view.known_at(datetime.fromtimestamp(BASE + 70, UTC)) is not then  # only the last moment is kept
    for name in ("bo", "cy", "di", "eve"):
        snap.seen_by(name)
    assert snap.seen_by("ana") is not view


def test_the_public_view_is_warm(tmp_path: Path) -> None:
    snap = shared_store(tmp_path).warm()
    public = snap.seen_by(None)
    for part, name in ((public.lexical, "mean_length"), (public.catalog, "session_size"), (public.facts, "columns")):
        assert name in vars(part)
    assert "mean_length" not in vars(snap.seen_by("ana").lexical)


def test_a_view_keeps_its_generation_pinned_and_lets_it_go(tmp_path: Path) -> None:
    import gc

    snap = shared_store(tmp_path)
    gc.disable()  # by counting alone: a store must not stay pinned until the collector happens to run
    try:
        pins = tmp_path / "pins"
        view = snap.seen_by("ana").known_at(NOW)
        del snap
        assert list(pins.iterdir())
        assert view.counter.name == "estimate"
        del view
        assert not list(pins.iterdir())
    finally:
        gc.enable()
