"""A forked call of `helix` equals the command: same output and status, nothing shared between calls."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import pick_port

HELIX = Path(sys.executable).with_name("helix")
CALLS = [
    *(["--version"], [], ["bread"], ["recall", "--help"], ["recall", "x", "--k", "0", "--store", "STORE"]),
    ["recall", "where is the blue key", "--store", "nowhere"],
    ["recall", "What did I tell Priya?", "--store", "STORE", "--now", "2026-06-01", "--json"],
    ["sql", "SELECT count(*) FROM items", "--store", "STORE", "--json"],
]


def without_times(output: str) -> Any:
    try:
        found = json.loads(output)
    except ValueError:
        return output
    return {**found, "ms": None, "throughput": None} if isinstance(found, dict) else found


@pytest.mark.soak
def test_a_forked_call_prints_what_the_command_prints(sample_store: Path, cache: Path, run_helix) -> None:
    for call in CALLS:
        arguments = [str(sample_store) if word == "STORE" else word for word in call]
        cold = subprocess.run([str(HELIX), *arguments], capture_output=True, text=True, check=False)
        warm = run_helix(*arguments)
        assert cold.stdout + cold.stderr
        assert warm.returncode == cold.returncode
        assert (without_times(warm.stdout), warm.stderr) == (without_times(cold.stdout), cold.stderr)


def test_a_call_has_its_own_environment_and_folder(run_helix, own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "elsewhere" in run_helix("status", HELIX_STORE="elsewhere").stderr
    error = run_helix("status").stderr
    assert "elsewhere" not in error
    assert "memory" in error
    assert run_helix("status", "--store", own_store.name).returncode == 4
    monkeypatch.chdir(own_store.parent)
    assert run_helix("status", "--store", own_store.name).returncode == 0


def test_calls_run_at_once_and_one_may_be_killed(run_helix, own_store: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"session": "s", "id": "1", "text": "the walnut loaf is in the oven"}) + "\n")

    def ask(word: str) -> subprocess.CompletedProcess[str]:
        return run_helix("recall", word, "--store", own_store, "--json")

    with ThreadPoolExecutor(3) as threads:
        dying = threads.submit(run_helix, "ingest", log, "--store", own_store, HELIX_FAILPOINT="accept.envelope")
        found = [json.loads(done.stdout)["items"] for done in threads.map(ask, ["Priya", "timeout"])]
    assert all(found)
    assert dying.result().returncode == -signal.SIGKILL
    assert run_helix("ingest", log, "--store", own_store).returncode == 0


def test_a_call_that_takes_too_long_is_killed(forks, tmp_path: Path) -> None:
    port = pick_port()
    with pytest.raises(subprocess.TimeoutExpired):
        forks(["serve", "--wait", "--store", str(tmp_path / "none"), "--port", str(port)], os.environ, timeout=3)
    time.sleep(0.5)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)
    assert forks(["--version"], os.environ, timeout=60).returncode == 0
