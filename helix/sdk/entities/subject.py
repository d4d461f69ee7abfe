"""A person, file or topic in time: what held when, what is near it, and where it is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from helix.sdk.browse import format_seconds
from helix.sdk.entities.board import EntityBoard, Sight, make_board
from helix.sdk.entities.graph import APART, rank_around
from helix.sdk.entities.listing import find_entity, hash_name, write_entities
from helix.sdk.entities.tracks import find_about, find_tracks
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.stages.time_limits import TimeLimits, explain_empty
from helix.types import I64
from helix.util.sanitise import sanitise_name

MOST_RELATED: Final = 12
MOST_SESSIONS: Final = 12


def describe_subject(sight: Sight, name: str) -> dict[str, Any]:
    """Return what is known of the entity that a name means, or of a name that facts have.

    Args:
        name: in any case, the id of an entity, or the end of a path.
    """
    board, at = sight.board, int((sight.moment or datetime.now(UTC)).timestamp())
    entity, keys = find_entity(board, name), hash_name(board, name)
    label, kind, names = name.strip(), None, [name.strip()]
    if entity is not None:
        own = np.array([entity])
        label, kind = board.label(own)[0], board.kinds_of(own)[0]
        members = board.list_members(own)
        keys = np.union1d(keys, board.table.key[members])
        names = sorted({label, *board.table.select(members)[1]}, key=len, reverse=True)
    about = find_about(sight, label, keys)
    # A subject of facts may be no entity, such as "timeout".
    stated = np.unique(sight.seen.facts.columns.row[about])
    rows = stated if entity is None else board.find_rows(np.array([entity]))[1]
    times = sight.seen.columns.time[rows]
    times = times[times != NO_TIME]
    return {
        "name": label,
        "kind": kind,
        "items": len(rows),
        "first": format_seconds(times.min()) if len(times) else None,
        "last": format_seconds(times.max()) if len(times) else None,
        "tracks": find_tracks(sight, at, names, keys, about, rows),
        "related": [] if entity is None else _list_related(board, entity),
        "sessions": _list_sessions(sight.seen, rows),
        "notice": None if len(rows) else _explain_nothing(sight, name),
    }


def _list_related(board: EntityBoard, entity: int) -> list[dict[str, Any]]:
    """List the entities that the same items name, the closest first."""
    apart = [code for code, kind in enumerate(board.table.kinds) if kind in APART]
    ranked = rank_around(board, entity)[1:]
    nearest = ranked[~np.isin(board.table.kind[ranked], apart)][:MOST_RELATED]
    fields = ("id", "name", "kind", "items")
    return [{field: one[field] for field in fields} for one in write_entities(board, nearest)]


def _list_sessions(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    """List the sessions of rows, the one with the newest row first; `time` is that row's."""
    columns = snap.columns
    rows = rows[np.lexsort((rows, -columns.place[rows].astype(np.float64)))]
    _, first, counts = np.unique(columns.session[rows], return_index=True, return_counts=True)
    newest = np.argsort(first)[:MOST_SESSIONS]
    shown = rows[first[newest]]
    return [
        {
            "session": entry["session"],
            "project": entry["project"],
            "title": entry["title"],
            "time": format_seconds(columns.time[row]),
            "items": count,
        }
        for entry, row, count in zip(snap.text(shown), shown.tolist(), counts[newest].tolist(), strict=True)
    ]


def _explain_nothing(sight: Sight, name: str) -> str:
    """Return why nothing is known of a name."""
    if sight.moment is not None:
        whole = make_board(sight.whole, sight.project)
        if (entity := find_entity(whole, name)) is not None:
            rows = np.zeros(sight.whole.rows, bool)
            rows[whole.find_rows(np.array([entity]))[1]] = True
            if notice := explain_empty(TimeLimits(sight.moment, None), sight.whole, rows):
                return notice
    return f"no item names {sanitise_name(name)}: a part of the name finds others"
