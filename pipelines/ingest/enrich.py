"""Enriching: one accepted document becomes one part: items with everything recall needs to know of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from helix.encoders.dense import Encoder, TokenCounter
from helix.enrich.classify import TypeModel
from helix.enrich.neardup import signatures
from helix.errors import EncoderError, HelixError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.digests import FINGERPRINT, check_name
from helix.snapshot.index.facts import fact_texts
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.arrays import quantise
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, Rows, digest, save
from helix.text.cues import cues
from helix.text.tokenize import hash_terms, short_ids, tokenise
from helix.types import Parsed, Problem
from helix.util.failpoints import failpoint
from pipelines.ingest.items import all_ids, judge, of_document, of_records, offsets, vanished
from pipelines.ingest.versions import Reading, read
from pipelines.training.cache import type_model
from pipelines.training.router import types_fingerprint

VERSION = 6  # of what this module makes; another number means other parts


@dataclass(frozen=True, slots=True)
class Part:
    """One enriched document, on disk."""

    folder: Path
    path: str  # of the source
    format: str
    accepted: datetime
    turns: int
    items: int
    sessions: int
    redacted: dict[str, int]
    problems: tuple[Problem, ...]
    unknown: dict[str, int]
    types: str = ""  # why the classifier took no part; empty where it did
    junk: dict[str, int] = field(default_factory=dict)  # characters left out, by rule
    chars: int = 0  # kept
    after: str = ""  # the document this one goes on from: it is published first
    leans_on: str = ""  # the version it takes the place of: what that one says is not repeated
    vanished: tuple[str, ...] = ()  # ids of items of the same source that are no longer in it
    again: tuple[str, ...] = ()  # ids of rows that are earlier items, which what is new made matter more or less
    keys: tuple[str, ...] | None = None  # ids of all items the document's text holds; None: those of its rows
    remember: bool = False  # what was forgotten of these is asked back


def pipeline_fingerprint(encoder: str, settings: Settings) -> str:
    """Names everything that decides what a part holds."""
    constants = (settings.item_words, settings.tool_chars, settings.vectors)
    return digest(str(VERSION), types_fingerprint(), encoder, *map(str, constants))


def part_folder(root: Path, document: str, fingerprint: str) -> Path:
    """Return where the part of a document lies, or will.

    Raises:
        UsageError: one of the two is no name.
    """
    return root / "parts" / f"{check_name(document)}-{check_name(fingerprint, FINGERPRINT)}"


def describe(folder: Path) -> Part:
    """What is said about a part."""
    raw = orjson.loads((folder / "part.json").read_bytes())
    accepted = datetime.fromisoformat(raw.pop("accepted"))
    problems = tuple(Problem(*entry) for entry in raw.pop("problems"))
    raw["vanished"], raw["again"] = tuple(raw.get("vanished", ())), tuple(raw.get("again", ()))
    raw["keys"] = None if raw.get("keys") is None else tuple(raw["keys"])
    return Part(folder=folder, accepted=accepted, problems=problems, **raw)


def enrich(
    root: Path,
    document: str,
    encoder: Encoder,
    counter: TokenCounter,
    settings: Settings,
    progress: Callable[[int], None] | None = None,
) -> Part:
    """Make the part of one accepted document; a part that is there already is taken as it is.

    Raises:
        InputRefused: nothing in the document can be read.
        StoreError: the envelope is missing or damaged.
    """
    target = part_folder(root, document, pipeline_fingerprint(encoder.spec.fingerprint, settings))
    # Another process may publish and remove the part this very moment: then it is made again, and swept later.
    with contextlib.suppress(FileNotFoundError):
        return describe(target)
    version = _version(root, document)
    envelope = ledger.read(root, document)
    failpoint("enrich.begin", document)
    redacted: Counter[str] = Counter()
    reading = Reading(Parsed(())) if envelope.forgotten else read(root, envelope, settings)
    failpoint("enrich.parsed")
    if envelope.forgotten:
        judged = of_records(item_records(root, envelope, settings))
    else:
        judged = of_document(reading, envelope, settings, redacted)
    found = judged.published()
    texts = [record["text"] for record in found.records]
    for record, tokens in zip(found.records, counter(texts), strict=True):
        record["tokens"] = tokens
    vectors = encoder.passages(found.texts, settings.embed_batch, progress)
    failpoint("enrich.embedded")
    model = type_model(encoder, settings)
    judge(judged, vectors, model if isinstance(model, TypeModel) else None)
    new = [record for record, state in zip(found.records, found.state or repeat("new"), strict=False) if state == "new"]
    rows = build_rows(
        found.records,
        found.texts,
        found.mentions,
        vectors,
        signatures(texts),
        links=found.links,
        facts=found.facts,
        fact_vectors=fact_vectors(found.facts, encoder, settings),
    )
    part = {
        "path": envelope.path,
        "format": envelope.format,
        "accepted": envelope.accepted.isoformat(),
        "turns": len({(record["session"], *record["turns"]) for record in new}),
        "items": len(new),
        "sessions": len({record["session"] for record in new}),
        "redacted": dict(Counter(envelope.redacted) + redacted),
        "problems": [list(problem) for problem in (*envelope.problems, *reading.parsed.problems)],
        "unknown": dict(reading.parsed.unknown),
        "types": model if isinstance(model, str) else "",
        "junk": dict(reading.parsed.junk),
        "chars": sum(len(record["text"]) for record in new),
        "after": envelope.after,
        "leans_on": reading.leans_on,
        "vanished": vanished(reading, envelope, settings),
        "again": [record["id"] for record, state in zip(found.records, found.state, strict=False) if state == "again"],
        "keys": _keys(reading, new, settings),
        **({"remember": True} if envelope.remember else {}),
    }
    with paths.new_folder(target) as folder:
        save(rows, folder)
        (folder / "part.json").write_bytes(orjson.dumps(part))
    failpoint("enrich.part")
    if _version(root, document) != version:  # forgotten meanwhile: what was read is gone, so must be what came of it
        paths.remove(target)
        return enrich(root, document, encoder, counter, settings, progress)
    return describe(target)


def fact_vectors(
    facts: Sequence[Sequence[dict[str, Any]]], encoder: Encoder, settings: Settings
) -> npt.NDArray[np.float32]:
    """float32[f, d]: the vector of each fact's sentence; equal ones are embedded once."""
    texts = fact_texts(pa.Table.from_pylist([fact for row in facts for fact in row], schema=FACTS))
    nothing = np.empty((0, encoder.spec.dim), np.float32)
    return encoder.passages(texts, settings.embed_batch, None) if texts else nothing


def _keys(reading: Reading, new: Sequence[dict[str, Any]], settings: Settings) -> list[str] | None:
    """Ids of the items whose words are in the document, which its rows need not be: what forgetting has to know."""
    if reading.leans_on:
        return all_ids(reading, settings)
    return None if reading.fresh is None else [record["id"] for record in new]


def _version(root: Path, document: str) -> int | None:
    """Tells an envelope from the one that replaces it."""
    path = root / "inbox" / document
    return path.stat().st_ino if path.exists() else None


def item_records(root: Path, envelope: Envelope, settings: Settings) -> list[dict[str, Any]]:
    """The items an accepted document holds, as records of ITEMS; what an encoder has a say in may be None.

    Raises:
        Any of FAULTS: it cannot be read.
    """
    if envelope.forgotten:
        known = {"document": envelope.document, "t_ingested": envelope.accepted}
        records = [{**orjson.loads(line), **known} for line in envelope.text.split("\n") if line]
        for record in records:
            parts = record.get("salience_parts")
            record["salience_parts"] = parts and [tuple(part) for part in parts]
        return records
    reading = read(root, envelope, settings)
    if reading.leans_on:  # its text holds all of it
        reading = replace(reading, fresh=None)
    found = of_document(reading, envelope, settings, Counter())
    return [record for record, state in zip(found.records, found.state, strict=True) if state == "new"]


# What a document can do to the code that reads it. A full disk or a missing encoder is no fault of the document.
FAULTS = (
    *(HelixError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError),
)


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a try to enrich a document: its part, or why there is none."""

    part: Part | None = None
    error: str = ""  # empty where another process is at it
    dead: bool = False  # it is given up


def try_enrich(
    root: Path, document: str, encoder: Encoder, counter: TokenCounter, settings: Settings, strikes: float = 1
) -> Tried:
    """Enrich one document; one that cannot be read so many times goes to the dead with its error, and the rest goes on.

    So does one in whose hand several processes have died.

    Raises:
        EncoderError, OSError: no fault of the document; the try does not count.
    """
    with tries.claim(root, document) as claimed:
        if claimed is None:
            return Tried()
        if why := claimed.record.over():
            tries.bury(root, document, claimed, why, 1)
            return Tried(error=why, dead=True)
        try:
            part = enrich(root, document, encoder, counter, settings)
        except EncoderError:
            raise
        except FAULTS as error:
            said = str(error) if isinstance(error, HelixError) else f"{type(error).__name__}: {error}"
            dead = tries.struck(root, document, claimed, said, settings.retry_wait, strikes)
            return Tried(error=said, dead=dead)
        claimed.clear()
        return Tried(part)


def build_rows(
    records: list[dict[str, Any]],
    texts: Sequence[str],
    mentions: Sequence[Sequence[tuple[str, str, str]]],
    vectors: npt.NDArray[np.float32],
    minhash: npt.NDArray[np.uint32],
    *,
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
    facts: Sequence[Sequence[dict[str, Any]]] | None = None,
    fact_vectors: npt.NDArray[np.float32] | None = None,
) -> Rows:
    """The columns of a part.

    Args:
        records: one of ITEMS each.
        texts: what each is indexed by.
        mentions: (kind, key, name) of the entities each names.
        vectors: float32[n, d], unit length.
        minhash: uint32[n, 64].
        links: (key of an earlier item, position in LINKS) of each; none where not given.
        facts: of each, as records of FACTS; none where not given.
        fact_vectors: float32[f, d], unit length, of all of them in order; where not given no search finds them.
    """
    links = links if links is not None else [()] * len(records)
    facts = facts if facts is not None else [()] * len(records)
    codes, scale = quantise(vectors)
    stated = [fact for row in facts for fact in row]
    nothing = np.zeros((len(stated), vectors.shape[1]), np.float32)
    fact_codes, fact_scale = quantise(nothing if fact_vectors is None else fact_vectors)
    spoken = [tokenise(text) for text in texts]
    counts = [Counter(terms) for terms in spoken]
    terms = [list(count) for count in counts]
    hashes = [[int(digest(kind, key), 16) for kind, key, _ in found] for found in mentions]
    distinct = {
        number: (kind, key, name, number)
        for numbers, found in zip(hashes, mentions, strict=True)
        for number, (kind, key, name) in zip(numbers, found, strict=True)
    }
    return Rows(
        items=pa.Table.from_pylist(records, schema=ITEMS),
        codes=codes,
        scale=scale,
        exact=vectors.astype(np.float16),
        minhash=minhash,
        term_indptr=offsets(terms),
        term_key=hash_terms([term for row in terms for term in row]),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        order_indptr=offsets(spoken),
        order_term=short_ids(hash_terms([term for row in spoken for term in row])),
        cues=np.array([cues(record["text"], record["role"]) for record in records], np.uint8),
        mention_indptr=offsets(hashes),
        mention_entity=np.array([number for row in hashes for number in row], np.uint64),
        link_indptr=offsets(links),
        link_key=np.array([key for row in links for key, _ in row], np.uint64),
        link_kind=np.array([kind for row in links for _, kind in row], np.uint8),
        fact_indptr=offsets(facts),
        entities=pa.Table.from_pylist(
            [dict(zip(ENTITIES.names, row, strict=True)) for row in distinct.values()], schema=ENTITIES
        ),
        facts=pa.Table.from_pylist(stated, schema=FACTS),
        fact_codes=fact_codes,
        fact_scale=fact_scale,
    )
