"""`helix serve` by several processes: one socket, one answer, no request lost when a process or a generation goes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from query.discovery_read import read_address


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Processes that answer."""
    known = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in known if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_several_processes_serve_as_one(own_store: Path, tmp_path: Path, run_helix) -> None:
    command = [str(Path(sys.executable).with_name("helix")), "serve", "--store", str(own_store), "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--workers", "2"], stderr=log)
    failures: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url, transport=httpx.HTTPTransport(retries=3)) as client:
            while not stop.is_set():
                found = client.get("/v1/recall", params={"query": "where is the saffron", "project": "default"})
                if found.status_code != 200:
                    failures.append(found.text)

    try:
        until(lambda: read_address(str(own_store)))
        place = read_address(str(own_store))
        assert place
        url = f"http://{place[0]}:{place[1]}"
        until(lambda: len(children(process)) == 2)
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        (tmp_path / "note.md").write_text("# Pantry\n\nThe saffron is behind the cardamom.")
        assert run_helix("ingest", tmp_path / "note.md", "--store", own_store).returncode == 0

        def generation() -> int:
            with httpx.Client(base_url=url) as fresh:  # a connection of its own: whichever of them takes it
                return int(fresh.get("/readyz").json()["snapshot"])

        until(lambda: {generation() for _ in range(12)} == {2})
        stop.set()
        for thread in asking:
            thread.join()
        assert failures == []
        told = httpx.get(f"{url}/metrics").text
        answered = re.search(r'helix_recalls_total\{outcome="answered"\} (\d+)', told)
        assert answered
        before = int(answered[1])
        for i in range(8):  # whoever is asked tells of all of them
            with httpx.Client(base_url=url) as fresh:
                assert fresh.get("/v1/recall", params={"query": f"saffron {i}"}).status_code == 200
        assert f'helix_recalls_total{{outcome="answered"}} {before + 8}.0' in httpx.get(f"{url}/metrics").text
        first, second = children(process)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(found := children(process)) == 2 and first not in found and second in found)
        until(lambda: all(httpx.get(f"{url}/readyz").status_code == 200 for _ in range(5)))
    finally:
        stop.set()
        process.terminate()
        assert process.wait(40) == 0, (tmp_path / "log").read_text()
    assert read_address(str(own_store)) is None
    assert not (own_store / "serve.json").exists()


def test_a_thousand_requests_of_eight_clients(sample_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.bench.serve import over_http, served

    asks = [{"query": f"what about the timeout {i % 50}", "with": {"k": 5}} for i in range(1_000)]
    monkeypatch.setenv("HELIX_ANSWERS", "256")  # most of them are asked again
    with served(sample_store, 1) as place:
        assert len(over_http(place, asks, 8)) == 1_000  # any answer that is none ends it


def test_where_none_of_them_can_begin(tmp_path: Path, own_store: Path) -> None:
    (tmp_path / "keys.json").write_text("{half")
    command = [str(Path(sys.executable).with_name("helix")), "serve", "--store", str(own_store), "--port", "0"]
    done = subprocess.run(
        [*command, "--require-keys"],
        env={**os.environ, "HELIX_KEYS": str(tmp_path / "keys.json")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert "keys.json is damaged" in done.stderr
