"""Lists of the entities of a view, the most named first, and the entity that a name means."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import numpy as np

from helix.sdk.browse import format_seconds
from helix.sdk.entities.board import EntityBoard
from helix.sdk.entities.counts import NEVER
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.text.entities import find_entities
from helix.types import I64, U64
from helix.util.sanitise import sanitise_name

_ID: Final = re.compile(r"[0-9a-f]{16}")


def list_entities(board: EntityBoard, kind: str | None, query: str, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of entities, the most named first.

    Args:
        kind: the only kind; None: all.
        query: a part of the name, in any case; empty: all.

    Returns:
        `total`, `kinds` with the number of entities whatever the kind, and the page.
    """
    found = board.shown
    if words := " ".join(query.lower().split()):
        found = found[np.isin(found, _find_holding(board, words))]
    names, codes = board.table.kinds, board.table.kind[found]
    counted = {names[code]: count for code, count in Counter(codes.tolist()).most_common()}
    if kind is not None:
        found = found[codes == names.index(kind)] if kind in names else found[:0]
    page = found[offset : offset + limit]
    notice = None
    if not len(found):
        notice = f"no item names {_name_kind(kind)}{' of this name' if words else ''}"
    return {
        "total": len(found),
        "offset": offset,
        "kinds": counted,
        "entities": write_entities(board, page),
        "notice": notice,
    }


def _name_kind(kind: str | None) -> str:
    return "an entity" if kind is None else f"an entity of the kind {sanitise_name(kind)}"


def _find_holding(board: EntityBoard, words: str) -> I64:
    """Return the entities of which one name holds some words."""
    import pyarrow.compute as pc

    holds = pc.match_substring(board.table.word, words).to_numpy(zero_copy_only=False)
    return np.unique(board.same[np.flatnonzero(holds.astype(bool) & board.is_named)])


def write_entities(board: EntityBoard, numbers: I64) -> list[dict[str, Any]]:
    """Return entities as plain data."""
    counts = board.counts
    columns = (board.table.key, counts.items, board.facts, board.turns, counts.first, counts.last)
    parts = zip(
        board.label(numbers), board.kinds_of(numbers), *(column[numbers].tolist() for column in columns), strict=True
    )
    return [
        {
            "id": f"{key:016x}",
            "name": name,
            "kind": kind,
            "items": items,
            "facts": facts,
            "first": format_seconds(NO_TIME if first == NEVER else first),
            "last": format_seconds(last),
            "speaker": turns > 0,
            "turns": turns,
        }
        for name, kind, key, items, facts, turns, first, last in parts
    ]


def find_entity(board: EntityBoard, name: str) -> int | None:
    """Return the entity that a name means: its id, a name in any case, or the end of one path; None for none."""
    if _ID.fullmatch(name) and len(found := board.find(np.array([int(name, 16)], np.uint64))):
        return int(found[0])
    found = board.find(hash_name(board, name))
    if not len(found):
        found = board.find_path(name)
    return int(found[np.lexsort((board.table.key[found], -board.counts.items[found]))[0]]) if len(found) else None


def hash_name(board: EntityBoard, name: str) -> U64:
    """Hash a name under every kind, and as the only entity of a text that it may be."""
    key = " ".join(name.lower().split())
    pairs = {(kind, key) for kind in board.table.kinds}
    if len(read := find_entities(name)) == 1 and len(read[0].name) >= len(name.strip()) - 2:
        pairs.add((read[0].kind, read[0].key))
    return np.array(sorted(int(hash_parts(*pair), 16) for pair in pairs), np.uint64)
