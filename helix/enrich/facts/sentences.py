"""Sentences and clauses of prose, in one spelling, and guards against those that state no fact."""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def is_play(sentence: str) -> bool:
    """Return whether the rest of a text is make-believe, or material to work on."""
    return PATTERNS["play"].search(sentence.lower()) is not None


def is_joke(sentence: str) -> bool:
    """Return whether a sentence takes itself and the one before it back."""
    return _JOKE.search(sentence) is not None


def is_undoing(sentence: str) -> bool:
    """Return whether a sentence takes back what the one before it did: "Deleted those files"."""
    return _UNDONE.match(sentence) is not None


_UNDONE: Final = re.compile(
    r"(?i)\W*(?:I |we |but |then |later |and ){0,3}(?:deleted|removed|reverted|undid|discarded|rolled back) "
    r"(?:those|these|that|this|it|them|both)\b(?! \w+ (?:from|in|of) )"
)


def is_readable(sentence: str) -> bool:
    """Return whether a sentence has the length of prose; a longer one is a log."""
    return _SHORTEST <= len(sentence) <= _LONGEST


def cut_question(sentence: str) -> str:
    """Return a sentence without the question after its statement: "…, what about you?"; "" for a question."""
    if sentence.endswith("?") or "?" in sentence[-4:]:
        tail = _OK_TAIL.search(sentence) or PATTERNS["tail question"].search(sentence)
        return sentence[: tail.start()].rstrip(" ,;:-–—(") if tail else ""
    return sentence


def is_stated(statement: str) -> bool:
    """Return whether it is no question, supposition, order or quotation."""
    opens = PATTERNS["asks"].match(statement) or PATTERNS["orders"].match(statement) or _SAMPLE.match(statement)
    if opens or PATTERNS["unreal"].search(statement):
        return False
    quotes = len(_QUOTE.findall(statement))
    return not (quotes and (quotes % 2 or _QUOTED_SPEECH.search(statement)))


_SHORTEST, _LONGEST = 6, 600  # characters of a sentence
_SHORT_REPORT: Final = 5  # words: "…, she says" attributes the clause before it


def is_hedged(clause: str) -> bool:
    """Return whether the speaker doubts it: "maybe", "I guess"."""
    return PATTERNS["hedged"].search(clause) is not None


def is_doubtful(clause: str) -> bool:
    """Return whether it is hedged, or has a modal verb: "could"."""
    return is_hedged(clause) or PATTERNS["modal"].search(clause) is not None


def attribute_clauses(clauses: list[str]) -> Iterator[tuple[str, bool, bool]]:
    """Yield each clause, whether the next one attributes or revokes it ("…, I guess"), and whether it does itself."""
    for clause, after in zip(clauses, [*clauses[1:], ""], strict=True):
        short = len(after.split()) <= _SHORT_REPORT
        tail = PATTERNS["reported"].search(after)
        by_tail = (tail is not None and (tail.start() == 0 or short)) or (short and is_hedged(after))
        yield clause, by_tail, PATTERNS["reported"].search(clause) is not None


def is_attributed(match: re.Match[str]) -> bool:
    """Return whether the speaker doubts a match, or reports it of somebody else, before the comma after its object."""
    text = match.string
    comma = text.find(",", max(match.start("o") if "o" in match.groupdict() else match.end(), 0))
    end = comma if comma >= 0 else len(text)
    return bool(PATTERNS["hedged"].search(text, 0, end) or PATTERNS["reported"].search(text, 0, end))


_PAUSE: Final = re.compile(r",|: ")


def is_denied(clause: str, match: re.Match[str], negative: bool) -> bool:
    """Return whether a negation or a modal verb precedes the comma or colon after the object's begin.

    Args:
        negative: the pattern itself has a negation, so none counts.
    """
    begin = match.start("o") if "o" in match.groupdict() else match.end()
    pause = _PAUSE.search(clause, max(begin, 0))
    end = pause.start() if pause else len(clause)
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
            yield from _split_line(held)
            held = ""
            continue
        marker = _MARKER.match(line)
        line = line[marker.end() :] if marker else line.strip()
        # A hard-wrapped line continues in lower case.
        if held and not marker and line[:1].islower() and held[-1] not in ".!?:":
            held = f"{held} {line}"
            continue
        yield from _split_line(held)
        held = line
    yield from _split_line(held)


# Before most ends of sentences, and much quicker to find.
_END_HINT: Final = re.compile(r"[.!?…\"')\]\U0001F300-\U0001FAFF]\s| (?:Do|Can|Could|Would|Did|How|What) ")


def _split_line(line: str) -> list[str]:
    return PATTERNS["end"].split(line) if _END_HINT.search(line) else [line]


_CONTRACTIONS: Final = read_toml("helix.enrich", "fact_patterns")["contractions"]
# White space of any length.
SPACE: Final = re.compile(r"\s+")
_EMPHASIS: Final = re.compile(
    r"\*{1,3}|(?<![\w`./])(?P<sign>_{1,2})(?=[^\W_])(?P<text>[^_`\n]{1,200})(?P=sign)(?![\w`(]|\.\w)"
)


_SHORT_FORMS: Final = frozenset(key for key in _CONTRACTIONS if key.isalpha())


_LINK: Final = re.compile(r"\[([^\]\[]{1,80})\]\([^()\s]{1,300}\)")


def normalise(sentence: str) -> str:
    """Return a sentence without contractions, emphasis and double spaces, so that one pattern fits all spellings."""
    if "*" in sentence or "_" in sentence:
        sentence = _EMPHASIS.sub(lambda match: match["text"] or "", sentence)
    if "](" in sentence:
        sentence = _LINK.sub(r"\1", sentence)
    if "'" in sentence or not _SHORT_FORMS.isdisjoint(sentence.lower().split()):
        sentence = PATTERNS["contraction"].sub(lambda m: _CONTRACTIONS.get(m.group().lower(), m.group()), sentence)
        sentence = PATTERNS["is"].sub(" is ", sentence)
    return " ".join(sentence.split())


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


def find_reason(statement: str) -> tuple[int, str]:
    """Return begin and text of the reason that a statement gives: "too much to run"; "" for none."""
    match = PATTERNS["reason"].search(statement)
    return (match.start(), match["why"].strip(" .,;!)")) if match else (0, "")
