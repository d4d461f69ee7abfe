"""Sentences and clauses of prose, in one spelling, and guards against those that state no fact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from helix.enrich.facts.words import PATTERNS
from helix.util.wordlists import read_toml

_JOKE: Final = re.compile(r"\b(?:kidding|jk|joking|just a joke|psych|april fools?)\b|(?<!\w)/s\b", re.I)
_NEGATED: Final = re.compile(
    r"(?i)\b(?:not|never|no|none|nobody|nothing|neither|nor|without|hardly|barely|rarely|seldom|far from)\b"
)
_OK_TAIL: Final = re.compile(r",? ?(?:so [^,?]{1,60})?,? (?:ok|okay|yeah)\s*\?+\s*\Z", re.I)
_QUOTE: Final = re.compile(r"[\"“”«»]")
_QUOTED_SPEECH: Final = re.compile(r"[\"“«][^\"“”«»]*\s[^\"“”«»]*\s[^\"“”«»]*[\"”»]")
_SAMPLE: Final = re.compile(r"\A[^:]{0,80}\b(?:sentence|text|sample|example|bio|template|prompt)\b[^:]{0,40}:", re.I)


def drop_play(sentences: Iterable[str]) -> list[str]:
    """Return the sentences up to the begin of make-believe, without jokes and the sentences before them."""
    serious: list[str] = []
    for raw in sentences:
        sentence = raw.strip()
        if PATTERNS["play"].search(sentence.lower()):
            break
        if _JOKE.search(sentence):
            if serious:
                serious.pop()
        elif _SHORTEST <= len(sentence) <= _LONGEST:
            serious.append(sentence)
    return serious


def cut_statement(sentence: str) -> str:
    """Return the stated part of a sentence; "" for a question, a supposition, an order or a quotation."""
    if sentence.endswith("?") or "?" in sentence[-4:]:
        tail = _OK_TAIL.search(sentence) or PATTERNS["tail question"].search(sentence)
        if tail is None:
            return ""
        sentence = sentence[: tail.start()].rstrip(" ,;:-–—(")
    opens = PATTERNS["asks"].match(sentence) or PATTERNS["orders"].match(sentence) or _SAMPLE.match(sentence)
    if opens or PATTERNS["unreal"].search(sentence):
        return ""
    quotes = len(_QUOTE.findall(sentence))
    if quotes and (quotes % 2 or _QUOTED_SPEECH.search(sentence)):
        return ""
    return sentence


_SHORTEST, _LONGEST = 6, 600  # characters of a sentence; a longer one is a log
_SHORT_REPORT: Final = 5  # words: "…, she says" attributes the clause before it


def is_hedged(clause: str) -> bool:
    """Return whether the speaker doubts it: "maybe", "I guess"."""
    return PATTERNS["hedged"].search(clause) is not None


def is_doubtful(clause: str) -> bool:
    """Return whether it is hedged, or has a modal verb: "could"."""
    return is_hedged(clause) or PATTERNS["modal"].search(clause) is not None


def attribute_clauses(clauses: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each clause, and whether it is attributed to somebody else or revoked by the next one: "…, I guess"."""
    for clause, after in zip(clauses, [*clauses[1:], ""], strict=True):
        short = len(after.split()) <= _SHORT_REPORT
        tail = PATTERNS["reported"].search(after)
        by_tail = (tail is not None and (tail.start() == 0 or short)) or (short and is_hedged(after))
        yield clause, by_tail or PATTERNS["reported"].search(clause) is not None


def is_denied(clause: str, match: re.Match[str], negative: bool) -> bool:
    """Return whether a negation or a modal verb precedes the comma after the object's begin.

    Args:
        negative: the pattern itself has a negation, so none counts.
    """
    begin = match.start("o") if "o" in match.groupdict() else match.end()
    comma = clause.find(",", max(begin, 0))
    end = comma if comma >= 0 else len(clause)
    return bool(PATTERNS["modal"].search(clause, 0, end) or (not negative and _NEGATED.search(clause, 0, end)))


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


_CONTRACTIONS: Final = read_toml("helix.enrich", "fact_patterns")["contractions"]
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
