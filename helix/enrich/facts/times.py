"""When a fact holds, and dates as objects."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from helix.enrich.facts.slots import action

if TYPE_CHECKING:
    from helix.text.dates import Moment

_EVENT: Final = re.compile(
    r"\b(?:moved|relocated|switched|migrated|married|divorced|joined|started|quit|left|replaced|swapped|upgraded|"
    "downgraded|bumped|changed|bought|purchased|sold|dropped|ditched|stopped|became|turned|went|adopted|got|promoted|"
    "engaged|broke|split|decided|agreed|set|raised|lowered|increased|reduced|inherited|resigned|fired|laid|retired|"
    r"pinned|updated|ended|graduated|hired|separated|chose|opted|rid|abandoned|phased|away)\b"
)
_SINCE: Final = re.compile(r"\b(?:since|from|as of|starting|beginning)\b", re.IGNORECASE)
_UNTIL: Final = re.compile(r"\b(?:until|till|til|through|up to)\b", re.IGNORECASE)
_PREPOSITION: Final = re.compile(
    "(?:,| (?:in|on|at|by|for|next|this|the|from|around|early|late|end|of|sometime|during|until|starting|before|"
    r"after|and))+\Z"
)
_DANGLING: Final = re.compile(r"\b(?:a|an|my|our|his|her|their|the|to|with|of|and)\Z")


def spans_of(clause: str, at: datetime | None) -> list[Moment]:
    """The times a clause names."""
    from helix.text.dates import find_moments  # few clauses get this far

    return find_moments(clause, at)


def dated(raw: str, relation: str, at: datetime | None) -> list[str]:
    """The first date of `raw` as ISO, if it begins with one; a birthday without its year as it was said."""
    spans = spans_of(raw, at)
    if not spans or spans[0].where[0] > 6:
        return []
    first = spans[0]
    if relation == "due" or re.search(r"\d{4}", first.text):
        return [first.key]
    return [re.sub(r"\A(?:on|in) ", "", first.text)] if re.search(r"\d", first.text) else []


def planned(raw: str, spans: list[Moment], clause: str, offset: int, at: datetime | None) -> list[str]:
    """What is intended, without its time; nothing where no time to come is named. `raw` is at `offset` of `clause`."""
    if at is None:
        return []
    offset += len(clause[offset:]) - len(clause[offset:].lstrip())
    coming = [span for span in spans if span.start > at.date() and span.where[0] > offset]
    if not coming or _UNTIL.search(raw[max(0, coming[0].where[0] - offset - 8) :][:20]):
        return []
    phrase = _PREPOSITION.sub("", raw[: coming[0].where[0] - offset].rstrip(" ,"))
    if _DANGLING.search(phrase):
        return []
    return action(phrase) or ([phrase] if re.fullmatch(r"[a-z]{5,}", phrase) else [])


def validity(
    relation: str, spans: list[Moment], clause: str, at: datetime | None, ends: bool
) -> tuple[datetime | None, datetime | None]:
    """From when to when the clause says it holds: since a date, or with the event (or end) that it tells of."""
    event = ends or _EVENT.search(clause) is not None
    valid: datetime | None = None
    until: datetime | None = None
    for span in spans:
        lead = clause[max(0, span.where[0] - 12) : span.where[0]] + span.text
        to_come = at is not None and span.start > at.date()
        if _UNTIL.search(lead):
            if at is None or span.end >= at.date():
                until = until or _midnight(span.end) + timedelta(days=1)
        elif valid is None and relation not in ("due", "born_on"):
            told = to_come if relation == "plans" else _SINCE.search(lead) or (event and at is not None and not to_come)
            valid = _midnight(span.start) if told else None
    return valid, until


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
