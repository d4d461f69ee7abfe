"""Signs in the prose of an item that raise or lower its salience, or tell who vouches for it: `data/signs.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from helix.util.wordlists import compile_lines, fill_pattern, read_groups, read_patterns

WORDS: Final = read_groups("helix.enrich", "salience")
_PIECES, _TABLES = read_patterns(
    "helix.enrich", "signs", {name.upper(): "|".join(sorted(words)) for name, words in WORDS.items()}
)

WEIGHTS: Final[Mapping[str, float]] = _TABLES.pop("weights")
"""Weight of each sign in the salience of an item."""


class Sign(NamedTuple):
    """One sign. A text without any of `words` is not searched; without a pattern a word is enough."""

    name: str  # a key of `WEIGHTS`
    words: frozenset[str]
    pattern: str

    def is_in(self, words: frozenset[str], prose: str) -> bool:
        """Return whether lower-cased prose, with the set of its words, shows the sign."""
        if self.words and self.words.isdisjoint(words):
            return False
        return not self.pattern or compile_lines(self.pattern).search(prose) is not None


def _make_sign(name: str, words: str = "", pattern: str = "") -> Sign:
    return Sign(name, frozenset(words.split()), fill_pattern(pattern, _PIECES))


_ANSWERS: Final = {name: re.compile(fill_pattern(opening, _PIECES)) for name, opening in _TABLES.pop("answers").items()}
ASSENT, REJECTS, CHOICE = _ANSWERS["assent"], _ANSWERS["rejects"], _ANSWERS["choice"]
WEAK_ASSENT, ORDER = _ANSWERS["weak assent"], _ANSWERS["order"]
NARRATION, GENERIC, HEDGE, PROPOSES, BACK = (
    _make_sign(name, **_TABLES.pop(name)[0]) for name in ("narration", "generic", "hedge", "proposal", "back")
)
SIGNS: Final = tuple(_make_sign(name, **sign) for name, signs in _TABLES.items() for sign in signs)
DECISION: Final = tuple(sign for sign in SIGNS if sign.name == "decision")
