"""Arrays with wrong values and fitting digests: every command answers, or raises an error of Helix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.snapshot import writer
from helix.snapshot.index import tokens
from helix.snapshot.index.doc2query import KIND, write_queries
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Index, describe_tree, make_id
from helix.snapshot.reader.snapshot import Snapshot
from tests.support.sanitised import copy_sanitised, run


@pytest.fixture
def broad_store(own_store: Path) -> Path:
    """A store with every kind of array, deleted rows, doc2query questions and token vectors."""
    with writer.acquire_lock(own_store, 1.0) as held:
        name, manifest = inbox.load_current(own_store)
        segment, rows = manifest.segments[0], np.arange(0, 40, 2, dtype=np.uint32)
        index = own_store / "indexes" / make_id()
        ids = [f"{int(key):016x}" for key in Snapshot.open(own_store).lexical.key[rows]]
        write_queries(index / KIND, rows, ids, [["why sqlite", f"what did Priya say about {row}"] for row in rows])
        found = Index(index.name, KIND, (segment.id,), describe_tree(own_store, index), {"model": "m"})
        kept = own_store / "indexes" / make_id()
        rng, all_rows = np.random.default_rng(0), np.arange(segment.rows, dtype=np.uint32)
        indptr, codes = (
            np.arange(segment.rows + 1) * 2,
            rng.integers(-127, 128, (2 * segment.rows, 384)).astype(np.int8),
        )
        tokens.write_tokens(kept / tokens.KIND, all_rows, indptr, codes, rng.random(len(codes)).astype(np.float32))
        params = {"model": "m", "fingerprint": manifest.lineage.encoder, "dim": 384}
        vectors = Index(kept.name, tokens.KIND, (segment.id,), describe_tree(own_store, kept), params)
        gone = writer.write_deletes(own_store, segment.id, np.array([3, 90], np.uint32))
        more = {"indexes": (*manifest.indexes, found, vectors), "deletes": (gone,)}
        writer.publish_generation(held, writer.build_next(held, name, manifest, **more))
    return own_store


def test_indices_out_of_bounds_are_damage(broad_store: Path, tmp_path: Path) -> None:
    """In a process of its own, which an uncaught error may end."""
    command = [sys.executable, "-m", "tests.support.damaged", broad_store, tmp_path / "work", "1", "quick"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    counted = orjson.loads(done.stdout)
    assert min(counted["refused"], counted["answered"]) > 20


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_damaged_array_is_read_outside_its_memory(seed: int, broad_store: Path, tmp_path: Path) -> None:
    """With kernels under sanitisers; every array also with other dtypes and lengths, and by every kind of query."""
    (tmp_path / "package").mkdir()
    environment = copy_sanitised(tmp_path / "package")
    done = run(environment, "-m", "tests.support.damaged", broad_store, tmp_path / "work", seed, timeout=3_000)
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-3_000:]}{done.stderr[-6_000:]}"
    counted = orjson.loads(done.stdout)
    assert min(counted["refused"], counted["answered"]) > 100
