"""kill -9 at every step of an ingest: the store stays whole, and the next run loses and doubles nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from helix.sdk.open import open as open_store
from helix.settings import load
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from tests.conftest import copy_store
from tests.support.marks import kill_in_turn

POINTS = (
    *("accept.envelope", "enrich.parsed", "enrich.embedded", "enrich.part", "commit.begin", "commit.segment_half"),
    *("commit.segment", "commit.deletes", "commit.documents", "commit.encoder", "commit.router"),
    *("commit.manifest", "commit.checked"),
)
PUBLISHED = ("commit.current", "commit.cleaned")


def write_log(path: Path, session: str, texts: list[str]) -> Path:
    lines = [
        {"session": session, "id": f"{session}:{i}", "speaker": "Ana", "text": text} for i, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def items(root: Path) -> dict[str, str]:
    """Return every live item by (session, turn); fail on a doubled turn."""
    snapshot = open_store(root).snapshot
    rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
    entries = snapshot.text(rows)
    found = {f"{entry['session']}#{entry['turns'][0]}": entry["text"] for entry in entries}
    assert len(found) == len(entries)
    return found


@pytest.fixture(autouse=True)
def quick_encoder(tiny_encoders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_ENCODER", tiny_encoders[0])


FIRST = {"k0": ["we bake on Monday"], "k1": ["the walnut loaf is in the oven", "take it out at noon"]}


@pytest.fixture(scope="module")
def with_first(tiny_encoders: list[str], cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two logs; to be copied."""
    folder = tmp_path_factory.mktemp("first")
    for session, texts in FIRST.items():
        write_log(folder / f"{session}.jsonl", session, texts)
    assert not ingest(folder / "store", [folder], replace(load(), encoder=tiny_encoders[0])).refused
    return folder / "store"


@pytest.fixture
def own_store(with_first: Path, tmp_path: Path) -> Path:
    return copy_store(with_first, tmp_path / "store")


@pytest.mark.parametrize("points", kill_in_turn(POINTS, PUBLISHED[:1], PUBLISHED[1:]))
def test_an_ingest_killed_at_any_step_loses_and_doubles_nothing(
    points: Sequence[str], own_store: Path, tmp_path: Path, run_helix
) -> None:
    before = items(own_store)
    # The second log grows the first: two turns as they were, one changed, two new; so rows are deleted as well.
    second = write_log(
        tmp_path / "second.jsonl",
        "k1",
        ["the walnut loaf is in the oven", "take it out at one, not at noon", "and slice it", "thanks"],
    )
    changed = {"k1#k1:1": "take it out at one, not at noon", "k1#k1:2": "and slice it", "k1#k1:3": "thanks"}
    after = before | changed
    for point in points:
        killed = run_helix("ingest", second, "--store", own_store, HELIX_FAILPOINT=point)
        assert killed.returncode == -signal.SIGKILL, point
        assert verify_store(own_store).problems == ()
        # The old generation or the new one, never a mixture.
        assert items(own_store) == (after if point in PUBLISHED else before), point
    # The next run publishes the accepted document, whatever it is offered.
    other = write_log(tmp_path / "other.jsonl", "k2", ["an unrelated note about parsley"])
    done = run_helix("ingest", other, "--store", own_store, "--json")
    assert done.returncode == 0, done.stderr
    assert items(own_store) == {**after, "k2#k2:0": "an unrelated note about parsley"}
    assert verify_store(own_store).problems == ()
    assert not list((own_store / "parts").iterdir())
    state = read_status(own_store)
    assert (state["pending"], state["dead"]) == (0, 0)


def test_a_kill_in_the_first_ingest_leaves_a_usable_store(tmp_path: Path, run_helix) -> None:
    log = write_log(tmp_path / "log.jsonl", "k1", ["the walnut loaf is in the oven"])
    for point in ("commit.segment", "commit.manifest"):
        assert run_helix("ingest", log, "--store", tmp_path / "s", HELIX_FAILPOINT=point).returncode == -signal.SIGKILL
        assert verify_store(tmp_path / "s").problems == ()
        assert run_helix("recall", "walnut", "--store", tmp_path / "s").returncode == 0
    done = run_helix("ingest", log, "--store", tmp_path / "s", "--json")
    assert json.loads(done.stdout)["duplicates"] == 1
    assert items(tmp_path / "s") == {"k1#k1:0": "the walnut loaf is in the oven"}


@pytest.mark.soak
def test_ten_kills_at_random_moments_lose_nothing(own_store: Path, tmp_path: Path, run_helix) -> None:
    seed = 20_261_120
    rng = random.Random(seed)
    expected = items(own_store)
    for i in range(10):
        texts = [f"remark {j} of talk {i} about {rng.choice(['bread', 'parsley', 'walnuts'])}" for j in range(5)]
        log = write_log(tmp_path / f"{i}.jsonl", f"r{i}", texts)
        expected |= {f"r{i}#r{i}:{j}": text for j, text in enumerate(texts)}
        # Accepted first, so that whatever the kill hits, the document counts as given.
        assert run_helix("enqueue", log, "--store", own_store).returncode == 0
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("helix")), "ingest", str(log), "--store", str(own_store)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.2, 1.6))
        process.kill()
        process.wait(60)
        assert verify_store(own_store).problems == (), f"seed {seed}, kill {i}"
    assert run_helix("ingest", log, "--store", own_store).returncode == 0
    assert items(own_store) == expected


def test_four_concurrent_ingests_publish_every_document_once(own_store: Path, tmp_path: Path, run_helix) -> None:
    expected = items(own_store)
    logs = []
    for i in range(8):
        texts = [f"remark {j} of talk {i} about bread" for j in range(4)]
        logs.append(write_log(tmp_path / f"{i}.jsonl", f"p{i}", texts))
        expected |= {f"p{i}#p{i}:{j}": text for j, text in enumerate(texts)}
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: run_helix("ingest", *logs, "--store", own_store, "--json"), range(4)))
    assert [run.returncode for run in runs] == [0] * 4, [run.stderr for run in runs]
    assert items(own_store) == expected
    assert verify_store(own_store).problems == ()
    assert sum(json.loads(run.stdout)["items"] for run in runs) == 32
