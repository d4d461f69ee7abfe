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
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Company]:
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


def settle(made: Company, expected: dict[str, dict[str, str]], seconds: float = 120) -> None:
    """Wait until the stores have no work, and check that each holds its own documents once."""
    wait_until(seconds, lambda: all(made.is_done(store) for store in expected), made.log)
    for store, texts in expected.items():
        assert items(made.stores / store) == texts, store
        assert verify_store(made.stores / store).problems == ()


def test_stores_are_published_apart_and_share_their_encoder(made: Company, tmp_path: Path) -> None:
    expected = {store: write(tmp_path / store, store, 4) for store in ("ana", "ben", "cas")}
    for store in expected:
        made.enqueue(store, tmp_path / store)
    settle(made, expected)
    folders = {next((made.stores / store / "encoders").iterdir()) for store in expected}
    models = [(folder / "model.onnx").stat() for folder in folders]
    assert len({(model.st_dev, model.st_ino) for model in models}) == 1
    assert models[0].st_nlink >= 4  # of the stores, and the shared one
    done = made.events("committed")
    assert {entry["store"] for entry in done} >= {*expected}


def test_an_import_and_a_fresh_turn_of_another_store(made: Company, tmp_path: Path) -> None:
    """The import does not pass the queue of fresh turns, nor do its commits."""
    expected = {"imports": write(tmp_path / "imports", "imports", 40, 12), "dan": write(tmp_path / "dan", "dan", 1)}
    made.enqueue("imports", tmp_path / "imports")
    wait_until(60, lambda: made.events("enriched", store="imports"), made.log)
    made.enqueue("dan", tmp_path / "dan")
    wait_until(60, lambda: made.is_done("dan"), made.log)
    assert not made.is_done("imports")
    settle(made, expected)


def test_a_store_that_is_deleted_while_messages_wait(made: Company, tmp_path: Path) -> None:
    for name in list(made.running):
        made.kill(name)
    expected = {store: write(tmp_path / store, store, 3) for store in ("stays", "goes")}
    for store in ("goes", "stays"):
        made.enqueue(store, tmp_path / store)
    shutil.rmtree(made.stores / "goes")
    before = len(made.events("ready"))
    made.worker(FRESH, FRESH, HELIX_FAILPOINT=f"commit.segment@{KILLED}")  # for a later test
    made.worker(IMPORTS, IMPORTS)
    made.wait_for_workers(before + 2)
    settle(made, {"stays": expected["stays"]})
    wait_until(60, lambda: len(made.events("its store does not exist", store="goes")) >= 3, made.log)
    assert not (made.stores / "goes").exists()
    assert not [entry for entry in made.events("failed") if entry.get("store") == "goes"]
    made.enqueue("goes", tmp_path / "goes")  # a store of that name may begin again
    settle(made, expected)


def test_a_commit_that_waits_for_its_store_does_not_delay_other_stores(made: Company, tmp_path: Path) -> None:
    expected = {store: write(tmp_path / store, store, 1) for store in ("held", "free")}
    made.enqueue("held", tmp_path / "held")
    settle(made, {"held": expected["held"]})
    expected["held"] |= write(tmp_path / "more", "heldmore", 1)
    with writer.acquire_lock(made.stores / "held", 5.0):
        (document,) = made.enqueue("held", tmp_path / "more")
        wait_until(60, lambda: any((made.stores / "held" / "parts").glob(f"{document}*")), made.log)
        made.enqueue("free", tmp_path / "free")
        settle(made, {"free": expected["free"]})
        assert not made.is_done("held")
    settle(made, expected)


def test_a_worker_that_dies_in_a_commit_delays_no_other_store(made: Company, tmp_path: Path) -> None:
    lost = len(made.events("lost"))
    expected = {store: write(tmp_path / store, store, 2) for store in (KILLED, "eve", "fay")}
    for store in expected:
        made.enqueue(store, tmp_path / store)
    settle(made, {store: expected[store] for store in ("eve", "fay")})
    settle(made, expected)  # the other worker makes the commit
    assert len(made.events("lost")) > lost


def test_two_fleets_commit_the_same_store(made: Company, tmp_path: Path) -> None:
    other = replace(made, redis=Redis(tmp_path / "redis"), running={})
    other.redis.start()
    before = len(made.events("ready"))
    try:
        other.worker("second", FRESH)
        made.wait_for_workers(before + 1)
        expected: dict[str, str] = {}
        for i in range(8):
            expected |= write(tmp_path / f"both{i}", f"both{i}", 1)
            (made, other)[i % 2].enqueue("both", tmp_path / f"both{i}")
        settle(made, {"both": expected})
    finally:
        other.close()


def test_a_dead_document_is_its_stores_own_and_can_be_tried_again(
    made: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {store: write(tmp_path / store, store, 1) for store in ("ill", "well")}
    root = made.stores / "ill"
    report = IngestReport()
    (document,) = accept_all(root, [tmp_path / "ill"], made.settings, report, project=None, format="auto", acl=())
    envelope = root / "inbox" / document
    whole = envelope.read_bytes()
    envelope.write_bytes(whole[:-3])
    made.enqueue("well", tmp_path / "well")
    Sender(made.app, root, "ill").send([document])
    settle(made, {"well": expected["well"]})
    wait_until(60, lambda: inbox.is_dead(root, document), made.log)
    states = {one.store: one for one in summarise_stores(made.stores)}
    assert (states["ill"].dead, states["ill"].waiting, states["ill"].generation) == (1, 0, 0)
    assert (states["well"].dead, states["well"].items) == (0, 3)
    assert main(["status", "--stores", str(made.stores), "--json"]) == 0
    assert {one["store"]: one["dead"] for one in json.loads(capsys.readouterr().out)["stores"]}["ill"] == 1
    envelope.write_bytes(whole)
    monkeypatch.setenv("HELIX_STORES", str(made.stores))
    monkeypatch.setenv("HELIX_REDIS_URL", made.redis.url)
    monkeypatch.setattr("workers.app.app", made.app)
    assert main(["retry", "--store", str(root), "--all"]) == 0
    settle(made, expected)
