"""Turns become items: a record each, with what its session tells of it; what only a vector tells is filled in later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import compress, groupby, repeat
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from helix.enrich.chunk import chunk
from helix.enrich.classify import TypeModel, classify_all
from helix.enrich.facts import Fact, facts, functional
from helix.enrich.salience import Piece, given, judged
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import LINKS, digest
from helix.text.entities import entities
from helix.text.names import join
from helix.types import F32, Entity, Session, Turn
from pipelines.ingest.versions import Place, Reading

Record = dict[str, Any]

NO_PROJECT = "default"  # the project of what names none
_BRANCH = 0.5  # confidence kept by a turn that was rewound
_SHARED = ("path", "error")  # kinds of entities that join the items which name them
_HUB = 50  # pieces of a session: what more of them name joins nothing
_MOST_LINKS = 4  # of one kind, of one item
_LABEL = 200  # characters of a title, and of what names a turn, its speaker, session or project


State = Literal["new", "again", "context"]
"""Of an item: it is new in its document; it was said before, and what is new makes it matter more or less; or it is
only read for the sake of the others."""

OTHER = 0.04
"""Of salience or confidence: an item that changed by less is left as it is. One reference makes 0.05 of salience."""

CONTEXT = 512
"""Turns before the first new one of a session that are read with it."""


@dataclass(slots=True)
class Found:
    """What is known of n items before they are embedded."""

    records: list[Record]  # of ITEMS
    texts: list[str]  # what each is indexed by
    mentions: list[list[Entity]]
    facts: list[list[Record]]  # of FACTS
    links: list[list[tuple[int, int]]]  # (key of an earlier item, position in LINKS)
    state: list[State] = field(default_factory=list)  # of each; all new where empty

    def published(self) -> Found:
        """Without what was read for the sake of the rest."""
        if "context" not in self.state:
            return self
        keep = [state != "context" for state in self.state]
        columns = (self.records, self.texts, self.mentions, self.facts, self.links, self.state)
        return Found(*(list(compress(column, keep)) for column in columns))  # type: ignore[arg-type]


def of_document(reading: Reading, envelope: Envelope, settings: Settings, redacted: Counter[str]) -> Found:
    """The items of a parsed document. What a secret was replaced in is added to `redacted`.

    Of a session it adds to, some earlier items are read again: what is new refers to them.
    """
    records: list[Record] = []
    parents: dict[str, str | None] = {}
    state: list[State] = []
    for session in reading.parsed.sessions:
        new = [reading.fresh is None or (session.id, turn.id) in reading.fresh for turn in session.turns]
        if not any(new):
            continue
        place, first = reading.passed, new.index(True)
        for number, (turn, is_new) in enumerate(zip(session.turns, new, strict=True)):
            pieces, found = _pieces(turn.text, settings.item_words)
            if is_new:
                redacted.update(found)
            for piece, part in enumerate(pieces if number >= first - CONTEXT else ()):
                records.append(_record(session, turn, part, piece, place + piece, envelope))
                state.append("new" if is_new else "context")
                if not piece:
                    parents[records[-1]["id"]] = _label(turn.parent)
            place += len(pieces)
    return of_records(records, parents, state)


@lru_cache(maxsize=4_096)
def _pieces(text: str, words: int) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """A turn's text as it is kept, cut. Escapes in a log may have hidden a secret from the pass over the raw text."""
    clean, found = redact(text)
    return tuple(chunk(clean, words)), found


def vanished(reading: Reading, envelope: Envelope, settings: Settings) -> list[str]:
    """Ids of the items that a source held and, as it went on, no longer holds: what a log rewound or wrote over."""

    def ids(turns: Mapping[Place, tuple[Session, Turn]]) -> set[str]:
        return {
            identity(session, turn, piece)
            for session, turn in turns.values()
            for piece in range(len(_pieces(turn.text, settings.item_words)[0]))
        }

    if not reading.before:
        return []
    now = {
        (session.id, turn.id): (session, turn)
        for session in reading.parsed.sessions
        for turn in session.turns
        if reading.fresh is None or (session.id, turn.id) in reading.fresh
    }
    return sorted(ids(reading.before) - ids(now))


def all_ids(reading: Reading, settings: Settings) -> list[str]:
    """Ids of all items of a document, be they new in it or not."""
    return [
        identity(session, turn, piece)
        for session in reading.parsed.sessions
        for turn in session.turns
        for piece in range(len(_pieces(turn.text, settings.item_words)[0]))
    ]


def of_records(
    records: list[Record],
    parents: Mapping[str, str | None] = MappingProxyType({}),
    state: Sequence[State] = (),
) -> Found:
    """The same from records, which lie session by session in reading order.

    Args:
        parents: id of the first piece of a turn → id of the turn it answers, where the source says so.
        state: of each; all new where empty. Of those that are context some become `again`.
    """
    out = Found(records, [], [], [], [], list(state))
    for _, group in groupby(records, key=lambda record: (record["source"], record["session"])):
        session = list(group)
        named = [_entities(record["text"], record["speaker"], _at(record["time"])) for record in session]
        mentions = join(named, [record["speaker"] for record in session])
        out.texts += [
            index_text(*(record[name] for name in ("origin", "speaker", "title", "text"))) for record in session
        ]
        out.mentions += mentions
        out.links += _links(session, mentions, parents)
    if "context" in state:
        _tell_again(out)
    told = zip(records, out.mentions, out.state or repeat("new"), strict=False)
    out.facts = [_facts(record, found) if known != "context" else [] for record, found, known in told]
    return out


@lru_cache(maxsize=4_096)  # a session that grows is read with all that came before
def _entities(text: str, speaker: str | None, at: datetime | None) -> tuple[Entity, ...]:
    return tuple(entities(text, speaker, at))


def index_text(origin: str, speaker: str | None, heading: str | None, text: str) -> str:
    """What both legs index: the text behind its header, `speaker: ` for turns and `title. ` for documents."""
    if origin == "document":
        return f"{heading}. {text}" if heading else text
    return f"{speaker}: {text}" if speaker else text


def _tell_again(found: Found) -> None:
    """Mark the earlier items that are worth more or less with what is new than without it, as `again`."""
    kinds = classify_all(*_columns(found.records), None, None)  # of what is not embedded yet, the cues alone
    types = [record["type"] or kind for record, (kind, _) in zip(found.records, kinds, strict=True)]
    for start, session in _sessions(found):
        state = found.state[start : start + len(session)]
        earlier = [i for i, known in enumerate(state) if known == "context"]
        if not 0 < len(earlier) < len(state):
            continue
        pieces = _told(session, types[start:], found.mentions[start:])
        worth, trust = judged(pieces)
        alone = zip(earlier, *judged([pieces[i] for i in earlier]), strict=True)
        for i, was, vouched in alone:
            if max(abs(worth[i].value - was.value), abs(trust[i].value - vouched.value)) > OTHER:
                found.state[start + i] = "again"


def judge(found: Found, vectors: F32 | None, model: TypeModel | None) -> None:
    """Fill in type, salience and confidence of every record that does not say them.

    Args:
        vectors: float32[n, d] of the records that are published, or None: then the cues alone decide about the type.
    """
    context = [record for record, state in zip(found.records, found.state, strict=False) if state == "context"]
    _classify(context, None, None)
    _classify(found.published().records, vectors, model)
    for start, session in _sessions(found):
        pieces = _told(session, [record["type"] for record in session], found.mentions[start:])
        for record, worth, trust in zip(session, *judged(pieces), strict=True):
            if record["salience"] is None:
                worth = given(worth, record["pinned"], record["priority"])
                record["salience"], record["salience_parts"] = worth.value, list(worth.parts)
            if record["confidence"] is None:
                branch = _BRANCH if record["branch_of"] else 1.0
                record["confidence"], record["vouched"] = round(trust.value * branch, 4), trust.source


def _sessions(found: Found) -> Iterator[tuple[int, list[Record]]]:
    """Where each session begins, and its records."""
    start = 0
    for _, group in groupby(found.records, key=lambda record: (record["source"], record["session"])):
        session = list(group)
        yield start, session
        start += len(session)


def _told(session: Sequence[Record], types: Sequence[str], mentions: Sequence[Sequence[Entity]]) -> list[Piece]:
    """The records of a session, as what is worth remembering is judged by. Of `types` and `mentions` its first ones."""
    turns = {turn: i for i, turn in enumerate(dict.fromkeys(record["turns"][0] for record in session))}
    return [
        Piece(record["text"], record["role"], record["origin"], kind, turns[record["turns"][0]], _named(record, named))
        for record, kind, named in zip(session, types, mentions, strict=False)
    ]


def _classify(records: Sequence[Record], vectors: F32 | None, model: TypeModel | None) -> None:
    kinds = classify_all(*_columns(records), vectors, model)
    for record, (kind, certainty) in zip(records, kinds, strict=True):
        if record["type"] is None:
            record["type"], record["type_confidence"] = kind, certainty


def _columns(records: Sequence[Record]) -> tuple[list[str], list[str], list[str]]:
    """Texts, roles and origins."""
    texts, roles, origins = ([record[name] for record in records] for name in ("text", "role", "origin"))
    return texts, roles, origins


def _named(record: Record, mentions: Sequence[Entity]) -> tuple[str, ...]:
    """The keys of what an item names, but for its speaker, whom every turn of hers names."""
    speaker = " ".join((record["speaker"] or "").split()).lower()
    return tuple(entity.key for entity in mentions if (entity.kind, entity.key) != ("person", speaker))


# ---------------------------------------------------------------- records


def identity(session: Session, turn: Turn, piece: int) -> str:
    """The id of an item. A turn whose own id is unique is the same in whatever session it is repeated."""
    return digest(session.source, *(() if turn.unique else (session.id,)), turn.id, str(piece))


def _record(session: Session, turn: Turn, text: str, piece: int, place: int, envelope: Envelope) -> Record:
    project = str(_label(envelope.project or turn.project or session.project or NO_PROJECT))
    speaker, title = _clean(turn.speaker), _clean(turn.title or session.title)
    acl = sorted({*envelope.acl, *turn.acl})
    priority = turn.priority if turn.priority is not None else 1.0
    when = turn.time.isoformat() if turn.time else ""
    rewound = ("rewound",) if session.branch_of else ()
    said = (str(turn.pinned), str(priority), str(turn.confidence), turn.type or "", ",".join(acl), *rewound)
    return {
        "id": identity(session, turn, piece),
        "source": session.source,
        "path": envelope.path,
        "document": envelope.document,
        "session": _label(session.id),
        "branch_of": _label(session.branch_of),
        "turns": [_label(turn.id)],
        "piece": piece,
        "ord": place,
        "speaker": speaker,
        "role": turn.role,
        "origin": turn.origin,
        "title": title,
        "text": text,
        "type": turn.type,
        "type_confidence": 1.0 if turn.type else None,
        "project": project,
        "time": _seconds(turn.time),
        "time_quality": turn.time_quality,
        "t_valid": _seconds(turn.time or envelope.accepted),
        "t_invalid": None,
        "t_ingested": envelope.accepted,
        "salience": None,
        "salience_parts": None,
        "confidence": turn.confidence,
        "vouched": "given" if turn.confidence is not None else None,
        "priority": priority,
        "pinned": turn.pinned,
        "acl": acl,
        # Not the session: a resumed log repeats a turn under a new one, and that is no change.
        "content": digest(
            text, turn.role, turn.origin, turn.speaker or "", when, project, turn.title or "", *said, *rewound
        ),
    }


@lru_cache(maxsize=4_096)
def _clean(name: str | None) -> str | None:
    """A speaker or a title: what a person typed first may have become one, secrets and all."""
    return _label(name and redact(name)[0])


def _label(name: str | None) -> str | None:
    """A name as it is kept: every piece of a turn repeats it. Of a long one the digest tells it from its like."""
    return name if name is None or len(name) <= _LABEL else f"{name[: _LABEL - 17]}…{digest(name)}"


def _seconds(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None


def _at(seconds: int | datetime | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else seconds


# ---------------------------------------------------------------- facts


def _facts(record: Record, mentions: Sequence[Entity]) -> list[Record]:
    """What an item states, as records of FACTS."""
    found = facts(record["text"], record["speaker"], record["role"], record["origin"], _at(record["time"]))
    hashes = {entity.key: int(digest(entity.kind, entity.key), 16) for entity in reversed(mentions)}
    # One fact ends another of its group: never one that other readers see, or one of another project.
    scope = (record["project"], ",".join(record["acl"] or ()))
    return [_fact(record, fact, hashes, scope) for fact in found]


def _fact(record: Record, fact: Fact, hashes: Mapping[str, int], scope: tuple[str, ...]) -> Record:
    def entity(key: str, kind: str) -> int:
        return hashes.get(key) or (int(digest(kind, key), 16) if key else 0)

    closes = "closes" if fact.closes else ""
    return {
        "id": digest(record["id"], fact.subject_key, fact.relation, fact.qualifier, fact.object_key, closes),
        "item": record["id"],
        "project": record["project"],
        **{
            name: getattr(fact, name) for name in ("subject", "subject_key", "relation", "object", "object_key", "said")
        },
        "qualifier": fact.qualifier,
        "t_valid": _seconds(fact.valid) if fact.valid else record["t_valid"],
        "until": _seconds(fact.until),
        "t_ingested": record["t_ingested"],
        "confidence": fact.confidence,
        "functional": functional(fact),
        "closes": fact.closes,
        "group": int(digest("fact", *scope, fact.subject_key, fact.relation, fact.qualifier), 16),
        "family": int(digest("fact", *scope, fact.subject_key, fact.relation, ""), 16),
        "subject_entity": entity(fact.subject_key, "person"),
        "object_entity": entity(fact.object_key, "name"),
    }


# ---------------------------------------------------------------- links


def _links(
    session: Sequence[Record], mentions: Sequence[Sequence[Entity]], parents: Mapping[str, str | None]
) -> list[list[tuple[int, int]]]:
    """To earlier items of the session: what a turn answers, and who last named the same file or error."""
    often = Counter(entity[:2] for found in mentions for entity in found if entity.kind in _SHARED)
    last_piece: dict[str, str] = {}  # of a turn
    last_named: dict[tuple[str, str], str] = {}
    reply, same = (LINKS.index(kind) for kind in LINKS)
    out: list[list[tuple[int, int]]] = []
    before: Record | None = None
    for record, found in zip(session, mentions, strict=True):
        answered = None
        if not record["piece"] and before is not None:
            asked = before["speaker"] != record["speaker"] or before["role"] != record["role"]
            parent = parents.get(record["id"])
            if parent and parent in last_piece and parent != before["turns"][0]:
                answered = last_piece[parent]
            elif asked and before["text"].rstrip().endswith("?"):
                answered = before["id"]
        shared = [entity[:2] for entity in found if entity.kind in _SHARED and often[entity[:2]] <= _HUB]
        others = dict.fromkeys(last_named[key] for key in shared if key in last_named)
        others.pop(record["id"], None)
        found_here = [(answered, reply)] if answered else []
        found_here += [(identity, same) for identity in [*others][:_MOST_LINKS]]
        out.append([(int(identity, 16), kind) for identity, kind in found_here])
        for key in shared:
            last_named[key] = record["id"]
        last_piece[record["turns"][0]] = record["id"]
        before = record
    return out


def offsets(lists: Sequence[Sequence[Any]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each list begins and the last one ends: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in lists], dtype=np.int64)])
