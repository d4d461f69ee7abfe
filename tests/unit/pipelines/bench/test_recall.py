"""Questions of the recall benchmark, exact search, peers, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helix
from helix.errors import StoreError, UsageError
from helix.recipes.load_profile import load as load_profile
from helix.settings import Settings, load
from helix.types import Leg
from pipelines.bench import exact, peer_comparison, phase, recall, speed
from pipelines.bench.commands import bench
from pipelines.bench.exact import K, PosedQuestion, pose_question
from pipelines.bench.peers.base import Corpus, Peer
from pipelines.bench.peers.registry import PEERS
from pipelines.bench.process import Report
from pipelines.bench.questions import FILTERED, KINDS, OPEN, count_project_items, draw_questions
from tests.unit.pipelines.bench.conftest import ITEMS


@pytest.fixture(scope="module")
def questions(synthetic_store: Path) -> list[PosedQuestion]:
    memory, profile = helix.open(synthetic_store), load_profile("helix")
    return [pose_question(memory, ask, profile) for ask in draw_questions(synthetic_store, 7, 27)]


def test_questions_are_of_every_kind_and_the_same_again(synthetic_store: Path) -> None:
    asks = draw_questions(synthetic_store, 7, 30)
    assert [ask["kind"] for ask in asks] == sorted((ask["kind"] for ask in asks), key=KINDS.index)
    assert ({ask["kind"] for ask in asks}, asks) == (set(KINDS), draw_questions(synthetic_store, 7, 30))
    assert asks != draw_questions(synthetic_store, 8, 30)
    assert json.loads(json.dumps(asks)) == asks  # they are sent to other processes


def test_questions_find_their_source_items(synthetic_store: Path) -> None:
    memory = helix.open(synthetic_store)
    asks = [ask for ask in draw_questions(synthetic_store, 7, 90) if ask["kind"] in (*OPEN, "window", "acl")]
    found = [
        ask["item"] in {item.id for item in memory.recall(ask["query"], k=30, **ask["with"]).items} for ask in asks
    ]
    assert np.mean(found) > 0.6


def test_filters_leave_their_share(synthetic_store: Path) -> None:
    memory = helix.open(synthetic_store)
    asks = draw_questions(synthetic_store, 7, 90)
    for ask in asks:
        given = ask["with"]
        items = memory.recall(ask["query"], **given).items
        if "project" in given:
            assert {item.project for item in items} <= {given["project"]}
        if "type" in given:
            assert {item.type for item in items} == {given["type"]}
        if "since" in given:
            assert all(given["since"][:10] <= str(item.time)[:10] <= given["until"][:10] for item in items)
    sizes = count_project_items(synthetic_store)
    named = {kind: {ask["with"]["project"] for ask in asks if ask["kind"] == kind} for kind in FILTERED[:2]}
    shares = {kind: np.mean([sizes[name] for name in names]) / sizes.total() for kind, names in named.items()}
    assert shares["project 0.01 %"] < shares["project 1 %"] < 0.03
    assert all(ask["with"]["principal"] != "nobody" for ask in asks if ask["kind"] == "acl")


def test_exact_scores_are_those_of_every_row(questions: list[PosedQuestion]) -> None:
    for one, least in zip(questions, exact.find_least_scores(questions, 10), strict=True):
        scores = one.snap.vectors.dequantise(np.arange(one.snap.rows)) @ one.vector
        if one.plan.allowed is not None:
            scores[~one.plan.allowed] = -np.inf
        assert least == pytest.approx(np.sort(scores)[-10], abs=1e-4)


def test_a_leg_that_misses_rows_is_detected(questions: list[PosedQuestion], monkeypatch: pytest.MonkeyPatch) -> None:
    profile = load_profile("helix")
    least = exact.find_least_scores(questions, K)
    wide = [i for i, one in enumerate(questions) if one.plan.allowed_rows > 1_000]
    shares = [exact.measure_dense(questions[i], least[i]) for i in wide]
    assert min(shares) > 0.98  # a store so small is scanned
    assert [exact.measure_lexical(questions[i], profile) for i in wide] == [1.0] * len(wide)

    def spoil(leg: Leg) -> Leg:
        """Replace half of the best rows by row 0."""
        return replace(leg, rows=np.where(np.arange(len(leg.rows)) % 2, 0, leg.rows).astype(np.uint32))

    search_dense, search_lexical = exact.search_dense, exact.search_lexical
    monkeypatch.setattr(exact, "search_dense", lambda *given: spoil(search_dense(*given)))
    monkeypatch.setattr(exact, "search_lexical", lambda *given: spoil(search_lexical(*given)))
    assert max(exact.measure_dense(questions[i], least[i]) for i in wide) < 0.6
    assert np.mean([exact.measure_lexical(questions[i], profile) for i in wide]) < 0.7


class Scan:
    """A peer with exact dense search; with the lower effort it searches every second item."""

    def __init__(self, folder: Path) -> None:
        self.vectors = np.load(folder / "vectors.npy")
        self.project = np.load(folder / "project.npy")
        self.projects: list[str | None] = []
        self.step = 1

    def hybrid(self, vector: np.ndarray, text: str, k: int, project: str | None = None) -> list[int]:
        self.projects.append(project)
        return self.dense(vector, k)

    def dense(self, vector: np.ndarray, k: int) -> list[int]:
        rows = np.arange(0, len(self.vectors), self.step)
        return [int(row) for row in rows[np.argsort(-(self.vectors[rows] @ vector))[:k]]]

    def set_effort(self, effort: int) -> None:
        self.step = 2 // effort

    def close(self) -> None:
        assert {project is None for project in self.projects} == {True, False}


def test_a_peer_gets_the_same_items_and_questions(
    synthetic_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = helix.open(synthetic_store)

    def index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
        assert corpus.n == ITEMS
        entries = memory.snapshot.text(np.array([0, 7, ITEMS - 1]))
        for row, entry in zip((0, 7, ITEMS - 1), entries, strict=True):
            assert corpus.texts(row, row + 1)[0].endswith(entry["text"])
            assert corpus.project(row, row + 1) == [entry["project"]]
        np.save(folder / "vectors.npy", corpus.vectors(0, corpus.n))
        np.save(folder / "project.npy", np.array(corpus.project(0, corpus.n)))

    peer = Peer("scan", ("numpy",), "everything", "nothing", "all else", "half or all", (1, 2), index, Scan)
    monkeypatch.setitem(PEERS, "scan", lambda: peer)
    asks = [ask for ask in draw_questions(synthetic_store, 7, 27) if ask["kind"] in ("natural", "project 1 %")]
    ready = peer_comparison.prepare_peer("scan", str(synthetic_store), str(tmp_path / "scan"), asks)
    assert ready.description["dense_recall_at_100"] == 1.0
    assert ready.description["effort"] == 2  # half of the items have half of the nearest
    assert (ready.description["items"], ready.description["lacks"]) == (ITEMS, "all else")
    spent = peer_comparison.ask_peer(ready)
    assert {kind: len(ms) for kind, ms in spent.items()} == {
        "open": sum(ask["kind"] == "natural" for ask in asks),
        "project": sum(ask["kind"] == "project 1 %" for ask in asks),
    }
    assert min(spent["open"]) > 0
    ready.searcher.close()

    def send(request: dict[str, Any]) -> Any:
        return phase.STEPS[request.pop("do")](**request)

    @contextmanager
    def start_reader(root: Path, ask: dict[str, Any]) -> Iterator[Callable[[dict[str, Any]], Any]]:
        send({"do": "open", "root": str(root), "ask": ask})
        yield send

    monkeypatch.setattr(peer_comparison, "start_process", lambda: nullcontext((send, {"anonymous": 1.0})))
    monkeypatch.setattr(peer_comparison, "start_reader", start_reader)
    monkeypatch.setenv("HELIX_ANSWERS", "0")  # as in processes of the benchmark

    def measure(wanted: float) -> dict[str, Any]:
        settings = Settings(cache=str(tmp_path))
        return peer_comparison.measure_peers(synthetic_store, asks, ["scan"], wanted, settings, lambda _: None)["scan"]

    little = measure(0.2)
    assert little["effort"] == 1
    assert little["dense_recall_at_100"] >= 0.2
    report = measure(0.99)
    assert 0 < report["p50"] <= report["p95"]
    assert report["project"]["p50"] > 0
    assert report["helix"]["p95"] > report["helix"]["p50"] > 0
    assert report["ratio"] == pytest.approx(report["helix"]["p95"] / report["p95"], abs=0.001)
    assert report["dense_recall_at_100"] == 1.0


def test_other_measurements_come_between_the_rounds(synthetic_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @contextmanager
    def start_reader(*_: Any) -> Iterator[Callable[[dict[str, Any]], Any]]:
        def send(request: dict[str, Any]) -> Any:
            events.append(request["do"])
            one = {"ms": {"total": 1.0}, "answered": True}
            return {"recalls": [one for _ in request["asks"]]} if request["do"] == "recall" else {}

        yield send

    monkeypatch.setattr(recall, "start_reader", start_reader)
    asks = draw_questions(synthetic_store, 7, 9)
    steps = [lambda name=name: events.append(name) or {name: 1} for name in "abc"]
    one = ["recall", "recall"]  # the warm-up and the round
    for rounds, wanted in (
        (2, [*one, "a", *one, "b", "memory", "c"]),
        (4, [*one, "a", *one, "b", *one, "c", *one, "memory"]),
    ):
        events.clear()
        report = recall._measure_one_client(synthetic_store, asks, rounds, steps)
        assert events == ["memory", "recall", *wanted]
        assert report["a"] == report["b"] == report["c"] == 1
        assert report["total"]["p50"] == 1.0


@pytest.fixture(scope="module")
def report(synthetic_store: Path) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "CLIENTS", (1, 3))
        patch.setattr(recall, "_ASKED", 12)
        patch.setattr(recall, "_OPENED", 1)
        patch.setattr(exact, "_BANDWIDTH", 1 << 22)
        return recall.measure(synthetic_store, load(), lambda _: None, n=18, rounds=2)


def test_the_report_is_complete_and_consistent(report: Report) -> None:
    assert report["items"] == ITEMS
    for one in (report["total"], *report["stages"].values(), *report["kinds"].values(), *report["clients"].values()):
        assert 0 <= one["p50"] <= one["p95"] <= one["p99"]
    assert {"embed", "graph", "rank", "pack"} <= set(report["stages"])
    assert sum(one["p50"] for one in report["stages"].values()) < 2 * report["total"]["p95"]
    assert (set(report["kinds"]), set(report["recall_at_100"])) == (set(KINDS), {"dense", "bm25"})
    assert min(report["recall_at_100"].values()) > 0.98
    assert set(report["clients"]) == set(report["threads"]) == {"1", "3"}
    assert all(one["qps"] > 0 for one in report["clients"].values())
    assert report["peers"] == {}
    times = report["limit"]
    assert times["least"] >= times["onnx"] > 0
    assert times["ratio"] == pytest.approx(times["total"] / times["least"], rel=0.05)
    assert report["allowed_rows"]["project 1 %"] < 0.1 * report["allowed_rows"]["natural"]
    assert report["build"]["items_per_second"] > 0
    json.dumps(report)


def test_a_slower_kind_shows() -> None:
    asks = [{"kind": "natural"}, {"kind": "type"}]
    times = [(0, {"dense": 1.0, "lexical": 0.5, "total": 2.0})] * 10 + [
        (1, {"dense": 5.0, "lexical": 1.0, "total": 8.0})
    ] * 10
    summary = recall._summarise_times(asks, times)
    assert (summary["unfiltered"]["p50"], summary["filtered"]["p95"]) == (2, 8)
    assert (summary["kinds"]["type"]["ratio"], summary["legs"]["p99"]) == ({"p50": 4, "p95": 4}, 5)
    assert summary["outside"]["p99"] == 1  # of questions without a filter
    assert summary["total"]["p99"] == 8


def test_retained_figures_are_written_without_measuring(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the plots need it: pip install 'helix-recall[report]'")
    monkeypatch.setattr(speed, "measure", None)
    keep, out = tmp_path / "keep", tmp_path / "speed.md"
    keep.mkdir()
    slower = {name: 2 * value for name, value in report["total"].items()}
    huge = 20_000_000
    for one in (report, {**report, "items": 10 * ITEMS, "total": slower}, {**report, "items": huge, "total": slower}):
        (keep / f"recall-{one['items']}.json").write_text(json.dumps(one))
    assert bench(["recall", "--keep", str(keep), "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["items"] == 10 * ITEMS  # the targets are for a million items at most
    assert printed["growth"][str(huge)]["p95"] == slower["p95"]
    assert speed.join_reports(speed.load_reports(keep), [huge])["items"] == huge  # the size just measured
    assert printed["growth"][str(10 * ITEMS)]["ratio"] == pytest.approx(2, abs=0.02)
    page = out.read_text()
    for image in ("stages", "growth", "effort", "clients"):
        assert f"(speed/{image}.svg)" in page
        assert (tmp_path / "speed" / f"{image}.svg").stat().st_size > 5_000
    assert "## Stages, at 20,000 items" in page
    assert "| whole recall of 20,000,000 items, p95 | ≤ 45 |" in page
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert bench(["recall", "--keep", str(keep), "--out", str(out)]) == 0
    assert {path: path.read_bytes() for path in before} == before  # to the byte
    assert "whole recall" in capsys.readouterr().out


def test_wrong_use_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing was measured"):
        bench(["recall", "--keep", str(tmp_path), "--out", str(tmp_path / "speed.md")])
    with pytest.raises(UsageError, match="--out needs --keep"):
        bench(["recall", "--out", str(tmp_path / "speed.md")])
    with pytest.raises(UsageError, match="no number of items"):
        bench(["recall", "--items", "many"])
    with pytest.raises(UsageError, match="--items are several"):
        bench(["recall", "--items", "10,20", "--store", str(tmp_path / "store")])
    with pytest.raises(UsageError, match="no peer 'oracle'"):
        bench(["recall", "--items", "10", "--peers", "oracle"])
