"""Facts can be searched: each has a vector and postings with its segment, through merges and deletions."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from helix.settings import Settings, load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.fact_arrays import format_fact
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from helix.stages.lexical import search_lexical
from helix.text.tokenize import hash_terms, tokenise
from helix.types import Plan
from pipelines.embedded.ingest import ingest
from pipelines.ingest import enrich as enriching
from pipelines.ingest.commit_base import _count_facts
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from tests.compat.history import current
from tests.support.queries import make_query
from tests.support.tiny_facts import fact_store, item, state_fact

X, Y, Z = np.eye(4)[:3]
ITEMS = (
    item("a", state_fact("ana", "lives_in", "oslo", vector=X)),
    item("b"),
    item("c", state_fact("ben", "likes", "oslo jazz", vector=Y), state_fact("ben", "works_at", "quux", vector=Z)),
    item("d", state_fact("eva", "lives_in", "bergen", vector=0.6 * X + 0.8 * Y)),
)
EVERY = Plan(None, 0)


def term(word: str) -> np.uint64:
    (hashed,) = hash_terms(tokenise(word))
    return np.uint64(hashed)


def find_facts(snapshot: Snapshot, word: str) -> list[int]:
    return [fact for start, rows, _ in snapshot.facts.field.term(term(word)) for fact in (start + rows).tolist()]


def texts(entries: list[dict[str, str]]) -> list[str]:
    return [entry["text"] for entry in entries]


def test_a_fact_is_one_plain_sentence() -> None:
    for fact, text in (
        (("Ana", "lives_in", "Oslo", "", False), "Ana lives in Oslo"),
        (("Ben", "prefers", "tea", "over coffee", False), "Ben prefers tea over coffee"),
        (("we", "uses", "Redis", "the queue", True), "we no longer use Redis for the queue"),
    ):
        assert format_fact(*fact) == text


def test_facts_are_found_by_their_words_and_vectors(tmp_path: Path) -> None:
    field = fact_store(tmp_path, ITEMS, cuts=(2,)).facts.field
    assert (field.rows, field.live, field.share) == (4, 4, 1.0)
    assert field.length.tolist() == [len(tokenise(text)) for text in texts(field.text(np.arange(4)))]
    assert [rows.tolist() for _, rows, _ in field.term(term("oslo"))] == [[0], [1]]  # a segment each
    assert [rows.tolist() for _, rows, _ in field.term(term("lives"))] == [[0], [3]]  # of the relation
    assert (field.df(term("oslo")), field.df(term("ana")), field.df(term("nobody"))) == (2, 1, 0)
    leg = field.nearest(X.astype(np.float32), 3)
    assert leg.rows.tolist()[:2] == [0, 3]
    assert leg.scores.tolist()[:2] == pytest.approx([1.0, 0.6], abs=0.01)
    allowed = np.array([False, True, True, True])
    assert field.nearest(X.astype(np.float32), 1, allowed).rows.tolist() == [3]
    assert field.nearest(X.astype(np.float32), 9, allowed & False).rows.tolist() == []


def test_bm25_over_facts_by_hand(tmp_path: Path) -> None:
    """Of "oslo": df 2 of 4; lengths 3 and 4 ("ana live oslo", "ben like oslo jazz"), 3 and 3: their mean is 3.25."""
    snapshot = fact_store(tmp_path, ITEMS)
    field = snapshot.facts.field
    assert field.length.tolist() == [3, 4, 3, 3]
    assert field.mean_length == 3.25
    leg = search_lexical(make_query("oslo", snapshot, Settings()), field, EVERY, 5, 0.9, 0.6)
    assert leg.rows.tolist() == [0, 1]
    weight = np.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    by_hand = [weight * 1.9 / (1 + 0.9 * (0.4 + 0.6 * length / 3.25)) for length in (3, 4)]
    assert leg.scores.tolist() == pytest.approx(by_hand)


def test_ties_go_to_the_smaller_id(tmp_path: Path) -> None:
    same = [item(f"{i}", state_fact(f"p{i}", "likes", "tea", vector=X)) for i in range(6)]
    field = fact_store(tmp_path, same).facts.field
    assert field.nearest(X.astype(np.float32), 3).rows.tolist() == np.argsort(field.key)[:3].tolist()


def test_facts_of_deleted_rows_are_not_found(tmp_path: Path) -> None:
    snapshot = fact_store(tmp_path, ITEMS, cuts=(2,), deleted={1: [0]})  # Ben's
    field = snapshot.facts.field
    assert (field.rows, field.live) == (2, 2) == (len(snapshot.facts.columns.row), 2)
    assert snapshot.facts.columns.row.tolist() == [0, 3]
    assert find_facts(snapshot, "oslo") == [0]
    assert find_facts(snapshot, "bergen") == [1]
    assert (field.df(term("oslo")), field.df(term("ben")), field.mean_length) == (1, 0, 3.0)
    assert sorted(field.nearest(Y.astype(np.float32), 9).rows.tolist()) == [0, 1]
    assert texts(field.text(np.array([1, 0]))) == ["eva lives in bergen", "ana lives in oslo"]
    entry = field.text(np.array([1]))[0]
    assert (entry["subject"], entry["relation"], entry["object"]) == ("eva", "lives_in", "bergen")


def test_facts_of_a_segment_without_an_index_are_read_but_not_found(tmp_path: Path) -> None:
    snapshot = fact_store(tmp_path, ITEMS, cuts=(2,), plain=(0,))
    field = snapshot.facts.field
    assert (field.rows, field.live, field.share) == (4, 3, 0.75)
    assert len(snapshot.facts.columns.row) == 4
    assert find_facts(snapshot, "oslo") == [1]
    assert field.mean_length == pytest.approx(10 / 3)  # of what can be found
    assert 0 not in field.nearest(X.astype(np.float32), 9).rows.tolist()
    assert _count_facts(tmp_path, current(tmp_path)) == {"facts": 3, "of": 4}


def test_no_facts_no_files(tmp_path: Path) -> None:
    snapshot = fact_store(tmp_path, [item("a"), item("b")])
    field = snapshot.facts.field
    assert (field.rows, field.live, field.share, field.mean_length) == (0, 0, 1.0, 1.0)
    assert not list(tmp_path.glob("segments/*/facts.i8.npy"))
    assert field.nearest(X.astype(np.float32), 3).rows.tolist() == []
    assert field.term(term("oslo")) == []


def same_field(one: Snapshot, other: Snapshot) -> None:
    a, b = one.facts.field, other.facts.field
    assert (a.rows, a.live, a.mean_length) == (b.rows, b.live, b.mean_length)
    assert a.key[a.indexed].tolist() == b.key[b.indexed].tolist()
    assert a.length.tolist() == b.length.tolist()
    for vector in (X, Y, Z):
        left, right = a.nearest(vector.astype(np.float32), 9), b.nearest(vector.astype(np.float32), 9)
        assert left.rows.tolist() == right.rows.tolist()
        assert left.scores.tolist() == right.scores.tolist()
    for word in ("oslo", "lives", "ben", "quux", "bergen", "jazz"):
        assert find_facts(one, word) == find_facts(other, word), word
    indexed = np.flatnonzero(a.indexed)
    assert a.text(indexed) == b.text(indexed)


@pytest.mark.parametrize("plain", [(), (0,), (1,)])
def test_a_merge_copies_the_fact_index(tmp_path: Path, plain: tuple[int, ...]) -> None:
    before = fact_store(tmp_path, ITEMS, cuts=(1, 3), deleted={1: [0]}, plain=plain)
    compact(tmp_path, Settings(), full=True)
    after = Snapshot.open(tmp_path)
    assert len(current(tmp_path).segments) == 1
    same_field(before, after)
    assert verify_store(tmp_path).problems == ()


def test_a_merge_leaves_no_byte_of_a_deleted_fact(tmp_path: Path) -> None:
    fact_store(tmp_path / "one", ITEMS, deleted={0: [2]})
    compact(tmp_path / "one", Settings(), full=True)
    (segment,) = (tmp_path / "one" / "segments" / each.id for each in current(tmp_path / "one").segments)
    files = {path.name: path.read_bytes() for path in segment.iterdir()}
    assert "facts.text.arrow" in files
    assert not [name for name, data in files.items() if b"quux" in data or term("quux").tobytes() in data]
    assert any(term("bergen").tobytes() in data for data in files.values())  # so it would be seen
    assert np.load(segment / "facts.i8.npy").shape == (2, 4)
    # Without facts there is no index.
    fact_store(tmp_path / "none", ITEMS, cuts=(2,), deleted={0: [0], 1: [0, 1]})
    compact(tmp_path / "none", Settings(), full=True)
    (segment,) = (tmp_path / "none" / "segments" / each.id for each in current(tmp_path / "none").segments)
    assert not (segment / "facts.i8.npy").exists()
    assert Snapshot.open(tmp_path / "none").facts.field.rows == 0


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    turns = (("Ana", "I live in Tromso."), ("Ben", "I work at Quuxworks."), ("Ana", "Nothing to see here."))
    lines = [
        {"session": "s", "id": f"{i}", "speaker": speaker, "text": text, "ts": f"2026-01-05T10:0{i}:00Z"}
        for i, (speaker, text) in enumerate(turns)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_ingest_indexes_facts_and_a_forgotten_one_leaves_no_byte(cache: Path, tmp_path: Path, talk: Path) -> None:
    root = tmp_path / "store"
    ingest(root, [talk], load())
    snapshot = Snapshot.open(root)
    field = snapshot.facts.field
    assert (field.rows, field.live) == (2, 2)
    assert read_status(root)["coverage"]["fact_index"] == {"facts": 2, "of": 2}
    shown = texts(field.text(np.arange(2)))
    assert shown == ["Ana lives in Tromso", "Ben works at Quuxworks"]
    for fact, text in enumerate(shown):
        (nearest,) = field.nearest(snapshot.encoder.query(text), 1).rows.tolist()
        assert nearest == fact
        vector = snapshot.encoder.passages([text], 1, None)[0]
        assert field.nearest(vector, 1).scores[0] == pytest.approx(1.0, abs=0.01)

    (row,) = snapshot.facts.columns.row[find_facts(snapshot, "quuxworks")].tolist()
    item_id = f"{int(snapshot.columns.key[row]):016x}"
    del snapshot, field
    forget(root, Selection(items=(item_id,)), load())
    after = Snapshot.open(root)
    assert find_facts(after, "quuxworks") == []
    assert find_facts(after, "tromso") == [0]
    assert read_status(root)["coverage"]["fact_index"] == {"facts": 1, "of": 1}
    folders = [root / "segments", root / "indexes", root / "parts", root / "documents"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    wanted = (b"uuxworks", term("quuxworks").tobytes())
    assert not [path for path in files if any(word in path.read_bytes() for word in wanted)]
    assert verify_store(root).problems == ()


def test_a_reindex_adds_the_fact_index_to_an_old_store(cache: Path, tmp_path: Path, talk: Path) -> None:
    root, settings = tmp_path / "store", load()
    with patch("pipelines.ingest.part.VERSION", 2), patch.object(enriching, "_embed_facts", lambda *_: None):
        ingest(root, [talk], settings)
    before = Snapshot.open(root)
    assert len(before.facts.columns.row) == 2
    assert before.facts.field.share == 0.0
    assert before.facts.field.nearest(before.encoder.query("where does Ana live"), 3).rows.tolist() == []
    assert find_facts(before, "tromso") == []
    assert read_status(root)["coverage"]["fact_index"] == {"facts": 0, "of": 2}
    assert reindex(root, settings).swapped
    assert Snapshot.open(root).facts.field.share == 1.0
    assert read_status(root)["coverage"]["fact_index"] == {"facts": 2, "of": 2}
