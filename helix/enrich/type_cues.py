"""Cues of an item's type, from `data/type_cues.toml`, which describes their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from helix.util.wordlists import compile_lines, fill_pattern, read_patterns

_OPENING: Final = 200  # characters
_ENDING: Final = 80


class TypeCue(NamedTuple):
    """A pattern, and the weight of one occurrence."""

    name: str  # one of helix.types.TYPES
    weight: float
    needs: tuple[str, ...]
    pattern: str
    raw: bool = False
    origins: tuple[str, ...] = ()
    where: str = ""
    words: frozenset[str] = frozenset()

    def is_in(self, text: str, lower: str) -> bool:
        """Return whether the cue is in `text`; `lower` is the same text, lower-cased."""
        searched = text if self.raw else lower
        if self.where == "opening":
            return compile_lines(self.pattern).match(searched, 0, _OPENING) is not None
        if self.where == "ending":
            searched = searched[-_ENDING:]
        if self.needs and not any(word in searched for word in self.needs):
            return False
        return compile_lines(self.pattern).search(searched) is not None


def _make_cue(
    name: str, pattern: str, words: str = "", needs: Sequence[str] = (), origins: Sequence[str] = (), **fields: Any
) -> TypeCue:
    pattern = fill_pattern(pattern, _PIECES)
    if words:
        pattern = rf"[\s(\"'*_`-](?:{pattern})"
    fields |= {"needs": tuple(needs), "origins": tuple(origins), "words": frozenset(words.split())}
    return TypeCue(name, pattern=pattern, **fields)


_PIECES, _TABLES = read_patterns("helix.enrich", "type_cues")
VERBS: Final = _PIECES["VERBS"]
CUES: Final = tuple(_make_cue(name, **cue) for name, cues in _TABLES.items() for cue in cues)
