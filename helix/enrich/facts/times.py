"""Validity of facts, and dates as their objects."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from helix.enrich.facts.slots import read_action
from helix.enrich.facts.words import PATTERNS
from helix.text.dates import Moment, find_moments

_SINCE: Final = re.compile(r"\b(?:since|from|as of|starting|beginning)\b", re.IGNORECASE)
_UNTIL: Final = re.compile(r"\b(?:until|till|til|through|up to)\b", re.IGNORECASE)
_DANGLING: Final = re.compile(r"\b(?:a|an|my|our|his|her|their|the|to|with|of|and)\Z")


def read_date(raw: str, relation: str, at: datetime | None) -> list[str]:
    """Return the date at the begin of `raw` in ISO 8601; a birthday without a year as written."""
    spans = find_moments(raw, at)
    if not spans or spans[0].where[0] > 6:
        return []
    first = spans[0]
    if relation == "due" or re.search(r"\d{4}", first.text):
        return [first.key]
    return [re.sub(r"\A(?:on|in) ", "", first.text)] if re.search(r"\d", first.text) else []


def read_plan(raw: str, spans: list[Moment], clause: str, offset: int, at: datetime | None) -> list[str]:
    """Return the intention without its time; [] without a time to come. `raw` is at `offset` of `clause`."""
    if at is None:
        return []
    offset += len(clause[offset:]) - len(clause[offset:].lstrip())
    coming = [span for span in spans if span.start > at.date() and span.where[0] > offset]
    if not coming or _UNTIL.search(raw[max(0, coming[0].where[0] - offset - 8) :][:20]):
        return []
    phrase = PATTERNS["preposition"].sub("", raw[: coming[0].where[0] - offset].rstrip(" ,"))
    if _DANGLING.search(phrase):
        return []
    return read_action(phrase) or ([phrase] if re.fullmatch(r"[a-z]{5,}", phrase) else [])


def read_validity(
    relation: str, spans: list[Moment], clause: str, at: datetime | None, ends: bool
) -> tuple[datetime | None, datetime | None]:
    """Return the begin and end of a fact by its clause: "since" a date, or the date of an event."""
    event = ends or PATTERNS["event"].search(clause) is not None
    valid: datetime | None = None
    until: datetime | None = None
    for span in spans:
        lead = clause[max(0, span.where[0] - 12) : span.where[0]] + span.text
        to_come = at is not None and span.start > at.date()
        if _UNTIL.search(lead):
            if at is None or span.end >= at.date():
                until = until or _find_midnight(span.end) + timedelta(days=1)
        elif valid is None and relation not in ("due", "born_on"):
            past_event = event and at is not None and not to_come
            begins = to_come if relation == "plans" else _SINCE.search(lead) or past_event
            valid = _find_midnight(span.start) if begins else None
    return valid, until


def _find_midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
