"""Committing: all parts that wait become one segment and one new generation. One writer at a time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from helix.encoders.onnx import Encoder
from helix.errors import EncoderError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import ledger, paths, writer
from helix.snapshot.manifest import Deletes, Index, Lineage, Manifest, Segment
from helix.snapshot.rows import Rows, concat
from helix.snapshot.sql import connect, register_published
from pipelines.enrich import Part, part_folder, pipeline_fingerprint, read_part
from pipelines.train import train_router

# What this version does not compute is said, not left out.
NOT_YET = {
    "doc2query": {"off": "not in this version"},
    "facts": {"off": "not in this version"},
}


@dataclass(frozen=True, slots=True)
class Committed:
    """What one commit published. `generation` is unchanged where there was nothing to do."""

    generation: int
    documents: tuple[str, ...]
    added: int
    replaced: int
    duplicates: int  # items that were there already


def ready(root: Path, encoder: str, settings: Settings) -> list[str]:
    """Pending documents whose part is there, oldest first."""
    fingerprint = pipeline_fingerprint(encoder, settings)
    return [document for document in ledger.pending(root) if part_folder(root, document, fingerprint).is_dir()]


def commit(root: Path, encoder: Encoder, settings: Settings) -> Committed:
    """Publish every part that waits.

    Raises:
        EncoderError: the parts were made with another encoder than the store's lineage.
        StoreError: another writer is at work, or the store cannot be written.
    """
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        lineage = _lineage(encoder, manifest, settings)
        _sweep(root, ledger.done(root, manifest))
        documents = ready(root, lineage.encoder, settings)
        if not documents:
            return Committed(manifest.generation if manifest else 0, (), 0, 0, 0)
        fingerprint = pipeline_fingerprint(lineage.encoder, settings)
        folders = [part_folder(root, document, fingerprint) for document in documents]
        parts = [read_part(folder) for folder in folders]
        failpoint("commit.begin")
        rows = concat([part_rows for _, part_rows in parts])
        chosen = choose(root, manifest, rows, _order_of(parts))
        segment = writer.write_segment(root, rows.take(chosen.add)) if len(chosen.add) else None
        failpoint("commit.segment")
        deletes = _deletes(root, manifest, chosen.replaced)
        failpoint("commit.deletes")
        table = _documents(documents, parts, rows, chosen.add)
        file = writer.write_documents(root, table)
        failpoint("commit.documents")
        encoder_files = manifest.encoder if manifest else writer.adopt_encoder(root, encoder.folder, lineage.encoder)
        failpoint("commit.encoder")
        router, router_state = _router(root, manifest, encoder)
        failpoint("commit.router")
        segments = (*(manifest.segments if manifest else ()), *([segment] if segment else []))
        counts = count(root, segments, deletes)
        new = Manifest(
            generation=(manifest.generation if manifest else 0) + 1,
            parent=name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            lineage=lineage,
            segments=segments,
            deletes=deletes,
            indexes=router,
            documents=(*(manifest.documents if manifest else ()), file),
            encoder=encoder_files,
            coverage={
                **{key: {"items": counts["items"]} for key in ("embedding", "entities", "minhash", "salience")},
                "router": router_state,
                **NOT_YET,
            },
            counts={**counts, "documents": sum(f.rows for f in (*(manifest.documents if manifest else ()), file))},
            token=held.token,
        )
        writer.publish(held, new)
        for folder in folders:  # published: the parts are no longer needed
            shutil.rmtree(folder, ignore_errors=True)
        failpoint("commit.cleaned")
        return Committed(
            new.generation,
            tuple(documents),
            len(chosen.add),
            sum(len(gone) for gone in chosen.replaced.values()),
            len(rows) - len(chosen.add),
        )


_STALE = 3600.0  # seconds: unfinished work nobody has touched for so long belongs to a process that is gone


def _sweep(root: Path, done: set[str]) -> None:
    """Remove the parts of published documents, which a kill may have left, and unfinished work of the dead."""
    for path in [*(root / "parts").iterdir(), *(root / "inbox").glob(f"{paths.TEMPORARY}*")]:
        if path.name.startswith(paths.TEMPORARY):
            finished = time.time() - path.lstat().st_mtime > _STALE
        else:
            finished = path.name.split("-")[0] in done
        if finished and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif finished:
            path.unlink(missing_ok=True)


def _lineage(encoder: Encoder, manifest: Manifest | None, settings: Settings) -> Lineage:
    spec = encoder.spec
    if manifest and manifest.lineage.encoder != spec.fingerprint:
        raise EncoderError(
            f"the store was built with {manifest.lineage.name} ({manifest.lineage.encoder}), "
            f"these items with {spec.name} ({spec.fingerprint})",
            "two encoders never meet in one lineage: unset HELIX_ENCODER, or start another store",
        )
    return Lineage(spec.fingerprint, spec.name, spec.dim, pipeline_fingerprint(spec.fingerprint, settings))


# ---------------------------------------------------------------- dedupe


@dataclass(frozen=True, slots=True)
class Choice:
    """Which incoming rows go in, and which published rows they replace."""

    add: np.ndarray[Any, np.dtype[np.int64]]
    replaced: dict[str, list[int]]  # segment id → rows


_CHOOSE = """
WITH newest AS (  -- a turn may come in several versions at once: the last accepted one counts
    SELECT *, first_value(content) OVER (PARTITION BY id ORDER BY accepted DESC, n DESC) AS last FROM incoming
), best AS (      -- of equal copies (a resumed log) the earliest stays
    SELECT * FROM newest WHERE content = last
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY accepted, n) = 1
)
SELECT best.n, published.segment, published.row
FROM best LEFT JOIN published USING (id)
WHERE published.id IS NULL
   OR (best.content <> published.content AND best.accepted > published.t_ingested)
ORDER BY best.n
"""


def choose(root: Path, manifest: Manifest | None, rows: Rows, accepted: np.ndarray[Any, Any]) -> Choice:
    """New items and changed ones go in; an item that is there already, unchanged or newer, stays.

    Args:
        accepted: int64[n] microseconds: when the document of each row was accepted.
    """
    with connect() as db:
        incoming = pa.table(
            {
                "n": pa.array(np.arange(len(rows))),
                "id": rows.items["id"],
                "content": rows.items["content"],
                "accepted": pa.array(accepted),
            }
        )
        db.register("incoming", incoming)
        register_published(db, root, manifest.segments if manifest else (), manifest.deletes if manifest else ())
        found = db.execute(_CHOOSE).fetchall()
    replaced: dict[str, list[int]] = {}
    for _, segment, row in found:
        if segment is not None:
            replaced.setdefault(segment, []).append(row)
    return Choice(np.array([n for n, _, _ in found], np.int64), replaced)


def count(root: Path, segments: Sequence[Segment], deletes: Sequence[Deletes]) -> dict[str, int]:
    """Live items and sessions."""
    with connect() as db:
        register_published(db, root, segments, deletes)
        found = db.execute("SELECT count(*), count(DISTINCT (source, session)) FROM published").fetchone()
    return {"items": int(found[0]), "sessions": int(found[1])} if found else {"items": 0, "sessions": 0}


def _deletes(root: Path, manifest: Manifest | None, replaced: dict[str, list[int]]) -> tuple[Deletes, ...]:
    """The deletes of the new generation: the old ones and the replaced rows."""
    before = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    for segment, rows in replaced.items():
        gone = np.array(rows, np.uint32)
        if segment in before:
            gone = np.union1d(np.load(root / before[segment].file.path), gone)
        before[segment] = writer.write_deletes(root, segment, gone)
    return tuple(before.values())


# ---------------------------------------------------------------- the documents taken in


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _order_of(parts: Sequence[tuple[Part, Rows]]) -> np.ndarray[Any, Any]:
    """int64[rows]: when the document of each row was accepted, in microseconds."""
    accepted = [(part.accepted - _EPOCH) // _MICROSECOND for part, _ in parts]
    return np.repeat(np.array(accepted, np.int64), [len(rows) for _, rows in parts])


def _documents(
    documents: Sequence[str],
    parts: Sequence[tuple[Part, Rows]],
    rows: Rows,
    add: np.ndarray[Any, np.dtype[np.int64]],
) -> pa.Table:
    added = np.zeros(len(rows), bool)
    added[add] = True
    ends = np.cumsum([0, *(len(part_rows) for _, part_rows in parts)])
    records = []
    for i, (document, (part, _)) in enumerate(zip(documents, parts, strict=True)):
        records.append(
            {
                "document": document,
                "path": part.path,
                "format": part.format,
                "accepted": part.accepted,
                "sessions": part.sessions,
                "turns": part.turns,
                "items": int(added[ends[i] : ends[i + 1]].sum()),
                "redacted": orjson.dumps(part.redacted).decode(),
                "problems": len(part.problems),
            }
        )
    return pa.Table.from_pylist(records)


def _router(root: Path, manifest: Manifest | None, encoder: Encoder) -> tuple[tuple[Index, ...], dict[str, Any]]:
    """The router depends on the encoder alone: trained once a lineage, then handed on."""
    if manifest and manifest.indexes:
        return manifest.indexes, dict(manifest.coverage["router"])
    trained = train_router(encoder)
    if isinstance(trained, str):
        return (), {"off": trained}
    index = writer.write_index(root, "router", {"router.npz": trained}, {"model": "logistic regression"})
    return (index,), {"trained": True}
