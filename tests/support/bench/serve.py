"""Time that REST adds to a recall: `python -m tests.support.bench.serve [--items N] [--requests 1000] [--workers 1,2]`.

The server is `helix serve` in its own process; the clients are another process with a persistent connection each. In
between, as many threads of one process ask the library the same questions. Every round has each of them once, as a
machine's speed may change from one second to the next. No answer is cached.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from helix.sdk.memory import Memory
from helix.settings import load
from pipelines.bench.process import time_call
from pipelines.bench.questions import draw_questions
from pipelines.bench.synthetic_store import build_store
from query.discovery_read import read_address

CLIENTS = (1, 8)
ROUNDS = 3


@contextmanager
def start_server(root: Path, workers: int) -> Iterator[tuple[str, int]]:
    """Start `helix serve`; yield its address."""
    command = [str(Path(sys.executable).with_name("helix")), "serve", "--store", str(root), "--port", "0"]
    environ = {"HELIX_ANSWERS": "0", **os.environ}
    process = subprocess.Popen([*command, "--workers", str(workers)], env=environ, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while (place := read_address(str(root))) is None:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        yield place[:2]
    finally:
        process.terminate()
        process.wait(30)


def ask_http(place: tuple[str, int], asks: Sequence[dict[str, Any]], clients: int) -> list[float]:
    """Return the milliseconds of each question with this number of clients; a failed request ends the run."""
    own = threading.local()

    def ask(question: dict[str, Any]) -> None:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(*place, timeout=60)
        body = json.dumps({"query": question["query"], **question["with"]})
        own.connection.request("POST", "/v1/recall", body, {"Content-Type": "application/json"})
        answer = own.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body

    return ask_by_clients(ask, asks, clients)


def ask_by_clients(ask: Callable[[Any], None], asks: Sequence[Any], clients: int) -> list[float]:
    """Ask from clients that ask again after their last answer."""

    def ask_share(share: Sequence[Any]) -> list[float]:
        return [time_call(ask, question) for question in share]

    with ThreadPoolExecutor(clients) as each:
        list(each.map(ask, asks[: 4 * clients]))  # opens the connections
        return [one for share in each.map(ask_share, [asks[i::clients] for i in range(clients)]) for one in share]


def ask_library(root: Path, asks: Sequence[dict[str, Any]], clients: int) -> list[float]:
    """Ask the library from threads of one process."""
    memory = _open_memory(root)
    return ask_by_clients(lambda question: memory.recall(question["query"], **question["with"]), asks, clients)


@cache
def _open_memory(root: Path) -> Memory:
    memory = Memory(root, replace(load(), answers=0))
    memory.recall("what was decided")
    return memory


def main() -> None:
    new = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    new.add_argument("--items", type=int, default=10_000)
    new.add_argument("--requests", type=int, default=1_000)
    new.add_argument("--workers", default="1,2")
    new.add_argument("--store", type=Path, default=Path("/tmp/helix-bench-serve"))
    options = new.parse_args()
    root = options.store / str(options.items)
    build_store(root, options.items, 1, load(), lambda line: print(line, file=sys.stderr))
    asks = draw_questions(root, 1, options.requests)
    figures: dict[str, dict[str, list[float]]] = {}
    each = get_context("spawn")
    with ProcessPoolExecutor(1, each) as library, ProcessPoolExecutor(1, each) as clients:
        for turn in range(ROUNDS):
            mixed = [asks[i] for i in np.random.default_rng(turn).permutation(len(asks)).tolist()]
            for n in CLIENTS:
                ways = figures.setdefault(f"{n} clients", {})
                ways.setdefault("library", []).extend(library.submit(ask_library, root, mixed, n).result())
                for workers in map(int, options.workers.split(",")):
                    with start_server(root, workers) as place:
                        spent = clients.submit(partial(ask_http, place), mixed, n).result()
                    ways.setdefault(f"rest, {workers} workers", []).extend(spent)
    for n, ways in figures.items():
        for name, spent in ways.items():
            p50, p95 = np.percentile(spent, (50, 95))
            print(f"{n:10} {name:16} p50 {p50:7.2f} ms  p95 {p95:7.2f} ms  {len(spent)} requests")


if __name__ == "__main__":
    main()
