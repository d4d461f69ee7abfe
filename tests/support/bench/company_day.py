"""A working day of a company on one server: `python -m tests.support.bench.company_day FOLDER [--stores 1000]`.

FOLDER gets the stores, each of so many items; they are made once. A few are built, the others are copies of these with
files of their own: only the encoder's files are shared. The day has ten hours and 200 recalls for each store. Recalls
come as a Poisson process and choose a store by Zipf's law. Of those before nine o'clock only the last one of each store
is made, as fast as they are answered: `cold_ms`. From nine on the day goes at its own rate, an hour in half a minute:
13 recalls a second at nine, 5 on average. Meanwhile a process of low priority ingests a turn into some store again and
again. Times are the server's own, those of `client` of an HTTP client; `alone_ms` is one store in a process that does
nothing else, on the same machine. For a disk without cached pages, empty the system's cache before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from helix.sdk.memory import Memory
from helix.settings import load
from helix.types import RecallOptions
from query.discovery_read import read_address

EARLY: Final = (0.3, 1.0)
"""Recalls of the hours before nine, as a share of the mean."""

HOURS: Final = (2.6, 1.4, 1.0, 0.6, 0.9, 1.2, 1.1, 0.9)
"""The same of the hours from nine to five."""

DAILY: Final = 200
"""Recalls of a day from each store."""

SUBJECTS: Final = [
    "gateway",
    "retry",
    "policy",
    "cache",
    "index",
    "token",
    "budget",
    "queue",
    "worker",
    "snapshot",
    "merge",
    "invoice",
    "tenant",
    "parser",
    "release",
]
FORMS: Final = (
    "what did we decide about the {}?",
    "why does {} fail",
    "who changed {}",
    "{} timeout",
    "how do I run {}",
)

_INGEST: Final = """
import json, os, random, sys, time
from pathlib import Path
from helix.settings import load
from pipelines.embedded.ingest import ingest
os.nice(10)
folder, pause, draw = Path(sys.argv[1]), float(sys.argv[2]), random.Random(1)
names, settings, scratch = sorted(p.name for p in folder.iterdir() if p.is_dir()), load(), folder.parent / "turn.jsonl"
for number in range(1_000_000):
    text = f"note {number}: the {draw.choice(sys.argv[3:])} was changed"
    turn = {"session": f"day{number}", "text": text, "project": "day"}
    scratch.write_text(json.dumps(turn))
    ingest(folder / draw.choice(names[:50]), [scratch], settings)
    print(number, flush=True)
    time.sleep(pause)
"""


@dataclass
class Measured:
    """Milliseconds of recalls: of the server by warm and cold stores, and of the client."""

    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    client_warm: list[float] = field(default_factory=list)
    client_cold: list[float] = field(default_factory=list)
    failed: int = 0

    def describe(self) -> dict[str, Any]:
        """Return each list's number, median, 95th and 99th percentile and maximum."""
        return {f"{name}_ms": describe(times) for name, times in vars(self).items() if isinstance(times, list)}


def make_stores(folder: Path, stores: int, items: int, built: int) -> None:
    """Build a few stores of synthetic items and copy them until there are enough."""
    from pipelines.bench.synthetic_store import build_store

    folder.mkdir(parents=True, exist_ok=True)
    models = folder.parent / "models"
    for number in range(built):
        source = folder.parent / f"built-{items}-{number}"
        build_store(source, items, number, load(), print)
        models.mkdir(exist_ok=True)
        for encoder in (source / "encoders").iterdir():
            if not (models / encoder.name).exists():
                shutil.copytree(encoder, models / encoder.name)
    for number in range(stores):
        target = folder / f"store-{number:04}"
        if not target.exists():
            source = folder.parent / f"built-{items}-{number % built}"
            ignored = shutil.ignore_patterns("real.parquet", "encoders", "inbox")
            shutil.copytree(source, target.with_name(f".{target.name}"), ignore=ignored)
            (target.with_name(f".{target.name}") / "inbox").mkdir()  # what is committed needs no copy there
            for encoder in models.iterdir():
                shutil.copytree(
                    encoder, target.with_name(f".{target.name}") / "encoders" / encoder.name, copy_function=os.link
                )
            target.with_name(f".{target.name}").rename(target)


def draw_times(stores: int, seconds: float, draw: np.random.Generator) -> list[float]:
    """Draw the seconds of recalls from nine on, each hour in so many seconds, ascending."""
    rate = stores * DAILY / 36_000 * 10 / sum((*EARLY, *HOURS))  # a second, in a mean hour
    times = [(i + draw.random(draw.poisson(share * rate * seconds))) * 1.0 for i, share in enumerate(HOURS)]
    return sorted((np.concatenate(times) * seconds).tolist())


def draw_early(stores: int, exponent: float, draw: np.random.Generator) -> list[int]:
    """Draw the stores that are asked before nine, by the time of their last recall, latest last."""
    count = round(stores * DAILY * sum(EARLY) / sum((*EARLY, *HOURS)))
    latest_first = dict.fromkeys(draw_stores(count, stores, exponent, draw))
    return [*latest_first][::-1]


def draw_stores(count: int, stores: int, exponent: float, draw: np.random.Generator) -> list[int]:
    """Draw a store for each recall by Zipf's law."""
    weights = 1 / np.arange(1, stores + 1) ** exponent
    return [int(one) for one in draw.choice(stores, count, p=weights / weights.sum())]


def read_resident(pid: int) -> tuple[int, int]:
    """Return the MiB of anonymous and of mapped memory that a process holds."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) >> 10, int(fields["RssFile"].split()[0]) >> 10


class Watch(threading.Thread):
    """Watches the most MiB that a process holds: anonymous, mapped, both."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.ended = pid, (0, 0, 0), threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.ended.wait(0.5):
            anonymous, mapped = read_resident(self.pid)
            self.most = tuple(map(max, self.most, (anonymous, mapped, anonymous + mapped)))


def replay(url: str, times: list[float], chosen: list[int], clients: int) -> Measured:
    """Ask at each time; a client that is late asks at once."""
    measured, draw = Measured(), random.Random(7)

    def ask(client: httpx.Client, store: int, question: str) -> None:
        began = time.perf_counter()
        answer = client.get(f"/stores/store-{store:04}/v1/recall", params={"query": question})
        took = (time.perf_counter() - began) * 1_000
        if answer.status_code != 200:
            measured.failed += 1
            return
        ms = answer.json()["ms"]
        (measured.cold if "open" in ms else measured.warm).append(ms["total"])
        (measured.client_cold if "open" in ms else measured.client_warm).append(took)

    with httpx.Client(base_url=url, timeout=60) as client, ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        for at, store in zip(times, chosen, strict=True):
            time.sleep(max(0.0, start + at - time.perf_counter()))
            words = " ".join(draw.sample(SUBJECTS, 3))
            pool.submit(ask, client, store, draw.choice(FORMS).format(words))
    return measured


def measure_alone(store: Path, count: int) -> list[float]:
    """Return the milliseconds of recalls from one store in a process that does nothing else."""
    memory, draw = Memory(store, load()), random.Random(5)
    questions = [draw.choice(FORMS).format(" ".join(draw.sample(SUBJECTS, 3))) for _ in range(count)]
    return [memory.answer(question, RecallOptions()).ms["total"] for question in questions][count // 5 :]


def describe(values: list[float]) -> dict[str, float]:
    """Return number, median, 95th and 99th percentile and maximum."""
    if not values:
        return {"n": 0}
    p50, p95, p99 = (round(float(one), 1) for one in np.percentile(values, [50, 95, 99]))
    return {"n": len(values), "p50": p50, "p95": p95, "p99": p99, "max": round(max(values), 1)}


def main() -> None:
    """Make the stores, replay the day, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stores", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--built", type=int, default=8, help="stores that are built; the others are copies")
    parser.add_argument("--seconds", type=float, default=30, help="of an hour")
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument("--memory", type=int, default=3_072, help="MiB of open stores")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two ingested turns; 0: none")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    make_stores(options.folder, options.stores, options.items, options.built)
    alone = measure_alone(options.folder / "store-0000", 250)
    draw = np.random.default_rng(3)
    times = draw_times(options.stores, options.seconds, draw)
    chosen = draw_stores(len(times), options.stores, options.zipf, draw)
    early = draw_early(options.stores, options.zipf, draw)
    environ = {**os.environ, "HELIX_STORES_MEMORY": str(options.memory)}
    command = [sys.executable, "-m", "helix.cli", "serve", "--stores", str(options.folder), "--port", "0"]
    command += ["--workers", str(options.workers)]
    server = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    beside = None
    try:
        while (address := read_address(str(options.folder))) is None:
            time.sleep(0.1)
        url = f"http://{address[0]}:{address[1]}"
        if options.pause:
            arguments = [str(options.folder), str(options.pause), *SUBJECTS]
            beside = subprocess.Popen([sys.executable, "-c", _INGEST, *arguments], stdout=subprocess.PIPE, text=True)
            assert beside.stdout
            beside.stdout.readline()  # its imports do not count
        httpx.get(f"{url}/stores/store-0000/v1/recall", params={"query": "the first"}, timeout=60)
        watch = Watch(server.pid)
        watch.start()
        before = replay(url, [0.0] * len(early), early, 1)
        day = replay(url, times, chosen, options.clients)
        watch.ended.set()
        state = httpx.get(f"{url}/metrics").text
    finally:
        server.terminate()
        server.wait(30)
        if beside:
            beside.terminate()
    lines = [line.split() for line in state.splitlines() if line.startswith("helix_stores_")]
    ingested = len(beside.stdout.read().split()) if beside and beside.stdout else 0
    result: dict[str, Any] = {
        **{name: vars(options)[name] for name in ("stores", "items", "seconds", "zipf", "memory", "workers")},
        "alone_ms": describe(alone),
        "before_nine": before.describe(),
        "from_nine": day.describe(),
        "failed": before.failed + day.failed,
        "most_mib": dict(zip(("anonymous", "mapped", "both"), watch.most, strict=True)),
        "turns_ingested": ingested,
        "server": {name: float(value) for name, value in lines},
    }
    print(json.dumps(result | {"cores": len(os.sched_getaffinity(0))}, indent=1))


if __name__ == "__main__":
    main()
