"""Cues of an item's type. Those of one type add up as independent evidence: 1 - Π(1 - weight)."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.code import CODE
from helix.enrich.type_cues.decision import DECISION
from helix.enrich.type_cues.episodic import EPISODIC
from helix.enrich.type_cues.procedural import PROCEDURAL
from helix.enrich.type_cues.semantic import SEMANTIC

CUES: Final = (*DECISION, *PROCEDURAL, *CODE, *SEMANTIC, *EPISODIC)
