"""Enriching: one accepted document becomes one part, whose items carry everything recall needs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.enrich.neardup import compute_signatures
from helix.enrich.type_model import TypeModel
from helix.errors import EncoderError, HelixError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import FACTS, save_rows
from helix.snapshot.segment.fact_arrays import format_facts
from helix.text.languages import ENGLISH
from helix.types import F32, Parsed
from helix.util.failpoints import failpoint
from pipelines.ingest.items import ItemBatch, batch_records, judge_items, list_ids, list_vanished, make_items
from pipelines.ingest.part import EnrichedPart, build_rows, part_folder, pipeline_fingerprint, read_part
from pipelines.ingest.versions import DocumentReading, read_document
from pipelines.training.router import load_type_model

FAULTS: Final = (
    *(HelixError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError),
)
"""Errors a document can cause in the code that reads it. A full disk or a missing encoder is no fault of it."""


def enrich(
    root: Path,
    document: str,
    encoder: Encoder,
    counter: TokenCounter,
    settings: Settings,
    progress: Callable[[int], None] | None = None,
) -> EnrichedPart:
    """Make the part of one accepted document, or return the present one.

    Raises:
        InputRefused: nothing in the document can be read.
        StoreError: the envelope is missing or damaged.
    """
    target = part_folder(root, document, pipeline_fingerprint(encoder.spec.fingerprint, settings))
    # Another process may publish and remove the part right now: then it is made again, and swept later.
    with contextlib.suppress(FileNotFoundError):
        return read_part(target)
    version = _read_inode(root, document)
    envelope = inbox.read_envelope(root, document)
    failpoint("enrich.begin", document)
    redacted: Counter[str] = Counter()
    reading, batch = _parse(root, envelope, settings, redacted)
    found = batch.remove_context()
    texts = [record["text"] for record in found.records]
    for record, tokens in zip(found.records, counter(texts), strict=True):
        record["tokens"] = tokens
    languages = [record.get("language", ENGLISH) for record in found.records]
    vectors = encoder.passages(found.texts, settings.embed_batch, progress, languages)
    failpoint("enrich.embedded")
    model = load_type_model(encoder, settings)
    judge_items(batch, vectors, model if isinstance(model, TypeModel) else None)
    rows = build_rows(
        found.records,
        found.texts,
        found.mentions,
        vectors,
        compute_signatures(texts),
        links=found.links,
        facts=found.facts,
        fact_vectors=_embed_facts(found.facts, encoder, settings),
    )
    states = list(zip(found.records, found.state or repeat("new"), strict=False))
    new = [record for record, state in states if state == "new"]
    part = {
        **_describe(envelope, reading, new, redacted, model if isinstance(model, str) else ""),
        "vanished": list_vanished(reading, settings),
        "again": [record["id"] for record, state in states if state == "again"],
        "keys": _list_keys(reading, new, settings),
        **({"remember": True} if envelope.remember else {}),
    }
    with paths.build_folder(target) as folder:
        save_rows(rows, folder)
        (folder / "part.json").write_bytes(orjson.dumps(part))
    failpoint("enrich.part")
    if _read_inode(root, document) != version:  # forgotten meanwhile: the part holds removed text
        paths.remove_path(target)
        return enrich(root, document, encoder, counter, settings, progress)
    return read_part(target)


def _parse(
    root: Path, envelope: Envelope, settings: Settings, redacted: Counter[str]
) -> tuple[DocumentReading, ItemBatch]:
    """Return a document's reading and items; of a forgotten one its residue."""
    reading = DocumentReading(Parsed(())) if envelope.forgotten else read_document(root, envelope, settings)
    failpoint("enrich.parsed")
    if envelope.forgotten:
        return reading, batch_records(read_item_records(root, envelope, settings))
    return reading, make_items(reading, envelope, settings, redacted)


def _describe(
    envelope: Envelope, reading: DocumentReading, new: Sequence[dict[str, Any]], redacted: Counter[str], types: str
) -> dict[str, Any]:
    """Return the counts and problems of a part."""
    return {
        "path": envelope.path,
        "format": envelope.format,
        "accepted": envelope.accepted.isoformat(),
        "turns": len({(record["session"], *record["turns"]) for record in new}),
        "items": len(new),
        "sessions": len({record["session"] for record in new}),
        "redacted": dict(Counter(envelope.redacted) + redacted),
        "problems": [list(problem) for problem in (*envelope.problems, *reading.parsed.problems)],
        "unknown": dict(reading.parsed.unknown),
        "types": types,
        "junk": dict(reading.parsed.junk),
        "chars": sum(len(record["text"]) for record in new),
        "after": envelope.after,
        "leans_on": reading.leans_on,
    }


def _embed_facts(facts: Sequence[Sequence[dict[str, Any]]], encoder: Encoder, settings: Settings) -> F32:
    """Return the vector of each fact's sentence, float32[f, d]; equal sentences are embedded once."""
    texts = format_facts(pa.Table.from_pylist([fact for row in facts for fact in row], schema=FACTS))
    nothing = np.empty((0, encoder.spec.dim), np.float32)
    return encoder.passages(texts, settings.embed_batch, None) if texts else nothing


def _list_keys(reading: DocumentReading, new: Sequence[dict[str, Any]], settings: Settings) -> list[str] | None:
    """List the ids of all items in the document's text, where they differ from its rows; a deletion needs them."""
    if reading.leans_on:
        return list_ids(reading, settings)
    return None if reading.fresh is None else [record["id"] for record in new]


def _read_inode(root: Path, document: str) -> int | None:
    """Return a number that changes when the envelope is replaced."""
    path = root / "inbox" / document
    return path.stat().st_ino if path.exists() else None


def read_item_records(root: Path, envelope: Envelope, settings: Settings) -> list[dict[str, Any]]:
    """Read the items of an accepted document, as records of ITEMS; fields that need an encoder may be None.

    Raises:
        Any of FAULTS: the document cannot be read.
    """
    if envelope.forgotten:
        known = {"document": envelope.document, "t_ingested": envelope.accepted}
        records = [{**orjson.loads(line), **known} for line in envelope.text.split("\n") if line]
        for record in records:
            parts = record.get("salience_parts")
            record["salience_parts"] = parts and [tuple(part) for part in parts]
        return records
    reading = read_document(root, envelope, settings)
    if reading.leans_on:  # the text holds every item
        reading = replace(reading, fresh=None)
    batch = make_items(reading, envelope, settings, Counter())
    return [record for record, state in zip(batch.records, batch.state, strict=True) if state == "new"]


@dataclass(frozen=True, slots=True)
class EnrichAttempt:
    """The outcome of one attempt: a part or an error; neither while another process enriches the document."""

    part: EnrichedPart | None = None
    error: str = ""
    dead: bool = False  # the document is given up


def try_enrich(
    root: Path,
    document: str,
    encoder: Encoder,
    counter: TokenCounter,
    settings: Settings,
    max_failures: float = 1,
    progress: Callable[[int], None] | None = None,
) -> EnrichAttempt:
    """Enrich one document; give it up after `max_failures` failed attempts, or after several processes died over it.

    Args:
        progress: as of `Encoder.passages`; an OSError that it raises ends the attempt.

    Raises:
        EncoderError, OSError: no fault of the document; the attempt does not count.
    """
    with attempts.claim_document(root, document) as claimed:
        if claimed is None:
            return EnrichAttempt()
        if why := claimed.record.explain_end():
            attempts.end_attempts(root, document, claimed, why, 1)
            return EnrichAttempt(error=why, dead=True)
        try:
            part = enrich(root, document, encoder, counter, settings, progress)
        except EncoderError:
            raise
        except FAULTS as error:
            reason = str(error) if isinstance(error, HelixError) else f"{type(error).__name__}: {error}"
            dead = attempts.add_failure(root, document, claimed, reason, settings.retry_wait, max_failures)
            return EnrichAttempt(error=reason, dead=dead)
        claimed.clear()
        return EnrichAttempt(part)
