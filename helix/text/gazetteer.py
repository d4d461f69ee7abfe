"""Names that most texts share, written from general knowledge: given names, places, organisations, software.

Entries are lower case and live in `data/`, one file per list, with a comment that describes it. A list is read on
first use. The AMBIGUOUS_ lists hold names that are also common words; the LONG_ lists hold names of several words.
"""

from __future__ import annotations

from typing import Any

from helix.util.wordlists import read_phrases, read_table, read_words

GIVEN_NAMES: frozenset[str]
AMBIGUOUS_GIVEN_NAMES: frozenset[str]
TITLES: frozenset[str]
NICKNAMES: dict[str, list[str]]
"""Short form → given names it may stand for."""
KIN: dict[str, str]
"""Word of kinship, of a close tie or of a pet → the word its key has."""

PLACES: frozenset[str]
AMBIGUOUS_PLACES: frozenset[str]
LONG_PLACES: frozenset[str]

ORGANISATIONS: frozenset[str]
AMBIGUOUS_ORGANISATIONS: frozenset[str]
LONG_ORGANISATIONS: frozenset[str]

PROJECTS: frozenset[str]
AMBIGUOUS_PROJECTS: frozenset[str]
LONG_PROJECTS: frozenset[str]
PROGRAMS: frozenset[str]
PROGRAMS_WITHOUT_SUBCOMMANDS: frozenset[str]
SUBCOMMANDS: frozenset[str]

DEMONYMS: frozenset[str]
COMMON_WORDS: frozenset[str]
HEADING_WORDS: frozenset[str]


def __getattr__(name: str) -> Any:
    """Read a list on first use and keep it in the module."""
    if name not in __annotations__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = names = _read(name)
    return names


def _read(name: str) -> Any:
    if name == "NICKNAMES":
        return read_table("helix.text", "nicknames")
    if name == "KIN":
        return {word: key for key, words in read_table("helix.text", "kin").items() for word in words}
    return (read_phrases if name.startswith("LONG_") else read_words)("helix.text", name.lower())
