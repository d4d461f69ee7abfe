"""The prose of a session's item, read once: without code, quotations and log lines, and without questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from helix.enrich.signs import BACK, HEDGE, PROPOSES
from helix.text.languages import ENGLISH
from helix.text.tokenize import tokenise

MAX_CHARS: Final = 8_000
"""Characters of an item that are read; items are far shorter."""

SOURCES: Final[Mapping[str, str]] = {
    "human": "statement",
    "document": "document",
    "assistant": "claim",
    "subagent": "report",
    "note": "note",
    "tool": "output",
    "runtime_context": "context",
    "summary": "summary",
}
"""Origin → who vouches."""
_ORIGINS: Final = {"user": "human", "assistant": "assistant", "tool": "tool", "document": "document"}
"""By role, for an unknown origin; `runtime_context` for the rest."""

_WORD: Final = re.compile(r"[\w']+")
_DIGIT: Final = re.compile(r"\d")
_QUOTED: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|^(?:>|\$ |\t| {4}|[+-]{1,3}[ \t]{0,40}\w{0,40}[({=]| "
    r"{0,6}\d{1,6}(?:→|\t)|\[?\d{4}-\d\d-\d\d[T ]\d\d:)[^\n]*|^[#* -]{0,6}\d{1,2}[.)][ \t]",
    re.DOTALL | re.MULTILINE,
)
"""Code, quotations, commands, numbered lines, log lines and list numbers: no statement of the session."""

_ODD_START: Final = frozenset("> $\t[123456789+-#*")
_QUESTION: Final = re.compile(
    r"\W{0,4}(?:(?:and|so|ok|okay|but|hey|hi|hmm|wait|also|btw|then|no|yes|well|oh)\W{1,3}){0,2}(?:"
    r"(?:whats|(?:what|why|how|where|who|which|when|whose)(?:'s|'re| (?:is|are|was|were|do|does|did|can|could|should|"
    r"would|will|has|have|about|many|much|kind)))\b|"
    r"(?:can|could|would|should|shall|does|did|is|are|was|were|will|may|am) (?:i|you|we|they|he|she|it|there|this|that|"
    r"these|those|the|any|anyone|anybody|everyone|somebody|your|my|our)\b|(?:do|have) (?:i|you|we|they)\b)"
)
"""Questions, also without a question mark."""

_HEDGED_SHARE: Final = 3
"""Clauses per hedge."""


class SessionItem(NamedTuple):
    """An item of a session. `names` are the keys of its entities, without its own speaker."""

    text: str
    role: str  # one of helix.types.ROLES
    origin: str  # as in helix.types.Turn
    type: str  # one of helix.types.TYPES
    turn: int  # position of its turn in the session; several items may share one
    names: tuple[str, ...] = ()
    language: str = ENGLISH  # one of helix.text.languages.CODES


class Utterance(NamedTuple):
    """The prose of an item, read once."""

    origin: str
    prose: str  # lower case, one sentence a line, without questions
    words: frozenset[str]  # of the prose; "#" where it has a digit
    length: int  # words, questions included
    asks: bool
    hedged: bool
    terms: frozenset[str]  # as in the index
    marks: frozenset[str]  # names, and terms with a digit: a later turn that repeats one refers to this
    proposes: bool
    looks_back: bool
    language: str


def read_utterance(item: SessionItem) -> Utterance:
    """Read the prose of an item; hedges, proposals and questions without a mark are only known in English."""
    return _read(item.text, item.role, item.origin, item.names, item.language)


@lru_cache(maxsize=2_048)  # a growing session is judged again from its start
def _read(text: str, role: str, origin: str, names: tuple[str, ...], language: str) -> Utterance:
    text = text[:MAX_CHARS].replace("’", "'")
    odd = "`" in text or '"' in text or "\n" in text or text[:1] in _ODD_START
    prose = (_QUOTED.sub(" ", text) if odd else text).lower()
    all_words = _WORD.findall(prose)
    words = frozenset(all_words)
    prose = prose.replace("? ", "?\n").replace(". ", ".\n").replace("! ", "!\n")
    sentences = prose.split("\n")
    is_english = language == ENGLISH
    asserted = [_cut_question(sentence, is_english=is_english) for sentence in sentences]
    asks = asserted != sentences
    statement = "\n".join(asserted)
    terms = frozenset(tokenise(text, language))
    origin = origin if origin in SOURCES else _ORIGINS.get(role, "runtime_context")
    return Utterance(
        origin=origin,
        prose=statement,
        words=(frozenset(_WORD.findall(statement)) if asks else words) | ({"#"} if _DIGIT.search(statement) else set()),
        length=len(all_words),
        asks=asks,
        hedged=is_english and origin != "tool" and _is_hedged(words, prose),
        terms=terms,
        marks=frozenset(t for t in terms if not t.isalpha() and _DIGIT.search(t)).union(names),
        proposes=(asks and origin != "human") or (is_english and PROPOSES.is_in(words, prose)),
        looks_back=is_english and BACK.is_in(words, prose),
        language=language,
    )


def _cut_question(sentence: str, *, is_english: bool) -> str:
    """Return the statement before a question: "the demo is on Friday" of "the demo is on Friday, can you …"."""
    if not sentence.rstrip(" )\"'*").endswith(("?", "？", "؟")):
        return "" if is_english and _QUESTION.match(sentence) else sentence
    if not is_english:
        return ""
    clauses = sentence.split(", ")
    at = next((place for place, clause in enumerate(clauses) if _QUESTION.match(clause)), len(clauses) - 1)
    return ", ".join(clauses[:at])


def _is_hedged(words: frozenset[str], prose: str) -> bool:
    """Return whether a third of the clauses is hedged. One aside in a long answer is not enough."""
    if not HEDGE.is_in(words, prose):
        return False
    clauses = prose.replace(", ", "\n").split("\n")
    hedges = sum(HEDGE.is_in(words, clause) for clause in clauses)
    return hedges * _HEDGED_SHARE >= sum(" " in clause.strip() for clause in clauses)
