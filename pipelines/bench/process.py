"""A process of its own for measured steps (`pipelines.bench.phase`), its memory, the clock, and the form of figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.errors import StoreError, UsageError

Say = Callable[[str], None]
Report = dict[str, Any]

TURNS: Final = 3
"""Turns of each measurement that is compared with another."""


def time_call(call: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    call(*arguments, **options)
    return (time.perf_counter() - began) * 1000


def ask_by_clients(serve: Callable[[Any], Any], asks: Sequence[Any], clients: int) -> Report:
    """Ask from many clients, each of which asks again after its last answer."""
    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        spent = list(pool.map(lambda ask: time_call(serve, ask), asks))
        return {"ms": spent, "seconds": time.perf_counter() - began}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return round_values({"p50": p50, "p95": p95, "p99": p99})


def round_values(values: dict[str, Any]) -> dict[str, Any]:
    """Round figures to the hundredth."""
    return {name: round(value, 2) for name, value in values.items()}


def drop_caches(root: Path, *, everything: bool) -> str:
    """Drop the system's cache of the store's files, or of all files; return which.

    Raises:
        UsageError: the system does not permit to drop everything.
    """
    os.sync()
    if everything:
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3", "ascii")
        except OSError as error:
            raise UsageError(
                f"the system's caches cannot be dropped: {error}", "run as root, or without --cold"
            ) from None
        return "everything"
    for path in root.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    return "the store's files"


Send = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends a request; returns the answer."""

_INTERVAL: Final = 0.01  # seconds between two readings of a process's memory


@contextmanager
def start_process(*, watch: bool = True, **environ: str) -> Iterator[tuple[Send, dict[str, float]]]:
    """Start a process that answers requests; yield a function that sends them, and its peak memory so far in MB.

    `rss` includes mapped files in memory; `anonymous` does not, and is sampled, which costs a little processor time,
    if `watch` is set. `environ` are its own variables.
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
