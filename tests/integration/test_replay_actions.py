"""`helix eval replay --actions` on made-up sessions: what was known before, what fired, and how much of it was used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_log import REFUSED, edit, run, write_harbour_logs, write_log

TEST = "pytest -q tests/test_queue.py"
AGAIN = [
    ("ask", "the queue test fails again"),
    *run(TEST, f"E   {REFUSED}\n1 failed in 0.2s", True),
]


@pytest.fixture
def replay(run_helix: Any, tmp_path: Path) -> Any:
    def measure(*later: Any) -> dict[str, Any]:
        write_harbour_logs(tmp_path / "logs")
        write_log(tmp_path / "logs", "aaaa0009", "2026-05-09T10:00:00", [*AGAIN, *later])
        done = run_helix("eval", "replay", tmp_path / "logs", "--actions", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    return measure


def test_a_session_that_follows_the_fix(replay: Any) -> None:
    found = replay(*run("docker compose up -d redis", "started", False), *run(TEST, "4 passed in 0.3s", False))
    assert found["fixes"]["pairs"] == 1
    ways = {name: shares["in 1"] for name, shares in found["fixes"]["ways"].items()}
    assert (ways["helix, at the action"], ways["nothing"]) == (1.0, 0.0)
    assert set(ways) == {"helix, at the action", "helix, recall", "bm25", "dense", "last session", "nothing"}
    fired = found["actions"]
    assert (fired["fires"], fired["after"], fired["right"], fired["false_fires"]) == (1, 1, 1, 0.0)
    assert fired["precision"] == 1.0
    assert 0 < fired["tokens_a_session"] * fired["sessions"] <= 400


def test_a_session_that_goes_another_way(replay: Any) -> None:
    """The hook says the same, and it counts as wrong; what is named before the session is counted by use."""
    found = replay(*edit("/srv/harbour/src/queue.py"), *run(TEST, "4 passed in 0.3s", False))
    assert found["fixes"]["ways"]["helix, at the action"]["in 1"] == 1.0
    assert (found["actions"]["fires"], found["actions"]["right"]) == (1, 0)
    assert found["actions"]["false_fires"] > 0
    named = found["named"]["ways"]
    assert named["helix"]["files"] > named["nothing"]["files"] == 0.0
