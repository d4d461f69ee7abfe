"""The recall benchmark asks what it says it asks, and its figures follow from what is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from pipelines.bench import against, phase, questions, recall, speed, store
from pipelines.bench.commands import bench
from pipelines.bench.peers import Corpus, Peer

ITEMS = 2_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    root = tmp_path_factory.mktemp("recall") / "store"
    store.build(root, ITEMS, 7, load(), lambda _: None, real=300)
    return root


@pytest.fixture(scope="module")
def posed(built: Path) -> list[recall.Posed]:
    memory, profile = helix.open(built), load_profile("helix")
    return [recall.pose(memory, ask, profile) for ask in questions.draw(built, 7, 27)]


# ---------------------------------------------------------------- questions


def test_questions_are_of_every_kind_and_the_same_again(built: Path) -> None:
    asks = questions.draw(built, 7, 30)
    assert [ask["kind"] for ask in asks] == sorted((ask["kind"] for ask in asks), key=questions.KINDS.index)
    assert {ask["kind"] for ask in asks} == set(questions.KINDS)
    assert asks == questions.draw(built, 7, 30)
    assert asks != questions.draw(built, 8, 30)
    assert json.loads(json.dumps(asks)) == asks  # they are sent to other processes


def test_questions_find_what_they_are_made_of(built: Path) -> None:
    memory = helix.open(built)
    asks = [ask for ask in questions.draw(built, 7, 90) if ask["kind"] in (*questions.OPEN, "window", "acl")]
    found = [
        ask["item"] in {item.id for item in memory.recall(ask["query"], k=30, **ask["with"]).items} for ask in asks
    ]
    assert np.mean(found) > 0.6


def test_filters_leave_the_share_they_promise(built: Path) -> None:
    memory = helix.open(built)
    asks = questions.draw(built, 7, 90)
    for ask in asks:
        given = ask["with"]
        shown = memory.recall(ask["query"], **given).items
        if "project" in given:
            assert {item.project for item in shown} <= {given["project"]}
        if "type" in given:
            assert {item.type for item in shown} == {given["type"]}
        if "since" in given:
            assert all(given["since"][:10] <= str(item.time)[:10] <= given["until"][:10] for item in shown)
    sizes = questions.project_sizes(built)
    named = {kind: {ask["with"]["project"] for ask in asks if ask["kind"] == kind} for kind in questions.FILTERED[:2]}
    shares = {kind: np.mean([sizes[name] for name in names]) / sizes.total() for kind, names in named.items()}
    assert shares["project 0.01 %"] < shares["project 1 %"] < 0.03
    assert all(ask["with"]["principal"] != "nobody" for ask in asks if ask["kind"] == "acl")


# ---------------------------------------------------------------- exactness


def test_exact_scores_are_those_of_every_row(posed: list[recall.Posed]) -> None:
    for one, least in zip(posed, recall.exact_dense(posed, 10), strict=True):
        scores = one.snap.vectors.dequantise(np.arange(one.snap.rows)) @ one.vector
        if one.plan.allowed is not None:
            scores[~one.plan.allowed] = -np.inf
        assert least == pytest.approx(np.sort(scores)[-10], abs=1e-4)


def test_a_leg_that_misses_rows_is_found_out(posed: list[recall.Posed], monkeypatch: pytest.MonkeyPatch) -> None:
    profile = load_profile("helix")
    least = recall.exact_dense(posed, recall.K)
    wide = [i for i, one in enumerate(posed) if one.plan.allowed_rows > 1_000]
    shares = [recall.dense_share(posed[i], least[i]) for i in wide]
    assert min(shares) > 0.98  # a store so small is scanned
    assert [recall.lexical_share(posed[i], profile) for i in wide] == [1.0] * len(wide)

    def worse(found: Leg) -> Leg:
        """Half of the best rows left out, in favour of row 0."""
        return replace(found, rows=np.where(np.arange(len(found.rows)) % 2, 0, found.rows).astype(np.uint32))

    search_dense, search_lexical = recall.search_dense, recall.search_lexical
    monkeypatch.setattr(recall, "search_dense", lambda *given: worse(search_dense(*given)))
    monkeypatch.setattr(recall, "search_lexical", lambda *given: worse(search_lexical(*given)))
    assert max(recall.dense_share(posed[i], least[i]) for i in wide) < 0.6
    assert np.mean([recall.lexical_share(posed[i], profile) for i in wide]) < 0.7


# ---------------------------------------------------------------- peers


class Scan:
    """A peer that looks at everything, and at no words; with little effort, at every second item alone."""

    def __init__(self, folder: Path) -> None:
        self.vectors = np.load(folder / "vectors.npy")
        self.project = np.load(folder / "project.npy")
        self.asked: list[str | None] = []
        self.step = 1

    def hybrid(self, vector: np.ndarray, text: str, k: int, project: str | None = None) -> list[int]:
        self.asked.append(project)
        return self.dense(vector, k)

    def dense(self, vector: np.ndarray, k: int) -> list[int]:
        rows = np.arange(0, len(self.vectors), self.step)
        return [int(row) for row in rows[np.argsort(-(self.vectors[rows] @ vector))[:k]]]

    def set_effort(self, effort: int) -> None:
        self.step = 2 // effort

    def close(self) -> None:
        assert {project is None for project in self.asked} == {True, False}


def test_a_peer_gets_the_same_items_and_questions(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = helix.open(built)

    def index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
        assert corpus.n == ITEMS
        shown = memory.snapshot.text(np.array([0, 7, ITEMS - 1]))
        for row, entry in zip((0, 7, ITEMS - 1), shown, strict=True):
            assert corpus.texts(row, row + 1)[0].endswith(entry["text"])
            assert corpus.project(row, row + 1) == [entry["project"]]
        np.save(folder / "vectors.npy", corpus.vectors(0, corpus.n))
        np.save(folder / "project.npy", np.array(corpus.project(0, corpus.n)))

    peer = Peer("scan", ("numpy",), "everything", "nothing", "all else", "half or all", (1, 2), index, Scan)
    monkeypatch.setitem(against.PEERS, "scan", lambda: peer)
    asks = [ask for ask in questions.draw(built, 7, 27) if ask["kind"] in ("natural", "project 1 %")]
    ready = against.prepare("scan", str(built), str(tmp_path / "scan"), asks)
    assert ready.told["dense_recall_at_100"] == 1.0
    assert ready.told["effort"] == 2  # with half of the items it finds half of the nearest
    assert ready.told["items"] == ITEMS
    assert ready.told["lacks"] == "all else"
    spent = against.turn(ready)
    assert {kind: len(ms) for kind, ms in spent.items()} == {
        "open": sum(ask["kind"] == "natural" for ask in asks),
        "project": sum(ask["kind"] == "project 1 %" for ask in asks),
    }
    assert min(spent["open"]) > 0
    ready.searcher.close()

    @contextmanager
    def here() -> Iterator[tuple[Callable[[dict[str, Any]], Any], dict[str, float]]]:
        yield lambda request: phase.STEPS[request.pop("do")](**request), {"anonymous": 1.0}

    monkeypatch.setattr(against, "process", here)
    monkeypatch.setenv("HELIX_ANSWERS", "0")  # as in processes of the benchmark
    settings = Settings(cache=str(tmp_path))
    little = against.measure(built, asks, ["scan"], 0.2, settings, lambda _: None)["scan"]
    assert little["effort"] == 1
    assert little["dense_recall_at_100"] >= 0.2
    found = against.measure(built, asks, ["scan"], 0.99, settings, lambda _: None)["scan"]
    assert 0 < found["p50"] <= found["p95"]
    assert found["project"]["p50"] > 0
    assert found["helix"]["p95"] > found["helix"]["p50"] > 0
    assert found["ratio"] == pytest.approx(found["helix"]["p95"] / found["p95"], abs=0.001)
    assert found["dense_recall_at_100"] == 1.0


def test_between_the_rounds_comes_what_else_is_measured(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    @contextmanager
    def here(**_: str) -> Iterator[tuple[Callable[[dict[str, Any]], Any], dict[str, float]]]:
        def ask(request: dict[str, Any]) -> Any:
            happened.append(request["do"])
            found = {"ms": {"total": 1.0}, "answered": True}
            return {"recalls": [found for _ in request["asks"]]} if request["do"] == "recall" else {}

        yield ask, {}

    monkeypatch.setattr(recall, "process", here)
    asks = questions.draw(built, 7, 9)
    steps = [lambda name=name: happened.append(name) or {name: 1} for name in "abc"]
    one = ["recall", "recall"]  # to warm up, and the round
    for rounds, wanted in (
        (2, [*one, "a", *one, "b", "memory", "c"]),
        (4, [*one, "a", *one, "b", *one, "c", *one, "memory"]),
    ):
        happened.clear()
        found = recall._one_client(built, asks, rounds, steps)
        assert happened == ["open", "memory", "recall", *wanted]
        assert found["a"] == found["b"] == found["c"] == 1
        assert found["total"]["p50"] == 1.0


# ---------------------------------------------------------------- the report


@pytest.fixture(scope="module")
def report(built: Path) -> store.Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "CLIENTS", (1, 3))
        patch.setattr(recall, "_BY_CLIENTS", 12)
        patch.setattr(recall, "_OPENED", 1)
        patch.setattr(recall, "_BANDWIDTH", 1 << 22)
        return recall.measure(built, load(), lambda _: None, n=18, rounds=2)


def test_the_report_is_what_is_promised(report: store.Report) -> None:
    assert report["items"] == ITEMS
    for one in (report["total"], *report["stages"].values(), *report["kinds"].values(), *report["clients"].values()):
        assert 0 < one["p50"] <= one["p95"] <= one["p99"]
    assert {"embed", "graph", "rank", "pack"} <= set(report["stages"])
    assert sum(one["p50"] for one in report["stages"].values()) < 2 * report["total"]["p95"]
    assert set(report["kinds"]) == set(questions.KINDS)
    assert set(report["recall_at_100"]) == {"dense", "bm25"}
    assert min(report["recall_at_100"].values()) > 0.98
    assert set(report["clients"]) == set(report["threads"]) == {"1", "3"}
    assert all(one["qps"] > 0 for one in report["clients"].values())
    assert report["peers"] == {}
    least = report["limit"]
    assert least["least"] >= least["onnx"] > 0
    assert least["ratio"] == pytest.approx(least["total"] / least["least"], rel=0.05)
    assert report["allowed_rows"]["project 1 %"] < 0.1 * report["allowed_rows"]["natural"]
    assert report["build"]["items_per_second"] > 0
    json.dumps(report)


def test_a_kind_that_is_slower_shows(report: store.Report) -> None:
    asks = [{"kind": "natural"}, {"kind": "type"}]
    times = [(0, {"dense": 1.0, "lexical": 0.5, "total": 2.0})] * 10 + [
        (1, {"dense": 5.0, "lexical": 1.0, "total": 8.0})
    ] * 10
    found = recall._latencies(asks, times)
    assert found["unfiltered"]["p50"] == 2
    assert found["filtered"]["p95"] == 8
    assert found["kinds"]["type"]["ratio"] == {"p50": 4, "p95": 4}
    assert found["legs"]["p99"] == 5
    assert found["outside"]["p99"] == 1  # of questions without a filter
    assert found["total"]["p99"] == 8


def test_what_is_kept_is_written_without_measuring(
    report: store.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    told = json.loads(capsys.readouterr().out)
    assert told["items"] == 10 * ITEMS  # the targets are for a million items at most
    assert told["growth"][str(huge)]["p95"] == slower["p95"]
    assert speed.joined(speed.kept(keep), [huge])["items"] == huge  # what was measured just now is told of
    assert told["growth"][str(10 * ITEMS)]["ratio"] == pytest.approx(2, abs=0.02)
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


def test_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
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
