"""Cost of a synthetic store: commits, compaction, memory, bytes, opening, recall and refresh.

Every step runs in a fresh process (`pipelines.bench.phase`) with its own memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.batch import RowBatch
from pipelines.bench.process import Report, Say, drop_caches, percentiles, round_values, start_process, start_reader
from pipelines.bench.questions import draw_store_questions, select_public
from pipelines.bench.synthetic import make_batch
from pipelines.bench.synthetic_store import MARKER, read_marker, write_parts
from pipelines.ingest.part import pipeline_fingerprint

_REPEATS: Final = 7  # commits of 100 items; with that of the refresh a compaction has eight to merge
_SMALL, _LARGE = 100, 10_000
_FRESH: Final = 1 << 20  # index of the first batch of new items, beyond any store's
_BEFORE_MEMORY: Final = 50  # recalls before a reader's memory is read
_REFRESH_WAIT: Final = 120.0  # seconds


def measure(root: Path, settings: Settings, say: Say, *, keep: bool = False, cold: bool = False) -> Report:
    """Measure a store of `build_store`.

    Reading is measured on the store, writing on a copy of hard links (or of files, on a file system without links), so
    that the store does not change; `keep` retains the copy next to it. `cold` drops all of the system's caches before
    the cold start, which needs root; else only the store's files.

    Raises:
        StoreError: `root` is no such store, or cannot be read.
    """
    found, (_, manifest) = read_marker(root), inbox.load_current(root)
    if found is None or manifest is None:
        raise StoreError(f"{root} is no synthetic store", "make one with 'helix bench store'")
    asks = draw_store_questions(found["items"], found["seed"])
    report: Report = {"items": found["items"], "seed": found["seed"], "cores": len(os.sched_getaffinity(0))}
    report |= {"segments": len(manifest.segments), "build_seconds": found.get("seconds", {})}
    report["bytes_per_item"] = _measure_bytes(root, manifest)
    say("reading")
    report |= _measure_reading(root, asks, cold)
    work = root.parent / f"{root.name}-work"
    shutil.rmtree(work, ignore_errors=True)
    try:
        report["written_on"] = _copy_store(root, work)
        report |= _measure_writing(work, found["seed"], settings, asks, say)
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    return report


# Files that are replaced or appended to; others never change, so that a link will do.
_CHANGING: Final = ("CURRENT", "NEXT", MARKER)


def _copy_store(root: Path, target: Path) -> str:
    """Copy a store without locks and pins; return "hard links" or "copies"."""
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


def _measure_bytes(root: Path, manifest: Manifest) -> dict[str, float]:
    """Return bytes an item on disk, by kind of file; `encoder` is the same for a store of any size."""
    sums: Counter[str] = Counter()
    for segment in manifest.segments:
        for file in segment.files:
            name = Path(file.path).name
            sums[name.split(".")[0] if name.endswith(".npy") else name] += file.bytes
    for index in manifest.indexes:
        sums[f"{index.kind} index"] += sum(file.bytes for file in index.files)
    sums["encoder"] = sum(file.bytes for file in manifest.encoder)
    sums["documents"] = sum(file.bytes for file in manifest.documents)
    sums["inbox"] = sum(path.stat().st_size for path in (root / "inbox").iterdir())
    per = {kind: round(size / manifest.counts["items"], 1) for kind, size in sums.most_common() if size}
    return {"total": round(sum(sums.values()) / manifest.counts["items"], 1), **per}


def _measure_reading(root: Path, asks: Sequence[dict[str, Any]], cold: bool) -> Report:
    """Measure opening, recall and memory of a reader."""
    opening = {"do": "open", "root": str(root), "ask": asks[0]}
    with start_process() as (send, _):
        send(opening)  # warms the page cache
    with start_process() as (send, _):
        began = time.perf_counter()
        warm = send(opening)
        warm["process"] = (time.perf_counter() - began) * 1000
        first = send({"do": "recall", "asks": asks[:_BEFORE_MEMORY]})["recalls"]
        private = send({"do": "memory"})
        rest = send({"do": "recall", "asks": asks[_BEFORE_MEMORY:]})["recalls"]
        after = send({"do": "memory"})
    dropped = drop_caches(root, everything=cold)
    with start_process() as (send, _):
        first_ever = send(opening)
    return {
        "open_ms": {"warm": sum_opening(warm), "cold": {**sum_opening(first_ever), "dropped": dropped}},
        "private_mb": {**round_values(private), "after_all": round_values(after)},
        "recall": _summarise_recalls(asks, [*first, *rest]),
    }


def sum_opening(parts: dict[str, Any]) -> dict[str, float]:
    """Return the milliseconds of a first answer with two totals, with and without the imports."""
    whole = parts["import"] + parts["open"] + parts["answer"]
    return round_values({**parts, "total": whole, "without_import": whole - parts["import"]})


def _summarise_recalls(asks: Sequence[dict[str, Any]], recalls: Sequence[dict[str, Any]]) -> Report:
    """Return percentiles in milliseconds of all questions and by kind, and medians by stage."""
    stages: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, list[float]] = defaultdict(list)
    for question, one in zip(asks, recalls, strict=True):
        if not one["answered"]:  # without a search
            continue
        for stage, ms in one["ms"].items():
            stages[stage].append(ms)
        kinds[question["kind"]].append(one["ms"]["total"])
    return {
        **percentiles(stages["total"]),
        "queries": len(recalls),
        "stages": {stage: round(statistics.median(values), 2) for stage, values in stages.items() if stage != "total"},
        "kinds": {kind: percentiles(values) for kind, values in kinds.items()},
        "answered": sum(one["answered"] for one in recalls) / len(recalls),  # neither skipped nor degraded
        "found": sum(one["found"] for one in recalls) / len(recalls),  # the question's source item
    }


def _measure_writing(work: Path, seed: int, settings: Settings, asks: Sequence[dict[str, Any]], say: Say) -> Report:
    """Measure commits, refresh and compaction on `work`, with the memory of each writer."""
    _, manifest = inbox.load_current(work)
    if manifest is None:
        raise StoreError(f"{work} has no generation", "remove it and run the command again")
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    fresh = iter(range(_FRESH, 2 * _FRESH))
    peaks: dict[str, dict[str, float]] = {}
    report: Report = {}

    def enqueue(items: int) -> RowBatch:
        rows = make_batch(seed, next(fresh), items)
        write_parts(work, rows, fingerprint)
        return rows

    for name, items, repeats in (("commit_100", _SMALL, _REPEATS), ("commit_10000", _LARGE, 1)):
        say(f"committing {items:,} items{f', {repeats} times' if repeats > 1 else ''}")
        with start_process() as (send, peak):
            send({"do": "writer", "root": str(work)})
            idle = dict(peak)
            runs = []
            for _ in range(repeats):
                enqueue(items)
                runs.append(_count_new_bytes(work, partial(send, {"do": "commit"})))
            report[name] = _summarise_commits(runs)
        peaks[name] = {**peak, "idle_anonymous": idle["anonymous"]}
    say("refreshing an open reader")
    report["refresh"] = _measure_refresh(work, enqueue(_SMALL), asks[0])
    for name, full in (("compact", False), ("compact_all", True)):
        say("compacting" + (" everything" if full else ""))
        with start_process() as (send, peak):
            send({"do": "writer", "root": str(work)})
            done = _count_new_bytes(work, partial(send, {"do": "compact", "full": full}))
        _, manifest = inbox.load_current(work)
        report[name] = {**round_values(done), "segments": len(manifest.segments) if manifest else 0}
        peaks[name] = peak
    most = {kind: max(peak[kind] for peak in peaks.values()) for kind in ("rss", "anonymous")}
    by_phase = {name: round_values(peak) for name, peak in peaks.items()}
    return {**report, "writer_peak_mb": {**round_values(most), "phases": by_phase}}


def _summarise_commits(runs: Sequence[dict[str, float]]) -> Report:
    names = ("seconds", "cpu", "new_bytes", "write_bytes")
    medians = {name: statistics.median(run[name] for run in runs) for name in names}
    worst = max(run["seconds"] for run in runs)
    return round_values({"seconds": medians.pop("seconds"), "worst": worst, **medians})


def _count_new_bytes(root: Path, work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return the result of `work` with the bytes of its new files."""
    before = _list_files(root)
    done = work()
    return {**done, "new_bytes": sum(size for file, size in _list_files(root).items() if file not in before)}


def _list_files(root: Path) -> dict[tuple[Path, int], int]:
    """Return the size of every file of the store by path and inode, without parts and the inbox."""
    sizes: dict[tuple[Path, int], int] = {}
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] in ("inbox", "parts"):
            continue
        with contextlib.suppress(FileNotFoundError):  # unfinished work
            state = path.stat()
            if path.is_file():
                sizes[path, state.st_ino] = state.st_size
    return sizes


def _measure_refresh(work: Path, rows: RowBatch, ask_first: dict[str, Any]) -> Report:
    """Measure the seconds from publishing a commit to an open reader's answer from it, which must have a new item."""
    longest = int(np.argmax(np.diff(rows.term_indptr) * select_public(rows)))
    words = rows.items["text"][longest].as_py()
    wanted = {"query": words, "project": None, "k": 1_000}  # the whole pool: the rank does not matter
    new = rows.items["id"].to_pylist()
    with start_reader(work, ask_first) as read, start_process() as (write, _):
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
        remedy = "run 'helix verify --store' on it, with --keep"
        raise StoreError(f"a reader of {work} did not recall a new item", remedy)
    done = answers[0]
    return round_values({"seconds": done["when"] - published, "refresh": done["refresh"], "recall": done["recall"]})


def format_report(report: Report) -> str:
    """Format the report of `bench store` for a terminal."""
    lines = [f"{report['items']:,} items in {report['segments']} segments, {report['cores']} cores"]

    def add(label: str, text: str) -> None:
        lines.append(f"  {label:24} {text}")

    for name, label in (("commit_100", "commit of 100"), ("commit_10000", "commit of 10,000")):
        one = report[name]
        add(label, f"{one['seconds']:.2f} s (worst {one['worst']:.2f}), {one['new_bytes'] / 1e6:.1f} MB new")
    for name, label in (("compact", "compaction after them"), ("compact_all", "merge of everything")):
        one = report[name]
        add(label, f"{one['seconds']:.1f} s, {one['new_bytes'] / 1e6:.1f} MB new, {one['segments']} segments left")
    for name, one in report["writer_peak_mb"]["phases"].items():
        add(f"memory of {name}", f"{one['anonymous']:.0f} MB of its own, {one['rss']:.0f} MB with mapped files")
    add("refresh of a reader", f"{report['refresh']['seconds']:.2f} s from publishing to recall")
    for name, one in report["open_ms"].items():
        dropped = f", dropped: {one['dropped']}" if "dropped" in one else ""
        parts = ", ".join(f"{part} {one[part]:.0f}" for part in ("import", "open", "answer"))
        add(f"first answer, {name}", f"{one['total']:.0f} ms ({parts}{dropped})")
    private = report["private_mb"]
    add(
        "memory of a reader",
        f"{private['anonymous']:.0f} MB of its own, {private['uss']:.0f} MB with what it mapped alone",
    )
    recall = report["recall"]
    add("recall", f"p50 {recall['p50']:.1f} ms, p95 {recall['p95']:.1f} ms of {recall['queries']} questions")
    for kind, one in recall["kinds"].items():
        add(f"  {kind}", f"p50 {one['p50']:.1f} ms, p95 {one['p95']:.1f} ms")
    add("  stages, median ms", ", ".join(f"{stage} {ms:g}" for stage, ms in recall["stages"].items()))
    sizes = report["bytes_per_item"]
    add("bytes an item", ", ".join(f"{kind} {size:,.0f}" for kind, size in sizes.items() if size >= 0.5))
    return "\n".join(lines)
