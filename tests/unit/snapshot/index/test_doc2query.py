"""Questions a model wrote for items: a lexical field of their own, through merges and deletions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.encoders.rerank import Rerankers
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.recipes import load_profile as profiles
from helix.recipes.default import recall
from helix.settings import Settings
from helix.snapshot.index.doc2query import KIND, open_queries, write_queries
from helix.snapshot.manifest import Index, describe_tree, make_id
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from helix.stages.features.similarity import score_expansion
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.stages.trace import Trace
from helix.text.tokenize import hash_terms, tokenise
from pipelines.maintain.compact import compact
from tests.compat.history import current, publish
from tests.support.queries import make_query
from tests.support.tiny import make_store

TEXTS = ["alpha beta", "gamma delta", "epsilon zeta", "eta theta"]


def write_index(root: Path, segment: int, rows: list[int], asked: list[list[str]]) -> Snapshot:
    """Publish an index of the questions of some rows of a segment. Return its generation."""
    manifest, target = current(root), root / "indexes" / make_id()
    start = sum(each.rows for each in manifest.segments[:segment])
    ids = [f"{int(key):016x}" for key in Snapshot.open(root).lexical.key[start + np.array(rows)]]
    write_queries(target / KIND, np.array(rows, np.uint32), ids, asked)
    index = Index(target.name, KIND, (manifest.segments[segment].id,), describe_tree(root, target), {"model": "m"})
    publish(root, indexes=(*manifest.indexes, index))
    return Snapshot.open(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_store(tmp_path / "s", TEXTS, cuts=(2,), deleted={1: [1]})
    return tmp_path / "s"


def test_the_field_is_that_of_the_rows_that_were_asked_about(root: Path) -> None:
    assert Snapshot.open(root).lexical.expansion is None
    write_index(root, 0, [1], [["who sings", "who sings loudly"]])
    write_index(root, 1, [0, 1], [[], ["who is gone"]])
    snapshot = write_index(root, 0, [0], [["sings nobody"]])
    field = snapshot.lexical.expansion
    assert field is not None
    # Row 3 is deleted; row 2 was asked about, in vain.
    assert (field.live, field.rows) == (3, 4)
    assert field.looked.tolist() == [True, True, True, False]
    lengths = [len(tokenise(t)) for t in ("sings nobody", "who sings\nwho sings loudly", "", "who is gone")]
    assert field.length.tolist() == lengths
    assert field.mean_length == pytest.approx(sum(lengths[:3]) / 3)
    (sings,) = hash_terms(tokenise("sings")).tolist()
    ((start, rows, tf),) = field.term(np.uint64(sings))
    assert (start, rows.tolist(), tf.tolist()) == (0, [0, 1], [1, 2])  # ascending, out of two indexes
    assert field.df(np.uint64(sings)) == 2
    (gone,) = hash_terms(tokenise("gone")).tolist()
    assert field.term(np.uint64(gone)) == []
    expected = [["who sings", "who sings loudly"], [], ["sings nobody"], ["who is gone"]]
    assert field.questions_of(np.array([1, 2, 0, 3])) == expected


def test_its_bm25_is_that_of_the_questions_alone(root: Path) -> None:
    snapshot = write_index(root, 0, [0, 1], [["sings nobody"], ["who sings", "who sings loudly"]])
    field = snapshot.lexical.expansion
    assert field is not None
    query = make_query("sings", snapshot, Settings())
    score = score_expansion(np.arange(4), query, field, profiles.load("helix"))
    length = field.length[:2]
    by_hand = compute_idf(2, 2) * saturate_tf(np.array([1, 2], np.float32), length, float(length.mean()), 0.9, 0.6)
    assert score[:2] == pytest.approx(by_hand)
    assert score[2:].tolist() == [0, 0]
    leg = search_lexical(query, field, route(query, None, snapshot), 5, 0.9, 0.6, "doc2query")
    assert leg.name == "doc2query"
    assert sorted(leg.rows.tolist()) == [0, 1]
    assert leg.scores.tolist() == pytest.approx(sorted(by_hand.tolist(), reverse=True))


def test_an_item_is_found_by_a_question_it_shares_no_word_with(root: Path) -> None:
    snapshot = write_index(root, 0, [1], [["who repairs violins"]])
    query = make_query("violins", snapshot, Settings())
    found = recall(query, snapshot, profiles.load("helix"), Trace(), Rerankers(Settings()))
    assert found.items[0].text == "gamma delta"
    why = found.items[0].why
    assert (why["doc2query"], why["bm25"], why["queries"]) == (1, None, ["who repairs violins"])
    off = profiles.load("helix")
    off = replace(off, retrieve=replace(off.retrieve, doc2query=0))
    assert not recall(query, snapshot, off, Trace(), Rerankers(Settings())).items


def read_queries(root: Path) -> list[tuple[str, list[str]]]:
    with run_statement(root, "SELECT text, queries FROM items ORDER BY text") as found:
        return list(found.rows)


def test_a_merge_carries_the_questions_of_the_living_over(root: Path) -> None:
    write_index(root, 0, [1], [["who repairs violins"]])
    before = write_index(root, 1, [0, 1], [["what is zeta"], ["who is gone"]])
    assert before.lexical.expansion is not None
    expected = [("alpha beta", []), ("epsilon zeta", ["what is zeta"]), ("gamma delta", ["who repairs violins"])]
    assert read_queries(root) == expected
    compact(root, Settings(), full=True)
    after = Snapshot.open(root)
    assert after.lexical.expansion is not None
    assert after.manifest is not None
    mine = [index for index in after.manifest.indexes if index.kind == KIND]
    assert len(mine) == 1
    assert mine[0].covers == (after.manifest.segments[0].id,)
    assert after.lexical.expansion.looked.tolist() == [False, True, True]
    assert after.lexical.expansion.questions_of(np.arange(3)) == [[], ["who repairs violins"], ["what is zeta"]]
    assert open_queries(root, mine[0]).rows.tolist() == [1, 2]
    assert read_queries(root) == expected


def test_questions_written_during_a_merge_are_copied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_index(root, 0, [1], [["who repairs violins"]])
    at = []

    def interfere(name: str) -> None:
        if name == "compact.merged" and not at:
            at.append(name)
            write_index(root, 0, [0], [["what is alpha"]])

    monkeypatch.setattr("pipelines.maintain.compact.failpoint", interfere)
    compact(root, Settings(), full=True)
    assert at
    after = Snapshot.open(root)
    assert after.lexical.expansion is not None
    assert after.lexical.expansion.questions_of(np.arange(3)) == [["what is alpha"], ["who repairs violins"], []]
