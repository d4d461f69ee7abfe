"""Intent of a question and other wordings of it, by rules over its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from helix.text.entities import find_entities
from helix.text.tokenize import STOP_WORDS, tokenise

Days = Sequence[tuple[int, int, float]]
"""(first second, last second, weight) of each span a question names, as in `Query.days`."""


class Intent(NamedTuple):
    """The intent of a question."""

    primary: str  # aggregation temporal preference troubleshooting procedural factual
    complexity: str  # simple moderate complex
    domains: tuple[str, ...]  # code people places organisations time
    entities: tuple[str, ...]  # as written
    requires_reasoning: bool


# The first that matches is the primary intent.
_PRIMARY: Final = (
    (
        "aggregation",
        r"how (?:many|often)|list (?:all|every|each|the)|which (?:ones )?of|all (?:of )?the|"
        r"every (?:time|one)|in total|name (?:all|the)",
    ),
    (
        "temporal",
        r"when|how (?:long|recently)|since|until|what (?:day|date|time|year|month|week)|which (?:day|year|month|week)|"
        r"ago|yesterday|last (?:time|week|month|year)|most recent(?:ly)?|latest|the first time",
    ),
    (
        "preference",
        r"prefer\w{0,6}|favou?rites?|likes? (?:best|better|most)|recommend\w{0,8}|suggest\w{0,8}|"
        r"should (?:i|we) (?:use|choose|pick|get|buy|try|take)|"
        r"(?:do|does) (?:i|we|\w{1,30}) (?:like|love|use|enjoy|usually)|would (?:i|\w{1,30}) (?:like|enjoy|prefer)",
    ),
    (
        "troubleshooting",
        r"errors?|exceptions?|fail\w{0,5}|broken|crash\w{0,3}|bugs?|fix(?:ed|es)?|locked|stuck",
    ),
    ("procedural", r"how (?:do|does|did|can|could|should|would|to)|steps?|set up|install|configure"),
)
_PATTERNS: Final = tuple((name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for name, words in _PRIMARY)
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

_WORD = re.compile(r"[\w'’.@/+-]{1,200}")
_REQUEST_WORDS: Final = frozenset(
    ("tell", "told", "say", "said", "think", "know", "remember", "recall", "mention", "mentioned", "find", "list",
     "show", "name", "many", "much", "often", "long", "please", "give", "prefer", "preferred", "favourite", "favorite",
     "like", "recommend", "suggest", "use", "usually", "best", "last")
)  # fmt: skip
"""Words of the request, not of its topic."""

_QUESTION = re.compile(
    r"^\W{0,9}(?:(?:and|so|but|then|also|please)\s{1,9})?"
    r"(?:what|when|where|who|whom|whose|which|why|how(?:\s{1,9}(?:many|much|often|long|far|old|come))?)\b\s{0,9}"
    r"(?:(?:did|does|do|is|are|was|were|has|have|had|can|could|should|would|will)\b\s{0,9})?",
    re.IGNORECASE,
)
_FUTURE_WORDS = re.compile(r"\b(?:will|going to|next|tomorrow|upcoming|plan(?:s|ning)?)\b", re.IGNORECASE)
_PREFERS = re.compile(
    r"\bI(?: (?:really|usually|always|mostly|mainly|only|still|also|much|do|now)){0,2}"
    r" (?:use|prefer|like|love|favou?r|enjoy)\b[^.,;:!?()\n]{1,60}",
    re.IGNORECASE,
)

PROBE: Final = "use prefer like love favour enjoy"
"""Words that users state preferences with."""

_PAST: Final = ("yesterday", "last week", "last month", "a while ago", "today")
_FUTURE: Final = ("tomorrow", "next week", "next month", "soon", "today")

_MONTHS: Final = (
    ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
     "December")
)  # fmt: skip


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
    primary = next((name for name, pattern in _PATTERNS if pattern.search(text)), "temporal" if days else "factual")
    kinds = {entity.kind for entity in found}
    return Intent(
        primary=primary,
        complexity="simple" if terms <= simple else "moderate" if terms <= moderate else "complex",
        domains=tuple(name for name, wanted in _DOMAINS.items() if kinds & wanted),
        entities=tuple(dict.fromkeys(entity.name for entity in found)),
        requires_reasoning=primary == "aggregation" or bool(_REASONING.search(text)),
    )


def choose(mode: str, intent: Intent) -> str:
    """Return the mode, hybrid or vector; `auto` uses vectors alone for questions without exact words.

    Such a question is simple, without a name, a time, a preference, an error or reasoning.
    """
    if mode != "auto":
        return mode
    plain = intent.primary in ("factual", "procedural") and not intent.entities and not intent.requires_reasoning
    return "vector" if plain and intent.complexity == "simple" else "hybrid"


def extract_topic(text: str) -> str:
    """Return the words of a question's topic.

    >>> extract_topic("What did I tell Priya about vacation?")
    'Priya vacation'
    """
    words = [word.strip(".'’-/") for word in _WORD.findall(text.replace("'s", " ").replace("’s", " "))]
    left = (word for word in words if word and word.lower() not in STOP_WORDS | _REQUEST_WORDS)
    return " ".join(word for word in left if word != "will")  # Will is a name


def strip_question(text: str) -> str:
    """Return a question without its question word and its auxiliary.

    >>> strip_question("Where did we set the timeout?")
    'we set the timeout'
    """
    return _QUESTION.sub("", text, count=1).strip(" ?!.\n\t")


def write_hypothetical(text: str, intent: Intent, days: Days) -> str:
    """Write a sentence that would answer the question, by template.

    It replaces the generated one of HyDE (Gao et al. 2022, "Precise Zero-Shot Dense Retrieval without Relevance
    Labels").
    """
    rest, about = strip_question(text), extract_topic(text)
    if intent.primary == "temporal":
        return f"{rest} {next(_format_days(days), 'last week')}."
    if intent.primary == "preference":
        return f"I like {about} best."
    if intent.primary == "aggregation":
        return f"There are several: {about}."
    if intent.primary == "troubleshooting":
        return f"The problem was {about}, and it is fixed now."
    if intent.primary == "procedural":
        return f"This is how {rest}."
    return f"{rest}."


def expand(text: str, intent: Intent, days: Days, phrases: Sequence[str], least: int, most: int) -> list[str]:
    """Return `least` to `most` other wordings of a temporal or a preference question; none of any other.

    Args:
        days: spans that the question names.
        phrases: what users said of their own preferences, best first.
    """
    about = extract_topic(text) or strip_question(text)
    if intent.primary == "temporal":
        times = _FUTURE if _FUTURE_WORDS.search(text) else _PAST
        wordings = [f"{about} {time}" for time in (*_format_days(days), *times)]
    elif intent.primary == "preference":
        plain = [f"I prefer {about}", f"I like {about}", f"my favourite {about}", f"I use {about}", f"I enjoy {about}"]
        wordings = [*phrases, *plain[: max(0, least - len(phrases))]]
    else:
        return []
    return list(dict.fromkeys(wordings))[:most]


def find_preferences(texts: Sequence[str], most: int) -> list[str]:
    """Return what writers say they use, prefer or like, each once, at most `most`.

    >>> find_preferences(["Well, I really prefer oat milk. Bye", "I like it"], 3)
    ['I really prefer oat milk']
    """
    phrases: dict[str, str] = {}
    for phrase in (match.group().strip() for text in texts for match in _PREFERS.finditer(text)):
        if len(tokenise(phrase)) > 1:  # not "I like it"
            phrases.setdefault(phrase.lower(), phrase)
    return list(phrases.values())[:most]


def _format_days(days: Days) -> Iterator[str]:
    """Yield each span in words, the weightiest first: a day, a month, or a year."""
    for first, last, _ in sorted(days, key=lambda span: (-span[2], span[0], span[1])):
        start, length = datetime.fromtimestamp(first, UTC), last - first
        if length <= 86_400:
            yield f"{start.day} {_MONTHS[start.month - 1]} {start.year}"
        else:
            yield f"{_MONTHS[start.month - 1]} {start.year}" if length <= 31 * 86_400 else str(start.year)
