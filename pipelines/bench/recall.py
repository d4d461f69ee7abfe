"""What a recall costs: by stage, by kind of question, by number of clients, and how far it is from what it must cost.

One client asks every question in several rounds, each round in another order, in a fresh process that has answered
them all once before. What is exact is measured against looking at everything.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot.ledger import inbox as ledger
from helix.util.version import VERSION
from pipelines.bench import against, questions
from pipelines.bench.clients import CLIENTS, _mixed, _processes, _threads
from pipelines.bench.exact import _compared
from pipelines.bench.figures import Report, Say, drop_caches, percentiles, rounded
from pipelines.bench.limit import bandwidth
from pipelines.bench.peers import ENOUGH
from pipelines.bench.process import process
from pipelines.bench.questions import FILTERED, KINDS, OPEN, Ask
from pipelines.bench.store import opening
from pipelines.bench.synthetic_store import marker

QUESTIONS: Final = 540
ROUNDS: Final = 5


_OPENED: Final = 3  # times a store is opened anew
_WARM: Final = 60  # questions before each round


def measure(
    root: Path,
    settings: Settings,
    say: Say,
    *,
    n: int = QUESTIONS,
    rounds: int = ROUNDS,
    peers: Sequence[str] = (),
) -> Report:
    """Every figure of the recall of a store that `pipelines.bench.store.build` made.

    Args:
        n: questions.
        rounds: how often each is asked.
        peers: other stores that are asked, too (`pipelines.bench.peers`).

    Raises:
        StoreError: there is no such store, or it cannot be read.
        UsageError: no such peer, or its package is missing.
    """
    found, (_, manifest) = marker(root), ledger.current(root)
    if found is None or manifest is None:
        raise StoreError(f"{root} is no synthetic store", "make one with 'helix bench recall'")
    asks = questions.draw(root, found["seed"], n)
    report: Report = {
        "items": found["items"],
        "seed": found["seed"],
        "real": found["real"],
        "questions": len(asks),
        "rounds": rounds,
        "machine": {**machine(), "encoder": manifest.lineage.name},
        "build": _build(found),
    }
    say("opening")
    report["open_ms"] = _open(root, asks)
    say(f"asking {len(asks)} questions in {rounds} rounds")

    def clients() -> Report:
        say(f"asking by {', '.join(map(str, CLIENTS))} clients")
        return {"clients": _processes(root, asks)}

    between: list[Callable[[], Report]] = [
        lambda: {"repeated": _repeated(root, asks)},
        clients,
        lambda: {"threads": _threads(root, asks)},
        lambda: _compared(root, asks, settings, say),
    ]
    report |= _one_client(root, asks, rounds, between)
    report["peers"] = against.measure(root, asks, peers, min(ENOUGH, report["recall_unfiltered"]), settings, say)
    return report


def machine() -> dict[str, Any]:
    """What it was measured on."""
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
        "bandwidth_gb_s": round(bandwidth() / 1e9, 1),
    }


def _build(found: Mapping[str, Any]) -> Report:
    """Seconds by part of making the store, and items a second."""
    seconds = found["seconds"]
    return {"seconds": rounded(seconds), "items_per_second": round(found["items"] / sum(seconds.values()), 1)}


# ---------------------------------------------------------------- opening


def _open(root: Path, asks: Sequence[Ask]) -> Report:
    """Importing, opening and the first answer in a fresh process: files cached (medians), and not."""
    with process() as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})  # what it reads is in the page cache now
    warm = [_first(root, asks[0]) for _ in range(_OPENED)]
    dropped = drop_caches(root, everything=False)
    cold = _first(root, asks[0])
    medians = {name: statistics.median(one[name] for one in warm) for name in warm[0]}
    return {"warm": rounded(medians), "cold": {**cold, "dropped": dropped}}


def _first(root: Path, question: Ask) -> dict[str, float]:
    with process() as (ask, _):
        return opening(ask({"do": "open", "root": str(root), "ask": question}))


# ---------------------------------------------------------------- one client


def _one_client(root: Path, asks: Sequence[Ask], rounds: int, between: Sequence[Callable[[], Report]] = ()) -> Report:
    """Milliseconds of every recall by stage and by kind of question, and the memory of the reader.

    After each round comes something else that is measured: a machine may be fast or slow for minutes, and rounds in a
    row would say which it was. A part of the questions is asked before each, to warm up.
    """
    report: Report = {}
    rng = np.random.default_rng(len(asks))
    times: list[tuple[int, dict[str, float]]] = []  # (question, milliseconds by stage)
    unanswered = 0
    with process() as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})
        first = ask({"do": "memory"})
        ask({"do": "recall", "asks": asks})
        for turn in range(rounds):
            ask({"do": "recall", "asks": _mixed(asks, 0)[:_WARM]})
            order = rng.permutation(len(asks)).tolist()
            found = ask({"do": "recall", "asks": [asks[i] for i in order]})["recalls"]
            times += [(i, one["ms"]) for i, one in zip(order, found, strict=True) if one["answered"]]
            unanswered += sum(not one["answered"] for one in found)
            for step in between[turn : turn + 1]:
                report |= step()
        memory = {"after_one": rounded(first), "after_all": rounded(ask({"do": "memory"}))}
    for step in between[rounds:]:
        report |= step()
    return {**_latencies(asks, times), "unanswered": unanswered, "memory_mb": memory, **report}


def _latencies(asks: Sequence[Ask], times: Sequence[tuple[int, Mapping[str, float]]]) -> Report:
    """Percentiles of all recalls, and by stage and kind; a kind's ratios are those to all kinds without a filter.

    `legs` is of the longer of both legs, which run beside each other, the lexical one beside embedding, too. `outside`
    is of what no stage counts, of questions without a filter, whose rows are found beside embedding: reading the
    question, waiting for the lexical leg, fetching texts.
    `by_question` is of the medians of each question's rounds: what is left when other work on the machine is not
    counted.
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
            kind: {**one, "ratio": rounded({name: one[name] / unfiltered[name] for name in ("p50", "p95")})}
            for kind, one in by_kind.items()
        },
    }


def _repeated(root: Path, asks: Sequence[Ask]) -> dict[str, float]:
    """Milliseconds of questions that were asked a moment before: the only ones that are answered from memory."""
    some = asks[: Settings().answers]
    with process(HELIX_ANSWERS=str(len(some))) as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})
        found = [ask({"do": "recall", "asks": some})["recalls"] for _ in range(2)][-1]
    return percentiles([one["ms"]["total"] for one in found])


# ---------------------------------------------------------------- many clients


# ---------------------------------------------------------------- against looking at everything


# ---------------------------------------------------------------- the least it can cost


# ---------------------------------------------------------------- whether the vectors are like real ones
