"""The project, days and people that a question names, each with its words: for people, who may remove them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from helix.question.time_ranges import NEWEST, OLDEST, name_windows
from helix.text.ignored import blank_words
from helix.text.tokenize import split_project_words
from helix.types import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helix.snapshot.reader.snapshot import Snapshot

MOST_WORDS: Final = 4  # of a name


def describe_hints(query: Query, snap: Snapshot) -> list[dict[str, Any]]:
    """Return what the words of a question hint at, in reading order.

    Returns:
        `kind` (project, days or person), `words` of the question, `value` (the project's or the speaker's name),
        and `since` and `until` of days; null for an open end.
    """
    text = blank_words(query.text, query.ignored)
    found = [*_list_days(text, query), *_list_names(text, query, snap)]
    found.sort(key=lambda one: int(one["at"]))
    return [{name: value for name, value in one.items() if name != "at"} for one in found]


def _list_days(text: str, query: Query) -> list[dict[str, Any]]:
    if query.since is not None or query.until is not None:
        return []
    out = []
    for start, end, (first, last) in name_windows(text, query.now, query.language):
        days = {"since": _format(first, OLDEST), "until": _format(last, NEWEST)}
        out.append({"at": start, "kind": "days", "words": text[start:end], "value": None, **days})
    return out


def _format(seconds: int, open_end: int) -> str | None:
    return None if seconds == open_end else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _list_names(text: str, query: Query, snap: Snapshot) -> list[dict[str, Any]]:
    """Return the projects whose whole names are in the question, and the speakers whom it names."""
    words = split_project_words(text)
    folded, taken, out = text.casefold(), list[tuple[int, int]](), list[dict[str, Any]]()
    if len(folded) != len(text):
        return []  # folding moved the positions
    at = _find_words(folded, words)
    for place in range(len(words)):
        for size in range(min(MOST_WORDS, len(words) - place), 0, -1):
            name, span = words[place : place + size], (at[place][0], at[place + size - 1][1])
            kind, value = _look_up(name, query, snap)
            if kind and not any(span[0] < end and start < span[1] for start, end in taken):
                taken.append(span)
                out.append({"at": span[0], "kind": kind, "words": text[slice(*span)], "value": value})
    return out


def _find_words(folded: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the place of each word of a text, in order."""
    out, done = [], 0
    for word in words:
        done = folded.index(word, done)
        out.append((done, done + len(word)))
        done += len(word)
    return out


def _look_up(name: tuple[str, ...], query: Query, snap: Snapshot) -> tuple[str, str | None]:
    """Return (kind, value) of a name; an empty kind for none."""
    if query.project is None:
        for known, code in snap.catalog.project_names.get(name[0], ()):
            if known == name:
                return "project", snap.projects[code]
    if query.speaker is None:
        speaker = snap.catalog.speakers_by_name.get(name)
        if speaker is not None:
            return "person", speaker
    return "", None
