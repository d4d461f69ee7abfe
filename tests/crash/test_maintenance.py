"""kill -9 at every step of compact, forget, reindex, gc and rollback, and races between them: the store stays whole, a
reader sees the old generation or the new one, nothing accepted is lost, and the next run finishes what was begun.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pipelines.compact as compact_jobs
import pipelines.reindex as reindex_jobs
from helix.encoders.export import cached
from helix.encoders.onnx import Encoder, TokenCounter
from helix.encoders.registry import choose
from helix.enrich.chunk import chunk
from helix.errors import UsageError
from helix.memory import Memory
from helix.settings import Settings
from helix.snapshot import dense, events, ledger
from helix.snapshot import merge as merges
from helix.snapshot import gc as collector
from helix.snapshot.gc import collect
from helix.snapshot.manifest import current_name
from helix.snapshot.reader import Snapshot
from helix.snapshot.verify import verify
from pipelines.accept import accept
from pipelines.commit import commit
from pipelines.compact import compact
from pipelines.enrich import enrich, pipeline_fingerprint
from pipelines.forget import Selection, forget, resume
from pipelines.ingest import ingest
from pipelines.rollback import generations, rollback
from pipelines.touch import touch
from tests.crash.test_kill import write_log
from tests.unit.test_encoder import tiny_bert

# ---------------------------------------------------------------- processes that die

# Children are forked from a server that has everything imported and nothing running: a kill costs milliseconds.
CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["pipelines.forget", "pipelines.reindex", "pipelines.ingest", "pipelines.rollback"])

Work = Callable[..., object]


def _child(work: Work, point: str, arguments: tuple[Any, ...]) -> None:
    os.environ["HELIX_FAILPOINT"] = point
    work(*arguments)


def start(work: Work, *arguments: object, point: str = "") -> ForkServerProcess:
    """`work` in a process of its own, which dies at the failpoint `point`."""
    process = CONTEXT.Process(target=_child, args=(work, point, arguments))
    process.start()
    return process


def end(process: ForkServerProcess, status: int = 0) -> None:
    process.join(60)
    assert process.exitcode == status, "see the traceback on stderr"


def kill(point: str, work: Work, *arguments: object) -> None:
    end(start(work, *arguments, point=point), -signal.SIGKILL)


def forget_session(root: Path, settings: Settings, session: str) -> None:
    forget(root, Selection(session=session), settings)


def compact_with_indexes(root: Path, settings: Settings) -> None:
    """Compact as if 8 rows were many."""
    dense.INDEXED_ROWS = 8
    compact(root, settings)


def serially(root: Path, documents: Any, encoder: Encoder, settings: Settings) -> None:
    for document in documents:
        enrich(root, document, encoder, TokenCounter(encoder.folder), settings)


def reindex(root: Path, settings: Settings, encoder: str = "", at_swap: str = "") -> None:
    """A reindex in one process; `at_swap` names a failpoint that counts from the swap on."""
    swap = reindex_jobs.swap

    def armed(root: Path, settings: Settings) -> Any:
        os.environ["HELIX_FAILPOINT"] = at_swap
        return swap(root, settings)

    reindex_jobs.swap = armed
    try:
        reindex_jobs.reindex(root, settings, encoder, work=serially)
    finally:
        reindex_jobs.swap = swap


def roll_back(root: Path, settings: Settings, to: int) -> None:
    rollback(root, settings, to)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def compact_slowly(root: Path, settings: Settings, began: Path, go: Path, amid: str) -> None:
    """A compaction that says `began` and waits for `go`, once: when it has planned, or at a failpoint."""
    plan = compact_jobs.plan

    def wait(here: str) -> None:
        if here == amid and not began.exists():
            began.touch()
            wait_for(go.exists)

    def planned(manifest: Any) -> list[str]:
        chosen = plan(manifest)
        wait("plan")
        return chosen

    compact_jobs.plan, compact_jobs.failpoint, merges.failpoint = planned, wait, wait
    compact(root, settings)


# ---------------------------------------------------------------- stores

LONG = " ".join(f"word{i} is said here." for i in range(20))  # 80 words: cut by a pipeline of fewer
SECRET = "zorbified"  # stands in every turn of the session that is forgotten, and nowhere else
LOGS: dict[str, list[str]] = {
    "attic": ["the zorbified harp is in the attic", "a zorbified lute, by Hildegard Zorbified", "both zorbified"],
    **{f"s{i}": [f"talk {i} is about walnut loaf {j}" for j in range(3)] for i in range(7)},
    "long": [LONG, "that was long"],
}
GROWN = [LOGS["attic"][0], "a zorbified lute, no: a zorbified zither", LOGS["attic"][2], "and a zorbified drum"]

Contents = Counter[tuple[str, str, str]]


def says(logs: Mapping[str, list[str]], words: int = 150) -> Contents:
    """What a store of these logs holds: session, turn, text."""
    return Counter(
        (session, f"{session}:{i}", piece)
        for session, texts in logs.items()
        for i, text in enumerate(texts)
        for piece in chunk(text, words)
    )


def held(snapshot: Snapshot) -> Contents:
    rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
    return Counter((entry["session"], entry["turns"][0], entry["text"]) for entry in snapshot.text(rows))


def contents(root: Path) -> Contents:
    assert verify(root).problems == ()
    return held(Snapshot(root))


def take_in(root: Path, path: Path, settings: Settings, encoder: Encoder) -> str:
    """Accept, enrich and publish one file, and nothing else: no tidying up. The document."""
    document = accept(root, path, settings).envelope.document
    enrich(root, document, encoder, TokenCounter(encoder.folder), settings)
    commit(root, encoder, settings)
    return document


@pytest.fixture(scope="module")
def settings(cache: Path) -> Settings:
    return Settings(cache=str(cache), threads=1, lock_wait=30.0)


@pytest.fixture(scope="module")
def encoder(cache: Path, settings: Settings) -> Encoder:
    return Encoder(cached(choose(settings), cache), 1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, settings: Settings, encoder: Encoder) -> Path:
    """Ten commits in ten segments, one row replaced, access counts and events, nothing merged yet."""
    from helix.snapshot import paths

    folder = tmp_path_factory.mktemp("prepared")
    root = folder / "store"
    paths.create(root)
    for session, texts in LOGS.items():
        take_in(root, write_log(folder / f"{session}.jsonl", session, texts), settings, encoder)
    take_in(root, write_log(folder / "attic2.jsonl", "attic", GROWN), settings, encoder)
    every = [f"{key:016x}" for key in Snapshot(root).columns.key.tolist()]
    events.append(root, [events.Event(item, "used", 1_700_000_000) for item in every])
    touch(root, settings)
    events.append(root, [events.Event(item, "helpful", 1_700_000_001) for item in every])
    assert contents(root) == NOW
    assert len(ledger.current(root)[1].segments) == 10
    return root


NOW = says({**LOGS, "attic": GROWN})
WITHOUT = says({name: texts for name, texts in LOGS.items() if name != "attic"})


@pytest.fixture
def store(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """One more log."""
    return write_log(tmp_path / "more.jsonl", "more", ["an unrelated note about parsley"])


MORE = says({"more": ["an unrelated note about parsley"]})


def assert_tidy(root: Path) -> None:
    """One more writer and `gc` leave nothing that nobody names."""
    gc.collect()  # readers of earlier checks let go
    collect(root, 1, 0.0, 10.0)
    report = verify(root)
    assert (report.problems, report.orphans, report.generations) == ((), (), 1)
    assert not [path for folder in ("building", "pins", "purges") for path in (root / folder).iterdir()]
    assert not list(root.rglob(".tmp-*"))


# ---------------------------------------------------------------- compact

MERGING = ("compact.begin", "compact.half", "compact.merged", "compact.moved")
PUBLISHING = ("commit.manifest", "commit.checked", "commit.current")


@pytest.mark.parametrize("point", [*MERGING, *PUBLISHING])
def test_a_kill_at_any_step_of_a_compaction(point: str, store: Path, settings: Settings) -> None:
    reader = Memory(store, settings)
    kill(point, compact, store, settings)
    assert contents(store) == NOW
    assert len(Snapshot(store).manifest.segments) == (1 if point == "commit.current" else 10)
    done = compact(store, settings)
    assert (done.segments, done.merged) == (1, 0 if point == "commit.current" else 10)
    assert contents(store) == NOW
    assert len(ledger.current(store)[1].documents) == 1
    collect(store, 1, 0.0, 10.0)
    assert held(reader.snapshot) == NOW  # from files that only this reader keeps alive
    assert reader.recall("walnut loaf").items
    assert len(reader.snapshot.manifest.segments) == 10
    assert reader.refresh()
    assert len(reader.snapshot.manifest.segments) == 1
    assert held(reader.snapshot) == NOW
    del reader
    assert_tidy(store)


@pytest.mark.parametrize("point", ["compact.indexed", *PUBLISHING])
def test_a_kill_while_a_dense_index_is_built(point: str, store: Path, settings: Settings) -> None:
    compact(store, settings)
    kill(point, compact_with_indexes, store, settings)
    assert contents(store) == NOW
    end(start(compact_with_indexes, store, settings))
    assert [index.kind for index in ledger.current(store)[1].indexes if index.covers] == ["dense"]
    assert contents(store) == NOW
    assert Memory(store, settings).recall("zither", project="default").items
    assert_tidy(store)


def test_two_compactions_of_the_same_segments(store: Path, settings: Settings, tmp_path: Path) -> None:
    """Both have merged before either publishes: one is too late, and looks again."""
    both = [start(compact_slowly, store, settings, tmp_path / f"{i}", tmp_path / "go", "compact.merged") for i in range(2)]
    wait_for(lambda: all((tmp_path / f"{i}").exists() for i in range(2)))
    (tmp_path / "go").touch()
    for process in both:
        end(process)
    assert len(ledger.current(store)[1].segments) == 1
    assert contents(store) == NOW
    assert_tidy(store)


@pytest.mark.parametrize("amid", ["plan", "compact.begin", "compact.half", "compact.merged"])
def test_a_compaction_whose_segments_are_collected_under_it(
    amid: str, store: Path, settings: Settings, tmp_path: Path
) -> None:
    late = start(compact_slowly, store, settings, tmp_path / "began", tmp_path / "go", amid)
    wait_for((tmp_path / "began").exists)
    compact(store, settings, full=True)
    collect(store, 1, 0.0, 10.0)
    assert len(list((store / "segments").iterdir())) == 1
    (tmp_path / "go").touch()
    end(late)
    assert contents(store) == NOW
    assert_tidy(store)


def test_commits_go_on_while_segments_are_merged(
    store: Path, settings: Settings, encoder: Encoder, tmp_path: Path
) -> None:
    """Ten commits in the middle of a merge: what they add stays beside it, what they replace is carried over."""
    merging = start(compact_slowly, store, settings, tmp_path / "began", tmp_path / "go", "compact.half")
    wait_for((tmp_path / "began").exists)
    logs = {**LOGS, "attic": GROWN}
    for i in range(7):
        logs[f"s{i}"] = [f"talk {i} is about rye bread", *LOGS[f"s{i}"][1:], "and that is all"]
        take_in(store, write_log(tmp_path / f"s{i}.jsonl", f"s{i}", logs[f"s{i}"]), settings, encoder)
    for i in range(3):
        logs[f"new{i}"] = [f"a new talk {i}"]
        take_in(store, write_log(tmp_path / f"n{i}.jsonl", f"new{i}", logs[f"new{i}"]), settings, encoder)
    assert len(ledger.current(store)[1].segments) == 20
    (tmp_path / "go").touch()
    end(merging)
    assert contents(store) == says(logs)
    manifest = ledger.current(store)[1]
    assert len(manifest.segments) < 8
    assert manifest.counts == {"items": says(logs).total(), "sessions": len(logs), "documents": 20}
    assert_tidy(store)


def compact_again_and_again(root: Path, settings: Settings, stop: Path) -> None:
    while not stop.exists():
        compact(root, settings, full=True)


def test_ingests_and_compactions_at_once(store: Path, settings: Settings, tmp_path: Path) -> None:
    """Every ingest tidies up too, so merges run into each other all the time."""
    logs = {**LOGS, "attic": GROWN}
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
    assert contents(store) == says(logs)
    assert_tidy(store)


def ingest_each(root: Path, settings: Settings, folder: Path, which: range) -> None:
    for i in which:
        ingest(root, [folder / f"n{i}.jsonl"], settings)


# ---------------------------------------------------------------- forget

HIDDEN = ("forget.purge",)  # before the items are gone from recall
GONE = (
    *("forget.deleted", "forget.planned", *MERGING, "forget.rewritten", "forget.envelopes"),
    *("touch.begin", "touch.access", "touch.published", "forget.published"),
    *("forget.manifests", "forget.removed", "forget.receipt"),
)


def traces(root: Path, words: str = SECRET) -> list[str]:
    """Files of the store that hold the words in whatever case, compressed or not."""
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += repr(pq.read_table(path).to_pylist()).encode()
        if words.encode() in data.lower():
            found.append(str(path.relative_to(root)))
    return found


@pytest.fixture
def quoted(store: Path, settings: Settings, encoder: Encoder, tmp_path: Path) -> Path:
    """A store in which the secret lies wherever it can: also in parts, among the dead, in an interrupted merge."""
    given_up = write_log(tmp_path / "dead.jsonl", "attic", [*GROWN, "one zorbified more"])
    document = accept(store, given_up, settings).envelope.document
    ledger.give_up(store, document, "ValueError: 'one zorbified more'")
    other = replace(settings, item_words=40)
    enrich(store, document, encoder, TokenCounter(encoder.folder), other)
    enrich(store, ledger.accepted(store)[0], encoder, TokenCounter(encoder.folder), other)
    kill("compact.moved", compact, store, settings)
    kill("compact.merged", compact, store, settings)
    assert {Path(path).parts[0] for path in traces(store)} == {"segments", "inbox", "dead", "parts", "building"}
    return store


def assert_forgotten(root: Path, settings: Settings, ids: set[str], documents: set[str]) -> None:
    assert traces(root) == []
    receipts = [json.loads(path.read_bytes()) for path in (root / "receipts").iterdir()]
    assert len(receipts) == 1
    receipt = receipts[0]
    assert ids <= set(receipt["items"])  # and the turn that was given up
    assert documents <= set(receipt["documents"])
    for file in receipt["files"]:
        assert (file["after"] is not None) == (root / file["path"]).exists()
        assert file["before"] != file["after"]
    keys = np.array([int(item, 16) for item in ids], np.uint64)
    snapshot = Snapshot(root)
    assert not np.isin(keys, events.load_access(root, snapshot.manifest.access).key).any()
    assert not any(item in path.read_text() for path in (root / "events").iterdir() for item in ids)
    found = Memory(root, settings).recall(f"{SECRET} harp zither")
    assert not any(SECRET in item.text for item in found.items)


@pytest.mark.parametrize("point", [*HIDDEN, *GONE, *PUBLISHING])
def test_a_kill_at_any_step_of_a_deletion(
    point: str, quoted: Path, settings: Settings, more: Path
) -> None:
    root = quoted
    reader = Memory(root, settings)
    ids = {row["id"] for row in reader.snapshot.text(range(reader.snapshot.rows)) if row["session"] == "attic"}
    documents = {
        row["document"]
        for file in ledger.current(root)[1].documents
        for row in pq.read_table(root / file.path).to_pylist()
        if "attic" in row["path"]
    }
    assert len(documents) == 2
    kill(point, forget_session, root, settings, "attic")
    hidden = point in ("forget.purge", "commit.manifest", "commit.checked")  # the first time each is passed
    assert contents(root) == (NOW if hidden else WITHOUT)
    if not hidden:
        assert reader.refresh()
        assert not any(SECRET in item.text for item in reader.recall(f"{SECRET} harp").items)
    # Whoever writes next finishes it: an ingest of anything else, a compaction, the same command again.
    way = (*HIDDEN, *GONE, *PUBLISHING).index(point) % 3
    added: Contents = Counter()
    if way == 0:
        ingest(root, [more], settings)
        added = MORE
    elif way == 1:
        resume(root, settings)
    else:
        assert ids <= set(forget(root, Selection(session="attic"), settings)["items"])
    assert contents(root) == WITHOUT + added
    reader.refresh()
    assert held(reader.snapshot) == WITHOUT + added
    del reader
    assert_forgotten(root, settings, ids, documents)
    assert_tidy(root)
    # Neither the same bytes nor a log that has grown bring it back.
    again = write_log(more.parent / "attic3.jsonl", "attic", [*GROWN, "something else"])
    ingest(root, [again], settings)
    assert contents(root) == WITHOUT + added + Counter({("attic", "attic:4", "something else"): 1})
