"""Tracks of a subject: what held when, one track a slot of facts or a topic of decisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from helix.sdk.browse import format_seconds
from helix.sdk.decisions.entries import EntryWriter
from helix.sdk.decisions.listing import Candidate, EntryLister
from helix.sdk.decisions.rejections import list_rejections
from helix.sdk.decisions.topics import REJECTING, TopicBoard
from helix.sdk.entities.board import Sight
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.text.relations import describe_fact, is_plural, read_relations
from helix.types import I64, U64

MOST_READ: Final = 100
"""Decisions whose sentence is read, the newest; and ten times as many facts."""

MOST_NAMED: Final = 1_000
"""Topics whose names are read, the newest."""

MOST_TRACKS: Final = 60
MOST_SPANS: Final = 40


def find_tracks(sight: Sight, at: int, names: Sequence[str], keys: U64, about: I64, rows: I64) -> list[dict[str, Any]]:
    """Return the tracks of a subject, the last changed first; the spans of each in the order of time.

    Args:
        at: seconds, the moment for `holds`.
        names: of the subject; of a file the ends of its path that items write.
        keys: hashes of the subject as an entity, ascending.
        about: facts about it.
        rows: rows that name it.
    """
    writer = EntryWriter(TopicBoard(sight.seen, at, sight.project))
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
    tracks = [*_list_decided(writer, about, pattern, rows), *_list_rejected(writer, pattern)]
    said = {(span["item"], _fold(span["value"])) for track in tracks for span in track["spans"]}
    tracks += _list_facts(sight.seen, at, about, names, keys, said)
    for track in tracks:
        track["spans"] = sorted(track["spans"], key=_order)[-MOST_SPANS:]
    return sorted(tracks, key=lambda track: _order(track["spans"][-1]), reverse=True)[:MOST_TRACKS]


def _fold(value: str | None) -> str:
    return " ".join((value or "").lower().split())


def _order(span: dict[str, Any]) -> tuple[bool, str, str, str]:
    """Order spans by their beginning, else their end; those that still hold come after others of one moment."""
    return span["holds"], span["since"] or span["until"] or "", span["until"] or "~", span["item"] or ""


def find_about(sight: Sight, name: str, keys: U64) -> I64:
    """Return the facts about a subject, ascending, of the rows that count."""
    facts = sight.seen.facts
    known = facts.columns
    about = np.flatnonzero(np.isin(known.subject_entity, keys) | np.isin(known.object_entity, keys))
    about = np.union1d(about, facts.naming(name))
    return about[sight.board.mask[known.row[about]]]


# ---------------------------------------------------------------- decisions


def _list_decided(writer: EntryWriter, about: I64, names: re.Pattern[str], rows: I64) -> list[dict[str, Any]]:
    """Return a track for each decision about a subject, with all that it replaced."""
    lister = EntryLister(writer, None)
    found = lister.find_candidates()
    topics = _find_topics(writer, about) | _find_named_topics(writer, found, names)
    candidates = _choose_candidates(found, topics, rows)
    tracks = []
    for entry in lister.list_entries(candidates):
        parts = [entry, *entry["replaced"]]
        said = (entry["topic"], entry["text"], *(part["value"] for part in parts))
        if any(text and names.search(text) for text in said):
            spans = [_write_span(part, part is entry, "decision") for part in parts]
            tracks.append({"topic": entry["topic"] or "decision", "spans": spans})
    return tracks


def _find_topics(writer: EntryWriter, about: I64) -> frozenset[int]:
    """Return the topics that have a slot of facts about a subject."""
    board = writer.board
    known, first = board.facts.columns, board.topics.first
    own = np.flatnonzero(np.isin(board.facts.number, about))
    by_slot = np.isin(known.group[first], known.group[own]) | np.isin(known.family[first], known.family[own])
    return frozenset(np.flatnonzero(by_slot).tolist())


def _find_named_topics(writer: EntryWriter, candidates: Sequence[Candidate], names: re.Pattern[str]) -> frozenset[int]:
    """Return the topics, of the newest `MOST_NAMED`, whose whole name is the subject's, such as "CI"."""
    topics = [one.topic for one in candidates if one.topic >= 0][:MOST_NAMED]
    facts = writer.board.topics.first[topics].tolist()
    writer.read_facts(facts)
    writer.read_items(writer.board.facts.columns.row[facts].tolist())
    titles = [writer.name_topic(fact) for fact in facts]
    return frozenset(topic for topic, title in zip(topics, titles, strict=True) if title and names.fullmatch(title))


def _choose_candidates(candidates: Sequence[Candidate], topics: frozenset[int], rows: I64) -> list[Candidate]:
    """Return the candidates that may be about a subject: of its topics, or an item that names it."""
    named = frozenset(rows.tolist())
    chosen = [one for one in candidates if one.topic in topics or one.row in named]
    return sorted(chosen, key=lambda one: one.topic not in topics)[:MOST_READ]


def _list_rejected(writer: EntryWriter, names: re.Pattern[str]) -> list[dict[str, Any]]:
    """Return a track for each thing that was rejected, if it is the subject or its sentence names that."""
    tracks = []
    for entry in list_rejections(writer):
        if names.search(entry["what"]) or names.search(entry["text"]):
            part = {**entry, "value": entry["what"], "since": entry["date"]}
            tracks.append({"topic": "rejected", "spans": [_write_span(part, True, "rejected")]})
    return tracks


def _write_span(part: dict[str, Any], holds: bool, kind: str) -> dict[str, Any]:
    fields = {field: part[field] for field in ("value", "text", "since", "by", "item", "session", "turns")}
    return {**fields, "until": part.get("until"), "holds": holds, "kind": kind}


# ---------------------------------------------------------------- facts


def _list_facts(
    snap: Snapshot, at: int, about: I64, names: Sequence[str], keys: U64, said: set[tuple[str | None, str]]
) -> list[dict[str, Any]]:
    """Return a track for each slot of facts, without what other tracks say."""
    facts, known = snap.facts, snap.facts.columns
    slots = np.unique(known.group[about[known.functional[about]]])
    chosen = np.union1d(about, np.flatnonzero(np.isin(known.group, slots)))
    chosen = chosen[(known.t_valid[chosen] <= at) & ~known.closes[chosen]]
    chosen = chosen[np.lexsort((chosen, known.t_valid[chosen]))][-10 * MOST_READ :]
    holds, words = facts.holding(at), dict(zip(chosen.tolist(), facts.texts(chosen), strict=True))
    cited = dict(zip(chosen.tolist(), snap.text(known.row[chosen]), strict=True))
    folded, by_slot = frozenset(map(_fold, names)), dict[int, list[int]]()
    for fact, slot in zip(chosen.tolist(), known.group[chosen].tolist(), strict=True):
        by_slot.setdefault(slot, []).append(fact)
    tracks = []
    for own in by_slot.values():
        spans: list[dict[str, Any]] = []
        for fact in own:
            if (cited[fact]["id"], _fold(words[fact]["object"])) not in said:
                span = _write_fact(words[fact], cited[fact], int(known.t_valid[fact]), int(facts.ends[fact]), at)
                spans.append({**span, "holds": bool(holds[fact])})
        if merged := _merge_spans(spans):
            subject = known.subject_entity[own[-1]]
            tracks.append(
                {
                    "topic": _name_slot(words[own[-1]], subject in keys or _fold(words[own[-1]]["subject"]) in folded),
                    "spans": merged,
                }
            )
    return tracks


def _write_fact(words: dict[str, Any], item: dict[str, Any], since: int, until: int, at: int) -> dict[str, Any]:
    """Return a fact as a span, without `holds`."""
    return {
        "value": words["object"] or None,
        "text": describe_fact(**words),
        "since": format_seconds(since),
        "until": None if until == NO_TIME or until > at else format_seconds(until),
        "by": item["speaker"] or item["role"],
        "item": item["id"],
        "session": item["session"],
        "turns": list(item["turns"]),
        "kind": "rejected" if words["relation"] in REJECTING else "fact",
    }


def _merge_spans(spans: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join spans in a row that have one value: the first says it, the last how long it holds."""
    merged: list[dict[str, Any]] = []
    for span in spans:
        if merged and _fold(merged[-1]["value"]) == _fold(span["value"]) and span["value"]:
            merged[-1] |= {"until": span["until"], "holds": span["holds"]}
        else:
            merged.append(dict(span))
    return merged


def _name_slot(words: dict[str, Any], is_own: bool) -> str:
    """Return a slot in words: "lives in" of the subject itself, else with the subject of the facts."""
    known = read_relations().get(words["relation"])
    verb = words["relation"].replace("_", " ")
    if known and known.one:
        is_several = not is_own and is_plural(words["subject"])
        verb = (known.several if is_several else known.one).removeprefix("'s ").removesuffix(" is")
    parts = [verb] if is_own else [words["subject"], verb]
    if words["qualifier"]:
        parts += [known.before if known else "", words["qualifier"]]
    return " ".join(part for part in parts if part)
