"""What a store holds beside the answer to a question: an item, a session, sessions over time, what is known about an
entity, what an item is connected with. Plain data, the same on every surface.

Every function reads a snapshot as its asker may see it (`Snapshot.seen_by`): what is hidden is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from helix.native.arrays import explain_damage
from helix.question.build import hash_mentions
from helix.recipes.common import format_time, ids
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import LINKS, NO_TIME
from helix.types import I64, ROLES, TYPES, U64

FIRST_WORDS: Final = 240
"""Characters of a session's first item that a timeline shows."""

_RARE: Final = 12  # entities around an item: the rarest say most of it
_EACH: Final = 3  # other items that name one of them: the newest
_SPEAKERS: Final = 6  # of a session, that a timeline names


def item(snap: Snapshot, identity: str) -> dict[str, Any] | None:
    """One item as it is stored, with its title and its neighbours in the session; None where there is none."""
    row = snap.find(identity)
    return None if row is None else _stored(snap, np.array([row]))[0]


def _stored(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    """Rows as they are stored: the fields of a recalled item that need no question, and more."""
    columns, found = snap.columns, []
    beside = zip(*(_neighbour(snap, way[rows]) for way in (columns.previous, columns.next)), strict=True)
    for row, entry, (previous, following) in zip(rows.tolist(), snap.text(rows), beside, strict=True):
        found.append(
            {
                "id": entry["id"],
                "type": TYPES[columns.type[row]],
                "role": ROLES[columns.role[row]],
                "text": entry["text"],
                "session": entry["session"],
                "turns": list(entry["turns"]),
                "speaker": entry["speaker"],
                "time": format_time(entry["time"]),
                "project": entry["project"],
                "source": entry["path"],
                "title": entry["title"],
                "salience": _round(columns.salience[row]),
                "confidence": _round(columns.confidence[row]),
                "vouched": entry["vouched"],
                "tokens": int(columns.tokens[row]),
                "previous": previous,
                "next": following,
            }
        )
    return found


def _neighbour(snap: Snapshot, rows: Any) -> list[str | None]:
    """Item ids of rows; None of −1."""
    return [None if row < 0 else f"{int(snap.columns.key[row]):016x}" for row in rows.tolist()]


def _round(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def session(snap: Snapshot, name: str, *, offset: int = 0, limit: int = 200) -> dict[str, Any] | None:
    """A session in reading order, some of its items at a time; None where there is none of that name.

    Two formats may each have a session of a name: then one follows the other.
    """
    codes = snap.catalog.sessions_named(name)
    if not codes:
        return None
    columns = snap.columns
    rows = np.flatnonzero(snap.alive & np.isin(columns.session, codes))
    rows = rows[np.lexsort((columns.ord[rows], columns.session[rows]))]
    times = columns.time[rows]
    known = times[times != NO_TIME]
    items = _stored(snap, rows[offset : offset + limit])
    return {
        "session": name,
        "project": snap.projects[int(columns.project[rows[0]])],
        "began": _utc(known.min()) if len(known) else None,
        "ended": _utc(known.max()) if len(known) else None,
        "total": len(rows),
        "offset": offset,
        "items": items,
    }


def timeline(
    snap: Snapshot,
    *,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    offset: int = 0,
    limit: int = 50,
) -> dict[str, Any]:
    """Sessions, the one that ended last first; those without a time come after all that have one."""
    began, ended = snap.catalog.session_spans
    first = _first_rows(snap)
    chosen = first >= 0
    if project is not None:
        chosen &= snap.columns.project[first] == (snap.projects.index(project) if project in snap.projects else -2)
    for bound, side, outside in ((since, ended, np.less), (until, began, np.greater)):
        if bound is not None:
            chosen &= ~outside(side, int(bound.timestamp())) & (ended != NO_TIME)
    codes = np.flatnonzero(chosen)
    newest = (snap.sessions[codes], *(-one[codes].astype(np.float64) for one in (began, ended)))
    codes = codes[np.lexsort(newest)]
    shown = codes[offset : offset + limit]
    return {"total": len(codes), "offset": offset, "sessions": _told(snap, shown, first[shown])}


def _first_rows(snap: Snapshot) -> I64:
    """int64[sessions]: the first live row of each; −1 where there is none."""
    rows = np.flatnonzero(snap.alive & (snap.columns.previous < 0))
    out = np.full(len(snap.sessions), -1, np.int64)
    out[snap.columns.session[rows]] = rows
    return out


def _told(snap: Snapshot, codes: I64, first: I64) -> list[dict[str, Any]]:
    """Sessions as a timeline shows them."""
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
                "began": _utc(began[code]),
                "ended": _utc(ended[code]),
                "items": kinds[code].total(),
                "types": dict(kinds[code].most_common()),
                "speakers": [name for name, _ in voices[code].most_common(_SPEAKERS)],
                "first": words if len(words) <= FIRST_WORDS else words[: FIRST_WORDS - 1] + "…",
            }
        )
    return found


def _utc(seconds: Any) -> str | None:
    if int(seconds) == NO_TIME:
        return None
    try:
        return format_time(datetime.fromtimestamp(int(seconds), UTC))
    except (ValueError, OverflowError, OSError):
        raise explain_damage(f"an item is of {int(seconds)} seconds after 1970") from None


def around(snap: Snapshot, identity: str, *, before: int = 3, after: int = 3) -> dict[str, Any] | None:
    """An item with those before and after it in its session, in reading order; None where there is none."""
    row = snap.find(identity)
    if row is None:
        return None
    earlier, later = _walk(snap.columns.previous, row, before), _walk(snap.columns.next, row, after)
    items = _stored(snap, np.array([*reversed(earlier), row, *later], np.int64))
    return {"session": items[0]["session"], "at": len(earlier), "items": items}


def _walk(way: Any, row: int, steps: int) -> list[int]:
    found: list[int] = []
    while len(found) < steps and (row := int(way[row])) >= 0:
        found.append(row)
    return found


def facts(
    snap: Snapshot, entity: str, *, at: datetime | None = None, offset: int = 0, limit: int = 100
) -> dict[str, Any]:
    """What is stated about an entity, the newest first, and from when to when each holds.

    Args:
        entity: a name, in any case, as a question would say it.
        at: the moment at which a fact holds or not; now where not given.
    """
    now = at or datetime.now(UTC)
    hashes = hash_mentions("", [entity], now)
    known = snap.facts.columns
    about = np.flatnonzero(np.isin(known.subject_entity, hashes) | np.isin(known.object_entity, hashes))
    about = np.union1d(about, snap.facts.naming(entity.strip()))  # "timeout" is no entity, and things are said of it
    about = about[np.lexsort((about, -known.t_valid[about].astype(np.float64)))]
    holds = snap.facts.holding(int(now.timestamp()))
    shown = about[offset : offset + limit]
    found = []
    identities = ids(known.row[shown], snap)
    for fact, identity, told in zip(shown.tolist(), identities, snap.facts.texts(shown), strict=True):
        found.append(
            {
                **told,
                "t_valid": _utc(known.t_valid[fact]),
                "t_invalid": _utc(snap.facts.ends[fact]),
                "holds": bool(holds[fact]),
                "confidence": _round(known.confidence[fact]),
                "item": identity,
            }
        )
    return {"entity": entity, "total": len(about), "offset": offset, "facts": found}


def neighbours(snap: Snapshot, identity: str) -> dict[str, Any] | None:
    """What an item is connected with, as nodes and edges: the turns beside it, what it answers or shares a file or an
    error with, the rarest entities it names, others that name them, and the facts it states. None where there is none.
    """
    row = snap.find(identity)
    if row is None:
        return None
    columns, edges = snap.columns, list[dict[str, Any]]()
    rows: dict[int, None] = {row: None}  # in the order they are met

    def joined(one: str, other: str, kind: str) -> None:
        edges.append({"from": one, "to": other, "kind": kind})

    for way, forwards in ((columns.previous, False), (columns.next, True)):
        if (beside := int(way[row])) >= 0:
            rows[beside] = None
            here, there = _key(snap, row), _key(snap, beside)
            joined(*((here, there) if forwards else (there, here)), "next")
    _, linked, kinds = snap.graph.links_of(np.array([row]))
    for other, kind in zip(linked.tolist(), kinds.tolist(), strict=True):
        rows[other] = None
        joined(_key(snap, row), _key(snap, other), LINKS[kind])
    _, named = snap.graph.entities_of(np.array([row]))
    named = named[np.lexsort((named, snap.graph.count_items(named)))[:_RARE]]
    at, others = snap.graph.rows_of(named)
    for i, entity in enumerate(named.tolist()):
        joined(_key(snap, row), f"{entity:016x}", "mentions")
        also = others[at == i].astype(np.int64)
        also = also[also != row]
        for other in also[np.lexsort((also, -columns.time[also].astype(np.float64)))][:_EACH].tolist():
            rows[other] = None
            joined(_key(snap, other), f"{entity:016x}", "mentions")
    facts = snap.facts.columns
    stated = np.flatnonzero(facts.row == row)
    subjects, objects = facts.subject_entity[stated].tolist(), facts.object_entity[stated].tolist()
    said: dict[int, str] = {}  # what facts call their ends: not all of them are names that stand in an item
    for subject, object_, told in zip(subjects, objects, snap.facts.texts(stated), strict=True):
        said |= {subject: told["subject"], object_: told["object"]}
        if subject and object_:
            joined(f"{subject:016x}", f"{object_:016x}", told["relation"])
        if subject and subject not in named:
            joined(_key(snap, row), f"{subject:016x}", "states")
    entities = np.unique(np.array([*named.tolist(), *subjects, *objects], np.uint64))
    return {
        "item": _key(snap, row),
        "nodes": [*_item_nodes(snap, [*rows]), *_entity_nodes(snap, entities[entities != 0], said)],
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
            **{name: stored[name] for name in ("type", "session", "speaker", "time")},
        }
        for stored in _stored(snap, np.array(rows, np.int64))
    ]


def _entity_nodes(snap: Snapshot, entities: U64, said: Mapping[int, str]) -> list[dict[str, Any]]:
    names, counts = snap.facts.entity_names(entities), snap.graph.count_items(entities).tolist()
    found = []
    for entity, count in zip(entities.tolist(), counts, strict=True):
        kind, name = names.get(entity, ("name", said.get(entity, f"{entity:016x}")))
        found.append({"id": f"{entity:016x}", "kind": "entity", "label": name, "entity": kind, "items": count})
    return found


def choices(snap: Snapshot) -> dict[str, Any]:
    """What there is to filter by: projects, types and speakers with their items, and the time it spans."""
    columns = snap.columns
    time = columns.time[snap.alive]
    time = time[time != NO_TIME]

    def counted(codes: Any, names: Mapping[int, str]) -> dict[str, int]:
        found = np.bincount(codes[snap.alive].astype(np.int64) + 1, minlength=1)[1:]
        order = np.argsort(-found, kind="stable")
        return {names[code]: int(found[code]) for code in order.tolist() if found[code]}

    return {
        "snapshot": snap.generation,
        "items": snap.live,
        "sessions": int((snap.catalog.session_size > 0).sum()),
        "first": _utc(time.min()) if len(time) else None,
        "last": _utc(time.max()) if len(time) else None,
        "projects": counted(columns.project, dict(enumerate(snap.projects))),
        "types": counted(columns.type, dict(enumerate(TYPES))),
        "speakers": counted(columns.speaker, dict(enumerate(snap.speakers))),
    }
