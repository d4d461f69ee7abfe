"""Storage levels from the setting to the answer: a lineage changes its level by a reindex only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import helix
from helix.cli.main import main
from helix.errors import UsageError
from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.index import dense
from helix.snapshot.index.dense import DenseIndex
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import quantise_vectors
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.verify import verify_store
from helix.stages.dense import search_dense
from helix.stages.route import route
from pipelines.bench.language import DIM
from pipelines.bench.synthetic import make_batch
from pipelines.embedded.ingest import ingest
from pipelines.ingest.commit import commit_rows
from pipelines.ingest.lineage import open_encoder
from pipelines.maintain.compact import compact
from tests.compat.history import current
from tests.support.queries import make_query
from tests.unit.snapshot.index.test_dense import draw_clusters

SOAKED = [pytest.param(level, marks=pytest.mark.soak) for level in ("binary", "int8+float")]
LEVELS = ("int8", "prefix:64", "binary+float", *SOAKED)
ROWS = 400  # a batch
FLOATS = "vectors.f16.npy"


@pytest.fixture(scope="module")
def world() -> tuple[list[RowBatch], np.ndarray, np.ndarray]:
    """(two batches of items, their vectors float32[800, 384], questions float32[100, 384])."""
    points, questions = draw_clusters(2 * ROWS, DIM, 30)
    made = []
    for i, part in enumerate(np.split(points, 2)):
        codes, scale = quantise_vectors(part)
        rows = make_batch(1, i, ROWS)
        made.append(replace(rows, codes=codes, scale=scale, exact=part.astype(np.float16)))
    return made, points, questions


@pytest.fixture(autouse=True)
def no_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train no router, which takes seconds for each lineage."""
    monkeypatch.setattr("pipelines.ingest.commit.load_router", lambda *_: "not here")


def describe_levels(root: Path) -> tuple[str, list[str], list[bool]]:
    """Return the lineage's level, that of each index, and for each segment whether it has half-precision vectors."""
    manifest = current(root)
    floats = [(root / "segments" / segment.id / FLOATS).exists() for segment in manifest.segments]
    named = [any(file.path.endswith(FLOATS) for file in segment.files) for segment in manifest.segments]
    assert floats == named  # what is there is checked, pushed and collected like the rest
    return manifest.lineage.vectors, [i.params["tier"] for i in manifest.indexes if i.kind == "dense"], floats


@pytest.mark.parametrize("tier", LEVELS)
def test_a_store_stays_at_its_first_storage_level(
    tier: str, world: tuple[list[RowBatch], np.ndarray, np.ndarray], tmp_path: Path, cache: Path, monkeypatch
) -> None:
    batches, points, questions = world
    root, settings = tmp_path / "s", replace(load(), vectors=tier)
    monkeypatch.setattr(dense, "INDEXED_ROWS", ROWS // 2)
    paths.create_folders(root)
    commit_rows(root, batches, open_encoder(root, settings), settings)
    exact = tier.endswith("+float")
    assert describe_levels(root) == (tier, [], [exact] * 2)

    searched = []
    search = DenseIndex.search
    monkeypatch.setattr(DenseIndex, "search", lambda self, *given: searched.append(self.tier) or search(self, *given))
    wanted = np.argsort(-(questions @ points.T), axis=1, kind="stable")[:, :10]
    name = tier.removesuffix("+float")
    for full, count in ((False, 2), (True, 1)):
        compact(root, load(), full=full)  # the setting of that moment says nothing
        assert describe_levels(root) == (tier, [name] * count, [exact] * count)
        searched.clear()
        snap = Snapshot.open(root)
        plan = route(make_query("anything", snap, Settings()), None, snap)
        found = [search_dense(question, snap, plan, 10) for question in questions]
        assert searched == [name] * count * len(questions)
        overlap = [len(np.intersect1d(leg.rows, rows)) / 10 for leg, rows in zip(found, wanted, strict=True)]
        assert np.mean(overlap) >= (0.99 if exact else 0.95)
        scored = np.array([leg.scores for leg in found])
        said = np.array([points[leg.rows] @ question for leg, question in zip(found, questions, strict=True)])
        assert (np.abs(scored - said).max() < 2e-4) == exact  # what eight bits lose is there again
    if exact:
        (segment,) = current(root).segments
        kept = np.load(root / "segments" / segment.id / FLOATS)
        np.testing.assert_array_equal(kept, points.astype(np.float16))
    assert verify_store(root).problems == ()


WORDS = ("lake", "house", "shed", "boat", "oar", "rope", "sail")
WORDS += ("wind", "rain", "snow", "bread", "flour", "salt", "oven")


def log(path: Path, first: int, n: int) -> Path:
    """Write n distinct turns."""
    texts = [f"{WORDS[i % 14]} and {WORDS[i // 14 % 14]} were number {i}" for i in range(first, first + n)]
    lines = [{"session": path.stem, "id": f"t{i}", "speaker": "Ana", "text": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(("first", "then"), [("binary+float", "prefix:64"), ("int8", "int8+float")])
def test_a_reindex_changes_the_storage_level(
    first: str, then: str, tmp_path: Path, cache: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "s"
    monkeypatch.setattr(dense, "INDEXED_ROWS", 30)
    monkeypatch.setenv("HELIX_THREADS", "1")  # reindexed in this process: in another nothing is patched

    def run(vectors: str, *given: object) -> None:
        monkeypatch.setenv("HELIX_VECTORS", vectors)
        assert main([*map(str, given), "--store", str(root)]) == 0, capsys.readouterr().err

    run(first, "ingest", log(tmp_path / "a.jsonl", 0, 60))
    name, exact = first.removesuffix("+float"), first.endswith("+float")
    assert describe_levels(root) == (first, [name], [exact])
    run(then, "ingest", log(tmp_path / "b.jsonl", 60, 40))
    assert describe_levels(root) == (first, [name] * 2, [exact] * 2)
    run(then, "compact")
    assert describe_levels(root)[0] == first

    question = "rain and boat were number 50"
    memory = helix.open(root)
    assert memory.recall(question).items[0].text == question

    run(then, "reindex")
    level, names, floats = describe_levels(root)
    assert (level, set(names), set(floats)) == (then, {then.removesuffix("+float")}, {then.endswith("+float")})
    assert current(root).counts["items"] == 100
    memory.refresh()
    assert memory.recall(question).items[0].text == question
    run(then, "reindex")
    assert "nothing to do" in capsys.readouterr().out
    assert verify_store(root).problems == ()


def test_half_precision_matches_the_encoder(tmp_path: Path, cache: Path) -> None:
    root, settings = tmp_path / "s", replace(load(), vectors="int8+float")
    ingest(root, [log(tmp_path / "a.jsonl", 0, 20)], settings)
    snap = Snapshot.open(root)
    (block,) = snap.vectors.blocks
    exact = open_encoder(root, settings).passages([f"Ana: {entry['text']}" for entry in snap.text(np.arange(20))], 32)
    assert block.exact is not None
    np.testing.assert_allclose(block.exact, exact, atol=2e-3)
    rounded = block.codes * block.scale[:, None]
    assert np.abs(block.exact - exact).mean() < np.abs(rounded - exact).mean()


def test_an_unknown_level_is_refused_before_any_write(tmp_path: Path, own_store: Path, monkeypatch, capsys) -> None:
    root, path = tmp_path / "s", log(tmp_path / "a.jsonl", 0, 3)
    for vectors in ("int4", "", "+float", "int8+double", "prefix", "prefix:0", "float+int8"):
        monkeypatch.setenv("HELIX_VECTORS", vectors)
        for command in ("ingest", "enqueue"):
            assert main([command, str(path), "--store", str(root)]) == 2, vectors
            assert "int8, binary and prefix:DIMS" in capsys.readouterr().err
    assert not root.exists()
    before = {path: path.read_bytes() for path in own_store.rglob("*") if path.is_file()}
    for vectors, error in (("int4", "int8, binary and prefix:DIMS"), ("prefix:384", "does not fit vectors of 384")):
        monkeypatch.setenv("HELIX_VECTORS", vectors)
        assert main(["reindex", "--store", str(own_store)]) == 2
        assert error in capsys.readouterr().err
    assert {path: path.read_bytes() for path in own_store.rglob("*") if path.is_file()} == before
    monkeypatch.delenv("HELIX_VECTORS")
    with pytest.raises(UsageError, match="prefix:384 does not fit vectors of 384 dimensions"):
        ingest(root, [path], replace(load(), vectors="prefix:384"))
    assert inbox.load_current(root)[1] is None
    assert ingest(root, [], load()).items == 3  # accepted is accepted
    assert current(root).lineage.vectors == "int8"
