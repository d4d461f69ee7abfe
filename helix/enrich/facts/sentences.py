"""Sentences and clauses of prose, in one spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.enrich.facts.guards import is_doubtful
from helix.enrich.facts.words import PATTERNS

_FENCE: Final = re.compile(r"\s{0,8}(?:```|~~~)")
_MARKER: Final = re.compile(r"\s{0,12}(?:[-*+•–] |\d{1,3}[.)] |\[[ x]\] )\s{0,4}(?:\[[ x]\] )?")


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of prose, without code blocks, stack traces, headings, tables and quoted lines."""
    fenced = False
    held = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        fenced ^= fence
        line = line.rstrip()
        if fence or fenced or line.endswith((";", "{", "}")) or not line or PATTERNS["no prose"].match(line):
            yield from PATTERNS["end"].split(held)
            held = ""
            continue
        marker = _MARKER.match(line)
        line = line[marker.end() :] if marker else line.strip()
        # A hard-wrapped line continues in lower case.
        if held and not marker and line[:1].islower() and held[-1] not in ".!?:":
            held = f"{held} {line}"
            continue
        yield from PATTERNS["end"].split(held)
        held = line
    yield from PATTERNS["end"].split(held)


# fmt: off
_CONTRACTIONS: Final = {
    "'m": " am", "'re": " are", "'ve": " have", "'ll": " will", "'d": " would", "can't": "can not", "cannot": "can not",
    "cant": "can not", "won't": "will not", "wont": "will not", "dont": "do not", "doesnt": "does not",
    "didnt": "did not", "isnt": "is not", "arent": "are not", "n't": " not", "i": "I", "im": "I am", "ive": "I have",
    "there's": "there is", "it's": "it is", "that's": "that is", "thats": "that is", "what's": "what is",
    "who's": "who is", "name's": "name is", "he's": "he is", "she's": "she is",
}
# fmt: on
# White space of any length.
SPACE: Final = re.compile(r"\s+")
_EMPHASIS: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)")


def normalise(sentence: str) -> str:
    """Return a sentence without contractions, emphasis and double spaces, so that one pattern fits all spellings."""
    sentence = _EMPHASIS.sub("", sentence)
    sentence = PATTERNS["contraction"].sub(lambda m: _CONTRACTIONS.get(m.group().lower(), m.group()), sentence)
    return SPACE.sub(" ", PATTERNS["is"].sub(" is ", sentence)).strip()


def _is_doubt(clause: str) -> bool:
    """Return whether a clause is only a doubt about the next one: "Someday, …"."""
    return len(clause.split()) <= 3 and is_doubtful(clause)


_INFINITIVE: Final = re.compile(r"\b(?:to|can|will|would|could|should|might|must|let|help|please) [a-z]+\b")


def split_clauses(statement: str) -> Iterator[str]:
    """Yield the clauses of a statement; a shared subject is repeated: "I live …", "I work …"."""
    statement = PATTERNS["and i"].sub(r"\1 & I", statement)  # one subject, not a border
    start = 0
    subject = ""
    share = False
    for border in [*PATTERNS["clause"].finditer(statement), None]:
        clause = statement[start : border.start() if border else len(statement)].strip(" ,")
        if border and border["comma"] and (PATTERNS["leading"].match(clause) or _is_doubt(clause)):
            continue
        if share and subject:
            clause = f"{subject} {clause}"
        own = PATTERNS["own subject"].match(clause)
        if own:
            subject = own["s"]
        elif not share:
            subject = ""
        if clause:
            yield clause
        if border:
            start = border.end()
            # "trying to set up X and use Y" states no use; in "friends who …" the friends are not the subject.
            again = border["again"]
            share = again is not None and not _INFINITIVE.search(clause) and (again != "who" or clause == subject)
