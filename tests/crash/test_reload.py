"""A query process that takes new generations: whatever a look raises, it goes on, says so, and takes the next one."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from helix.errors import EncoderError, HelixError, StoreError
from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot.ledger.access_events import append, make_event
from helix.snapshot.reader import snapshot as reader
from pipelines.maintain.touch import touch
from query import service as module
from query.service import OUTDATED, QueryService
from tests.compat.history import DIM, current, delete, grow, publish
from tests.support.serving import serving
from tests.support.tiny import SETTINGS, make_store

QUICK = replace(SETTINGS, reload_interval=0.01)
TEXTS = [f"remark {i} about walnut bread" for i in range(8)]


class Panic(BaseException):
    """What a library in Rust raises: no Exception."""


KINDS = (
    StoreError("broken", "mend it"),
    EncoderError("no encoder"),
    OSError(5, "Input/output error"),
    ValueError("broken"),
    KeyError("broken"),
    AttributeError("broken"),
    AssertionError("broken"),
    RuntimeError("broken"),
    MemoryError(),
    RecursionError("broken"),
    UnicodeDecodeError("utf-8", b"\xe1", 0, 1, "broken"),
    pa.ArrowInvalid("broken"),
    Panic("broken"),
)

STEPS: tuple[tuple[Any, str], ...] = (
    (Memory, "stale"),
    (manifests, "current_name"),
    (manifests, "load"),
    (reader, "pin"),
    (reader, "Hold"),
    (reader, "check_files"),
    (reader, "open_segment"),
    (reader, "link"),
    (reader, "Columns"),
    (reader, "acl"),
    (reader.Snapshot, "_alive"),
    (reader.Snapshot, "_open_dense"),
    (reader.Snapshot, "adopt"),
    (reader.Snapshot, "warm"),
    (reader.Snapshot, "seen_by"),
    (reader, "FactField"),
    (reader, "Graph"),
    (reader, "load_access"),
)
"""What a look calls, from the pointer to the last thing that is made ready."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", TEXTS, np.ones((len(TEXTS), DIM)) / 2)
    return tmp_path / "store"


@contextmanager
def served(root: Path) -> Iterator[QueryService]:
    service = QueryService(root, QUICK)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def until(condition: Callable[[], object], told: object = "") -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, told
        time.sleep(0.005)


def texts(service: QueryService) -> set[str]:
    snapshot = service.memory.snapshot
    return {entry["text"] for entry in snapshot.text(np.flatnonzero(snapshot.alive))}


def raising(error: BaseException, real: Any) -> Any:
    """Raises where the watching thread calls it; whoever publishes meanwhile calls the real one."""

    def step(*arguments: Any, **given: Any) -> Any:
        if threading.current_thread().name == "helix-reload":
            raise error
        return real(*arguments, **given)

    return step


def test_whatever_a_look_raises_is_told_counted_and_tried_again(root: Path) -> None:
    failed: list[int] = []
    wrong: list[str] = []
    with served(root) as service:
        append(root, [make_event(f"{int(service.memory.snapshot.columns.key[0]):016x}", "used")])
        touch(root, QUICK)  # so that there are accesses to load
        service.on_failure = lambda: failed.append(1)
        each = [(step, KINDS[i % len(KINDS)]) for i, step in enumerate(STEPS)]
        for (owner, name), error in [*each, *(((reader.Snapshot, "warm"), error) for error in KINDS)]:
            case = f"{name} {type(error).__name__} {len(failed)}"
            until(lambda: service.memory.snapshot.name == manifests.current_name(root) and not service.trouble, case)
            before, counted = service.memory.snapshot.generation, len(failed)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, raising(error, getattr(owner, name)))
                grow(root, [case], session=case)
                until(lambda counted=counted: len(failed) > counted + 1, f"{case}: not noticed, or not tried again")
                said = service.trouble or ""
                if service.memory.snapshot.generation != before or case in texts(service):
                    wrong.append(f"{case}: the broken generation answers")
                if (error.what if isinstance(error, HelixError) else type(error).__name__) not in said:
                    wrong.append(f"{case}: {said!r} does not name it")
            until(lambda before=before: service.memory.snapshot.generation == before + 1, f"{case}: not taken")
            until(lambda: service.trouble is None, f"{case}: still in trouble")
            if case not in texts(service):
                wrong.append(f"{case}: what was published is not there")
        assert service.reload_age < 30
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_old_generation_that_cannot_be_let_go_stops_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "release", raising(OSError(5, "Input/output error"), reader.release))
    with served(root) as service:
        for generation in (2, 3, 4):
            grow(root, [f"remark of generation {generation}"], session=str(generation))
            until(lambda generation=generation: service.memory.snapshot.generation == generation)
        assert service.trouble is None


def test_a_bad_byte_in_a_name_ends_nothing(root: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "other", ["parsley"], np.ones((1, DIM)) / 2, [{"acl": ["annabella"], "session": "other"}])
    (segment,) = current(tmp_path / "other").segments
    shutil.copytree(tmp_path / "other" / "segments" / segment.id, root / "segments" / segment.id)
    columns = root / "segments" / segment.id / "columns.arrow"
    whole = columns.read_bytes()
    columns.write_bytes(whole.replace(b"annabella", b"\xe1nnabella"))
    with served(root) as service:
        failed: list[int] = []
        service.on_failure = lambda: failed.append(1)
        publish(root, segments=(*current(root).segments, segment))
        until(lambda: len(failed) > 2)
        assert service.trouble
        assert texts(service) == set(TEXTS)
        delete(root, 0, [3])  # as forgetting does, on top of the broken one
        columns.write_bytes(whole)
        until(lambda: texts(service) == {*TEXTS, "parsley"} - {TEXTS[3]})
        assert service.trouble is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watching_thread_that_is_gone_is_replaced_and_requests_look_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OVERDUE", 0.05)
    with served(root) as service:
        gone = service._thread
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "stale", raising(SystemExit(1), Memory.stale))
            gone.join(30)
            assert not gone.is_alive()
        delete(root, 0, [3])  # as forgetting does
        time.sleep(0.1)
        assert TEXTS[3] not in texts(service)  # the first request that comes late looks itself
        grow(root, ["the parsley is in the blue bowl"], "next")
        snapshot = service._memory
        assert snapshot is not None
        until(lambda: snapshot.snapshot.generation == 3)  # and nobody asks any more


def test_a_look_that_hangs_holds_nobody_up_and_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OVERDUE", 0.01)
    monkeypatch.setattr(module, "_SILENT", 0.1)
    hung, go_on = threading.Event(), threading.Event()
    real = Memory.refresh

    def hang(memory: Memory) -> bool:
        hung.set()
        assert go_on.wait(60)
        return real(memory)

    with served(root) as service:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "refresh", hang)
            grow(root, ["the parsley is in the blue bowl"], "p")
            assert hung.wait(30)
            until(lambda: service.trouble)
            assert "has not ended" in (service.trouble or "")
            assert texts(service) == set(TEXTS)  # and not after the look
            assert service.reload_age > 0.1
        go_on.set()
        until(lambda: service.trouble is None and service.memory.snapshot.generation == 2)


def test_readiness_and_metrics_say_so(root: Path) -> None:
    with serving(root, QUICK) as client:
        assert client.get("/readyz").json() == {"status": "ready", "snapshot": 1}
        assert number(client, "helix_reload_failures_total") == number(client, "helix_trouble") == 0
        assert number(client, "helix_reload_age_seconds") < 30
        name = (root / "CURRENT").read_text()
        (root / "CURRENT").write_text("00000009-0123456789abcdef.json\n")
        until(lambda: number(client, "helix_reload_failures_total") > 1)
        assert number(client, "helix_trouble") == 1
        found = client.get("/readyz")
        assert (found.status_code, found.json()) == (200, {"status": "ready", "snapshot": 1, "trouble": OUTDATED})
        assert client.get("/v1/recall?query=walnut").status_code == 200
        (root / "CURRENT").write_text(name)
        until(lambda: number(client, "helix_trouble") == 0)
        assert "trouble" not in client.get("/readyz").json()


def number(client: httpx.Client, name: str) -> float:
    return float(re.search(rf"^{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)[1])
