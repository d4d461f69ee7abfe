"""Entities of an export that have notes: those that several sessions name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from helix.types import I64, U64
from pipelines.export.selection import ExportSelection

MOST: Final = 300
"""Entities with a note: those that most sessions name."""

_ROWS: Final = 50_000  # read at a time
_OF_A_SESSION: Final = 24
_NO_NOTE: Final = frozenset({"date", "relationship", "version", "name"})
"""Kinds that are no place to gather sessions at."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """Entities with notes, and the sessions that name them: pairs in the order of the sessions' codes."""

    names: dict[int, tuple[str, str]]  # kind and name by hash
    session: I64
    entity: U64

    def list_of_session(self, code: int) -> list[int]:
        """List the entities that a session names, at most 24."""
        low, high = np.searchsorted(self.session, [code, code + 1])
        return [int(one) for one in self.entity[low:high][:_OF_A_SESSION]]

    def list_sessions(self, entity: int) -> I64:
        """List the codes of the sessions that name an entity."""
        return np.asarray(self.session[self.entity == np.uint64(entity)], np.int64)


def find_mentions(selection: ExportSelection) -> Mentions:
    """Find the entities that at least two sessions name, the most frequent first."""
    snap, rows = selection.snap, np.flatnonzero(selection.chosen)
    sessions, entities = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        position, entity = snap.graph.entities_of(some)
        pairs = np.empty(len(entity), [("session", np.int64), ("entity", np.uint64)])
        pairs["session"], pairs["entity"] = snap.columns.session[some][position], entity
        pairs = np.unique(pairs)
        sessions.append(pairs["session"])
        entities.append(pairs["entity"])
    both = np.empty(sum(map(len, sessions)), [("session", np.int64), ("entity", np.uint64)])
    both["session"], both["entity"] = np.concatenate(sessions), np.concatenate(entities)
    both = np.unique(both)
    found, counts = np.unique(both["entity"], return_counts=True)
    often = found[np.argsort(-counts, kind="stable")][: int(np.count_nonzero(counts > 1))]
    known = snap.facts.entity_names(often[: 4 * MOST])
    shown = [one for one in often[: 4 * MOST].tolist() if one in known and known[one][0] not in _NO_NOTE][:MOST]
    here = np.isin(both["entity"], np.array(shown, np.uint64))
    return Mentions({one: known[one] for one in shown}, both["session"][here], both["entity"][here])
