"""Cost of accepting logs, before the encoder, and the time from a host's write of a turn to its recall."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import helix
from helix.errors import InputRefused, StoreError
from helix.redact.redact import redact
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.sources import registry as sources
from helix.sources.common.decode import decode, unescape_ascii
from helix.types import Document
from pipelines.ingest.accept import accept_source, prepare_store
from pipelines.ingest.source import AcceptOptions, Inbox, walk_inputs

MB = 1e6


@dataclass(slots=True)
class Cost:
    """The cost of all logs of one format."""

    files: int = 0
    bytes: int = 0
    sessions: int = 0
    turns: int = 0
    redacted: int = 0
    characters: int = 0  # of turns
    junk: int = 0
    unknown: int = 0
    redacting: float = 0.0  # seconds of CPU
    reading: float = 0.0


def measure_logs(paths: Sequence[str | Path], settings: Settings) -> dict[str, Any]:
    """Redact and read every log once, in this thread.

    Return, by format and in total, MB of source per second of CPU and shares of text; and refused files with reasons.
    """
    by_format: dict[str, Cost] = {}
    refused: dict[str, str] = {}
    for path in walk_inputs(paths):
        try:
            for name, text in _read_texts(path, settings):
                _measure_text(name, text, by_format, settings)
        except InputRefused as error:
            refused[str(path)] = str(error)
    total = Cost()
    for cost in by_format.values():
        for name in Cost.__slots__:
            setattr(total, name, getattr(total, name) + getattr(cost, name))
    formats = {name: _summarise(cost) for name, cost in sorted(by_format.items())}
    return {"formats": formats, "total": _summarise(total), "refused": refused}


def _read_texts(path: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    collected = sources.collect(path)
    if collected is None:
        yield str(path), decode(path.read_bytes(), settings.max_line_bytes)[0]
        return
    for part in collected:
        yield f"{path}#{part.name}", part.text


def _measure_text(path: str, text: str, by_format: dict[str, Cost], settings: Settings) -> None:
    size = len(text.encode())
    began = time.process_time()
    adapter = sources.detect(Document(path, text))
    detected = time.process_time()
    clean, secrets = redact(unescape_ascii(text) if adapter.JSON else text)
    middle = time.process_time()
    parsed = sources.parse(Document(path, clean), adapter.NAME, settings.tool_chars)
    ended = time.process_time()
    cost = by_format.setdefault(adapter.NAME, Cost())
    cost.files += 1
    cost.bytes += size
    cost.redacting += middle - detected
    cost.reading += ended - middle + detected - began
    cost.redacted += secrets.total()
    cost.sessions += len(parsed.sessions)
    cost.turns += sum(len(session.turns) for session in parsed.sessions)
    cost.characters += sum(len(turn.text) for session in parsed.sessions for turn in session.turns)
    cost.junk += sum(parsed.junk.values())
    cost.unknown += sum(parsed.unknown.values())


def _summarise(cost: Cost) -> dict[str, Any]:
    def rate(seconds: float) -> float:
        return round(cost.bytes / MB / seconds, 1) if seconds else 0.0

    return {
        "files": cost.files,
        "MB": round(cost.bytes / MB, 3),
        "sessions": cost.sessions,
        "turns": cost.turns,
        "redacted": cost.redacted,
        "unknown": cost.unknown,
        "junk": round(cost.junk / max(cost.junk + cost.characters, 1), 3),
        "redact MB/s": rate(cost.redacting),
        "read MB/s": rate(cost.reading),
        "MB/s": rate(cost.redacting + cost.reading),
    }


def measure_large(megabytes: Sequence[int], settings: Settings, say: Callable[[str], None]) -> list[dict[str, float]]:
    """Accept a log of each length; return seconds and the peak memory of this process so far.

    Args:
        megabytes: ascending, as the peak of a process never falls.
    """
    figures = []
    for size in megabytes:
        with tempfile.TemporaryDirectory(dir=settings.cache if Path(settings.cache).is_dir() else None) as folder:
            log = Path(folder) / "log.jsonl"
            _write_log(log, size)
            prepare_store(Path(folder) / "store", "auto")
            gc.collect()
            began, cpu = time.perf_counter(), time.process_time()
            documents = accept_source(Inbox(Path(folder) / "store", settings), log, AcceptOptions()).documents
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            written = log.stat().st_size
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        figures.append(
            {
                "MB": round(written / MB, 1),
                "documents": len(documents),
                "seconds": round(seconds, 1),
                "MB/s": round(written / MB / cpu, 1),
                "peak MiB": round(peak, 1),
            }
        )
        say(json.dumps(figures[-1]))
    return figures


def _write_log(log: Path, megabytes: int) -> None:
    """Write a Claude Code log of prompts, answers, tool calls and long tool results."""
    with log.open("w") as file:
        written, i = 0, 0
        while written < megabytes * MB:
            for record in _make_records(i):
                written += file.write(json.dumps(record) + "\n")
            i += 1


def _make_records(i: int) -> Iterator[dict[str, Any]]:
    names = [f"r{i}-{n}" for n in range(4)]
    before = f"r{i - 1}-3" if i else None
    common = {"sessionId": "large", "cwd": "/srv/loom", "timestamp": "2026-05-04T10:00:00Z"}
    output = "\n".join(f"src/queue/worker_{n}.py:{n}: retry {i} after {n} s, then give up" for n in range(60))
    call = {"type": "tool_use", "id": f"t{i}", "name": "Bash", "input": {"command": f"pytest -q tests/test_{i}.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": output}
    bodies: list[tuple[str, Any]] = [
        ("user", f"Why does test {i} of the queue fail?"),
        ("assistant", [{"type": "text", "text": f"I will run test {i}."}, call]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": f"Test {i} fails as the worker gives up after {i % 60} s."}]),
    ]
    for n, (kind, content) in enumerate(bodies):
        message = {"role": kind, "content": content, **({"id": f"m{i}-{n}"} if kind == "assistant" else {})}
        parent = names[n - 1] if n else before
        yield {"type": kind, "uuid": names[n], "parentUuid": parent, **common, "message": message}


_READY = 120.0  # seconds to load the encoder
_LATEST = 60.0  # seconds for a turn


def measure_freshness(store: Path | None, turns: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Append turns to a log, one at a time, and ask for each until it is found: in a new store, or in the one given.

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


def format_seconds(report: dict[str, Any]) -> str:
    """Format the report of `measure_freshness` for a terminal."""
    return ", ".join(f"{name} {value} s" for name, value in report["seconds"].items())


def _append_turn(log: Path, word: str) -> float:
    text = f"The word of the hour is {word}, and it was never said before."
    line = {"session": "freshness", "id": word, "text": text}
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
