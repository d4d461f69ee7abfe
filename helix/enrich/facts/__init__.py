"""Facts stated in a turn: subject–relation–object triples, by guarded patterns, without a model."""

from __future__ import annotations

from helix.enrich.facts.drafts import WEIGHTS
from helix.enrich.facts.extract import MAX_CHARS, MAX_FACTS, extract_facts
from helix.enrich.facts.relations import RELATIONS, Fact, is_functional

__all__ = ["MAX_CHARS", "MAX_FACTS", "RELATIONS", "WEIGHTS", "Fact", "extract_facts", "is_functional"]
