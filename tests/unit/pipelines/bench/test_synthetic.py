"""Synthetic items keep their distributions, and a store of them answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import helix
from helix.enrich.neardup import compute_signatures
from helix.errors import UsageError
from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.segment import batch
from helix.snapshot.segment.batch import RowBatch, hash_parts
from helix.snapshot.verify import verify_store
from helix.text.entities import find_entities
from helix.text.names import NAME_KINDS
from helix.text.tokenize import hash_terms, tokenise
from helix.types import ROLES, TYPES
from pipelines.bench import store
from pipelines.bench.language import DIM, PROJECTS
from pipelines.bench.questions import STORE_QUESTIONS, draw_store_questions
from pipelines.bench.space import learn_space, mix_real
from pipelines.bench.synthetic import make_batch, make_batches
from pipelines.bench.synthetic_store import MARKER, build_store
from tests.unit.pipelines.bench.conftest import ITEMS, REAL

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

SIZE = 2_000
ARRAYS = ("codes", "scale", "minhash", "term_indptr", "term_key", "term_tf", "mention_indptr", "mention_entity")


@pytest.fixture(scope="module")
def rows() -> RowBatch:
    return make_batch(7, 3, SIZE)


@pytest.fixture(scope="module")
def large() -> RowBatch:
    return make_batch(7, 0, 20_000)


def vectors(rows: RowBatch) -> np.ndarray:
    return rows.codes.astype(np.float32) * rows.scale[:, None]


def are_equal(a: RowBatch, b: RowBatch) -> bool:
    return a.items.equals(b.items) and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)


def test_a_batch_is_a_function_of_its_arguments(rows: RowBatch) -> None:
    assert are_equal(rows, make_batch(7, 3, SIZE))
    for other in (make_batch(7, 4, SIZE), make_batch(8, 3, SIZE)):
        assert not set(other.items["id"].to_pylist()) & set(rows.items["id"].to_pylist())
        assert other.items["text"].to_pylist() != rows.items["text"].to_pylist()


def test_two_processes_make_the_batches_of_one() -> None:
    alone = list(make_batches(450, 7, size=200, workers=1))
    assert [len(part) for part in alone] == [200, 200, 50]
    assert all(are_equal(a, b) for a, b in zip(alone, make_batches(450, 7, size=200), strict=True))


def test_the_tables_have_their_schemas(rows: RowBatch) -> None:
    assert (rows.items.schema, rows.entities.schema) == (batch.ITEMS, batch.ENTITIES)
    rows.items.validate(full=True)
    assert len(rows) == SIZE == len(set(rows.items["id"].to_pylist()))
    entry = rows.items.slice(11, 1).to_pylist()[0]
    assert entry["id"] == hash_parts(entry["source"], entry["session"], entry["turns"][0], "0")
    assert set(rows.items["type"].to_pylist()) == set(TYPES)
    assert set(rows.items["role"].to_pylist()) <= set(ROLES)
    must = ("source", "path", "document", "session", "text", "project", "t_valid", "t_ingested", "acl", "content")
    assert not any(rows.items[name].null_count for name in must)
    assert (rows.codes.shape, rows.minhash.shape) == ((SIZE, DIM), (SIZE, 64))


@pytest.mark.soak
def test_lengths_sessions_and_projects_are_skewed(large: RowBatch) -> None:
    rows = large
    words = [len(text.split()) for text in rows.items["text"].to_pylist()]
    assert 30 <= np.median(words) <= 40
    assert max(words) > 120
    sessions = Counter(rows.items["session"].to_pylist())
    assert 20 <= np.median(list(sessions.values())) <= 40
    assert 200 < max(sessions.values()) <= 500
    projects = Counter(rows.items["project"].to_pylist())
    assert 30 <= len(projects) <= PROJECTS
    shares = sorted(count / len(rows) for count in projects.values())
    assert 0.3 < shares[-1] < 0.6  # one is large, …
    assert sum(0.005 < share < 0.02 for share in shares) >= 3  # … some have about 1 % …
    assert shares[0] < 0.001  # … and some next to nothing
    assert 0.002 < np.mean([len(acl) > 0 for acl in rows.items["acl"].to_pylist()]) < 0.08
    years = {time.year for time in rows.items["time"].to_pylist() if time}
    assert {2023, 2024} <= years <= {2023, 2024, 2025}
    terms = sorted(Counter(rows.term_key.tolist()).values(), reverse=True)
    assert terms[10] > 10 * terms[1_000]  # Zipf: few words everywhere …
    assert sum(n == 1 for n in terms) > len(terms) / 10  # … and many once


def test_a_session_is_one_document_read_in_order(rows: RowBatch) -> None:
    order: dict[str, list[int]] = {}
    documents: dict[str, set[str]] = {}
    for session, document, place in zip(
        *(rows.items[n].to_pylist() for n in ("session", "document", "ord")), strict=True
    ):
        order.setdefault(session, []).append(place)
        documents.setdefault(session, set()).add(document)
    assert all(places == list(range(len(places))) for places in order.values())
    assert all(len(found) == 1 for found in documents.values())


def test_terms_and_signatures_are_those_of_the_text(rows: RowBatch) -> None:
    items = rows.items.to_pylist()
    for i, item in enumerate(items):
        head = item["title"] if item["role"] == "document" else item["speaker"]
        mark = ". " if item["role"] == "document" else ": "
        expected = Counter(tokenise(f"{head}{mark}{item['text']}" if head else item["text"]))
        part = slice(rows.term_indptr[i], rows.term_indptr[i + 1])
        assert rows.term_key[part].tolist() == hash_terms(list(expected)).tolist()
        assert rows.term_tf[part].tolist() == list(expected.values())
    assert np.array_equal(rows.minhash, compute_signatures([item["text"] for item in items]))


def test_mentions_are_those_of_the_text(rows: RowBatch) -> None:
    """The extractor has to find the entities that the generator put in."""
    known = {entry["hash"]: (entry["kind"], entry["key"]) for entry in rows.entities.to_pylist()}
    claimed = agreed = 0
    for i in range(500):
        part = slice(rows.mention_indptr[i], rows.mention_indptr[i + 1])
        mine = [known[number] for number in rows.mention_entity[part].tolist()]
        assert len(mine) == len(set(mine))
        found = find_entities(rows.items["text"][i].as_py(), rows.items["speaker"][i].as_py())
        # An invented name may look like a person's or a place's: it is the same name.
        seen = {("name" if e.kind in NAME_KINDS else e.kind, e.key) for e in found}
        same = {("name" if kind in NAME_KINDS else kind, key) for kind, key in mine}
        claimed, agreed = claimed + len(same), agreed + len(same & seen)
    assert claimed > 500
    assert agreed > 0.95 * claimed
    for number, (kind, key) in known.items():
        assert number == int(hash_parts(kind, key), 16)
    degrees = sorted(Counter(rows.mention_entity.tolist()).values(), reverse=True)
    assert degrees[0] > 20 * np.median(degrees)


def test_cosines_are_those_of_an_encoder(large: RowBatch) -> None:
    found = vectors(large)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=0.02)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, len(found), (2, 4_000))
    assert 0.05 < (found[a] * found[b]).sum(axis=1).mean() < 0.2
    some = rng.choice(len(found), 200, replace=False)
    cosine = found[some] @ found.T
    cosine[np.arange(200), some] = -1
    low, median, high = np.percentile(cosine.max(axis=1), [5, 50, 95])
    assert 0.4 < low < 0.6 < median < 0.8 < high


def test_some_items_repeat_earlier_ones(rows: RowBatch) -> None:
    texts = rows.items["text"].to_pylist()
    repeats = len(texts) - len(set(texts))
    assert 0.005 * SIZE < repeats < 0.03 * SIZE
    _, first = np.unique(np.array(texts, object), return_index=True)
    distinct = rows.minhash[np.sort(first)]
    shared = np.array([np.max(np.mean(distinct[:i] == distinct[i], axis=1)) for i in range(1, len(distinct))])
    assert np.count_nonzero(shared > 0.6) > 0.005 * SIZE


def embed_by_no_model(texts: list[str]) -> np.ndarray:
    """Vectors of no model: near one direction, wide along few axes."""
    rng = np.random.default_rng(len(texts))
    found = rng.normal(size=(len(texts), DIM)).astype(np.float32) * np.linspace(2, 0.1, DIM)
    found[:, 5] += 20
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def test_some_whole_sessions_get_real_vectors() -> None:
    given: list[str] = []

    def embed(texts: list[str]) -> np.ndarray:
        given.extend(texts)
        return embed_by_no_model(texts)

    batches = list(make_batches(4_000, 7, size=2_000, workers=1))
    made = list(mix_real(batches, 4_000, 400, embed))
    noted = [row for _, table in made for row in table.to_pylist()]
    assert len(noted) == len(given)
    assert 300 < len(noted) <= 400
    for (rows, table), before in zip(made, batches, strict=True):
        chosen = set(table["id"].to_pylist())
        of_session = {}
        for identity, session in zip(*(rows.items[name].to_pylist() for name in ("id", "session")), strict=True):
            of_session.setdefault(session, set()).add(identity in chosen)
        assert all(len(found) == 1 for found in of_session.values())  # whole, or not at all
        at = np.flatnonzero([identity in chosen for identity in rows.items["id"].to_pylist()])
        assert rows.items.equals(before.items)
        if len(at):
            assert np.allclose(vectors(rows)[at], embed_by_no_model(table["id"].to_pylist()), atol=0.01)
    assert {name for row in noted for name in (entry["kind"] for entry in row["named"])} >= {"path", "identifier"}


def test_vectors_are_where_an_encoder_puts_their_topics() -> None:
    words = np.random.default_rng(0).normal(size=(1 << 12, DIM)).astype(np.float32)

    def embed(texts: list[str]) -> np.ndarray:
        """The sum of the words' vectors and a common one."""
        found = np.array([words[[crc32(word.encode()) % len(words) for word in text.split()]].sum(0) for text in texts])
        found += 20
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)

    mixed = learn_space(embed)
    rows = make_batch(7, 0, 2_000, mixed)
    true, made = embed(rows.items["text"].to_pylist()), vectors(rows)
    assert np.dot(true.mean(0), made.mean(0)) > 0.9 * np.dot(true.mean(0), true.mean(0))
    apart = true - true.mean(0), made - made.mean(0)
    own = np.mean([a @ b for a, b in zip(*apart, strict=True)])
    others = np.mean([a @ b for a, b in zip(apart[0], np.roll(apart[1], 1_000, axis=0), strict=True)])
    assert own > 0.02
    assert own > 5 * abs(others)  # an item's vector is like that of its text, and of no other text
    assert not np.array_equal(rows.codes, make_batch(7, 0, 2_000).codes)
    assert rows.items.equals(make_batch(7, 0, 2_000).items)


def test_a_synthetic_store_is_valid_and_answers(synthetic_store: Path) -> None:
    assert not verify_store(synthetic_store).problems
    assert not inbox.list_pending(synthetic_store)
    memory = helix.open(synthetic_store)
    assert memory.snapshot.live == ITEMS
    asks = draw_store_questions(ITEMS, 7, 20)
    assert {ask["kind"] for ask in asks} == {"words", "identifier", "error", "project"}
    found = [memory.recall(ask["query"], project=ask["project"]) for ask in asks]
    assert not any(bundle.degraded for bundle in found)
    assert sum(bundle.skipped for bundle in found) <= 1  # the router may skip words of no language
    assert all(bundle.items or bundle.skipped for bundle in found)
    hits = [ask["item"] in {item.id for item in bundle.items} for ask, bundle in zip(asks, found, strict=True)]
    assert sum(hits) > len(hits) / 2
    for ask, bundle in zip(asks, found, strict=True):
        assert not ask["project"] or {item.project for item in bundle.items} <= {ask["project"]}


def test_a_store_is_made_once_and_other_folders_stay_unchanged(synthetic_store: Path, tmp_path: Path) -> None:
    before = (synthetic_store / "CURRENT").read_bytes()
    build_store(synthetic_store, ITEMS, 7, load(), lambda _: None, real=REAL)
    assert (synthetic_store / "CURRENT").read_bytes() == before
    with pytest.raises(UsageError, match="holds 2,000 synthetic items of seed 7"):
        build_store(synthetic_store, 4_000, 7, load(), lambda _: None)
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match="something else"):
        build_store(tmp_path, ITEMS, 7, load(), lambda _: None)
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_an_incomplete_store_is_made_again(tmp_path: Path, cache: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / MARKER).write_text('{"items": 50, "seed": 1, "version": 0, "complete": false}')
    (root / "inbox").mkdir()
    (root / "inbox" / ("0" * 64)).write_text("half")
    build_store(root, 50, 1, load(), lambda _: None)
    assert helix.open(root).snapshot.live == 50
    assert not inbox.list_pending(root)


@pytest.mark.soak
def test_every_figure_is_measured(synthetic_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LARGE", 1_000)
    monkeypatch.setattr(store, "_REPEATS", 2)
    before = (synthetic_store / "CURRENT").read_bytes()
    report = store.measure(synthetic_store, load(), lambda _: None)
    assert report["items"] == ITEMS
    for name, items in (("commit_100", 100), ("commit_10000", 1_000)):
        one = report[name]
        assert 0 < one["seconds"] <= one["worst"]
        assert one["new_bytes"] > 500 * items  # vectors and signatures alone
    assert report["compact_all"]["segments"] == 1
    assert report["compact_all"]["new_bytes"] > 500 * (ITEMS + 1_300)
    assert 50 < report["writer_peak_mb"]["anonymous"] <= report["writer_peak_mb"]["rss"]
    assert report["bytes_per_item"]["vectors"] == pytest.approx(DIM + 4, abs=20)
    assert report["bytes_per_item"]["total"] == pytest.approx(
        sum(size for kind, size in report["bytes_per_item"].items() if kind != "total"), abs=2
    )
    for one in report["open_ms"].values():
        assert one["total"] == pytest.approx(one["import"] + one["open"] + one["answer"], abs=0.1)
    assert 20 < report["private_mb"]["anonymous"] <= report["private_mb"]["rss"]
    recall = report["recall"]
    assert recall["queries"] == STORE_QUESTIONS
    assert 0 < recall["p50"] <= recall["p95"] <= recall["p99"]
    assert {"embed", "dense", "lexical", "graph", "rank", "pack"} <= set(recall["stages"])
    assert recall["answered"] > 0.9
    assert recall["found"] > 0.5
    assert 0 < report["refresh"]["seconds"] < 60
    assert (synthetic_store / "CURRENT").read_bytes() == before
    assert not synthetic_store.with_name("store-work").exists()


def test_unknown_kinds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines.bench.commands import bench

    with pytest.raises(UsageError, match="no KIND 'speed'; there are store"):
        bench(["speed"])
    with pytest.raises(UsageError, match="required: KIND"):
        bench([])
