"""kill -9 at every step of a fold and of appenders: no event is lost, none count_accesses twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from helix.snapshot.ledger import access_events
from helix.snapshot.ledger.access_events import AccessEvent, EventAppender
from helix.snapshot.verify import verify_store
from pipelines.maintain.touch import touch
from tests.support.tiny import SETTINGS, count_accesses, list_ids, make_store

AT = 1_700_000_000
POINTS = (
    *("touch.begin", "touch.access", "commit.manifest", "commit.checked", "commit.current"),
    *("touch.published", "touch.cleaning", "touch.cleaned"),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "s", ["walnut loaf", "parsley", "saffron"], cuts=[2])
    return tmp_path / "s"


@pytest.mark.parametrize("point", POINTS)
def test_a_fold_survives_a_kill_at_any_step(point: str, store: Path, run_helix) -> None:
    first, second, third = list_ids(store)
    living = EventAppender(store)
    living.append([AccessEvent(first, "used", AT)])
    touch(store, SETTINGS)  # so that there is a sidecar and a watermark already
    for _ in range(2):  # two dead appenders, so that the cleaning can be killed half-way
        access_events.append_events(store, [AccessEvent(second, "used", AT), AccessEvent(second, "fetched", AT)])
    living.append([AccessEvent(first, "helpful", AT), AccessEvent(third, "wrong", AT)])
    before, after = Counter({first: 1}), Counter({first: 2, second: 4})
    assert count_accesses(store) == before

    killed = run_helix("touch", "--store", store, HELIX_FAILPOINT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert verify_store(store).problems == ()
    assert count_accesses(store) == (before if point in POINTS[:4] else after)  # all of it or nothing

    living.append([AccessEvent(first, "used", AT)])
    after[first] += 1
    for _ in range(2):
        done = run_helix("touch", "--store", store)
        assert done.returncode == 0, done.stderr
        assert count_accesses(store) == after
    assert len(list((store / "events").iterdir())) == 1
    living.close()
    touch(store, SETTINGS)
    assert count_accesses(store) == after
    assert list((store / "events").iterdir()) == []
    assert verify_store(store).problems == ()


APPEND = """
import sys
from pathlib import Path
from helix.snapshot.ledger.access_events import EventAppender, AccessEvent
appender = EventAppender(Path(sys.argv[1]))
while True:
    appender.append([AccessEvent(sys.argv[2], "used", 1.0)])
    print(flush=True)
"""


def test_a_killed_appender_loses_no_acknowledged_event(store: Path) -> None:
    first = list_ids(store)[0]
    acknowledged = 0
    for turn in range(3):
        process = subprocess.Popen([sys.executable, "-c", APPEND, str(store), first], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(200):
            acknowledged += len(process.stdout.readline())
        touch(store, SETTINGS)  # in the middle of its writing
        process.kill()
        acknowledged += len(process.stdout.read())
        process.wait(60)
        touch(store, SETTINGS)
        assert (
            acknowledged <= count_accesses(store)[first] <= acknowledged + turn + 1
        )  # written, but killed before it could say so
    assert list((store / "events").iterdir()) == []


def test_folds_lose_no_event_of_appenders_that_come_and_go(store: Path) -> None:
    seed = 20_261_121
    wanted = list_ids(store)
    sent: list[Counter[str]] = [Counter() for _ in range(3)]

    def work(i: int) -> None:
        rng = random.Random(seed + i)
        appender = EventAppender(store)
        for _ in range(120):
            item = rng.choice(wanted)
            appender.append([AccessEvent(item, "used", AT)])
            sent[i][item] += 1
            if rng.random() < 0.5:
                appender.close()
        appender.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    folds = 0
    while any(thread.is_alive() for thread in threads):
        touch(store, SETTINGS)
        folds += 1
    touch(store, SETTINGS)
    assert count_accesses(store) == sum(sent, Counter()), f"seed {seed}, {folds} folds"
    assert list((store / "events").iterdir()) == []
