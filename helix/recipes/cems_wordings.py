"""Other wordings of a question, by rules: expansions, and a hypothetical answer.

In the deep tier a model writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from helix.recipes.cems_intent import Days, Intent
from helix.text.tokenize import STOP_WORDS, tokenise

_WORD = re.compile(r"[\w'’.@/+-]{1,200}")
_REQUEST_WORDS: Final = frozenset(
    ("tell", "told", "say", "said", "think", "know", "remember", "recall", "mention", "mentioned", "find", "list",
     "show", "name", "many", "much", "often", "long", "please", "give", "prefer", "preferred", "favourite", "favorite",
     "like", "recommend", "suggest", "use", "usually", "best", "last", "happen", "happened")
)  # fmt: skip
"""Words of the request, not of its topic."""

_QUESTION = re.compile(
    r"^\W{0,9}(?:(?:and|so|but|then|also|please)\s{1,9})?"
    r"(?:what|when|where|who|whom|whose|which|why|how(?:\s{1,9}(?:many|much|often|long|far|old|come))?)\b(?:['’]s\b)?\s{0,9}"
    r"(?:(?:did|does|do|is|are|was|were|has|have|had|can|could|should|would|will)\b\s{0,9})?",
    re.IGNORECASE,
)
_ORDER = re.compile(r"\b(first|last|earliest|latest|most recent)\b", re.IGNORECASE)
_COMPARED = re.compile(r"\s{0,9}(?:\bor\b|\bbefore\b|\bafter\b|\bthan\b|\bversus\b|\bvs\b)[\s:,]{0,9}", re.IGNORECASE)
_PREFERS = re.compile(
    r"\bI(?: (?:really|usually|always|mostly|mainly|only|still|also|much|do|now)){0,2}"
    r" (?:use|prefer|like|love|favou?r|enjoy)\b[^.,;:!?()\n]{1,60}",
    re.IGNORECASE,
)

PROBE: Final = "use prefer like love favour enjoy"
"""Words that users state preferences with."""

_MONTHS: Final = (
    ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
     "December")
)  # fmt: skip


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
    if intent.primary == "preference":
        return f"I like {about} best."
    if intent.aggregation:
        return f"There are several: {about}."
    if intent.temporal:
        return f"{rest} {next(_format_days(days), 'last week')}."
    if intent.primary == "troubleshooting":
        return f"The problem was {about}, and it is fixed now."
    if intent.primary == "how-to":
        return f"This is how {rest}."
    return f"{rest}."


def expand(text: str, intent: Intent, days: Days, phrases: Sequence[str], most: Mapping[str, int]) -> list[str]:
    """Return other wordings of a question: 2 to 3 of an ordinary one, 3 to 4 of a temporal, 4 to 5 of a preference.

    Args:
        days: spans that the question names.
        phrases: what users said of their own preferences, best first.
        most: how many at most, by kind of question.
    """
    about = extract_topic(text) or strip_question(text) or text.strip(" ?!.")
    if intent.kind == "preference":
        wordings = [*phrases, *_word_preference(about)]
    elif intent.kind == "temporal":
        wordings = _word_temporal(text, about, days)
    else:
        wordings = [about, strip_question(text), f"{about} details", f"notes on {about}"]
    asked = {text.strip().lower(), text.strip(" ?!.").lower()}
    return [one for one in dict.fromkeys(wordings) if one and one.lower() not in asked][: most[intent.kind]]


def _word_preference(about: str) -> list[str]:
    """Return statements of a user, which preferences are answered by."""
    return [f"I use {about}", f"my favourite {about}", f"{about} I prefer", f"I like {about}", f"I enjoy {about}"]


def _word_temporal(text: str, about: str, days: Days) -> list[str]:
    """Return wordings of an event, of either where two are compared, with words of dates and sequences."""
    order = match.group().lower() if (match := _ORDER.search(text)) else ""
    topic = _ORDER.sub("", about).strip() or about
    sides = [extract_topic(side) for side in _COMPARED.split(text, maxsplit=1)]
    events = [f"{side} date" for side in sides if len(sides) == 2 and side]
    named = [f"{topic} {day}" for day in _format_days(days)]
    plain = [f"{order} {topic} date".strip(), f"{topic} when", f"{topic} started began", f"{topic} timeline sequence"]
    return [*events, *named[:2], *plain]


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
