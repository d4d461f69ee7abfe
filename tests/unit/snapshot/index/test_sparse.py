"""The learned-sparse pass with real models: coverage, crashes, recall and forgetting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helix
from helix.cli.main import main
from helix.encoders.sparse import DocumentEncoder
from helix.settings import Settings, load
from helix.snapshot.index.sparse import ENCODER, KIND, SparseField, open_sparse
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from helix.stages.sparse import search_sparse
from helix.types import Plan, Sparse
from pipelines.embedded.ingest import ingest
from pipelines.maintain import compact as merging
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from pipelines.passes import run as passes
from pipelines.passes import sparse as module
from pipelines.passes.doc2query import has_model, has_waiting
from pipelines.passes.sparse import count_waiting, encode, open_document_encoder
from tests.compat.history import current, publish
from tests.conftest import copy_store
from tests.oracle.test_sparse_naive import index_of
from tests.support.tiny_sparse import read_export, term
from workers import models, tasks

TURNS = [
    "Priya booked the flight in March.",
    "The worker lost the queue: timeout.",
    "My car is in the garage.",
    "Marco has skis.",
    "Who has the phone?",
    "Walnut bread, olive oil.",
]


@pytest.fixture(scope="module")
def ready(known_splade: Path) -> Path:
    return read_export(known_splade)


@pytest.fixture(scope="module")
def settings(ready: Path, cache: Path) -> Settings:
    return replace(load(), sparse_encoder=str(ready), doc2query="off")


@pytest.fixture(scope="module")
def settings_free(known_inference_free: Path, settings: Settings) -> Settings:
    return replace(settings, sparse_encoder=str(read_export(known_inference_free)))


@pytest.fixture(scope="module")
def model(settings: Settings) -> DocumentEncoder:
    return open_model(settings)


@pytest.fixture(scope="module")
def other(settings_free: Settings) -> DocumentEncoder:
    return open_model(settings_free)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Path:
    """A store whose items have no weights. Read it only: `root` is a copy."""
    folder = tmp_path_factory.mktemp("sparse")
    add_log(folder / "store", folder / "log.jsonl", TURNS, settings)
    return folder / "store"


@pytest.fixture
def root(waiting: Path, tmp_path: Path) -> Path:
    return copy_store(waiting, tmp_path / "store")


@pytest.fixture(scope="module")
def weighed_store(waiting: Path, settings: Settings, model: DocumentEncoder) -> Path:
    root = copy_store(waiting, waiting.with_name("weighed"))
    encode(root, model, settings)
    return root


@pytest.fixture
def weighed_root(weighed_store: Path, tmp_path: Path) -> Path:
    """A store whose items have weights of the model."""
    return copy_store(weighed_store, tmp_path / "store")


def open_model(settings: Settings) -> DocumentEncoder:
    found = open_document_encoder(settings)
    assert not isinstance(found, str)
    return found


def add_log(root: Path, log: Path, texts: list[str], settings: Settings, **given: Any) -> None:
    lines = [{"session": "s", "id": f"t{i}", "role": "document", "text": text, **given} for i, text in enumerate(texts)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not ingest(root, [log], settings).refused


def coverage(root: Path) -> dict[str, object]:
    return dict(current(root).coverage[KIND])


def weights(root: Path) -> dict[str, dict[int, int]]:
    """Return the weight of each term for every live item, in steps."""
    snap = Snapshot.open(root)
    if snap.lexical.impacts is None:
        return {}
    rows = np.flatnonzero(snap.alive)
    out: dict[str, dict[int, int]] = {}
    for one in range(60):
        asked = Sparse(np.array([one], np.uint32), np.array([1_024], np.float32))
        found = snap.lexical.impacts.scores(rows, asked)
        for entry, impact in zip(snap.text(rows), found.tolist(), strict=True):
            if impact:
                out.setdefault(entry["text"], {})[one] = int(impact)
    return out


def kinds(root: Path) -> list[str]:
    return sorted(index.kind for index in current(root).indexes if index.kind in (KIND, ENCODER))


def indexed_rows(root: Path) -> list[int]:
    indexes = [index for index in current(root).indexes if index.kind == KIND]
    return sorted(np.concatenate([open_sparse(root, index).rows for index in indexes]).tolist())


def find_sparse(root: Path, question: str, **given: Any) -> dict[str, Any]:
    """Return the recalled items that the learned-sparse leg found, with its rank."""
    bundle = helix.open(root).recall(question, **given)
    return {item.text: item.why["sparse"] for item in bundle.items if item.why.get("sparse")}


def test_without_a_model_the_pass_is_off_with_a_reason(tmp_path: Path, cache: Path, capsys: Any) -> None:
    root = tmp_path / "s"
    add_log(root, tmp_path / "log.jsonl", TURNS[:2], load())
    assert coverage(root) == {"off": "no sparse encoder is set"}
    assert KIND not in read_status(root)["backlog"]
    assert Snapshot.open(root).lexical.impacts is None
    assert count_waiting(root, load()) == 0
    assert main(["expand", "--store", str(root)]) == 4
    assert "nothing to expand with: no weights found" in capsys.readouterr().err
    for item in helix.open(root).recall("Priya").items:
        assert "sparse" not in item.why
    add_log(root, tmp_path / "log.jsonl", TURNS[:3], replace(load(), sparse_encoder="nothing-like-it"))
    assert str(coverage(root)["off"]).startswith("no sparse encoder 'nothing-like-it'")


def test_items_are_recallable_before_they_have_weights(root: Path, settings: Settings, model: DocumentEncoder) -> None:
    assert coverage(root) == {"items": 0, "model": model.spec.name}
    assert read_status(root)["backlog"] == {KIND: 6}
    assert helix.open(root).recall("flight").items[0].text == TURNS[0]
    done = encode(root, model, settings, limit=2)
    assert (done.items, done.waiting, count_waiting(root, settings)) == (2, 4, 4)
    assert coverage(root) == {"items": 2, "model": model.spec.name}
    done = encode(root, model, settings)
    assert (done.items, done.waiting) == (4, 0)
    assert read_status(root)["backlog"] == {}
    assert encode(root, model, settings).items == 0  # nothing is weighed twice
    assert kinds(root) == [KIND, KIND, ENCODER]  # of the query side there is one
    found = weights(root)
    assert set(found[TURNS[2]]) == {term(word) for word in ("car", "automobile", "engine", "garage")}
    assert found[TURNS[2]][term("car")] == pytest.approx(1_024 * np.log1p(4.0), abs=1)
    assert TURNS[4] in found
    assert verify_store(root).problems == ()


@pytest.mark.parametrize("kind", ["splade", "inference-free"])
def test_an_item_is_found_by_a_word_it_lacks(
    root: Path, settings: Settings, model: DocumentEncoder, other: DocumentEncoder, kind: str
) -> None:
    """Through ingest, expand and recall, without the model's folder and the cache."""
    question = "automobile"
    assert TURNS[2] not in find_sparse(root, question)
    encode(root, model if kind == "splade" else other, settings)
    assert find_sparse(root, question) == {TURNS[2]: 1}
    memory = helix.open(root)
    bundle = memory.recall(question, explain=True)
    (weights,) = bundle.degraded
    assert weights.startswith("weights: those of the profile 'helix' are not fitted to the encoder ")
    assert bundle.items[0].text == TURNS[2]
    assert bundle.items[0].why["bm25"] is None  # no other leg finds it
    assert bundle.trace is not None
    stage = next(stage for stage in bundle.trace["stages"] if stage["stage"] == "sparse")
    assert (stage["rows_in"], stage["rows_out"]) == (6, 1)
    assert stage["ms"] > 0
    first = next(one for one in bundle.trace["candidates"] if one["sparse"] == 1)
    assert first["parts"]["sparse"] == pytest.approx(0.2)
    assert find_sparse(root, question, profile="helix-paper") == {}
    missed = bundle.items[-1]
    assert missed.why["sparse"] is None
    why = memory.recall(question, why_not=missed.id).trace
    assert why is not None


def test_filters_and_acls_hold(tmp_path: Path, settings: Settings, model: DocumentEncoder) -> None:
    root = tmp_path / "s"
    for name, acl in (("a", []), ("b", ["ana"])):
        add_log(root, tmp_path / f"{name}.jsonl", [f"The car {name}."], settings, session=name, project=name, acl=acl)
    encode(root, model, settings)
    assert find_sparse(root, "automobile") == {"The car a.": 1}
    assert find_sparse(root, "automobile", principal="ana").keys() == {"The car a.", "The car b."}
    assert find_sparse(root, "automobile", principal="ana", project="b") == {"The car b.": 1}
    assert find_sparse(root, "automobile", principal="ana", project="a") == {"The car a.": 1}
    hidden = Snapshot.open(root).seen_by(None, ["b"])
    assert hidden.lexical.impacts is None  # nothing of it is shown


def test_a_damaged_query_encoder_degrades_the_answer(weighed_root: Path) -> None:
    (network,) = weighed_root.glob(f"indexes/*/{ENCODER}/model.onnx")
    data = bytearray(network.read_bytes())
    data[-9] ^= 1
    network.write_bytes(data)
    bundle = helix.open(weighed_root).recall("flight automobile")
    assert [text.partition(":")[0] for text in bundle.degraded] == ["weights", "sparse"]
    assert "sparse encoder changed" in bundle.degraded[1]
    assert TURNS[0] in [item.text for item in bundle.items]
    assert any(str(network.relative_to(weighed_root)) in problem for problem in verify_store(weighed_root).problems)
    network.unlink()
    bundle = helix.open(weighed_root).recall("flight automobile")
    assert "sparse encoder missing" in bundle.degraded[1]


def test_a_killed_pass_resumes(
    root: Path, ready: Path, settings: Settings, run_helix: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A kill before the weights are published, and one after."""
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", str(ready))
    monkeypatch.setenv("HELIX_DOC2QUERY", "off")
    for point, waiting in (("expand.asked", 6), ("expand.published", 0)):
        assert run_helix("expand", "--store", root, HELIX_FAILPOINT=point).returncode < 0
        assert count_waiting(root, settings) == waiting
    assert main(["expand", "--store", str(root), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["sparse"] == {"items": 0, "waiting": 0}
    assert (fields["items"], fields["queries"], fields["off"]) == (0, 0, "doc2query is off by its setting")
    assert coverage(root)["items"] == 6
    assert verify_store(root).problems == ()


def test_many_small_indexes_become_one(
    root: Path, settings: Settings, model: DocumentEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(passes, "PUBLISH", 0.0)
    monkeypatch.setattr(passes, "MERGED", 4)
    assert encode(root, model, settings).items == 6
    assert kinds(root) == [KIND] * 3 + [ENCODER]  # four became one; two came after
    assert indexed_rows(root) == [0, 1, 2, 3, 4, 5]
    before = weights(root)
    assert len(before) == 6
    add_log(root, root.with_name("more.jsonl"), ["The car again."], settings, session="more")
    encode(root, model, settings)
    before["The car again."] = weights(root)["The car again."]
    compact(root, settings, full=True)
    assert kinds(root) == [KIND, ENCODER]
    assert weights(root) == before
    assert coverage(root)["items"] == 7
    assert verify_store(root).problems == ()


def test_an_index_folded_during_a_merge_occurs_once(
    root: Path, settings: Settings, model: DocumentEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two indexes that the merge has read become one before it is published."""
    add_log(root, root.with_name("more.jsonl"), ["The car again."], settings, session="more")
    encode(root, model, settings, limit=3)
    encode(root, model, settings, limit=2)
    real, calls = merging._merge_passes, []

    def interfere(*given: Any) -> Any:
        if calls:
            return real(*given)
        calls.append(1)
        found = list(real(*given))
        monkeypatch.setattr(passes, "MERGED", 2)
        encode(root, model, settings)
        return found

    monkeypatch.setattr(merging, "_merge_passes", interfere)
    compact(root, settings, full=True)
    assert indexed_rows(root) == list(range(7))
    assert len(weights(root)) == 7


def test_a_changed_item_is_weighed_again(weighed_root: Path, settings: Settings, model: DocumentEncoder) -> None:
    before = weights(weighed_root)
    add_log(weighed_root, weighed_root.with_name("log.jsonl"), ["Marco lost the manifest.", *TURNS[1:]], settings)
    waits = count_waiting(weighed_root, settings)
    assert 1 <= waits <= 2  # a neighbour's salience may change, so that it is published again
    assert encode(weighed_root, model, settings).items == waits
    after = weights(weighed_root)
    assert set(after["Marco lost the manifest."]) == {term(word) for word in ("marco", "lost", "manifest")}
    assert {text: after[text] for text in TURNS[1:]} == {text: before[text] for text in TURNS[1:]}


def test_another_model_replaces_the_first(
    weighed_root: Path, settings: Settings, settings_free: Settings, other: DocumentEncoder, known_splade: Path
) -> None:
    before = weights(weighed_root)
    source = replace(settings, sparse_encoder=str(known_splade))  # a source and its export are one model
    assert [count_waiting(weighed_root, each) for each in (settings, source, settings_free)] == [0, 0, 6]
    assert encode(weighed_root, other, settings_free, limit=2).waiting == 4
    assert kinds(weighed_root) == [KIND, ENCODER]  # never two models at once
    assert coverage(weighed_root) == {"items": 2, "model": other.spec.name}
    assert len(weights(weighed_root)) == 2
    encode(weighed_root, other, settings_free)
    assert len(weights(weighed_root)) == 6
    assert weights(weighed_root) != before


def test_a_reindex_copies_the_weights_and_a_forgotten_item_leaves_none(
    weighed_root: Path, settings: Settings, model: DocumentEncoder
) -> None:
    before = weights(weighed_root)
    assert reindex(weighed_root, replace(settings, item_words=120)).swapped
    assert weights(weighed_root) == before
    assert kinds(weighed_root) == [KIND, ENCODER]
    assert coverage(weighed_root) == {"items": 6, "model": model.spec.name}
    assert count_waiting(weighed_root, settings) == 0
    assert find_sparse(weighed_root, "automobile") == {TURNS[2]: 1}

    held = list(weighed_root.glob(f"indexes/*/{KIND}/terms.key.npy"))
    assert any(term("garage") in np.load(path) for path in held)
    entry = next(entry for entry in Snapshot.open(weighed_root).text(np.arange(6)) if entry["text"] == TURNS[2])
    assert forget(weighed_root, Selection(items=(entry["id"],)), settings) is not None
    assert TURNS[2] not in weights(weighed_root)
    assert len(weights(weighed_root)) == 5
    for path in weighed_root.glob(f"indexes/*/{KIND}/terms.key.npy"):
        left = np.load(path)
        assert not {term(word) for word in ("car", "automobile", "engine", "garage")} & set(left.tolist())
    assert all(path not in weighed_root.glob("indexes/**/*") for path in held)
    assert verify_store(weighed_root).problems == ()
    assert coverage(weighed_root)["items"] == 5


def test_indexes_of_a_model_that_is_not_there_are_not_searched(weighed_root: Path) -> None:
    changed = [
        replace(index, params={**index.params, "fingerprint": "0" * 16}) if index.kind == ENCODER else index
        for index in current(weighed_root).indexes
    ]
    publish(weighed_root, indexes=tuple(changed))
    assert Snapshot.open(weighed_root).lexical.impacts is None
    assert find_sparse(weighed_root, "automobile") == {}


def test_a_hidden_row_changes_no_score(tmp_path: Path) -> None:
    """A hidden row's largest weight changes bounds, never sums."""
    shown = np.array([[0.3, 0.7, 0], [0.1, 0, 0.9]], np.float32)
    hidden = np.array([[0.3, 0.7, 0], [0.1, 0, 0.9], [9, 0, 0]], np.float32)
    asked = Sparse(np.arange(3, dtype=np.uint32), np.array([0.7, 0.3, 0.31], np.float32))
    legs = []
    for name, given in (("one", shown), ("two", hidden)):
        held = index_of(tmp_path / name, given, np.arange(len(given)))
        alive = np.arange(len(given)) < 2
        field = SparseField([(0, held)], len(given), alive, np.arange(len(given), dtype=np.uint64))
        legs.append(search_sparse(asked, field, Plan(alive, 2), 2))
    assert legs[0].rows.tolist() == legs[1].rows.tolist()
    assert legs[0].scores.tolist() == legs[1].scores.tolist()


def test_a_pulled_copy_needs_only_the_store(weighed_root: Path, tmp_path: Path, run_helix: Any) -> None:
    for command, store in (("push", weighed_root), ("pull", tmp_path / "copy")):
        done = run_helix(command, tmp_path / "shared", "--store", store)
        assert done.returncode == 0, done.stderr
    nothing = tmp_path / "nothing"
    done = run_helix("recall", "automobile", "--store", tmp_path / "copy", "--json", HELIX_CACHE=str(nothing))
    (item, *_) = json.loads(done.stdout)["items"]
    assert (item["text"], item["why"]["sparse"], item["why"]["bm25"]) == (TURNS[2], 1, None)
    assert not nothing.exists()


def test_a_worker_weighs_waiting_items(
    root: Path, settings: Settings, ready: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(tasks, "request_task", lambda app, name, store: sent.append(name))
    monkeypatch.setattr(tasks, "EXPAND_ITEMS", 4)
    monkeypatch.setenv("HELIX_STORE", str(root))
    monkeypatch.setenv("HELIX_DOC2QUERY", "off")
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", str(ready))
    models.open_document_encoder.cache_clear()
    assert (has_model(settings), has_waiting(root, settings)) == (True, True)
    tasks.expand()
    assert (count_waiting(root, settings), sent) == (2, ["helix.expand"])
    tasks.expand()
    assert (count_waiting(root, settings), sent) == (0, ["helix.expand"])
    assert not has_waiting(root, settings)
    off = replace(settings, sparse_encoder="")
    assert (has_model(off), has_waiting(root, off)) == (False, False)
    monkeypatch.setenv("HELIX_SPARSE_ENCODER", "not-there")
    models.open_document_encoder.cache_clear()
    tasks.expand()  # logs it, and runs the other pass, if it has a model
    assert "no sparse weights are computed: no sparse encoder 'not-there'" in caplog.text
    models.open_document_encoder.cache_clear()
    models.open_generator.cache_clear()
