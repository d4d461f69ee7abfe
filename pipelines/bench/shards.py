"""Recalls over several stores of one size, as a memory that is split by project is asked.

Each store is open in a process of its own. A question goes to all of them at once, and the slowest answer ends it; or
it goes to one after the other, which gives the time of each store alone. The largest of these is the time over machines
with one store each, without the network. The vectors are of no model: only times are measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from helix.settings import Settings
from pipelines.bench.process import Report, Say, Send, percentiles, start_reader
from pipelines.bench.questions import draw_store_questions
from pipelines.bench.synthetic_store import build_store, default_root

K: Final = 50
"""Items that each store is asked for, of which the best of all are shown."""

_WARM: Final = 20  # questions that are asked before any is timed


def list_roots(shards: int, items: int, settings: Settings) -> list[Path]:
    """Return the folders of the stores; the seed of each is its number, from 1."""
    root = default_root(items, settings)
    return [root.with_name(f"{root.name}-shard-{seed}") for seed in range(1, shards + 1)]


def measure(roots: Sequence[Path], items: int, questions: int, settings: Settings, say: Say) -> Report:
    """Make the stores that do not exist, and ask them; milliseconds by the number of stores: 1, 2, 4 … and all.

    Returns:
        {"items", "shards": {n: {"at_once", "slowest", "memory_mb"}}}; percentiles, and the readers' own memory.
    """
    for seed, root in enumerate(roots, 1):
        build_store(root, items, seed, settings, say, real=0)
    asks = [{**ask, "k": K} for ask in draw_store_questions(items, 1, questions) if ask["project"] is None]
    report: Report = {"items": items, "shards": {}}
    with ExitStack() as stack:
        readers: list[Send] = []
        for number, root in enumerate(roots, 1):
            readers.append(stack.enter_context(start_reader(root, asks[0], watch=False)))
            if number & (number - 1) == 0 or number == len(roots):
                say(f"asking {number} stores")
                report["shards"][str(number)] = _ask_all(readers, asks)
    return report


def _ask_all(readers: Sequence[Send], asks: Sequence[dict[str, Any]]) -> Report:
    """Ask every question of all stores, one store after the other, and then at once."""
    for send in readers:
        send({"do": "recall", "asks": asks[:_WARM]})
    slowest = [max(_time_recall(send, ask) for send in readers) for ask in asks]
    at_once: list[float] = []
    with ThreadPoolExecutor(len(readers)) as pool:
        for ask in asks:
            began = time.perf_counter()
            list(pool.map(lambda send, one=ask: _time_recall(send, one), readers))
            at_once.append((time.perf_counter() - began) * 1000)
    memory = sum(send({"do": "memory"})["anonymous"] for send in readers)
    return {"at_once": percentiles(at_once), "slowest": percentiles(slowest), "memory_mb": round(memory)}


def _time_recall(send: Send, ask: dict[str, Any]) -> float:
    return float(send({"do": "recall", "asks": [ask]})["recalls"][0]["ms"]["total"])


def format_report(report: Report) -> str:
    """Return the report as lines."""
    lines = [f"stores of {report['items']:,} items, {K} items of each; milliseconds"]
    for number, one in report["shards"].items():
        times = [f"{name} p50 {one[key]['p50']} p95 {one[key]['p95']}" for name, key in _SHOWN]
        lines.append(f"{number} stores: {', '.join(times)}; {one['memory_mb']} MB of the readers' own memory")
    return "\n".join(lines)


_SHOWN: Final = (("all at once", "at_once"), ("the slowest alone", "slowest"))
