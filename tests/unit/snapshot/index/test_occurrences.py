"""Counts of terms and pairs, from the rows' lists or from the postings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.open import OpenSegment
from helix.text.tokenize import hash_terms, tokenise
from helix.types import U64
from tests.support.tiny import make_store

TEXTS = ["walnut bread", "bread", "walnut walnut bread walnut", "rye", "", "bread walnut rye bread"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("occurrences") / "s", TEXTS, cuts=(3,)).root


@pytest.fixture
def snap(root: Path) -> Snapshot:
    return Snapshot.open(root)


def terms(text: str) -> U64:
    return np.unique(hash_terms(tokenise(text)))


NONE = np.empty((2, 0), np.int64)


def count_terms(snap: Snapshot, rows: list[int], asked: U64) -> dict[tuple[int, int], int]:
    counts, _ = snap.lexical.occurrences(np.array(rows, np.int64), asked, NONE)
    assert counts.shape == (len(asked), len(rows))
    return {(at, term): int(counts[term, at]) for term, at in np.argwhere(counts).tolist()}


def by_hand(rows: list[int], asked: U64) -> dict[tuple[int, int], int]:
    found = Counter[tuple[int, int]]()
    for at, row in enumerate(rows):
        for term in hash_terms(tokenise(TEXTS[row])).tolist():
            if term in asked.tolist():
                found[at, asked.tolist().index(term)] += 1
    return dict(found)


def test_every_occurrence_and_only_adjacent_pairs_are_counted(snap: Snapshot) -> None:
    for text in ("walnut bread", "rye", "walnut absent", ""):
        for rows in ([0, 1, 2, 3, 4, 5], [5, 0, 2], [2, 2], []):
            assert count_terms(snap, rows, terms(text)) == by_hand(rows, terms(text)), (text, rows)
    asked = terms("walnut bread")
    walnut, bread = (asked.tolist().index(term) for term in hash_terms(["walnut", "bread"]))
    pairs = np.array([[walnut, bread, walnut], [bread, walnut, walnut]])
    _, follows = snap.lexical.occurrences(np.array([2, 5, 0, 1]), asked, pairs)
    assert follows.tolist() == [[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]  # in the last one "rye" is between


def change_arrays(snap: Snapshot, **arrays: np.ndarray) -> None:
    """Return the snapshot with other arrays in its first segment."""
    first: OpenSegment = snap.files.segments[0]
    snap.files.segments[0] = replace(first, arrays={**first.arrays, **arrays})


def test_a_segment_without_lists_is_looked_up_in_its_postings(snap: Snapshot) -> None:
    nothing = {"order.indptr": np.zeros(4, np.int64), "order.term": np.empty(0, np.uint32)}
    change_arrays(snap, **nothing)
    rows, asked = [0, 1, 2, 5], terms("walnut bread rye")
    assert count_terms(snap, rows, asked) == by_hand(rows, asked)
    _, follows = snap.lexical.occurrences(np.array([2, 0]), asked, np.array([[0, 1, 2], [1, 2, 0]]))
    assert not follows.any()  # postings have no positions


def test_terms_of_one_short_id_are_told_apart(snap: Snapshot) -> None:
    """Two other terms share the upper half of the hash of 'bread'."""
    bread = hash_terms(["bread"])[0]
    twin, stranger = bread ^ np.uint64(1), bread ^ np.uint64(2)
    keys, indptr = snap.files.segments[0]["terms.key"], snap.files.segments[0]["terms.indptr"]
    rows, tf = snap.files.segments[0]["terms.rows"], snap.files.segments[0]["terms.tf"]
    at = int(keys.searchsorted(twin))
    place = int(indptr[at])  # the twin is once in row 1
    change_arrays(
        snap,
        **{
            "terms.key": np.insert(keys, at, twin),
            "terms.indptr": np.insert(indptr, at, place) + (np.arange(len(indptr) + 1) > at),
            "terms.rows": np.insert(rows, place, 1).astype(np.uint32),
            "terms.tf": np.insert(tf, place, 1).astype(np.uint16),
        },
    )
    asked = np.sort(np.array([bread, twin, stranger], np.uint64))
    found = count_terms(snap, [0, 1, 2], asked)
    of = {int(term): i for i, term in enumerate(asked.tolist())}
    assert {at for at, term in found if term == of[int(bread)]} == {0, 1, 2}
    assert {at for at, term in found if term == of[int(twin)]} == {1}
    assert {at for at, term in found if term == of[int(stranger)]} == set()


def test_a_view_counts_for_itself(tmp_path: Path) -> None:
    snap = make_store(tmp_path / "s", TEXTS, given=[{"acl": ["ana"]} if i == 2 else {} for i in range(6)])
    walnut = hash_terms(["walnut"])[0]
    for _ in range(2):
        views = (snap, snap.seen_by("ana"), snap.seen_by(None))
        assert [view.lexical.df(walnut) for view in views] == [3, 3, 2]
