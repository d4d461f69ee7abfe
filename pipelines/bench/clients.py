"""Latency and throughput of recall with many clients: worker processes, or threads of one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import numpy as np

from pipelines.bench.figures import TURNS, Report, percentiles, time_call
from pipelines.bench.process import Send, start_reader
from pipelines.bench.questions import Ask

CLIENTS: Final = (1, 2, 4, 8)

_ASKED: Final = 400  # questions of each number of clients, each turn


def measure_processes(root: Path, asks: Sequence[Ask]) -> Report:
    """Measure by number of clients with one worker process a core.

    The time of a question includes its wait for a free worker, the pipe and the answer as JSON.
    """
    cores = len(os.sched_getaffinity(0))
    with start_workers(root, asks, cores) as free, ThreadPoolExecutor(cores) as line:

        def serve(question: Ask) -> None:
            worker = free.get()
            worker({"do": "answer", "ask": question})
            free.put(worker)

        def ask_together(asks: list[Ask], clients: int) -> Report:
            return _ask_by_clients(lambda ask: line.submit(serve, ask).result(), asks, clients)

        return _measure_in_turns(ask_together, asks)


def measure_threads(root: Path, asks: Sequence[Ask]) -> Report:
    """Measure by number of threads of one process, without a pipe."""
    with start_reader(root, asks[0], watch=False, HELIX_THREADS="1") as send:
        send({"do": "recall", "asks": sample_asks(asks, 0)})
        return _measure_in_turns(lambda asks, clients: send({"do": "together", "asks": asks, "clients": clients}), asks)


@contextmanager
def start_workers(root: Path, asks: Sequence[Ask], n: int) -> Iterator[SimpleQueue[Send]]:
    """Start n warm worker processes on one store, with one ONNX thread each; yield a queue of the free ones."""
    free: SimpleQueue[Send] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(n):
            send = stack.enter_context(start_reader(root, asks[0], watch=False, HELIX_THREADS="1"))
            send({"do": "recall", "asks": sample_asks(asks, 0)})
            free.put(send)
        yield free


def _measure_in_turns(ask_together: Callable[[list[Ask], int], Report], asks: Sequence[Ask]) -> Report:
    """Measure each number of clients in turns, as a machine's speed may change from one second to the next."""
    turns: dict[int, list[Report]] = {clients: [] for clients in CLIENTS}
    for turn in range(TURNS):
        for clients in CLIENTS:
            turns[clients].append(ask_together(sample_asks(asks, turn), clients))
    return {str(clients): _summarise(done) for clients, done in turns.items()}


def _ask_by_clients(serve: Callable[[Ask], None], asks: Sequence[Ask], clients: int) -> Report:
    """Ask from many clients, each of which asks again after its last answer."""
    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        spent = list(pool.map(lambda ask: time_call(serve, ask), asks))
        return {"ms": spent, "seconds": time.perf_counter() - began}


def sample_asks(asks: Sequence[Ask], seed: int) -> list[Ask]:
    """Return some of the questions, of all kinds, in a random order."""
    return [asks[i] for i in np.random.default_rng(seed).permutation(len(asks))[:_ASKED].tolist()]


def _summarise(turns: Sequence[Report]) -> dict[str, float]:
    spent = [ms for turn in turns for ms in turn["ms"]]
    return {**percentiles(spent), "qps": round(len(spent) / sum(turn["seconds"] for turn in turns), 1)}
