"""Titles in running text: hashes of runs of terms, and the documents of a store they find."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features.linked import find_titled
from helix.text.titles import MAX_TERMS, build_key_filter, find_title_runs, hash_title, hash_titles
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import U32
from tests.support.tiny import make_store

BASE = 0x9E3779B97F4A7C15


def ids(text: str) -> U32:
    return shorten_ids(hash_terms(tokenise(text)))


def naive_hash(terms: list[int]) -> int:
    """Compute the formula of the module in unbounded integers."""
    return sum((term + 1) * BASE ** (i + 1) for i, term in enumerate(terms)) % 2**64


TERMS = st.lists(st.one_of(st.integers(0, 3), st.sampled_from([2**32 - 1, 2**31])), max_size=14)


@given(st.lists(TERMS, max_size=3))
def test_every_run_has_its_hash(texts: list[list[int]]) -> None:
    of = np.repeat(np.arange(len(texts)), [len(terms) for terms in texts])
    key, start, size = find_title_runs(of, np.array([*chain(*texts)], np.uint32), np.full(1 << 17, 255, np.uint8))
    naive = [
        (naive_hash(terms[begin : begin + count]), sum(map(len, texts[:i])) + begin, count)
        for i, terms in enumerate(texts)
        for begin in range(len(terms))
        for count in range(1, min(MAX_TERMS, len(terms) - begin) + 1)
    ]
    assert list(zip(key.tolist(), start.tolist(), size.tolist(), strict=True)) == naive


@given(TERMS, st.sets(st.integers(0, 13)))
def test_only_runs_that_may_be_titles(terms: list[int], begin: set[int]) -> None:
    """The filter passes all wanted runs, and others with the same lowest bits."""
    wanted = [naive_hash(terms[i : i + 3]) for i in sorted(begin) if i < len(terms)]
    key, _, _ = find_title_runs(
        np.zeros(len(terms), np.int64), np.array(terms, np.uint32), build_key_filter(np.array(wanted, np.uint64))
    )
    assert set(key.tolist()) >= set(wanted)
    assert {one % (1 << 20) for one in key.tolist()} == {one % (1 << 20) for one in wanted}


@given(TERMS)
def test_a_title_and_its_run_have_one_hash(terms: list[int]) -> None:
    found = hash_title(np.array(terms, np.uint32))
    assert found == (naive_hash(terms) if 0 < len(terms) <= MAX_TERMS else None)


def test_the_hash_of_two_terms_by_hand() -> None:
    assert hash_title(np.array([0], np.uint32)) == BASE
    assert hash_title(np.array([1, 0], np.uint32)) == (2 * BASE + BASE * BASE) % 2**64
    assert hash_title(np.array([0, 1], np.uint32)) == (BASE + 2 * BASE * BASE) % 2**64  # order counts


def test_only_documents_have_titles() -> None:
    nine = " ".join(f"word{i}" for i in range(9))
    titles = ["Alien (film)", None, "", "Red Hen", "Red Hen", "The", nine, "Alien (film)", "A (b) c", "(film)"]
    roles = ["document"] * 4 + ["user"] + ["document"] * 5
    key, row = hash_titles(titles, roles)
    assert (key.dtype, row.dtype) == (np.uint64, np.int64)
    wanted = {
        (naive_hash(ids("alien film").tolist()), 0),
        (naive_hash(ids("alien").tolist()), 0),
        (naive_hash(ids("red hen").tolist()), 3),
        (naive_hash(ids("alien film").tolist()), 7),
        (naive_hash(ids("alien").tolist()), 7),
        (naive_hash(ids("b c").tolist()), 8),  # "a" is no term; an aside is at the end
        (naive_hash(ids("film").tolist()), 9),  # nothing is left without the aside
    }
    assert set(zip(key.tolist(), row.tolist(), strict=True)) == wanted
    assert len(key) == len(wanted)
    assert [len(array) for array in hash_titles([], [])] == [0, 0]


def test_a_long_title_takes_linear_time() -> None:
    titles = ["(" * 100_000, " " * 100_000 + "x", "a " * 50_000, "( " * 50_000, "x ()" + " " * 100_000 + "y"]
    start = time.thread_time()
    key, row = hash_titles(titles, ["document"] * len(titles))
    assert time.thread_time() - start < 10
    assert row.tolist() == [1, 4]
    assert set(key.tolist()) == {naive_hash(ids(text).tolist()) for text in ("x", "x y")}


# ---------------------------------------------------------------- in a store


def documents(folder: Path, titles: list[str | None], texts: list[str], **more: Any) -> Snapshot:
    given = [{"title": title, "role": "document", "session": f"d{i}"} for i, title in enumerate(titles)]
    return make_store(folder, texts, given=given, **more)


TITLES = ["Alien (film)", "Red Hen", "Red Hen", "Walnut", "Oslo Opera House", "Red Hen Farm"]


@pytest.fixture(scope="module")
def snap(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Six documents in three segments, the second "Red Hen" deleted."""
    texts = ["a monster in space", "it lays red eggs", "it is gone", "walnut a", "arias walnut", "hay walnut"]
    return documents(tmp_path_factory.mktemp("titles"), [*TITLES], texts, cuts=(2, 4), deleted={1: [0]})


def find_documents(text: str, snap: Snapshot, df: int = 50) -> list[int]:
    return find_titled(ids(text), snap, df).tolist()


def test_a_text_finds_the_documents_it_names(snap: Snapshot) -> None:
    assert find_documents("who made the film Alien", snap) == [0]
    assert find_documents("the Alien films", snap) == [0]  # stemmed; the aside is a part of the whole title
    assert find_documents("a hen, red", snap) == []
    assert find_documents("a red, hen", snap) == [1]  # characters between words do not matter
    assert find_documents("Red Hen Farm", snap) == [1, 5]
    assert find_documents("the Oslo opera", snap) == []
    assert find_documents("of the Oslo Opera House and of Aliens", snap) == [0, 4]
    assert find_documents("", snap) == []
    assert find_documents("nothing of that kind", snap) == []


def test_a_title_of_one_word_is_no_common_word(snap: Snapshot) -> None:
    """Three items contain "walnut". A title of two words is found whatever the bound."""
    assert find_documents("walnut", snap, df=3) == [3]
    assert find_documents("walnut", snap, df=2) == []
    assert find_documents("walnut of the red hen", snap, df=0) == [1]
    (walnut,) = ids("walnut")
    assert snap.lexical.short_df(walnut) == 3
    assert snap.lexical.short_df(np.uint32(12345)) == 0


def test_a_short_id_counts_every_term_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The highest short id has no successor to search for."""
    high, other = 0xFFFFFFFF << 32, 7 << 32
    hashes = {"walnut": high, "parsley": high | 0xFFFFFFFF, "saffron": other | 5, "redis": other + (1 << 32)}
    made = lambda terms: np.array([hashes[term] for term in terms], np.uint64)  # noqa: E731
    monkeypatch.setattr("pipelines.ingest.part.hash_terms", made)
    monkeypatch.setattr("pipelines.ingest.part.tokenise", lambda text, language: text.split())
    snap = make_store(tmp_path, ["walnut parsley", "parsley saffron", "redis"], cuts=(1,))
    assert snap.lexical.short_df(np.uint32(0xFFFFFFFF)) == 3
    assert snap.lexical.short_df(np.uint32(7)) == 1
    assert snap.lexical.short_df(np.uint32(8)) == 1
    assert snap.lexical.short_df(np.uint32(9)) == 0


def test_only_the_keys_of_a_store_are_found(snap: Snapshot) -> None:
    keys = np.array([hash_title(ids(text)) for text in ("red hen", "absent", "oslo opera house", "red hen")], np.uint64)
    at, rows = snap.lexical.find_titled(keys)
    assert sorted(zip(at.tolist(), rows.tolist(), strict=True)) == [(0, 1), (2, 4), (3, 1)]
    assert [len(found) for found in snap.lexical.find_titled(np.empty(0, np.uint64))] == [0, 0]
    ends = np.array([0, 2**64 - 1], np.uint64)
    assert [len(found) for found in snap.lexical.find_titled(ends)] == [0, 0]


def test_many_documents_of_one_title(tmp_path: Path) -> None:
    snap = documents(tmp_path, ["Notes on Yeast"] * 40, [f"section {i}" for i in range(40)], cuts=(7, 30))
    assert find_documents("my notes on yeast", snap) == list(range(40))
