"""A query process that takes new generations: after any error it continues, reports it, and takes the next one."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from helix.errors import EncoderError, HelixError, StoreError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot.ledger.access_events import append_events, make_event
from helix.snapshot.reader import generation, row_map, snapshot
from pipelines.maintain.forget import Selection, forget
from pipelines.maintain.touch import touch
from query import service as module
from query.schema.entities import EntitiesRequest
from query.service import QueryService
from query.store_state import OUTDATED
from tests.compat.history import DIM, current, delete, grow, publish
from tests.support.processes import wait_until
from tests.support.serving import serving
from tests.support.tiny import SETTINGS, make_store

QUICK = replace(SETTINGS, reload_interval=0.01)
TEXTS = [f"remark {i} about walnut bread" for i in range(8)]


class Panic(BaseException):
    """A panic of a Rust library, which is not an Exception."""


KINDS = (
    StoreError("broken", "mend it"), EncoderError("no encoder"), OSError(5, "Input/output error"), ValueError("broken"),
    KeyError("broken"), AttributeError("broken"), AssertionError("broken"), RuntimeError("broken"), MemoryError(),
    RecursionError("broken"), UnicodeDecodeError("utf-8", b"\xe1", 0, 1, "broken"), pa.ArrowInvalid("broken"),
    Panic("broken"),
)  # fmt: skip

STEPS: tuple[tuple[Any, str], ...] = (
    (Memory, "stale"),
    *((manifests, name) for name in ("read_current", "load")),
    *((generation, name) for name in ("pin_generation", "check_files", "open_segment", "load_access", "list_acl")),
    *((generation.Generation, name) for name in ("_find_undeleted", "_begin_dense")),
    *((row_map, name) for name in ("link_sessions", "SnapshotColumns")),
    *((snapshot, name) for name in ("map_rows", "Catalog", "Lexical", "Vectors", "Facts", "GraphView")),
    *((snapshot.Snapshot, name) for name in ("adopt", "warm", "seen_by")),
)
"""The steps of a look, from the pointer to the last warm part."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", TEXTS, np.ones((len(TEXTS), DIM)) / 2)
    return tmp_path / "store"


@contextmanager
def serve_quickly(root: Path) -> Iterator[QueryService]:
    service = QueryService(root, QUICK)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def list_texts(service: QueryService) -> set[str]:
    snapshot = service.memory.snapshot
    return {entry["text"] for entry in snapshot.text(np.flatnonzero(snapshot.alive))}


def fail_in_watcher(error: BaseException, real: Any) -> Any:
    """Return a function that raises in the watching thread, and calls the real one elsewhere."""

    def step(*arguments: Any, **given: Any) -> Any:
        if threading.current_thread().name == "helix-reload":
            raise error
        return real(*arguments, **given)

    return step


def test_any_error_of_a_look_is_reported_counted_and_tried_again(root: Path) -> None:
    failed: list[int] = []
    wrong: list[str] = []
    with serve_quickly(root) as service:
        append_events(root, [make_event(f"{int(service.memory.snapshot.columns.key[0]):016x}", "used")])
        touch(root, QUICK)

        def is_newest() -> bool:
            return service.memory.snapshot.name == manifests.read_current(root) and not service.trouble

        service.on_failure = lambda: failed.append(1)
        assert len(STEPS) >= len(KINDS)
        for (owner, name), error in zip(STEPS, cycle(KINDS), strict=False):
            case = f"{name} {type(error).__name__} {len(failed)}"
            wait_until(60, is_newest, partial(str, case))
            before, counted = service.memory.snapshot.generation, len(failed)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, fail_in_watcher(error, getattr(owner, name)))
                grow(root, [case], session=case)
                again = partial(str, f"{case}: not noticed, or not tried again")
                wait_until(60, lambda counted=counted: len(failed) > counted + 1, again)
                trouble = service.trouble or ""
                if service.memory.snapshot.generation != before or case in list_texts(service):
                    wrong.append(f"{case}: the broken generation answers")
                if (error.what if isinstance(error, HelixError) else type(error).__name__) not in trouble:
                    wrong.append(f"{case}: {trouble!r} does not name it")
            wait_until(60, is_newest, partial(str, f"{case}: not taken, or still in trouble"))
            assert service.memory.snapshot.generation == before + 1
            if case not in list_texts(service):
                wrong.append(f"{case}: what was published is not there")
        assert service.reload_age < 30
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_release_of_an_old_generation_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = generation.release_pin
    monkeypatch.setattr(generation, "release_pin", fail_in_watcher(OSError(5, "Input/output error"), real))
    with serve_quickly(root) as service:
        for number in (2, 3, 4):
            grow(root, [f"remark of generation {number}"], session=str(number))
            wait_until(60, lambda number=number: service.memory.snapshot.generation == number)
        wait_until(60, lambda: service.trouble is None)  # a moment after the swap


def test_a_bad_byte_in_a_name_stops_nothing(root: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "other", ["parsley"], np.ones((1, DIM)) / 2, [{"acl": ["annabella"], "session": "other"}])
    (segment,) = current(tmp_path / "other").segments
    shutil.copytree(tmp_path / "other" / "segments" / segment.id, root / "segments" / segment.id)
    columns = root / "segments" / segment.id / "columns.arrow"
    whole = columns.read_bytes()
    columns.write_bytes(whole.replace(b"annabella", b"\xe1nnabella"))
    with serve_quickly(root) as service:
        failed: list[int] = []
        service.on_failure = lambda: failed.append(1)
        publish(root, segments=(*current(root).segments, segment))
        wait_until(60, lambda: len(failed) > 2)
        assert service.trouble
        assert list_texts(service) == set(TEXTS)
        delete(root, 0, [3])  # as `forget` does, after the broken one
        columns.write_bytes(whole)
        wait_until(60, lambda: list_texts(service) == {*TEXTS, "parsley"} - {TEXTS[3]})
        wait_until(60, lambda: service.trouble is None)  # a moment after the swap


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_watching_thread_is_replaced_and_requests_look_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OVERDUE", 0.05)
    with serve_quickly(root) as service:
        gone = service._thread
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "stale", fail_in_watcher(SystemExit(1), Memory.stale))
            gone.join(60)
            assert not gone.is_alive()
        delete(root, 0, [3])  # as `forget` does
        time.sleep(0.1)
        assert TEXTS[3] not in list_texts(service)  # the first late request looks itself
        grow(root, ["the parsley is in the blue bowl"], "next")
        snapshot = service._memory
        assert snapshot is not None
        wait_until(60, lambda: snapshot.snapshot.generation == 3)  # without any request


def test_a_hung_look_delays_no_request_and_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OVERDUE", 0.01)
    monkeypatch.setattr(module, "_HUNG", 0.1)
    hung, go_on = threading.Event(), threading.Event()
    real = Memory.refresh

    def hang(memory: Memory) -> bool:
        hung.set()
        assert go_on.wait(60)
        return real(memory)

    with serve_quickly(root) as service:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "refresh", hang)
            grow(root, ["the parsley is in the blue bowl"], "p")
            assert hung.wait(60)
            wait_until(60, lambda: service.trouble)
            assert "has not ended" in (service.trouble or "")
            assert list_texts(service) == set(TEXTS)  # before the look ends
            assert service.reload_age > 0.1
        go_on.set()
        wait_until(60, lambda: service.trouble is None and service.memory.snapshot.generation == 2)


def test_a_request_whose_files_a_deletion_removed_reads_the_newest_generation(root: Path) -> None:
    service = QueryService(root, replace(SETTINGS, reload_interval=3600))
    service.start()
    try:
        key = f"{int(service.memory.snapshot.columns.key[3]):016x}"
        forget(root, Selection(items=(key,)), SETTINGS)
        assert service.memory.snapshot.generation == 1  # its files are gone
        assert service.browse("entities", EntitiesRequest()) is not None
        assert service.memory.snapshot.generation == current(root).generation > 1
        assert list_texts(service) == {*TEXTS} - {TEXTS[3]}
    finally:
        service.stop()


def test_a_missing_file_of_the_newest_generation_is_an_error(root: Path) -> None:
    with serve_quickly(root) as service:
        for path in root.glob("segments/*/entities.parquet"):
            path.unlink()
        with pytest.raises(StoreError, match="the file is missing"):
            service.browse("entities", EntitiesRequest())


def test_readiness_and_metrics_report_the_trouble(root: Path) -> None:
    with serving(root, QUICK) as client:
        assert client.get("/readyz").json() == {"status": "ready", "snapshot": 1}
        assert read_metric(client, "helix_reload_failures_total") == read_metric(client, "helix_trouble") == 0
        assert read_metric(client, "helix_reload_age_seconds") < 30
        name = (root / "CURRENT").read_text()
        (root / "CURRENT").write_text("00000009-0123456789abcdef.json\n")
        wait_until(60, lambda: read_metric(client, "helix_reload_failures_total") > 1)
        assert read_metric(client, "helix_trouble") == 1
        found = client.get("/readyz")
        assert (found.status_code, found.json()) == (200, {"status": "ready", "snapshot": 1, "trouble": OUTDATED})
        assert client.get("/v1/recall?query=walnut").status_code == 200
        (root / "CURRENT").write_text(name)
        wait_until(60, lambda: read_metric(client, "helix_trouble") == 0)
        assert "trouble" not in client.get("/readyz").json()


def read_metric(client: httpx.Client, name: str) -> float:
    return float(re.search(rf"^{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)[1])
