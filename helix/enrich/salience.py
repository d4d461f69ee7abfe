"""How much a text is worth remembering, and how far it can be believed: stated sums, no model."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.classify import SCANNED, cue

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)

CUES: Final = (
    cue(
        "decision",
        0.25,
        "decided|agreed|settled|chose|we'll use|we will use|let's|lets|instead of|went with|ruled out",
        r"\b(?:decided|agreed|settled on|chose|we'll use|we will use|instead of|went with|ruled out)\b",
        r"\blet'?s (?:go with|use|keep the)\b",
    ),
    cue(
        "commitment",
        0.2,
        "i'll|i will|we'll|we will|promise|deadline|due |by |action item|todo|remind me|remember to",
        r"\b(?:i'll|i will|we'll|we will|i promise|deadline|due (?:on|by)|action item|todo|remind me|remember to)\b",
        r"\bby (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|eod)\b",
    ),
    cue(
        "preference",
        0.25,
        "prefer|love|hate|dislike|stand|avoid|favo|always|never|please",
        r"\b(?:i|we) (?:\w+ )?(?:prefer|love|hate|dislike|can't stand|avoid)\b",
        r"\bmy favou?rite\b",
        r"\b(?:always|never) (?:use|do|run|commit|push|add|write|make|put)\b",
        r"\bplease (?:don't|do not|always|never)\b",
    ),
    cue(
        "correction",
        0.25,
        "no|wrong|actually|wait|n't|meant|correction|should have|you forgot|you miss",
        r"^\W{0,4}(?:no|nope|wrong|actually|wait)\b[,.! ]",
        r"\b(?:that'?s (?:not|wrong)|isn't (?:right|correct)|i meant|correction|should have been|not what i)\b",
        r"\byou (?:forgot|missed|misunderstood)\b",
    ),
    cue(
        "resolution",
        0.25,
        "cause|problem|issue|bug|culprit|fix|reason|resolved|turns out|turned out|solved|workaround|now ",
        r"\b(?:root cause|resolved|turn(?:s|ed) out|solved|workaround|the fix:|now (?:passes|works))\b",
        r"\bthe (?:problem|issue|bug|cause|culprit|fix|reason) (?:is|was)\b",
        r"\bfixed (?:by|it|the|in)\b",
    ),
    cue(
        "error",
        0.1,
        "Error|Exception|ENO|EACCES|panic|segfault|failed|traceback|Traceback",
        r"[A-Za-z](?:Error|Exception)\b|\b(?:ENO[A-Z]+|EACCES|panic:|segfault|failed with|[tT]raceback)",
        raw=True,
    ),
    cue(
        "person",
        0.2,
        "my |i'm |i am |i ",
        r"\bmy (?:name|wife|husband|partner|birthday|job|dog|cat|son|daughter|mom|dad|mother|father|sister|brother|"
        r"family|kids?)\b",
        r"\bi(?:'m| am) (?:a|an|allergic|from|moving|engaged|married|pregnant)\b",
        r"\bi (?:live|work|moved|got (?:a|the|married|engaged|promoted)|bought|adopted|graduated|signed up|joined|"
        r"started)\b",
    ),
    cue(
        "date",
        0.1,
        "",
        rf"\b(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}|(?:19|20)\d\d)\b",
        rf"\b{_MONTH} \d{{1,2}}\b",
        r"\b(?:yesterday|tomorrow|tonight|(?:days?|weeks?|months?|years?) ago)\b",
        r"\b(?:last|next|this) (?:week|month|year|weekend|summer|winter|[a-z]{3,6}day)\b",
    ),
    cue("number", 0.05, "", r"(?<![\w.#/-])[$€£]?\d+(?:[.,]\d+)*(?:%| ?[a-z]{1,7}\b)?(?![\w/-])"),
    cue(
        "emphasis",
        0.15,
        "important|critical|crucial|must|never|warning|note that|key |careful|beware|remember",
        r"\b(?:important|critical(?:ly)?|crucial|must|never|warning|note that|key (?:point|insight|finding)|careful|"
        r"beware|remember)\b",
    ),
    cue("shouting", 0.05, "", r"!{2,}|\b[A-Z]{4,} [A-Z]{4,}\b|\*\*[^*\n]{3,80}\*\*", raw=True),
)
"""The table of cues. Each counts once, however often it is seen, so length alone earns nothing."""

BASE: Final = 0.2
TYPE_BONUS: Final = {"decision": 0.2, "semantic": 0.1, "procedural": 0.1}
ORIGIN_FACTOR: Final = {"tool": 0.5, "runtime_context": 0.3, "subagent": 0.8, "assistant": 0.9}
"""Machines name errors and numbers all the time; people when they matter. 1 for every other origin."""

CHATTER: Final = 0.03
_CHATTER_LENGTH: Final = 80
"""Characters; a longer text is not chatter, whatever its words."""
_CHATTER_TEXT: Final = (
    "ok okay k kk thank thanks thx ty lol haha hehe cool great nice awesome perfect sure yes yeah yep yup no nope "
    "hi hey hello bye goodbye good morning night job work got it sounds continue go on ahead please do done right "
    "true wow oh ah hm hmm um so much a lot you too problem np welcome youre sorry see later take care there and is "
    "that thats all very proceed next warmup absolutely definitely indeed exactly fine well amazing wonderful "
    "lovely glad same here both agreed totally "
)
_CHATTER: Final = frozenset(_CHATTER_TEXT.split())
_WORD = re.compile(r"\w+")

_CONFIDENCE: Final = {
    "human": 0.8,
    "document": 0.75,
    "assistant": 0.6,
    "subagent": 0.5,
    "tool": 0.5,
    "runtime_context": 0.5,
    "summary": 0.4,
}
"""By origin: who can be expected to know."""
_ORIGIN_OF: Final = {"user": "human", "assistant": "assistant", "tool": "tool", "document": "document"}
"""By role, for an origin nobody knows; `runtime_context` for the rest."""

_SPECULATION: Final = 0.7
"""Factor of a statement its author hedges."""
_HEDGE = cue(
    "hedge",
    _SPECULATION,
    "maybe|perhaps|possibly|probably|i think|i guess|i suppose|i believe|i assume|sure|might|could be|seem|likely|"
    "presumably|afaik|iirc|unclear",
    r"\b(?:maybe|perhaps|possibly|probably|i (?:think|guess|suppose|believe|assume)|"
    r"not (?:entirely |really |quite )?sure|might|could be|seems? (?:to|like)|likely|presumably|afaik|iirc|unclear)\b",
)


def salience(text: str, role: str, origin: str, type_: str) -> float:
    """Worth of remembering `text`, in [0, 1]: min(1, factor(origin) · (BASE + bonus(type) + Σ weights of cues seen)).

    Chatter ("ok, thanks!") is `CHATTER`, text without a word 0. `role` decides where `origin` is not known.
    """
    text = text[:SCANNED]
    lower = text.lower()
    if len(text) <= _CHATTER_LENGTH:
        words = _WORD.findall(lower.replace("'", "").replace("’", ""))
        if not words:
            return 0.0
        if _CHATTER.issuperset(words):
            return CHATTER
    cues = sum(row.weight for row in CUES if row.seen(text, lower))
    factor = ORIGIN_FACTOR.get(_source(role, origin), 1.0)
    return round(min(1.0, factor * (BASE + TYPE_BONUS.get(type_, 0.0) + cues)), 4)


def confidence(text: str, role: str, origin: str) -> float:
    """How far `text` can be believed, in [0, 1]: by who says it, times .7 where it is hedged."""
    base = _CONFIDENCE[_source(role, origin)]
    text = text[:SCANNED]
    return round(base * _SPECULATION, 4) if _HEDGE.seen(text, text.lower()) else base


def _source(role: str, origin: str) -> str:
    return origin if origin in _CONFIDENCE else _ORIGIN_OF.get(role, "runtime_context")
