"""Changing histories: turns in the order of time, and questions about what changed in them.

`pipelines/eval/data/changes/GUIDE.md` describes the format and how to write one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from helix.errors import InputRefused

TURNS, QUESTIONS = "turns.jsonl", "questions.json"
"""Files of a history."""

HALVES: Final = ("dev", "test")
"""Folders of the packaged histories: `dev` to work with, `test` to measure only."""

PACKAGED: Final = Path(__file__).parent.parent / "data" / "changes"
"""The folder of the packaged histories."""

ROLES: Final = ("user", "assistant", "tool")

LEAST: Final[Mapping[str, int]] = {
    "turns": 110,
    "pairs": 18,
    "pairs of three values": 4,
    "questions about now": 20,
    "questions about then": 8,
    "questions why": 6,
    "controls": 12,
    "kinds of controls": 6,
    "categories": 9,
}
"""The least a packaged history has of each."""

_REMEDY: Final = "'helix eval changes PATH --check' lists all; pipelines/eval/data/changes/GUIDE.md has the format"
_NAMED: Final = 3  # faults in one error

T = TypeVar("T")


class HistoryTurn(NamedTuple):
    """A turn. Its id is unique in its history."""

    id: str
    role: str
    text: str
    time: datetime  # aware


class PastQuestion(NamedTuple):
    """A question about an earlier value or a reason, with the turns that answer it."""

    text: str
    gold: frozenset[str]


class Change(NamedTuple):
    """A pair: one thing whose value changed, the turns that set it, and the questions about it."""

    id: str
    category: str
    stale: tuple[str, ...]  # turns that set an earlier value
    current: frozenset[str]  # turns that set the value that holds
    now: tuple[str, ...]  # questions
    then: tuple[PastQuestion, ...]
    why: tuple[PastQuestion, ...]


class Control(NamedTuple):
    """Turns that still hold, although others seem to change them."""

    id: str
    kind: str
    keep: tuple[str, ...]
    looks_like: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangingHistory:
    """A history, as it was read."""

    folder: Path
    half: str  # of HALVES; "" for one that is not packaged
    turns: tuple[HistoryTurn, ...]
    now: datetime  # the moment of the questions
    pairs: tuple[Change, ...]
    controls: tuple[Control, ...]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name


def list_histories(path: Path, half: str = "all") -> list[tuple[Path, str]]:
    """List the histories of a folder, each with its half.

    Args:
        path: the folder of one history, of several, or with a folder of histories for each half.
        half: one of HALVES, or `all`.

    Raises:
        InputRefused: the folder has no history of that half.
    """
    if half == "all" and _has_history(path):
        return [(path, "")]
    chosen = {one: path / one for one in HALVES if half in (one, "all") and not _has_history(path / one)}
    found = [(folder, one) for one, parent in chosen.items() for folder in _list_folders(parent)]
    found += [(folder, "") for folder in _list_folders(path)] if half == "all" else []
    if not found:
        raise InputRefused(f"{path if half == 'all' else path / half} holds no changing history", _REMEDY)
    return found


def _list_folders(path: Path) -> list[Path]:
    return sorted(folder for folder in path.iterdir() if _has_history(folder)) if path.is_dir() else []


def _has_history(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (TURNS, QUESTIONS))


def read_history(folder: Path, half: str = "") -> ChangingHistory:
    """Read a history.

    Raises:
        InputRefused: it is incomplete or contradicts itself; the error names its first faults.
    """
    history = parse_history(folder, half)
    faults = list(find_faults(history))
    if faults:
        more = f", and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise InputRefused(f"{folder} is no valid history: {'; '.join(faults[:_NAMED])}{more}", _REMEDY)
    return history


def parse_history(folder: Path, half: str = "") -> ChangingHistory:
    """Parse the files of a history, without a check of their contents.

    Raises:
        InputRefused: a file is missing, or a part of it has another form.
    """
    lines = _read_file(folder / TURNS).splitlines()
    numbered = ((f"{TURNS}:{i}", line) for i, line in enumerate(lines, 1) if line.strip())
    turns = tuple(_parse(folder, where, _parse_turn, line) for where, line in numbered)
    raw = _parse(folder, QUESTIONS, _parse_object, _read_file(folder / QUESTIONS))
    pairs, controls = (_parse(folder, f"{QUESTIONS}: {name}", _parse_list, raw, name) for name in ("pairs", "controls"))
    return ChangingHistory(
        folder,
        half,
        turns,
        _parse(folder, f"{QUESTIONS}: now", lambda: _parse_time(raw["now"])),
        tuple(_parse(folder, f"{QUESTIONS}: pair {i}", _parse_pair, pair) for i, pair in enumerate(pairs, 1)),
        tuple(_parse(folder, f"{QUESTIONS}: control {i}", _parse_control, one) for i, one in enumerate(controls, 1)),
    )


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputRefused(f"{path} cannot be read: {error.strerror}", _REMEDY) from None


def _parse(folder: Path, where: str, parse: Callable[..., T], *given: Any) -> T:
    try:
        return parse(*given)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        fault = f"{type(error).__name__}: {error}"
        raise InputRefused(f"{folder} is no valid history: {where}: {fault}", _REMEDY) from None


def _parse_object(raw: bytes) -> dict[str, Any]:
    value = orjson.loads(raw)
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value


def _parse_list(raw: Mapping[str, Any], name: str) -> list[Any]:
    value = raw[name]
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _parse_turn(line: bytes) -> HistoryTurn:
    raw = _parse_object(line)
    identity, session, text = (_parse_text(raw[name]) for name in ("id", "session", "text"))
    if not session:
        raise ValueError("no session")
    return HistoryTurn(identity, _parse_text(raw.get("role", "user")), text, _parse_time(raw["ts"]))


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _parse_time(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no offset from UTC")
    return moment


def _parse_texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(_parse_text, values))


def _parse_pair(raw: Mapping[str, Any]) -> Change:
    then, why = (
        tuple(PastQuestion(_parse_text(one["q"]), frozenset(_parse_texts(one["gold"]))) for one in raw.get(name, ()))
        for name in ("then", "why")
    )
    current = frozenset(_parse_texts(raw["current"]))
    identity, category = _parse_text(raw["id"]), _parse_text(raw["category"])
    return Change(identity, category, _parse_texts(raw["stale"]), current, _parse_texts(raw.get("now", [])), then, why)


def _parse_control(raw: Mapping[str, Any]) -> Control:
    keep, looks_like = _parse_texts(raw["keep"]), _parse_texts(raw.get("looks_like", []))
    return Control(_parse_text(raw["id"]), _parse_text(raw["kind"]), keep, looks_like)


# ---------------------------------------------------------------- checks


def find_faults(history: ChangingHistory) -> Iterator[str]:
    """Find contradictions that would make a figure wrong, each as a line."""
    turns = history.turns
    if not turns:
        yield "it has no turn"
        return
    yield from (f"two turns are {turn!r}" for turn, n in Counter(turn.id for turn in turns).items() if n > 1)
    for turn, before in zip(turns, (turns[0], *turns), strict=False):
        if turn.time < before.time:
            yield f"time goes back at {turn.id!r}"
        if turn.role not in ROLES:
            yield f"{turn.id!r} has the role {turn.role!r}, not one of {', '.join(ROLES)}"
        if not turn.text.strip():
            yield f"{turn.id!r} has no text"
    if history.now < turns[-1].time:
        yield "now is before the last turn"
    places = {turn.id: i for i, turn in enumerate(turns)}
    stale = {turn for pair in history.pairs for turn in pair.stale}
    for pair in history.pairs:
        yield from (f"pair {pair.id}: {fault}" for fault in _check_pair(pair, places))
    for control in history.controls:
        yield from (f"control {control.id}: {fault}" for fault in _check_control(control, places, stale))


def _check_pair(pair: Change, places: Mapping[str, int]) -> Iterator[str]:
    past = (*pair.then, *pair.why)
    unknown = _list_unknown((*pair.stale, *pair.current, *(turn for one in past for turn in one.gold)), places)
    yield from unknown
    if not (pair.stale and pair.current):
        yield "a stale and a current turn are needed"
    elif both := sorted(pair.current.intersection(pair.stale)):
        yield f"{both[0]!r} is both stale and current"
    elif not unknown and max(places[turn] for turn in pair.stale) > min(places[turn] for turn in pair.current):
        yield "a stale turn comes after a current one"
    if not all(text.strip() for text in (*pair.now, *(one.text for one in past))):
        yield "a question has no text"
    yield from (f"no gold turn for {one.text!r}" for one in past if not one.gold)


def _check_control(control: Control, places: Mapping[str, int], stale: Iterable[str]) -> Iterator[str]:
    yield from _list_unknown((*control.keep, *control.looks_like), places)
    yield from (f"it keeps the stale turn {turn!r}" for turn in sorted(set(control.keep).intersection(stale)))


def _list_unknown(named: Sequence[str], places: Mapping[str, int]) -> list[str]:
    return [f"no turn {turn!r}" for turn in dict.fromkeys(named) if turn not in places]


def count_parts(history: ChangingHistory) -> dict[str, int]:
    """Count what LEAST limits."""
    pairs = history.pairs
    return {
        "turns": len(history.turns),
        "pairs": len(pairs),
        "pairs of three values": sum(len(pair.stale) > 1 for pair in pairs),
        "questions about now": sum(len(pair.now) for pair in pairs),
        "questions about then": sum(len(pair.then) for pair in pairs),
        "questions why": sum(len(pair.why) for pair in pairs),
        "controls": len(history.controls),
        "kinds of controls": len({control.kind for control in history.controls}),
        "categories": len({pair.category for pair in pairs}),
    }


def list_shortfalls(history: ChangingHistory) -> list[str]:
    """Return a line for each thing of which a packaged history would need more."""
    counts = count_parts(history)
    return [f"{counts[name]} {name}, of at least {least}" for name, least in LEAST.items() if counts[name] < least]
