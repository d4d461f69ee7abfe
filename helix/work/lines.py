"""Lines that tell a fix, a command's history or a rule, for a context: quoted, with who said it, when and its id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.snapshot.segment.batch import NO_TIME
from helix.stages.pack import cite_turns
from helix.util.sanitise import sanitise_name
from helix.work.resolve import Resolution

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

COMMAND_CHARS: Final = 240
"""Characters of a command in a line."""

WORDS_CHARS: Final = 280
"""Characters of what an agent said about a change."""

_CALL_LINE: Final = re.compile(r"(?m)^\[[^\]\n]{1,80}\] .*$")
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Told:
    """Lines of a context, and the ids of the items that they quote."""

    lines: tuple[str, ...]
    items: tuple[str, ...]
    steps: tuple[int, ...] = ()  # that change something or show that a failure was gone


def tell_fix(snap: Snapshot, found: Resolution) -> Told:
    """Return what failed, what changed, and what showed that the failure was gone."""
    (failed,) = snap.steps.read([found.failed])
    calls = [found.call] * (found.call >= 0) + [*found.changes] + [found.shown] * (found.shown >= 0)
    known = {entry["step"]: entry for entry in snap.steps.read(calls)}
    rows = [failed["row"], *(entry["row"] for entry in known.values())]
    texts = dict(zip(rows, snap.text(np.array(rows)), strict=True))
    entry = texts[failed["row"]]
    day = entry["time"].date().isoformat() if entry["time"] and entry["time_quality"] != "file" else ""
    about = " · ".join(filter(None, (day, sanitise_name(entry["title"] or ""))))
    origin = known.get(found.call)
    lines = [f"[{about}] {_quote(failed['error'])} ({cite_turns(entry)})"]
    if origin and origin["target"]:
        lines.append(f"- it failed: {name_step(origin)}")
    lines += _tell_changes([known[step] for step in found.changes], texts)
    if found.shown >= 0:
        shown = known[found.shown]
        verb = "what worked" if found.is_instead else "then passed" if found.held else "then ran"
        lines.append(f"- {verb}: {name_step(shown)}{_tell_wait(snap, found)} ({cite_turns(texts[shown['row']])})")
    words = _find_words(texts[row] for row in rows[1:])
    if words:
        lines.append(f'- the agent said: "{words}"')
    ids = dict.fromkeys(texts[row]["id"] for row in rows)
    return Told(tuple(lines), tuple(ids), (*found.changes, *([found.shown] if found.shown >= 0 else ())))


def _tell_changes(changes: list[dict[str, Any]], texts: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Return a line for each file or command that changed something; a file once."""
    names: dict[str, dict[str, Any]] = {}
    for entry in changes:
        names[name_step(entry)] = entry
    return [f"- changed: {name} ({cite_turns(texts[entry['row']])})" for name, entry in names.items()]


def name_step(entry: Mapping[str, Any]) -> str:
    """Format what a step did: the file it edited, else its command as code."""
    if entry["action"] == "edit":
        return sanitise_name(_shorten_path(entry["target"])) or "a file"
    return f"`{_quote(entry['target']).replace('`', chr(39))}`"


def _shorten_path(path: str) -> str:
    names = path.replace("\\", "/").split("/")
    return path if len(names) <= 4 and not path.startswith("/") else "/".join(names[-4:])


def _quote(text: str) -> str:
    return sanitise_name(text, COMMAND_CHARS)


def _tell_wait(snap: Snapshot, found: Resolution) -> str:
    """Return how long after the failure the proof came, where both have a time."""
    times = snap.columns.time[snap.steps.columns.row[[found.failed, found.shown]]]
    if (times == NO_TIME).any() or times[1] < times[0]:
        return ""
    seconds = int(times[1] - times[0])
    if seconds < 120:
        return f", {seconds} s later"
    return f", {seconds // 60} min later" if seconds < 7_200 else f", {seconds // 3_600} h later"


def _find_words(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the first prose of the agent among some items, without calls and code."""
    for entry in entries:
        prose = read_prose(entry["text"])
        if len(prose) > 20:
            return sanitise_name(prose, WORDS_CHARS).replace('"', "'")
    return ""


def read_prose(text: str) -> str:
    """Return what a turn says, on one line, without calls and code."""
    return " ".join(_CALL_LINE.sub(" ", _FENCE.sub(" ", text)).split())


def tell_rule(entry: Mapping[str, Any]) -> Told:
    """Return what a user said of a file."""
    time = entry["time"]
    day = time.date().isoformat() if isinstance(time, datetime) and entry["time_quality"] != "file" else ""
    who = " · ".join(filter(None, (day, sanitise_name(entry["speaker"] or "") or "the user")))
    return Told((f'[{who}] "{sanitise_name(entry["text"], WORDS_CHARS)}" ({cite_turns(entry)})',), (entry["id"],))


def tell_time(seconds: int) -> str:
    """Return a day; an empty text for an unknown time."""
    return "" if seconds == NO_TIME else datetime.fromtimestamp(seconds, UTC).date().isoformat()
