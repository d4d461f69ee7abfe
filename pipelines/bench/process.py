"""A process of its own for measured steps (`pipelines.bench.phase`), and its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import StoreError

Send = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends a request; returns the answer."""

_INTERVAL: Final = 0.01  # seconds between two readings of a process's memory


@contextmanager
def start_process(*, watch: bool = True, **environ: str) -> Iterator[tuple[Send, dict[str, float]]]:
    """Start a process that answers requests; yield a function that sends them, and its peak memory so far in MB.

    `rss` includes mapped files in memory; `anonymous` does not, and is sampled.

    Args:
        watch: sample its memory, which costs a little processor time.
        environ: its own variables.
    """
    command = [sys.executable, "-m", "pipelines.bench.phase"]
    own = {**os.environ, "HELIX_ANSWERS": "0", **environ}  # no cached answers by default
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own)
    peak = {"rss": 0.0, "anonymous": 0.0}
    ended = threading.Event()
    watcher = threading.Thread(target=_sample_memory, args=(child.pid, peak, ended))
    if watch:
        watcher.start()
    try:
        if child.stdin is None or child.stdout is None:
            raise StoreError("a measuring process has no pipes", "run the command again")
        requests, answers = child.stdin, child.stdout

        def send(request: dict[str, Any]) -> dict[str, Any]:
            requests.write(json.dumps(request) + "\n")
            requests.flush()
            line = answers.readline()
            if not line:
                raise StoreError(
                    f"the process measuring '{request['do']}' ended with {child.wait()}", "see its message above"
                )
            if watch:
                _read_memory(child.pid, peak)
            return dict(orjson.loads(line))

        yield send, peak
    finally:
        ended.set()
        if watch:
            watcher.join()
        if child.stdin:
            child.stdin.close()
        child.wait()
        if child.stdout:
            child.stdout.close()


@contextmanager
def start_reader(root: Path, ask: dict[str, Any], *, watch: bool = True, **environ: str) -> Iterator[Send]:
    """Start a process with an open store that has answered one question."""
    with start_process(watch=watch, **environ) as (send, _):
        send({"do": "open", "root": str(root), "ask": ask})
        yield send


def _sample_memory(pid: int, peak: dict[str, float], ended: threading.Event) -> None:
    while not ended.wait(_INTERVAL):
        _read_memory(pid, peak)


def _read_memory(pid: int, peak: dict[str, float]) -> None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:  # it ended
        return
    kb = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.strip()}
    for kind, field in (("rss", "VmHWM"), ("anonymous", "RssAnon")):
        if field in kb:
            peak[kind] = max(peak[kind], int(kb[field]) / 1024)
