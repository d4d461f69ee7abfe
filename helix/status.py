"""The state of a store: what is published, what waits, what was given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helix.snapshot import ledger
from helix.snapshot import manifest as manifests
from helix.snapshot.manifest import Manifest
from helix.snapshot.sql import connect, register_published


def status(root: Path) -> dict[str, Any]:
    """Cheap: the manifest and the ledger, no item is read.

    Raises:
        StoreError: no store at `root`, or it is damaged or newer.
    """
    name, manifest = ledger.current(root)
    dead = ledger.dead(root)
    accepted = ledger.accepted(root)
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
        "pending": len(ledger.pending(root)),
        "dead": len(dead),
        "errors": {document: str(record["error"]) for document, record in dead.items()},
        "coverage": dict(manifest.coverage) if manifest else {},
        "backlog": _backlog(manifest),
        "generations": len(list((root / "manifests").glob("[0-9]*.json"))),
        "reindex": _reindex(root),
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
    name = manifests.current_name(root, "NEXT")
    if name is None:
        return None
    built = manifests.load(root, name)
    return {"encoder": built.lineage.name, "documents": built.counts["documents"], "items": built.counts["items"]}


def breakdown(root: Path) -> dict[str, dict[str, int]]:
    """Live items by type, project and source: one pass of SQL over the Parquet files."""
    _, manifest = ledger.current(root)
    if manifest is None:
        return {"type": {}, "project": {}, "source": {}}
    with connect() as db:
        register_published(db, root, manifest.segments, manifest.deletes)
        return {
            column: dict(
                db.execute(f"SELECT {column}, count(*) FROM published GROUP BY 1 ORDER BY 2 DESC, 1").fetchall()
            )
            for column in ("type", "project", "source")
        }
