"""Items: turns cut into records, with entities, facts and links; `judge_items` adds the fields that need vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import compress, groupby, repeat
from types import MappingProxyType
from typing import Any, Literal

from helix.enrich.chunk import chunk
from helix.enrich.salience import apply_input, judge
from helix.enrich.trust import find_relayed
from helix.enrich.type_model import TypeModel, classify_all
from helix.enrich.utterance import SessionItem, read_utterance
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import LINKS, hash_parts
from helix.text.aliases import join_names
from helix.text.entities import find_entities
from helix.text.languages import ENGLISH, find_languages
from helix.types import F32, Entity, Session, Turn
from pipelines.ingest.item_facts import find_facts, list_before, read_said
from pipelines.ingest.item_steps import hash_silent, make_steps
from pipelines.ingest.versions import DocumentReading
from pipelines.ingest.workspaces import SessionProject, find_project

Record = dict[str, Any]

NO_PROJECT = "default"  # the project of turns that name none
_BRANCH = 0.5  # factor on the confidence of a rewound turn
_SHARED = ("path", "error")  # kinds of entities that link the items naming them
_HUB = 50  # items of a session; an entity that more of them name links none
_MOST_LINKS = 4  # of one kind, of one item
_LABEL = 200  # characters of a title, speaker, session, project or turn id


State = Literal["new", "again", "context"]
"""new: the document adds the item; again: the document changes an earlier item's salience or confidence;
context: an earlier item, read only to judge the others."""

OTHER = 0.04
"""Least change of salience or confidence that updates an item. One reference makes 0.05 of salience."""

CONTEXT = 512
"""Turns of a session that are read before its first new one."""


@dataclass(slots=True)
class ItemBatch:
    """n items before they are embedded."""

    records: list[Record]  # of ITEMS
    texts: list[str]  # indexed text of each
    mentions: list[list[Entity]]
    facts: list[list[Record]]  # of FACTS
    links: list[list[tuple[int, int]]]  # (key of an earlier item, position in LINKS)
    state: list[State] = field(default_factory=list)  # of each; all new where empty

    def remove_context(self) -> ItemBatch:
        """Return the batch without its context items."""
        if "context" not in self.state:
            return self
        keep = [state != "context" for state in self.state]
        columns = (self.records, self.texts, self.mentions, self.facts, self.links, self.state)
        return ItemBatch(*(list(compress(column, keep)) for column in columns))  # type: ignore[arg-type]


def make_items(reading: DocumentReading, envelope: Envelope, settings: Settings, redacted: Counter[str]) -> ItemBatch:
    """Return the items of a parsed document; count redactions in `redacted`.

    Of a session it continues, some earlier items are included as context: new turns refer to them.
    """
    records: list[Record] = []
    parents: dict[str, str | None] = {}
    state: list[State] = []
    for session in reading.parsed.sessions:
        new = [reading.fresh is None or (session.id, turn.id) in reading.fresh for turn in session.turns]
        if not any(new):
            continue
        project = find_project(session, envelope)
        place, first = reading.passed, new.index(True)
        for number, (turn, is_new) in enumerate(zip(session.turns, new, strict=True)):
            numbers, pieces, found = cut_turn(turn, settings.item_words)
            if is_new:
                redacted.update(found)
            read = pieces if number >= first - CONTEXT else ()
            steps = make_steps(session, turn, read)
            for at, part in enumerate(read):
                record = _make_record(session, turn, part, numbers[at], place + at, envelope, project)
                if len(turn.types) == len(pieces) and not turn.type:
                    record |= dict(zip(("type", "type_confidence"), turn.types[at], strict=True))
                records.append({**record, "steps": steps[at]} if steps[at] else record)
                state.append("new" if is_new else "context")
                if not at:
                    parents[records[-1]["id"]] = _shorten_label(turn.parent)
            place += len(pieces)
    return batch_records(records, parents, state)


def cut_turn(turn: Turn, words: int) -> tuple[Sequence[int], tuple[str, ...], Mapping[str, int]]:
    """Return numbers and texts of a turn's pieces, and the redactions. An exported turn may say where they are."""
    pieces, found = _cut_text(turn.text, words)
    if turn.pieces and not found:
        return [number for number, _, _ in turn.pieces], tuple(turn.text[a:b] for _, a, b in turn.pieces), found
    return range(len(pieces)), pieces, found


@lru_cache(maxsize=4_096)
def _cut_text(text: str, words: int) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Redact a turn's text again, since a log's escapes can hide a secret; return its pieces and the redactions."""
    clean, found = redact(text)
    return tuple(chunk(clean, words)), found


def list_vanished(reading: DocumentReading, settings: Settings) -> list[str]:
    """List the ids of items that a source no longer holds: those its log rewound or overwrote."""
    if not reading.before:
        return []
    turns = ((session, turn) for session in reading.parsed.sessions for turn in session.turns)
    now = [pair for pair in turns if reading.fresh is None or (pair[0].id, pair[1].id) in reading.fresh]
    return sorted({*_make_ids(reading.before.values(), settings)} - {*_make_ids(now, settings)})


def list_ids(reading: DocumentReading, settings: Settings) -> list[str]:
    """List the ids of all items of a document, new or not."""
    turns = [(session, turn) for session in reading.parsed.sessions for turn in session.turns]
    return list(_make_ids(turns, settings))


def _make_ids(turns: Iterable[tuple[Session, Turn]], settings: Settings) -> Iterator[str]:
    for session, turn in turns:
        for piece in cut_turn(turn, settings.item_words)[0]:
            yield make_item_id(session, turn, piece)


def batch_records(
    records: list[Record],
    parents: Mapping[str, str | None] = MappingProxyType({}),
    state: Sequence[State] = (),
) -> ItemBatch:
    """Return the batch of item records, which are ordered by session and reading order.

    Args:
        parents: id of a turn's first item → id of the turn it answers, where the source names it.
        state: of each; all new where empty. Some context items become `again`.
    """
    out = ItemBatch(records, [], [], [], [], list(state))
    for _, group in groupby(records, key=lambda record: (record["source"], record["session"])):
        session = list(group)
        for record, language in zip(session, find_languages([record["text"] for record in session]), strict=True):
            record["language"] = language
        named = [
            _find_entities(record["text"], record["speaker"], read_said(record), record["language"])
            for record in session
        ]
        mentions = join_names(named, [record["speaker"] for record in session])
        out.texts += [
            index_text(*(record[name] for name in ("origin", "speaker", "title", "text"))) for record in session
        ]
        out.mentions += mentions
        out.links += _link_items(session, mentions, parents)
    if "context" in state:
        _mark_changed(out)
    relayed = _find_relayed(out)
    states = zip(records, out.mentions, out.state or repeat("new"), list_before(records), strict=False)
    out.facts = [
        # The rules of facts are English.
        find_facts(record, found, before, i in relayed) if state != "context" and record["language"] == ENGLISH else []
        for i, (record, found, state, before) in enumerate(states)
    ]
    return out


def _find_relayed(found: ItemBatch) -> set[int]:
    """Return the positions of an agent's notes, and of records in which an agent repeats what a tool returned."""
    relayed = {i for i, record in enumerate(found.records) if record["origin"] == "note"}
    for start, session in _split_sessions(found):
        if any(record["role"] == "tool" for record in session):
            kinds = [record["type"] or "episodic" for record in session]
            pieces = _make_pieces(session, kinds, found.mentions[start:])
            relayed |= {start + at for at in find_relayed([read_utterance(piece) for piece in pieces])}
    return relayed


@lru_cache(maxsize=4_096)  # a growing session is read with its earlier turns each time
def _find_entities(text: str, speaker: str | None, at: datetime | None, language: str) -> tuple[Entity, ...]:
    return tuple(find_entities(text, speaker, at, language))


def index_text(origin: str, speaker: str | None, heading: str | None, text: str) -> str:
    """Return the text both legs index: with the header `speaker: ` for turns and `title. ` for documents."""
    if origin == "document":
        return f"{heading}. {text}" if heading else text
    return f"{speaker}: {text}" if speaker else text


def _mark_changed(found: ItemBatch) -> None:
    """Set the state of context items whose salience or confidence the new items change to `again`."""
    kinds = _classify_all(found.records, None, None)  # by cues alone: nothing is embedded yet
    types = [record["type"] or kind for record, (kind, _) in zip(found.records, kinds, strict=True)]
    for start, session in _split_sessions(found):
        state = found.state[start : start + len(session)]
        earlier = [i for i, known in enumerate(state) if known == "context"]
        if not 0 < len(earlier) < len(state):
            continue
        pieces = _make_pieces(session, types[start:], found.mentions[start:])
        salience, confidence = judge(pieces)
        before = zip(earlier, *judge([pieces[i] for i in earlier]), strict=True)
        for i, old_salience, old_confidence in before:
            changes = salience[i].value - old_salience.value, confidence[i].value - old_confidence.value
            if max(map(abs, changes)) > OTHER:
                found.state[start + i] = "again"


def judge_items(found: ItemBatch, vectors: F32 | None, model: TypeModel | None) -> None:
    """Fill in the type, salience and confidence of every record that lacks them.

    Args:
        vectors: float32[n, d] of the published records; with None the cues alone decide the type.
    """
    context = [record for record, state in zip(found.records, found.state, strict=False) if state == "context"]
    _classify(context, None, None)
    _classify(found.remove_context().records, vectors, model)
    for start, session in _split_sessions(found):
        pieces = _make_pieces(session, [record["type"] for record in session], found.mentions[start:])
        for record, salience, confidence in zip(session, *judge(pieces), strict=True):
            if record["salience"] is None:
                salience = apply_input(salience, record["pinned"], record["priority"])
                record["salience"], record["salience_parts"] = salience.value, list(salience.parts)
            if record["confidence"] is None:
                branch = _BRANCH if record["branch_of"] else 1.0
                record["confidence"], record["vouched"] = round(confidence.value * branch, 4), confidence.source


def _split_sessions(found: ItemBatch) -> Iterator[tuple[int, list[Record]]]:
    """Yield (position of the first record, records) of each session."""
    start = 0
    for _, group in groupby(found.records, key=lambda record: (record["source"], record["session"])):
        session = list(group)
        yield start, session
        start += len(session)


def _make_pieces(
    session: Sequence[Record], types: Sequence[str], mentions: Sequence[Sequence[Entity]]
) -> list[SessionItem]:
    """Return a session's records as the salience code reads them; `types` and `mentions` may be longer."""
    turns = {turn: i for i, turn in enumerate(dict.fromkeys(record["turns"][0] for record in session))}
    return [
        SessionItem(
            record["text"],
            record["role"],
            record["origin"],
            kind,
            turns[record["turns"][0]],
            _name_keys(record, named),
            record["language"],
        )
        for record, kind, named in zip(session, types, mentions, strict=False)
    ]


def _classify(records: Sequence[Record], vectors: F32 | None, model: TypeModel | None) -> None:
    kinds = _classify_all(records, vectors, model)
    for record, (kind, certainty) in zip(records, kinds, strict=True):
        if record["type"] is None:
            record["type"], record["type_confidence"] = kind, certainty


def _classify_all(records: Sequence[Record], vectors: F32 | None, model: TypeModel | None) -> list[tuple[str, float]]:
    names = ("text", "role", "origin", "language")
    texts, roles, origins, languages = ([record[name] for record in records] for name in names)
    return classify_all(texts, roles, origins, vectors, model, languages)


def _name_keys(record: Record, mentions: Sequence[Entity]) -> tuple[str, ...]:
    """Return the keys of an item's entities without its speaker, whom each of the speaker's turns names."""
    speaker = " ".join((record["speaker"] or "").split()).lower()
    return tuple(entity.key for entity in mentions if (entity.kind, entity.key) != ("person", speaker))


# ---------------------------------------------------------------- records


def make_item_id(session: Session, turn: Turn, piece: int) -> str:
    """Return the id of an item. A turn with a unique id is the same item in every session that repeats it."""
    return hash_parts(session.source, *(() if turn.unique else (session.id,)), turn.id, str(piece))


def _make_record(
    session: Session, turn: Turn, text: str, piece: int, place: int, envelope: Envelope, found: SessionProject
) -> Record:
    found = SessionProject(turn.project) if turn.project and not envelope.project else found
    project = str(_shorten_label(found.name or NO_PROJECT))
    speaker, title = _clean(turn.speaker), _clean(turn.title or session.title)
    acl = sorted({*envelope.acl, *turn.acl})
    priority = turn.priority if turn.priority is not None else 1.0
    # The time of a file is not the turn's own: a copy of the file changes nothing.
    when = turn.time.isoformat() if turn.time and turn.time_quality != "file" else ""
    rewound = ("rewound",) if session.branch_of else ()
    overrides = (str(turn.pinned), str(priority), str(turn.confidence), turn.type or "", ",".join(acl), *rewound)
    return {
        "id": make_item_id(session, turn, piece),
        "source": session.source,
        "path": envelope.path,
        "document": envelope.document,
        "session": _shorten_label(session.id),
        "branch_of": _shorten_label(session.branch_of),
        "turns": [_shorten_label(turn.id)],
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
        "workspace": found.workspace,
        "time": _to_seconds(turn.time),
        "time_quality": turn.time_quality,
        "t_valid": _to_seconds(turn.time or envelope.accepted),
        "t_invalid": None,
        "t_ingested": envelope.accepted,
        "salience": None,
        "salience_parts": None,
        "confidence": turn.confidence,
        "vouched": "given" if turn.confidence is not None else None,
        "priority": priority,
        "pinned": turn.pinned,
        "acl": acl,
        # Without the session: a resumed log repeats a turn in a new session, which changes nothing.
        "content": hash_parts(
            text,
            turn.role,
            turn.origin,
            turn.speaker or "",
            when,
            project,
            turn.title or "",
            *overrides,
            *rewound,
            *hash_silent(turn),
        ),
    }


@lru_cache(maxsize=4_096)
def _clean(name: str | None) -> str | None:
    """Redact a speaker or a title: a log may take a title from the first prompt."""
    return _shorten_label(name and redact(name)[0])


def _shorten_label(name: str | None) -> str | None:
    """Shorten a name, which every item of a turn repeats; a digest keeps long names distinct."""
    return name if name is None or len(name) <= _LABEL else f"{name[: _LABEL - 17]}…{hash_parts(name)}"


def _to_seconds(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None


def _link_items(
    session: Sequence[Record], mentions: Sequence[Sequence[Entity]], parents: Mapping[str, str | None]
) -> list[list[tuple[int, int]]]:
    """Return each item's links: to the item it answers, and to the last ones naming the same path or error."""
    often = Counter(entity[:2] for found in mentions for entity in found if entity.kind in _SHARED)
    last_piece: dict[str, str] = {}  # of a turn
    last_named: dict[tuple[str, str], str] = {}
    reply, same = (LINKS.index(kind) for kind in LINKS)
    out: list[list[tuple[int, int]]] = []
    before: Record | None = None
    for record, found in zip(session, mentions, strict=True):
        answered = None
        if not record["piece"] and before is not None:
            is_other = before["speaker"] != record["speaker"] or before["role"] != record["role"]
            parent = parents.get(record["id"])
            if parent and parent in last_piece and parent != before["turns"][0]:
                answered = last_piece[parent]
            elif is_other and before["text"].rstrip().endswith("?"):
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
