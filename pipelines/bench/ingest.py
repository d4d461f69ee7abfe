"""Speed of the ingest as `helix ingest` runs it, next to the raw ONNX session on the same texts.

The session is measured right after the ingest, on texts from all of it. Memory is read after every document: it must
not grow with the documents before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from helix.encoders.dense import Encoder, measure_session
from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.sql import run_statement
from pipelines.bench.process import Say
from pipelines.bench.synthetic import make_batches
from pipelines.embedded.ingest import ingest
from pipelines.embedded.state import IngestState
from pipelines.ingest.items import index_text
from pipelines.ingest.lineage import open_encoder

SLICE: Final = 500
"""Items of a synthetic document: seconds of work."""

SAMPLE: Final = 2_000
"""Texts for the raw session."""

ROUNDS: Final = 3
"""Measurements of the session and of the encoder, in turn."""


def measure(items: int, paths: Sequence[Path], settings: Settings, say: Say, seed: int = 1) -> dict[str, Any]:
    """Ingest `items` synthetic items, or logs if there are paths, as `helix ingest` does; return the report.

    Raises:
        UsageError: the logs hold no item.
    """
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "store"
        logs = list(paths) or list(write_synthetic_logs(items, Path(work), seed))
        memory: list[tuple[int, float]] = []
        first = 0.0
        began = time.perf_counter()

        def record(state: IngestState) -> None:
            nonlocal first
            if state.step == "publish":
                first = first or time.perf_counter() - began
                say(f"{state.searchable:,} items are searchable after {time.perf_counter() - began:.1f} s")
            if state.step == "enrich":
                memory.append((state.documents, read_rss() / 1e6))

        report = ingest(root, logs, settings, early=True, observe=record)
        seconds = time.perf_counter() - began
        if not report.items:
            raise UsageError("there is too little to measure", "give more items, or logs with at least one turn")
        rates = compare(open_encoder(root, settings), read_texts(root), settings)
    return summarise(report.items, seconds, first, rates, memory)


def read_texts(root: Path) -> list[str]:
    """Return the indexed texts of a sample of the items, chosen by their ids."""
    columns = "origin, speaker, title, text"
    statement = f"SELECT {columns} FROM (SELECT * FROM items ORDER BY id LIMIT {SAMPLE})"
    with run_statement(root, statement) as found:
        return [index_text(*row) for row in found.rows]


def compare(encoder: Encoder, texts: Sequence[str], settings: Settings) -> list[tuple[float, float]]:
    """Return passages a second of the raw session and of the encoder, in turn: ROUNDS pairs."""
    rates = []
    for _ in range(ROUNDS):
        raw = measure_session(encoder, texts, settings.embed_batch)
        began = time.perf_counter()
        encoder.passages(texts, settings.embed_batch)
        rates.append((raw, len(texts) / (time.perf_counter() - began)))
    return rates


def read_rss() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def summarise(
    items: int,
    seconds: float,
    first: float,
    rates: Sequence[tuple[float, float]],
    memory: Sequence[tuple[int, float]],
) -> dict[str, Any]:
    """Return the report.

    Args:
        seconds: of the whole ingest, with reading, publishing and clean-up.
        first: seconds until the first items were searchable.
        rates: of `compare`; the report has medians.
        memory: (documents, MB) after each document.
    """
    raw, encoder = (statistics.median(column) for column in zip(*rates, strict=True))
    half = memory[len(memory) // 2 :]
    return {
        "items": items,
        "raw": round(raw, 1),
        "encoder": round(encoder, 1),
        "encoder_share": round(encoder / raw, 3),
        "whole": round(items / seconds, 1),
        "whole_share": round(items / seconds / raw, 3),
        "first_seconds": round(first, 1),
        "memory_mb": [[documents, round(mb, 1)] for documents, mb in memory],
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


def format_report(report: dict[str, Any]) -> str:
    """Format the report for a terminal."""
    memory = report["memory_mb"]
    sample = memory[:: max(1, len(memory) // 8)]
    return "\n".join(
        [
            f"{report['items']:,} items, {report['cores']} cores",
            f"  raw ONNX session  {report['raw']:8.1f} items/s",
            f"  encoder           {report['encoder']:8.1f} items/s, {100 * report['encoder_share']:.0f} % of it",
            f"  whole ingest      {report['whole']:8.1f} items/s, {100 * report['whole_share']:.0f} % of it",
            f"  first items       {report['first_seconds']:8.1f} s",
            "  memory            " + ", ".join(f"after {n:,} documents {mb:.0f} MB" for n, mb in sample),
            f"  growth            {report['growth_mb']:.1f} MB over the second half",
        ]
    )
