"""The dense index of a segment: recall, filters and exact scores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pytest

import helix.stages.dense as stage
from helix.errors import StoreError, UsageError
from helix.snapshot.index import dense
from helix.snapshot.index import pq as coded
from helix.snapshot.index.dense import DenseIndex, build_dense, open_dense
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.vectors import VectorBlock
from helix.snapshot.segment.arrays import quantise_vectors
from helix.snapshot.verify import verify_store
from helix.stages.dense import candidates, score, search_dense
from helix.stages.route import route
from helix.types import Plan
from helix.util.threads import defer_work
from pipelines.maintain.compact import compact
from tests.support.queries import make_query
from tests.support.tiny import BASE, SETTINGS, make_store

N, DIM, CLUSTERS = 8_000, 64, 40


def normalise(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def draw_clusters(n: int, dim: int, clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (n vectors around centres, 100 questions): clusters that overlap."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, dim))
    points, questions = (
        normalise(centres[rng.integers(clusters, size=size)] + 1.2 * rng.normal(size=(size, dim))) for size in (n, 100)
    )
    return points, questions


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[VectorBlock, np.ndarray, np.ndarray, dict[str, float]]:
    """An index of 8,000 clustered vectors, opened; the questions; the exact scores float32[questions, n]; params."""
    points, questions = draw_clusters(N, DIM, CLUSTERS)
    codes, scale = quantise_vectors(points)
    path = tmp_path_factory.mktemp("dense") / "ivf.faiss"
    params = build_dense(codes, scale, path)
    exact = (questions @ codes.T.astype(np.float32)) * scale
    return VectorBlock(0, codes, scale, open_dense(path, params)), questions, exact, params


def index_of(block: VectorBlock) -> DenseIndex:
    assert block.dense is not None
    return block.dense


def select_best(exact: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-exact, kind="stable")[:k]


def share_found(found: np.ndarray, exact: np.ndarray, k: int) -> float:
    return len(np.intersect1d(found, select_best(exact, k))) / k


@pytest.fixture(params=[True, False], ids=["in halves", "at once"])
def in_halves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search the lists of these small indexes in halves too."""
    monkeypatch.setattr(coded, "_HALVED", 0 if request.param else 1 << 40)


@pytest.mark.usefixtures("in_halves")
def test_recall_at_100_is_at_least_95_percent(world) -> None:
    block, questions, exact, params = world
    pairs = list(zip(questions, exact, strict=True))
    shares = [share_found(index_of(block).search(q, 100, None), row, 100) for q, row in pairs]
    assert np.mean(shares) >= 0.95
    # Not by looking everywhere; and what was measured at build time is what is seen on other questions.
    assert params["probes"] <= params["lists"] / 2
    assert abs(np.mean(shares) - params["recall"]) < 0.05
    lists = index_of(block).coded
    assert lists is not None
    found = [coded.search_coded(lists, q, N, 1, None, None) for q in questions]
    assert np.mean([share_found(rows, row, 100) for rows, row in zip(found, exact, strict=True)]) < 0.8


def test_probes_respect_the_bound_on_rows(world, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    block, *_ = world
    monkeypatch.setattr(dense, "_MOST", N // 20)
    params = build_dense(block.codes, block.scale, tmp_path / "ivf.faiss")
    assert params["probes"] == params["lists"] // 20


@pytest.mark.usefixtures("in_halves")
@pytest.mark.parametrize("share", [0.5, 0.05, 0.002])
def test_only_allowed_rows(world, share: float) -> None:
    block, questions, exact, _ = world
    allowed = np.random.default_rng(1).random(N) < share
    wanted = min(100, int(allowed.sum()))
    shares = []
    for q, row in zip(questions, exact, strict=True):
        found = index_of(block).search(q, 100, allowed)
        assert allowed[found].all()
        assert len(found) == len(np.unique(found)) <= 2 * 100 * index_of(block).over
        shares.append(len(np.intersect1d(found, select_best(np.where(allowed, row, -9), wanted))) / wanted)
    assert np.mean(shares) >= 0.95


@pytest.mark.usefixtures("in_halves")
@pytest.mark.parametrize("over", [1, 4])
def test_a_filter_far_from_the_question_still_finds_k(world, over: int) -> None:
    """Only the furthest rows are allowed."""
    block, questions, exact, _ = world
    narrow = replace(index_of(block), probes=1, over=over)
    for q, row in zip(questions[:10], exact[:10], strict=True):
        allowed = np.zeros(N, bool)
        allowed[np.argsort(row)[: N * 3 // 5]] = True
        found = narrow.search(q, 100, allowed)
        assert allowed[found].all()
        assert over * 100 <= len(found) <= 1.25 * over * 100
    assert index_of(block).search(questions[0], 100, np.zeros(N, bool)).tolist() == []


@pytest.mark.parametrize("share", [None, 0.3, 0.004])
def test_two_threads_return_the_same_rows_as_one(world, share: float | None, monkeypatch) -> None:
    monkeypatch.setattr(coded, "_HALVED", 0)
    block, questions, _, _ = world
    allowed = None if share is None else np.random.default_rng(3).random(N) < share
    index, threads = index_of(block), set[int]()

    def work_of(work: Callable[..., Any], *args: Any) -> Any:
        threads.add(threading.get_ident())
        return work(*args)

    def record_call(work: Callable[..., Any], /, *args: Any) -> Callable[[], Any]:
        return another.submit(work_of, work, *args).result

    with ThreadPoolExecutor(1) as another:
        for q in questions[:20]:
            alone = index.search(q, 100, allowed)
            assert index.search(q, 100, allowed, None, record_call).tolist() == alone.tolist()
            assert len(np.unique(alone)) == len(alone)  # no list is looked into twice
    assert len(threads - {threading.get_ident()}) == 1


def test_each_half_searches_every_second_list(world, monkeypatch) -> None:
    monkeypatch.setattr(coded, "_HALVED", 0)
    block, questions, _, _ = world
    lists = index_of(block).coded
    assert lists is not None
    halves: list[set[int]] = []

    def half(work: Callable[..., Any], /, *given: Any) -> Callable[[], Any]:
        halves.append(set(given[1].tolist()))
        return defer_work(work, *given)

    for number in (1, 2, 5):
        whole = coded.search_coded(lists, questions[0], N, number, None, None)
        found = coded.search_coded(lists, questions[0], N, number, None, half)
        assert sorted(found.tolist()) == sorted(whole.tolist())
    assert [len(one) for one in halves] == [0, 1, 2]
    # All allowed rows are in one list, so one half has none.
    there = lists.lists.row.arrays[int(lists.lists.size.argmax())]
    allowed = np.zeros(N, bool)
    allowed[there] = True
    assert len(there) > 100
    for probes in (1, index_of(block).lists):
        index = replace(index_of(block), probes=probes, over=1)
        assert sorted(index.search(questions[0], N, allowed).tolist()) == sorted(there.tolist())
        assert len(set(index.search(questions[0], 100, allowed).tolist()) & set(there.tolist())) == 100


def test_few_allowed_rows_are_scanned(world, monkeypatch) -> None:
    block, questions, exact, _ = world
    allowed = np.zeros(N, bool)
    allowed[np.random.default_rng(2).choice(N, 40, replace=False)] = True
    monkeypatch.setattr(stage, "_SCANNED", 50)
    assert candidates(questions[0], block, allowed, 10).tolist() == np.flatnonzero(allowed).tolist()
    monkeypatch.setattr(stage, "_SCANNED", 39)
    assert set(candidates(questions[0], block, allowed, 10).tolist()) <= set(np.flatnonzero(allowed).tolist())
    asked: list[int] = []
    monkeypatch.setattr(DenseIndex, "search", lambda self, *given: asked.append(1) or np.arange(10))  # type: ignore[func-returns-value]
    candidates(questions[0], block, allowed, 10)
    assert asked == [1]
    assert candidates(questions[0], VectorBlock(0, block.codes, block.scale, None), None, 10).tolist() == list(range(N))
    assert exact.shape == (100, N)


def test_scores_are_exact(world) -> None:
    block, questions, exact, _ = world
    for q, row in zip(questions, exact, strict=True):
        rows = np.sort(index_of(block).search(q, 100, None))
        np.testing.assert_allclose(score(q, block, rows), row[rows], atol=1e-5)


@pytest.mark.parametrize("tier", ["int8", "binary", "prefix:4"])
def test_small_segments(tier: str, tmp_path: Path) -> None:
    for n in (1, 2, 39, 100, 500):
        points, questions = draw_clusters(n, 8, 3)
        codes, scale = quantise_vectors(points)
        found = open_dense(tmp_path / str(n), build_dense(codes, scale, tmp_path / str(n), tier=tier))
        everywhere = replace(found, probes=found.lists)
        assert sorted(everywhere.search(questions[0], n, None).tolist()) == list(range(n))
        assert sorted(found.search(questions[0], n, np.ones(n, bool)).tolist()) == list(range(n))
        assert everywhere.search(questions[0], n + 5, np.zeros(n, bool)).tolist() == []
    codes, scale = quantise_vectors(np.zeros((200, 8), np.float32))
    found = open_dense(tmp_path / "zeros", build_dense(codes, scale, tmp_path / "zeros", tier=tier))
    assert len(set(found.search(np.ones(8, np.float32), 10, None).tolist())) >= 10


@pytest.mark.parametrize("tier", ["int8", "binary", "prefix:4"])
def test_the_same_vectors_give_the_same_index_and_damage_is_named(tier: str, tmp_path: Path) -> None:
    codes, scale = quantise_vectors(draw_clusters(3_000 if tier == "int8" else 500, 16, 20)[0])
    paths = [tmp_path / "a", tmp_path / "b"]
    params, again = (build_dense(codes, scale, path, tier=tier) for path in paths)
    assert params == again
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert open_dense(paths[0], params).tier == params["tier"] == tier
    if tier == "int8":  # as an index without a level is
        old = open_dense(paths[0], {"lists": params["lists"], "probes": params["probes"], "recall": 1.0})
        assert (old.tier, old.over) == ("int8", 1)
    for damage in (paths[0].read_bytes()[:-1_000], b"this is no index"):
        paths[1].write_bytes(damage)
        with pytest.raises(StoreError, match="b is damaged"):
            open_dense(paths[1], params)


@pytest.fixture(scope="module", params=["binary", "prefix:32"])
def level(request, world, tmp_path_factory: pytest.TempPathFactory) -> tuple[VectorBlock, dict[str, Any]]:
    """The same vectors in a storage level that is smaller."""
    block, _, _, _ = world
    path = tmp_path_factory.mktemp("tier") / "ivf.faiss"
    params = build_dense(block.codes, block.scale, path, tier=request.param)
    whole = path.with_name("whole.faiss")
    build_dense(block.codes, block.scale, whole)
    assert path.stat().st_size < 0.7 * whole.stat().st_size
    return VectorBlock(0, block.codes, block.scale, open_dense(path, params)), params


def search_level(block: VectorBlock, question: np.ndarray, k: int, allowed: np.ndarray | None = None) -> np.ndarray:
    """Return the k best candidates as the stage scores them."""
    rows = np.sort(index_of(block).search(question, k, allowed))
    assert len(rows) == len(np.unique(rows))
    return rows[np.argsort(-score(question, block, rows), kind="stable")[:k]]


def test_a_storage_level_reaches_96_percent_after_rescoring(world, level) -> None:
    _, questions, exact, _ = world
    block, params = level
    for k in (10, 100):
        pairs = list(zip(questions, exact, strict=True))
        assert np.mean([share_found(search_level(block, q, k), row, k) for q, row in pairs]) >= 0.96
        coarse = [share_found(index_of(block).search(q, k, None)[:k], row, k) for q, row in pairs]
        assert np.mean(coarse) < 0.8  # its own order would not do
    assert params["recall"] >= 0.9  # of questions that are harder than these
    assert params["over"] > 1


@pytest.mark.parametrize("share", [0.5, 0.02, 0.0005])
def test_a_storage_level_returns_allowed_rows_only(world, level, share: float) -> None:
    _, questions, exact, _ = world
    block, _ = level
    allowed = np.random.default_rng(1).random(N) < share
    wanted = min(100, int(allowed.sum()))
    shares = []
    for q, row in zip(questions, exact, strict=True):
        found = search_level(block, q, 100, allowed)
        assert allowed[found].all()
        shares.append(len(np.intersect1d(found, select_best(np.where(allowed, row, -9), wanted))) / wanted)
    assert np.mean(shares) >= 0.96
    assert index_of(block).search(questions[0], 100, np.zeros(N, bool)).tolist() == []


def test_a_prefix_holds_the_first_dimensions(tmp_path: Path) -> None:
    points, questions = draw_clusters(3_000, 8, 30)
    points[:, 4:] = 0  # nothing to go by there
    codes, scale = quantise_vectors(normalise(points))
    params = build_dense(codes, scale, tmp_path / "i", tier="prefix:4")
    block = VectorBlock(0, codes, scale, open_dense(tmp_path / "i", params))
    assert params["over"] <= 2
    exact = (questions @ codes.T.astype(np.float32)) * scale
    shares = [share_found(search_level(block, q, 20), row, 20) for q, row in zip(questions, exact, strict=True)]
    assert np.mean(shares) >= 0.95


def test_an_unknown_storage_level_is_refused(tmp_path: Path) -> None:
    codes, scale = quantise_vectors(draw_clusters(100, 64, 3)[0])
    for tier in ("", "int4", "prefix", "prefix:", "prefix:0", "prefix:-3", "prefix:64", "prefix:999999"):
        with pytest.raises(UsageError, match="storage level"):
            build_dense(codes, scale, tmp_path / "i", tier=tier)
    with pytest.raises(UsageError, match="does not fit vectors of 12 dimensions"):
        build_dense(codes[:, :12], scale, tmp_path / "i", tier="binary")


def test_float16_vectors_decide_ties_of_int8() -> None:
    """The exact array decides a tie of int8 codes, only among the best."""
    rng = np.random.default_rng(0)
    points = normalise(rng.normal(size=(400, 8)))
    question = points[0]
    points[1:60] = normalise(question + 0.004 * rng.normal(size=(59, 8)))
    codes, scale = quantise_vectors(points)
    wanted = select_best(points @ question, 10)
    block = SimpleNamespace(start=0, codes=codes, scale=scale, dense=None, exact=None, flat=None)
    vectors, columns = SimpleNamespace(blocks=[block]), SimpleNamespace(key=np.arange(400))
    snap = SimpleNamespace(files=SimpleNamespace(engine=None), vectors=vectors, columns=columns, start_work=defer_work)
    assert search_dense(question, snap, Plan(None, 400), 10).rows.tolist() != wanted.tolist()
    block.exact = points.astype(np.float16)
    leg = search_dense(question, snap, Plan(None, 400), 10)
    exact = points.astype(np.float16).astype(np.float32) @ question
    assert set(leg.rows.tolist()) <= set(select_best((codes.astype(np.float32) @ question) * scale, 40).tolist())
    np.testing.assert_allclose(leg.scores, exact[leg.rows], atol=1e-6)
    assert (np.diff(leg.scores) <= 0).all()
    assert leg.scores[0] == pytest.approx(exact.max(), abs=1e-6)


ROWS, CUTS = 1_500, [700, 1_300]


def plan_of(snapshot: Snapshot, project: str | None = None) -> Plan:
    return route(make_query("note", snapshot, SETTINGS, project=project), None, snapshot)


def test_a_store_answers_the_same_with_and_without_indexes_and_after_a_merge(tmp_path: Path, monkeypatch) -> None:
    """Three segments, two with an index, and 60 deleted rows."""
    root, (points, questions) = tmp_path / "s", draw_clusters(ROWS, 16, 12, seed=3)
    given = [{"project": "pq"[i % 2], "session": f"s{i // 50}", "time": BASE + i} for i in range(ROWS)]
    deleted = {0: list(range(5, 45)), 1: list(range(20))}
    make_store(root, [f"note {i}" for i in range(ROWS)], points, given, cuts=CUTS, deleted=deleted)
    monkeypatch.setattr(dense, "INDEXED_ROWS", 500)
    done = compact(root, SETTINGS)
    assert (done.indexed, done.merged) == (2, 0)
    snapshot, without = Snapshot.open(root), Snapshot.open(root)
    without.files.dense = {}
    assert [block.dense is not None for block in snapshot.vectors.blocks] == [True, True, False]
    assert [block.dense is not None for block in without.vectors.blocks] == [False] * 3
    monkeypatch.setattr(stage, "_SCANNED", 100)
    monkeypatch.setattr(stage, "EXACT_ROWS", 100)
    asked = []
    search = DenseIndex.search
    monkeypatch.setattr(DenseIndex, "search", lambda self, *given: asked.append(1) or search(self, *given))
    for project in (None, "q"):
        plan, shares = plan_of(snapshot, project), []
        asked.clear()
        for question in questions:
            with_index, exact = (search_dense(question, snap, plan, 20) for snap in (snapshot, without))
            assert snapshot.alive[with_index.rows].all()
            projects = {snapshot.projects[code] for code in snapshot.columns.project[with_index.rows]}
            assert projects <= {project or "p", "q"}
            known = dict(zip(exact.rows.tolist(), exact.scores.tolist(), strict=True))
            both = [i for i, row in enumerate(with_index.rows.tolist()) if row in known]
            scores = [known[int(with_index.rows[i])] for i in both]
            assert scores == pytest.approx(with_index.scores[both].tolist(), abs=1e-6)
            assert (np.diff(with_index.scores) <= 0).all()
            shares.append(len(both) / 20)
        assert np.mean(shares) >= 0.95
        assert len(asked) == 2 * len(questions)

    done = compact(root, SETTINGS, full=True)
    assert (done.segments, done.indexed) == (1, 0)  # built along with the merge
    after, shares = Snapshot.open(root), []
    assert after.manifest is not None
    (index,) = after.manifest.indexes
    assert index.covers == (after.manifest.segments[0].id,)
    assert (after.rows, after.live) == (ROWS - 60, ROWS - 60)
    for question in questions:
        legs = [(snap, search_dense(question, snap, plan_of(snap), 20)) for snap in (after, without)]
        now, before = (set(snap.columns.key[leg.rows].tolist()) for snap, leg in legs)
        shares.append(len(before & now) / 20)
    assert np.mean(shares) >= 0.95
    assert verify_store(root).problems == ()


def write_eight_bits(codes: np.ndarray, scale: np.ndarray, path: Path) -> dict[str, Any]:
    """Write an index of 8-bit codes, as older releases did."""
    points = dense.dequantise(codes, scale, slice(None))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(DIM), DIM, 16, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.train(points)
    index.add_with_ids(points, np.arange(len(points)))
    faiss.write_index(index, str(path))
    return {"tier": "int8", "lists": 16, "probes": 8, "over": 1, "recall": 1.0}


@pytest.mark.parametrize("n", [2_000, 5_000], ids=["8 bits", "4 bits"])
def test_an_index_row_that_does_not_exist_is_damage(n: int, tmp_path: Path) -> None:
    points, questions = draw_clusters(n, DIM, CLUSTERS)
    codes, scale = quantise_vectors(points)
    path = tmp_path / "ivf.faiss"
    params = (build_dense if n == 5_000 else write_eight_bits)(codes, scale, path)
    index = faiss.read_index(str(path))
    for wrong in (n + 1, 1 << 40, -7):
        path = tmp_path / f"{wrong}.faiss"  # an opened index is mapped: its file is not written over
        held = faiss.clone_index(index)
        held.add_with_ids(questions[:1], np.array([wrong]))
        faiss.write_index(held, str(path))
        with pytest.raises(StoreError, match=f"it is of {n + 1} vectors of {DIM} dimensions, the segment has {n}"):
            open_dense(path, params, (n, DIM))
        found = open_dense(path, params)
        assert (found.coded is not None) == (n == 5_000)
        if found.coded or wrong > 0:  # what is below 0 is nothing to FAISS
            with pytest.raises(StoreError, match=r"row (that is not among|outside)"):
                found.search(questions[0], 10, None)
        allowed = np.ones(n, bool)
        if found.coded:  # a row more than the filter has
            with pytest.raises(ValueError, match="allowed has the shape"):
                found.search(questions[0], 10, allowed)
        else:
            assert wrong not in found.search(questions[0], 10, allowed).tolist()
