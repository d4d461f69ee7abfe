"""The table of slot rules, from `data/slot_rules.toml`, in order of precedence: the first that fits a clause counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from helix.enrich.facts import rules, slots, values, words
from helix.util.wordlists import fill_pattern, read_patterns

Reader = Callable[[str], list[str]]

_READERS: Final[Mapping[str, Reader]] = {
    name.removeprefix("read_"): reader
    for module in (slots, values)
    for name, reader in vars(module).items()
    if name.startswith("read_") and name != "read_when"
}
_GIVEN: Final = {**rules.PIECES, "PLACE_WORDS": " ".join(words.PLACE_NOUNS)}
_PIECES, _TABLES = read_patterns("helix.enrich", "slot_rules", _GIVEN)


class SlotRule(NamedTuple):
    """One pattern of a slot; the table describes its groups."""

    relation: str
    read: Reader  # of its objects
    dated: bool  # its object is a date, which `read_when` reads with the moment of the turn
    confidence: float
    needs: frozenset[str]
    pattern: str
    closes: bool = False
    future: bool = False
    modal: bool = False
    swap: bool = False
    purpose: bool = False
    fits: str = ""
    subject: str = ""
    roles: tuple[str, ...] = ()


def _find_nothing(text: str) -> list[str]:
    """Find no object: a date needs the moment of its turn, too."""
    return []


def _make_rule(fact: tuple[str, str, float], needs: str, pattern: str, **more: Any) -> SlotRule:
    relation, reader, confidence = fact
    tokens = frozenset(rules.split_tokens(fill_pattern(needs, _PIECES)))
    dated = reader == "when"
    read = _find_nothing if dated else _READERS[reader]
    return SlotRule(relation, read, dated, confidence, tokens, fill_pattern(pattern, _PIECES), **more)


SLOT_RULES: Final = tuple(_make_rule(**row) for row in _TABLES["rule"])
SLOT_TRIGGERS: Final[Mapping[str, tuple[int, ...]]] = {
    word: tuple(index for index, rule in enumerate(SLOT_RULES) if word in rule.needs)
    for word in sorted({word for rule in SLOT_RULES for word in rule.needs})
}
"""Word → positions of the rules that need it."""


@cache
def compile_slot(index: int) -> re.Pattern[str]:
    """Compile the pattern of a rule on first use."""
    return re.compile(SLOT_RULES[index].pattern)
