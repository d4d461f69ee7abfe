"""A merge of segments equals one write of the same rows, array by array."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.neardup import compute_signatures
from helix.snapshot import paths
from helix.snapshot.checked_arrays import map_ipc, map_npy
from helix.snapshot.manifest import Segment, describe_tree
from helix.snapshot.segment import write
from helix.snapshot.segment.batch import RowBatch, concat_rows
from helix.snapshot.segment.layout import ARRAYS, COLUMNS, FACT_NUMBERS, FACT_TEXT, OPTIONAL, TEXT
from helix.snapshot.segment.merge import merge_rows
from helix.snapshot.segment.open import open_segment
from helix.snapshot.segment.write import write_segment
from helix.text.cues import FIRST_PERSON
from helix.text.titles import hash_titles
from pipelines.ingest.part import build_rows
from tests.support.draws import draw_share
from tests.support.tiny import BASE, fact, make_store, record

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

DIM = 8

WORDS = (
    *("walnut", "parsley", "saffron", "redis", "queue", "TimeoutError", "src/app.py"),
    *("Priya", "in the", "東京", "my", "?"),
)
NAMES = (("name", "priya", "Priya"), ("path", "src/app.py", "src/app.py"), ("error", "timeouterror", "TimeoutError"))

ITEM = st.fixed_dictionaries(
    {
        "words": st.lists(st.sampled_from(WORDS), max_size=6),
        "session": st.sampled_from(["s1", "s2", "s3"]),
        "ord": st.integers(0, 3),  # positions repeat: every log counts its own
        "project": st.sampled_from(["p", "q", "r"]),
        "speaker": st.sampled_from([None, "Ana", "Bo"]),
        "role": st.sampled_from(["user", "document"]),
        "title": st.sampled_from([None, "Walnut", "Walnut (herb)", "Parsley Queue"]),
        "type": st.sampled_from(["episodic", "decision"]),
        "acl": st.lists(st.sampled_from(["team", "boss"]), max_size=2, unique=True),
        "time": st.sampled_from([BASE, None]),
        "mentions": st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
        "links": st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=3),
        "facts": st.lists(st.sampled_from([("ana", "lives_in", "rome"), ("bo", "likes", "figs")]), max_size=2),
        "kept": st.booleans(),
    }
)
BATCHES = st.lists(st.lists(ITEM, min_size=1, max_size=6), min_size=1, max_size=4)


def make_rows(items: Sequence[dict[str, Any]], first: int, rng: np.random.Generator) -> RowBatch:
    texts = [" ".join(item["words"]) for item in items]
    vectors = rng.normal(size=(len(items), DIM)).astype(np.float32)
    vectors[rng.random(len(items)) < 0.1] = 0
    records = [record(first + i, texts[i], {**item, "turn": f"t{first + i}"}) for i, item in enumerate(items)]
    stated = rng.normal(size=(sum(len(item["facts"]) for item in items), DIM)).astype(np.float32)
    stated[rng.random(len(stated)) < 0.1] = 0  # without a vector
    return build_rows(
        records,
        texts,
        [item["mentions"] for item in items],
        vectors,
        compute_signatures(texts),
        links=[item["links"] for item in items],
        facts=[[fact(one, *parts) for parts in item["facts"]] for one, item in zip(records, items, strict=True)],
        fact_vectors=stated if rng.random() < 0.7 else None,
    )


def check(batches: list[list[dict[str, Any]]], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *map(len, batches)]).tolist()
    rows = [make_rows(items, start, rng) for items, start in zip(batches, starts, strict=False)]
    keep = [np.array([item["kept"] for item in items], bool) for items in batches]
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        paths.create_folders(root)
        segments = [write_segment(root, part, exact=True) for part in rows]
        sources = [(open_segment(root, segment, dim=DIM), kept) for segment, kept in zip(segments, keep, strict=True)]
        merged = root / "merged"
        merged.mkdir()
        n = merge_rows(root, sources, merged)
        assert n == sum(map(np.count_nonzero, keep))
        if not n:
            return  # nothing is written of no rows; that nothing fails is enough
        whole = write_segment(root, concat_rows(rows).take(np.flatnonzero(np.concatenate(keep))), exact=True)
        same(root, merged, root / "segments" / whole.id)
        # What was merged opens as a segment, too.
        merged.rename(root / "segments" / "merged")
        again = open_segment(root, Segment("merged", n, describe_tree(root, root / "segments" / "merged")), dim=DIM)
        assert again.facts.num_rows == sum(len(one["facts"]) for items in batches for one in items if one["kept"])
        assert again.texts(np.arange(n)) == open_segment(root, whole, dim=DIM).texts(np.arange(n))


def same(root: Path, merged: Path, whole: Path) -> None:
    assert {path.name for path in merged.iterdir()} == {path.name for path in whole.iterdir()}
    there = {path.stem for path in merged.iterdir()}
    for name in (name for name in ARRAYS if name in there or name not in OPTIONAL):
        a, b = (map_npy(folder / f"{name}.npy", ARRAYS[name]) for folder in (merged, whole))
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        if name == "vectors.sum":
            np.testing.assert_allclose(a, b, atol=1e-9)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
    texts = ("facts.text.arrow",) if "facts.text" in there else ()
    schemas = {"columns.arrow": COLUMNS, "text.arrow": TEXT, "facts.arrow": FACT_NUMBERS, "facts.text.arrow": FACT_TEXT}
    for name in ("columns.arrow", "text.arrow", "facts.arrow", *texts):
        a, b = (pa.Table.from_batches(map_ipc(folder / name, schemas[name], full=True)) for folder in (merged, whole))
        assert a.schema == b.schema, name
        assert a.to_pylist() == b.to_pylist(), name
    assert len(map_ipc(merged / "columns.arrow", COLUMNS)) == 1
    assert pq.read_table(merged / "facts.parquet").to_pylist() == pq.read_table(whole / "facts.parquet").to_pylist()
    for name in ("project", "speaker"):  # a dictionary knows the words of its rows and no other
        (batch,) = map_ipc(merged / "columns.arrow", COLUMNS)
        assert sorted(batch[name].dictionary.to_pylist()) == sorted(set(batch[name].to_pylist()) - {None})
    a, b = pq.read_table(merged / "items.parquet"), pq.read_table(whole / "items.parquet")
    assert a.schema == b.schema
    assert a.to_pylist() == b.to_pylist()
    a, b = pq.read_table(merged / "entities.parquet"), pq.read_table(whole / "entities.parquet")
    assert a.schema == b.schema
    assert sorted(map(repr, a.to_pylist())) == sorted(map(repr, b.to_pylist()))
    assert edges(merged) == edges(whole)


def edges(folder: Path) -> Counter[tuple[Any, ...]]:
    table = pq.read_table(folder / "edges.parquet").to_pylist()
    return Counter((edge["src"], edge["kind"], edge["dst"], round(edge["weight"], 5)) for edge in table)


@draw_share(0.15)
@given(batches=BATCHES, seed=st.integers(0, 9))
def test_a_merge_equals_one_write_of_all_rows(batches: list[list[dict[str, Any]]], seed: int) -> None:
    check(batches, seed)


@draw_share(0.06)
@given(batches=BATCHES)
def test_a_store_reads_the_same_in_any_number_of_segments(batches: list[list[dict[str, Any]]]) -> None:
    """Compare order of terms, cues and titles, with deleted rows and without them."""
    items = [item for batch in batches for item in batch]
    kept = [item for item in items if item["kept"]]
    texts = [" ".join(item["words"]) for item in items]
    given = [{**item, "turn": f"t{i}"} for i, item in enumerate(items)]
    starts = np.cumsum([0, *map(len, batches)]).tolist()
    gone = {k: [i for i, item in enumerate(batch) if not item["kept"]] for k, batch in enumerate(batches)}
    vectors = np.ones((len(items), 2), np.float32)
    with tempfile.TemporaryDirectory() as work:
        cut = make_store(Path(work) / "cut", texts, vectors, given, cuts=starts[1:-1], deleted=gone)
        still = [(text, values) for text, values, item in zip(texts, given, items, strict=True) if item["kept"]]
        whole = make_store(Path(work) / "whole", [t for t, _ in still], vectors[: len(kept)], [s for _, s in still])
        rows = np.flatnonzero(cut.alive)
        place = {row: i for i, row in enumerate(rows.tolist())}
        every = np.arange(len(kept))
        for i in every.tolist():
            mine, theirs = cut.lexical.order_of(rows[i : i + 1]), whole.lexical.order_of(every[i : i + 1])
            assert mine[1].tolist() == theirs[1].tolist()
        assert cut.lexical.cues(rows).tolist() == whole.lexical.cues(every).tolist()
        assert cut.catalog.speaker_names.keys() - {None} == {cut.projects.index(item["project"]) for item in kept}
        assert cut.lexical.mean_window_length == pytest.approx(whole.lexical.mean_window_length)
        keys = np.unique(hash_titles([item["title"] for item in items], [item["role"] for item in items])[0])
        (at, found), (at_whole, found_whole) = cut.lexical.find_titled(keys), whole.lexical.find_titled(keys)
        moved = [place[row] for row in found.tolist()]  # KeyError: a deleted one was found
        assert sorted(zip(at.tolist(), moved, strict=True)) == sorted(
            zip(at_whole.tolist(), found_whole.tolist(), strict=True)
        )


@draw_share(0.03)
@given(batches=BATCHES)
def test_the_size_of_the_blocks_does_not_matter(batches: list[list[dict[str, Any]]]) -> None:
    with mock.patch.object(write, "BATCH", 2):
        check(batches)


def test_a_segment_of_an_earlier_release_is_merged(tmp_path: Path) -> None:
    """It lacks order of terms, cues and titles: they stay empty, and those of the others stay."""
    rng = np.random.default_rng(0)
    item = {"session": "s1", "mentions": [], "links": [], "facts": [], "role": "document"}
    old = make_rows([{**item, "words": ["walnut", "my"], "title": "Walnut"}, {**item, "words": ["redis"]}], 0, rng)
    new = make_rows([{**item, "words": ["redis", "walnut", "my"], "title": "Parsley Queue"}], 2, rng)
    paths.create_folders(tmp_path)
    first, second = write_segment(tmp_path, old), write_segment(tmp_path, new)
    late = ("order.", "cues", "titles.")
    less = replace(first, files=tuple(file for file in first.files if not Path(file.path).name.startswith(late)))
    assert len(first.files) - len(less.files) == 5
    (tmp_path / "merged").mkdir()
    keep = np.array([False, True])
    merge_rows(
        tmp_path,
        [(open_segment(tmp_path, less, dim=DIM), keep), (open_segment(tmp_path, second, dim=DIM), keep[1:])],
        tmp_path / "merged",
    )
    (tmp_path / "merged").rename(tmp_path / "segments" / "merged")
    found = open_segment(
        tmp_path, Segment("merged", 2, describe_tree(tmp_path, tmp_path / "segments" / "merged")), dim=DIM
    )
    assert found["order.indptr"].tolist() == [0, 0, 2]
    assert found["order.term"].tolist() == new.order_term.tolist()
    assert found["cues"].tolist() == [0, FIRST_PERSON]
    assert found["titles.row"].tolist() == [1]
    assert found["titles.key"].tolist() == hash_titles(["Parsley Queue"], ["document"])[0].tolist()
