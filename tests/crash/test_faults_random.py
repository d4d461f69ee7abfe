"""Faults at random, by seed, while documents come in: nothing lost, nothing doubled, always answered."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from helix.settings import load
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest.ingest import ingest
from tests.support.fleet import Fleet, Forks, fleet, within
from tests.support.labelled import REPORT

KINDS = {
    "enrich": "worker --queues accept,enrich",
    "bulk": "worker --queues bulk",
    "commit": "worker --queues commit",
    "maintain": "worker --queues maintain",
    "beat": "beat",
}


def begin(made: Fleet, kind: str) -> None:
    made.start(kind, *KINDS[kind].split())


def killed(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    made.kill(kind)
    time.sleep(rng.random())
    begin(made, kind)
    return f"kill -9 of {kind}"


def process_killed(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice([kind for kind in KINDS if kind != "beat"])
    for process in made.pool(kind):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return "kill -9 of a process of a pool"


def ended(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    made.stop(kind)
    begin(made, kind)
    return f"SIGTERM of {kind}"


def frozen(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    os.killpg(made.running[kind].pid, signal.SIGSTOP)
    time.sleep(1 + 2 * rng.random())
    os.killpg(made.running[kind].pid, signal.SIGCONT)
    return f"{kind} stopped for a while"


def redis_killed(made: Fleet, rng: random.Random) -> str:
    made.redis.kill()
    time.sleep(rng.random())
    made.redis.start()
    return "kill -9 of Redis"


def redis_lost(made: Fleet, rng: random.Random) -> str:
    made.redis.kill()
    made.redis.wipe()
    made.redis.start()
    return "Redis without its data"


def redis_silent(made: Fleet, rng: random.Random) -> str:
    with made.redis.silent():
        time.sleep(2 + 4 * rng.random())
    return "Redis silent"


def redis_full(made: Fleet, rng: random.Random) -> str:
    with made.redis.full():
        time.sleep(1 + rng.random())
    return "Redis full"


def flushed(made: Fleet, rng: random.Random) -> str:
    made.redis.client.flushall()
    return "FLUSHALL"


FAULTS: tuple[Callable[[Fleet, random.Random], str], ...] = (
    *(killed, killed, process_killed, ended, frozen),
    *(redis_killed, redis_lost, redis_silent, redis_full, flushed),
)


def seed_store(logs: Path, root: Path) -> None:
    assert not ingest(root, [logs], replace(load(), threads=1)).refused


@pytest.mark.parametrize(
    ("seed", "documents", "faults"),
    [(9, 12, 3), pytest.param(1, 1_000, 50, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])],
)
def test_random_faults(seed: int, documents: int, faults: int, tmp_path: Path, cache: Path, forks: Forks) -> None:
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    recovery: list[float] = []
    with fleet(tmp_path / "fleet", seed_store, forks=forks) as made:
        for kind in KINDS:
            begin(made, kind)
        within(60, lambda: len(made.events("reconcile begins")) >= len(KINDS) - 1, made.said)
        share = -(-documents // faults)
        for number in range(faults):
            # A few small ones, which are fresh, and some that are parts of an import.
            folder = made.write(tmp_path / f"in{number}", f"f{number}n", share, rng.choice((2, 5, 40)))
            options = ("--defer",) if rng.random() < 0.2 else ()
            assert made.enqueue(folder, *options).returncode == 0
            time.sleep(rng.random() * 2)
            told[rng.choice(FAULTS)(made, rng)] += 1
            began = time.monotonic()
            if number % 5 == 4:  # now and then all has to come to rest; else the next fault meets the last one's mess
                within(240, made.idle, made.said)
                recovery.append(time.monotonic() - began)
        within(600, made.idle, made.said)
        made.check()
        assert len(ledger.accepted(made.root)) == faults * share + 1
        REPORT.append(
            f"random faults, seed {seed}: {faults * share} documents, {faults} faults, 0 lost, 0 doubled, "
            f"{made.asked['200']} recalls answered of {made.asked.total()}; at rest after a fault in "
            f"{', '.join(f'{seconds:.0f}' for seconds in recovery)} s"
        )
        REPORT.extend(f"  {count} × {fault}" for fault, count in sorted(told.items()))
