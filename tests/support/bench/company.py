"""Fairness between the stores of a company: `python -m tests.support.bench.company [fresh|even] [--stores N] …`.

fresh    the wait of fresh turns of many stores, at rest and during the import of another store
even     the shares of two imports that begin one after the other

The company is simulated: this process accepts the documents of all stores, as `helix enqueue` does on each member's
machine. The redis-server and the workers are real. A wait ends when `helix.open(store).recall` finds the turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import helix
from helix.snapshot.ledger import inbox
from tests.support.bench.workers import format_waits, write_log
from tests.support.company import FRESH, IMPORTS, Company, temporary_company
from tests.support.processes import wait_until

TURNS = 20
"""Turns of one document of an import."""


@dataclass
class Member:
    """A store whose owner writes a turn every `pause` seconds and waits until it is recalled."""

    made: Company
    store: str
    pause: float
    waits: list[float] = field(default_factory=list)

    def write_turns(self, phase: str, until: float, rng: random.Random) -> None:
        path = self.made.log.parent / f"{self.store}.jsonl"
        app, memory = self.made.app, None
        time.sleep(rng.random() * self.pause)
        while time.monotonic() < until:
            word = f"{phase}{self.store}x{len(self.waits)}"
            with path.open("a") as file:
                line = {"session": self.store, "id": word, "speaker": "Ana", "text": f"I say {word} and walnuts now"}
                file.write(json.dumps(line) + "\n")
            began = time.monotonic()
            (document,) = self.made.enqueue(self.store, path, app)
            root = self.made.stores / self.store
            wait_for_document(root, document)
            memory = memory or helix.open(root)
            memory.refresh()
            assert any(word in item.text for item in memory.recall(word, k=3).items), word
            self.waits.append(time.monotonic() - began)
            time.sleep(max(0.0, self.pause - self.waits[-1]))


def wait_for_document(root: Path, document: str, patience: float = 120.0) -> None:
    """Wait until a document is published. The manifest is read only where CURRENT has changed: reading costs a core."""
    until, seen = time.monotonic() + patience, None
    while time.monotonic() < until:
        current = (root / "CURRENT").stat().st_mtime_ns if (root / "CURRENT").exists() else None
        if current != seen and inbox.is_done(root, document):
            return
        seen = current
        time.sleep(0.05)
    raise AssertionError(f"{document} of {root} is not published within {patience} s")


def measure_members(made: Company, count: int, phase: str, pause: float, seconds: float) -> list[float]:
    """Let all members write turns for some seconds; return the wait of each turn."""
    members = [Member(made, f"m{number:02}", pause) for number in range(count)]
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=member.write_turns, args=(phase, until, random.Random(number)))
        for number, member in enumerate(members)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [wait for member in members for wait in member.waits]


def write_import(made: Company, name: str, documents: int) -> Path:
    """Write the logs of an import of prose."""
    folder, rng = made.log.parent / f"in-{name}", random.Random(name)
    folder.mkdir()
    for i in range(documents):
        write_log(folder / f"{i:05}.jsonl", f"{name}{i}", TURNS, rng)
    return folder


def measure_cpu(made: Company) -> dict[str, float]:
    """Return the CPU seconds so far of each worker with its pool, by its queues."""
    tick, spent = os.sysconf("SC_CLK_TCK"), dict.fromkeys(made.running, 0.0)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            for name, process in made.running.items():
                if int(fields[3]) == process.pid:  # its session
                    spent[name] += (int(fields[11]) + int(fields[12])) / tick
    return spent


def measure_phase(made: Company, phase: str, stores: int, pause: float, seconds: float) -> str:
    """Return the waits of the fresh turns of some seconds, and the CPU time that one took."""
    before = measure_cpu(made)[FRESH]
    waits = measure_members(made, stores, phase, pause, seconds)
    each = 1e3 * (measure_cpu(made)[FRESH] - before) / len(waits)
    return f"{format_waits(waits)}; {each:.0f} ms of CPU each; {describe_load()}"


def describe_load() -> str:
    return "load " + " ".join(f"{load:.1f}" for load in os.getloadavg()) + f" on {os.cpu_count()} cores"


def fresh(stores: int, documents: int, pause: float, seconds: float, reserved: int) -> None:
    """Measure fresh turns at rest and during an import."""
    with temporary_company(FRESH, IMPORTS, concurrency=reserved) as made:
        measure_members(made, stores, "warm", pause, pause)
        print("at rest:         ", measure_phase(made, "rest", stores, pause, seconds), flush=True)
        made.enqueue("bulk", write_import(made, "bulk", documents))
        wait_until(60, lambda: (made.stores / "bulk" / "CURRENT").exists(), made.log)
        print("during an import:", measure_phase(made, "busy", stores, pause, seconds), flush=True)
        left = len(inbox.list_pending(made.stores / "bulk"))
        print(f"the import: {documents * TURNS:,} turns, {left * TURNS:,} of them still waiting at the end")
        print(f"failed: {len(made.events('lost'))} lost processes")


def even(documents: int, seconds: float) -> None:
    """Measure the shares of two imports. The second one begins when the first one is under way."""
    with temporary_company(FRESH, IMPORTS) as made:
        made.enqueue("first", write_import(made, "first", documents))
        wait_until(60, lambda: (made.stores / "first" / "CURRENT").exists(), made.log)
        made.enqueue("second", write_import(made, "second", documents))
        began = time.monotonic()
        wait_until(60, lambda: made.events("enriched", store="second"), made.log)
        print(f"the second import begins after {time.monotonic() - began:.1f} s; {describe_load()}")
        before = {store: len(made.events("enriched", store=store)) for store in ("first", "second")}
        time.sleep(seconds)
        shares = {store: len(made.events("enriched", store=store)) - before[store] for store in before}
        print(f"documents in {seconds:.0f} s: {shares}; {describe_load()}")


def main(argv: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("fresh", "even"), nargs="?", default="fresh")
    options.add_argument("--stores", type=int, default=20)
    options.add_argument("--documents", type=int, default=1_000, help=f"of {TURNS} turns each, of an import")
    options.add_argument("--pause", type=float, default=5.0, help="seconds between two turns of a store")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--reserved", type=int, default=2, help="processes for fresh turns only")
    chosen = options.parse_args(argv)
    if chosen.what == "fresh":
        fresh(chosen.stores, chosen.documents, chosen.pause, chosen.seconds, chosen.reserved)
    else:
        even(chosen.documents, chosen.seconds)


if __name__ == "__main__":
    main()
