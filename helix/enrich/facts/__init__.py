"""Facts a turn states: subject–relation–object triples, by guarded patterns, no model. What is doubtful is no fact."""

from __future__ import annotations

from helix.enrich.facts.extract import MAX_FACTS, SCANNED, facts
from helix.enrich.facts.relations import RELATIONS, Fact, Relation, functional

__all__ = ["MAX_FACTS", "RELATIONS", "SCANNED", "Fact", "Relation", "facts", "functional"]
