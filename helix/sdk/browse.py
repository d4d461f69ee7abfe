"""Views of a store without a question: an item, a session, the timeline, an entity's facts, an item's surroundings.

They return plain data, the same on every surface, from a snapshot as the caller may see it (`Snapshot.seen_by`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from helix.native.arrays import explain_damage
from helix.question.build import hash_mentions
from helix.recipes.common import describe_replacement, format_time, ids
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import LINKS, NO_TIME
from helix.stages.replaced import add_replacements
from helix.stages.time_limits import TimeLimits, explain_empty
from helix.text.relations import describe_fact
from helix.types import I64, ROLES, TYPES, U64, Bool
from helix.util.undated import is_undated
from helix.work.voices import find_agent, list_voices

FIRST_WORDS: Final = 240
"""Characters of a session's first item in a timeline."""

_RAREST: Final = 12  # entities around an item
_NEWEST: Final = 3  # other items of each entity
_SPEAKERS: Final = 6  # of a session in a timeline


def item(snap: Snapshot, identity: str) -> dict[str, Any] | None:
    """Return an item as it is stored, with its title and neighbours; None if no visible item has the id."""
    row = snap.find(identity)
    return None if row is None else _read_stored(snap, np.array([row]))[0]


def _read_stored(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    """Read rows as they are stored: the fields of a recalled item that need no question, and more."""
    columns, found = snap.columns, []
    now = int(datetime.now(UTC).timestamp())
    entries = add_replacements(snap.text(rows), rows, snap, now)
    neighbours = zip(*(_item_ids(snap, way[rows]) for way in (columns.previous, columns.next)), strict=True)
    voices = list_voices(snap, rows, entries)
    for row, entry, voice, (previous, following) in zip(rows.tolist(), entries, voices, neighbours, strict=True):
        found.append(
            {
                "id": entry["id"],
                "type": TYPES[columns.type[row]],
                "role": ROLES[columns.role[row]],
                "text": entry["text"],
                "session": entry["session"],
                "turns": list(entry["turns"]),
                "speaker": entry["speaker"],
                "voice": voice,
                "time": format_time(entry["time"]),
                "time_quality": entry["time_quality"],
                "project": entry["project"],
                "source": entry["path"],
                "title": entry["title"],
                "salience": _round(columns.salience[row]),
                "confidence": _round(columns.confidence[row]),
                "vouched": entry["vouched"],
                "tokens": int(columns.tokens[row]),
                "previous": previous,
                "next": following,
                "replaced_by": describe_replacement(entry["replaced"]),
            }
        )
    return found


def _item_ids(snap: Snapshot, rows: Any) -> list[str | None]:
    """Return the item ids of rows; None for −1."""
    return [None if row < 0 else f"{int(snap.columns.key[row]):016x}" for row in rows.tolist()]


def _round(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def session(
    snap: Snapshot,
    name: str,
    *,
    as_of: datetime | None = None,
    ingested_as_of: datetime | None = None,
    offset: int = 0,
    limit: int = 200,
) -> dict[str, Any] | None:
    """Return a page of a session in reading order; None if the caller can see none of it.

    If two formats have a session of that name, one follows the other.
    """
    codes = snap.catalog.sessions_named(name)
    if not codes:
        return None
    of_session = np.isin(snap.columns.session, codes)
    whole, snap = snap, snap.known_at(as_of, ingested_as_of)
    columns = snap.columns
    rows = np.flatnonzero(snap.alive & of_session)
    rows = rows[np.lexsort((columns.ord[rows], columns.session[rows]))]
    some = rows if len(rows) else np.flatnonzero(whole.alive & of_session)
    limits = TimeLimits(as_of, ingested_as_of)
    times = columns.time[rows]
    known = times[times != NO_TIME]
    items = _read_stored(snap, rows[offset : offset + limit])
    return {
        "session": name,
        "project": snap.projects[int(columns.project[some[0]])],
        "began": format_seconds(known.min()) if len(known) else None,
        "ended": format_seconds(known.max()) if len(known) else None,
        "total": len(rows),
        "offset": offset,
        "items": items,
        "notice": None if len(rows) else explain_empty(limits, whole, whole.alive & of_session),
    }


def find_sessions(snap: Snapshot, beginning: str) -> list[str]:
    """List the sessions of a name; without one of that name, those whose names begin so."""
    rows = _first_rows(snap)
    names = [entry["session"] for entry in snap.text(rows[rows >= 0])]
    return [beginning] if beginning in names else sorted(name for name in names if name.startswith(beginning))


def compare_generations(before: Snapshot, after: Snapshot, limit: int) -> dict[str, Any]:
    """Return the items that one generation has and the other lacks: their number, and the newest `limit` of them."""
    found: dict[str, Any] = {"before": before.generation, "after": after.generation}
    for name, snap, other in (("added", after, before), ("removed", before, after)):
        rows = np.flatnonzero(snap.alive)
        rows = rows[~np.isin(snap.columns.key[rows], other.columns.key[other.alive])]
        newest = rows[np.argsort(-snap.columns.place[rows].astype(np.float64), kind="stable")][:limit]
        found[name] = {"total": len(rows), "items": _read_stored(snap, newest)}
    return found


def timeline(
    snap: Snapshot,
    *,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: datetime | None = None,
    ingested_as_of: datetime | None = None,
    offset: int = 0,
    limit: int = 50,
) -> dict[str, Any]:
    """List sessions, the last ended first; sessions without a time of their own come last."""
    whole, snap = snap, snap.known_at(as_of, ingested_as_of)
    codes, first = order_sessions(snap, project, since, until)
    page = codes[offset : offset + limit]
    sessions, limits = describe_sessions(snap, page, first[page]), TimeLimits(as_of, ingested_as_of, since, until)
    notice = None if len(codes) else explain_empty(limits, whole, select_project(whole, project))
    return {"total": len(codes), "offset": offset, "sessions": sessions, "notice": notice}


def order_sessions(
    snap: Snapshot, project: str | None, since: datetime | None = None, until: datetime | None = None
) -> tuple[I64, I64]:
    """Return (codes of sessions, as a timeline orders them, int64[n]; first row of every session, −1: none)."""
    began, ended = snap.catalog.session_spans
    first = _first_rows(snap)
    chosen = (first >= 0) & select_project(snap, project)[first]
    for bound, side, outside in ((since, ended, np.less), (until, began, np.greater)):
        if bound is not None:
            chosen &= ~outside(side, int(bound.timestamp())) & (ended != NO_TIME)
    codes = np.flatnonzero(chosen)
    placed = snap.columns.place[first[codes]]  # undated ones in the order in which they came
    newest = (snap.sessions[codes], *(-one.astype(np.float64) for one in (placed, began[codes], ended[codes])))
    return codes[np.lexsort(newest)], first


def select_project(snap: Snapshot, project: str | None) -> Bool:
    """Return the live rows of a project, of all without one: bool[rows]."""
    if project is None:
        return snap.alive
    code = snap.projects.index(project) if project in snap.projects else -2
    return np.asarray(snap.alive & (snap.columns.project == code))


def _first_rows(snap: Snapshot) -> I64:
    """Return the first live row of each session, −1 for none: int64[sessions]."""
    rows = np.flatnonzero(snap.alive & (snap.columns.previous < 0))
    out = np.full(len(snap.sessions), -1, np.int64)
    out[snap.columns.session[rows]] = rows
    return out


def describe_sessions(snap: Snapshot, codes: I64, first: I64) -> list[dict[str, Any]]:
    """Return sessions as a timeline shows them."""
    columns = snap.columns
    rows = np.flatnonzero(snap.alive & np.isin(columns.session, codes))
    kinds: dict[int, Counter[str]] = {code: Counter() for code in codes.tolist()}
    voices: dict[int, Counter[str]] = {code: Counter() for code in codes.tolist()}
    of, type_, speaker = (column[rows].tolist() for column in (columns.session, columns.type, columns.speaker))
    for code, kind, voice in zip(of, type_, speaker, strict=True):
        kinds[code][TYPES[kind]] += 1
        if voice >= 0:
            voices[code][snap.speakers[voice]] += 1
    began, ended = snap.catalog.session_spans
    found = []
    for code, entry in zip(codes.tolist(), snap.text(first), strict=True):
        words = " ".join(entry["text"].split())
        found.append(
            {
                "session": entry["session"],
                "project": entry["project"],
                "title": entry["title"],
                "source": entry["path"],
                "agent": find_agent(int(snap.sessions[code]), entry["session"]) or None,
                "began": format_seconds(began[code]),
                "ended": format_seconds(ended[code]),
                "time_quality": entry["time_quality"],
                "file_time": format_time(entry["time"]) if entry["time_quality"] == "file" else None,
                "items": kinds[code].total(),
                "types": dict(kinds[code].most_common()),
                "speakers": [name for name, _ in voices[code].most_common(_SPEAKERS)],
                "first": words if len(words) <= FIRST_WORDS else words[: FIRST_WORDS - 1] + "…",
            }
        )
    return found


def format_seconds(seconds: Any) -> str | None:
    """Format seconds after 1970 as ISO 8601, UTC; None for no time, and for the place of an undated item.

    Raises:
        StoreError: no calendar has the time.
    """
    if int(seconds) == NO_TIME or is_undated(int(seconds)):
        return None
    try:
        return format_time(datetime.fromtimestamp(int(seconds), UTC))
    except (ValueError, OverflowError, OSError):
        raise explain_damage(f"an item is of {int(seconds)} seconds after 1970") from None


def around(snap: Snapshot, identity: str, *, before: int = 3, after: int = 3) -> dict[str, Any] | None:
    """Return an item with its neighbours in reading order; None if no visible item has the id."""
    row = snap.find(identity)
    if row is None:
        return None
    earlier, later = _walk(snap.columns.previous, row, before), _walk(snap.columns.next, row, after)
    items = _read_stored(snap, np.array([*reversed(earlier), row, *later], np.int64))
    return {"session": items[0]["session"], "at": len(earlier), "items": items}


def _walk(way: Any, row: int, steps: int) -> list[int]:
    found: list[int] = []
    while len(found) < steps and (row := int(way[row])) >= 0:
        found.append(row)
    return found


def facts(
    snap: Snapshot,
    entity: str,
    *,
    at: datetime | None = None,
    as_of: datetime | None = None,
    ingested_as_of: datetime | None = None,
    offset: int = 0,
    limit: int = 100,
) -> dict[str, Any]:
    """List the facts about an entity, the newest first, each with the time in which it holds.

    Args:
        entity: a name in any case, as in a question.
        at: the moment for `holds`; None: that of `as_of`, else now.
    """
    now = at or as_of or datetime.now(UTC)
    hashes = hash_mentions("", [entity], now)
    whole, snap = snap, snap.known_at(as_of, ingested_as_of)
    about, known = _find_facts(snap, entity, hashes), snap.facts.columns
    about = about[np.lexsort((about, -known.t_valid[about].astype(np.float64)))]
    holds = snap.facts.holding(int(now.timestamp()))
    page = about[offset : offset + limit]
    found = []
    identities = ids(known.row[page], snap)
    for fact, identity, fields in zip(page.tolist(), identities, snap.facts.texts(page), strict=True):
        found.append(
            {
                "text": describe_fact(**fields),
                **fields,
                "t_valid": format_seconds(known.t_valid[fact]),
                "t_invalid": format_seconds(snap.facts.ends[fact]),
                "holds": bool(holds[fact]),
                "confidence": _round(known.confidence[fact]),
                "item": identity,
            }
        )
    notice = None
    if not len(about):
        rows = np.zeros(whole.rows, bool)
        rows[whole.facts.columns.row[_find_facts(whole, entity, hashes)]] = True
        notice = explain_empty(TimeLimits(as_of, ingested_as_of), whole, rows, "fact")
    return {"entity": entity, "total": len(about), "offset": offset, "facts": found, "notice": notice}


def _find_facts(snap: Snapshot, entity: str, hashes: U64) -> I64:
    """Return the facts about an entity, ascending. A subject may be no entity, such as "timeout"."""
    known = snap.facts.columns
    about = np.flatnonzero(np.isin(known.subject_entity, hashes) | np.isin(known.object_entity, hashes))
    return np.union1d(about, snap.facts.naming(entity.strip()))


def neighbours(snap: Snapshot, identity: str) -> dict[str, Any] | None:
    """Return an item's surroundings as nodes and edges; None if no visible item has the id.

    These are its neighbours, items it answers or shares a file or an error with, the rarest entities it names, other
    items that name them, and the facts it states.
    """
    row = snap.find(identity)
    if row is None:
        return None
    columns, edges = snap.columns, list[dict[str, Any]]()
    rows: dict[int, None] = {row: None}  # in first-seen order

    def connect(one: str, other: str, kind: str) -> None:
        edges.append({"from": one, "to": other, "kind": kind})

    for way, forwards in ((columns.previous, False), (columns.next, True)):
        if (neighbour := int(way[row])) >= 0:
            rows[neighbour] = None
            here, there = _key(snap, row), _key(snap, neighbour)
            connect(*((here, there) if forwards else (there, here)), "next")
    _, linked, kinds = snap.graph.links_of(np.array([row]))
    for other, kind in zip(linked.tolist(), kinds.tolist(), strict=True):
        rows[other] = None
        connect(_key(snap, row), _key(snap, other), LINKS[kind])
    _, named = snap.graph.entities_of(np.array([row]))
    named = named[np.lexsort((named, snap.graph.count_items(named)))[:_RAREST]]
    at, others = snap.graph.rows_of(named)
    for i, entity in enumerate(named.tolist()):
        connect(_key(snap, row), f"{entity:016x}", "mentions")
        also = others[at == i].astype(np.int64)
        also = also[also != row]
        for other in also[np.lexsort((also, -columns.place[also].astype(np.float64)))][:_NEWEST].tolist():
            rows[other] = None
            connect(_key(snap, other), f"{entity:016x}", "mentions")
    facts = snap.facts.columns
    stated = np.flatnonzero(facts.row == row)
    subjects, objects = facts.subject_entity[stated].tolist(), facts.object_entity[stated].tolist()
    labels: dict[int, str] = {}  # names of the facts' ends, which items need not mention
    for subject, object_, fields in zip(subjects, objects, snap.facts.texts(stated), strict=True):
        labels |= {subject: fields["subject"], object_: fields["object"]}
        if subject and object_:
            connect(f"{subject:016x}", f"{object_:016x}", fields["relation"])
        if subject and subject not in named:
            connect(_key(snap, row), f"{subject:016x}", "states")
    entities = np.unique(np.array([*named.tolist(), *subjects, *objects], np.uint64))
    return {
        "item": _key(snap, row),
        "nodes": [*_item_nodes(snap, [*rows]), *_entity_nodes(snap, entities[entities != 0], labels)],
        "edges": edges,
    }


def _key(snap: Snapshot, row: int) -> str:
    return f"{int(snap.columns.key[row]):016x}"


def _item_nodes(snap: Snapshot, rows: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": stored["id"],
            "kind": "item",
            "label": stored["text"][:FIRST_WORDS],
            **{name: stored[name] for name in ("type", "session", "speaker", "time", "replaced_by")},
        }
        for stored in _read_stored(snap, np.array(rows, np.int64))
    ]


def _entity_nodes(snap: Snapshot, entities: U64, labels: Mapping[int, str]) -> list[dict[str, Any]]:
    names, counts = snap.facts.entity_names(entities), snap.graph.count_items(entities).tolist()
    found = []
    for entity, count in zip(entities.tolist(), counts, strict=True):
        kind, name = names.get(entity, ("name", labels.get(entity, f"{entity:016x}")))
        found.append({"id": f"{entity:016x}", "kind": "entity", "label": name, "entity": kind, "items": count})
    return found
