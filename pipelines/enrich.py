"""Enriching: one accepted document becomes one part: items with everything recall needs to know of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from helix import sources
from helix.encoders.onnx import Encoder, TokenCounter
from helix.enrich.chunk import chunk
from helix.enrich.classify import classify
from helix.enrich.entities import entities
from helix.enrich.neardup import signatures
from helix.enrich.redact import redact
from helix.enrich.salience import confidence, salience
from helix.errors import HelixError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import ledger, paths
from helix.snapshot.arrays import quantise
from helix.snapshot.ledger import Envelope
from helix.snapshot.rows import ENTITIES, ITEMS, Rows, digest, load, save
from helix.text import hash_terms, tokenise
from helix.types import Document, Parsed, Problem, Session, Turn

VERSION = 1  # of what this module makes; another number means other parts
NO_PROJECT = "default"  # the project of what names none
_BRANCH = 0.5  # confidence kept by a turn that was rewound


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


def pipeline_fingerprint(encoder: str, settings: Settings) -> str:
    """Names everything that decides what a part holds."""
    return digest(str(VERSION), encoder, str(settings.item_words), str(settings.tool_chars))


def part_folder(root: Path, document: str, fingerprint: str) -> Path:
    """Where the part of a document lies, or will."""
    return root / "parts" / f"{document}-{fingerprint}"


def read_part(folder: Path) -> tuple[Part, Rows]:
    """A part and its rows."""
    return describe(folder), load(folder)


def describe(folder: Path) -> Part:
    """What is said about a part."""
    raw = orjson.loads((folder / "part.json").read_bytes())
    accepted = datetime.fromisoformat(raw.pop("accepted"))
    problems = tuple(Problem(*entry) for entry in raw.pop("problems"))
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
    redacted: Counter[str] = Counter()
    if envelope.forgotten:
        parsed = Parsed(())
        records = item_records(envelope, settings)
        index_texts, mentions = _indexed(records)
        sessions = len({record["session"] for record in records})
        turns = len({(record["session"], *record["turns"]) for record in records})
    else:
        parsed = parse(envelope, settings)
        failpoint("enrich.parsed")
        records, index_texts, mentions = _records(parsed, envelope, settings, redacted)
        sessions, turns = len(parsed.sessions), sum(len(session.turns) for session in parsed.sessions)
    for record, tokens in zip(records, counter([record["text"] for record in records]), strict=True):
        record["tokens"] = tokens
    vectors = encoder.passages(index_texts, settings.embed_batch, progress)
    failpoint("enrich.embedded")
    rows = build_rows(records, index_texts, mentions, vectors, signatures([record["text"] for record in records]))
    part = {
        "path": envelope.path,
        "format": envelope.format,
        "accepted": envelope.accepted.isoformat(),
        "turns": turns,
        "items": len(rows),
        "sessions": sessions,
        "redacted": dict(Counter(envelope.redacted) + redacted),
        "problems": [list(problem) for problem in (*envelope.problems, *parsed.problems)],
        "unknown": dict(parsed.unknown),
    }
    with paths.new_folder(target) as folder:
        save(rows, folder)
        (folder / "part.json").write_bytes(orjson.dumps(part))
    failpoint("enrich.part")
    if _version(root, document) != version:  # forgotten meanwhile: what was read is gone, so must be what came of it
        paths.remove(target)
        return enrich(root, document, encoder, counter, settings, progress)
    return describe(target)


def _version(root: Path, document: str) -> int | None:
    """Tells an envelope from the one that replaces it."""
    path = root / "inbox" / document
    return path.stat().st_ino if path.exists() else None


def parse(envelope: Envelope, settings: Settings) -> Parsed:
    """The sessions of an accepted document.

    Raises:
        InputRefused: nothing in it can be read.
    """
    return sources.parse(Document(envelope.path, envelope.text, envelope.mtime), envelope.format, settings.tool_chars)


def item_records(envelope: Envelope, settings: Settings) -> list[dict[str, Any]]:
    """The items an accepted document holds, as records of ITEMS, without what an encoder adds.

    Raises:
        Any of FAULTS: it cannot be read.
    """
    if envelope.forgotten:
        known = {"document": envelope.document, "t_ingested": envelope.accepted}
        return [{**orjson.loads(line), **known} for line in envelope.text.split("\n") if line]
    return _records(parse(envelope, settings), envelope, settings, Counter())[0]


# What a document can do to the code that reads it. A full disk or a missing encoder is no fault of the document.
FAULTS = (HelixError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def enrich_or_bury(
    root: Path, document: str, encoder: Encoder, counter: TokenCounter, settings: Settings
) -> tuple[Part | None, str]:
    """Enrich one document; one that cannot be read goes to the dead with its error, so that the rest goes on.

    Returns:
        (the part, "") or (None, the error).
    """
    try:
        return enrich(root, document, encoder, counter, settings), ""
    except FAULTS as error:
        said = str(error) if isinstance(error, HelixError) else f"{type(error).__name__}: {error}"
        ledger.give_up(root, document, said)
        return None, said


def _records(
    parsed: Parsed, envelope: Envelope, settings: Settings, redacted: Counter[str]
) -> tuple[list[dict[str, Any]], list[str], list[list[tuple[str, str, str]]]]:
    """Items as records of ITEMS, the text each is indexed by, and the entities each names."""
    records: list[dict[str, Any]] = []
    texts: list[str] = []
    mentions: list[list[tuple[str, str, str]]] = []
    for session in parsed.sessions:
        place = 0
        for turn in session.turns:
            # Escapes in a log may have hidden a secret from the pass over the raw text.
            text, found = redact(turn.text)
            redacted.update(found)
            for piece, part in enumerate(chunk(text, settings.item_words)):
                records.append(_record(session, turn, part, piece, place, envelope))
                texts.append(index_text(turn.origin, turn.speaker, turn.title or session.title, part))
                mentions.append([(entity.kind, entity.key, entity.name) for entity in entities(part, turn.speaker)])
                place += 1
    return records, texts, mentions


def _indexed(records: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[tuple[str, str, str]]]]:
    """What records are indexed by and the entities they name, where there is no turn to take it from."""
    texts = [index_text(record["origin"], record["speaker"], record["title"], record["text"]) for record in records]
    mentions = [
        [(entity.kind, entity.key, entity.name) for entity in entities(record["text"], record["speaker"])]
        for record in records
    ]
    return texts, mentions


def index_text(origin: str, speaker: str | None, heading: str | None, text: str) -> str:
    """What both legs index: the text behind its header, `speaker: ` for turns and `title. ` for documents."""
    if origin == "document":
        return f"{heading}. {text}" if heading else text
    return f"{speaker}: {text}" if speaker else text


def _record(session: Session, turn: Turn, text: str, piece: int, place: int, envelope: Envelope) -> dict[str, Any]:
    kind, certainty = classify(text, turn.role, turn.origin)
    if turn.type:
        kind, certainty = turn.type, 1.0
    trust = turn.confidence if turn.confidence is not None else confidence(text, turn.role, turn.origin)
    if session.branch_of and turn.confidence is None:
        trust *= _BRANCH
    project = envelope.project or turn.project or session.project or NO_PROJECT
    acl = sorted({*envelope.acl, *turn.acl})
    weight = 1.0 if turn.pinned else salience(text, turn.role, turn.origin, kind)
    priority = turn.priority if turn.priority is not None else 1.0
    identity = (session.source, *(() if turn.unique else (session.id,)), turn.id, str(piece))
    when = turn.time.isoformat() if turn.time else ""
    given = (str(turn.pinned), str(priority), str(turn.confidence), turn.type or "", ",".join(acl))
    return {
        "id": digest(*identity),
        "source": session.source,
        "path": envelope.path,
        "document": envelope.document,
        "session": session.id,
        "branch_of": session.branch_of,
        "turns": [turn.id],
        "piece": piece,
        "ord": place,
        "speaker": turn.speaker,
        "role": turn.role,
        "origin": turn.origin,
        "title": turn.title or session.title,
        "text": text,
        "type": kind,
        "type_confidence": certainty,
        "project": project,
        "time": _seconds(turn.time),
        "time_quality": turn.time_quality,
        "t_valid": _seconds(turn.time or envelope.accepted),
        "t_invalid": None,
        "t_ingested": envelope.accepted,
        "salience": weight,
        "confidence": trust,
        "priority": priority,
        "pinned": turn.pinned,
        "acl": acl,
        # Not the session: a resumed log repeats a turn under a new one, and that is no change.
        "content": digest(text, turn.role, turn.origin, turn.speaker or "", when, project, turn.title or "", *given),
    }


def _seconds(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None


def build_rows(
    records: list[dict[str, Any]],
    texts: Sequence[str],
    mentions: list[list[tuple[str, str, str]]],
    vectors: npt.NDArray[np.float32],
    minhash: npt.NDArray[np.uint32],
) -> Rows:
    """The columns of a part.

    Args:
        records: one of ITEMS each.
        texts: what each is indexed by.
        mentions: (kind, key, name) of the entities each names.
        vectors: float32[n, d], unit length.
        minhash: uint32[n, 64].
    """
    codes, scale = quantise(vectors)
    counts = [Counter(tokenise(text)) for text in texts]
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
        minhash=minhash,
        term_indptr=_offsets(terms),
        term_key=hash_terms([term for row in terms for term in row]),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        mention_indptr=_offsets(hashes),
        mention_entity=np.array([number for row in hashes for number in row], np.uint64),
        entities=pa.Table.from_pylist(
            [dict(zip(ENTITIES.names, row, strict=True)) for row in distinct.values()], schema=ENTITIES
        ),
    )


def _offsets(rows: Sequence[Sequence[Any]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
