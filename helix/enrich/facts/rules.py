"""The table of rules, from `data/fact_rules.toml`, in order of precedence: the first that finds a fact weighs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from helix.enrich.facts import slots, words
from helix.enrich.facts.relations import RELATIONS
from helix.util.wordlists import fill_pattern, read_patterns

_READERS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    name.removeprefix("read_"): reader for name, reader in vars(slots).items() if name.startswith("read_")
}
PIECES, _TABLES = read_patterns("helix.enrich", "fact_rules", {**words.PIECES, "JOBS": " ".join(words.JOBS)})
_TOKEN: Final = re.compile(r"[a-zß-öø-ÿ]+|[/_#]")


class FactRule(NamedTuple):
    """One pattern of a relation; the table describes its groups."""

    relation: str
    slot: Callable[[str], list[str]]
    confidence: float  # in [0, 1]
    needs: frozenset[str]  # a clause without any of these tokens is not searched
    pattern: str
    closes: bool = False
    presupposed: bool = False
    negative: bool = False
    lead: str = ""


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text in any case, as in `FactRule.needs`, where "#" is a digit."""
    return _TOKEN.findall(text.lower())


def _make_rule(
    fact: tuple[str, str, float],
    needs: str,
    pattern: str = "",
    person: tuple[str, str] | None = None,
    verb: tuple[str, ...] | None = None,
    pieces: Mapping[str, str] = PIECES,
    **more: Any,
) -> FactRule:
    if verb:
        person = _conjugate(*verb)
    if person:
        first, third = person
        pattern = f"{{BEFORE}}(?:(?P<s>I|[Ww]e) {{ADVERBS}}(?:{first})|{{THIRD}} {{ADVERBS}}(?:{third})){pattern}"
    relation, reader, confidence = fact
    tokens = frozenset(split_tokens(fill_pattern(needs, pieces)))
    return FactRule(relation, _READERS[reader], confidence, tokens, fill_pattern(pattern, pieces), **more)


def _conjugate(base: str, third: str, ing: str, participle: str = "(?!)") -> tuple[str, str]:
    """Return the patterns of a verb in the present, for "I" and for a name; with its participle also "have worked"."""
    return (
        f"{base}|(?:am |are )?{{ADVERBS}}(?:{ing})|have {{ADVERBS}}been (?:{ing})|have {participle}",
        f"{third}|is {{ADVERBS}}(?:{ing})|(?:has|is) {{ADVERBS}}been (?:{ing})|has {participle}",
    )


def _make_kin_rules(relation: str, nouns: str) -> Iterator[FactRule]:
    """Yield the rules of one kind of relative, friend, boss or pet."""
    pieces = PIECES | {"NOUNS": nouns, "NAMED": "(?: called| named)" + ("" if relation == "pet" else "?")}
    pieces["WHOSE"] = fill_pattern("{OWNER} {KIN_ADJECTIVE}(?:{NOUNS})", pieces)
    pieces["OF_MINE"] = fill_pattern("(?:an? |the )?{KIN_ADJECTIVE}(?:{NOUNS}) of (?P<mine>mine|ours)", pieces)
    for row in _TABLES["kin"]:
        fields: dict[str, Any] = {"object": "person" if RELATIONS[relation] else "people", **row}
        if relation in fields.pop("relations", words.KIN):
            yield _make_rule((relation, fields.pop("object"), 0.9), nouns, pieces=pieces, **fields)


RULES: Final = (
    *(rule for relation, nouns in words.KIN.items() for rule in _make_kin_rules(relation, nouns)),
    *(_make_rule(**row) for row in _TABLES["rule"]),
)
TRIGGERS: Final[Mapping[str, tuple[int, ...]]] = {
    word: tuple(index for index, rule in enumerate(RULES) if word in rule.needs)
    for word in sorted({word for rule in RULES for word in rule.needs})
}
"""Word → positions of the rules that need it."""


@cache
def compile_pattern(index: int) -> re.Pattern[str]:
    """Compile the pattern of a rule on first use: all of them take half a second."""
    return re.compile(RULES[index].pattern)
