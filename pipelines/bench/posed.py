"""A question in the form the legs search with."""

from __future__ import annotations

from typing import Final, NamedTuple

from helix.errors import StoreError
from helix.question.build import build_query
from helix.recipes.common import begin
from helix.recipes.default import add_search_terms
from helix.sdk.memory import Memory
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.trace import Trace
from helix.types import F32, Plan, Query, RecallOptions
from pipelines.bench.questions import Ask

K: Final = 100
"""Compared rows of a leg."""


class PosedQuestion(NamedTuple):
    """A question after stages 1 and 2."""

    ask: Ask
    query: Query
    vector: F32
    snap: Snapshot  # the principal's view
    plan: Plan


def pose_question(memory: Memory, ask: Ask, profile: HelixProfile) -> PosedQuestion:
    """Run stages 1 and 2.

    Raises:
        StoreError: the store has no encoder.
    """
    arguments = dict(ask["with"])
    snap = memory.snapshot.seen_by(arguments.get("principal"))
    query = build_query(ask["query"], snap, memory.settings, RecallOptions(**arguments))
    query = add_search_terms(query, snap, profile.ask)
    vector, plan = begin(query, snap, Trace(), query.embedded)
    if vector is None:
        raise StoreError(f"the encoder of {memory.root} is missing", "make the store again")
    return PosedQuestion(ask, query, vector, snap, plan)
