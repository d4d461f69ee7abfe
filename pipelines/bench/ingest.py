"""How fast items go in: the whole fast path beside the encoder alone, beside the raw ONNX session, on the same texts.

The three take turns on slices of the items, so that a machine which slows down slows all of them. Memory is read after
every slice of the fast path: it must not grow with what went in before.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from helix.encoders.onnx import raw_rate
from helix.settings import Settings
from helix.snapshot import ledger
from helix.snapshot import paths as store
from helix.snapshot.rows import Rows
from pipelines.bench import synthetic
from pipelines.enrich import parse
from pipelines.ingest import Report as Taken
from pipelines.ingest import accept_all, ingest, open_encoder
from pipelines.items import of_document

SLICE = 1_000  # items a turn: seconds of work
COMPARED = 9  # turns in which raw session and encoder take part; the rest is the fast path alone

Say = Callable[[str], None]


def measure(items: int, paths: Sequence[Path], settings: Settings, say: Say, seed: int = 1) -> dict[str, Any]:
    """The report.

    Args:
        items: synthetic ones to take in, where no paths are given.
        paths: logs to take in instead.
    """
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "store"
        logs = slices(paths, Path(work)) if paths else synthetic_logs(items, Path(work), seed)
        store.create(root)
        encoder = open_encoder(root, settings)
        turns: list[dict[str, float]] = []
        memory: list[dict[str, float]] = []
        taken = 0
        for number, log in enumerate(logs):
            compared = number < COMPARED
            texts = indexed(root, log, settings) if compared else []
            one: dict[str, float] = {}
            if compared:
                one["raw"] = raw_rate(encoder, texts, settings.embed_batch)
                began = time.perf_counter()
                encoder.passages(texts, settings.embed_batch)
                one["encoder"] = len(texts) / (time.perf_counter() - began)
            began = time.perf_counter()
            report = ingest(root, [log], settings)
            # Equal texts are embedded once: where the three are compared, they count once.
            one["fast"] = (len(texts) if compared else report.items) / (time.perf_counter() - began)
            taken += report.items
            turns.append(one)
            memory.append({"items": taken, "rss_mb": rss() / 1e6})
            say(f"{taken:,} items, {one['fast']:.0f} items/s, {memory[-1]['rss_mb']:.0f} MB")
    return summary(turns, memory, taken)


def indexed(root: Path, log: Path, settings: Settings) -> list[str]:
    """What the items of a log are indexed by: the texts the encoder gets; equal ones once, as the encoder does it."""
    (document,) = accept_all(root, [log], settings, Taken(), project=None, format="auto", acl=())
    envelope = ledger.read(root, document)
    return list(dict.fromkeys(of_document(parse(envelope, settings), envelope, settings, Counter()).texts))


def rss() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def summary(turns: Sequence[dict[str, float]], memory: Sequence[dict[str, float]], taken: int) -> dict[str, Any]:
    """Medians over the turns; shares are medians of the ratios within a turn."""
    turns = turns[1:] or turns  # the first one opens the encoder and trains the classifier
    compared = [turn for turn in turns if "raw" in turn]

    def share(name: str) -> float:
        return round(statistics.median(turn[name] / turn["raw"] for turn in compared), 3)

    late = [one for one in memory if one["items"] >= taken / 2]
    return {
        "items": taken,
        "raw": round(statistics.median(turn["raw"] for turn in compared), 1),
        "encoder": round(statistics.median(turn["encoder"] for turn in compared), 1),
        "fast": round(statistics.median(turn["fast"] for turn in turns), 1),
        "encoder_share": share("encoder"),
        "fast_share": share("fast"),
        "memory_mb": [[int(one["items"]), round(one["rss_mb"], 1)] for one in memory],
        "growth_mb": round(late[-1]["rss_mb"] - late[0]["rss_mb"], 1),
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


def slices(paths: Sequence[Path], folder: Path) -> Iterator[Path]:
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
            "  memory            " + ", ".join(f"{items:,}: {mb:.0f} MB" for items, mb in shown),
            f"  growth            {report['growth_mb']:.1f} MB over the second half",
        ]
    )
