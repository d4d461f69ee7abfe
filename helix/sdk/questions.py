"""Questions to try, made from what a store holds: decisions, changes, fixed errors, people, files and sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

import numpy as np

from helix.sdk.decisions.plain_words import read_reason
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.steps import EDIT, FAILED, RESULT
from helix.stages.relevance import LEAST_ANSWERED
from helix.text.relations import add_article, is_proper
from helix.text.step_keys import split_targets
from helix.types import Bool, Bundle
from helix.util.sanitise import sanitise_name
from helix.work.resolve import resolve

MOST: Final = 6
"""Questions that are shown."""

SECONDS: Final = 0.15
"""Time for checking candidates, of one call; the next call checks the others."""

BEST: Final = 5
"""Items of an answer, of which one has to be what the question is about."""

_OF_KIND: Final = 3  # candidates of a kind
_NEWEST: Final = 24  # failures and edits that are read
_CHARS: Final = 110  # of what a question quotes


class Suggestion(NamedTuple):
    """A question, and the items of which one has to be among the best of its answer."""

    text: str
    about: str
    items: tuple[str, ...]


def check_questions(
    suggestions: Sequence[Suggestion], ask: Callable[[str], Bundle], known: MutableMapping[str, bool]
) -> list[dict[str, Any]]:
    """Return the first candidates whose answer is relevant and holds the item that they are about.

    Args:
        ask: recalls, and returns at least `BEST` items.
        known: the candidates that were checked, by text; this call adds to it.
    """
    found: list[dict[str, Any]] = []
    end = time.monotonic() + SECONDS
    for one in suggestions:
        if len(found) == MOST:
            break
        if one.text not in known and time.monotonic() < end:
            bundle = ask(one.text)
            best = {item.id for item in bundle.items[:BEST]}
            known[one.text] = bundle.answered >= LEAST_ANSWERED and not best.isdisjoint(one.items)
        if known.get(one.text):
            found.append({"text": one.text, "about": one.about, "item": one.items[0]})
    return found


def list_suggestions(
    snap: Snapshot, rows: Bool, decisions: Sequence[Mapping[str, Any]], titles: Sequence[tuple[str, str]]
) -> list[Suggestion]:
    """Return questions that the store may answer, the best first, of each kind in turn.

    Args:
        rows: bool[rows], those that count.
        decisions: entries, newest first; see `list_decisions`.
        titles: (title, id of the first item) of the newest sessions.
    """
    kinds = (
        _ask_why(decisions),
        _ask_fixes(snap, rows),
        _ask_before(decisions),
        _ask_people(decisions),
        _ask_files(snap, rows),
    )
    rounds = zip_longest(*(islice(kind, _OF_KIND) for kind in kinds))
    others = chain(islice(_ask_decided(decisions), _OF_KIND), islice(_ask_sessions(titles), _OF_KIND))
    found: dict[str, Suggestion] = {}
    for one in chain(chain.from_iterable(rounds), others):
        if one is not None:
            found.setdefault(one.text, one)
    return [*found.values()]


def _ask_why(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Suggestion]:
    """Yield questions for the reason of a choice that states one."""
    for entry in decisions:
        if not _is_short(entry["value"]) or not read_reason(entry["text"], entry["value"]):
            continue
        value = sanitise_name(entry["value"])
        if entry["topic"]:
            topic = _name_topic(entry)
            yield Suggestion(f"Why did we choose {value} for {topic}?", topic, (entry["item"],))
        elif entry["replaced"] and _is_short(entry["replaced"][0]["value"]):
            was = sanitise_name(entry["replaced"][0]["value"])
            yield Suggestion(f"Why did we choose {value} over {was}?", value, (entry["item"],))


def _ask_before(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Suggestion]:
    """Yield questions for what a value replaced."""
    for entry in decisions:
        items = tuple(one["item"] for one in entry["replaced"] if one["item"])
        if entry["topic"] and items and _is_short(entry["value"]):
            topic, value = _name_topic(entry), sanitise_name(entry["value"])
            yield Suggestion(f"What did we have for {topic} before {value}?", topic, (*items, entry["item"]))


def _ask_people(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Suggestion]:
    """Yield questions for what a person decided of a topic; a person once."""
    asked: set[str] = set()
    for entry in decisions:
        if entry["topic"] and entry["by"] not in asked and entry["by"] not in _ROLES:
            asked.add(entry["by"])
            by, topic = sanitise_name(entry["by"]), _name_topic(entry)
            yield Suggestion(f"What did {by} say about {topic}?", by, (entry["item"],))


_ROLES: Final = frozenset({"user", "assistant", "tool", "system", "document"})


def _ask_decided(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Suggestion]:
    for entry in decisions:
        if entry["topic"]:
            topic = _name_topic(entry)
            yield Suggestion(f"What did we decide about {topic}?", topic, (entry["item"],))


def _ask_fixes(snap: Snapshot, rows: Bool) -> Iterator[Suggestion]:
    """Yield questions for the fix of an error that was seen to hold, the newest first."""
    columns = snap.steps.columns
    failed = np.flatnonzero((columns.outcome == FAILED) & (columns.action == RESULT) & rows[columns.row])
    failed = failed[np.lexsort((-failed, -snap.columns.place[columns.row[failed]]))][:_NEWEST]
    asked: set[str] = set()
    for step, entry in zip(failed.tolist(), snap.steps.read(failed), strict=True):
        error = _shorten(sanitise_name(entry["error"] or ""))
        if not error or error in asked:
            continue
        asked.add(error)
        found = resolve(snap, step)
        if found.held and (found.changes or found.other_command):
            steps = (*found.changes, found.shown, step)
            items = [f"{int(snap.columns.key[columns.row[one]]):016x}" for one in steps]
            yield Suggestion(f"How did we fix “{error}”?", error, (*dict.fromkeys(items),))


def _ask_files(snap: Snapshot, rows: Bool) -> Iterator[Suggestion]:
    """Yield questions for the changes of the files that were edited most often of late."""
    columns = snap.steps.columns
    edits = np.flatnonzero((columns.action == EDIT) & rows[columns.row])
    edits = edits[np.lexsort((-edits, -snap.columns.place[columns.row[edits]]))][: 4 * _NEWEST]
    found: dict[str, list[str]] = {}
    for entry in snap.steps.read(edits):
        for path in split_targets(entry["target"]):
            name = sanitise_name(path.replace("\\", "/").rpartition("/")[2])
            found.setdefault(name, []).append(f"{int(snap.columns.key[entry['row']]):016x}")
    for name, items in sorted(found.items(), key=lambda one: -len(one[1])):
        if name:
            yield Suggestion(f"What did we change in {name}, and why?", name, (*dict.fromkeys(items),))


def _ask_sessions(titles: Sequence[tuple[str, str]]) -> Iterator[Suggestion]:
    for title, item in titles:
        if _is_short(title):
            name = sanitise_name(title).rstrip(" .…")
            yield Suggestion(f"What came of “{name}”?", name, (item,))


def _shorten(text: str) -> str:
    """Return a text up to a word's end within `_CHARS`, without the mark of a line of pytest."""
    text = text.removeprefix("E ")
    if len(text) > _CHARS:
        text = text[:_CHARS].rpartition(" ")[0] or text[:_CHARS]
    return text.rstrip(" .:,;(")


def _name_topic(entry: Mapping[str, Any]) -> str:
    """Return a topic as it is named within a sentence: "the log rotation" where "Log rotation" opens one."""
    topic = sanitise_name(entry["topic"])
    opens = entry["text"].lstrip("-*#> ").startswith(topic) and topic[1:].islower()
    lower = topic[:1].lower() + topic[1:]
    return add_article(lower if opens and not is_proper(lower.partition(" ")[0]) else topic)


def _is_short(text: str | None) -> bool:
    return bool(text) and len(str(text)) <= _CHARS
