"""Compaction: its policy by hand and over thousands of commits, and changes during a merge."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pipelines.maintain.compact as module
from helix.encoders.dense import Encoder
from helix.enrich.neardup import compute_signatures
from helix.settings import load
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.manifest import Deletes, File, Lineage, Manifest, Segment
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from helix.snapshot.writer import WriterLock
from pipelines.ingest.accept import accept
from pipelines.ingest.commit import commit, commit_rows
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import build_rows
from pipelines.maintain.compact import Conflict, _replace_segments, compact, merge_segments
from pipelines.maintain.merge_policy import plan_documents, plan_merge, tier
from tests.support.publishing import make_part
from tests.support.tiny import SETTINGS, make_store, record

NOBODY = WriterLock(Path("nowhere"), 1)


def manifest_of(rows: Sequence[int], dead: dict[int, int] | None = None, documents: Sequence[int] = ()) -> Manifest:
    """Return a generation of segments `0`, `1`, … with these rows; `dead` gives their deleted rows."""
    return Manifest(
        generation=1,
        parent=None,
        created="",
        lineage=Lineage("", "", 1, ""),
        segments=tuple(Segment(str(i), n, ()) for i, n in enumerate(rows)),
        deletes=tuple(Deletes(str(i), n, File("", 0, "")) for i, n in (dead or {}).items()),
        indexes=(),
        documents=tuple(File(str(i), 0, "", n) for i, n in enumerate(documents)),
        encoder=(),
        coverage={},
        counts={},
        token=1,
    )


def test_segments_are_in_tiers_by_size() -> None:
    by_rows = {0: 0, 1: 0, 1_023: 0, 1_024: 0, 8_191: 0, 8_192: 1, 65_535: 1, 65_536: 2, 524_287: 2, 524_288: 3}
    assert {rows: tier(rows) for rows in by_rows} == by_rows
    for power in range(7):  # exact at every border up to 2³² rows, whatever the logarithm rounds to
        assert (tier(1_024 * 8**power), tier(1_024 * 8**power - 1)) == (power, max(0, power - 1))


@pytest.mark.parametrize(
    ("rows", "dead", "chosen"),
    [
        ([], {}, []),
        ([5] * 7, {}, []),
        ([5] * 8, {}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ([5] * 9, {}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ([5] * 4 + [9_000] + [5] * 4, {}, [0, 1, 2, 3, 5, 6, 7, 8]),  # row order, without the one of another tier
        ([9_000] * 8 + [5] * 8, {}, range(8, 16)),  # the cheaper tier first
        ([9_000] * 7 + [8_192], {7: 1}, []),  # the deleted rows do not count: seven of tier 1 and one of tier 0
        ([8_000, *[5] * 7], {}, range(1, 8)),  # not the one that outweighs the others
        ([5] * 7 + [35], {}, range(8)),  # which this one does not
        ([5] * 7 + [36], {}, range(7)),
        ([3_000, 1_000, *[5] * 6], {}, range(2, 8)),
        ([1, 2, 4, 8, 16, 32, 64, 128], {}, [0, 1]),  # but always two
        ([8_000, *[5] * 7], {0: 7_970}, range(8)),  # the deleted rows do not count here either
        ([100, 100], {0: 24}, []),
        ([100, 100], {0: 25}, [0]),
        ([100, 50], {0: 100, 1: 13}, [1]),  # of those with a quarter deleted the smallest
        ([5] * 8, {0: 5}, [0, 1, 2, 3, 4, 5, 6, 7]),  # a full tier before a thinned-out segment
    ],
)
def test_the_cheapest_full_tier_is_merged_next(rows: list[int], dead: dict[int, int], chosen: Sequence[int]) -> None:
    assert plan_merge(manifest_of(rows, dead)) == [str(i) for i in chosen]


def test_document_tables_of_a_full_tier_are_merged_next() -> None:
    assert plan_documents(manifest_of([], documents=[1] * 7 + [9_000])) == []
    assert [file.path for file in plan_documents(manifest_of([], documents=[1] * 7 + [8]))] == list("0123456")
    assert [file.path for file in plan_documents(manifest_of([], documents=[1, 9_000, *[1] * 7]))] == list("02345678")


def simulate(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Run commits, each followed by a compaction; return (items, merges, rows written), checking their number."""
    manifest = manifest_of([])
    items = merges = written = 0
    for i, rows in enumerate(sizes):
        items += rows
        manifest = replace(manifest, segments=(*manifest.segments, Segment(f"c{i}", rows, ())))
        while chosen := plan_merge(manifest):
            total = sum(segment.rows for segment in manifest.segments if segment.id in chosen)
            merges, written = merges + 1, written + total
            merged = Segment(f"m{merges}", total, ())
            manifest = _replace_segments(manifest, "", NOBODY, set(chosen), merged, None, [])
        assert sum(segment.rows for segment in manifest.segments) == items
        assert len(manifest.segments) <= 7 * (2 + math.log(max(items, 1_024) / 1_024, 8))
    return items, merges, written


def sizes(kind: str, commits: int = 2_000) -> list[int]:
    rng = random.Random(7)
    choose: dict[str, Callable[[], int]] = {
        "equal": lambda: 1_024, "large": lambda: rng.randint(1_024, 30_000), "hundred": lambda: 100, "ten": lambda: 10,
        "one": lambda: 1, "mixed": lambda: int(2 ** rng.uniform(0, 15)),
    }  # fmt: skip
    return [choose[kind]() for _ in range(commits)]


@pytest.mark.parametrize("kind", ["equal", "large"])
def test_two_thousand_large_commits_leave_few_segments(kind: str) -> None:
    items, _, written = simulate(sizes(kind))
    tiers = tier(items) + 1
    assert written <= (tiers + 1) * items  # once a tier


@pytest.mark.parametrize(
    ("kind", "commits", "rewritten"),
    [("hundred", 2_000, 4), ("ten", 10_000, 8), ("one", 20_000, 12), ("mixed", 2_000, 4)],
)
def test_commits_of_any_size_leave_few_segments(kind: str, commits: int, rewritten: int) -> None:
    """Below 8,192 rows a segment is in tier 0: there the largest is left out."""
    items, merges, written = simulate(sizes(kind, commits))
    assert merges <= commits
    assert written <= rewritten * items


def live(snapshot: Snapshot) -> list[str]:
    return [entry["text"] for entry in snapshot.text(np.flatnonzero(snapshot.alive))]


def delete(root: Path, segment: str, rows: Sequence[int]) -> None:
    """Publish a generation with these rows deleted too."""
    with writer.acquire_lock(root, 1.0) as held:
        name = manifests.read_current(root)
        assert name is not None
        manifest = manifests.load(root, name)
        gone = {entry.segment: set(np.load(root / entry.file.path).tolist()) for entry in manifest.deletes}
        gone[segment] = gone.get(segment, set()) | set(rows)
        deletes = [writer.write_deletes(root, key, np.array(sorted(found), np.uint32)) for key, found in gone.items()]
        writer.publish_generation(held, writer.build_next(held, name, manifest, deletes=tuple(deletes)))


def during_the_merge(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Run something after the first merge is written and before it is published."""
    merge, waiting = module.merge_rows, [then]

    def slow(*arguments: object) -> int:
        rows = merge(*arguments)  # type: ignore[arg-type]
        if waiting:
            waiting.pop()()
        return rows

    monkeypatch.setattr(module, "merge_rows", slow)


TEXTS = [f"text number {i}" for i in range(12)]


def test_a_full_compaction_keeps_the_order_and_drops_the_dead(tmp_path: Path) -> None:
    before = make_store(tmp_path / "s", TEXTS, cuts=[3, 7], deleted={0: [1], 2: [0, 4]})
    kept = live(before)
    done = compact(tmp_path / "s", SETTINGS, full=True)
    assert (done.merged, done.segments, done.dropped) == (3, 1, 3)
    after = Snapshot.open(tmp_path / "s")
    assert live(after) == kept == [text for i, text in enumerate(TEXTS) if i not in (1, 7, 11)]
    assert after.rows == 9
    assert compact(tmp_path / "s", SETTINGS, full=True).generation == done.generation  # there is nothing left to do


def test_rows_deleted_during_a_merge_stay_deleted(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "s"
    before = make_store(root, TEXTS, cuts=[3, 7], deleted={0: [1]})
    assert before.manifest is not None
    first, _, third = (segment.id for segment in before.manifest.segments)

    def interfere() -> None:
        delete(root, first, [2])
        delete(root, third, [4])

    during_the_merge(monkeypatch, interfere)
    compact(root, SETTINGS, full=True)
    after = Snapshot.open(root)
    assert live(after) == [text for i, text in enumerate(TEXTS) if i not in (1, 2, 11)]
    assert after.manifest is not None
    (merged,) = after.manifest.segments
    (deletes,) = after.manifest.deletes
    assert (merged.rows, deletes.segment, deletes.rows) == (11, merged.id, 2)


def test_rows_deleted_during_a_merge_may_start_another(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "s"
    before = make_store(root, TEXTS, cuts=[3, 7])
    assert before.manifest is not None
    last = before.manifest.segments[2].id
    during_the_merge(monkeypatch, lambda: delete(root, last, [0, 1, 2]))
    done = compact(root, SETTINGS, full=True)
    assert (done.merged, done.dropped, done.segments) == (4, 3, 1)
    after = Snapshot.open(root)
    assert live(after) == [text for i, text in enumerate(TEXTS) if i not in (7, 8, 9)]
    assert after.rows == 9


def test_deletes_of_other_segments_are_unchanged_by_a_merge(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "s"
    before = make_store(root, TEXTS, cuts=[6], deleted={0: [0, 1]})
    assert before.manifest is not None
    thin, whole = (segment.id for segment in before.manifest.segments)
    during_the_merge(monkeypatch, lambda: delete(root, whole, [5]))
    compact(root, SETTINGS)  # rewrites the first segment only
    after = Snapshot.open(root)
    assert after.manifest is not None
    assert thin not in {segment.id for segment in after.manifest.segments}
    assert [(entry.segment, entry.rows) for entry in after.manifest.deletes] == [(whole, 1)]
    assert live(after) == TEXTS[2:11]


def test_a_segment_all_of_whose_rows_are_deleted_goes(tmp_path: Path) -> None:
    make_store(tmp_path / "s", TEXTS, cuts=[3], deleted={0: [0, 1, 2]})
    done = compact(tmp_path / "s", SETTINGS)
    assert (done.segments, done.dropped) == (1, 3)
    assert live(Snapshot.open(tmp_path / "s")) == TEXTS[3:]


def test_a_second_compaction_conflicts_and_plans_again(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "s"
    before = make_store(root, TEXTS, cuts=[3, 7], deleted={0: [1]})
    assert before.manifest is not None
    chosen = [segment.id for segment in before.manifest.segments]
    during_the_merge(monkeypatch, lambda: compact(root, SETTINGS, full=True))
    with pytest.raises(Conflict, match="changed while they were merged"):
        merge_segments(root, chosen, SETTINGS, "CURRENT")
    assert live(Snapshot.open(root)) == [text for i, text in enumerate(TEXTS) if i != 1]
    assert not list((root / "building").iterdir())
    assert verify_store(root).problems == verify_store(root).orphans == ()


def test_a_commit_during_a_merge_survives(tmp_path: Path, monkeypatch, encoder: Encoder) -> None:
    """It adds an item and replaces one of the merged rows."""
    root = tmp_path / "s"
    paths = [tmp_path / f"{i}.jsonl" for i in range(4)]
    for i, path in enumerate(paths):
        path.write_text(json.dumps({"session": "s", "id": f"t{i}", "text": f"talk {i} about bread"}) + "\n")
        take(root, path, encoder)
    lines = [{"session": "s", "id": "t1", "text": "talk 1 about salt"}, {"session": "s", "id": "t9", "text": "amen"}]
    paths[0].write_text("".join(json.dumps(line) + "\n" for line in lines))
    during_the_merge(monkeypatch, lambda: take(root, paths[0], encoder))
    compact(root, load(), full=True)
    after = Snapshot.open(root)
    talks = ["talk 0 about bread", "talk 2 about bread", "talk 3 about bread"]
    assert sorted(live(after)) == ["amen", *talks[:1], "talk 1 about salt", *talks[1:]]
    assert after.manifest is not None
    assert after.manifest.counts["items"] == 5
    assert verify_store(root).problems == ()


@pytest.fixture(scope="module")
def encoder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    root = tmp_path_factory.mktemp("encoder")
    (root / "inbox").mkdir()
    return open_encoder(root, load())


def take(root: Path, path: Path, encoder: Encoder) -> None:
    from helix.snapshot.paths import create_folders

    create_folders(root)
    document = accept(root, path, load()).documents[0]
    make_part(root, document, encoder, load())
    commit(root, encoder, load())


def cheap(n: int, first: int, dim: int) -> list[object]:
    """Return n items of random vectors, as one batch."""
    rng = np.random.default_rng(first)
    texts = [f"note {first + i} on {rng.integers(10**9)} and {rng.integers(10**9)}" for i in range(n)]
    given = [{"session": f"s{(first + i) // 20}", "turn": f"t{first + i}"} for i in range(n)]
    vectors = rng.normal(size=(n, dim)).astype(np.float32)
    records = [record(i, text, known) for i, (text, known) in enumerate(zip(texts, given, strict=True))]
    return [build_rows(records, texts, [[] for _ in texts], vectors, compute_signatures(texts))]


def test_a_commit_writes_only_new_rows(tmp_path: Path, encoder: Encoder) -> None:
    """The same commit on 300 items and on 3,000: one new item, one that replaces another."""
    small, large = tmp_path / "small", tmp_path / "large"
    log = tmp_path / "log.jsonl"
    for root, n in ((small, 300), (large, 3_000)):
        commit_rows(root, [*cheap(n, 0, encoder.dim)], encoder, load())  # type: ignore[list-item]
        log.write_text(json.dumps({"session": "s0", "id": "a", "text": "salt the bread"}) + "\n")
        take(root, log, encoder)
    lines = [{"session": "s0", "id": "a", "text": "salt the bread twice"}, {"session": "s0", "id": "b", "text": "good"}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = accept(small, log, load()).documents[0]
    part = make_part(small, document, encoder, load())
    shutil.copytree(part, large / "parts" / part.name)
    shutil.copy2(small / "inbox" / document, large / "inbox" / document)
    written = [new_bytes(root, lambda root=root: commit(root, encoder, load())) for root in (small, large)]
    assert written[0] == written[1]
    assert set(written[0]) == {"segments", "indexes", "documents", "deletes"}
    assert sum(written[0].values()) < 60_000  # 35 small files
    for root, n in ((small, 302), (large, 3_002)):
        name = manifests.read_current(root)
        assert name is not None
        assert manifests.load(root, name).counts["items"] == n


def new_bytes(root: Path, work: Callable[[], object]) -> dict[str, int]:
    """Return the bytes of the files that `work` made, by folder, without manifests, which grow with the segments."""

    def files() -> dict[Path, int]:
        return {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}

    before = files()
    work()
    out: dict[str, int] = {}
    for path, size in files().items():
        folder = path.relative_to(root).parts[0]
        if path not in before and folder not in ("manifests", "parts"):
            out[folder] = out.get(folder, 0) + size
    return out
