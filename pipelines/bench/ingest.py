"""How fast items go in: the whole fast path beside the encoder alone, beside the raw ONNX session, on the same texts.

The three take turns on the same documents, so that a machine which slows down slows all of them. Memory is read after
every document: it must not grow with what went in before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from helix.encoders.dense import Encoder, measure_session
from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot import paths as store
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.segment.batch import Rows
from pipelines.bench import synthetic
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept_all import IngestReport as Taken
from pipelines.ingest.accept_all import accept_all
from pipelines.ingest.items import make_items
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.versions import read_document
from pipelines.training.cache import load_type_model

SLICE = 500  # items of a synthetic document: seconds of work
COMPARED = 10  # documents the raw session and the encoder are compared on; the rest is the fast path alone

Say = Callable[[str], None]


def measure(items: int, paths: Sequence[Path], settings: Settings, say: Say, seed: int = 1) -> dict[str, Any]:
    """The report.

    Args:
        items: synthetic ones to take in, where no paths are given.
        paths: logs to take in instead.
    """
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "store"
        store.create(root)
        logs = list(slices(paths) if paths else synthetic_logs(items, Path(work), seed))
        encoder = open_encoder(root, settings)
        load_type_model(encoder, settings)  # trained once a machine, not once an ingest
        taken_in = (indexed(root, log, settings) for log in logs[: COMPARED + 1])
        texts = [found for found in taken_in if found is not None]
        turns: list[dict[str, float]] = []
        memory: list[list[float]] = []
        clock = Clock()

        def look(what: str, done: int, _: int) -> None:
            """After every document: how long it took, how much memory there is, and the others on the next one."""
            if what != "enrich":
                return
            took = clock.lap()
            turns.append({"seconds": took})
            memory.append([done, rss() / 1e6])
            if done <= COMPARED and done < len(texts) and texts[done]:
                turns[-1] |= compare(encoder, texts[done], settings)
                say(f"{done} of {len(logs)} documents, {memory[-1][1]:.0f} MB")
            clock.lap()

        began = time.perf_counter()
        taken = ingest(root, logs, settings, progress=look)
        whole = time.perf_counter() - began - clock.apart
    return summary(turns, memory, [len(found) for found in texts], taken.items, whole)


class Clock:
    """Laps; every second one is time that does not count."""

    def __init__(self) -> None:
        self.apart = 0.0
        self._laps = 0
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self._laps += 1
        self.apart += took if self._laps % 2 == 0 else 0.0
        return took


def compare(encoder: Encoder, texts: Sequence[str], settings: Settings) -> dict[str, float]:
    """Passages a second of the raw session and of the encoder, on the texts the fast path comes to next."""
    raw = measure_session(encoder, texts, settings.embed_batch)
    began = time.perf_counter()
    encoder.passages(texts, settings.embed_batch)
    return {"raw": raw, "encoder": len(texts) / (time.perf_counter() - began)}


def indexed(root: Path, log: Path, settings: Settings) -> list[str] | None:
    """What the items of a log are indexed by: the texts the encoder gets; equal ones once, as the encoder does it.

    None where the log is refused, or was taken in under another name.
    """
    documents = accept_all(root, [log], settings, Taken(), project=None, format="auto", acl=())
    if not documents:
        return None
    envelope = ledger.read(root, documents[0])
    return list(dict.fromkeys(make_items(read_document(root, envelope, settings), envelope, settings, Counter()).texts))


def rss() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def summary(
    turns: Sequence[Mapping[str, float]],
    memory: Sequence[Sequence[float]],
    texts: Sequence[int],
    items: int,
    seconds: float,
) -> dict[str, Any]:
    """Medians; a share is the median of the ratios of neighbours in time.

    Args:
        turns: of each document the seconds it took and, of the first ones, the rates on the texts of the next.
        texts: distinct texts of the first documents: equal ones are embedded once.
        seconds: of the whole ingest, publishing and tidying up included, the comparisons left out.
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


# ---------------------------------------------------------------- what goes in


def synthetic_logs(items: int, folder: Path, seed: int) -> Iterator[Path]:
    """Logs of synthetic items in the generic format, a slice each."""
    for index, batch in enumerate(synthetic.batches(items, seed, SLICE, workers=1)):
        path = folder / f"log-{index}.jsonl"
        path.write_bytes(b"".join(_lines(batch)))
        yield path


def _lines(batch: Rows) -> Iterator[bytes]:
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


def slices(paths: Sequence[Path]) -> Iterator[Path]:
    """The given logs, file by file."""
    for path in paths:
        yield from sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def table(report: dict[str, Any]) -> str:
    """The report, to be read."""
    memory = report["memory_mb"]
    shown = memory[:: max(1, len(memory) // 8)]
    return "\n".join(
        [
            f"{report['items']:,} items, {report['cores']} cores",
            f"  raw ONNX session  {report['raw']:8.1f} items/s",
            f"  encoder           {report['encoder']:8.1f} items/s, {100 * report['encoder_share']:.0f} % of it",
            f"  whole fast path   {report['fast']:8.1f} items/s, {100 * report['fast_share']:.0f} % of it",
            f"  with publishing   {report['whole']:8.1f} items/s over the whole run",
            "  memory            " + ", ".join(f"after {n:,} documents {mb:.0f} MB" for n, mb in shown),
            f"  growth            {report['growth_mb']:.1f} MB over the second half",
        ]
    )
