"""`helix serve` by several processes: one socket, one answer, no request lost when a process or a generation goes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from query.discovery_read import read_address
from tests.support.processes import wait_until
from tests.support.serving import ServerProcess, get_status


def list_workers(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the ids of the processes that answer."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_several_processes_serve_as_one(own_store: Path, tmp_path: Path, run_helix) -> None:
    failures: list[str] = []
    stop = threading.Event()
    asking: list[threading.Thread] = []

    def ask() -> None:
        with httpx.Client(base_url=url, transport=httpx.HTTPTransport(retries=3)) as client:
            while not stop.is_set():
                found = client.get("/v1/recall", params={"query": "where is the saffron", "project": "default"})
                if found.status_code != 200:
                    failures.append(found.text)

    def get_generation() -> int:
        with httpx.Client(base_url=url) as fresh:  # a new connection, which any process may accept
            return int(fresh.get("/readyz").json()["snapshot"])

    def count(metric: str) -> float:
        line = re.search(rf"^{re.escape(metric)} (\S+)$", httpx.get(f"{url}/metrics").text, re.MULTILINE)
        assert line
        return float(line[1])

    with (tmp_path / "log").open("wb") as log:
        server = ServerProcess(own_store, "--workers", "2", stderr=log)
    try:
        url = server.wait_for_address().url
        wait_until(60, lambda: len(list_workers(server.process)) == 2)
        asking += [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        (tmp_path / "note.md").write_text("# Pantry\n\nThe saffron is behind the cardamom.")
        assert run_helix("ingest", tmp_path / "note.md", "--store", own_store).returncode == 0
        wait_until(60, lambda: {get_generation() for _ in range(12)} == {2})
        stop.set()
        for thread in asking:
            thread.join()
        assert failures == []
        answered = 'helix_recalls_total{outcome="answered"}'
        before = count(answered)
        for i in range(8):  # any process reports the sum of all
            with httpx.Client(base_url=url) as fresh:
                assert fresh.get("/v1/recall", params={"query": f"saffron {i}"}).status_code == 200
        assert count(answered) == before + 8
        found = httpx.get(f"{url}/v1/recall", params={"query": "where is the saffron"}).json()
        assert "behind the cardamom" in found["items"][0]["text"]
        first, second = list_workers(server.process)
        os.kill(first, signal.SIGKILL)
        wait_until(60, lambda: len(now := list_workers(server.process)) == 2 and first not in now and second in now)
        wait_until(60, lambda: all(get_status(f"{url}/readyz") == 200 for _ in range(5)))
        # A generation that cannot be read leaves the last good one serving, and the status says so.
        (own_store / "CURRENT").write_text("00000003-0123456789abcdef.json\n")
        wait_until(60, lambda: get_status(f"{url}/v1/status") == 503)
        assert "does not exist" in httpx.get(f"{url}/v1/status").json()["detail"]
        wait_until(60, lambda: count("helix_reload_failures_total") >= 2)
        assert get_generation() == 2
        assert httpx.get(f"{url}/v1/recall", params={"query": "saffron"}).json()["snapshot"] == 2
    finally:
        stop.set()
        assert server.stop() == 0, (tmp_path / "log").read_text()
    assert read_address(str(own_store)) is None
    assert not (own_store / "serve.json").exists()


def test_hundreds_of_requests_are_answered(sample_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.bench.serve import ask_http, start_server

    asks = [{"query": f"what about the timeout {i % 50}", "with": {"k": 5}} for i in range(400)]
    monkeypatch.setenv("HELIX_ANSWERS", "256")  # most of them are cached
    with start_server(sample_store, 1) as place:
        assert len(ask_http(place, asks, 8)) == 400  # a wrong answer raises


def test_a_damaged_key_file_ends_the_server(tmp_path: Path, own_store: Path, run_helix) -> None:
    (tmp_path / "keys.json").write_text("{half")
    options = ("--store", own_store, "--port", 0, "--require-keys")
    done = run_helix("serve", *options, HELIX_KEYS=str(tmp_path / "keys.json"))
    assert done.returncode == 4
    assert "keys.json is damaged" in done.stderr
