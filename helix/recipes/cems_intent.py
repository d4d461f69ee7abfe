"""Intent of a question, and the mode it decides, by rules over its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from helix.text.entities import find_entities
from helix.text.tokenize import tokenise

Days = Sequence[tuple[int, int, float]]
"""(first second, last second, weight) of each span a question names, as in `Query.days`."""


class Intent(NamedTuple):
    """The intent of a question."""

    primary: str  # troubleshooting how-to factual recall preference
    complexity: str  # simple moderate complex
    domains: tuple[str, ...]  # code people places organisations time
    entities: tuple[str, ...]  # as written
    requires_reasoning: bool
    temporal: bool = False  # it asks for a time or an order
    aggregation: bool = False  # it counts or lists what many sessions hold

    @property
    def kind(self) -> str:
        """The kind of wordings that it gets: preference, temporal or ordinary."""
        return "preference" if self.primary == "preference" else "temporal" if self.temporal else "ordinary"


# The first that matches is the primary intent; else it is factual.
_PRIMARY: Final = (
    (
        "preference",
        r"prefer\w{0,6}|favou?rites?|likes? (?:best|better|most)|recommend\w{0,8}|suggest\w{0,8}|resources?|"
        r"what should|which \w{1,30} should|should (?:i|we) (?:use|choose|pick|get|buy|try|take)|"
        r"(?:do|does) (?:i|we|\w{1,30}) (?:like|love|use|enjoy|usually)|"
        r"(?:would|might) (?:i|\w{1,30}) (?:like|enjoy|prefer)",
    ),
    (
        "troubleshooting",
        r"errors?|exceptions?|fail\w{0,5}|broken|crash\w{0,3}|bugs?|fix(?:ed|es)?|locked|stuck|"
        r"(?:not|n't|stopped) work(?:s|ing)?|troubleshoot\w{0,4}|debug\w{0,4}",
    ),
    ("how-to", r"how (?:do|does|can|could|should|would|to)|steps?|set up|install|configure"),
    (
        "recall",
        r"remember\w{0,3}|recall|remind|last time|earlier|previously|when (?:did|was|were)|"
        r"(?:did|have|had|was|were) (?:i|we)|(?:i|we) (?:said|told|did|decided|agreed|discussed|mentioned)|"
        r"did \w{1,30} (?:say|tell|mention|decide|ask|suggest|do|go|buy|get|make)",
    ),
)
_PATTERNS: Final = tuple((name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for name, words in _PRIMARY)
_TEMPORAL = re.compile(
    r"\b(?:first|last|before|after|when|how (?:long|recently)|since|until|ago|yesterday|earlier|earliest|latest|"
    r"most recent(?:ly)?|(?:what|which) (?:day|date|time|year|month|week))\b",
    re.IGNORECASE,
)
_AGGREGATION = re.compile(
    r"\b(?:how (?:many|often)|list (?:all|every|each|the)|which (?:ones )?of|all (?:of )?the|"
    r"every (?:time|one)|in total|name (?:all|the))\b",
    re.IGNORECASE,
)
_REASONING = re.compile(
    r"\b(?:why|how come|because|compar\w{0,5}|differen\w{0,4}|versus|vs|instead|both|trade-?offs?|relat\w{0,6}|"
    r"would|if|likely|might|could)\b",
    re.IGNORECASE,
)
_CONJUNCTION = re.compile(r"\b(?:and|or|then|but|while)\b|[;,]|\?(?=.)", re.IGNORECASE)

_DOMAINS: Final = {
    "code": frozenset(
        ["path", "module", "identifier", "error", "package", "version", "command", "url", "ticket", "commit"]
    ),
    "people": frozenset(("person", "relationship")),
    "places": frozenset(("place",)),
    "organisations": frozenset(("organisation", "project")),
    "time": frozenset(("date",)),
}


def classify(text: str, now: datetime, days: Days, simple: int, moderate: int) -> Intent:
    """Classify the intent of a question.

    Args:
        now: the moment of the question.
        days: spans that it names.
        simple, moderate: maximum distinct terms of a simple and of a moderate question; each conjunction and each
            comma counts as one more.
    """
    found = find_entities(text, at=now)
    terms = len(set(tokenise(text))) + len(_CONJUNCTION.findall(text.rstrip(" ?")))
    kinds = {entity.kind for entity in found}
    aggregation = bool(_AGGREGATION.search(text))
    return Intent(
        primary=next((name for name, pattern in _PATTERNS if pattern.search(text)), "factual"),
        complexity="simple" if terms <= simple else "moderate" if terms <= moderate else "complex",
        domains=tuple(name for name, wanted in _DOMAINS.items() if kinds & wanted),
        entities=tuple(dict.fromkeys(entity.name for entity in found)),
        requires_reasoning=aggregation or bool(_REASONING.search(text)),
        temporal=bool(days) or bool(_TEMPORAL.search(text)),
        aggregation=aggregation,
    )


_FEW_DOMAINS: Final = 1


def choose(mode: str, intent: Intent) -> str:
    """Return the mode, hybrid or vector; `auto` takes the route of the intent.

    A simple question of at most one domain that needs no reasoning takes vectors alone. One that is moderate or
    complex, of several domains, that needs reasoning or asks for a preference takes the hybrid.
    """
    if mode != "auto":
        return mode
    plain = intent.complexity == "simple" and not intent.requires_reasoning and len(intent.domains) <= _FEW_DOMAINS
    return "vector" if plain and intent.primary != "preference" else "hybrid"
