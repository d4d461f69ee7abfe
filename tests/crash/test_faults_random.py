"""Random faults by a seed during ingestion: nothing is lost, nothing doubled, every recall is answered."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from helix.snapshot.ledger import inbox
from tests.support.fleet import Fleet, Forks, fleet
from tests.support.labelled import REPORT
from tests.support.processes import wait_until

KINDS = {
    "enrich": "worker --queues accept,enrich", "bulk": "worker --queues bulk", "commit": "worker --queues commit",
    "maintain": "worker --queues maintain", "beat": "beat",
}  # fmt: skip


def start(made: Fleet, kind: str) -> None:
    made.start(kind, *KINDS[kind].split())


def kill(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    made.kill(kind)
    time.sleep(rng.random())
    start(made, kind)
    return f"kill -9 of {kind}"


def kill_pool(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice([kind for kind in KINDS if kind != "beat"])
    for process in made.list_pool(kind):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return "kill -9 of a process of a pool"


def stop(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    made.stop(kind)
    start(made, kind)
    return f"SIGTERM of {kind}"


def pause(made: Fleet, rng: random.Random) -> str:
    kind = rng.choice(list(KINDS))
    os.killpg(made.running[kind].pid, signal.SIGSTOP)
    time.sleep(1 + 2 * rng.random())
    os.killpg(made.running[kind].pid, signal.SIGCONT)
    return f"{kind} stopped for a while"


def kill_redis(made: Fleet, rng: random.Random) -> str:
    made.redis.kill()
    time.sleep(rng.random())
    made.redis.start()
    return "kill -9 of Redis"


def lose_redis(made: Fleet, rng: random.Random) -> str:
    made.redis.kill()
    made.redis.wipe()
    made.redis.start()
    return "Redis without its data"


def silence_redis(made: Fleet, rng: random.Random) -> str:
    with made.redis.silent():
        time.sleep(2 + 4 * rng.random())
    return "Redis silent"


def fill_redis(made: Fleet, rng: random.Random) -> str:
    with made.redis.full():
        time.sleep(1 + rng.random())
    return "Redis full"


def flush_redis(made: Fleet, rng: random.Random) -> str:
    made.redis.client.flushall()
    return "FLUSHALL"


FAULTS: tuple[Callable[[Fleet, random.Random], str], ...] = (
    *(kill, kill, kill_pool, stop, pause, kill_redis, lose_redis, silence_redis, fill_redis, flush_redis),
)


@pytest.mark.soak  # test_faults.py has each kind of fault alone
@pytest.mark.parametrize(
    ("seed", "documents", "faults"), [(9, 12, 3), pytest.param(1, 1_000, 50, marks=pytest.mark.timeout(3_600))]
)
def test_random_faults_lose_and_double_nothing(
    seed: int, documents: int, faults: int, tmp_path: Path, cache: Path, forks: Forks
) -> None:
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    recovery: list[float] = []
    with fleet(tmp_path / "fleet", forks=forks) as made:
        for kind in KINDS:
            start(made, kind)
        wait_until(60, lambda: len(made.events("reconcile begins")) >= len(KINDS) - 1, made.log)
        share = -(-documents // faults)
        for number in range(faults):
            # A few small documents, which are fresh, and some parts of an import.
            folder = made.write(tmp_path / f"in{number}", f"f{number}n", share, rng.choice((2, 5, 40)))
            options = ("--defer",) if rng.random() < 0.2 else ()
            assert made.enqueue(folder, *options).returncode == 0
            time.sleep(rng.random() * 2)
            counts[rng.choice(FAULTS)(made, rng)] += 1
            began = time.monotonic()
            if number % 5 == 4:  # otherwise the next fault meets unfinished work
                wait_until(240, made.is_idle, made.log)
                recovery.append(time.monotonic() - began)
        wait_until(600, made.is_idle, made.log)
        made.check()
        assert len(inbox.list_accepted(made.root)) == faults * share + 1
        REPORT.append(
            f"random faults, seed {seed}: {faults * share} documents, {faults} faults, 0 lost, 0 doubled, "
            f"{made.statuses['200']} recalls answered of {made.statuses.total()}; at rest after a fault in "
            f"{', '.join(f'{seconds:.0f}' for seconds in recovery)} s"
        )
        REPORT.extend(f"  {count} × {fault}" for fault, count in sorted(counts.items()))
