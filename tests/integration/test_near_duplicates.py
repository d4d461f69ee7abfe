"""Near-duplicate spam: fifty copies of one sentence take one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helix.enrich.neardup import compute_signatures, estimate_jaccard
from helix.sdk.memory import Memory
from tests.support.tiny import at_cosine, make_store, memory_of, record

AXIS = np.eye(32)[0]
COPIES = 50
SPAM = (
    "reminder to all of you that the nightly backup of the ledger runs at three, so please close your open "
    "connections before that, log out of the console and do not start any long migration after midnight"
)
OTHERS = (
    "the backup of the ledger goes to the vault in Oslo", "a backup takes eleven minutes when nobody writes",
    "restoring the ledger was tried in March and worked", "Tomasz has the key that opens the backup",
    "old copies of the ledger are deleted after ninety days", "we compress the backup with zstd at level nine",
    "the ledger has grown to forty gigabytes", "a failed backup pages whoever is on call",
    "the second copy of the ledger lies in Bergen", "no backup is made on the first of January",
    "the ledger is locked for a second at the start", "checksums of the backup are kept apart from it",
)  # fmt: skip


def spammed_store(folder: Path, count: int) -> Memory:
    """The copies are nearest to the question in every leg; each ends in another word."""
    rng = np.random.default_rng(9)
    copies = [f"{SPAM}, note {i}" for i in range(count)]
    marks = compute_signatures(copies)
    assert estimate_jaccard(marks, marks).min() >= 0.8
    cosine = [*np.linspace(0.8, 0.75, count), *np.linspace(0.6, 0.5, len(OTHERS))]
    vectors = at_cosine(AXIS, cosine, count + len(OTHERS), rng)
    vectors[:count] = at_cosine(vectors[0], 0.99, count, rng)
    given = [{"session": f"s{i}"} for i in range(count + len(OTHERS))]
    first = str(record(0, copies[0], given[0])["id"])
    near = [None, *([first] * (count - 1)), *([None] * len(OTHERS))]
    make_store(folder, copies + list(OTHERS), vectors, given, near=near)
    return memory_of(folder, lambda text: AXIS)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return spammed_store(tmp_path_factory.mktemp("spam"), COPIES)


@pytest.mark.parametrize("profile", ["helix", "helix-paper"])
def test_copies_leave_room_for_the_others_and_the_trace_names_their_original(memory: Memory, profile: str) -> None:
    """Switch: `repeats` that finds nothing (`diversify.jaccard` above 1)."""
    found = memory.recall("when is the nightly backup of the ledger?", profile=profile, budget=400, explain=True)
    assert found.trace is not None
    assert len(found.trace["candidates"]) == COPIES + len(OTHERS)
    assert found.items[0].text.startswith(SPAM)  # the best of them stays
    assert {item.text for item in found.items[1:]} <= set(OTHERS)
    assert len(found.items) == 10
    packed = len(found.packed)
    assert packed == 10 if profile == "helix-paper" else packed > 10
    assert found.context.count("nightly backup") == 1
    dropped = [one["dropped"] for one in found.trace["candidates"] if "near-duplicate" in str(one["dropped"])]
    assert len(dropped) == COPIES - 1
    assert all(found.items[0].id in one for one in dropped)


@pytest.mark.parametrize("profile", ["helix", "helix-paper"])
def test_more_copies_than_a_leg_brings_leave_room_too(tmp_path: Path, profile: str) -> None:
    """They fill both legs. Switch: `collapse` that gives what the first search gave."""
    found = spammed_store(tmp_path, 150).recall("when is the nightly backup of the ledger?", profile=profile)
    assert len(found.items) == 10
    copies = [item.text.startswith(SPAM) for item in found.items].count(True)
    assert copies == 1 or (copies == 0 and profile == "helix-paper")  # which has newer things first
