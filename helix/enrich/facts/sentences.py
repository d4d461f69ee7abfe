"""Sentences and clauses of prose, in one spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.enrich.facts.guards import is_doubtful
from helix.enrich.facts.words import ANY_KIN, KIN_ADJECTIVE, NAME, OTHER_KIN

_FENCE: Final = re.compile(r"\s{0,8}(?:```|~~~)")
# Opens a quotation, a table, a heading, a shell command, a diff, a stack trace or code.
_NO_PROSE: Final = re.compile(
    r"\s{0,8}(?:>|\||#|\$ |❯|<|@@|\+\+\+|---|===|at [\w.$<>]+\s?\(|File \"|Traceback|\w{1,60}(?:Error|Exception):)|"
    r"(?: {4}|\t)\s{0,40}(?![-*•\d\s])|\s{0,8}[\w.]{1,40} ?(?:=|:=|==) ?\S"
)
_MARKER: Final = re.compile(r"\s{0,12}(?:[-*+•–] |\d{1,3}[.)] |\[[ x]\] )\s{0,4}(?:\[[ x]\] )?")
# The end of a sentence, but not after "e.g.", "Dr." or an initial.
_END: Final = re.compile(
    r"(?<![ (]e\.g\.)(?<![ (]i\.e\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bSt\.)(?<!\bvs\.)(?<!\bNo\.)"
    r"(?<!\betc\.)(?<!\b[A-Z]\.)(?:(?<=[.!?…])|(?<=[.!?][\"')\]])|(?<=[\U0001F300-\U0001FAFF]))\s{1,8}|"
    r"(?<=[a-z)]) (?=(?:Do|Can|Could|Would|Did|How|What) (?:you|I|we|do|is|are|the)\b)"
)


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of prose, without code blocks, stack traces, headings, tables and quoted lines."""
    fenced = False
    held = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        fenced ^= fence
        line = line.rstrip()
        if fence or fenced or line.endswith((";", "{", "}")) or not line or _NO_PROSE.match(line):
            yield from _END.split(held)
            held = ""
            continue
        marker = _MARKER.match(line)
        line = line[marker.end() :] if marker else line.strip()
        # A hard-wrapped line continues in lower case.
        if held and not marker and line[:1].islower() and held[-1] not in ".!?:":
            held = f"{held} {line}"
            continue
        yield from _END.split(held)
        held = line
    yield from _END.split(held)


# fmt: off
_CONTRACTIONS: Final = {
    "'m": " am", "'re": " are", "'ve": " have", "'ll": " will", "'d": " would", "can't": "can not", "cannot": "can not",
    "cant": "can not", "won't": "will not", "wont": "will not", "dont": "do not", "doesnt": "does not",
    "didnt": "did not", "isnt": "is not", "arent": "are not", "n't": " not", "i": "I", "im": "I am", "ive": "I have",
    "there's": "there is", "it's": "it is", "that's": "that is", "thats": "that is", "what's": "what is",
    "who's": "who is", "name's": "name is", "he's": "he is", "she's": "she is",
}
# fmt: on
_CONTRACTION: Final = re.compile(
    r"(?i)(?<=\w)'(?:m|re|ve|ll|d)\b|\b(?:can't|won't|cannot|dont|doesnt|didnt|isnt|cant|wont|arent|im|ive|thats|"
    r"(?:there|it|that|what|who|name|he|she)'s)\b|(?<=\w)n't\b|(?<![\w./'-])i(?![\w./-])"
)
_IS: Final = re.compile(
    "(?<=[a-z])'s (?=(?:a|an|from|been|now|moving|working|living|studying|allergic|vegan|vegetarian|married|dating|"
    r"my|our|in charge|responsible|called|named|originally|currently|set to|owned|running on|hosted|fluent)\b)"
)
# White space of any length.
SPACE: Final = re.compile(r"\s+")
_EMPHASIS: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)")


def normalise(sentence: str) -> str:
    """Return a sentence without contractions, emphasis and double spaces, so that one pattern fits all spellings."""
    sentence = _EMPHASIS.sub("", sentence)
    sentence = _CONTRACTION.sub(lambda m: _CONTRACTIONS.get(m.group().lower(), m.group()), sentence)
    return SPACE.sub(" ", _IS.sub(" is ", sentence)).strip()


# Verbs of a clause that shares the subject of the one before; verbs that make a clause of a thing.
_VERBS: Final = (
    r"works|work(?= (?:at|for|as|in|on|with)\b)|lives?|study(?= (?:at|in)\b| \w+ at\b)|studies|speaks?|am|is|are|"
    "have|has|uses|loves|hates?|owns?|prefers?|enjoys?|moved|switched|decided|bought|married|comes?|joined|started|"
    "likes?|dislikes?|sold|quit|was born|runs on|run on"
)
_FINITE: Final = (
    "is|are|was|were|has|had|lives?|runs?|sits?|works|loves|hates|owns|studies|speaks|prefers|comes|uses|goes"
)
# A border between clauses.
_CLAUSE: Final = re.compile(
    r" ?[;–—] ?| --? |,? \b(?:but|though|although|because|while|whereas|so that)\b |,? so (?!much|far|many|that)|,? "
    r"(?=which )|, (?=where )|, (?=not (?!sure)\w)|, (?=(?:have|has|had|did|do|does|is|are|was|were|can|will) not\b)|"
    r",? and (?=(?:I|we|my|our|he|she|they|it|that|there|this)\b)|"
    rf",? and (?=(?:(?:[Tt]he|[Oo]ur|[Mm]y|[Ii]ts) (?:[\w-]+ ){{1,3}})(?:{_FINITE})\b)|,? and (?={NAME} (?:is|was|has|"
    r"lives|works|loves|hates|owns|studies|speaks|prefers|comes|uses)\b)|(?P<comma>, )(?=(?:I|[Ww]e|he|she|they|it|"
    rf"there|(?:the|our|my|its|this|that) (?:[\w-]+ ){{1,3}}(?:{_FINITE})|{NAME} (?:{_FINITE}|and I))\b)|,? "
    rf"(?P<again>and|who|then) (?:then |who )?(?=(?:(?:now|also|currently|still|both|just|really) )?(?:{_VERBS})\b)"
)

# "In 2019, we …": not a clause of its own.
_LEADING: Final = re.compile(
    r"(?i)(?:in|on|since|as of|from|until|till|at|by|last|next|this|after|before|for|\d+|two|three|a|one|yesterday|"
    "today|tomorrow|starting|back in|finally|currently|now|right now|so|well|and|also|oh|hi|hey|ok|yes|no|"
    r"yeah)\b[^,]{0,40}\Z"
)
_OWN_SUBJECT: Final = re.compile(
    "(?:(?:and|so|well|yes|yeah|ok|also|btw|actually|honestly|but|now),? ){0,2}(?P<s>I|[Ww]e|(?:[Mm]y|"
    rf"[Oo]ur) {KIN_ADJECTIVE}(?:{ANY_KIN}|{OTHER_KIN}),? {NAME}|{NAME}(?= (?:{_VERBS}|was|had|works)\b))"
)


def _is_doubt(clause: str) -> bool:
    """Return whether a clause is only a doubt about the next one: "Someday, …"."""
    return len(clause.split()) <= 3 and is_doubtful(clause)


_AND_I: Final = re.compile(rf"((?:\A|[,:;] ){NAME}) and I\b")
_INFINITIVE: Final = re.compile(r"\b(?:to|can|will|would|could|should|might|must|let|help|please) [a-z]+\b")


def split_clauses(statement: str) -> Iterator[str]:
    """Yield the clauses of a statement; a shared subject is repeated: "I live …", "I work …"."""
    statement = _AND_I.sub(r"\1 & I", statement)  # one subject, not a border
    start = 0
    subject = ""
    share = False
    for border in [*_CLAUSE.finditer(statement), None]:
        clause = statement[start : border.start() if border else len(statement)].strip(" ,")
        if border and border["comma"] and (_LEADING.match(clause) or _is_doubt(clause)):
            continue
        if share and subject:
            clause = f"{subject} {clause}"
        own = _OWN_SUBJECT.match(clause)
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
