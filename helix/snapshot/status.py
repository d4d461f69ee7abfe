"""The state of a store: what is published, what waits, what was given up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.sql import connect_duckdb, register_live_items

WINDOW: Final = 300.0
"""Seconds over which throughput is told."""


def read_status(root: Path) -> dict[str, Any]:
    """Cheap: the manifest and the ledger, no item is read.

    Raises:
        StoreError: no store at `root`, or it is damaged or newer.
    """
    name, manifest = inbox.load_current(root)
    dead = inbox.list_dead(root)
    accepted = inbox.list_accepted(root)
    pending = inbox.list_pending(root)
    return {
        "store": str(root),
        "generation": manifest.generation if manifest else 0,
        "manifest": name,
        "published": manifest.created if manifest else None,
        "encoder": manifest.lineage.name if manifest else None,
        "items": manifest.counts["items"] if manifest else 0,
        "sessions": manifest.counts["sessions"] if manifest else 0,
        "segments": len(manifest.segments) if manifest else 0,
        "bytes": sum(file.bytes for file in manifest.files()) if manifest else 0,
        "accepted": len(accepted),
        "done": manifest.counts["documents"] if manifest else 0,
        "pending": len(pending),
        **_tries(root),
        "dead": len(dead),
        "errors": {document: str(record["error"]) for document, record in dead.items()},
        "coverage": dict(manifest.coverage) if manifest else {},
        "backlog": _backlog(manifest),
        "generations": len(list((root / "manifests").glob("[0-9]*.json"))),
        "reindex": _reindex(root),
        "lag": _lag(root, pending),
        "throughput": measure_throughput(root),
        "orders": _orders(root),
        "purges": len(list((root / "purges").glob("[0-9]*.json"))),
    }


def _backlog(manifest: Manifest | None) -> dict[str, int]:
    """Items each enrichment has yet to come to; those that are off wait for nothing."""
    if manifest is None:
        return {}
    items = manifest.counts["items"]
    return {name: items - what["items"] for name, what in manifest.coverage.items() if what.get("items", items) < items}


def _reindex(root: Path) -> dict[str, Any] | None:
    """How far the lineage that is being built has come; None where there is none."""
    name = manifests.read_current(root, "NEXT")
    if name is None:
        return None
    built = manifests.load(root, name)
    return {"encoder": built.lineage.name, "documents": built.counts["documents"], "items": built.counts["items"]}


def _tries(root: Path) -> dict[str, Any]:
    """What is being worked on, and what failed and is tried again."""
    known = {name: record for name, record in attempts.list_records(root).items() if len(name) == _DIGITS}
    running = {name: record.running for name, record in known.items() if paths.is_held(root / "tries" / name)}
    failed = {
        name: {"tries": record.failed + record.vanished, "error": record.error, "next": _utc(record.after)}
        for name, record in known.items()
        if name not in running and (record.failed or record.vanished)
    }
    return {"running": running, "failed": failed}


def _orders(root: Path) -> dict[str, Any]:
    """How many orders wait, and what became of those of the last day, the oldest first."""
    found = sorted((root / "orders").glob("[0-9a-f]*.json"), key=lambda path: path.stat().st_mtime_ns)
    done = [path for path in found if path.name.endswith(".done.json")]
    told = [{"order": path.name.partition(".")[0], **orjson.loads(path.read_bytes())} for path in done]
    return {"waiting": len(found) - len(done), "done": told}


_DIGITS: Final = 64  # of a document's name; an order's has fewer


def _utc(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None


def _lag(root: Path, pending: Sequence[str]) -> float:
    """Seconds since the oldest document that waits was accepted; 0 where none does."""
    return round(paths.measure_age(root / "inbox" / pending[0]), 1) if pending else 0.0


def measure_throughput(root: Path) -> dict[str, float]:
    """Documents and items a minute, from the generations of the last minutes: a merge adds none, a deletion takes.

    Generations of another lineage, which a reindex builds or has replaced, say nothing of what came in.
    """
    _, last = inbox.load_current(root)
    now = time.time()
    try:
        recent = sorted((path.stat().st_mtime, path.name) for path in (root / "manifests").glob("[0-9]*.json"))
        for when, name in recent:
            if last is None or when <= now - WINDOW:
                continue
            first = manifests.load(root, name)
            if first.lineage == last.lineage:
                seconds = max(1.0, now - when)
                done = {
                    what: round(60 * max(0, last.counts[what] - first.counts[what]) / seconds, 1)
                    for what in ("documents", "items")
                }
                return {**done, "seconds": round(seconds, 1)}
    except (StoreError, FileNotFoundError):  # collected this very moment
        pass
    return {"documents": 0.0, "items": 0.0, "seconds": 0.0}


def count_by_field(root: Path) -> dict[str, dict[str, int]]:
    """Live items by type, project and source: one pass of SQL over the Parquet files."""
    _, manifest = inbox.load_current(root)
    if manifest is None:
        return {"type": {}, "project": {}, "source": {}}
    with connect_duckdb() as db:
        register_live_items(db, root, manifest.segments, manifest.deletes)
        return {
            column: dict(
                db.execute(f"SELECT {column}, count(*) FROM published GROUP BY 1 ORDER BY 2 DESC, 1").fetchall()
            )
            for column in ("type", "project", "source")
        }
