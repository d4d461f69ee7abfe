"""State of a store: published, pending and dead documents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.errors import StoreError
from helix.native.library import describe_kernels
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.partial import list_absent
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.open import map_deleted_rows, open_segment
from helix.snapshot.segment.projects import read_projects
from helix.snapshot.sql import connect_duckdb
from helix.snapshot.sql_views import register_live_items
from helix.switches.state import list_off
from helix.text.languages import CODES, ENGLISH, NUMBERS
from helix.util.workspaces import list_old_names

WINDOW: Final = 300.0  # seconds over which throughput is measured
_DIGITS: Final = 64  # of a document's name; an order's has fewer


def read_status(root: Path) -> dict[str, Any]:
    """Read the state from manifest and inbox. This is cheap: no item is read.

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
        "kernels": describe_kernels(),
        "items": manifest.counts["items"] if manifest else 0,
        "sessions": manifest.counts["sessions"] if manifest else 0,
        "segments": len(manifest.segments) if manifest else 0,
        "bytes": sum(file.bytes for file in manifest.files()) if manifest else 0,
        "accepted": len(accepted),
        "done": manifest.counts["documents"] if manifest else 0,
        "pending": len(pending),
        "pending_bytes": inbox.measure_envelopes(root, pending),
        **_list_attempts(root),
        "dead": len(dead),
        "errors": {document: str(record["error"]) for document, record in dead.items()},
        "coverage": dict(manifest.coverage) if manifest else {},
        "backlog": _count_backlog(manifest),
        "arriving": len(list_absent(root, name)),
        "generations": len(list((root / "manifests").glob("[0-9]*.json"))),
        "reindex": _read_reindex(root),
        "lag": _measure_lag(root, pending),
        "throughput": measure_throughput(root),
        "orders": _list_orders(root),
        "purges": len(list((root / "purges").glob("[0-9]*.json"))),
        "off": list_off(root),
    }


def _count_backlog(manifest: Manifest | None) -> dict[str, int]:
    """Count the items that each running enrichment pass has not covered yet."""
    if manifest is None:
        return {}
    items = manifest.counts["items"]
    return {name: items - what["items"] for name, what in manifest.coverage.items() if what.get("items", items) < items}


def _read_reindex(root: Path) -> dict[str, Any] | None:
    """Return the progress of the lineage in NEXT; None if no reindex runs."""
    name = manifests.read_current(root, "NEXT")
    if name is None:
        return None
    built = manifests.load(root, name)
    return {"encoder": built.lineage.name, "documents": built.counts["documents"], "items": built.counts["items"]}


def _list_attempts(root: Path) -> dict[str, Any]:
    """Return running attempts, and failed ones with the time of the next attempt."""
    known = {name: record for name, record in attempts.list_records(root).items() if len(name) == _DIGITS}
    running = {name: record.running for name, record in known.items() if paths.is_held(root / "tries" / name)}
    failed = {
        name: {"tries": record.failed + record.vanished, "error": record.error, "next": _format_utc(record.after)}
        for name, record in known.items()
        if name not in running and (record.failed or record.vanished)
    }
    return {"running": running, "failed": failed}


def _list_orders(root: Path) -> dict[str, Any]:
    """Return the number of waiting orders, and the results of the last day, oldest first."""
    files = sorted((root / "orders").glob("[0-9a-f]*.json"), key=lambda path: path.stat().st_mtime_ns)
    done = [path for path in files if path.name.endswith(".done.json")]
    results = [{"order": path.name.partition(".")[0], **orjson.loads(path.read_bytes())} for path in done]
    return {"waiting": len(files) - len(done), "done": results}


def _format_utc(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None


def _measure_lag(root: Path, pending: Sequence[str]) -> float:
    """Return seconds since the oldest pending document was accepted; 0 without one."""
    return round(paths.measure_age(root / "inbox" / pending[0]), 1) if pending else 0.0


def measure_throughput(root: Path) -> dict[str, float]:
    """Measure documents and items a minute over the recent generations.

    A merge adds none and a deletion subtracts. Generations of another lineage, from a reindex, do not count.
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
    except (StoreError, FileNotFoundError):  # just removed by gc
        pass
    return {"documents": 0.0, "items": 0.0, "seconds": 0.0}


def count_languages(root: Path) -> dict[str, int]:
    """Count live items by the language of their text, the most common first; {} for a store without any."""
    _, manifest = inbox.load_current(root)
    counts = np.zeros(len(CODES), np.int64)
    deleted = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    for segment in manifest.segments if manifest else ():
        numbers = open_segment(root, segment, ("language",))["language"]
        counts += np.bincount(numbers, minlength=len(CODES))
        if segment.id in deleted:
            rows = map_deleted_rows(root, deleted[segment.id], segment.rows)
            counts -= np.bincount(numbers[rows], minlength=len(CODES))
    counts[NUMBERS[ENGLISH]] += counts[0]  # not known: of an earlier release
    counts[0] = 0
    order = np.argsort(-counts, kind="stable")
    return {CODES[i]: int(counts[i]) for i in order.tolist() if counts[i]}


def find_newest(root: Path) -> str | None:
    """Return the time of the newest live item (ISO 8601); None where none has a time."""
    _, manifest = inbox.load_current(root)
    newest = NO_TIME
    deleted = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    for segment in manifest.segments if manifest else ():
        times = open_segment(root, segment, ()).columns["time"].to_numpy()
        if segment.id in deleted:
            times = np.delete(times, map_deleted_rows(root, deleted[segment.id], segment.rows))
        newest = max(newest, int(times.max(initial=NO_TIME)))
    return None if newest == NO_TIME else _format_utc(newest)


def list_old_projects(root: Path) -> dict[str, list[str]]:
    """Return the live projects by each old name that some of their items had: `--project` takes it, too."""
    return list_old_names(read_projects(root, inbox.load_current(root)[1])[1])


def count_by_field(root: Path) -> dict[str, dict[str, int]]:
    """Count live items by type, project and source: one pass of SQL over the Parquet files, once these are here."""
    name, manifest = inbox.load_current(root)
    if manifest is None or list_absent(root, name):
        return {"type": {}, "project": {}, "source": {}}
    with connect_duckdb() as db:
        register_live_items(db, root, manifest.segments, manifest.deletes, read_projects(root, manifest)[0])
        return {
            name: dict(db.execute(f"SELECT {name}, count(*) FROM published GROUP BY 1 ORDER BY 2 DESC, 1").fetchall())
            for name in ("type", "project", "source")
        }
