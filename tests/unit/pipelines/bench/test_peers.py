"""Peers of the recall bench on a tiny corpus. Those of the extra `bench` are skipped where it is not installed.

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
from pipelines.bench import peers
from pipelines.bench.peers import DIM, PEERS, Corpus, Peer, Searcher, Tuned, tune

N, K = 300, 10
SYLLABLES = ("ba", "ko", "ri", "mu", "te", "zo", "fla", "gri", "nu", "pe")
WEIRD = (
    "",
    " ",
    "the of and",
    '"unclosed',
    "a AND (b OR NOT c",
    "NEAR(x y, 2) ^col: -minus +plus ~tilde {brace} [bracket]",
    "*",
    "zo*",
    "it's 100 % 'quoted'; drop table items --",
    "\\ back /slash\\",
    "日本語 テスト",
    "naïve Ωmega 🙂",
    "\x00nul",
    "select id from txtai where similar('x')",
    "word " * 500,
)


def corpus(n: int = N, seed: int = 1) -> Corpus:
    """Clusters of vectors; every text has a word of its own, `item7x`, among made-up ones; three projects."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(12, DIM))
    found = centres[rng.integers(0, 12, n)] + 1.2 * rng.normal(size=(n, DIM))
    vectors = np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)
    words = ["".join(rng.choice(SYLLABLES, 3)) for _ in range(80)]
    texts = [f"The {' '.join(rng.choice(words, 8))} and item{i}x." for i in range(n)]
    projects = [("alpha", "beta", "o'hara")[i % 3] for i in range(n)]
    return Corpus(n, lambda a, b: vectors[a:b], lambda a, b: texts[a:b], lambda a, b: projects[a:b])


def nearest(vectors: F32, questions: F32, k: int) -> I64:
    return np.argsort(-(questions @ vectors.T), axis=1, kind="stable")[:, :k]


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module", params=sorted(PEERS))
def peer(request: pytest.FixtureRequest) -> Peer:
    try:
        return PEERS[request.param]()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp(peer.name)
    peer.build(corpus(), found, quiet)
    return found


@pytest.fixture(scope="module")
def searcher(peer: Peer, folder: Path) -> Iterator[Searcher]:
    found = peer.open(folder)
    tune(found, peer.efforts, corpus().vectors(0, 5), nearest(corpus().vectors(0, N), corpus().vectors(0, 5), K))
    yield found
    found.close()


def test_finds_what_is_asked_for(peer: Peer, searcher: Searcher) -> None:
    items = corpus()
    for row in (0, 7, 123, N - 1):
        found = searcher.hybrid(items.vectors(row, row + 1)[0], items.texts(row, row + 1)[0], K)
        assert found[0] == row
        assert len(set(found)) == len(found) == K
        assert all(type(i) is int and 0 <= i < N for i in found)


def test_both_legs_are_heard(peer: Peer, searcher: Searcher) -> None:
    """The vector of one item, the words of another: both are found, where there is a leg that reads words."""
    vector, text = corpus().vectors(5, 6)[0], corpus().texts(200, 201)[0]
    assert 200 not in searcher.dense(vector, K)
    found = searcher.hybrid(vector, text, K)
    assert 5 in found
    assert (200 in found) == peer.hybrid


def test_filters_by_project(peer: Peer, searcher: Searcher) -> None:
    items = corpus()
    vector, text = items.vectors(4, 5)[0], items.texts(4, 5)[0]  # of project beta
    if not peer.filters:
        with pytest.raises(UsageError, match=peer.name):
            searcher.hybrid(vector, text, K, "beta")
        return
    for name, remainder in (("alpha", 0), ("beta", 1), ("o'hara", 2)):
        found = searcher.hybrid(vector, text, K, name)
        assert len(found) == K
        assert {i % 3 for i in found} == {remainder}
        assert (4 in found) == (name == "beta")
    assert searcher.hybrid(vector, text, K, "nobody's") == []


def test_dense_recall_after_tuning(peer: Peer, searcher: Searcher) -> None:
    items = corpus().vectors(0, N)
    noise = np.random.default_rng(2).normal(size=(20, DIM)) / DIM**0.5
    asked = items[:20] + 0.5 * noise
    questions = np.asarray(asked / np.linalg.norm(asked, axis=1, keepdims=True), np.float32)
    tuned = tune(searcher, peer.efforts, questions, nearest(items, questions, K))
    assert tuned.effort in peer.efforts
    assert tuned.recall >= 0.95
    assert searcher.dense(items[9], K)[0] == 9


def test_effort_is_felt(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors without clusters, and more than any of them scans exactly: little effort finds less than much."""
    if len(peer.efforts) == 1:
        pytest.skip(f"{peer.name} searches exactly")
    if peer.name == "lancedb":
        monkeypatch.setattr("pipelines.bench.peers.lancedb._INDEXED", 1)
    found = np.random.default_rng(3).normal(size=(6_000, DIM))
    vectors = np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)
    items = Corpus(
        len(vectors),
        lambda a, b: vectors[a:b],
        lambda a, b: [f"item{i}x" for i in range(a, b)],
        lambda a, b: ["p"] * (b - a),
    )
    asked = np.asarray(np.random.default_rng(4).normal(size=(20, DIM)), np.float32)
    questions = asked / np.linalg.norm(asked, axis=1, keepdims=True)
    exact = nearest(vectors, questions, K)
    peer.build(items, tmp_path, quiet)
    searcher = peer.open(tmp_path)
    little = tune(searcher, (1,), questions, exact)
    tuned = tune(searcher, peer.efforts, questions, exact)
    assert little.recall < 0.8
    assert tuned.recall >= 0.95
    assert searcher.dense(questions[0], K)[0] == exact[0, 0]
    searcher.close()


@pytest.mark.parametrize("text", WEIRD)
def test_any_question_will_do(searcher: Searcher, text: str) -> None:
    assert len(searcher.hybrid(corpus().vectors(3, 4)[0], text, K)) == K


def test_is_built_once(peer: Peer, folder: Path) -> None:
    said: list[str] = []
    report = peer.build(corpus(), folder, said.append)
    assert said == [f"{peer.name}: {N} items are there"]
    assert report["items"] == N
    assert report["bytes"] > N * 4
    assert report["versions"] == peer.versions()


def test_is_described(peer: Peer) -> None:
    told = peer.described()
    assert all(told[key] for key in ("configured", "fuses", "lacks", "knob", "efforts"))
    assert sorted(peer.efforts) == list(peer.efforts)


# ---------------------------------------------------------------- what all have in common


class Fake:
    """Finds `effort` of the k items asked for."""

    def __init__(self, exact: I64) -> None:
        self.exact, self.effort = exact, 0

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        return self.dense(vector, k)

    def dense(self, vector: F32, k: int) -> list[int]:
        return self.exact[int(vector[0]), : self.effort].tolist()

    def set_effort(self, effort: int) -> None:
        self.effort = effort

    def close(self) -> None: ...


def test_tuning_takes_the_least_effort() -> None:
    exact = np.arange(20).reshape(2, 10)
    fake, questions = Fake(exact), np.array([[0], [1]], np.float32)
    assert tune(fake, (2, 5, 8, 10), questions, exact, 0.8) == Tuned(8, 0.8)
    assert fake.effort == 8
    assert tune(fake, (2, 5), questions, exact, 0.8) == Tuned(5, 0.5)
    assert fake.effort == 5


def test_builds_anew_what_is_not_whole_or_of_other_items(tmp_path: Path) -> None:
    built: list[int] = []

    def index(items: Corpus, folder: Path, say: object) -> None:
        assert list(folder.iterdir()) == []
        built.append(items.n)
        (folder / "half").write_text("x")
        if items.n == 7:
            raise OSError("full")

    peer = replace(_plain(), index=index)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    with pytest.raises(OSError, match="full"):
        peer.build(corpus(7), tmp_path, quiet)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    peer.build(corpus(8), tmp_path, quiet)
    peer.build(corpus(8), tmp_path, quiet)
    assert built == [7, 8]
    peer.build(corpus(8, seed=2), tmp_path, quiet)
    assert built == [7, 8, 8]
    replace(peer, configured="otherwise").build(corpus(8, seed=2), tmp_path, quiet)
    assert built == [7, 8, 8, 8]
    with pytest.raises(OSError, match="full"):
        peer.build(corpus(7), tmp_path, quiet)
    with pytest.raises(UsageError, match="no complete index"):
        peer.open(tmp_path)
    with pytest.raises(UsageError, match="1 to 5"):
        replace(peer, most_items=5).build(corpus(8), tmp_path, quiet)


def _plain() -> Peer:
    return Peer(
        "plain", ("numpy",), "so", "not", "all", "none", (1,), lambda *_: None, lambda _: Fake(np.zeros((0, 0)))
    )


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'qdrant_client'", name="qdrant_client")

    monkeypatch.setattr(peers, "import_module", missing)
    with pytest.raises(UsageError, match=r"qdrant_client.*pip install 'helix-recall\[bench\]'"):
        PEERS["qdrant"]()
