"""Masks of code in prose: a span with spaces or punctuation is one word while sentences and clauses are cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from helix.enrich.facts.relations import Fact
from helix.enrich.facts.slots import make_key

MARK: Final = "\ua66e"
"""Opens the mask of a code span: a letter that no text has."""

OPAQUE: Final = "\ua66d"
"""Ends the mask of code that is no name: "result := make(…)"."""

_SPAN: Final = re.compile(r"`[^`\n]{1,200}`")
_COMPLEX: Final = re.compile(r"[^\w./:@#~$-]")
_MASK: Final = re.compile(f"{MARK}(\\d+){OPAQUE}?")
_NAMED: Final = re.compile(r"[\w./ -]+|[\w.]+\([^()]*\)|\*[\w.]+")


def mask_code(text: str) -> tuple[str, list[str]]:
    """Return a text with a mask for each code span that has spaces or punctuation, and the code of each mask."""
    if "`" not in text:
        return text, []
    spans: list[str] = []

    def mask(match: re.Match[str]) -> str:
        code = match.group()[1:-1]
        if not _COMPLEX.search(code):
            return match.group()
        spans.append(code)
        return f"`{MARK}{len(spans) - 1}{'' if _NAMED.fullmatch(code) else OPAQUE}`"

    return _SPAN.sub(mask, text.replace(MARK, "")), spans


def unmask(text: str, spans: Sequence[str]) -> str:
    """Return a text with the code for its masks."""
    return _MASK.sub(lambda match: spans[int(match[1])], text) if MARK in text else text


def unmask_fact(fact: Fact, spans: Sequence[str]) -> Fact:
    """Return a fact with the code for its masks."""
    words = (fact.subject, fact.object, fact.qualifier, fact.said, fact.reason)
    if not any(MARK in word for word in words):
        return fact
    subject, object, qualifier, said, reason = (unmask(word, spans) for word in words)
    keys = make_key(subject), make_key(object)
    fact = fact._replace(subject=subject, object=object, subject_key=keys[0], object_key=keys[1])
    return fact._replace(qualifier=qualifier, said=said[:300], reason=reason)
