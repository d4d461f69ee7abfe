"""The dense leg on a GPU against a scan. A flat index of FAISS on the CPU has its interface and takes its place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pytest

import helix.stages.dense as stage
from helix.errors import StoreError, UsageError
from helix.sdk.memory import Memory
from helix.snapshot.index import flat
from helix.snapshot.index.flat import MOST, PRECISION, FlatIndex, Gpu, build_flat, open_gpu, open_processor
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.vectors import VectorBlock
from helix.snapshot.segment.arrays import quantise_vectors
from helix.stages.dense import search_dense, search_dense_batch
from helix.stages.route import route
from helix.types import Leg, Plan
from helix.util.threads import defer_work
from tests.support.queries import make_query
from tests.support.tiny import SETTINGS, add_encoder, make_store
from tests.unit.snapshot.index.test_dense import draw_clusters, normalise

ROWS, CUTS, DIM, NARROW = 6_600, [3_300, 6_500], 16, 30
HALF = faiss.ScalarQuantizer.QT_fp16
STAND_INS: dict[str, Callable[[int], Any]] = {
    "single precision": faiss.IndexFlatIP,
    "half precision": lambda d: faiss.IndexScalarQuantizer(d, HALF, faiss.METRIC_INNER_PRODUCT),
}


def find_fault() -> str:
    """Return why this machine has no usable GPU; empty if it has one."""
    try:
        open_gpu()
    except UsageError as error:
        return str(error)
    return ""


@pytest.fixture(params=[*STAND_INS, "a GPU"])
def gpu(request: pytest.FixtureRequest) -> Gpu:
    if request.param in STAND_INS:
        return Gpu(STAND_INS[request.param])
    if reason := find_fault():
        pytest.skip(f"needs a GPU: {reason}")
    return open_gpu()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A store of three segments, one of them small, with projects, hidden and deleted rows; 40 questions."""
    root = tmp_path_factory.mktemp("flat") / "s"
    points, questions = draw_clusters(ROWS, DIM, 12, seed=5)
    points[100:130] = points[100]  # ties, in both large segments
    points[4_000:4_030] = points[100]
    questions[0] = normalise(points[100:101] + 0.05)[0]
    given = [
        {"project": "narrow" if i % (ROWS // NARROW) == 7 else "pq"[i % 2], "acl": ["ana"] if i % 5 == 0 else []}
        for i in range(ROWS)
    ]
    make_store(root, ["note"] * ROWS, points, given, cuts=CUTS, deleted={0: list(range(50, 110)), 1: [0, 5]})
    return root, questions[:40]


def plan_of(snap: Snapshot, project: str | None) -> Plan:
    return route(make_query("note", snap, SETTINGS, project=project), None, snap)


def in_bytes(leg: Leg) -> tuple[str, bytes, bytes]:
    return leg.name, leg.rows.tobytes(), leg.scores.tobytes()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The (questions, rows a question) of each search of a flat index."""
    calls: list[tuple[int, int]] = []
    search = FlatIndex.search

    def watch(self: FlatIndex, questions: np.ndarray, k: int) -> Any:
        calls.append((len(questions), k))
        return search(self, questions, k)

    monkeypatch.setattr(FlatIndex, "search", watch)
    return calls


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each segment whose allowed rows were all scored."""
    sizes: list[int] = []
    candidates = stage.candidates

    def watch(vector: np.ndarray, block: VectorBlock, *given: Any, **options: Any) -> Any:
        sizes.append(len(block.codes))
        return candidates(vector, block, *given, **options)

    monkeypatch.setattr(stage, "candidates", watch)
    return sizes


def test_a_batch_has_the_legs_of_a_scan_to_the_bit(world, gpu: Gpu, searches, scans) -> None:
    """Questions of one batch differ in their filters; views have fewer live rows."""
    root, questions = world
    whole, exact = Snapshot.open(root, gpu=gpu), Snapshot.open(root)
    assert [block.dense is None for block in exact.vectors.blocks] == [True] * 3  # it scans
    for snap, other in ((whole, exact), (whole.seen_by(None), exact.seen_by(None))):
        projects = [(None, "p", "narrow", "q")[i % 4] for i in range(len(questions))]
        plans = [plan_of(snap, project) for project in projects]
        assert len({plan.allowed_rows for plan in plans}) >= 3
        for k in (1, 20, 100):
            searches.clear()
            scans.clear()
            found = search_dense_batch(questions, snap, plans, k)
            assert searches[0][0] == 30  # a quarter has a narrow filter
            assert sum(n > MOST for n in scans) < 30  # 20 of the narrow ones, in two segments, and few others
            for question, plan, leg in zip(questions, plans, found, strict=True):
                assert in_bytes(leg) == in_bytes(search_dense(question, other, plan, k))
                assert in_bytes(leg) == in_bytes(search_dense(question, snap, plan, k))  # a batch of one


class Blurred:
    """A flat index that scores some rows too low, by almost the bound of its error."""

    def __init__(self, hidden: list[int]) -> None:
        self.hidden, self.vectors = hidden, np.empty((0, DIM), np.float32)

    def add(self, rows: np.ndarray) -> None:
        self.vectors = np.concatenate([self.vectors, rows])

    def search(self, questions: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = questions @ self.vectors.T
        scores[:, self.hidden] -= np.float32(0.98 * PRECISION)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, 1), order


def hand_made(points: np.ndarray, exact: Any = None, device: Gpu | None = None) -> Any:
    """A snapshot of one segment, of vectors only."""
    codes, scale = quantise_vectors(points)
    block = VectorBlock(0, codes, scale, None, exact, build_flat(device, codes, scale) if device else None)
    keys = np.arange(len(points), dtype=np.uint64)[::-1]  # of equal scores the last row is first
    vectors, columns = SimpleNamespace(blocks=[block]), SimpleNamespace(key=keys)
    files = SimpleNamespace(engine=None)
    return SimpleNamespace(
        files=files, vectors=vectors, columns=columns, start_work=defer_work, live=len(points), is_view=False
    )


def close_points(n: int, step: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose products with a question, the first of the result, fall in steps."""
    rng = np.random.default_rng(seed)
    question = normalise(rng.normal(size=(1, DIM)))[0]
    away = rng.normal(size=(n, DIM))
    away = normalise(away - np.outer(away @ question, question))
    cosine = 0.95 - step * np.arange(n)[:, None]
    return question, (cosine * question + np.sqrt(1 - cosine**2) * away).astype(np.float32)


def test_an_error_within_the_bound_changes_no_leg(searches, scans) -> None:
    question, points = close_points(4_000, 1e-5)
    plan, exact = Plan(None, 4_000), hand_made(points)
    wanted = search_dense(question, exact, plan, 20)
    hidden = wanted.rows[[17, 19]].tolist()
    snap = hand_made(points, device=Gpu(lambda d: Blurred(hidden)))
    found, _ = snap.vectors.blocks[0].flat.search(question[None, :], 40)
    assert not set(found[0].tolist()) & set(hidden)  # twice the rows are not enough
    searches.clear()
    scans.clear()
    assert in_bytes(search_dense(question, snap, plan, 20)) == in_bytes(wanted)
    assert (searches, scans) == ([(1, 40), (1, MOST)], [])


def test_the_bound_grows_with_vectors_and_question() -> None:
    question, points = close_points(3_000, 1e-4)
    index = build_flat(Gpu(STAND_INS["single precision"]), *quantise_vectors(np.concatenate([points, 3 * points[:9]])))
    assert index.longest == pytest.approx(3, rel=0.01)
    assert index.bound_error(2 * question) == pytest.approx(2 * index.longest * PRECISION)
    exact = points @ question
    half = points.astype(np.float16).astype(np.float32) @ question.astype(np.float16).astype(np.float32)
    assert 0 < np.abs(half - exact).max() < PRECISION / 2


def test_more_ties_than_the_gpu_returns_are_scanned(gpu: Gpu, searches, scans) -> None:
    points = np.repeat(close_points(2, 0.1)[1], [5, 4_000], axis=0)
    snap, exact = hand_made(points, device=gpu), hand_made(points)
    question = points[0]
    wanted = search_dense(question, exact, Plan(None, len(points)), 20)
    scans.clear()
    leg = search_dense(question, snap, Plan(None, len(points)), 20)
    assert in_bytes(leg) == in_bytes(wanted)
    assert leg.rows.tolist() == [*range(4, -1, -1), *range(4_004, 3_989, -1)]
    assert ([k for _, k in searches], scans) == ([40, MOST], [4_005])


def test_float16_vectors_score_the_same_rows(gpu: Gpu, searches, scans) -> None:
    question, points = close_points(4_000, 2e-4)
    half = points.astype(np.float16)
    snap, exact = hand_made(points, half, gpu), hand_made(points, half)
    allowed = np.arange(4_000) % 3 > 0
    for plan in (Plan(None, 4_000), Plan(allowed, int(allowed.sum()))):
        wanted = search_dense(question, exact, plan, 20)
        scans.clear()
        assert in_bytes(search_dense(question, snap, plan, 20)) == in_bytes(wanted)
        assert scans == []
    assert [k for _, k in searches] == [160, 241]  # four times as many rows are scored again, of each twice


def test_an_empty_filter_and_an_empty_store_give_empty_legs(tmp_path: Path, gpu: Gpu) -> None:
    points = close_points(3_000, 1e-4)[1]
    nothing = Plan(np.zeros(3_000, bool), 0)
    (leg,) = search_dense_batch(points[:1], hand_made(points, device=gpu), [nothing], 10)
    assert len(leg.rows) == len(leg.scores) == 0
    (tmp_path / "s" / "inbox").mkdir(parents=True)
    snap = Snapshot.open(tmp_path / "s", gpu=gpu)
    assert len(search_dense(points[0], snap, Plan(None, 0), 10).rows) == 0


def test_a_new_generation_copies_new_segments_only(world) -> None:
    device = Gpu(STAND_INS["half precision"])
    first = Snapshot.open(world[0], gpu=device)
    again = Snapshot.open(world[0], before=first, gpu=device)
    assert [again.files.flat[name] is one for name, one in first.files.flat.items()] == [True] * 3
    other = Snapshot.open(world[0], before=first, gpu=Gpu(STAND_INS["half precision"]))
    assert not any(other.files.flat[name] is one for name, one in first.files.flat.items())
    assert Snapshot.open(world[0], before=first).files.flat == {}


def test_a_recall_and_a_refresh_use_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searches) -> None:
    question, points = close_points(3_000, 2e-4)
    make_store(tmp_path / "s", [f"note {i}" for i in range(3_000)], points)
    monkeypatch.setattr(flat, "open_gpu", lambda: Gpu(STAND_INS["half precision"]))
    found = {}
    for name in ("cpu", "gpu"):
        memory = Memory(tmp_path / "s", replace(SETTINGS, dense=name, answers=0))
        add_encoder(memory.snapshot, lambda text: question)
        found[name] = replace(memory.recall("a note?", now="2024-01-01"), ms={})
        monkeypatch.setattr(memory, "stale", lambda: True)
        assert memory.refresh()
        assert bool(memory.snapshot.files.flat) == (name == "gpu")
    assert found["gpu"] == found["cpu"]
    assert len(found["gpu"].items) == 10
    assert searches


# ---------------------------------------------------------------- refusals


def no_memory(*_: object) -> Any:
    raise RuntimeError("Error in virtual void *faiss::gpu::StandardGpuResourcesImpl::allocMemory: out of memory\nmore")


class NoMemory:
    def add(self, rows: np.ndarray) -> None:
        no_memory()

    search = no_memory


def missing_library() -> Any:
    raise RuntimeError("faiss-gpu is installed but libcublas is missing")


WITH_GPUS = {"__version__": "1.15", "GpuIndexFlatIP": object, "GpuIndexFlatConfig": SimpleNamespace}
REFUSALS: list[tuple[Callable[[], Any], str]] = [
    (lambda: SimpleNamespace(__version__="1.15"), "FAISS 1.15 was built without GPUs; replace it (pip uninstall"),
    (lambda: SimpleNamespace(**WITH_GPUS, get_num_gpus=lambda: 0), "FAISS finds no GPU; see that nvidia-smi"),
    (lambda: SimpleNamespace(**WITH_GPUS, get_num_gpus=no_memory), "FAISS cannot use the GPU: Error in"),
    (
        lambda: SimpleNamespace(**WITH_GPUS, get_num_gpus=lambda: 1, StandardGpuResources=no_memory),
        "FAISS cannot use the GPU: Error in",
    ),
    (missing_library, "FAISS cannot use the GPU: faiss-gpu is installed but libcublas is missing; check the driver"),
]  # fmt: skip


def test_a_gpu_that_cannot_be_used_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for load, message in REFUSALS:
        monkeypatch.setattr(flat, "load_faiss", load)
        with pytest.raises(UsageError) as refused:
            open_processor("gpu")
        assert message in str(refused.value)
        assert str(refused.value).startswith("HELIX_DENSE=gpu: ")
        assert str(refused.value).endswith("or set HELIX_DENSE=cpu")
    assert open_processor("cpu") is None
    with pytest.raises(UsageError, match="HELIX_DENSE='tpu' is no processor; there are cpu and gpu"):
        open_processor("tpu")


def test_a_working_gpu_is_opened_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    fake = {**WITH_GPUS, "GpuIndexFlatIP": lambda *given: made.append(given) or "index", "get_num_gpus": lambda: 1}
    monkeypatch.setattr(flat, "load_faiss", lambda: SimpleNamespace(**fake, StandardGpuResources=lambda: "resources"))
    assert open_gpu().make_index(384) == "index"
    ((resources, d, config),) = made
    assert (resources, d, config.useFloat16) == ("resources", 384, True)


def test_a_full_or_failing_gpu_is_an_error_and_no_silent_scan() -> None:
    codes, scale = quantise_vectors(close_points(3_000, 1e-4)[1])
    with pytest.raises(UsageError, match=r"3000 vectors do not fit the GPU \(0\.0 GB\): .*out of memory; end other"):
        build_flat(Gpu(lambda d: NoMemory()), codes, scale)
    block = VectorBlock(0, codes, scale, None, None, FlatIndex(NoMemory(), Gpu(lambda d: None), 1.0))
    files, columns = SimpleNamespace(engine=None), SimpleNamespace(key=np.arange(3_000))
    snap = SimpleNamespace(files=files, vectors=SimpleNamespace(blocks=[block]), columns=columns)
    with pytest.raises(StoreError, match=r"the GPU failed: .*out of memory; restart this process"):
        search_dense(np.ones(DIM, np.float32), snap, Plan(None, 3_000), 20)  # type: ignore[arg-type]


def test_the_command_refuses_a_gpu_that_is_not_there(sample_store: Path, run_helix) -> None:
    reason = find_fault()
    if not reason:
        pytest.skip("there is a GPU")
    done = run_helix("recall", "why", "--store", sample_store, HELIX_DENSE="gpu")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"helix recall: {reason}\n")


def test_the_cpu_imports_no_faiss_for_it(world) -> None:
    code = (
        "import sys, helix, json\n"
        f"memory = helix.open({str(world[0])!r})\n"
        "print(json.dumps([name for name in ('faiss', 'cuvs') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
