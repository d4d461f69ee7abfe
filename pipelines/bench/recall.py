"""Cost of a recall: by stage, by kind of question, by number of clients, and against its least cost.

One client asks every question in several rounds of different order, in a fresh process that has answered all of them
once. Many clients use worker processes, or threads of one process. The legs are compared with exact search.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.util.version import VERSION
from pipelines.bench.exact import compare_legs, measure_bandwidth
from pipelines.bench.peer_comparison import measure_peers
from pipelines.bench.peers.base import ENOUGH
from pipelines.bench.process import (
    TURNS,
    Report,
    Say,
    Send,
    ask_by_clients,
    drop_caches,
    percentiles,
    round_values,
    start_process,
    start_reader,
)
from pipelines.bench.questions import FILTERED, KINDS, OPEN, Ask, draw_questions
from pipelines.bench.store import sum_opening
from pipelines.bench.synthetic_store import read_marker

QUESTIONS: Final = 540
ROUNDS: Final = 5
_OPENED: Final = 3  # times a store is opened
_WARM: Final = 60  # questions before each round


def measure(
    root: Path, settings: Settings, say: Say, *, n: int = QUESTIONS, rounds: int = ROUNDS, peers: Sequence[str] = ()
) -> Report:
    """Measure the recall of a store of `build_store` by n questions.

    Args:
        rounds: times each is asked.
        peers: other stores to ask as well (`pipelines.bench.peers`).

    Raises:
        StoreError: `root` is no such store, or cannot be read.
        UsageError: no such peer, or its package is missing.
    """
    found, (_, manifest) = read_marker(root), inbox.load_current(root)
    if found is None or manifest is None:
        raise StoreError(f"{root} is no synthetic store", "make one with 'helix bench recall'")
    asks = draw_questions(root, found["seed"], n)
    report: Report = {
        "items": found["items"],
        "seed": found["seed"],
        "real": found["real"],
        "questions": len(asks),
        "rounds": rounds,
        "machine": {**describe_machine(), "encoder": manifest.lineage.name},
        "build": _summarise_build(found),
    }
    say("opening")
    report["open_ms"] = _measure_opening(root, asks)
    say(f"asking {len(asks)} questions in {rounds} rounds")

    def measure_clients() -> Report:
        say(f"asking by {', '.join(map(str, CLIENTS))} clients")
        return {"clients": measure_processes(root, asks)}

    between: list[Callable[[], Report]] = [
        lambda: {"repeated": _measure_repeated(root, asks)},
        measure_clients,
        lambda: {"threads": measure_threads(root, asks)},
        lambda: compare_legs(root, asks, settings, say),
    ]
    report |= _measure_one_client(root, asks, rounds, between)
    report["peers"] = measure_peers(root, asks, peers, min(ENOUGH, report["recall_unfiltered"]), settings, say)
    return report


def describe_machine() -> dict[str, Any]:
    """Return the hardware and the versions of a report."""
    cpu = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    names = [line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 1e9, 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "helix": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": version("onnxruntime"),
        "faiss": version("faiss-cpu"),
        "bandwidth_gb_s": round(measure_bandwidth() / 1e9, 1),
    }


def _summarise_build(found: Mapping[str, Any]) -> Report:
    """Return the seconds of making the store by part, and items a second."""
    seconds = found["seconds"]
    return {"seconds": round_values(seconds), "items_per_second": round(found["items"] / sum(seconds.values()), 1)}


def _measure_opening(root: Path, asks: Sequence[Ask]) -> Report:
    """Measure import, opening and first answer in fresh processes: medians with cached files, and once without."""
    _open_once(root, asks[0])  # fills the page cache
    warm = [_open_once(root, asks[0]) for _ in range(_OPENED)]
    dropped = drop_caches(root, everything=False)
    cold = _open_once(root, asks[0])
    medians = {name: statistics.median(one[name] for one in warm) for name in warm[0]}
    return {"warm": round_values(medians), "cold": {**cold, "dropped": dropped}}


def _open_once(root: Path, ask: Ask) -> dict[str, float]:
    with start_process() as (send, _):
        return sum_opening(send({"do": "open", "root": str(root), "ask": ask}))


def _measure_one_client(
    root: Path, asks: Sequence[Ask], rounds: int, between: Sequence[Callable[[], Report]] = ()
) -> Report:
    """Measure every recall by stage and by kind of question, and the memory of the reader.

    Another measurement follows each round: a machine's speed may change for minutes, which consecutive rounds would
    not average. Some questions before each round warm up.
    """
    report: Report = {}
    rng = np.random.default_rng(len(asks))
    times: list[tuple[int, dict[str, float]]] = []  # (question, milliseconds by stage)
    unanswered = 0
    with start_reader(root, asks[0]) as send:
        first = send({"do": "memory"})
        send({"do": "recall", "asks": asks})
        for turn in range(rounds):
            send({"do": "recall", "asks": sample_asks(asks, 0)[:_WARM]})
            order = rng.permutation(len(asks)).tolist()
            recalls = send({"do": "recall", "asks": [asks[i] for i in order]})["recalls"]
            times += [(i, one["ms"]) for i, one in zip(order, recalls, strict=True) if one["answered"]]
            unanswered += sum(not one["answered"] for one in recalls)
            for step in between[turn : turn + 1]:
                report |= step()
        memory = {"after_one": round_values(first), "after_all": round_values(send({"do": "memory"}))}
    for step in between[rounds:]:
        report |= step()
    return {**_summarise_times(asks, times), "unanswered": unanswered, "memory_mb": memory, **report}


def _summarise_times(asks: Sequence[Ask], times: Sequence[tuple[int, Mapping[str, float]]]) -> Report:
    """Return percentiles of all recalls, by stage and by kind, with a kind's ratios to all kinds without a filter.

    `legs` has the longer of both legs, which run in parallel. `outside` has the time of no stage: reading the question,
    waiting for the lexical leg, fetching texts. It covers questions without a filter, as the others find their rows
    while they embed. `by_question` has the medians of each question's rounds, without other work on the machine.
    """
    stages: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, list[float]] = defaultdict(list)
    own: dict[int, list[float]] = defaultdict(list)
    for i, ms in times:
        for stage, spent in ms.items():
            stages[stage].append(spent)
        kinds[asks[i]["kind"]].append(ms["total"])
        own[i].append(ms["total"])
    legs = [max(ms.get("dense", 0.0), ms.get("lexical", 0.0)) for _, ms in times]
    free = [ms for i, ms in times if asks[i]["kind"] in OPEN]
    outside = [2 * ms["total"] + ms.get("lexical", 0.0) - sum(ms.values()) for ms in free]
    totals = stages.pop("total")
    unfiltered = percentiles([ms for kind in OPEN for ms in kinds[kind]])
    by_kind = {kind: percentiles(kinds[kind]) for kind in KINDS if kinds[kind]}
    return {
        "total": percentiles(totals),
        "by_question": percentiles([statistics.median(each) for each in own.values()]),
        "unfiltered": unfiltered,
        "filtered": percentiles([ms for kind in FILTERED for ms in kinds[kind]]),
        "stages": {stage: percentiles(spent) for stage, spent in stages.items()},
        "legs": percentiles(legs),
        "outside": percentiles(outside),
        "kinds": {
            kind: {**one, "ratio": round_values({name: one[name] / unfiltered[name] for name in ("p50", "p95")})}
            for kind, one in by_kind.items()
        },
    }


def _measure_repeated(root: Path, asks: Sequence[Ask]) -> dict[str, float]:
    """Measure repeated questions, the only ones with cached answers."""
    sample = asks[: Settings().answers]
    with start_reader(root, asks[0], HELIX_ANSWERS=str(len(sample))) as send:
        recalls = [send({"do": "recall", "asks": sample})["recalls"] for _ in range(2)][-1]
    return percentiles([one["ms"]["total"] for one in recalls])


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
            return ask_by_clients(lambda ask: line.submit(serve, ask).result(), asks, clients)

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
    return {str(clients): _summarise_clients(done) for clients, done in turns.items()}


def sample_asks(asks: Sequence[Ask], seed: int) -> list[Ask]:
    """Return some of the questions, of all kinds, in a random order."""
    return [asks[i] for i in np.random.default_rng(seed).permutation(len(asks))[:_ASKED].tolist()]


def _summarise_clients(turns: Sequence[Report]) -> dict[str, float]:
    spent = [ms for turn in turns for ms in turn["ms"]]
    return {**percentiles(spent), "qps": round(len(spent) / sum(turn["seconds"] for turn in turns), 1)}
