"""A part: one document's enriched rows, not yet published; how it is built, and which parts a commit publishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.digests import FINGERPRINT, check_name
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.arrays import quantise_vectors
from helix.snapshot.segment.batch import ENTITIES, FACTS, ITEMS, STEPS, RowBatch, hash_parts
from helix.text.claims import hash_former, load_model, read_claims
from helix.text.cues import read_cues
from helix.text.languages import ENGLISH, NUMBERS
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, I64, U32, Problem
from pipelines.training.router import types_fingerprint

VERSION: Final = 11
"""Of the enrichment and of the files of a part; another number makes other parts."""


@dataclass(frozen=True, slots=True)
class EnrichedPart:
    """The description of a part; `folder` holds its rows."""

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
    types: str = ""  # why the classifier was not used; empty where it was
    junk: dict[str, int] = field(default_factory=dict)  # characters left out, by rule
    chars: int = 0  # retained
    after: str = ""  # the document this one continues, which is published first
    leans_on: str = ""  # the version it replaces, whose items it does not repeat
    vanished: tuple[str, ...] = ()  # ids of items that its source no longer holds
    again: tuple[str, ...] = ()  # ids of earlier items whose salience or confidence the new text changes
    keys: tuple[str, ...] | None = None  # ids of all items in the document's text; None: those of its rows
    remember: bool = False  # forgotten items of it are accepted again


def pipeline_fingerprint(encoder: str, settings: Settings) -> str:
    """Return the digest of everything that decides the content of a part."""
    constants = (settings.item_words, settings.tool_chars, settings.vectors)
    return hash_parts(str(VERSION), types_fingerprint(), encoder, *map(str, constants))


def part_folder(root: Path, document: str, fingerprint: str) -> Path:
    """Return the folder of a document's part, present or not.

    Raises:
        UsageError: one of the two is no valid name.
    """
    return root / "parts" / f"{check_name(document)}-{check_name(fingerprint, FINGERPRINT)}"


def read_part(folder: Path) -> EnrichedPart:
    """Read the description of a part."""
    raw = orjson.loads((folder / "part.json").read_bytes())
    accepted = datetime.fromisoformat(raw.pop("accepted"))
    problems = tuple(Problem(*entry) for entry in raw.pop("problems"))
    raw["vanished"], raw["again"] = tuple(raw.get("vanished", ())), tuple(raw.get("again", ()))
    raw["keys"] = None if raw.get("keys") is None else tuple(raw["keys"])
    return EnrichedPart(folder=folder, accepted=accepted, problems=problems, **raw)


SMALL: Final = 64
"""Items of a part that somebody may be waiting for."""

OVERDUE: Final = 30.0
"""Seconds for which small parts may precede a large one."""


def find_ready(
    root: Path, fingerprint: str, done: set[str], unread: frozenset[str] = frozenset()
) -> dict[str, EnrichedPart]:
    """Return the unpublished parts by document, in order of acceptance.

    A document that continues or replaces another waits for it, unless that one was given up.

    Args:
        unread: documents that hold up no other one while they have no part.
    """
    waiting = inbox.list_waiting(root, done)
    left: dict[str, EnrichedPart] = {}
    for document in waiting:
        folder = part_folder(root, document, fingerprint)
        if not folder.is_dir():
            continue
        part = read_part(folder)
        if part.leans_on and inbox.is_dead(root, part.leans_on):  # made before that one was given up
            paths.remove_path(folder)
        else:
            left[document] = part
    waits, ready = set(waiting) - (unread - left.keys()), dict[str, EnrichedPart]()
    while now := [name for name, part in left.items() if waits.isdisjoint((part.after, part.leans_on))]:
        for document in now:  # mostly one after the other, in order of acceptance
            waits.discard(document)
            ready[document] = left.pop(document)
    return ready


def limit_parts(parts: Mapping[str, EnrichedPart], limit: int) -> dict[str, EnrichedPart]:
    """Return at least one of the ready parts, and as many as stay below `limit` items, small ones first.

    None precedes a document it continues. So an import delays a fresh turn by one short commit. Fresh turns delay a
    part larger than the limit by `OVERDUE` seconds at most.
    """
    left, chosen, size, overdue = set(parts), set[str](), 0, False
    for small in (True, False):
        for document, part in parts.items():
            later = not left.isdisjoint((part.after, part.leans_on))
            if document in chosen or later or (small and part.items > SMALL):
                continue
            if chosen and size + part.items > limit:
                if small or overdue or paths.measure_age(part.folder) < OVERDUE:
                    continue
                overdue = True
            size += part.items
            chosen.add(document)
            left.discard(document)
    return {document: part for document, part in parts.items() if document in chosen}


def build_rows(
    records: list[dict[str, Any]],
    texts: Sequence[str],
    mentions: Sequence[Sequence[tuple[str, str, str]]],
    vectors: F32,
    minhash: U32,
    *,
    links: Sequence[Sequence[tuple[int, int]]] | None = None,
    facts: Sequence[Sequence[dict[str, Any]]] | None = None,
    fact_vectors: F32 | None = None,
) -> RowBatch:
    """Return the rows of n items.

    Args:
        records: one of ITEMS an item; `steps`, if present, are its steps as records of STEPS, `language` is that of
            its text.
        texts: the indexed text of each item.
        mentions: (kind, key, name) of each item's entities.
        vectors: float32[n, d], unit length.
        minhash: uint32[n, 64].
        links: (key of an earlier item, position in LINKS) of each item; none by default.
        facts: records of FACTS of each item; none by default.
        fact_vectors: float32[f, d], unit length, of all facts in order; without them no search finds a fact.
    """
    links, facts = links or [()] * len(records), facts or [()] * len(records)
    codes, scale = quantise_vectors(vectors)
    stated = _flatten(facts)
    nothing = np.zeros((len(stated), vectors.shape[1]), np.float32)
    fact_codes, fact_scale = quantise_vectors(nothing if fact_vectors is None else fact_vectors)
    languages = [record.get("language", ENGLISH) for record in records]
    tokens = [tokenise(text, language) for text, language in zip(texts, languages, strict=True)]
    counts = [Counter(terms) for terms in tokens]
    terms = [list(count) for count in counts]
    hashes = [[int(hash_parts(kind, key), 16) for kind, key, _ in entities] for entities in mentions]
    steps = _list_steps(records)
    return RowBatch(
        items=pa.Table.from_pylist(records, schema=ITEMS),
        codes=codes,
        scale=scale,
        exact=vectors.astype(np.float16),
        minhash=minhash,
        term_indptr=_compute_offsets(terms),
        term_key=hash_terms(_flatten(terms)),
        term_tf=np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16),
        order_indptr=_compute_offsets(tokens),
        order_term=shorten_ids(hash_terms(_flatten(tokens))),
        **_read_statements(records, languages),
        mention_indptr=_compute_offsets(hashes),
        mention_entity=np.array(_flatten(hashes), np.uint64),
        link_indptr=_compute_offsets(links),
        link_key=np.array([key for key, _ in _flatten(links)], np.uint64),
        link_kind=np.array([kind for _, kind in _flatten(links)], np.uint8),
        fact_indptr=_compute_offsets(facts),
        entities=_list_entities(hashes, mentions),
        facts=pa.Table.from_pylist(stated, schema=FACTS),
        fact_codes=fact_codes,
        fact_scale=fact_scale,
        step_indptr=_compute_offsets(steps),
        steps=pa.Table.from_pylist(_flatten(steps), schema=STEPS),
    )


def _read_statements(records: Sequence[Mapping[str, Any]], languages: Sequence[str]) -> dict[str, Any]:
    """Return the languages, cues and claims of items, how likely each alters something, and what it leaves."""
    texts, roles = ([record[name] for record in records] for name in ("text", "role"))
    claims, alters = read_claims(texts, roles, load_model(), languages)
    cues = [read_cues(*said) for said in zip(texts, roles, languages, strict=True)]
    return {
        "cues": np.array(cues, np.uint8),
        "language": np.array([NUMBERS[language] for language in languages], np.uint8),
        "claims": claims,
        "alters": alters,
        "former": hash_former(texts, languages),
    }


def _list_entities(hashes: Sequence[Sequence[int]], mentions: Sequence[Sequence[tuple[str, str, str]]]) -> pa.Table:
    """Return the entities of all items, each once: ENTITIES."""
    distinct = dict(zip(_flatten(hashes), _flatten(mentions), strict=True))
    rows = [dict(zip(ENTITIES.names, (*row, number), strict=True)) for number, row in distinct.items()]
    return pa.Table.from_pylist(rows, schema=ENTITIES)


def _list_steps(records: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the steps of each item, as records of STEPS."""
    return [[{**step, "item": record["id"]} for step in record.get("steps") or ()] for record in records]


def _flatten(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [value for row in lists for value in row]


def _compute_offsets(lists: Sequence[Sequence[Any]]) -> I64:
    """Return where each list begins and the last one ends: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in lists], dtype=np.int64)])
