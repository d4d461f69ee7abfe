"""Peers of the recall bench on a tiny corpus. Peers of the extra `bench` are skipped without it.

pip install -c constraints.txt -e '.[bench]', then pytest tests/unit/pipelines/bench/test_peers.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.errors import UsageError
from helix.types import F32, I64
from pipelines.bench.peers.base import DIM, Corpus, Peer, Searcher, Tuning, tune
from pipelines.bench.peers.registry import PEERS, load_peer

N, K = 300, 10
SYLLABLES = ("ba", "ko", "ri", "mu", "te", "zo", "fla", "gri", "nu", "pe")
WEIRD = (
    "", " ", "the of and", '"unclosed', "a AND (b OR NOT c",
    "NEAR(x y, 2) ^col: -minus +plus ~tilde {brace} [bracket]", "*", "zo*", "it's 100 % 'quoted'; drop table items --",
    "\\ back /slash\\", "日本語 テスト", "naïve Ωmega 🙂", "\x00nul", "select id from txtai where similar('x')",
    "word " * 500,
)  # fmt: skip


def make_corpus(n: int = N, seed: int = 1) -> Corpus:
    """Clusters of vectors; made-up texts, each with a unique word such as `item7x`; three projects."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(12, DIM))
    points = centres[rng.integers(0, 12, n)] + 1.2 * rng.normal(size=(n, DIM))
    vectors = np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), np.float32)
    words = ["".join(rng.choice(SYLLABLES, 3)) for _ in range(80)]
    texts = [f"The {' '.join(rng.choice(words, 8))} and item{i}x." for i in range(n)]
    projects = [("alpha", "beta", "o'hara")[i % 3] for i in range(n)]
    return Corpus(n, lambda a, b: vectors[a:b], lambda a, b: texts[a:b], lambda a, b: projects[a:b])


def find_nearest(vectors: F32, questions: F32, k: int) -> I64:
    return np.argsort(-(questions @ vectors.T), axis=1, kind="stable")[:, :k]


def say_nothing(_: str) -> None:
    pass


@pytest.fixture(scope="module", params=sorted(PEERS))
def peer(request: pytest.FixtureRequest) -> Peer:
    try:
        return load_peer(request.param)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(peer.name)
    peer.build(make_corpus(), folder, say_nothing)
    return folder


@pytest.fixture(scope="module")
def searcher(peer: Peer, folder: Path) -> Iterator[Searcher]:
    searcher, vectors = peer.open(folder), make_corpus().vectors(0, N)
    tune(searcher, peer.efforts, vectors[:5], find_nearest(vectors, vectors[:5], K))
    yield searcher
    searcher.close()


def test_an_item_is_found_by_its_vector_and_text(peer: Peer, searcher: Searcher) -> None:
    items = make_corpus()
    for row in (0, 7, 123, N - 1):
        found = searcher.hybrid(items.vectors(row, row + 1)[0], items.texts(row, row + 1)[0], K)
        assert found[0] == row
        assert len(set(found)) == len(found) == K
        assert all(type(i) is int and 0 <= i < N for i in found)


def test_both_legs_count(peer: Peer, searcher: Searcher) -> None:
    """The vector of one item and the words of another find both, unless the peer has no lexical leg."""
    vector, text = make_corpus().vectors(5, 6)[0], make_corpus().texts(200, 201)[0]
    assert 200 not in searcher.dense(vector, K)
    found = searcher.hybrid(vector, text, K)
    assert 5 in found
    assert (200 in found) == peer.hybrid


def test_a_project_filters(peer: Peer, searcher: Searcher) -> None:
    items = make_corpus()
    vector, text = items.vectors(4, 5)[0], items.texts(4, 5)[0]  # of project beta
    if not peer.filters:
        with pytest.raises(UsageError, match=peer.name):
            searcher.hybrid(vector, text, K, "beta")
        return
    for name, remainder in (("alpha", 0), ("beta", 1), ("o'hara", 2)):
        found = searcher.hybrid(vector, text, K, name)
        assert (len(found), {i % 3 for i in found}, 4 in found) == (K, {remainder}, name == "beta")
    assert searcher.hybrid(vector, text, K, "nobody's") == []


def test_dense_recall_after_tuning(peer: Peer, searcher: Searcher) -> None:
    items = make_corpus().vectors(0, N)
    noise = np.random.default_rng(2).normal(size=(20, DIM)) / DIM**0.5
    asked = items[:20] + 0.5 * noise
    questions = np.asarray(asked / np.linalg.norm(asked, axis=1, keepdims=True), np.float32)
    tuned = tune(searcher, peer.efforts, questions, find_nearest(items, questions, K))
    assert tuned.effort in peer.efforts
    assert tuned.recall >= 0.95
    assert searcher.dense(items[9], K)[0] == 9


def test_effort_matters(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors without clusters, too many for an exact scan: a low effort finds fewer."""
    if len(peer.efforts) == 1:
        pytest.skip(f"{peer.name} searches exactly")
    if peer.name == "lancedb":
        monkeypatch.setattr("pipelines.bench.peers.lancedb._INDEXED", 1)
    found = np.random.default_rng(3).normal(size=(6_000, DIM))
    vectors = np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)
    texts = [f"item{i}x" for i in range(len(vectors))]
    items = Corpus(len(vectors), lambda a, b: vectors[a:b], lambda a, b: texts[a:b], lambda a, b: ["p"] * (b - a))
    asked = np.asarray(np.random.default_rng(4).normal(size=(20, DIM)), np.float32)
    questions = asked / np.linalg.norm(asked, axis=1, keepdims=True)
    exact = find_nearest(vectors, questions, K)
    peer.build(items, tmp_path, say_nothing)
    searcher = peer.open(tmp_path)
    little = tune(searcher, (1,), questions, exact)
    tuned = tune(searcher, peer.efforts, questions, exact)
    assert little.recall < 0.8
    assert tuned.recall >= 0.95
    assert searcher.dense(questions[0], K)[0] == exact[0, 0]
    searcher.close()


def test_any_question_is_accepted(searcher: Searcher) -> None:
    vector = make_corpus().vectors(3, 4)[0]
    assert {text: len(searcher.hybrid(vector, text, K)) for text in WEIRD} == dict.fromkeys(WEIRD, K)


def test_an_index_is_built_once(peer: Peer, folder: Path) -> None:
    lines: list[str] = []
    report = peer.build(make_corpus(), folder, lines.append)
    assert (lines, report["items"]) == ([f"{peer.name}: {N} items exist"], N)
    assert report["bytes"] > N * 4
    assert report["versions"] == peer.versions()


def test_a_peer_has_a_description(peer: Peer) -> None:
    description = peer.describe()
    assert all(description[key] for key in ("configured", "fuses", "lacks", "knob", "efforts"))
    assert sorted(peer.efforts) == list(peer.efforts)


class Fake:
    """A searcher that finds `effort` of the k nearest items."""

    def __init__(self, exact: I64) -> None:
        self.exact, self.effort = exact, 0

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        return self.dense(vector, k)

    def dense(self, vector: F32, k: int) -> list[int]:
        return self.exact[int(vector[0]), : self.effort].tolist()

    def set_effort(self, effort: int) -> None:
        self.effort = effort

    def close(self) -> None: ...


def test_tuning_chooses_the_least_effort() -> None:
    exact = np.arange(20).reshape(2, 10)
    fake, questions = Fake(exact), np.array([[0], [1]], np.float32)
    assert (tune(fake, (2, 5, 8, 10), questions, exact, 0.8), fake.effort) == (Tuning(8, 0.8), 8)
    assert (tune(fake, (2, 5), questions, exact, 0.8), fake.effort) == (Tuning(5, 0.5), 5)


def test_an_incomplete_index_or_one_of_other_items_is_built_again(tmp_path: Path) -> None:
    built: list[int] = []

    def index(items: Corpus, folder: Path, say: object) -> None:
        assert list(folder.iterdir()) == []
        built.append(items.n)
        (folder / "half").write_text("x")
        if items.n == 7:
            raise OSError("full")

    peer = replace(make_peer(), index=index)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    with pytest.raises(OSError, match="full"):
        peer.build(make_corpus(7), tmp_path, say_nothing)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    peer.build(make_corpus(8), tmp_path, say_nothing)
    peer.build(make_corpus(8), tmp_path, say_nothing)
    assert built == [7, 8]
    peer.build(make_corpus(8, seed=2), tmp_path, say_nothing)
    assert built == [7, 8, 8]
    replace(peer, configured="otherwise").build(make_corpus(8, seed=2), tmp_path, say_nothing)
    assert built == [7, 8, 8, 8]
    with pytest.raises(OSError, match="full"):
        peer.build(make_corpus(7), tmp_path, say_nothing)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    with pytest.raises(UsageError, match="1 to 5"):
        replace(peer, most_items=5).build(make_corpus(8), tmp_path, say_nothing)


def make_peer() -> Peer:
    return Peer(
        "plain", ("numpy",), "so", "not", "all", "none", (1,), lambda *_: None, lambda _: Fake(np.zeros((0, 0)))
    )


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Peer:
        raise ModuleNotFoundError("No module named 'qdrant_client'", name="qdrant_client")

    monkeypatch.setitem(PEERS, "qdrant", load)
    with pytest.raises(UsageError, match=r"qdrant_client.*pip install 'helix-recall\[bench\]'"):
        load_peer("qdrant")
