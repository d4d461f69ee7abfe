"""Speed of a fleet of workers: `python -m tests.support.bench.workers throughput|fresh|reindex [--size N]`.

throughput   documents through one and two enriching processes, next to a commit worker
fresh        the wait of a fresh turn during a large import
reindex      time of a recall at rest, and during a reindex
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from helix.snapshot.ledger import inbox
from tests.support.fleet import FAST, Fleet, fleet, seed_store
from tests.support.processes import wait_until

WORDS = """
memory queue worker timeout sqlite postgres vector index snapshot segment manifest commit lock redis celery encoder
token budget ranking graph entity fact session turn decision deploy rollback migration latency cache Priya Ana Tom
Lisbon Berlin invoice vacation meeting plan release error traceback path module function test
""".split()  # noqa: SIM905


def make_sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(12, 60))) + "."


def write_log(path: Path, session: str, turns: int, rng: random.Random) -> Path:
    """Write a log of prose."""
    with path.open("w") as file:
        for i in range(turns):
            line = {"session": session, "id": f"{session}:{i}", "speaker": "Ana", "text": make_sentence(rng)}
            file.write(json.dumps(line) + "\n")
    return path


def throughput(size: int) -> None:
    """Measure documents of 20 turns, from the first enriched to the last recallable."""
    rates = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as place, fleet(Path(place) / "fleet") as made:
            made.kill("query")
            rng = random.Random(7)
            folder = Path(place) / "in"
            folder.mkdir()
            for i in range(size):
                write_log(folder / f"s{i}.jsonl", f"s{i}", 20, rng)
            made.enqueue(folder)
            made.worker("commit", "commit,maintain")
            for number in range(workers):
                made.worker(f"bulk{number}", "bulk,enrich", HELIX_THREADS="1")
            wait_until(120, lambda n=workers: len(made.events("enriched")) >= 2 * n, made.log)
            began, there = time.monotonic(), len(made.events("enriched"))
            wait_until(3_600, made.is_idle, made.log)
            seconds = time.monotonic() - began
            rates[workers] = (size - there) / seconds
            print(f"{workers} workers: {rates[workers]:.1f} documents/s, {20 * rates[workers]:.0f} items/s recallable")
    print(f"scaling {rates[2] / rates[1]:.2f}")


def fresh(size: int) -> None:
    """Write a turn every two seconds to a watched log, during an import of `size` MB of prose."""
    with tempfile.TemporaryDirectory() as place, fleet(Path(place) / "fleet") as made:
        rng = random.Random(7)
        for name in ("enrich", "bulk", "commit", "maintain"):
            made.worker(name, HELIX_TIDY_INTERVAL="60")
        watched = Path(place) / "watched"
        watched.mkdir()
        made.start("watch", "watch", str(watched), "--only")
        wait_until(60, lambda: made.read_log().count("ready.") >= 4, made.log)
        print("idle:   ", format_waits(measure_turns(made, watched, "idle", 15)))
        bulk = write_log(Path(place) / "bulk.jsonl", "b", size * 4_000, rng)
        print(f"import of {bulk.stat().st_size / 1e6:.0f} MB")
        print("while it is accepted:", end=" ", flush=True)
        import threading

        accepting = threading.Thread(target=made.enqueue, args=(bulk,))
        began = time.monotonic()
        accepting.start()
        seen = []
        while accepting.is_alive():
            seen += measure_turns(made, watched, f"a{len(seen)}", 1)
        print(format_waits(seen), f"({time.monotonic() - began:.0f} s)")
        print("while it is enriched:", format_waits(measure_turns(made, watched, "busy", 60)))
        print(f"of it done by then: {made.count_done()} of {len(inbox.list_accepted(made.root))} documents")


def measure_turns(made: Fleet, watched: Path, name: str, count: int) -> list[float]:
    """Return the seconds from the write of each turn to its recall."""
    waits = []
    for i in range(count):
        word = f"{name}word{i}"
        with (watched / f"{name}.jsonl").open("a") as file:
            line = {"session": name, "id": f"{name}:{i}", "speaker": "Ana", "text": f"I say {word} now"}
            file.write(json.dumps(line) + "\n")
        waits.append(wait_until(120, lambda word=word: is_found(made, word), made.log))
        time.sleep(2)
    return waits


def is_found(made: Fleet, word: str) -> bool:
    return any(word in item["text"] for item in made.get(f"/v1/recall?query={word}&k=3")["items"])


def format_waits(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return (
        f"{len(ordered)} turns, p50 {statistics.median(ordered):.2f} s, "
        f"p95 {ordered[int(0.95 * (len(ordered) - 1))]:.2f} s, worst {ordered[-1]:.2f} s"
    )


def reindex(size: int) -> None:
    """Measure recalls of a query process over `size` documents of 40 turns."""
    with tempfile.TemporaryDirectory() as place:
        rng = random.Random(7)

        def seed(logs: Path, root: Path) -> None:
            for i in range(size):
                write_log(logs / f"r{i}.jsonl", f"r{i}", 40, rng)
            seed_store(logs, root)

        with fleet(Path(place) / "fleet", seed=seed) as made:
            made._stop.set()
            rest = measure_recalls(made, 20, rng)
            print("at rest:        ", rest)
            made.worker("bulk", HELIX_ITEM_WORDS="100")
            process = made.start("reindex", "reindex", HELIX_ITEM_WORDS="100")
            time.sleep(8)
            busy, before = measure_recalls(made, 40, rng), process.poll()
            print("by workers:     ", busy, "" if before is None else "(it had ended)")
            made.kill("reindex")
            made.kill("bulk")
            process = made.start("reindex", "reindex", HELIX_ITEM_WORDS="100", HELIX_REDIS_URL="")
            made.environ = {}
            time.sleep(8)
            print(
                "by this machine:", measure_recalls(made, 40, rng), "" if process.poll() is None else "(it had ended)"
            )
            print("at rest:        ", end=" ")
            made.kill("reindex")
            print(measure_recalls(made, 20, rng))


def measure_recalls(made: Fleet, seconds: float, rng: random.Random) -> str:
    """Recall in sequence, at most twenty a second."""
    took = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        question = "+".join(rng.choice(WORDS) for _ in range(5))
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{made.port}/v1/recall?query={question}") as answer:
            answer.read()
        took.append(1e3 * (time.perf_counter() - began))
        time.sleep(0.05)
    ordered = sorted(took)
    at = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99)]
    return f"{len(took)} recalls, p50 {at[0]:.1f} ms, p95 {at[1]:.1f} ms, p99 {at[2]:.1f} ms"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("throughput", "fresh", "reindex"))
    options.add_argument("--size", type=int, default=200)
    chosen = options.parse_args()
    FAST["HELIX_THREADS"] = "0"
    {"throughput": throughput, "fresh": fresh, "reindex": reindex}[chosen.what](chosen.size)
