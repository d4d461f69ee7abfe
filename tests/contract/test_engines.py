"""Engines: what an export sends, who sees what through one, and answers that equal those without one.

LanceDB and Qdrant's engine (`qdrant-edge-py`) run for real. The code for a Qdrant server talks to the local mode of its
client, and that for OpenSearch to a stand-in: no server of either installs from the package index.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from helix.cli.main import main
from helix.engines import base
from helix.engines.base import Engine
from helix.engines.open import open_engine
from helix.errors import EngineError, UsageError
from helix.question.build import build_query
from helix.recipes.load_profile import load as load_profile
from helix.sdk.memory import Memory
from helix.settings import Settings, load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import format_hex
from helix.stages.route import scope
from helix.types import RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.export import engine as exports
from pipelines.export.engine import EngineReport, export_store
from pipelines.export.engine_rows import make_batch
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from tests.conftest import copy_store
from tests.support.search_server import serve_indexes

LINES: tuple[dict[str, Any], ...] = (
    {"session": "secret", "id": "1", "speaker": "Ana", "text": "The safe of the harbour is 1234.", "acl": ["ana"]},
    {"session": "open", "id": "1", "speaker": "Ben", "text": "The harbour closes at nine.", "project": "quay"},
    {"session": "open", "id": "2", "speaker": "Cleo", "text": "The harbour's crane was sold.", "project": "quay"},
    {
        "session": "dated",
        "id": "1",
        "speaker": "Ben",
        "text": "The harbour office moved to pier 4.",
        "project": "pier",
        "ts": "2024-03-01T10:00:00Z",
        "type": "decision",
    },
    {
        "session": "both",
        "id": "1",
        "speaker": "Ana",
        "text": "The harbour's budget is agreed.",
        "project": "quay",
        "acl": ["ana", "ben"],
    },
)
"""Items of several projects and readers, added to the sample."""

KINDS = ("lancedb", "qdrant", "qdrant server", "opensearch")


@pytest.fixture(scope="module")
def store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample and LINES, to read only."""
    folder = tmp_path_factory.mktemp("engines")
    root = copy_store(sample_store, folder / "store")
    add_lines(root, folder, *LINES)
    return root


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The place of an engine of a kind, with a collection of its own at each call."""
    from qdrant_client import QdrantClient

    from helix.engines import qdrant

    folder, local, count = tmp_path_factory.mktemp("places"), QdrantClient(":memory:"), iter(range(1000))
    with pytest.MonkeyPatch.context() as patch, serve_indexes() as (url, _):
        patch.setattr(qdrant, "QdrantClient", lambda **given: local)
        patch.setattr(local, "close", lambda: None)  # each engine closes its client
        where = {
            "lancedb": f"lancedb:{folder / 'lance'}",
            "qdrant": f"qdrant:{folder / 'edge'}",
            "qdrant server": "qdrant:http://127.0.0.1:6333",
            "opensearch": f"opensearch:{url}",
        }
        yield lambda kind: f"{where[kind]}#c{next(count)}"


@pytest.fixture(scope="module", params=KINDS)
def filled_place(request: pytest.FixtureRequest, store: Path, places: Callable[[str], str]) -> str:
    """The place of an engine that holds the store."""
    place = places(request.param)
    assert send(store, place).sent == Snapshot.open(store).live
    return place


def add_lines(root: Path, folder: Path, *lines: dict[str, Any], name: str = "given.jsonl") -> None:
    source = folder / name
    source.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    ingest(root, [source], load())


def send(root: Path, place: str, *, text: bool = True, force: bool = False) -> EngineReport:
    with closing(open_engine(place)) as engine:
        return export_store(Snapshot.open(root), engine, text=text, force=force, observe=lambda sent: None)


def through(place: str) -> Settings:
    return replace(load(), candidates=place, answers=0)


def open_both(root: Path, place: str) -> tuple[Memory, Memory]:
    return Memory(root, replace(load(), answers=0)), Memory(root, through(place))


def close(memory: Memory) -> None:
    """Free an engine: a folder of Qdrant is open in one place at a time."""
    engine = memory.snapshot.files.engine
    assert engine is not None
    engine.close()


def list_texts(memory: Memory, question: str, **options: Any) -> list[str]:
    return [item.text for item in memory.recall(question, **options).items]


# ---------------------------------------------------------------- recall


def test_answers_equal_those_without_an_engine(store: Path, filled_place: str) -> None:
    alone, other = open_both(store, filled_place)
    texts = [entry["text"] for entry in alone.snapshot.text(np.flatnonzero(alone.snapshot.alive))]
    questions = [" ".join(text.split()[2:10]) for text in texts if len(text.split()) > 6][::4]
    assert len(questions) > 20
    overlap, has_dense = [], 0
    for question in questions:
        one, two = alone.recall(question, k=10, principal="ana"), other.recall(question, k=10, principal="ana")
        assert not two.degraded
        ids = [[item.id for item in answer.items] for answer in (one, two)]
        overlap.append(len(set(ids[0]) & set(ids[1])) / max(1, len(ids[0])))
        has_dense += any(item.why["dense"] for item in two.items)
    close(other)
    assert np.mean(overlap) >= 0.99
    assert has_dense > 20


def test_every_recipe_asks_the_engine(store: Path, places: Callable[[str], str]) -> None:
    place = places("lancedb")
    send(store, place)
    alone, other = open_both(store, place)
    for profile in ("helix-paper", "cems", "annie", "engram"):
        one, two = (memory.recall("database is locked", profile=profile, now="2026-01-01") for memory in (alone, other))
        assert [item.id for item in one.items] == [item.id for item in two.items], profile
        assert one.items, profile
    shutil.rmtree(place.removeprefix("lancedb:").partition("#")[0])
    for profile in ("helix-paper", "cems", "annie", "engram"):
        lost = Memory(store, through(place)).recall("database is locked", profile=profile)
        assert any("lancedb" in reason for reason in lost.degraded), profile


def test_the_engine_applies_every_filter(store: Path, filled_place: str) -> None:
    memory = Memory(store, through(filled_place))
    engine = memory.snapshot.files.engine
    assert engine is not None
    constants = load_profile("helix", "")
    vector = memory.snapshot.encoder.query("the harbour")
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"principal": "ana"},
        {"principal": "ben"},
        {"project": "quay"},
        {"project": "quay", "principal": "ben"},
        {"projects": ("pier",)},
        {"projects": ("pier", "quay"), "principal": "ana"},
        {"type": "decision"},
        {"session": "open"},
        {"speaker": "Ben"},
        {"since": "2024-02-01", "until": "2024-04-01"},
        {"as_of": "2024-03-02"},
        {"ingested_as_of": "2001-01-01"},
    )
    sizes = []
    for given in asked:
        options = RecallOptions(**given)
        snap = memory.snapshot.seen_by(options.principal, options.projects)
        query = build_query("the harbour", snap, memory.settings, options, constants)
        seen = snap.known_at(query.as_of, query.ingested_as_of)
        plan = scope(query, seen)
        allowed = seen.alive if plan.allowed is None else plan.allowed
        keys = engine.search(vector, 1_000, plan.conditions)
        assert sorted(keys.tolist()) == sorted(seen.columns.key[allowed].tolist()), given
        sizes.append(len(keys))
    close(memory)
    assert len(set(sizes)) > 6
    assert sizes[-1] == 0


def test_items_of_others_stay_hidden(store: Path, filled_place: str) -> None:
    memory = Memory(store, through(filled_place))
    for principal, secret, both in ((None, False, False), ("ben", False, True), ("ana", True, True)):
        answer = memory.recall("what is the code of the safe of the harbour?", k=20, principal=principal)
        texts = " ".join(item.text for item in answer.items) + answer.context
        assert ("1234" in texts, "budget is agreed" in texts) == (secret, both), principal
        assert not answer.degraded
    close(memory)


def test_a_row_that_an_engine_should_not_return_is_left_out(store: Path, places: Callable[[str], str]) -> None:
    place = places("lancedb")
    send(store, place)
    snap = Snapshot.open(store)
    row = int(np.flatnonzero(snap.files.restricted)[0])
    batch = make_batch(snap, np.array([row]), text=True)
    field = batch.schema.get_field_index("readers")
    forged = batch.set_column(field, batch.schema.field(field), pa.array([[""]]))
    with closing(open_engine(place)) as engine:
        engine.write(forged)
    memory = Memory(store, through(place))
    assert memory.snapshot.files.engine is not None
    public = memory.snapshot.seen_by(None)
    vector = public.encoder.query("the safe of the harbour is 1234")
    assert int(snap.columns.key[row]) in memory.snapshot.files.engine.search(vector, 5, public.conditions).tolist()
    assert not [text for text in list_texts(memory, "what is the safe's number?", k=50) if "1234" in text]


def test_a_superseded_item_stays_out_with_current_only(tmp_path: Path, places: Callable[[str], str]) -> None:
    root, place = tmp_path / "store", places("lancedb")
    said = {"session": "s", "role": "user", "speaker": "Ana", "project": "shop"}
    add_lines(
        root,
        tmp_path,
        {**said, "id": "1", "text": "We use Jenkins for CI.", "ts": "2024-01-01T10:00:00Z"},
        {**said, "id": "2", "text": "We switched CI from Jenkins to Buildkite.", "ts": "2024-06-01T10:00:00Z"},
        {**said, "id": "3", "text": "Lunch is at noon.", "ts": "2024-06-02T10:00:00Z"},
    )
    send(root, place)
    alone, other = open_both(root, place)
    for options in ({}, {"current_only": True}, {"as_of": "2024-02-01"}):
        texts = list_texts(other, "which CI do we use?", **options)
        assert texts == list_texts(alone, "which CI do we use?", **options)
        assert ("We use Jenkins for CI." in texts) == ("current_only" not in options)


# ---------------------------------------------------------------- an engine that fails


def test_without_the_engine_words_answer_and_the_answer_says_so(store: Path) -> None:
    for place in (
        "lancedb:/nowhere/at/all",
        "qdrant:/nowhere/at/all",
        "qdrant:http://127.0.0.1:9",
        "opensearch:http://127.0.0.1:9",
    ):
        answer = Memory(store, through(place)).recall("database is locked")
        assert [reason for reason in answer.degraded if reason.startswith(f"dense: {place.partition(':')[0]}")], place
        assert answer.items
        assert all(item.why["dense"] is None for item in answer.items)


def test_an_older_export_is_named(sample_store: Path, tmp_path: Path, places: Callable[[str], str]) -> None:
    root, place = copy_store(sample_store, tmp_path / "store"), places("qdrant")
    send(root, place)
    add_lines(root, tmp_path, *LINES)
    memory = Memory(root, through(place))
    answer = memory.recall("when does the harbour close?")
    assert [reason for reason in answer.degraded if "holds generation 1, and this is 2" in reason]
    assert "The harbour closes at nine." in [item.text for item in answer.items]
    close(memory)
    send(root, place)
    memory = Memory(root, through(place))
    assert not memory.recall("when does the harbour close?").degraded
    close(memory)


def test_an_engine_without_a_complete_export_is_named(store: Path, filled_place: str) -> None:
    with closing(open_engine(filled_place)) as engine:
        state = engine.read_state()
        assert state is not None
        engine.write_state(state._replace(encoder="another"))
    memory = Memory(store, through(filled_place))
    assert [reason for reason in memory.recall("the harbour").degraded if "another encoder" in reason]
    close(memory)
    with pytest.raises(UsageError, match="vectors of another encoder"):
        send(store, filled_place)
    assert send(store, filled_place, force=True).sent == state.items  # all of them: the collection was removed
    with closing(open_engine(filled_place)) as engine:
        engine.write_state(state._replace(format=base.FORMAT + 1))
        with pytest.raises(EngineError, match="format 2, not 1"):
            engine.read_state()
        engine.write_state(state)


# ---------------------------------------------------------------- export


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_export_sends_what_changed(
    kind: str, sample_store: Path, tmp_path: Path, places: Callable[[str], str]
) -> None:
    root, place = copy_store(sample_store, tmp_path / "store"), places(kind)
    first = send(root, place)
    again = send(root, place)
    assert (again.sent, again.removed, again.unchanged) == (0, 0, first.items)
    add_lines(root, tmp_path, *LINES)
    later = send(root, place)
    assert (later.sent, later.removed, later.unchanged) == (len(LINES), 0, first.items)
    forget(root, Selection(session="secret"), load())
    last = send(root, place)
    assert (last.sent, last.removed, last.items) == (0, 1, first.items + len(LINES) - 1)
    snap = Snapshot.open(root)
    with closing(open_engine(place)) as engine:
        held = [identity for batch in engine.list_digests() for identity in batch["id"].to_pylist()]
        assert sorted(held) == sorted(format_hex(snap.columns.key[snap.alive]).to_pylist())
        state = engine.read_state()
        assert state is not None
        assert (state.generation, state.items) == (snap.name, snap.live)


def test_an_export_that_was_interrupted_is_completed(
    sample_store: Path, places: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places("lancedb")
    monkeypatch.setattr(exports, "BATCH", 40)
    with closing(open_engine(place)) as engine:
        interrupted = Interrupted(engine, 2)
        with pytest.raises(KeyboardInterrupt):
            export_store(Snapshot.open(sample_store), interrupted, text=True, force=False, observe=lambda sent: None)
        assert engine.read_state() is None
    answer = Memory(sample_store, through(place)).recall("database is locked")
    assert [reason for reason in answer.degraded if "holds no complete export" in reason]
    rest = send(sample_store, place)
    assert (rest.sent, rest.unchanged) == (rest.items - 80, 80)


class Interrupted:
    """An engine whose process is interrupted after some batches."""

    def __init__(self, engine: Engine, batches: int) -> None:
        self._engine, self._left = engine, batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def write(self, batch: Any) -> None:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self._engine.write(batch)


def test_texts_stay_out_on_request(sample_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import lancedb

    table = ("export", "--to", "lancedb", f"{tmp_path}/vectors#shop", "--store", str(sample_store), "--json")
    assert main([*table, "--no-text"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sent"] == report["items"] > 100
    rows = lancedb.connect(tmp_path / "vectors").open_table("shop").to_arrow()
    assert rows["text"].null_count == report["items"]
    assert main([*table]) == 0
    assert json.loads(capsys.readouterr().out)["sent"] == report["items"]  # each item is another with its text
    rows = lancedb.connect(tmp_path / "vectors").open_table("shop").to_arrow()
    snap = Snapshot.open(sample_store)
    texts = {entry["id"]: entry["text"] for entry in snap.text(np.arange(snap.rows))}
    assert dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)) == texts


def test_a_collection_of_another_store_is_refused(
    sample_store: Path, tmp_path: Path, places: Callable[[str], str]
) -> None:
    place = places("lancedb")
    send(sample_store, place)
    add_lines(tmp_path / "store", tmp_path, *LINES)
    with pytest.raises(UsageError, match="of which 0 are in this store"):
        send(tmp_path / "store", place)
    report = send(tmp_path / "store", place, force=True)
    assert (report.sent, report.items) == (len(LINES), len(LINES))


def test_a_folder_of_qdrant_is_open_in_one_place(sample_store: Path, places: Callable[[str], str]) -> None:
    place = places("qdrant")
    send(sample_store, place)
    with closing(open_engine(place)) as engine:
        assert [*engine.list_digests()]
        answer = Memory(sample_store, through(place)).recall("database is locked")
        assert [reason for reason in answer.degraded if "another process has" in reason]


def test_wrong_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, fault in (
        ("chroma:/tmp/x", "names no engine"),
        ("lancedb", "names no engine"),
        ("opensearch:localhost", "begins with http"),
        ("lancedb:http://localhost", "here, no server"),
        ("qdrant:http://ana:pass@localhost:6333", "holds a user or a password"),
        ("lancedb:/tmp/x#../up", "no name of a collection"),
    ):
        with pytest.raises(UsageError, match=fault):
            open_engine(place)
    with pytest.raises(UsageError, match="exclude each other"):
        Memory("nowhere", replace(load(), candidates="lancedb:/tmp/x", dense="gpu"))
    monkeypatch.setitem(__import__("sys").modules, "opensearchpy", None)
    monkeypatch.delitem(__import__("sys").modules, "helix.engines.opensearch", raising=False)
    with pytest.raises(UsageError, match=r"needs the package opensearchpy.*helix-recall\[opensearch\]"):
        open_engine("opensearch:http://localhost:9200")


def test_filters_of_an_export_are_refused(sample_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "lancedb", "x", "--project", "quay", "--store", str(sample_store)]) == 2
    assert "--to exports the whole store, without project" in capsys.readouterr().err
