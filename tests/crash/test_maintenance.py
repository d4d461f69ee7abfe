"""kill -9 at every step of compact, forget, reindex, gc and rollback, and races between them.

The store stays whole, a reader sees the old generation or the new one, no accepted document is lost, and the next run
finishes the interrupted one.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pipelines.ingest.commit as commits
import pipelines.maintain.compact as compact_jobs
import pipelines.maintain.reindex as reindex_jobs
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.enrich.chunk import chunk
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.gc import collect_garbage
from helix.snapshot.index import dense
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.manifest import read_current
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment import merge as merges
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept import accept
from pipelines.ingest.part import pipeline_fingerprint
from pipelines.maintain import merge_policy
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget, resume
from pipelines.maintain.rollback import rollback
from pipelines.maintain.touch import touch
from tests.crash.test_damage import flip
from tests.crash.test_kill import write_log
from tests.support.marks import kill_in_turn, soak_all_but
from tests.support.processes import list_processes, wait_until
from tests.support.publishing import make_part, make_serially, publish_log
from tests.support.tiny import list_faults, list_ids
from tests.support.walk import decode, read_all

# Children are forked from a server with all imports and no threads: a kill costs milliseconds.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__, "pytest", "faiss"])

Work = Callable[..., object]


def _child(work: Work, point: str, arguments: tuple[Any, ...]) -> None:
    os.environ["HELIX_FAILPOINT"] = point
    work(*arguments)


def start(work: Work, *arguments: object, point: str = "") -> ForkServerProcess:
    """Run `work` in a process of its own, which dies at the failpoint `point`."""
    process = CONTEXT.Process(target=_child, args=(work, point, arguments), daemon=True)  # ends with a failed test
    process.start()
    return process


def end(process: ForkServerProcess, status: int = 0) -> None:
    process.join(240)  # an encoder is exported in a minute on a busy machine
    assert process.exitcode == status, "see the traceback on stderr"


def kill(point: str, work: Work, *arguments: object) -> None:
    end(start(work, *arguments, point=point), -signal.SIGKILL)


def forget_session(root: Path, settings: Settings, session: str) -> None:
    forget(root, Selection(session=session), settings)


def compact_with_indexes(root: Path, settings: Settings) -> None:
    dense.INDEXED_ROWS = 8
    compact(root, settings)


def reindex(root: Path, settings: Settings, encoder: str = "", at_swap: str = "") -> None:
    """Reindex in one process; `at_swap` names a failpoint that counts from the swap on."""
    swap = reindex_jobs.swap

    def arm_and_swap(root: Path, settings: Settings) -> Any:
        os.environ["HELIX_FAILPOINT"] = at_swap
        return swap(root, settings)

    reindex_jobs.swap = arm_and_swap
    try:
        reindex_jobs.reindex(root, settings, encoder, work=make_serially)
    finally:
        reindex_jobs.swap = swap


def pause(began: Path, go: Path, amid: str) -> Callable[..., None]:
    """Return a failpoint that touches `began` and waits for `go`, once, at the step `amid`."""

    def wait(here: str, *_: object) -> None:
        if here == amid and not began.exists():
            began.touch()
            wait_until(60, go.exists)

    return wait


def compact_slowly(root: Path, settings: Settings, began: Path, go: Path, amid: str) -> None:
    """Compact with a pause after planning, or at a failpoint."""
    plan, wait = merge_policy.plan_merge, pause(began, go, amid)

    def plan_and_wait(manifest: Any) -> list[str]:
        chosen = plan(manifest)
        wait("plan")
        return chosen

    merge_policy.plan_merge, compact_jobs.failpoint, merges.failpoint = plan_and_wait, wait, wait
    compact(root, settings)


def reindex_slowly(root: Path, settings: Settings, began: Path, go: Path, amid: str) -> None:
    """Reindex with a pause at a failpoint."""
    reindex_jobs.failpoint = commits.failpoint = pause(began, go, amid)
    reindex(root, settings)


@contextlib.contextmanager
def pause_work(work: Work, root: Path, settings: Settings, amid: str) -> Iterator[None]:
    """Run `work` in a process that pauses at `amid` during the block, and ends after it."""
    began, go = root.with_name("began"), root.with_name("go")
    process = start(work, root, settings, began, go, amid)
    wait_until(60, began.exists)
    yield
    go.touch()
    end(process)


LONG = " ".join(f"word{i} is said here." for i in range(20))  # 80 words: cut by a pipeline of fewer
SECRET = "zorbified"  # in every turn of the forgotten session, and nowhere else
OLD = ["the zorbified harp is in the attic", "a zorbified lute, by Hildegard Zorbified", "both zorbified"]
NEW = [OLD[0], "a zorbified lute, no: a zorbified zither", OLD[2], "and a zorbified drum"]
LOGS: dict[str, list[str]] = {
    "attic": NEW,
    **{f"s{i}": [f"talk {i} is about walnut loaf {j}" for j in range(3)] for i in range(7)},
    "long": [LONG, "that was long"],
}

Contents = Counter[tuple[str, str, str]]


def count_items(logs: Mapping[str, list[str]], words: int = 150) -> Contents:
    """Return (session, turn, text) of each item of these logs."""
    return Counter(
        (session, f"{session}:{i}", piece)
        for session, texts in logs.items()
        for i, text in enumerate(texts)
        for piece in chunk(text, words)
    )


def read_items(snapshot: Snapshot) -> Contents:
    rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
    return Counter((entry["session"], entry["turns"][0], entry["text"]) for entry in snapshot.text(rows))


def contents(root: Path) -> Contents:
    assert verify_store(root).problems == ()
    return read_items(Snapshot.open(root))


@pytest.fixture(scope="module")
def settings(cache: Path) -> Settings:
    return Settings(cache=str(cache), threads=1, lock_wait=30.0)


@pytest.fixture(scope="module")
def encoder(tiny_encoders: list[str], cache: Path, settings: Settings) -> Encoder:
    return Encoder(cache_encoder(choose_encoder(replace(settings, encoder=tiny_encoders[0])), cache), 1)


SEGMENTS = 9


@pytest.fixture(scope="module")
def prepared_store(tmp_path_factory: pytest.TempPathFactory, settings: Settings, encoder: Encoder) -> Path:
    """A store of nine commits, with a replaced row, access counts and events. Its last document has two sessions."""
    folder = tmp_path_factory.mktemp("prepared")
    root = folder / "store"
    publish_log(root, write_log(folder / "attic.jsonl", "attic", OLD), encoder, settings)
    for i in range(7):
        publish_log(root, write_log(folder / f"s{i}.jsonl", f"s{i}", LOGS[f"s{i}"]), encoder, settings)
    both = [write_log(folder / f"{session}.tmp", session, LOGS[session]) for session in ("attic", "long")]
    (folder / "both.jsonl").write_text("".join(path.read_text() for path in both))
    publish_log(root, folder / "both.jsonl", encoder, settings)
    every = list_ids(root)
    access_events.append_events(root, [access_events.AccessEvent(item, "used", 1_700_000_000) for item in every])
    touch(root, settings)
    access_events.append_events(root, [access_events.AccessEvent(item, "helpful", 1_700_000_001) for item in every])
    assert contents(root) == NOW
    assert len(inbox.load_current(root)[1].segments) == SEGMENTS
    return root


NOW = count_items(LOGS)
WITHOUT = count_items({name: texts for name, texts in LOGS.items() if name != "attic"})


@pytest.fixture
def store(prepared_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared_store, tmp_path / "store"))


@pytest.fixture(scope="module")
def smaller(settings: Settings) -> Settings:
    """The settings of another pipeline, which cuts smaller items."""
    return replace(settings, item_words=WORDS)


@pytest.fixture(scope="module")
def pipeline(encoder: Encoder, smaller: Settings) -> str:
    return pipeline_fingerprint(encoder.spec.fingerprint, smaller)


@pytest.fixture
def more_log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "more.jsonl", "more", ["an unrelated note about parsley"])


MORE = count_items({"more": ["an unrelated note about parsley"]})


def assert_tidy(root: Path) -> None:
    if list((root / "pins").iterdir()):
        gc.collect()  # releases readers of earlier checks
    collect_garbage(root, 1, 0.0, 10.0)
    report = verify_store(root)
    assert (report.problems, report.orphans, report.generations) == ((), (), 1)
    assert not [path for folder in ("building", "pins", "purges") for path in (root / folder).iterdir()]
    assert not list(root.rglob(".tmp-*"))


MERGING = ("compact.begin", "compact.half", "compact.merged", "compact.moved")
NOT_YET = ("commit.manifest", "commit.checked")  # the steps before a generation is published
PUBLISHED = ("commit.current",)


@pytest.mark.parametrize("points", kill_in_turn([*MERGING, *NOT_YET], PUBLISHED))
def test_a_compaction_survives_a_kill_at_any_step(points: Sequence[str], store: Path, settings: Settings) -> None:
    reader = Memory(store, settings)
    left = 1 if points == PUBLISHED else SEGMENTS
    for point in points:
        kill(point, compact, store, settings)
        assert contents(store) == NOW
        assert len(Snapshot.open(store).manifest.segments) == left, point
    done = compact(store, settings)
    assert (done.segments, done.merged) == (1, 0 if points == PUBLISHED else SEGMENTS)
    assert contents(store) == NOW
    assert len(inbox.load_current(store)[1].documents) == 1
    collect_garbage(store, 1, 0.0, 10.0)
    assert read_items(reader.snapshot) == NOW  # from files that only this reader maps
    assert reader.recall("walnut loaf").items
    assert len(reader.snapshot.manifest.segments) == SEGMENTS
    assert reader.refresh()
    assert len(reader.snapshot.manifest.segments) == 1
    assert read_items(reader.snapshot) == NOW
    del reader
    assert_tidy(store)


@pytest.mark.parametrize("points", kill_in_turn(["compact.indexed", *NOT_YET, *PUBLISHED]))
def test_building_a_dense_index_survives_a_kill_at_any_step(
    points: Sequence[str], store: Path, settings: Settings
) -> None:
    compact(store, settings)
    for point in points:
        kill(point, compact_with_indexes, store, settings)
        assert contents(store) == NOW
    end(start(compact_with_indexes, store, settings))
    assert sorted(index.kind for index in inbox.load_current(store)[1].indexes if index.covers) == ["changes", "dense"]
    assert contents(store) == NOW
    assert Memory(store, settings).recall("zither", project="default").items
    assert_tidy(store)


def test_of_two_compactions_of_the_same_segments_one_plans_again(
    store: Path, settings: Settings, tmp_path: Path
) -> None:
    began, go = [tmp_path / "0", tmp_path / "1"], tmp_path / "go"
    both = [start(compact_slowly, store, settings, path, go, "compact.merged") for path in began]
    wait_until(60, lambda: all(path.exists() for path in began))
    go.touch()
    for process in both:
        end(process)
    assert len(inbox.load_current(store)[1].segments) == 1
    assert contents(store) == NOW
    assert_tidy(store)


AMID = soak_all_but(["plan", "compact.begin", "compact.half", "compact.merged"], "plan", "compact.half")


@pytest.mark.parametrize("amid", AMID)
def test_a_compaction_whose_segments_are_collected_plans_again(amid: str, store: Path, settings: Settings) -> None:
    with pause_work(compact_slowly, store, settings, amid):
        compact(store, settings, full=True)
        collect_garbage(store, 1, 0.0, 10.0)
        assert len(list((store / "segments").iterdir())) == 1
    assert contents(store) == NOW
    assert_tidy(store)


def test_commits_continue_while_segments_are_merged(
    store: Path, settings: Settings, encoder: Encoder, tmp_path: Path
) -> None:
    """Ten commits during a merge: added rows stay, and replaced rows are carried over as deletes."""
    new = {f"s{i}": [f"talk {i} is about rye bread", *LOGS[f"s{i}"][1:], "and that is all"] for i in range(7)}
    new |= {f"new{i}": [f"a new talk {i}"] for i in range(3)}
    logs = {**LOGS, **new}
    with pause_work(compact_slowly, store, settings, "compact.half"):
        for session, talk in new.items():
            publish_log(store, write_log(tmp_path / f"{session}.jsonl", session, talk), encoder, settings)
        assert len(inbox.load_current(store)[1].segments) == SEGMENTS + 10
    assert contents(store) == count_items(logs)
    manifest = inbox.load_current(store)[1]
    assert len(manifest.segments) < 8
    assert manifest.counts == {"items": count_items(logs).total(), "sessions": len(logs), "documents": 19}
    assert_tidy(store)


def compact_again_and_again(root: Path, settings: Settings, stop: Path) -> None:
    while not stop.exists():
        compact(root, settings, full=True)


def test_concurrent_ingests_and_compactions_lose_nothing(store: Path, settings: Settings, tmp_path: Path) -> None:
    logs = dict(LOGS)
    for i in range(10):
        logs[f"new{i}"] = [f"a new talk {i}", "which is short"]
        write_log(tmp_path / f"n{i}.jsonl", f"new{i}", logs[f"new{i}"])
    merging = start(compact_again_and_again, store, settings, tmp_path / "stop")
    ingesting = [start(ingest_each, store, settings, tmp_path, half) for half in (range(5), range(5, 10))]
    for process in ingesting:
        end(process)
    (tmp_path / "stop").touch()
    end(merging)
    compact(store, settings, full=True)
    assert contents(store) == count_items(logs)
    assert_tidy(store)


def ingest_each(root: Path, settings: Settings, folder: Path, which: range) -> None:
    for i in which:
        ingest(root, [folder / f"n{i}.jsonl"], settings)


def test_a_compaction_does_not_give_damage_a_digest_that_fits(store: Path, settings: Settings) -> None:
    rng = random.Random(4)
    segment = inbox.load_current(store)[1].segments[3]
    for i, file in enumerate(segment.files[::6]):
        own = store.with_name(f"store-{i}")
        shutil.copytree(store, own)
        before = (own / file.path).read_bytes()
        flip(own / file.path, rng)
        done = compact(own, settings)
        assert len(done.damaged) == 1
        assert file.path in done.damaged[0]
        assert [one.id == segment.id for one in inbox.load_current(own)[1].segments].count(True) == 1
        (own / file.path).write_bytes(before)
        assert contents(own) == NOW
        assert not list((own / "building").iterdir())
        assert compact(own, settings, full=True).segments == 1
        assert contents(own) == NOW


VISIBLE = ("forget.purge", *NOT_YET)  # before recall loses the items
GONE = (
    *(*PUBLISHED, "forget.deleted", "forget.planned", *MERGING, "forget.rewritten", "forget.envelopes"),
    *("touch.begin", "touch.access", "touch.published", "forget.published"),
    *("forget.manifests", "forget.removed", "forget.receipt"),
)


def traces(root: Path, words: str = SECRET) -> list[str]:
    """Return the files of the store that hold the words in any case, compressed or not."""
    return [
        str(path.relative_to(root)) for path, data in read_all(root) if words.encode() in decode(path, data).lower()
    ]


@pytest.fixture(scope="module")
def quoting(
    prepared_store: Path, tmp_path_factory: pytest.TempPathFactory, settings: Settings, encoder: Encoder
) -> Path:
    """A store with the secret also in parts, in dead documents and in interrupted merges."""
    folder = tmp_path_factory.mktemp("quoting")
    store = folder / "store"
    shutil.copytree(prepared_store, store)
    given_up = write_log(folder / "dead.jsonl", "attic", [*NEW, "one zorbified more"])
    document = accept(store, given_up, settings).documents[0]
    inbox.give_up(store, document, "ValueError: 'one zorbified more'")
    other = replace(settings, item_words=40)
    make_part(store, document, encoder, other)
    make_part(store, inbox.list_accepted(store)[0], encoder, other)
    kill("compact.moved", compact, store, settings)
    kill("compact.merged", compact, store, settings)
    assert {Path(path).parts[0] for path in traces(store)} == {"segments", "inbox", "dead", "parts", "building"}
    return store


@pytest.fixture
def quoted_store(quoting: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(quoting, tmp_path / "store"))


def assert_forgotten(root: Path, settings: Settings, ids: set[str], documents: set[str]) -> None:
    assert traces(root) == []
    (receipt,) = [json.loads(path.read_bytes()) for path in (root / "receipts").iterdir()]
    assert ids <= set(receipt["items"])  # plus the turn of the dead document
    assert documents <= set(receipt["documents"])
    for file in receipt["files"]:
        assert (file["after"] is not None) == (root / file["path"]).exists()
        assert file["before"] != file["after"]
    keys = np.array([int(item, 16) for item in ids], np.uint64)
    snapshot = Snapshot.open(root)
    assert not np.isin(keys, access_events.load_access(root, snapshot.manifest.access).key).any()
    assert not any(item in path.read_text() for path in (root / "events").iterdir() for item in ids)
    found = Memory(root, settings).recall(f"{SECRET} harp zither")
    assert not any(SECRET in item.text for item in found.items)


@pytest.mark.parametrize("points", kill_in_turn(VISIBLE, GONE[:8], GONE[8:]))
def test_a_deletion_survives_a_kill_at_any_step(
    points: Sequence[str], quoted_store: Path, settings: Settings, more_log: Path
) -> None:
    root = quoted_store
    reader = Memory(root, settings)
    ids = {row["id"] for row in reader.snapshot.text(range(reader.snapshot.rows)) if row["session"] == "attic"}
    documents = {
        row["document"]
        for file in inbox.load_current(root)[1].documents
        for row in pq.read_table(root / file.path).to_pylist()
        if "attic" in row["path"] or "both" in row["path"]
    }
    assert len(documents) == 2
    for point in points:
        kill(point, forget_session, root, settings, "attic")
        assert contents(root) == (NOW if point in VISIBLE else WITHOUT), point
    if points[0] not in VISIBLE:
        assert reader.refresh()
        assert not any(SECRET in item.text for item in reader.recall(f"{SECRET} harp").items)
    # The next writer finishes it: another ingest, a compaction, the same command again.
    way = (*VISIBLE, *GONE).index(points[-1]) % 3
    added: Contents = Counter()
    if way == 0:
        ingest(root, [more_log], settings)
        added = MORE
    elif way == 1:
        resume(root, settings)
    else:
        assert ids <= set(forget(root, Selection(session="attic"), settings)["items"])
    assert contents(root) == WITHOUT + added
    reader.refresh()
    assert read_items(reader.snapshot) == WITHOUT + added
    del reader
    assert_forgotten(root, settings, ids, documents)
    assert_tidy(root)
    # A log that has grown does not bring it back.
    again = write_log(more_log.parent / "attic3.jsonl", "attic", [*NEW, "one zorbified more", "something else"])
    ingest(root, [again], settings)
    assert contents(root) == WITHOUT + added + Counter({("attic", "attic:5", "something else"): 1})


def test_an_item_offered_again_after_a_deletion_can_be_forgotten_again(
    store: Path, settings: Settings, tmp_path: Path
) -> None:
    """The item stays out of the segments, but the envelope of the log that grew has its words."""
    snapshot = Snapshot.open(store)
    drum = next(row["id"] for row in snapshot.text(range(snapshot.rows)) if row["text"] == "and a zorbified drum")
    forget(store, Selection(items=(drum,)), settings)
    assert contents(store) == NOW - Counter({("attic", "attic:3", "and a zorbified drum"): 1})
    assert traces(store, "zorbified drum") == []
    assert traces(store, "zorbified zither")  # the residue of its document
    ingest(store, [write_log(tmp_path / "again.jsonl", "attic", [*NEW, "something else"])], settings)
    assert ("attic", "attic:3", "and a zorbified drum") not in contents(store)
    assert traces(store, "zorbified drum")
    forget(store, Selection(items=(drum,)), settings)
    assert traces(store, "zorbified drum") == []
    assert contents(store)["attic", "attic:4", "something else"] == 1


@pytest.mark.parametrize("amid", AMID)
def test_a_deletion_during_a_merge_leaves_no_trace(amid: str, store: Path, settings: Settings) -> None:
    """A deletion waits for merges that began before; later merges do not hold its items."""
    with pause_work(compact_slowly, store, settings, amid):
        deleting = start(forget_session, store, settings, "attic")
        if amid == "plan":
            end(deleting)
        else:
            wait_until(60, lambda: "attic" not in {session for session, _, _ in contents(store)})
            time.sleep(0.3)
            assert deleting.is_alive()
    end(deleting)
    assert contents(store) == WITHOUT
    assert traces(store) == []
    assert_tidy(store)


WORDS = 20
CUT = count_items(LOGS, WORDS)
BUILDING = ("enrich.part", "reindex.parts", "commit.segment", "commit.documents", *NOT_YET, *PUBLISHED)
BUILT = ("reindex.committed", "reindex.compacted", "swap reindex.swap", "swap commit.manifest", "swap commit.checked")
SWAPPED = ("swap commit.current", "swap reindex.swapped")
assert len(CUT) > len(NOW)


def assert_reindexed(root: Path, expected: Contents, pipeline: str) -> None:
    assert contents(root) == expected
    lineage = inbox.load_current(root)[1].lineage
    assert lineage.pipeline == pipeline
    assert read_current(root, "NEXT") is None
    assert inbox.list_pending(root) == []


@pytest.mark.parametrize("points", kill_in_turn(BUILDING, BUILT, SWAPPED[:1], SWAPPED[1:]))
def test_a_reindex_survives_a_kill_at_any_step(
    points: Sequence[str], store: Path, settings: Settings, smaller: Settings, encoder: Encoder, more_log: Path
) -> None:
    reader = Memory(store, settings)
    swapped = points[0] in SWAPPED
    for point in points:
        at, _, at_swap = point.partition("swap ")
        kill(at, reindex, store, smaller, "", at_swap)
        assert contents(store) == (CUT if swapped else NOW), point
    assert read_items(reader.snapshot) == NOW
    # Documents the old lineage gets meanwhile are in the new one too.
    publish_log(store, more_log, encoder, settings)
    assert contents(store) == (CUT if swapped else NOW) + MORE
    collect_garbage(store, 1, 0.0, 10.0)
    reindex(store, smaller)
    assert_reindexed(store, CUT + MORE, pipeline_fingerprint(encoder.spec.fingerprint, smaller))
    assert read_items(reader.snapshot) == NOW
    assert reader.refresh()
    assert read_items(reader.snapshot) == CUT + MORE
    del reader
    assert_tidy(store)
    if not swapped:
        assert not list((store / "parts").iterdir())


def test_a_reindex_to_another_encoder_survives_kills(
    store: Path, settings: Settings, encoder: Encoder, tiny_encoders: list[str]
) -> None:
    reader = Memory(store, settings)
    kill("reindex.committed", reindex, store, settings, tiny_encoders[1])
    kill("", reindex, store, settings, tiny_encoders[1], "commit.checked")
    assert contents(store) == NOW
    assert inbox.load_current(store)[1].lineage.dim == 32
    assert not reader.refresh()
    assert list_faults(reader.recall("walnut loaf", project="default").degraded) == []
    reindex(store, settings, tiny_encoders[1])
    lineage = inbox.load_current(store)[1].lineage
    assert (lineage.name, lineage.dim) == ("tiny-48", 48)
    assert_reindexed(store, NOW, pipeline_fingerprint(lineage.encoder, settings))
    assert list_faults(reader.recall("walnut loaf", project="default").degraded) == []  # by the old lineage
    assert reader.refresh()
    assert reader.snapshot.manifest.lineage.dim == 48
    assert list_faults(reader.recall("walnut loaf", project="default").degraded) == []
    del reader
    rollback(store, settings)
    assert contents(store) == NOW
    assert inbox.load_current(store)[1].lineage.encoder == encoder.spec.fingerprint
    assert_tidy(store)
    assert [path.name for path in (store / "encoders").iterdir()] == [encoder.spec.fingerprint]


def words_of(items: Contents) -> Counter[str]:
    return Counter(word for (_, _, text), n in items.items() for word in text.split() for _ in range(n))


@pytest.mark.parametrize(
    "amid",
    soak_all_but(
        ["reindex.parts", "commit.documents", "reindex.committed", "reindex.compacted"],
        *("reindex.parts", "commit.documents", "reindex.committed"),
    ),
)
def test_items_forgotten_during_a_reindex_do_not_come_back(
    amid: str, store: Path, settings: Settings, smaller: Settings, pipeline: str
) -> None:
    with pause_work(reindex_slowly, store, smaller, amid):
        deleting = start(forget_session, store, settings, "attic")
        if amid == "commit.documents":  # the reindex holds the lock of its lineage
            wait_until(60, lambda: "attic" not in {session for session, _, _ in contents(store)})
        else:
            end(deleting)
            assert contents(store) == WITHOUT
            assert traces(store) == []
    end(deleting)
    # The residue of the forgotten document is in the new cut or the old one.
    assert words_of(contents(store)) == words_of(WITHOUT)
    assert_reindexed(store, contents(store), pipeline)
    assert traces(store) == []
    assert_tidy(store)


def test_a_killed_deletion_also_covers_a_lineage_swapped_in_later(
    store: Path, settings: Settings, smaller: Settings, more_log: Path
) -> None:
    with pause_work(reindex_slowly, store, smaller, "reindex.compacted"):
        kill("commit.current", forget_session, store, settings, "attic")  # gone from CURRENT, not yet from NEXT
    assert words_of(contents(store)) == words_of(WITHOUT)
    ingest(store, [more_log], settings)
    assert words_of(contents(store)) == words_of(WITHOUT + MORE)
    assert traces(store) == []
    assert_tidy(store)


def test_an_unreadable_pending_document_does_not_stop_a_reindex(
    store: Path, settings: Settings, tmp_path: Path
) -> None:
    before = words_of(contents(store))
    document = accept(store, write_log(tmp_path / "new.jsonl", "attic", ["something else"]), settings).documents[0]
    envelope = store / "inbox" / document
    data = envelope.read_bytes()
    envelope.write_bytes(data[:100])
    reindex(store, replace(settings, item_words=WORDS))
    envelope.write_bytes(data)
    assert words_of(contents(store)) == before
    assert document in inbox.list_pending(store)


def test_items_forgotten_before_a_reindex_do_not_come_back(
    store: Path, settings: Settings, encoder: Encoder, tmp_path: Path
) -> None:
    forget(store, Selection(session="attic"), settings)
    ingest(store, [write_log(tmp_path / "again.jsonl", "attic", [*NEW, "something else"])], settings)
    reindex(store, replace(settings, item_words=WORDS))
    found = contents(store)
    assert words_of(found) == words_of(WITHOUT) + Counter(["something", "else"])
    # The next lineage still knows.
    ingest(store, [write_log(tmp_path / "again2.jsonl", "attic", [*NEW, "something else", "at last"])], settings)
    assert words_of(contents(store)) == words_of(found) + Counter(["at", "last"])


@pytest.mark.parametrize("started", [True, False])
def test_a_reindex_covers_items_of_the_new_pipeline_in_the_old_lineage(
    store: Path, smaller: Settings, encoder: Encoder, pipeline: str, more_log: Path, started: bool
) -> None:
    if started:
        kill("reindex.committed", reindex, store, smaller)
    publish_log(store, more_log, encoder, smaller)  # the lineage is otherwise of the old pipeline
    reindex(store, smaller)
    assert_reindexed(store, CUT + MORE, pipeline)


def test_of_two_concurrent_reindexes_one_builds_nothing(store: Path, smaller: Settings, pipeline: str) -> None:
    with pause_work(reindex_slowly, store, smaller, "reindex.compacted"):
        reindex(store, smaller)
        before = read_current(store)
    assert read_current(store) == before
    assert_reindexed(store, CUT, pipeline)


TWO = {"HELIX_THREADS": "2"}
"""Makes a reindex start processes also on one core."""


def test_a_dead_process_of_a_reindex_is_reported_in_one_line(store: Path, run_helix) -> None:
    dies = {"HELIX_FAILPOINT": "enrich.embedded"}
    failed = run_helix("reindex", "--store", store, HELIX_ITEM_WORDS=str(WORDS), **TWO, **dies)
    assert failed.returncode == 4
    assert "was killed" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert contents(store) == NOW
    done = run_helix("reindex", "--store", store, HELIX_ITEM_WORDS=str(WORDS))
    assert done.returncode == 0, done.stderr
    assert contents(store) == CUT
    again = run_helix("reindex", "--store", store, HELIX_ITEM_WORDS=str(WORDS))
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_of_a_reindex_end_with_it(number: signal.Signals, store: Path) -> None:
    mark = f"REINDEX_OF={store}"
    place = {"HELIX_STORE": str(store), "REINDEX_OF": str(store)}
    environ = {**os.environ, **TWO, **place, "HELIX_ITEM_WORDS": str(WORDS)}
    process = subprocess.Popen(
        [sys.executable, "-m", "helix.cli", "reindex"], env=environ, stderr=subprocess.PIPE, start_new_session=True
    )
    wait_until(60, lambda: len(list_processes(mark)) > 2)
    process.send_signal(number)
    output = process.communicate(timeout=240)[1].decode()
    wait_until(60, lambda: not list_processes(mark))
    assert contents(store) == NOW
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert process.returncode == 130, output
    assert output.splitlines()[1:] == ["helix reindex: stopped"]  # after the number of documents
    made = [path for path in (store / "parts").glob("*-*") if (path / "part.json").is_file()]
    assert len(made) < inbox.load_current(store)[1].counts["documents"]  # it did not wait for the rest


def read_and_die(root: Path, settings: Settings) -> None:
    reader = Memory(root, settings)
    assert read_items(reader.snapshot) == NOW
    os.kill(os.getpid(), signal.SIGKILL)


def test_removing_old_generations_survives_a_kill(store: Path, settings: Settings) -> None:
    kill("", read_and_die, store, settings)
    assert len(list((store / "pins").iterdir())) == 1
    reader = Memory(store, settings)
    compact(store, settings)
    compact(store, settings, full=True)
    kill("gc.manifests", collect_garbage, store, 1, 0.0, 10.0)
    report = verify_store(store)
    assert report.problems == ()
    assert report.generations == 2  # the current one and the reader's
    assert contents(store) == read_items(reader.snapshot) == NOW
    assert len(list((store / "pins").iterdir())) == 1  # that of the dead reader is gone
    collect_garbage(store, 1, 0.0, 10.0)
    assert read_items(reader.snapshot) == NOW
    assert verify_store(store).orphans == ()
    assert reader.refresh()
    assert read_items(reader.snapshot) == NOW
    del reader
    assert_tidy(store)
    assert len(list((store / "segments").iterdir())) == 1


@pytest.mark.parametrize(
    "amid", soak_all_but(["commit.segment", "commit.documents", "commit.encoder"], "commit.documents")
)
def test_gc_retains_files_a_reindex_is_about_to_publish(
    amid: str, store: Path, smaller: Settings, pipeline: str
) -> None:
    with pause_work(reindex_slowly, store, smaller, amid):
        collecting = start(collect_garbage, store, 1, 0.0, 30.0)
        time.sleep(0.3)
    end(collecting)
    assert_reindexed(store, CUT, pipeline)


@pytest.mark.parametrize("points", kill_in_turn(["rollback.set_aside", *NOT_YET], PUBLISHED))
def test_a_rollback_survives_a_kill_at_any_step(
    points: Sequence[str], store: Path, settings: Settings, encoder: Encoder, more_log: Path, tmp_path: Path
) -> None:
    to = inbox.load_current(store)[1].generation
    publish_log(store, more_log, encoder, settings)
    reader = Memory(store, settings)
    back = points == PUBLISHED
    for point in points:
        kill(point, rollback, store, settings, to)
        assert contents(store) == (NOW if back else NOW + MORE), point
        assert inbox.list_pending(store) == []
    # Other writers continue: no set-aside document is lost or comes back by itself.
    other = write_log(tmp_path / "other.jsonl", "other", ["about saffron"])
    ingest(store, [other], settings)
    saffron = Counter({("other", "other:0", "about saffron"): 1})
    assert contents(store) == (NOW if back else NOW + MORE) + saffron
    assert read_items(reader.snapshot) == NOW + MORE
    rollback(store, settings, to)
    assert contents(store) == NOW
    assert reader.refresh()
    assert read_items(reader.snapshot) == NOW
    ingest(store, [more_log, other], settings)
    assert contents(store) == NOW + MORE + saffron
    assert inbox.list_dead(store) == {}
    del reader
    assert_tidy(store)


def test_a_reindex_after_a_killed_rollback_keeps_published_documents(
    store: Path, settings: Settings, encoder: Encoder, more_log: Path
) -> None:
    """Documents the rollback set aside, and that are still published, count."""
    to = inbox.load_current(store)[1].generation
    publish_log(store, more_log, encoder, settings)
    kill("rollback.set_aside", rollback, store, settings, to)
    reindex(store, replace(settings, item_words=WORDS))
    assert contents(store) == CUT + MORE
    assert inbox.list_dead(store) == {}


def test_a_rollback_makes_a_reindex_start_over(
    store: Path, settings: Settings, smaller: Settings, encoder: Encoder, pipeline: str, more_log: Path
) -> None:
    to = inbox.load_current(store)[1].generation
    publish_log(store, more_log, encoder, settings)
    with pause_work(reindex_slowly, store, smaller, "reindex.compacted"):
        rollback(store, settings, to)
    assert_reindexed(store, CUT, pipeline)


def test_a_reader_keeps_its_generation_through_every_operation(
    store: Path, settings: Settings, smaller: Settings, more_log: Path
) -> None:
    still, following = Memory(store, settings), Memory(store, settings)
    first = [item.id for item in still.recall("zorbified harp", project="default", now="2026-01-01").items]
    steps: list[tuple[Work, tuple[Any, ...], Contents]] = [
        (ingest, (store, [more_log], settings), NOW + MORE),
        (compact, (store, settings), NOW + MORE),
        (reindex, (store, smaller), CUT + MORE),
        (rollback, (store, settings), NOW + MORE),
        (forget, (store, Selection(session="attic"), settings), WITHOUT + MORE),
        (collect_garbage, (store, 1, 0.0, 10.0), WITHOUT + MORE),
    ]
    for work, arguments, expected in steps:
        work(*arguments)
        following.refresh()
        assert read_items(following.snapshot) == contents(store) == expected, work.__name__
        assert read_items(still.snapshot) == NOW
        again = still.recall("zorbified harp", project="default", now="2026-01-01")
        assert [item.id for item in again.items] == first
    still.refresh()
    assert read_items(still.snapshot) == WITHOUT + MORE
    del still, following
    assert_tidy(store)
