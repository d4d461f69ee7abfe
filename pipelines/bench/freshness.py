"""Time from a host's write of a turn to its recall, with `helix watch`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import helix
from helix.errors import StoreError
from helix.sdk.memory import Memory

_READY = 120.0  # seconds to load the encoder
_LATEST = 60.0  # seconds for a turn


def measure(store: Path | None, turns: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Append turns to a log, one at a time, and ask for each until it is found.

    Args:
        store: an existing one, which receives the turns; None for a new one.

    Raises:
        StoreError: a turn was not found within a minute.
    """
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        root = store or Path(folder) / "store"
        log = logs / "session.jsonl"
        command = [sys.executable, "-m", "helix.cli", "watch", str(logs), "--only", "--store", str(root)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "HELIX_REDIS_URL": ""}) as watcher:
            try:
                memory = _open_memory(root, log)
                seconds = [_measure_turn(memory, log, i) for i in range(turns)]
            finally:
                watcher.send_signal(signal.SIGTERM)
                watcher.wait(60)
        items = int(memory.snapshot.alive.sum())
    quantiles = {f"p{q}": round(float(np.percentile(seconds, q)), 3) for q in (50, 95)}
    say(f"{turns} turns on {items:,} items")
    return {"items": items, "turns": turns, "seconds": {**quantiles, "max": round(max(seconds), 3)}}


def _append_turn(log: Path, word: str) -> float:
    line = {
        "session": "freshness",
        "id": word,
        "text": f"The word of the hour is {word}, and it was never said before.",
    }
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return time.perf_counter()


def _open_memory(root: Path, log: Path) -> Memory:
    """Open the store after the watcher has published the first turn."""
    _append_turn(log, "zerothword")
    end = time.perf_counter() + _READY
    while time.perf_counter() < end:
        time.sleep(0.1)
        try:
            memory = helix.open(root)
        except StoreError:
            continue
        if any("zerothword" in item.text for item in memory.recall("zerothword", k=3).items):
            return memory
    raise StoreError("nothing was published", "see the output of 'helix watch'")


def _measure_turn(memory: Memory, log: Path, i: int) -> float:
    word = f"freshword{i}x{time.time_ns()}"
    began = _append_turn(log, word)
    while time.perf_counter() - began < _LATEST:
        memory.refresh()
        if any(word in item.text for item in memory.recall(word, k=3).items):
            return time.perf_counter() - began
        time.sleep(0.01)
    raise StoreError(f"a turn was not recallable within {_LATEST:.0f} s", "see the output of 'helix watch'")
