"""A store of synthetic items, made once a machine."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.manifest import FORMAT
from helix.snapshot.segment.arrays import parse_hex
from helix.snapshot.segment.batch import RowBatch, save_rows
from helix.types import F32
from pipelines.bench.language import DIM, VERSION
from pipelines.bench.process import Say
from pipelines.bench.space import FILE as REAL
from pipelines.bench.space import LEAST, count_real, learn_space, mix_real
from pipelines.bench.synthetic import make_batches
from pipelines.ingest.commit import commit_rows
from pipelines.ingest.forgotten import DOCUMENTS
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import part_folder
from pipelines.maintain.compact import compact

MARKER: Final = "bench.json"
"""File that identifies a synthetic store; a store without it is never touched."""


def default_root(items: int, settings: Settings) -> Path:
    """Return the default folder of a store of so many items."""
    return Path(settings.cache).expanduser() / "bench" / f"store-{items}-f{FORMAT}-v{VERSION}"


def build_store(root: Path, items: int, seed: int, settings: Settings, say: Say, *, real: int | None = None) -> None:
    """Make a compacted store of `items` synthetic items unless it exists.

    The ledger has its documents as after an ingest, as a commit's cost depends on them. About `real` items have real
    vectors; below `pipelines.bench.space.LEAST` the others get a space of no model.

    Raises:
        UsageError: `root` holds something else, or items is not positive.
        EncoderError: no encoder is available, or its vectors have another width than synthetic ones.
    """
    if items < 1:
        raise UsageError(f"a store of {items} items cannot be measured", "give --items a positive number")
    real = count_real(items) if real is None else real
    wanted = {"items": items, "seed": seed, "real": real, "version": VERSION, "format": FORMAT}
    if _is_complete(root, wanted):
        return
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths.write_file(root / MARKER, orjson.dumps({**wanted, "complete": False}))
    paths.create_folders(root)
    encoder = open_encoder(root, settings, say)
    if encoder.dim != DIM:
        fault = f"{encoder.spec.name} has {encoder.dim} dimensions, synthetic vectors {DIM}"
        raise UsageError(fault, "unset HELIX_ENCODER")
    say(f"making {items:,} synthetic items in {root}, {real:,} of them with real vectors, once")
    documents: list[dict[str, Any]] = []
    sources: list[pa.Table] = []
    embedding = 0.0

    def embed(texts: list[str]) -> F32:
        nonlocal embedding
        began = time.perf_counter()
        vectors = encoder.passages(texts, settings.embed_batch)
        embedding += time.perf_counter() - began
        return vectors

    began = time.perf_counter()
    space = learn_space(embed) if real >= LEAST else None
    batches = mix_real(make_batches(items, seed, mixed=space), items, real, embed)
    commit_rows(root, _accept(root, batches, documents, sources, say), encoder, settings)
    pq.write_table(pa.concat_tables(sources), root / REAL, compression="zstd")
    _publish_documents(root, documents, settings)
    written = time.perf_counter()
    compact(root, settings, say)
    done = time.perf_counter()
    seconds = {"write": written - began - embedding, "embed": embedding, "compact": done - written}
    paths.write_file(root / MARKER, orjson.dumps({**wanted, "complete": True, "seconds": seconds}))


def _is_complete(root: Path, wanted: dict[str, Any]) -> bool:
    """Return whether the wanted store is complete; remove an incomplete one."""
    if not root.is_dir() or not any(root.iterdir()):
        return False
    found = read_marker(root)
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


def read_marker(root: Path) -> dict[str, Any] | None:
    """Read the description of a synthetic store; None for another folder.

    Raises:
        StoreError: the description is damaged.
    """
    try:
        return dict(orjson.loads((root / MARKER).read_bytes()))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, TypeError) as error:
        raise StoreError(f"{root / MARKER} is damaged: {error}", "remove the folder") from None


def _accept(
    root: Path,
    batches: Iterable[tuple[RowBatch, pa.Table]],
    documents: list[dict[str, Any]],
    sources: list[pa.Table],
    say: Say,
) -> Iterator[RowBatch]:
    """Yield the batches; put their documents into the inbox, and collect documents and sources of questions."""
    done = 0
    for rows, table in batches:
        sources.append(table)
        documents.extend(
            _write_envelope(root, document, _slice(rows, part)) for document, part in _split_documents(rows)
        )
        yield rows
        done += len(rows)
        say(f"{done:,} items written")


def _publish_documents(root: Path, documents: Sequence[dict[str, Any]], settings: Settings) -> None:
    """Publish a generation with the documents."""
    with writer.acquire_lock(root, settings.lock_wait) as held:
        name, manifest = inbox.load_current(root)
        if manifest is None:
            raise StoreError(f"{root} was emptied while it was being made", "run the command again")
        file = writer.write_documents(root, pa.Table.from_pylist(list(documents), schema=DOCUMENTS))
        new = replace(
            manifest,
            generation=manifest.generation + 1,
            parent=name,
            documents=(*manifest.documents, file),
            counts={**manifest.counts, "documents": manifest.counts["documents"] + file.rows},
            token=held.token,
        )
        writer.publish_generation(held, new)


def _split_documents(rows: RowBatch) -> list[tuple[str, slice]]:
    """Return the documents of a batch, each with its consecutive rows."""
    documents = rows.items["document"].to_pylist()
    starts = [i for i in range(len(documents)) if i == 0 or documents[i] != documents[i - 1]]
    return [(documents[a], slice(a, b)) for a, b in zip(starts, [*starts[1:], len(documents)], strict=True)]


def _slice(rows: RowBatch, part: slice) -> pa.Table:
    return rows.items.slice(part.start, part.stop - part.start)


def _write_envelope(root: Path, document: str, items: pa.Table) -> dict[str, Any]:
    """Accept one document; return its row in a manifest's `documents`."""
    turns = zip(items["turns"].to_pylist(), items["text"].to_pylist(), strict=True)
    text = "\n".join(json.dumps({"id": turn[0], "text": text}) for turn, text in turns)
    path, when = items["path"][0].as_py(), datetime.now(UTC)
    envelope = Envelope(document, path, text, "jsonl", items["project"][0].as_py(), (), None, when, {}, ())
    inbox.accept_envelope(root, envelope)
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
        "keys": parse_hex(items["id"]),
    }


def write_parts(root: Path, rows: RowBatch, fingerprint: str) -> int:
    """Accept each session as a document and write its part, as enrichment does; return their number."""
    documents = _split_documents(rows)
    for document, part in documents:
        row = _write_envelope(root, document, _slice(rows, part))
        described = {name: row[name] for name in ("path", "format", "turns", "items", "sessions")}
        described |= {
            "accepted": row["accepted"].isoformat(),
            "redacted": {},
            "problems": [],
            "unknown": {},
            "types": "",
        }
        with paths.build_folder(part_folder(root, document, fingerprint)) as folder:
            save_rows(rows.take(np.arange(part.start, part.stop)), folder)
            (folder / "part.json").write_bytes(orjson.dumps(described))
    return len(documents)
