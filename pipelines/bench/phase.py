"""The process of measured steps: reads requests and writes answers, one JSON object a line.

Only the standard library is imported before the first request, so that opening a store is timed from the start.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helix.sdk.memory import Memory
    from helix.types import Bundle

Request = dict[str, Any]
_state: dict[str, Any] = {}  # objects of earlier requests


def main() -> int:
    """Answer until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = STEPS[request.pop("do")](**request)
        sys.stdout.write(_format_line(answer))
        sys.stdout.flush()
    return 0


def _format_line(answer: Any) -> str:
    import orjson  # after the timed part

    return orjson.dumps(answer, default=dict).decode() + "\n"


def open_writer(root: str) -> Request:
    """Import a writer's modules and load the encoder; later requests time the work alone."""
    from helix.settings import load
    from pipelines.ingest.commit import commit
    from pipelines.ingest.lineage import open_encoder
    from pipelines.maintain.compact import compact

    settings = load()
    _state.update(root=Path(root), settings=settings, encoder=open_encoder(Path(root), settings))
    _state.update(commit=commit, compact=compact)
    return {}


def commit() -> Request:
    """Publish the waiting parts."""
    with _measure_work() as spent:
        done = _state["commit"](_state["root"], _state["encoder"], _state["settings"])
    return {**spent, "added": done.added, "generation": done.generation}


def compact(full: bool) -> Request:
    """Merge by the rule, or everything."""
    with _measure_work() as spent:
        done = _state["compact"](_state["root"], _state["settings"], full=full)
    return {**spent, "merged": done.merged, "indexed": done.indexed}


@contextmanager
def _measure_work() -> Iterator[dict[str, float]]:
    """Measure seconds, processor seconds and bytes written to the file system between entry and exit."""
    spent: dict[str, float] = {}
    began, cpu, written = time.perf_counter(), time.process_time(), _count_written()
    yield spent
    spent["seconds"] = time.perf_counter() - began
    spent["cpu"] = time.process_time() - cpu
    spent["write_bytes"] = _count_written() - written


def _count_written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(fields["write_bytes"])


def open_store(root: str, ask: Request) -> Request:
    """Import, open and answer one question; return the milliseconds of each."""
    began = time.perf_counter()
    from helix.sdk.memory import Memory

    imported = time.perf_counter()
    memory = Memory(root)
    ready = time.perf_counter()
    _ask(memory, ask)
    answered = time.perf_counter()
    _state["memory"] = memory
    return {"import": (imported - began) * 1000, "open": (ready - imported) * 1000, "answer": (answered - ready) * 1000}


def recall(asks: list[Request]) -> Request:
    """Ask every question; return the times of each recall, and if its source item came back."""
    recalls: list[Request] = []
    for ask in asks:
        began = time.perf_counter()
        bundle = _ask(_state["memory"], ask)
        total = (time.perf_counter() - began) * 1000
        found = any(item.id == ask["item"] for item in bundle.items)
        answered = not (bundle.skipped or bundle.degraded)
        recalls.append({"ms": {**bundle.ms, "total": total}, "found": found, "answered": answered})
    return {"recalls": recalls}


def answer(ask: Request) -> Request:
    """Answer one question as JSON, as for a caller in another process."""
    return {"answer": _ask(_state["memory"], ask)}


def ask_together(asks: list[Request], clients: int) -> Request:
    """Ask every question from threads of this process; return the seconds of all and the milliseconds of each."""
    from pipelines.bench.process import ask_by_clients

    return ask_by_clients(lambda ask: _ask(_state["memory"], ask), asks, clients)


def refresh(ask: Request, items: list[str], wait: float) -> Request:
    """Wait for a new generation and ask it; return when it was open (seconds since 1970) if it gives one of `items`."""
    memory: Memory = _state["memory"]
    new = set(items)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        began = time.perf_counter()
        if not memory.refresh():
            time.sleep(0.005)
            continue
        refreshed, when = time.perf_counter(), time.time()
        bundle = _ask(memory, ask)
        found = not new.isdisjoint(item.id for item in bundle.items)
        recalled = time.perf_counter() - refreshed
        return {"when": when if found else None, "refresh": refreshed - began, "recall": recalled}
    return {"when": None}


def open_peer(name: str, root: str, folder: str, asks: list[Request], wanted: float) -> Request:
    """Build, open and tune one peer; `refused` has the error of one that cannot be asked."""
    from helix.errors import UsageError
    from pipelines.bench.peer_comparison import prepare_peer

    try:
        _state["peer"] = prepare_peer(name, root, folder, asks, wanted)
    except UsageError as error:
        return {"refused": [error.what, error.remedy]}
    description: Request = _state["peer"].description
    return description


def ask_peer() -> Request:
    """Ask the peer every question once."""
    from pipelines.bench import peer_comparison

    return dict(peer_comparison.ask_peer(_state["peer"]))


def _ask(memory: Memory, ask: Request) -> Bundle:
    given = {name: ask[name] for name in ("project", "k") if name in ask}
    return memory.recall(ask["query"], **{**given, **ask.get("with", {})})


def read_memory() -> Request:
    """Return the unshared MB of this process; the system cannot drop and reread `anonymous` memory."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()[1:])
    kb = {name: int(value.split()[0]) for name, value in fields.items()}
    mb = {"anonymous": kb["Anonymous"], "dirty": kb["Private_Dirty"], "uss": kb["Private_Clean"] + kb["Private_Dirty"]}
    return {name: value / 1024 for name, value in {**mb, "rss": kb["Rss"]}.items()}


STEPS: dict[str, Callable[..., Request]] = {
    "writer": open_writer,
    "commit": commit,
    "compact": compact,
    "open": open_store,
    "recall": recall,
    "answer": answer,
    "together": ask_together,
    "refresh": refresh,
    "peer": open_peer,
    "peer_turn": ask_peer,
    "memory": read_memory,
}

if __name__ == "__main__":
    raise SystemExit(main())
