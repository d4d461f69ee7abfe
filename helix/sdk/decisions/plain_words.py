"""Plain words that state a decision or reject something, one sentence at a time; data/decisions.toml has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from helix.enrich.facts.sentences import is_hedged, normalise, split_sentences
from helix.enrich.facts.slots import DETERMINER, TRAILING, cut_clause
from helix.enrich.facts.words import PATTERNS, VAGUE
from helix.text.language_words import has_words
from helix.text.languages import ENGLISH
from helix.text.tokenize import hash_terms, tokenise
from helix.types import U64
from helix.util.wordlists import fill_pattern, read_patterns

_PIECES, WORDS = read_patterns("helix.sdk.decisions", "decisions")
"""The tables of the file: relations, topics' names, patterns."""

LONGEST: Final = 300
"""Characters of a sentence that may state a decision; a longer one is a log."""

MAX_READ: Final = 200
"""Items whose text is searched for plain words, the newest; reading more takes milliseconds."""

_MOST_WORDS: Final = 6  # of the name of what is rejected
_REASON: Final = re.compile(
    r"(?i)\A[\s\"'`)]*(?: for now)?(?:\s*[:;(–—,]|\s-\s|\s*,?\s(?:because(?: of)?|since|as|due to|for being|given)\s)"
    r"\s*(?!(?:and|so|but|or|which|then)\b)(?P<why>\S.*)"
)


class WordedRejection(NamedTuple):
    """A rejection as a sentence states it."""

    what: str
    reason: str  # "" where the sentence gives none
    sentence: str


class _StatingPattern(NamedTuple):
    """A pattern, the roles whose turns may say so, and substrings of which a text has one."""

    pattern: re.Pattern[str]
    by: frozenset[str]
    contains: tuple[str, ...]

    def may_match(self, lower: str, role: str) -> bool:
        """Return whether a text in lower case may match."""
        return role in self.by and any(one in lower for one in self.contains)


def _compile_patterns(name: str) -> tuple[_StatingPattern, ...]:
    return tuple(
        _StatingPattern(
            re.compile(fill_pattern(one["pattern"], _PIECES), re.IGNORECASE),
            frozenset(one["by"]),
            tuple(one["contains"]),
        )
        for one in WORDS[name]
    )


_DECIDED: Final = _compile_patterns("decided")
_REJECTED: Final = _compile_patterns("rejected")

REJECTING_TERMS: Final[Sequence[U64]] = tuple(
    hash_terms(tokenise(words)) for one in WORDS["rejected"] for words in one["terms"]
)
"""Terms by which items with a rejection are found: an item has all terms of one entry."""


def find_decision(text: str, role: str, language: str = ENGLISH) -> str:
    """Return the first sentence that states a decision; "" if none does."""
    if language == ENGLISH:
        return next((raw for raw, _ in _find_matches(text, role, _DECIDED)), "")
    sentences = (raw.strip() for raw in split_sentences(text)) if role != "tool" else ()
    return next((one for one in sentences if _states_decision(one, language)), "")


def _states_decision(sentence: str, language: str) -> bool:
    is_asked = sentence.endswith(("?", "？")) or len(sentence) > LONGEST
    return not is_asked and has_words(language, sentence, "cues", "decides")


def find_rejections(text: str, role: str) -> list[WordedRejection]:
    """Return the things that a text rejects, in order."""
    found = []
    for raw, match in _find_matches(text, role, _REJECTED):
        group = next(name for name, value in match.groupdict().items() if value)
        named = cut_clause(match[group])
        what = DETERMINER.sub("", named).strip("`\"' ")
        if 0 < len(what.split()) <= _MOST_WORDS and named.lower().split()[0] not in VAGUE:
            end = match.end() if group in _WHOLE else match.start(group) + len(named)
            found.append(WordedRejection(what, _cut_reason(match.string[end:]), raw))
    return found


_WHOLE: Final = ("o2", "o5")  # groups that end before the verb


def read_reason(sentence: str, what: str) -> str:
    """Return the reason that a sentence gives after a name; "" where it gives none."""
    spoken = normalise(sentence)
    at = spoken.lower().find(what.lower())
    if at < 0:
        return ""
    after = spoken[at + len(what) :]
    begins = _BECAUSE.search(after)
    return _cut_reason(after) or (_cut_reason(after[begins.start() :]) if begins else "")


_BECAUSE: Final = re.compile(r"(?i)(?:,? (?:because|due to)|:) ")


def _cut_reason(after: str) -> str:
    """Return the reason after a name; one word alone is a second name."""
    match = _REASON.match(after)
    reason = match["why"].strip(TRAILING) if match else ""
    return reason if " " in reason else ""


def _find_matches(text: str, role: str, patterns: Sequence[_StatingPattern]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield (sentence, match) of sentences that state something: no question, supposition, doubt or quotation."""
    text = text.replace("’", "'").replace("‘", "'")
    lower = text.lower()
    patterns = [one for one in patterns if one.may_match(lower, role)]
    for raw in split_sentences(text) if patterns else ():
        sentence = raw.strip()
        lower = sentence.lower()
        likely = [one.pattern for one in patterns if one.may_match(lower, role)]
        if len(sentence) > LONGEST or sentence.endswith("?") or not likely:
            continue
        spoken = normalise(sentence)
        match = next((found for pattern in likely if (found := pattern.search(spoken))), None)
        if match and not _is_doubted(spoken, match):
            yield sentence, match


def _is_doubted(spoken: str, match: re.Match[str]) -> bool:
    before = spoken[: match.start()]
    said = before + match[0][:_SAID]
    return (
        PATTERNS["unreal"].search(spoken) is not None
        or PATTERNS["reported"].search(before) is not None
        or is_hedged(said)
        or spoken.count('"') % 2 == 1
    )


_SAID: Final = 40  # characters of a match that a doubt is looked for in


def list_words(name: str) -> frozenset[str]:
    """Return the words of an entry of the file."""
    words: Any = WORDS[name]
    return frozenset(words.split())
