"""What a store of n items costs: commits, compaction, memory, bytes, opening, recall and refresh, measured.

Every step runs in a fresh process (`pipelines.bench.phase`), so that one's memory is not another's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.manifest import FORMAT, Manifest
from helix.snapshot.segment.arrays import unhexes
from helix.snapshot.segment.batch import Rows, save
from helix.types import F32
from pipelines.bench import synthetic
from pipelines.bench.real import FILE as REAL
from pipelines.bench.real import LEAST, with_real
from pipelines.bench.real import wanted as wanted_real
from pipelines.ingest.commit import commit_rows
from pipelines.ingest.document_table import DOCUMENTS
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.compact import compact

Say = Callable[[str], None]
Report = dict[str, Any]

MARKER: Final = "bench.json"
"""Beside CURRENT: which synthetic store this is. No other store is ever touched."""

QUERIES: Final = 200
_REPEATS: Final = 7  # commits of 100 items; with the one of `refresh` a compaction has eight to merge
_SMALL, _LARGE = 100, 10_000
_FRESH: Final = 1 << 20  # index of the first batch of new items: no store has so many
_BEFORE_MEMORY: Final = 50  # recalls, after which a reader's memory is read
_SAMPLED: Final = 0.01  # seconds between looks at a process's memory
_REFRESH_WAIT: Final = 120.0  # seconds


def default_root(items: int, settings: Settings) -> Path:
    """Where the store of so many items lies, if no place is given."""
    return Path(settings.cache).expanduser() / "bench" / f"store-{items}-f{FORMAT}-v{synthetic.VERSION}"


# ---------------------------------------------------------------- the store


def build(root: Path, items: int, seed: int, settings: Settings, say: Say, *, real: int | None = None) -> None:
    """Make a compacted store of `items` synthetic items; one that is there already is taken as it is.

    Its documents are in the ledger as if they had been ingested, since a commit's cost depends on them too.

    Args:
        real: items with real vectors instead of synthetic ones, about; with fewer than `pipelines.bench.real.LEAST`
            the others lie in a space of no model.

    Raises:
        UsageError: something else lies at `root`, or items is no positive number.
        EncoderError: no encoder is in reach, or its vectors have another width than synthetic ones.
    """
    if items < 1:
        raise UsageError(f"a store of {items} items cannot be measured", "give --items a positive number")
    real = wanted_real(items) if real is None else real
    wanted = {"items": items, "seed": seed, "real": real, "version": synthetic.VERSION, "format": FORMAT}
    if _is_there(root, wanted):
        return
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths.write_file(root / MARKER, orjson.dumps({**wanted, "complete": False}))
    paths.create(root)
    encoder = open_encoder(root, settings, say)
    if encoder.dim != synthetic.DIM:
        raise UsageError(
            f"{encoder.spec.name} has {encoder.dim} dimensions, synthetic vectors {synthetic.DIM}",
            "unset HELIX_ENCODER",
        )
    say(f"making {items:,} synthetic items in {root}, {real:,} of them with real vectors, once")
    taken: list[dict[str, Any]] = []
    described: list[pa.Table] = []
    embedding = 0.0

    def embed(texts: list[str]) -> F32:
        nonlocal embedding
        began = time.perf_counter()
        vectors = encoder.passages(texts, settings.embed_batch)
        embedding += time.perf_counter() - began
        return vectors

    began = time.perf_counter()
    mixed = synthetic.learnt(embed) if real >= LEAST else None
    batches = with_real(synthetic.batches(items, seed, mixed=mixed), items, real, embed)
    commit_rows(root, _accepted(root, _noted(batches, described), taken, say), encoder, settings)
    pq.write_table(pa.concat_tables(described), root / REAL, compression="zstd")
    _publish_documents(root, taken, settings)
    written = time.perf_counter()
    compact(root, settings, say)
    done = time.perf_counter()
    seconds = {"write": written - began - embedding, "embed": embedding, "compact": done - written}
    paths.write_file(root / MARKER, orjson.dumps({**wanted, "complete": True, "seconds": seconds}))


def _is_there(root: Path, wanted: dict[str, Any]) -> bool:
    """Whether the wanted store is there whole; the remains of one that was begun are removed."""
    if not root.is_dir() or not any(root.iterdir()):
        return False
    found = marker(root)
    if found is None:
        raise UsageError(f"{root} holds something else than a synthetic store", "name another folder with --store")
    if not found["complete"]:
        shutil.rmtree(root)
        return False
    if {name: found.get(name) for name in wanted} != wanted:
        raise UsageError(
            f"{root} holds {found['items']:,} synthetic items of seed {found['seed']}, version {found['version']}",
            "name another folder with --store, or remove this one",
        )
    return True


def marker(root: Path) -> dict[str, Any] | None:
    """What synthetic store this is; None where it is none.

    Raises:
        StoreError: what says so is damaged.
    """
    try:
        return dict(orjson.loads((root / MARKER).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError) as error:
        raise StoreError(f"{root / MARKER} is damaged: {error}", "remove the folder") from None


def _noted(batches: Iterable[tuple[Rows, pa.Table]], described: list[pa.Table]) -> Iterator[Rows]:
    """The batches alone; what questions are made of is kept."""
    for rows, table in batches:
        described.append(table)
        yield rows


def _accepted(root: Path, batches: Iterable[Rows], taken: list[dict[str, Any]], say: Say) -> Iterator[Rows]:
    """The same batches; the documents they come from are put into the inbox and noted."""
    done = 0
    for rows in batches:
        taken.extend(_write_envelope(root, document, _slice(rows, part)) for document, part in _by_document(rows))
        yield rows
        done += len(rows)
        say(f"{done:,} items written")


def _publish_documents(root: Path, taken: Sequence[dict[str, Any]], settings: Settings) -> None:
    """A generation in which the documents are done."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None:
            raise StoreError(f"{root} was emptied while it was being made", "run the command again")
        file = writer.write_documents(root, pa.Table.from_pylist(list(taken), schema=DOCUMENTS))
        new = replace(
            manifest,
            generation=manifest.generation + 1,
            parent=name,
            documents=(*manifest.documents, file),
            counts={**manifest.counts, "documents": manifest.counts["documents"] + file.rows},
            token=held.token,
        )
        writer.publish(held, new)


def _by_document(rows: Rows) -> list[tuple[str, slice]]:
    """The documents of a batch and where their rows are: they lie together."""
    documents = rows.items["document"].to_pylist()
    starts = [i for i in range(len(documents)) if i == 0 or documents[i] != documents[i - 1]]
    return [(documents[a], slice(a, b)) for a, b in zip(starts, [*starts[1:], len(documents)], strict=True)]


def _slice(rows: Rows, part: slice) -> pa.Table:
    return rows.items.slice(part.start, part.stop - part.start)


def _write_envelope(root: Path, document: str, items: pa.Table) -> dict[str, Any]:
    """Accept one document; what a manifest's `documents` say of it."""
    turns = zip(items["turns"].to_pylist(), items["text"].to_pylist(), strict=True)
    text = "\n".join(json.dumps({"id": turn[0], "text": text}) for turn, text in turns)
    path, when = items["path"][0].as_py(), datetime.now(UTC)
    envelope = Envelope(document, path, text, "jsonl", items["project"][0].as_py(), (), None, when, {}, ())
    ledger.write(root, envelope)
    return {
        "document": document,
        "path": path,
        "format": envelope.format,
        "accepted": when,
        "sessions": 1,
        "turns": items.num_rows,
        "items": items.num_rows,
        "redacted": "{}",
        "problems": 0,
        "keys": unhexes(items["id"]),
    }


def write_parts(root: Path, rows: Rows, fingerprint: str) -> int:
    """Put items where enrichment leaves them, a document a session: accepted, and a part each. Their number."""
    found = _by_document(rows)
    for document, part in found:
        noted = _write_envelope(root, document, _slice(rows, part))
        described = {name: noted[name] for name in ("path", "format", "turns", "items", "sessions")}
        described |= {
            "accepted": noted["accepted"].isoformat(),
            "redacted": {},
            "problems": [],
            "unknown": {},
            "types": "",
        }
        with paths.new_folder(part_folder(root, document, fingerprint)) as folder:
            save(rows.take(np.arange(part.start, part.stop)), folder)
            (folder / "part.json").write_bytes(orjson.dumps(described))
    return len(found)


# ---------------------------------------------------------------- measuring


def measure(root: Path, settings: Settings, say: Say, *, keep: bool = False, cold: bool = False) -> Report:
    """Every figure of a store that `build` made.

    Reading is measured on the store itself, writing on a copy whose files are hard links of the store's (whole copies
    where the file system has no links), so the store stays as it is.

    Args:
        keep: leave the copy beside the store when done.
        cold: before the cold start forget all that the system has cached, which needs its permission; else only the
            files of the store.

    Raises:
        StoreError: there is no such store, or it cannot be read.
    """
    found, (_, manifest) = marker(root), ledger.current(root)
    if found is None or manifest is None:
        raise StoreError(f"{root} is no synthetic store", "make one with 'helix bench store'")
    asks = queries(found["items"], found["seed"])
    report: Report = {"items": found["items"], "seed": found["seed"], "cores": len(os.sched_getaffinity(0))}
    report |= {"segments": len(manifest.segments), "build_seconds": found.get("seconds", {})}
    report["bytes_per_item"] = _bytes(root, manifest)
    say("reading")
    report |= _reading(root, asks, cold)
    work = root.parent / f"{root.name}-work"
    shutil.rmtree(work, ignore_errors=True)
    try:
        report["written_on"] = _copy(root, work)
        report |= _writing(work, found["seed"], settings, asks, say)
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    return report


# Replaced by rename or appended to; all else never changes, so that a link is as good as a copy.
_CHANGING: Final = ("CURRENT", "NEXT", MARKER)


def _copy(root: Path, target: Path) -> str:
    """A store with the same content; "hard links" or "copies". Locks and pins stay behind."""
    linked = True
    target.mkdir(mode=0o700)
    for path in sorted(root.rglob("*")):
        new = target / path.relative_to(root)
        if path.is_dir():
            new.mkdir(mode=0o700, exist_ok=True)
            continue
        if path.suffix == ".lock" or path.parent.name == "pins":
            continue
        if path.name not in _CHANGING and linked:
            try:
                os.link(path, new)
                continue
            except OSError:
                linked = False
        shutil.copy2(path, new)
    return "hard links" if linked else "copies"


def _bytes(root: Path, manifest: Manifest) -> dict[str, float]:
    """Bytes an item on disk, by kind of file; `encoder` is the same for a store of any size."""
    sums: Counter[str] = Counter()
    for segment in manifest.segments:
        for file in segment.files:
            name = Path(file.path).name
            sums[name.split(".")[0] if name.endswith(".npy") else name] += file.bytes
    for index in manifest.indexes:
        sums[f"{index.kind} index"] += sum(file.bytes for file in index.files)
    for what in ("encoder", "documents"):
        sums[what] = sum(file.bytes for file in getattr(manifest, what))
    sums["inbox"] = sum(path.stat().st_size for path in (root / "inbox").iterdir())
    per = {kind: round(size / manifest.counts["items"], 1) for kind, size in sums.most_common() if size}
    return {"total": round(sum(sums.values()) / manifest.counts["items"], 1), **per}


# ---------------------------------------------------------------- reading


def queries(items: int, seed: int, n: int = QUERIES) -> list[dict[str, Any]]:
    """n questions in the language of the items: words, identifiers and paths, errors, words within a project.

    Returns:
        a list of {query, project, kind, item}; `item` is the id of the one the words are from.
    """
    index = items // synthetic.BATCH // 2
    size = min(synthetic.BATCH, items - index * synthetic.BATCH)
    rows = synthetic.batch(seed, index, size)
    rng = np.random.default_rng(seed)
    names = dict(
        zip(rows.entities["hash"].to_pylist(), rows.entities.select(["kind", "name"]).to_pylist(), strict=True)
    )
    text, project, ids = (rows.items[column].to_pylist() for column in ("text", "project", "id"))
    asks: list[dict[str, Any]] = []
    open_to_all = np.flatnonzero(_for_all(rows))
    places = iter(np.resize(rng.permutation(open_to_all), 50 * n).tolist())
    for i in range(n):
        kind = ("words", "identifier", "words", "error", "project")[i % 5]
        found = None
        while found is None:
            row = next(places, None)
            if row is None:  # hardly any item names what is wanted: words will do
                kind, row = "words", int(rng.choice(open_to_all))
            mentioned = rows.mention_entity[rows.mention_indptr[row] : rows.mention_indptr[row + 1]].tolist()
            found = _question(kind, text[row], [names[number] for number in mentioned], rng)
        asks.append(
            {"query": found, "project": project[row] if kind == "project" else None, "kind": kind, "item": ids[row]}
        )
    return asks


def _question(kind: str, text: str, mentioned: Sequence[dict[str, str]], rng: np.random.Generator) -> str | None:
    """A question about one item; None where it has nothing of the kind."""
    words = re.findall(r"[^\s.,]\S*[^\s.,]", text)
    start = int(rng.integers(max(1, len(words) - 7)))
    said = " ".join(words[start : start + 8]).lower()
    if kind in ("words", "project"):
        return said or text
    wanted = ("error",) if kind == "error" else ("identifier", "path")
    named = [entry["name"] for entry in mentioned if entry["kind"] in wanted]
    if not named:
        return None
    return f"{named[0]}: {' '.join(words[start : start + 3])}" if kind == "error" else f"where is {named[0]} used"


def _reading(root: Path, asks: Sequence[dict[str, Any]], cold: bool) -> Report:
    """Opening, recall and memory of a reader."""
    with process() as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})  # warms the page cache
    with process() as (ask, _):
        began = time.perf_counter()
        warm = ask({"do": "open", "root": str(root), "ask": asks[0]})
        warm["process"] = (time.perf_counter() - began) * 1000
        first = ask({"do": "recall", "asks": asks[:_BEFORE_MEMORY]})["recalls"]
        private = ask({"do": "memory"})
        rest = ask({"do": "recall", "asks": asks[_BEFORE_MEMORY:]})["recalls"]
        after = ask({"do": "memory"})
    how = drop_caches(root, everything=cold)
    with process() as (ask, _):
        first_ever = ask({"do": "open", "root": str(root), "ask": asks[0]})
    return {
        "open_ms": {"warm": opening(warm), "cold": {**opening(first_ever), "dropped": how}},
        "private_mb": {**rounded(private), "after_all": rounded(after)},
        "recall": _recalls(asks, [*first, *rest]),
    }


def opening(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a first answer; `total` with the imports."""
    whole = found["import"] + found["open"] + found["answer"]
    return rounded({**found, "total": whole, "without_import": whole - found["import"]})


def _recalls(asks: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> Report:
    """Percentiles in milliseconds, of all questions and by kind; medians by stage."""
    stages: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, list[float]] = defaultdict(list)
    for question, one in zip(asks, found, strict=True):
        if not one["answered"]:  # nothing was searched
            continue
        for stage, ms in one["ms"].items():
            stages[stage].append(ms)
        kinds[question["kind"]].append(one["ms"]["total"])
    return {
        **percentiles(stages["total"]),
        "queries": len(found),
        "stages": {stage: round(statistics.median(values), 2) for stage, values in stages.items() if stage != "total"},
        "kinds": {kind: percentiles(values) for kind, values in kinds.items()},
        "answered": sum(one["answered"] for one in found) / len(found),  # neither skipped nor degraded
        "found": sum(one["found"] for one in found) / len(found),  # the item the question was made from
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return rounded({"p50": p50, "p95": p95, "p99": p99})


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Figures to the hundredth."""
    return {name: round(value, 2) for name, value in values.items()}


def drop_caches(root: Path, *, everything: bool) -> str:
    """Make the system forget what it has cached of the store's files, or of all files; says what was dropped."""
    os.sync()
    if everything:
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3", "ascii")
        except OSError as error:
            raise UsageError(
                f"the system's caches cannot be dropped: {error}", "run as root, or without --cold"
            ) from None
        return "everything"
    for path in root.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    return "the store's files"


# ---------------------------------------------------------------- writing


def _writing(work: Path, seed: int, settings: Settings, asks: Sequence[dict[str, Any]], say: Say) -> Report:
    """Commits, refresh and compaction on `work`, with the memory of each writer."""
    _, manifest = ledger.current(work)
    if manifest is None:
        raise StoreError(f"{work} has no generation", "remove it and run the command again")
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    fresh = iter(range(_FRESH, 2 * _FRESH))
    peaks: dict[str, dict[str, float]] = {}
    report: Report = {}

    def put(items: int) -> Rows:
        rows = synthetic.batch(seed, next(fresh), items)
        write_parts(work, rows, fingerprint)
        return rows

    for name, items, repeats in (("commit_100", _SMALL, _REPEATS), ("commit_10000", _LARGE, 1)):
        say(f"committing {items:,} items{f', {repeats} times' if repeats > 1 else ''}")
        with process() as (ask, peak):
            ask({"do": "writer", "root": str(work)})
            idle = dict(peak)
            runs = []
            for _ in range(repeats):
                put(items)
                runs.append(_on_disk(work, partial(ask, {"do": "commit"})))
            report[name] = _commits(runs)
        peaks[name] = {**peak, "idle_anonymous": idle["anonymous"]}
    say("refreshing an open reader")
    report["refresh"] = _refresh(work, put(_SMALL), asks[0])
    for name, full in (("compact", False), ("compact_all", True)):
        say("compacting" + (" everything" if full else ""))
        with process() as (ask, peak):
            ask({"do": "writer", "root": str(work)})
            done = _on_disk(work, partial(ask, {"do": "compact", "full": full}))
        _, manifest = ledger.current(work)
        report[name] = {**rounded(done), "segments": len(manifest.segments) if manifest else 0}
        peaks[name] = peak
    everything_at_most = {kind: max(peak[kind] for peak in peaks.values()) for kind in ("rss", "anonymous")}
    by_phase = {name: rounded(peak) for name, peak in peaks.items()}
    return {**report, "writer_peak_mb": {**rounded(everything_at_most), "phases": by_phase}}


def _commits(runs: Sequence[dict[str, float]]) -> Report:
    seconds = [run["seconds"] for run in runs]
    return rounded(
        {
            "seconds": statistics.median(seconds),
            "worst": max(seconds),
            "cpu": statistics.median(run["cpu"] for run in runs),
            "new_bytes": statistics.median(run["new_bytes"] for run in runs),
            "write_bytes": statistics.median(run["write_bytes"] for run in runs),
        }
    )


def _on_disk(root: Path, work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What `work` returns, and the bytes of the files it left that were not there before."""
    before = _files(root)
    done = work()
    return {**done, "new_bytes": sum(size for file, size in _files(root).items() if file not in before)}


def _files(root: Path) -> dict[tuple[Path, int], int]:
    """Size of every file of the store, by path and inode; parts and the inbox are the reader's of documents."""
    found: dict[tuple[Path, int], int] = {}
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] in ("inbox", "parts"):
            continue
        with contextlib.suppress(FileNotFoundError):  # unfinished work
            state = path.stat()
            if path.is_file():
                found[path, state.st_ino] = state.st_size
    return found


def _for_all(rows: Rows) -> npt.NDArray[np.bool_]:
    """bool[n]: whether everybody may see an item."""
    return np.array([not acl for acl in rows.items["acl"].to_pylist()])


def _refresh(work: Path, rows: Rows, ask_first: dict[str, Any]) -> Report:
    """Seconds from a commit's publishing to the moment an open reader answers from it; that it does is checked."""
    longest = int(np.argmax(np.diff(rows.term_indptr) * _for_all(rows)))
    words = rows.items["text"][longest].as_py()
    wanted = {"query": words, "project": None, "k": 1_000}  # the whole pool: the rank is no matter here
    new = rows.items["id"].to_pylist()
    with process() as (read, _), process() as (write, _):
        read({"do": "open", "root": str(work), "ask": ask_first})
        write({"do": "writer", "root": str(work)})
        answers: list[dict[str, Any]] = []
        waiting = threading.Thread(
            target=lambda: answers.append(read({"do": "refresh", "ask": wanted, "items": new, "wait": _REFRESH_WAIT}))
        )
        waiting.start()
        write({"do": "commit"})
        published = (work / "CURRENT").stat().st_mtime
        waiting.join()
    if not answers or answers[0]["when"] is None:
        raise StoreError(
            f"a reader of {work} did not recall a new item", "run 'helix verify --store' on it, with --keep"
        )
    done = answers[0]
    return rounded({"seconds": done["when"] - published, "refresh": done["refresh"], "recall": done["recall"]})


# ---------------------------------------------------------------- processes

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def process(*, watched: bool = True, **environ: str) -> Iterator[tuple[Ask, dict[str, float]]]:
    """A fresh process that answers requests, and the most memory it had so far, in MB.

    `rss` counts mapped files that are in memory; `anonymous` is sampled and does not.

    Args:
        watched: look at its memory, which takes a little of a processor's time.
        environ: variables of its own.
    """
    command = [sys.executable, "-m", "pipelines.bench.phase"]
    own = {**os.environ, "HELIX_ANSWERS": "0", **environ}  # no answer that is kept from before, unless that is wanted
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own)
    peak = {"rss": 0.0, "anonymous": 0.0}
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(child.pid, peak, ended))
    if watched:
        watch.start()
    try:
        if child.stdin is None or child.stdout is None:
            raise StoreError("a measuring process has no pipes", "run the command again")
        requests, answers = child.stdin, child.stdout

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            requests.write(json.dumps(request) + "\n")
            requests.flush()
            line = answers.readline()
            if not line:
                raise StoreError(
                    f"the process measuring '{request['do']}' ended with {child.wait()}", "see its message above"
                )
            if watched:
                _look(child.pid, peak)
            return dict(orjson.loads(line))

        yield ask, peak
    finally:
        ended.set()
        if watched:
            watch.join()
        if child.stdin:
            child.stdin.close()
        child.wait()
        if child.stdout:
            child.stdout.close()


def _watch(pid: int, peak: dict[str, float], ended: threading.Event) -> None:
    while not ended.wait(_SAMPLED):
        _look(pid, peak)


def _look(pid: int, peak: dict[str, float]) -> None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:  # it ended
        return
    kb = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.strip()}
    for kind, field in (("rss", "VmHWM"), ("anonymous", "RssAnon")):
        if field in kb:
            peak[kind] = max(peak[kind], int(kb[field]) / 1024)
