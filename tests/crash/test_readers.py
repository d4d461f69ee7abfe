"""Readers: a thousand generations cost an open one nothing, and what it has open stays until it lets go or dies."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.errors import StoreError
from helix.memory import Memory
from helix.snapshot import gc as collector
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, pins, reader, verify, writer
from helix.snapshot.gc import collect
from helix.snapshot.reader import Snapshot
from pipelines.compact import compact
from tests.compat.history import DIM, current, delete, grow, publish
from tests.tiny import SETTINGS, make_store

TEXTS = [f"remark {i} about walnut bread and the oven of number {i % 7}" for i in range(400)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    make_store(folder, TEXTS, np.ones((len(TEXTS), DIM)) / 2)
    return folder


def pinned_files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "pins").iterdir())


def found(snapshot: Snapshot) -> list[str]:
    """What a snapshot shows: every live text, and what the lazily opened parts say."""
    rows = np.flatnonzero(snapshot.alive)
    assert len(snapshot.last_access) == snapshot.rows
    assert snapshot.centroids.shape[1] == DIM
    return [entry["text"] for entry in snapshot.text(rows)]


def files_of(root: Path, name: str) -> list[Path]:
    """A manifest and what it names."""
    manifest = manifests.load(root, name)
    return [root / "manifests" / name, *(root / file.path for file in manifest.files())]


# ---------------------------------------------------------------- what an open reader costs


@dataclass(frozen=True, slots=True)
class Usage:
    """Of this process."""

    descriptors: int
    private: int  # bytes that are this process's alone
    mappings: int


def usage() -> Usage:
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup").read_text()
    private = sum(int(kb) for kb in re.findall(r"^Private_\w+: +(\d+) kB", rollup, re.MULTILINE))
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return Usage(len(os.listdir("/proc/self/fd")), private << 10, mappings)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what a process holds")
def test_a_thousand_generations_leave_a_reader_as_small_as_it_was(root: Path) -> None:
    memory = Memory(root)
    before: Usage | None = None
    for i in range(1_000):
        if i % 10 == 9:
            grow(root, TEXTS[:8], f"s{i}")
            compact(root, SETTINGS)
        else:
            publish(root, watermarks={"events": {"x": i}})
        assert memory.refresh()
        assert memory.snapshot.name == manifests.current_name(root)
        if i % 50 == 49:
            collect(root, keep=3, grace=0.0, wait=5.0)
        if i == 299:
            before = usage()
    after = usage()
    assert before is not None
    assert len(memory.recall("walnut bread").items) == 10
    assert memory.snapshot.live == len(TEXTS) + 100 * 8
    assert len(pinned_files(root)) == 1
    assert pins.pinned(root) == {memory.snapshot.name}
    assert after.descriptors <= before.descriptors + 2, (before, after)
    assert after.private <= before.private + (12 << 20), (before, after)
    assert after.mappings <= before.mappings + 200, (before, after)
