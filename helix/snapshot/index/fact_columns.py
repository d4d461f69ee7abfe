"""The facts of a snapshot as arrays, and the end of each.

A fact is never rewritten. Its end follows from the other live facts, so forgetting a newer fact restores the older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from helix.ranking.fact_validity import order_sayings, resolve_ends
from helix.snapshot.segment.open import OpenSegment
from helix.types import F32, I64, U64, AnyArray, Bool


class FactColumns(NamedTuple):
    """One entry per fact of a live item. Times in seconds, `t_ingested` in microseconds; the least int64 is none."""

    row: I64  # of the snapshot
    group: U64  # slot: hash of scope, subject, relation and qualifier
    family: U64  # slot without the qualifier
    object: U64  # 0 if a closing fact names none
    subject_entity: U64
    object_entity: U64
    t_valid: I64
    until: I64
    t_ingested: I64
    confidence: F32
    functional: Bool
    closes: Bool

    def take(self, chosen: AnyArray) -> FactColumns:
        """Return some of the facts."""
        return FactColumns._make(array[chosen] for array in self)


def join_facts(opened: Sequence[OpenSegment], starts: I64, alive: Bool, scopes: U64 | None = None) -> FactColumns:
    """Join the facts of the live rows of a snapshot, segment by segment.

    Args:
        scopes: uint64[rows], different for two projects of one stored name; None: no project is renamed.
    """

    def column(name: str, dtype: Any) -> AnyArray:
        return np.concatenate([np.empty(0, dtype), *(each.facts[name].to_numpy() for each in opened)]).astype(dtype)

    rows = [start + segment.facts["row"].to_numpy() for start, segment in zip(starts.tolist(), opened, strict=True)]
    row = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64)
    kinds: dict[str, Any] = {"confidence": np.float32, "functional": bool, "closes": bool}
    kinds |= dict.fromkeys(("group", "family", "object", "subject_entity", "object_entity"), np.uint64)
    kinds |= dict.fromkeys(("t_valid", "until", "t_ingested"), np.int64)
    found = FactColumns(row, **{name: column(name, kind) for name, kind in kinds.items()}).take(alive[row])
    if scopes is None:
        return found
    return found._replace(group=found.group ^ scopes[found.row], family=found.family ^ scopes[found.row])


class Sayings(NamedTuple):
    """The turn that states each fact."""

    time: I64  # seconds
    session: AnyArray  # integers[f], one number a session
    place: AnyArray  # integers[f], in the reading order of the session


def find_ends(facts: FactColumns, sayings: Sayings) -> I64:
    """Return the end of each fact in seconds: int64[f]; the least int64 if it still holds."""
    said, tied = np.zeros(len(facts.row), np.int64), _find_ties(facts)
    said[tied] = order_sayings(*(part[tied] for part in (*sayings, facts.t_ingested)))
    slot = (facts.group, facts.family, facts.object)
    return resolve_ends(*slot, facts.t_valid, said, facts.until, facts.functional, facts.closes)


_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)  # odd: seconds of one family stay different


def _find_ties(facts: FactColumns) -> AnyArray:
    """Return the facts that begin in the second of another of their family; equal hashes may add a few."""
    slot = facts.family ^ (facts.t_valid.astype(np.uint64) * _MIXER)
    ordered = np.sort(slot)
    return np.flatnonzero(np.isin(slot, ordered[1:][ordered[1:] == ordered[:-1]]))
