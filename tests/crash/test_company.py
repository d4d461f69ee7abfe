"""Many stores on one fleet: each is published by itself, whatever happens to another one or to a worker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helix.cli.main import main
from helix.snapshot import writer
from helix.snapshot.fleet_status import summarise_stores
from helix.snapshot.ledger import inbox
from helix.snapshot.verify import verify_store
from pipelines.ingest.accept_all import IngestReport, accept_all
from tests.crash.test_kill import items, write_log
from tests.support.company import FRESH, IMPORTS, Company, company
from tests.support.fleet import Redis
from tests.support.processes import wait_until
from workers.dispatch import Sender

KILLED = "killed"
"""A store whose commits kill one of the workers."""


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Company]:
    """A company with two workers."""
    with company(tmp_path_factory.mktemp("company") / "company", (FRESH, IMPORTS)) as running:
        yield running


def write(folder: Path, store: str, documents: int, turns: int = 3) -> dict[str, str]:
    """Write logs; return the expected texts by turn."""
    folder.mkdir(exist_ok=True)
    expected = {}
    for i in range(documents):
        session = f"{store}{i}"
        texts = [f"{session} says {j}: walnuts" for j in range(turns)]
        write_log(folder / f"{session}.jsonl", session, texts)
        expected |= {f"{session}#{session}:{j}": text for j, text in enumerate(texts)}
    return expected


def settle(crew: Company, expected: dict[str, dict[str, str]], seconds: float = 120) -> None:
    """Wait until the stores have no work, and check that each holds its own documents once."""
    wait_until(seconds, lambda: all(crew.is_done(store) for store in expected), crew.log)
    for store, texts in expected.items():
        assert items(crew.stores / store) == texts, store
        assert verify_store(crew.stores / store).problems == ()


def test_stores_are_published_apart_and_share_their_encoder(crew: Company, tmp_path: Path) -> None:
    expected = {store: write(tmp_path / store, store, 4) for store in ("ana", "ben", "cas")}
    for store in expected:
        crew.enqueue(store, tmp_path / store)
    settle(crew, expected)
    folders = {next((crew.stores / store / "encoders").iterdir()) for store in expected}
    models = [(folder / "model.onnx").stat() for folder in folders]
    assert len({(model.st_dev, model.st_ino) for model in models}) == 1
    assert models[0].st_nlink >= 4  # of the stores, and the shared one
    done = crew.events("committed")
    assert {entry["store"] for entry in done} >= {*expected}


def test_an_import_and_a_fresh_turn_of_another_store(crew: Company, tmp_path: Path) -> None:
    """The import does not pass the queue of fresh turns, nor do its commits."""
    expected = {"imports": write(tmp_path / "imports", "imports", 40, 12), "dan": write(tmp_path / "dan", "dan", 1)}
    crew.enqueue("imports", tmp_path / "imports")
    wait_until(60, lambda: crew.events("enriched", store="imports"), crew.log)
    crew.enqueue("dan", tmp_path / "dan")
    wait_until(60, lambda: crew.is_done("dan"), crew.log)
    assert not crew.is_done("imports")
    settle(crew, expected)


def test_a_store_that_is_deleted_while_messages_wait(crew: Company, tmp_path: Path) -> None:
    for name in list(crew.running):
        crew.kill(name)
    expected = {store: write(tmp_path / store, store, 3) for store in ("stays", "goes")}
    for store in ("goes", "stays"):
        crew.enqueue(store, tmp_path / store)
    shutil.rmtree(crew.stores / "goes")
    before = len(crew.events("ready"))
    crew.worker(FRESH, FRESH, HELIX_FAILPOINT=f"commit.segment@{KILLED}")  # for a later test
    crew.worker(IMPORTS, IMPORTS)
    crew.wait_for_workers(before + 2)
    settle(crew, {"stays": expected["stays"]})
    wait_until(60, lambda: len(crew.events("its store does not exist", store="goes")) >= 3, crew.log)
    assert not (crew.stores / "goes").exists()
    assert not [entry for entry in crew.events("failed") if entry.get("store") == "goes"]
    crew.enqueue("goes", tmp_path / "goes")  # a store of that name may begin again
    settle(crew, expected)


def test_a_commit_that_waits_for_its_store_does_not_delay_other_stores(crew: Company, tmp_path: Path) -> None:
    expected = {store: write(tmp_path / store, store, 1) for store in ("held", "free")}
    crew.enqueue("held", tmp_path / "held")
    settle(crew, {"held": expected["held"]})
    expected["held"] |= write(tmp_path / "more", "heldmore", 1)
    with writer.acquire_lock(crew.stores / "held", 5.0):
        (document,) = crew.enqueue("held", tmp_path / "more")
        wait_until(60, lambda: any((crew.stores / "held" / "parts").glob(f"{document}*")), crew.log)
        crew.enqueue("free", tmp_path / "free")
        settle(crew, {"free": expected["free"]})
        assert not crew.is_done("held")
    settle(crew, expected)


def test_a_worker_that_dies_in_a_commit_delays_no_other_store(crew: Company, tmp_path: Path) -> None:
    lost = len(crew.events("lost"))
    expected = {store: write(tmp_path / store, store, 2) for store in (KILLED, "eve", "fay")}
    for store in expected:
        crew.enqueue(store, tmp_path / store)
    settle(crew, {store: expected[store] for store in ("eve", "fay")})
    settle(crew, expected)  # the other worker makes the commit
    assert len(crew.events("lost")) > lost


def test_two_fleets_commit_the_same_store(crew: Company, tmp_path: Path) -> None:
    other = replace(crew, redis=Redis(tmp_path / "redis"), running={})
    other.redis.start()
    before = len(crew.events("ready"))
    try:
        other.worker("second", FRESH)
        crew.wait_for_workers(before + 1)
        expected: dict[str, str] = {}
        for i in range(8):
            expected |= write(tmp_path / f"both{i}", f"both{i}", 1)
            (crew, other)[i % 2].enqueue("both", tmp_path / f"both{i}")
        settle(crew, {"both": expected})
    finally:
        other.close()


def test_a_dead_document_is_its_stores_own_and_can_be_tried_again(
    crew: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {store: write(tmp_path / store, store, 1) for store in ("ill", "well")}
    root = crew.stores / "ill"
    report = IngestReport()
    (document,) = accept_all(root, [tmp_path / "ill"], crew.settings, report, project=None, format="auto", acl=())
    envelope = root / "inbox" / document
    whole = envelope.read_bytes()
    envelope.write_bytes(whole[:-3])
    crew.enqueue("well", tmp_path / "well")
    Sender(crew.app, root, "ill").send([document])
    settle(crew, {"well": expected["well"]})
    wait_until(60, lambda: inbox.is_dead(root, document), crew.log)
    states = {one.store: one for one in summarise_stores(crew.stores)}
    assert (states["ill"].dead, states["ill"].waiting, states["ill"].generation) == (1, 0, 0)
    assert (states["well"].dead, states["well"].items) == (0, 3)
    assert main(["status", "--stores", str(crew.stores), "--json"]) == 0
    assert {one["store"]: one["dead"] for one in json.loads(capsys.readouterr().out)["stores"]}["ill"] == 1
    envelope.write_bytes(whole)
    monkeypatch.setenv("HELIX_STORES", str(crew.stores))
    monkeypatch.setenv("HELIX_REDIS_URL", crew.redis.url)
    monkeypatch.setattr("workers.app.app", crew.app)
    assert main(["retry", "--store", str(root), "--all"]) == 0
    settle(crew, expected)
