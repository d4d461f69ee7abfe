"""Marking near-duplicates: the earliest item is the original, none is dropped, and boilerplate stays cheap."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from helix.enrich.neardup import compute_signatures, estimate_jaccard
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import BANDS, hash_bands
from helix.snapshot.segment.batch import hash_parts
from pipelines.embedded.ingest import ingest
from pipelines.ingest import dedupe as near
from pipelines.ingest.dedupe import NEAR, mark_near_duplicates
from tests.support.tiny import make_store

WORDS = [f"word{i}" for i in range(400)]


def prose(seed: int, words: int = 40) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def change_words(text: str, *places: int) -> str:
    """Return the text with another word at each of these places: two shingles fewer in common."""
    words = text.split()
    for place in places:
        words[place] = "another"
    return " ".join(words)


def keys(*names: str) -> np.ndarray:
    return np.array([int(hash_parts(name), 16) for name in names], np.uint64)


def store(
    tmp_path: Path, texts: list[str], names: list[str], cuts: list[int], dead: dict[int, list[int]] | None = None
):
    given = [{"id": hash_parts(name)} for name in names]
    return make_store(tmp_path / "s", texts, given=given, cuts=cuts, deleted=dead)


def marks(new: list[str], names: list[str], snapshot: Snapshot | None = None) -> list[int]:
    if snapshot is None:
        return mark_near_duplicates(keys(*names), compute_signatures(new), [], []).tolist()
    alive = np.split(snapshot.alive, snapshot.files.starts[1:])
    return mark_near_duplicates(keys(*names), compute_signatures(new), snapshot.files.segments, alive).tolist()


def test_the_earliest_item_of_a_commit_is_the_original() -> None:
    a, b = prose(1), prose(2)
    texts = [a, b, change_words(a, 0), a, change_words(b, 39), prose(3)]
    key = keys(*"abcdef").tolist()
    assert marks(texts, list("abcdef")) == [0, 0, key[0], key[0], key[1], 0]


def test_published_items_precede_new_ones(tmp_path: Path) -> None:
    a, b = prose(1), prose(2)
    snapshot = store(tmp_path, [b, a, change_words(a, 39)], ["p", "q", "r"], cuts=[1, 2])
    assert marks([change_words(a, 0), a, b, prose(4)], list("wxyz"), snapshot) == [*keys("q", "q", "p").tolist(), 0]


def test_a_deleted_row_is_no_original(tmp_path: Path) -> None:
    a = prose(1)
    snapshot = store(tmp_path, [a, prose(2), a], ["p", "q", "r"], cuts=[2], dead={0: [0]})
    assert marks([a], ["x"], snapshot) == keys("r").tolist()


def test_a_changed_item_is_no_copy_of_itself(tmp_path: Path) -> None:
    a = prose(1)
    snapshot = store(tmp_path, [a, change_words(a, 0)], ["p", "q"], cuts=[1])
    assert marks([change_words(a, 39)], ["p"], snapshot) == keys("q").tolist()
    assert marks([change_words(a, 39)], ["q"], snapshot) == keys("p").tolist()
    alone = store(tmp_path / "alone", [a], ["p"], cuts=[])
    assert marks([change_words(a, 39)], ["p"], alone) == [0]


def test_unlike_texts_are_not_marked() -> None:
    a = prose(1)
    half = change_words(a, *range(20, 40))
    assert marks([a, half, *[prose(i) for i in range(2, 60)]], [str(i) for i in range(60)]) == [0] * 60
    assert marks([], []) == []


def test_near_duplicates_are_marked_and_not_dropped(tmp_path: Path, cache: Path) -> None:
    a = prose(1)
    log = tmp_path / "log.jsonl"
    for i, texts in enumerate([[a, prose(2), change_words(a, 0)], [prose(3), change_words(a, 39)]]):
        lines = [{"session": f"s{i}", "id": f"t{j}", "text": text} for j, text in enumerate(texts)]
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        ingest(tmp_path / "s", [log], load())
    snapshot = Snapshot.open(tmp_path / "s")
    assert snapshot.live == 5
    first = int(snapshot.columns.key[0])
    assert snapshot.columns.near.tolist() == [0, 0, first, 0, first]
    items = [
        entry
        for segment in (tmp_path / "s" / "segments").iterdir()
        for entry in pq.read_table(segment / "items.parquet").to_pylist()
    ]
    assert sorted(str(entry["near"]) for entry in items) == sorted(["None"] * 3 + [f"{first:016x}"] * 2)


@pytest.mark.parametrize("seed", range(5))
def test_marks_equal_a_comparison_of_every_pair(seed: int, tmp_path: Path, monkeypatch) -> None:
    """Pairs without a common band are missed: 2 in 10,000 pairs at 0.8."""
    monkeypatch.setattr(near, "_FIRST", 1_000)
    rng = random.Random(seed)
    originals = [prose(100 * seed + i, rng.randint(15, 60)) for i in range(12)]

    def draw_texts(n: int) -> list[str]:
        chosen = [rng.choice(originals) for _ in range(n)]
        return [change_words(text, *rng.sample(range(15), rng.randint(0, 2))) for text in chosen]

    published, new = draw_texts(60), draw_texts(40)
    names = [str(i) for i in range(100)]
    dead = {0: rng.sample(range(20), 4), 2: rng.sample(range(20), 3)}
    snapshot = store(tmp_path, published, names[:60], cuts=[20, 40], dead=dead)
    found = marks(new, names[60:], snapshot)

    theirs, ours = compute_signatures(published), compute_signatures(new)
    bands = [set(enumerate(column)) for column in hash_bands(np.concatenate([theirs, ours])).T.tolist()]
    expected = []
    for i, shares in enumerate(estimate_jaccard(ours, np.concatenate([theirs, ours])).tolist()):
        before = [j for j in range(60 + i) if j >= 60 or snapshot.alive[j]]
        like = [j for j in before if shares[j] >= NEAR and bands[j] & bands[60 + i]]
        expected.append(int(keys(names[like[0]])[0]) if like else 0)
    assert found == expected
    assert 10 < sum(key != 0 for key in found) < 40
    unseen = sum(
        shares[j] >= NEAR and not bands[j] & bands[60 + i]
        for i, shares in enumerate(estimate_jaccard(ours, theirs).tolist())
        for j in range(60)
    )
    assert unseen == 0


def test_boilerplate_repeated_a_thousand_times_is_quick() -> None:
    """Every item shares every band: a million pairs, of which a few thousand are compared."""
    rows = np.repeat(compute_signatures([prose(1)]), 1_000, axis=0)
    names = np.arange(1, 1_001, dtype=np.uint64)
    began = time.thread_time()
    found = mark_near_duplicates(names, rows, [], [])
    seconds = time.thread_time() - began
    assert found.tolist() == [0, *[1] * 999]
    assert seconds < 8
    bands, order = hash_bands(rows), np.tile(np.arange(1_000, dtype=np.uint32), (BANDS, 1))
    assert len(near._find_shared(bands, bands, order, np.ones(1_000, bool))[0]) == 1_000 * near._FIRST


def test_boilerplate_points_at_its_earliest_live_copy(tmp_path: Path) -> None:
    names = [str(i) for i in range(31)]
    snapshot = store(tmp_path, [prose(1)] * 30, names[:30], cuts=[30], dead={0: list(range(20))})
    assert marks([prose(1)], names[30:], snapshot) == [int(keys(names[20])[0])]
