"""From the text and options of a recall to a checked `Query`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from helix.errors import UsageError
from helix.question.terms import find_language, hash_question
from helix.question.time_ranges import find_days, parse_time, utc
from helix.settings import Settings
from helix.snapshot.reader.catalog import Catalog
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.stages.constants import Profile
from helix.stages.rerank import check_top
from helix.text.entities import find_entities
from helix.text.gazetteer import AMBIGUOUS_GIVEN_NAMES, COMMON_WORDS, KIN
from helix.text.ignored import blank_words
from helix.text.languages import ENGLISH
from helix.text.names import NAME_KINDS
from helix.text.tokenize import STOP_WORDS, make_well_formed
from helix.types import TYPES, Query, RecallOptions, Time
from helix.util.sanitise import MAX_NAME, sanitise_name

RERANK_MODES: Final = ("late", "cross")

QUALITIES: Final = {"fast": None, "best": "cross"}
"""How each quality reranks, where the caller names no way."""

MODES: Final = ("auto", "hybrid", "vector")
"""Search modes of the recipe cems."""

K: Final = 10
"""Items to return where neither the caller nor a profile names a number."""

_MOST_NAMED: Final = 8  # projects in an error
_MOST_IGNORED: Final = 20
_MAX_HOURS: Final = 1_000_000  # of a look-back: more than a century

_WORD: Final = re.compile(r"\w[\w'-]*")
_NAME_KINDS: Final = (*NAME_KINDS, "package")  # kinds that a question may write in lower case
_DEFAULTS: Final = RecallOptions()


def choose_count(k: int | None, profile: Profile | None) -> int:
    """Return the items of an answer: as many as the caller names, else the profile's number."""
    return int(getattr(profile, "limit", K)) if k is None else k


def build_query(
    text: str,
    snap: Snapshot,
    settings: Settings,
    options: RecallOptions = _DEFAULTS,
    profile: Profile | None = None,
) -> Query:
    """Check every option and compute what the stages need to know of the question.

    Args:
        snap: as the principal may see it; what it hides is unknown here, too.
        profile: the one that answers; its `limit`, if it has one, is `k` where the caller names none. None: any.

    Raises:
        UsageError: an option is out of range, names something unknown, or is one that the profile does not have.
    """
    text = _check_text(text, settings)
    k = choose_count(options.k, profile)
    check_range("k", k, 1, settings.max_k)
    check_range("budget", options.budget, 0, settings.max_budget)
    project = check_project(options.project, snap.catalog)
    check_known("type", options.type, TYPES)
    _check_profile_options(options, profile)
    _check_rerank(options)
    now = _parse(options.now, datetime.now(UTC), "now") or datetime.now(UTC)
    language = find_language(text, stored := snap.lexical.languages)
    hinting = blank_words(text, _check_ignored(options.ignored, settings))
    since, until = _read_range(options, now)
    return Query(
        text=text,
        k=k,
        budget=options.budget,
        now=now,
        project=project,
        type=options.type,
        since=since,
        until=until,
        as_of=_parse(options.as_of, now, "as_of"),
        ingested_as_of=_parse(options.ingested_as_of, now, "ingested_as_of"),
        session=options.session,
        sessions=_find_sessions(options.session, snap),
        speaker=options.speaker,
        speakers=_find_speakers(options.speaker, snap),
        current_only=options.current_only,
        min_relevance=_read_least(options, settings),
        entities=tuple(options.entities),
        ignored=options.ignored,
        principal=options.principal,
        mode=options.mode,
        look_back=options.look_back,
        rerank=options.rerank or QUALITIES[options.quality or settings.quality],
        rerank_top=options.rerank_top,
        terms=hash_question(text, language, stored)[0],
        language=language,
        stored=stored,
        mentions=hash_mentions(hinting, options.entities, now, language),
        words=_split_words(hinting),
        days=find_days(hinting, now, language),
    )


def _read_range(options: RecallOptions, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return `since` and `until`; raise UsageError for a range that ends before it begins."""
    since, until = _parse(options.since, now, "since"), _parse(options.until, now, "until", end=True)
    if since and until and since > until:
        raise UsageError(f"since ({since:%Y-%m-%d %H:%M}) is after until ({until:%Y-%m-%d %H:%M})", "swap them")
    return since, until


def _read_least(options: RecallOptions, settings: Settings) -> float | None:
    """Return the least relevance of an item in the context, of the options or the settings; None: as measured."""
    if options.min_relevance is not None:
        check_range("min_relevance", options.min_relevance, 0, 1)
        return options.min_relevance
    return None if settings.min_relevance < 0 else min(settings.min_relevance, 1.0)


def reword(query: Query, text: str) -> Query:
    """Return the question in other words; filters, moment and days stay those of the original."""
    hinting = blank_words(text, query.ignored)
    return replace(
        query,
        text=text,
        terms=hash_question(text, query.language, query.stored)[0],
        mentions=hash_mentions(hinting, query.entities, query.now, query.language),
        words=_split_words(hinting),
    )


def _check_text(text: str, settings: Settings) -> str:
    text = make_well_formed(text)
    if not text.strip():
        raise UsageError("the query is empty", "ask something")
    if len(text) > settings.max_query_chars:
        raise UsageError(
            f"the query has {len(text)} characters; at most {settings.max_query_chars} are allowed",
            "ask a shorter question, or raise HELIX_MAX_QUERY_CHARS",
        )
    return text


def _check_ignored(ignored: Sequence[str], settings: Settings) -> Sequence[str]:
    check_range("the number of ignored words", len(ignored), 0, _MOST_IGNORED)
    if any(len(words) > settings.max_query_chars for words in ignored):
        raise UsageError("ignored words are longer than a question", "give words as they are in the question")
    return ignored


def _check_profile_options(options: RecallOptions, profile: Profile | None) -> None:
    """Check the options that only some profiles have: `mode` and `look_back`."""
    check_known("mode", options.mode, MODES)
    if options.look_back is not None:
        check_range("look_back", options.look_back, 0, _MAX_HOURS)
    for name, has in (("mode", "cems"), ("look_back", "annie")):
        if getattr(options, name) is not None and profile is not None and not hasattr(profile, name):
            raise UsageError(f"the profile {profile.name!r} has no {name}", f"leave it out, or use the profile {has!r}")


def _check_rerank(options: RecallOptions) -> None:
    check_known("rerank tier", options.rerank, RERANK_MODES)
    check_known("quality", options.quality, tuple(QUALITIES))
    if options.rerank:
        check_top(options.rerank_top)


def _split_words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text.replace("'s", " ")))


def hash_mentions(
    text: str, entities: Sequence[str], now: datetime, language: str = ENGLISH
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hash the entities a question may mean: those of the patterns, and each word and pair of words as a name.

    The kind of a name depends on its sentence, so each name is hashed under every kind of name.

    Args:
        entities: names that the caller adds.
    """
    found = [entity for source in (text, *entities) for entity in find_entities(source, at=now, language=language)]
    words = [word.lower() for word in _WORD.findall(text.replace("'s", " ").replace("’s", " "))]
    neighbours = list(pairwise(words))
    names = {word for word in words if word not in COMMON_WORDS or word in AMBIGUOUS_GIVEN_NAMES}
    names |= {f"{left} {right}" for left, right in neighbours if not {left, right} & STOP_WORDS}
    names |= {" ".join(value.lower().split()) for value in entities} | {
        entity.key for entity in found if entity.kind in _NAME_KINDS
    }
    pairs = {(entity.kind, entity.key) for entity in found if entity.kind not in _NAME_KINDS}
    pairs |= {("relationship", f"{KIN[kin]} of {owner}") for owner, kin in neighbours if kin in KIN}
    hashes = {int(hash_parts(*pair), 16) for pair in pairs}.union(*map(_hash_name, names))
    return np.array(sorted(hashes), np.uint64)


@lru_cache(maxsize=1 << 12)
def _hash_name(name: str) -> tuple[int, ...]:
    """Hash a name under every kind of name."""
    return tuple(int(hash_parts(kind, name), 16) for kind in _NAME_KINDS)


def _find_sessions(name: str | None, snap: Snapshot) -> tuple[int, ...]:
    """Find the codes of the live sessions of a name; each source may have one.

    Raises:
        UsageError: no live session has the name.
    """
    if name is None:
        return ()
    codes = snap.catalog.sessions_named(name)
    if not codes:
        raise UsageError(f"unknown session {name[:MAX_NAME]!r}", "take its name from a recalled item")
    return codes


def _find_speakers(name: str | None, snap: Snapshot) -> tuple[int, ...]:
    """Find the codes of the live speakers of a name, whatever its case.

    Raises:
        UsageError: no live speaker has the name.
    """
    if name is None:
        return ()
    live = snap.catalog.live_speakers
    meant = check_known("speaker", name.casefold(), [snap.speakers[code].casefold() for code in live])
    return tuple(code for code in live if snap.speakers[code].casefold() == meant)


def check_range(name: str, value: float, low: int, high: int) -> None:
    """Raise UsageError if a number is out of its range."""
    if not low <= value <= high:
        raise UsageError(f"{name} is {value}", f"give a number from {low} to {high}")


def check_known(name: str, value: str | None, known: Sequence[str]) -> str | None:
    """Return the known name that is meant, as it is stored or as it is shown.

    Raises:
        UsageError: it is unknown; the error names the nearest ones.
    """
    if value is None or value in known:
        return value
    if meant := [one for one in known if sanitise_name(one) == value]:
        return meant[0]
    near = difflib.get_close_matches(value, known, 3) or sorted(known)[:5]
    listed = ", ".join(map(sanitise_name, near))
    raise UsageError(f"unknown {name} {value[:MAX_NAME]!r}", f"there is {listed}" if near else "the store is empty")


def check_project(name: str | None, catalog: Catalog) -> str | None:
    """Return the live project that is meant: by its name, an old one, or the end of its repository's path.

    Raises:
        UsageError: it is unknown, or several are meant; the error names some.
    """
    if name is not None and name not in catalog.live_projects:
        found = catalog.find_projects(name)
        if len(found) > 1:
            listed = ", ".join(map(sanitise_name, found[:_MOST_NAMED]))
            raise UsageError(f"several projects are called {name[:MAX_NAME]!r}", f"give one of {listed}")
        name = found[0] if found else name
    return check_known("project", name, catalog.live_projects)


def parse_moment(value: Time, name: str, *, end: bool = False) -> datetime | None:
    """Parse an option's point in time with `parse_time`; None where it is not given."""
    return _parse(value, datetime.now(UTC), name, end=end)


def _parse(value: Time, now: datetime, name: str, *, end: bool = False) -> datetime | None:
    if value is None or isinstance(value, str):
        return parse_time(value, now, name, end=end) if value else None
    return utc(value, name)
