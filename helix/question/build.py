"""From the arguments of a call to a checked `Query`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

import numpy as np

from helix.errors import UsageError
from helix.question.time_ranges import parse_time, spoken_days, utc
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import digest
from helix.stages.rerank import check_top
from helix.text.entities import entities as find_entities
from helix.text.gazetteer import COMMON, GIVEN_CAPITAL, KIN
from helix.text.names import NAME_KINDS
from helix.text.tokenize import STOP_WORDS, hash_terms, tokenise, well_formed
from helix.types import TYPES, Query
from helix.util.sanitise import MAX_NAME, sanitise_name

Time = datetime | str | None

TIERS = ("late", "cross")
"""Rerank tiers."""

_WORD = re.compile(r"\w[\w'-]*")
_NAMED = (*NAME_KINDS, "package")  # kinds that a question may name in lower case


def make_query(
    text: str,
    snap: Snapshot,
    settings: Settings,
    *,
    k: int = 10,
    budget: int = 2000,
    project: str | None = None,
    type: str | None = None,
    since: Time = None,
    until: Time = None,
    as_of: Time = None,
    session: str | None = None,
    speaker: str | None = None,
    current_only: bool = False,
    entities: Sequence[str] = (),
    principal: str | None = None,
    now: Time = None,
    rerank: str | None = None,
    rerank_top: int = 20,
) -> Query:
    """Check every argument and work out what the stages need to know of the question.

    Args:
        snap: as the principal may see it: what it does not show is unknown here, too.

    Raises:
        UsageError: an argument is out of range or names what is not there.
    """
    text = well_formed(text)
    if not text.strip():
        raise UsageError("the query is empty", "ask something")
    if len(text) > settings.max_query_chars:
        raise UsageError(
            f"the query has {len(text)} characters; at most {settings.max_query_chars} are taken",
            "ask a shorter question, or raise HELIX_MAX_QUERY_CHARS",
        )
    check_range("k", k, 1, settings.max_k)
    check_range("budget", budget, 0, settings.max_budget)
    project = check_known("project", project, snap.catalog.live_projects)
    check_known("type", type, TYPES)
    check_known("rerank tier", rerank, TIERS)
    if rerank == "cross" and not settings.cross_encoder:
        raise UsageError("no cross-encoder is set", "name one in HELIX_CROSS_ENCODER, or take the tier 'late'")
    if rerank:
        check_top(rerank_top)
    moment = _time(now, datetime.now(UTC), "now") or datetime.now(UTC)
    start, end = _time(since, moment, "since"), _time(until, moment, "until", end=True)
    if start and end and start > end:
        raise UsageError(f"since ({start:%Y-%m-%d %H:%M}) is after until ({end:%Y-%m-%d %H:%M})", "swap them")
    return Query(
        text=text,
        k=k,
        budget=budget,
        now=moment,
        project=project,
        type=type,
        since=start,
        until=end,
        as_of=_time(as_of, moment, "as_of"),
        session=session,
        sessions=_sessions(session, snap),
        speaker=speaker,
        speakers=_speakers(speaker, snap),
        current_only=current_only,
        entities=tuple(entities),
        principal=principal,
        rerank=rerank,
        rerank_top=rerank_top,
        terms=np.unique(hash_terms(tokenise(text))),
        mentions=mentions(text, entities, moment),
        words=_words(text),
        days=spoken_days(text, moment),
    )


def reworded(query: Query, text: str) -> Query:
    """The same question in other words: whatever they say, the filters, the moment and the days it speaks of stay."""
    return replace(
        query,
        text=text,
        terms=np.unique(hash_terms(tokenise(text))),
        mentions=mentions(text, query.entities, query.now),
        words=_words(text),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text.replace("'s", " ")))


def mentions(text: str, forced: Sequence[str], now: datetime) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hashes of the entities a question may mean: what the patterns find, and each word and pair of words as a name.

    Which kind a name has hangs on the sentence it stood in, so a name is asked for under every kind of name.
    """
    found = [entity for said in (text, *forced) for entity in find_entities(said, at=now)]
    words = [word.lower() for word in _WORD.findall(text.replace("'s", " ").replace("’s", " "))]
    neighbours = list(pairwise(words))
    names = {word for word in words if word not in COMMON or word in GIVEN_CAPITAL}
    names |= {f"{left} {right}" for left, right in neighbours if not {left, right} & STOP_WORDS}
    names |= {value.lower() for value in forced} | {entity.key for entity in found if entity.kind in _NAMED}
    pairs = {(entity.kind, entity.key) for entity in found if entity.kind not in _NAMED}
    pairs |= {("relationship", f"{KIN[kin]} of {owner}") for owner, kin in neighbours if kin in KIN}
    hashes = {int(digest(*pair), 16) for pair in pairs}.union(*map(_as_names, names))
    return np.array(sorted(hashes), np.uint64)


@lru_cache(maxsize=1 << 12)
def _as_names(name: str) -> tuple[int, ...]:
    """Hashes of a name under every kind of name."""
    return tuple(int(digest(kind, name), 16) for kind in _NAMED)


def _sessions(name: str | None, snap: Snapshot) -> tuple[int, ...]:
    """Codes of the live sessions of that name: each source may have one.

    Raises:
        UsageError: there is none.
    """
    if name is None:
        return ()
    codes = snap.catalog.sessions_named(name)
    if not codes:
        raise UsageError(f"unknown session {name[:MAX_NAME]!r}", "take its name from a recalled item")
    return codes


def _speakers(name: str | None, snap: Snapshot) -> tuple[int, ...]:
    """Codes of the live speakers of that name, whatever its case.

    Raises:
        UsageError: there is none.
    """
    if name is None:
        return ()
    live = snap.catalog.live_speakers
    meant = check_known("speaker", name.casefold(), [snap.speakers[code].casefold() for code in live])
    return tuple(code for code in live if snap.speakers[code].casefold() == meant)


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raises UsageError where a number is out of its range."""
    if not low <= value <= high:
        raise UsageError(f"{name} is {value}", f"give a number from {low} to {high}")


def check_known(name: str, value: str | None, known: Sequence[str]) -> str | None:
    """The one of the names there are that is meant, as it is or as it is shown.

    Raises:
        UsageError: it is none of them; it names the nearest.
    """
    if value is None or value in known:
        return value
    if meant := [one for one in known if sanitise_name(one) == value]:
        return meant[0]
    near = difflib.get_close_matches(value, known, 3) or sorted(known)[:5]
    there = ", ".join(map(sanitise_name, near))
    raise UsageError(f"unknown {name} {value[:MAX_NAME]!r}", f"there is {there}" if near else "the store is empty")


def moment_of(value: Time, name: str, *, end: bool = False) -> datetime | None:
    """A point in time from an option, as `helix.question.time_ranges.parse_time` reads it; None where not given."""
    return _time(value, datetime.now(UTC), name, end=end)


def _time(value: Time, now: datetime, name: str, *, end: bool = False) -> datetime | None:
    if value is None or isinstance(value, str):
        return parse_time(value, now, name, end=end) if value else None
    return utc(value, name)
