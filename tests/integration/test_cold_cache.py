"""The first question: what it still has to read and to compute, once the store is open and warm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.sdk.memory import Memory
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.columns import SnapshotColumns
from helix.snapshot.writer import acquire_lock, build_next, publish_generation
from tests.support.tiny import make_store, memory_of

SIZE = 10_000
COLD = 2.0
"""Seconds to the first answer, opening and warming included; measured .05."""

FILES = 20
"""Opened by a process's first question: the profile, modules not needed before; measured 8."""

# A process of its own: nothing of an earlier test is in a cache. The audit hook sees every file that is opened.
FIRST = """
import json, sys
from helix.sdk.memory import Memory
from helix.recipes.registry import recipe
from helix.settings import Settings
recipe("helix")
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
memory = Memory(sys.argv[1], Settings())
memory.snapshot.warm()
before, opened[:] = list(opened), []
found = memory.recall("what did I tell Priya about vacation?", now="2026-07-01")
print(json.dumps({"before": before, "after": opened, "items": len(found.items), "degraded": found.degraded}))
"""


def lazy(kind: type) -> set[str]:
    """Names of what is computed when it is first asked for."""
    return {name for name, value in vars(kind).items() if isinstance(value, cached_property)}


def list_computed(snapshot: Snapshot) -> set[str]:
    own = {f"snapshot.{name}" for name in lazy(Snapshot) & vars(snapshot).keys()}
    return own | {f"columns.{name}" for name in lazy(SnapshotColumns) & vars(snapshot.columns).keys()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    words = np.array([f"word{i}" for i in range(3_000)])[rng.integers(0, 3_000, (SIZE, 9))]
    vectors = rng.standard_normal((SIZE, 48)).astype(np.float32)
    given = [
        {"session": f"s{i // 40}", "speaker": ("Ana", "Ben")[i % 2], "project": f"p{i % 7}", "time": 1_700_000_000 + i}
        for i in range(SIZE)
    ]
    mentions = [[("name", f"name{i % 900}", f"Name{i % 900}")] for i in range(SIZE)]
    said = {"subject": "ana", "relation": "lives_in"}
    facts: list[list[dict[str, Any]]] = [[{**said, "object_": f"town{i}"}] if i % 50 == 0 else [] for i in range(SIZE)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    folder = tmp_path_factory.mktemp("cold")
    make_store(folder, [" ".join(row) for row in words.tolist()], vectors, given, mentions, facts=facts)
    return folder


def vector(text: str) -> Any:
    return np.eye(48)[len(text) % 48]


FILTERS: list[dict[str, Any]] = [
    *({}, {"type": "episodic", "project": "p3", "speaker": "Ana"}, {"since": "2023-11-14", "until": "2023-11-16"}),
    *({"current_only": True}, {"entities": ["name5"]}, {"profile": "helix-paper"}),
]


@pytest.mark.parametrize("given", FILTERS, ids=lambda given: ",".join(given) or "plain")
def test_a_warm_store_leaves_nothing_for_the_first_question(root: Path, given: dict[str, Any]) -> None:
    """Switch: a name taken out of `Snapshot.warm`."""
    memory = memory_of(root, vector)
    memory.snapshot.warm()
    warm = list_computed(memory.snapshot)
    assert memory.recall("what does word7 say of word12 and name5?", **given).items
    assert list_computed(memory.snapshot) - warm == set()


def test_a_new_generation_is_warm_before_it_answers(root: Path, tmp_path: Path) -> None:
    """Switch: `refresh` that swaps without `warm`."""
    shutil.copytree(root, tmp_path / "store")
    memory = memory_of(tmp_path / "store", vector)
    memory.recall("what does word7 say?")
    with acquire_lock(memory.root, 1.0) as held:
        name, manifest = inbox.load_current(memory.root)
        assert manifest is not None
        publish_generation(held, build_next(held, name, manifest, counts=manifest.counts))
    assert memory.refresh()
    warm = list_computed(memory.snapshot)
    assert memory.snapshot.generation == 2
    assert memory.recall("what does word7 say of word12 and name5?").items
    assert list_computed(memory.snapshot) - warm == set()


def test_the_first_question_opens_no_file_of_the_store(sample_store: Path) -> None:
    """Switch: a file that is mapped or read when it is first asked for, as without `self.counter` in `warm`."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST, str(sample_store)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["items"] == 10
    assert said["degraded"] == []
    inside = str(sample_store)
    assert any(path.startswith(inside) for path in said["before"])  # the hook does see them
    assert [path for path in said["after"] if path.startswith(inside)] == []
    assert len(said["after"]) <= FILES


def test_ten_thousand_items_answer_at_once(root: Path) -> None:
    """Switch: a sleep of two seconds on the way; a bound for accidents, such as an index that is built when opened."""
    began = time.process_time()
    memory = memory_of(root, vector)
    found = memory.recall("what does word7 say of word12 and name5?")
    spent = time.process_time() - began
    assert len(found.items) == 10
    assert spent < COLD


def test_an_empty_store_is_warm_at_once(tmp_path: Path) -> None:
    paths.create_folders(tmp_path / "none")
    memory = Memory(tmp_path / "none")
    assert memory.recall("what did I tell Priya about vacation?").items == ()
