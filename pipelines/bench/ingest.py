"""Speed of the ingest: the whole fast path, the encoder alone and the raw ONNX session, on the same texts.

The three alternate on the same documents, so that a slower machine slows all of them. Memory is read after every
document: it must not grow with the documents before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from helix.encoders.dense import Encoder, measure_session
from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot import paths as store
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.batch import RowBatch
from pipelines.bench.process import Say
from pipelines.bench.synthetic import make_batches
from pipelines.embedded.ingest import ingest
from pipelines.embedded.state import IngestState
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.items import make_items
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.versions import read_document
from pipelines.training.router import load_type_model

SLICE = 500  # items of a synthetic document: seconds of work
COMPARED = 10  # documents for the raw session and the encoder; the rest is for the fast path alone


def measure(items: int, paths: Sequence[Path], settings: Settings, say: Say, seed: int = 1) -> dict[str, Any]:
    """Ingest `items` synthetic items, or logs if there are paths; return the report."""
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "store"
        store.create_folders(root)
        logs = list(list_files(paths) if paths else write_synthetic_logs(items, Path(work), seed))
        encoder = open_encoder(root, settings)
        load_type_model(encoder, settings)  # trained once a machine, not once an ingest
        accepted = (accept_log(root, log, settings) for log in logs[: COMPARED + 1])
        texts = [each for each in accepted if each is not None]
        turns: list[dict[str, float]] = []
        memory: list[list[float]] = []
        clock = LapClock()

        def record(state: IngestState) -> None:
            """Record time and memory after a document; run the others on the next one."""
            if state.step != "enrich":
                return
            done = state.documents
            turns.append({"seconds": clock.lap()})
            memory.append([done, read_rss() / 1e6])
            if done <= COMPARED and done < len(texts) and texts[done]:
                turns[-1] |= compare(encoder, texts[done], settings)
                say(f"{done} of {len(logs)} documents, {memory[-1][1]:.0f} MB")
            clock.lap()

        began = time.perf_counter()
        report = ingest(root, logs, settings, observe=record, workers=1)  # one after the other, to be timed
        whole = time.perf_counter() - began - clock.apart
    return summarise(turns, memory, [len(each) for each in texts], report.items, whole)


class LapClock:
    """A clock of laps, of which every second one does not count."""

    def __init__(self) -> None:
        self.apart = 0.0
        self._laps = 0
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self._laps += 1
        self.apart += took if self._laps % 2 == 0 else 0.0
        return took


def compare(encoder: Encoder, texts: Sequence[str], settings: Settings) -> dict[str, float]:
    """Return passages a second of the raw session and of the encoder, on the next texts of the fast path."""
    raw = measure_session(encoder, texts, settings.embed_batch)
    began = time.perf_counter()
    encoder.passages(texts, settings.embed_batch)
    return {"raw": raw, "encoder": len(texts) / (time.perf_counter() - began)}


def accept_log(root: Path, log: Path, settings: Settings) -> list[str] | None:
    """Accept a log and return the distinct texts for the encoder; None for a refused log or a duplicate."""
    documents = accept_all(root, [log], settings, IngestReport(), project=None, format="auto", acl=())
    if not documents:
        return None
    envelope = inbox.read_envelope(root, documents[0])
    return list(dict.fromkeys(make_items(read_document(root, envelope, settings), envelope, settings, Counter()).texts))


def read_rss() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def summarise(
    turns: Sequence[Mapping[str, float]],
    memory: Sequence[Sequence[float]],
    texts: Sequence[int],
    items: int,
    seconds: float,
) -> dict[str, Any]:
    """Return medians; a share is the median of the ratios of neighbours in time; refuse too few documents.

    Args:
        turns: seconds of each document and, for the first ones, the rates on the texts of the next.
        texts: number of distinct texts of the first documents.
        seconds: of the whole ingest with publishing and clean-up, without the comparisons.
    """
    compared = [i for i in range(1, min(len(texts), len(turns))) if "raw" in turns[i - 1]]
    if not compared:
        raise UsageError("there is too little to measure", "give more items, or at least two logs")
    fast = [texts[i] / turns[i]["seconds"] for i in compared]
    raw = [turns[i - 1]["raw"] for i in compared]
    encoder = [turns[i - 1]["encoder"] for i in compared]
    half = memory[len(memory) // 2 :]
    return {
        "items": items,
        "raw": round(statistics.median(raw), 1),
        "encoder": round(statistics.median(encoder), 1),
        "fast": round(statistics.median(fast), 1),
        "encoder_share": round(statistics.median(a / b for a, b in zip(encoder, raw, strict=True)), 3),
        "fast_share": round(statistics.median(a / b for a, b in zip(fast, raw, strict=True)), 3),
        "whole": round(items / seconds, 1),
        "memory_mb": [[int(documents), round(mb, 1)] for documents, mb in memory],
        "growth_mb": round(half[-1][1] - half[0][1], 1),
        "cores": os.cpu_count(),
    }


def write_synthetic_logs(items: int, folder: Path, seed: int) -> Iterator[Path]:
    """Write logs of synthetic items in the generic format, SLICE items each."""
    for index, batch in enumerate(make_batches(items, seed, SLICE, workers=1)):
        path = folder / f"log-{index}.jsonl"
        path.write_bytes(b"".join(_format_lines(batch)))
        yield path


def _format_lines(batch: RowBatch) -> Iterator[bytes]:
    names = ["session", "turns", "speaker", "role", "title", "text", "time", "project"]
    for row in batch.items.select(names).to_pylist():
        when = row["time"] or datetime(2026, 1, 1, tzinfo=UTC)
        line = {
            "session": row["session"],
            "id": row["turns"][0],
            **{name: row[name] for name in ("speaker", "role", "title", "text", "project")},
            "ts": when.isoformat(),
        }
        yield orjson.dumps(line) + b"\n"


def list_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of paths, folders in name order."""
    for path in paths:
        yield from sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def format_report(report: dict[str, Any]) -> str:
    """Format the report for a terminal."""
    memory = report["memory_mb"]
    sample = memory[:: max(1, len(memory) // 8)]
    return "\n".join(
        [
            f"{report['items']:,} items, {report['cores']} cores",
            f"  raw ONNX session  {report['raw']:8.1f} items/s",
            f"  encoder           {report['encoder']:8.1f} items/s, {100 * report['encoder_share']:.0f} % of it",
            f"  whole fast path   {report['fast']:8.1f} items/s, {100 * report['fast_share']:.0f} % of it",
            f"  with publishing   {report['whole']:8.1f} items/s over the whole run",
            "  memory            " + ", ".join(f"after {n:,} documents {mb:.0f} MB" for n, mb in sample),
            f"  growth            {report['growth_mb']:.1f} MB over the second half",
        ]
    )
