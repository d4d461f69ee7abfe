"""Words and patterns shared by the readers of facts: names, relatives, professions, languages."""

from __future__ import annotations

from typing import Final

from helix.util.wordlists import Patterns, fill_pattern, read_groups, read_patterns, read_toml

WORDS: Final = read_groups("helix.enrich", "facts")
"""Word sets by heading; the file describes each."""

NOT_NAMES: Final = WORDS["not names"]
TITLES: Final = WORDS["titles"]
JOBS: Final = WORDS["jobs"]
AMBIGUOUS_JOBS: Final = WORDS["ambiguous jobs"]
LANGUAGES: Final = WORDS["languages"]
NATIONALITIES: Final = LANGUAGES | WORDS["nationalities"]
VAGUE: Final = WORDS["vague"]

KIN: Final = {kin: fill_pattern(nouns, {}) for kin, nouns in read_toml("helix.enrich", "fact_patterns")["kin"].items()}
"""Relation → nouns of its object: "my wife Eva" is a spouse."""

PIECES, _TABLES = read_patterns("helix.enrich", "fact_patterns", {"ANY_KIN": "|".join(KIN.values())})
PATTERNS: Final = Patterns(_TABLES["patterns"], PIECES)
"""Patterns by name; the file describes each."""

_VALUE_PIECES, _VALUE_TABLES = read_patterns("helix.enrich", "fact_values", PIECES)
VALUES: Final = Patterns(_VALUE_TABLES["patterns"], _VALUE_PIECES)
"""Patterns of values by name; the file describes each."""
FOLDED: Final = {word: unit for unit, words in _VALUE_TABLES["folded"].items() for word in words.split()}
"""Spelling of a unit or number → the one of keys."""

PLACE_NOUNS: Final = tuple(_VALUE_PIECES["PLACES"].split("|"))
"""Nouns of rooms and furniture, where a thing is kept."""
