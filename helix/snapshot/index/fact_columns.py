"""The facts of a snapshot as arrays, and which of them still hold.

A fact is written once and never changed: when it ends follows from the facts that live, so nothing has to be rewritten
when a newer one supersedes it, and forgetting the newer one brings the older one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.fact_validity import resolve_ends
from helix.snapshot.segment.open import OpenSegment
from helix.types import F32, I64, U64, Bool


class FactColumns(NamedTuple):
    """One entry a fact of a live item. Times in seconds, `t_ingested` in microseconds; the least int64 is none."""

    row: I64  # of the snapshot
    group: U64  # what is said of whom: scope, subject, relation and qualifier
    family: U64  # the same without the qualifier
    object: U64  # 0 where a closing names none
    subject_entity: U64
    object_entity: U64
    t_valid: I64
    until: I64
    t_ingested: I64
    confidence: F32
    functional: Bool
    closes: Bool

    def take(self, chosen: npt.NDArray[Any]) -> FactColumns:
        """Some of them."""
        return FactColumns(*(array[chosen] for array in self))


def join_facts(opened: Sequence[OpenSegment], starts: I64, alive: Bool) -> FactColumns:
    """The facts of the live rows of a snapshot, segment by segment."""

    def column(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(segment.facts[name].to_numpy() for segment in opened)]).astype(
            dtype
        )

    rows = [start + segment.facts["row"].to_numpy() for start, segment in zip(starts.tolist(), opened, strict=True)]
    row = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64)
    kinds: dict[str, Any] = {"confidence": np.float32, "functional": bool, "closes": bool}
    kinds |= dict.fromkeys(("group", "family", "object", "subject_entity", "object_entity"), np.uint64)
    kinds |= dict.fromkeys(("t_valid", "until", "t_ingested"), np.int64)
    return FactColumns(row, **{name: column(name, kind) for name, kind in kinds.items()}).take(alive[row])


def find_ends(facts: FactColumns) -> I64:
    """int64[f]: since when each fact no longer holds, in seconds; the least int64 where it does."""
    return resolve_ends(
        facts.group,
        facts.family,
        facts.object,
        facts.t_valid,
        facts.t_ingested,
        facts.until,
        facts.functional,
        facts.closes,
    )
