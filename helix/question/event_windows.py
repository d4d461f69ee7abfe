"""Events as times: "before the migration", "since we switched to Postgres".

`find_event` finds the words of the event, `find_window` its time window, from the times of items that mention it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np

from helix.question.time_ranges import NEAR, NEWEST, OLDEST
from helix.ranking.topk import sort_rows
from helix.text.languages import ENGLISH
from helix.types import F32, I64

SCANNED: Final = 1_000
"""Characters of a question that are searched for an event."""

MAX_WORDS: Final = 12
"""Words of an event's phrase."""

MAX_EVENTS: Final = 4
"""Prepositions of a question that are tried."""

TOP: Final = 8
"""Best matches that are used."""

NEAR_BEST: Final = 0.5
"""Share of the best match's score that another one needs."""

SPREAD: Final = 14 * 86_400
"""Seconds; matches with a larger weighted median deviation are of several events."""

MARGIN: Final = 86_400
"""Seconds around an event that count as during it."""


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


Relation = Literal["before", "after", "since", "until", "during", "around"]


class NamedEvent(NamedTuple):
    """An event that a question refers to, and the relation to it."""

    relation: Relation
    phrase: str  # the event's words, without an article


_RELATIONS: Final[dict[str, Relation]] = {
    "before": "before", "prior to": "before", "ahead of": "before", "leading up to": "before",
    "after": "after", "following": "after", "in the wake of": "after",
    "since": "since", "until": "until", "till": "until", "up until": "until",
    "during": "during", "throughout": "during", "in the middle of": "during",
    "around the time of": "around", "around the time": "around", "around when": "around", "about the time": "around",
    "at the time of": "around", "at the time": "around",
}  # fmt: skip
_PREPOSITION: Final = re.compile(
    r"(?<![\w'’-])(?:" + "|".join(sorted(_RELATIONS, key=len, reverse=True)).replace(" ", r"\s") + r")\s+(?=\S)",
    re.IGNORECASE,
)
# "Look after", "one after another", "as before the change".
_NO_PREPOSITION: Final[dict[str, re.Pattern[str]]] = {
    "after": re.compile(
        r"\b(?:look\w{0,3}|nam(?:ed|ing)|tak(?:e|es|ing)|took|ask\w{0,3}|model\w{1,4}|one) \Z", re.IGNORECASE
    ),
    "before": re.compile(r"\b(?:as|like) \Z", re.IGNORECASE),
}
_WORD: Final = re.compile(r"[^\s,;:?!()\"“”]{1,80}(?<!\.)|[,;:?!()\"“”.]")
_ENDS: Final = frozenset(',;:?!()."“”')
_ENDS_WORDS: Final = _list_words("but because while whether if what which who whom whose where when why how then based")
_AUXILIARIES: Final = _list_words("did do does is are was were has have had can could should would will")
_LINKS: Final = _list_words("of to in on at for from with by about into and over off")
_SUBJECTS: Final = _list_words("i you we they he she")
_ARTICLES: Final = _list_words("the our my your their his her its this that these those")
_GENERIC: Final = _list_words("a an any each every some no another it there someone anyone everything anything")
_FILLERS: Final = _list_words(
    "all that this it then now long here there which these those them him her me us you and or of on in at to for the "
    "a an again once about being"
)
# Words of dates, which `helix.question.time_ranges` parses.
_TIMES: Final = _list_words(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri "
    "sat sun today yesterday tomorrow tonight morning mornings afternoon evening night nights noon midnight midday "
    "dawn dusk day days week weeks weekend weekends fortnight month months quarter year years hour hours minute "
    "minutes second seconds moment while time times spring summer autumn fall winter last next past previous early "
    "late mid beginning start middle end christmas easter halloween thanksgiving first second third lunch dinner "
    "breakfast bedtime hours few couple several two three four five six seven eight nine ten later ago "
    "work school bed corner clock world fact point"
)
_PAST: Final = _list_words(
    "was were had did went got made took came saw met said told found lost began bought brought built broke left felt "
    "gave heard kept knew paid ran sent spent spoke taught thought won wrote grew held led sold shut set hit cut put "
    "became chose fell rose drew flew drove threw quit split read hurt beat let moved"
)
_PAST_FORM: Final = re.compile(r"(?!need|feed|speed|indeed|seed|hundred\b|bed\b|red\b)[a-z]{2,30}ed", re.IGNORECASE)
_TALK: Final = _list_words("conversation conversations chats sessions discussions instructions steps rules example")
_FUTURE: Final = _list_words("should must will shall need needs going todo remains")


def find_event(text: str, language: str = ENGLISH) -> NamedEvent | None:
    """Find the event that an English question refers to; None if it names none.

    "Before you start", "after all", "since it is slow", "until now" and "after every deploy" name none; nor do dates,
    which `find_days` parses, nor "before deploying" in a question without a past tense.
    """
    text = text[:SCANNED] if language == ENGLISH else ""
    for match in islice(_PREPOSITION.finditer(text), MAX_EVENTS):
        preposition = " ".join(match.group().lower().split())
        no_preposition = _NO_PREPOSITION.get(preposition)
        if no_preposition and no_preposition.search(text[max(0, match.start() - 20) : match.start()]):
            continue
        relation = _RELATIONS[preposition]
        words, end = _read_phrase(text, match.end(), fronted=text[: match.start()].strip().lower() in ("", "ever"))
        rest = text[: match.start()] + text[end:]
        if preposition == "following" and (not words or words[0].lower() not in _ARTICLES):
            continue
        if (phrase := _check_event(words, relation, rest)) is not None:
            return NamedEvent(relation, phrase)
    return None


def find_window(relation: Relation, times: I64, scores: F32) -> tuple[int, int, float] | None:
    """Return the window that an event opens or closes, from the items that match its words.

    The event is the score-weighted median of the best matches' times. It is one event if half of their weight is within
    `SPREAD` of it (a weighted median absolute deviation).

    Args:
        relation: of the question to the event.
        times: int64[m], seconds; those before OLDEST are missing.
        scores: float32[m], higher is better, in any order.

    Returns:
        (first second, last second, weight), OLDEST ≤ first ≤ last ≤ NEWEST; None if nothing with a time matches or the
        matches are too far apart.
    """
    usable = np.flatnonzero((times >= OLDEST) & np.isfinite(scores) & (scores > 0))
    if not len(usable):
        return None
    order = usable[sort_rows(scores[usable], times[usable])][:TOP]
    best = order[scores[order] >= NEAR_BEST * scores[order[0]]]
    at, weights = np.clip(times[best], OLDEST + 1, NEWEST - 1), scores[best].astype(np.float64)
    event = _find_median(at, weights)
    if _find_median(np.abs(at - event), weights) > SPREAD:
        return None
    match relation:
        case "before":
            return OLDEST, event - 1, NEAR
        case "until":
            return OLDEST, event, NEAR
        case "after":
            return event + 1, NEWEST, NEAR
        case "since":
            return event, NEWEST, NEAR
    within = at[np.abs(at - event) <= SPREAD]
    return max(OLDEST, int(within.min()) - MARGIN), min(NEWEST, int(within.max()) + MARGIN), NEAR


def _find_median(values: I64, weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """Return the smallest value at which half of the weight is reached."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return int(values[order[np.searchsorted(reached, reached[-1] / 2)]])


def _read_phrase(text: str, start: int, *, fronted: bool) -> tuple[list[str], int]:
    """Read the words to the end of the clause, or of an event before its question; return them and their end."""
    words: list[str] = []
    end = start
    found = list(_WORD.finditer(text, start, start + 400))
    for match, after in zip(found, [*found[1:], None], strict=True):
        lower = match.group().lower()
        if lower in _ENDS or lower in _ENDS_WORDS or len(words) == MAX_WORDS:
            break
        if lower in ("and", "or") and (not _select(words) or (after and after.group().lower() in _RELATIONS)):
            break  # "before and after"
        if fronted and _select(words):
            is_question = after is not None and after.group().lower() in _SUBJECTS | _ARTICLES
            if lower in ("did", "do", "does") or (lower in _AUXILIARIES and is_question):
                break
            if lower in _ARTICLES and words[-1].lower() not in _LINKS and not any(map(_is_past, words)):
                break  # "since the merge the tests …"
        words.append(match.group())
        end = match.end()
    return words, end


def _check_event(words: list[str], relation: Relation, rest: str) -> str | None:
    """Return the phrase of an event; None if the words name none."""
    lower = [word.lower() for word in words]
    if not _select(words) or lower[0] in _GENERIC or lower[:2] == ["all", "we"] or _TALK & set(lower):
        return None
    if lower[0] in _SUBJECTS:
        return " ".join(words[1:]) if any(_is_past(word) for word in lower[1:4]) else None
    if set(lower[1:]) & {"is", "are", "isn't", "aren't", "has", "have", "can", "can't", "needs", "gets", "works"}:
        return None  # a condition: "until the build is green"
    named = lower[0] in _ARTICLES or any(word[:1].isupper() for word in words) or any(map(_is_past, lower))
    others = rest.lower().split()
    past = any(_is_past(word.strip(".,;?!")) for word in others)
    if not past and (set(others) & _FUTURE or not (named or relation == "since")):
        return None
    return " ".join(words[1:] if lower[0] in _ARTICLES and len(words) > 1 else words)


def _select(words: list[str]) -> list[str]:
    """Return the words that identify an event."""
    fillers = _FILLERS | _TIMES | _ARTICLES | _SUBJECTS
    return [word for word in words if word.lower().removesuffix("'s") not in fillers and not word[0].isdigit()]


def _is_past(word: str) -> bool:
    return word in _PAST or _PAST_FORM.fullmatch(word) is not None
