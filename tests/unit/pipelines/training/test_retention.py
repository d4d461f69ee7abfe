"""The retention model: examples by hand, training against scikit-learn, and its index in the store."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli.main import main
from helix.errors import StoreError
from helix.recipes.engram import EngramDecay
from helix.recipes.engram_retention import FEATURES, FILE, KIND, dump, index_of, open_model, predict
from helix.recipes.load_profile import load as profile
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot import manifest, paths, writer
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.replication.pull import pull_store
from helix.snapshot.replication.push import push_store
from helix.snapshot.verify import verify_store
from helix.types import TYPES
from pipelines.embedded.ingest import ingest
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.rollback import rollback
from pipelines.maintain.touch import touch
from pipelines.training import retention
from pipelines.training.retention import find_useful, fit_model, is_due, make_examples, train
from tests.support.marks import soak_all_but
from tests.support.tiny import BASE, SETTINGS, make_store

DAY = 86_400
FADING = EngramDecay(rate=0.693, half_life=30.0, floor=0.5)
N, USED = 200, 60
COLUMN = {name: at for at, name in enumerate(FEATURES)}


def ids(snap: Snapshot, rows: Any) -> list[str]:
    return [f"{key:016x}" for key in snap.columns.key[rows].tolist()]


def usage(root: Path, rows: Any, at: float = BASE + 40 * DAY, kind: str = "used") -> None:
    access_events.append_events(root, [AccessEvent(identity, kind, at) for identity in ids(Snapshot.open(root), rows)])


@pytest.fixture(scope="module")
def template_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the salient items were useful: salience .9 against .1."""
    root = tmp_path_factory.mktemp("retention") / "store"
    vectors = np.random.default_rng(3).normal(size=(N, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    given = [{"session": f"s{i // 10}", "salience": 0.9 if i < USED else 0.1} for i in range(N)]
    make_store(root, [f"walnut number{i}" for i in range(N)], vectors, given)
    usage(root, np.arange(USED))
    return root


@pytest.fixture
def store(template_store: Path, tmp_path: Path) -> Path:
    shutil.copytree(template_store, tmp_path / "store", ignore=shutil.ignore_patterns("pins"))
    paths.create_folders(tmp_path / "store")
    return tmp_path / "store"


def model_bytes(root: Path) -> bytes | None:
    _, current = inbox.load_current(root)
    index = index_of(current)
    return (root / index.files[0].path).read_bytes() if index else None


def test_a_positive_has_its_features_from_before_it_was_useful(tmp_path: Path) -> None:
    given = [
        {"time": BASE, "salience": 0.25, "type": "decision"},
        {"time": BASE, "salience": 0.75},
        {"time": BASE + 100 * DAY, "salience": 0.5},  # added after the first was useful
    ]
    snap = make_store(tmp_path, ["one", "two", "three"], [[1, 0], [0.6, 0.8], [0, 1]], given)
    usage(tmp_path, [0, 0, 0], BASE + 30 * DAY)
    rows, access = find_useful(snap)
    assert (rows.tolist(), access.count.tolist(), access.last.tolist()) == ([0], [3], [BASE + 30 * DAY])
    x, y = make_examples(snap, rows, access, FADING)
    assert y.tolist() == [True] * retention.NEGATIVES + [False] * retention.NEGATIVES
    positive, negative = x[0], x[-1]
    # Three accesses that came evenly: the one before the last on day 20, so ten days before; two accesses until then.
    assert positive[COLUMN["age"]] == pytest.approx(10, abs=0.01)
    assert positive[COLUMN["accesses"]] == pytest.approx(math.log(3))
    assert positive[COLUMN["salience"]] == 0.25
    assert positive[4 : 4 + len(TYPES)].tolist() == [0, 0, 0, 1, 0]
    assert positive[COLUMN["retention"]] == 1  # a decision does not fade
    # It is the first turn, so the next turn replaces the question: its cosine is .6, that of the negative 1.
    assert positive[COLUMN["cosine"]] == pytest.approx(0.6, abs=0.01)
    # All negatives are the second, at the same moment: never useful, 30 days old, half decayed.
    assert np.ptp(x[retention.NEGATIVES :], axis=0).max() == 0
    assert negative[COLUMN["age"]] == pytest.approx(30, abs=0.01)
    assert negative[COLUMN["accesses"]] == 0
    assert negative[COLUMN["salience"]] == 0.75
    assert negative[COLUMN["retention"]] == pytest.approx(0.5, abs=0.001)
    assert negative[COLUMN["cosine"]] == pytest.approx(1.0, abs=0.01)


def test_useful_items_come_from_folded_and_new_events(store: Path) -> None:
    usage(store, [100], kind="wrong")
    usage(store, [101], kind="helpful")
    usage(store, [102], kind="fetched")
    before, _ = find_useful(Snapshot.open(store))
    assert set(before.tolist()) == {*range(USED), 101, 102}
    touch(store, SETTINGS)
    usage(store, [103])
    after, access = find_useful(Snapshot.open(store))
    assert set(after.tolist()) == {*range(USED), 101, 102, 103}
    assert np.all(np.diff(access.key.astype(object)) > 0)


def test_only_the_latest_count_where_there_are_many(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage(store, [7, 9], BASE + 50 * DAY)
    monkeypatch.setattr(retention, "MOST", 2)
    rows, access = find_useful(Snapshot.open(store))
    assert sorted(rows.tolist()) == [7, 9]
    assert access.count.tolist() == [2, 2]


def test_a_negative_was_never_useful(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Useful items beyond the limit are no negatives."""
    touch(store, SETTINGS)
    monkeypatch.setattr(retention, "MOST", 10)
    snap = Snapshot.open(store)
    rows, access = find_useful(snap)
    x, y = make_examples(snap, rows, access, FADING)
    assert len(rows) == 10
    assert x[y, COLUMN["salience"]].min() > 0.8
    assert x[~y, COLUMN["salience"]].max() < 0.2


def test_the_forward_pass_is_that_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.neural_network import MLPClassifier

    kept: list[Any] = []

    class Kept(MLPClassifier):
        def fit(self, x: Any, y: Any) -> Any:
            kept.append((self, x))
            return super().fit(x, y)

    monkeypatch.setattr("sklearn.neural_network.MLPClassifier", Kept)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 10)).astype(np.float32) * rng.uniform(0.1, 300, 10).astype(np.float32)
    x[:, 6] = 3.0  # a feature that never varies
    y = x[:, 0] / x[:, 0].std() + (x[:, 1] > 0) > 0.5
    model = fit_model(x, y, FADING)
    assert not isinstance(model, str)
    assert model.hidden.shape == (10, retention.HIDDEN)
    assert model.decay.tolist() == pytest.approx([0.693, 30, 0.5])
    network, seen = kept[0]
    expected = network.predict_proba(seen)[:, 1]
    assert expected.std() > 0.05
    np.testing.assert_allclose(predict(model, x), expected, atol=2e-4)
    assert ((predict(model, x) > 0.5) == y).mean() > 0.9
    assert dump(fit_model(x, y, FADING)) == dump(model)  # type: ignore[arg-type]


def test_the_model_scores_useful_items_higher(store: Path) -> None:
    done = train(store, SETTINGS)
    assert (done.positives, done.off) == (USED, "")
    snap = Snapshot.open(store)
    assert snap.generation == done.generation == 2
    model = open_model(snap.root, snap.manifest)
    assert model is not None
    expected = profile("engram").decay
    assert model.decay.tolist() == pytest.approx([expected.rate, expected.half_life, expected.floor])
    rows, access = find_useful(snap)
    x, y = make_examples(snap, rows, access, expected)
    p = predict(model, x)
    assert p[y].mean() > 0.9
    assert p[~y].mean() < 0.1
    assert verify_store(store).problems == ()


def test_the_same_store_gives_the_same_model_once(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "twin", ignore=shutil.ignore_patterns("pins"))
    paths.create_folders(tmp_path / "twin")
    for root in (store, tmp_path / "twin"):
        assert train(root, SETTINGS).off == ""
    assert model_bytes(store) == model_bytes(tmp_path / "twin")
    again = train(store, SETTINGS)
    assert (again.generation, "is the same" in again.off) == (2, True)
    usage(store, np.arange(60, 80))
    assert train(store, SETTINGS).generation == 3
    assert model_bytes(store) != model_bytes(tmp_path / "twin")
    _, current = inbox.load_current(store)
    assert current is not None
    assert [index.kind for index in current.indexes].count(KIND) == 1


def test_too_few_useful_items_publish_nothing(store: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    make_store(few, [f"walnut {i}" for i in range(60)])
    usage(few, np.arange(retention.FEWEST - 1))
    files = {path for path in few.rglob("*") if path.is_file() and "pins" not in path.parts}
    done = train(few, SETTINGS)
    assert done.generation == 1
    assert done.off == f"{retention.FEWEST - 1} items were useful, {retention.FEWEST} are needed"
    assert {path for path in few.rglob("*") if path.is_file() and "pins" not in path.parts} == files
    usage(few, np.arange(60))
    assert "too few items were never useful" in train(few, SETTINGS).off  # every item was useful
    paths.create_folders(tmp_path / "empty")
    assert train(tmp_path / "empty", SETTINGS).off == "nothing is published yet"


def test_without_scikit_learn_the_reason_is_reported(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)
    assert "scikit-learn" in train(store, SETTINGS).off
    assert model_bytes(store) is None


def test_a_training_is_due_after_enough_folded_events(store: Path) -> None:
    assert not is_due(store)
    touch(store, SETTINGS)
    assert is_due(store)
    train(store, SETTINGS)
    assert not is_due(store)
    usage(store, np.arange(60, 71))
    touch(store, SETTINGS)
    assert not is_due(store)  # 71 of at least 72
    usage(store, [71])
    touch(store, SETTINGS)
    assert is_due(store)


def test_the_maintenance_worker_trains_when_it_is_due(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers import tasks

    requested: list[str] = []
    monkeypatch.setenv("HELIX_STORE", str(store))
    monkeypatch.setattr(tasks, "request_task", lambda app, name, store: requested.append(name))
    tasks.maintain()
    tasks.train()
    assert (requested, model_bytes(store)) == ([], None)  # nothing is folded yet
    touch(store, SETTINGS)
    tasks.maintain()
    assert requested == ["helix.train"]
    tasks.train()
    assert model_bytes(store) is not None
    tasks.maintain()
    assert requested == ["helix.train"]


POINTS = [(f"retention.{name}", False) for name in ("begin", "trained", "index")]
POINTS += [("commit.manifest", False), ("commit.current", True), ("retention.published", True)]


@pytest.mark.parametrize(("point", "after"), soak_all_but(POINTS, ("retention.index", False), ("commit.current", True)))
def test_a_kill_leaves_the_old_generation_or_the_new_one(point: str, after: bool, store: Path, run_helix) -> None:
    killed = run_helix("train", "--store", store, HELIX_FAILPOINT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert verify_store(store).problems == ()
    assert (model_bytes(store) is not None) == after
    done = run_helix("train", "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    assert bool(json.loads(done.stdout)["off"]) == after
    assert model_bytes(store) is not None
    collect_garbage(store, 0, 0.0, 1.0)
    assert verify_store(store).problems == ()
    assert not verify_store(store).orphans


def test_the_command_reports_the_training(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("trained on 60 useful items", "nothing was trained"):
        assert main(["train", "--store", str(store)]) == 0
        assert line in capsys.readouterr().out


def test_a_damaged_model_is_named(store: Path) -> None:
    train(store, SETTINGS)
    _, current = inbox.load_current(store)
    index = index_of(current)
    assert index is not None
    path = store / index.files[0].path
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(StoreError, match=FILE):
        open_model(store, current)
    assert any(FILE in problem for problem in verify_store(store).problems)


@pytest.fixture
def lived_in(own_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the sample and another log with a dozen useful items, and its model."""
    monkeypatch.setattr(retention, "FEWEST", 8)
    log = tmp_path / "more.jsonl"
    turns = [{"session": "more", "id": f"m{i}", "text": f"the walnut loaf number {i} is in the oven"} for i in range(9)]
    log.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    assert not ingest(own_store, [log], load()).refused
    usage(own_store, np.arange(12), time.time())
    assert not train(own_store, load()).off
    return own_store


def test_the_model_outlives_commits_merges_and_deletions(lived_in: Path, tmp_path: Path) -> None:
    trained = model_bytes(lived_in)
    assert trained is not None
    log = tmp_path / "new.jsonl"
    log.write_text(json.dumps({"session": "new", "id": "n1", "text": "the parsley stands on the sill"}) + "\n")
    for change in (
        lambda: ingest(lived_in, [log], load()),
        lambda: touch(lived_in, load()),
        lambda: compact(lived_in, load(), full=True),
        lambda: forget(lived_in, Selection(session="more"), load()),
        lambda: collect_garbage(lived_in, 0, 0.0, 1.0),
    ):
        change()
        assert model_bytes(lived_in) == trained
        assert verify_store(lived_in).problems == ()
    found = Memory(lived_in).recall("why March for the vacation?", profile="engram", explain=True)
    assert found.items[0].why["retention"] != 1

    push_store(lived_in, str(tmp_path / "remote"))
    pull_store(str(tmp_path / "remote"), tmp_path / "copy")
    assert model_bytes(tmp_path / "copy") == trained
    assert verify_store(tmp_path / "copy").problems == ()


def test_a_rollback_restores_the_model_of_its_generation(lived_in: Path) -> None:
    first, generation = model_bytes(lived_in), Snapshot.open(lived_in).generation
    usage(lived_in, np.arange(15), time.time())
    assert not train(lived_in, load()).off
    second = model_bytes(lived_in)
    assert second not in (None, first)
    rollback(lived_in, load(), to=generation)
    assert model_bytes(lived_in) == first
    assert verify_store(lived_in).problems == ()
    rollback(lived_in, load(), to=1)  # before any training
    assert model_bytes(lived_in) is None


def test_a_store_reindexed_meanwhile_is_unchanged(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = retention.fit_model

    def while_training(*given: Any) -> Any:
        with writer.acquire_lock(store, 1.0) as held:
            name, current = inbox.load_current(store)
            assert current is not None
            other = replace(current.lineage, encoder="another")
            writer.publish_generation(held, writer.build_next(held, name, current, lineage=other))
        return fitted(*given)

    monkeypatch.setattr(retention, "fit_model", while_training)
    with pytest.raises(StoreError, match="reindexed meanwhile"):
        train(store, SETTINGS)
    assert model_bytes(store) is None
    assert manifest.read_current(store) is not None
