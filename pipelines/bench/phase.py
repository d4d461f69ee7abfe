"""One measured step, in a process of its own: reads requests and writes answers, one JSON object a line.

Only the standard library is imported before the first request, so that opening a store can be timed from the start.
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
_held: dict[str, Any] = {}  # what one request opened, for those after it


def main() -> int:
    """Answer until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = STEPS[request.pop("do")](**request)
        sys.stdout.write(_line(answer))
        sys.stdout.flush()
    return 0


def _line(answer: Any) -> str:
    import orjson  # by now: what is timed has been

    return orjson.dumps(answer, default=dict).decode() + "\n"


# ---------------------------------------------------------------- a writer


def writer(root: str) -> Request:
    """Import what a writer needs and load the encoder; what follows is the work alone."""
    from helix.settings import load
    from pipelines.ingest.commit import commit
    from pipelines.ingest.lineage import open_encoder
    from pipelines.maintain.compact import compact

    settings = load()
    _held.update(root=Path(root), settings=settings, encoder=open_encoder(Path(root), settings))
    _held.update(commit=commit, compact=compact)
    return {}


def commit() -> Request:
    """Publish the parts that wait."""
    with _timed() as spent:
        done = _held["commit"](_held["root"], _held["encoder"], _held["settings"])
    return {**spent, "added": done.added, "generation": done.generation}


def compact(full: bool) -> Request:
    """Merge what the rule says, or everything."""
    with _timed() as spent:
        done = _held["compact"](_held["root"], _held["settings"], full=full)
    return {**spent, "merged": done.merged, "indexed": done.indexed}


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Seconds, processor seconds and bytes handed to the file system between entry and exit."""
    spent: dict[str, float] = {}
    began, cpu, written = time.perf_counter(), time.process_time(), _written()
    yield spent
    spent["seconds"] = time.perf_counter() - began
    spent["cpu"] = time.process_time() - cpu
    spent["write_bytes"] = _written() - written


def _written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(fields["write_bytes"])


# ---------------------------------------------------------------- a reader


def opened(root: str, ask: Request) -> Request:
    """Import, open and answer one question: milliseconds of each."""
    began = time.perf_counter()
    from helix.sdk.memory import Memory

    imported = time.perf_counter()
    memory = Memory(root)
    ready = time.perf_counter()
    _ask(memory, ask)
    answered = time.perf_counter()
    _held["memory"] = memory
    return {
        "import": (imported - began) * 1000,
        "open": (ready - imported) * 1000,
        "answer": (answered - ready) * 1000,
    }


def recall(asks: list[Request]) -> Request:
    """Ask every question: the times of each recall, and whether the item it was made from came back."""
    found: list[Request] = []
    for ask in asks:
        began = time.perf_counter()
        bundle = _ask(_held["memory"], ask)
        total = (time.perf_counter() - began) * 1000
        here = any(item.id == ask["item"] for item in bundle.items)
        found.append(
            {"ms": {**bundle.ms, "total": total}, "found": here, "answered": not (bundle.skipped or bundle.degraded)}
        )
    return {"recalls": found}


def answer(ask: Request) -> Request:
    """One question; the answer as a caller of another process gets it, as JSON."""
    return {"answer": _ask(_held["memory"], ask)}


def together(asks: list[Request], clients: int) -> Request:
    """Ask every question, from so many threads of this process: the seconds of all, the milliseconds of each."""
    from concurrent.futures import ThreadPoolExecutor

    def timed(ask: Request) -> float:
        began = time.perf_counter()
        _ask(_held["memory"], ask)
        return (time.perf_counter() - began) * 1000

    with ThreadPoolExecutor(clients) as pool:
        began = time.perf_counter()
        spent = list(pool.map(timed, asks))
        return {"seconds": time.perf_counter() - began, "ms": spent}


def refresh(ask: Request, items: list[str], wait: float) -> Request:
    """Look for a new generation and ask it: when it was open (seconds since 1970), if it gives one of `items`."""
    memory: Memory = _held["memory"]
    new = set(items)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        began = time.perf_counter()
        if not memory.refresh():
            time.sleep(0.005)
            continue
        refreshed, when = time.perf_counter(), time.time()
        bundle = _ask(memory, ask)
        here = not new.isdisjoint(item.id for item in bundle.items)
        return {"when": when if here else None, "refresh": refreshed - began, "recall": time.perf_counter() - refreshed}
    return {"when": None}


def peer(name: str, root: str, folder: str, asks: list[Request], wanted: float) -> Request:
    """Build, open and tune one peer; `refused` says why it cannot be asked."""
    from helix.errors import UsageError
    from pipelines.bench.against import prepare

    try:
        _held["peer"] = prepare(name, root, folder, asks, wanted)
    except UsageError as error:
        return {"refused": [error.what, error.remedy]}
    told: Request = _held["peer"].told
    return told


def peer_turn() -> Request:
    """Ask the peer everything once."""
    from pipelines.bench.against import turn

    return dict(turn(_held["peer"]))


def _ask(memory: Memory, ask: Request) -> Bundle:
    given = {name: ask[name] for name in ("project", "k") if name in ask}
    return memory.recall(ask["query"], **{**given, **ask.get("with", {})})


def memory() -> Request:
    """MB of this process that nobody shares; `anonymous` is what the system cannot drop and read again."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()[1:])
    kb = {name: int(value.split()[0]) for name, value in fields.items()}
    mb = {"anonymous": kb["Anonymous"], "dirty": kb["Private_Dirty"], "uss": kb["Private_Clean"] + kb["Private_Dirty"]}
    return {name: value / 1024 for name, value in {**mb, "rss": kb["Rss"]}.items()}


STEPS: dict[str, Callable[..., Request]] = {
    "writer": writer,
    "commit": commit,
    "compact": compact,
    "open": opened,
    "recall": recall,
    "answer": answer,
    "together": together,
    "refresh": refresh,
    "peer": peer,
    "peer_turn": peer_turn,
    "memory": memory,
}

if __name__ == "__main__":
    raise SystemExit(main())
