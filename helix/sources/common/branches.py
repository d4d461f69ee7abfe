"""Trees of messages: the path that is the conversation, and the abandoned branches.

Chat sites store every edited prompt and every regenerated answer as another child of the same message. One path
through the tree is the conversation. Another path is a session of its own if a person speaks on it; another answer to
the same prompt is not. Only parents are relied on, not times nor lists of children. Parents may be missing or form a
cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from helix.sources.common.names import make_unique
from helix.sources.common.sessions import find_first_prompt, make_sessions, name_branch
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import complete_time
from helix.types import Session, Turn

ABANDONED: Final = "abandoned"
"""Rule under which regenerated answers are counted as junk."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a tree. A message without turns is noise between two others."""

    id: str
    parent: str | None
    time: datetime | None = None
    turns: tuple[Turn, ...] = ()  # still without time, and without parent if that is the message before
    is_prompt: bool = False  # a person speaks


@dataclass(frozen=True, slots=True)
class Conversation:
    """A tree of messages, with its title, project and start."""

    id: str
    messages: Mapping[str, Message]
    leaf: str | None = None  # end of the conversation; None or unknown: the newest message
    title: str | None = None
    project: str | None = None
    began: datetime | None = None


def build_sessions(
    source: str, conversation: Conversation, taken: dict[str, int], cleaner: TextCleaner
) -> Iterator[Session]:
    """Yield the conversation, then the branches on which a person speaks. `taken`: session ids in use."""
    messages = conversation.messages
    order = _sort_parents_first(messages)
    times = _inherit_times(messages, order)
    main, *branches = _find_paths(messages, order, times, conversation.leaf)
    turns = _complete_turns(messages, order, times, conversation.began)

    name = make_unique(conversation.id, taken)
    title = conversation.title or find_first_prompt(turn for id in chain(main, *branches) for turn in turns[id])
    for path in (main, *branches):
        spoken = [turn for id in path for turn in turns[id]]
        if not spoken:
            continue
        if path is not main and not any(messages[id].is_prompt for id in path):
            cleaner.drop(ABANDONED, *(turn.text for turn in spoken))
            continue
        yield from make_sessions(
            source,
            name if path is main else name_branch(name, next(id for id in path if turns[id]), taken),
            _make_ids_unique(spoken),
            project=conversation.project,
            title=title,
            branch_of=None if path is main else name,
        )


def _sort_parents_first(messages: Mapping[str, Message]) -> list[str]:
    """Return every message once, parents before children. A cycle opens at the first message found of it."""
    order: list[str] = []
    done: set[str] = set()
    for start in messages:
        ancestors: list[str] = []
        at: str | None = start
        while at is not None and at in messages and at not in done:
            done.add(at)
            ancestors.append(at)
            at = messages[at].parent
        order += reversed(ancestors)
    return order


def _inherit_times(messages: Mapping[str, Message], order: Iterable[str]) -> dict[str, datetime]:
    """Return the time of each message, by default that of its nearest ancestor with one."""
    times: dict[str, datetime] = {}
    for id in order:
        time = messages[id].time or times.get(messages[id].parent or "")
        if time is not None:
            times[id] = time
    return times


def _find_paths(
    messages: Mapping[str, Message], order: list[str], times: Mapping[str, datetime], leaf: str | None
) -> list[list[str]]:
    """Return the conversation, then the rest of every other path. Each message is on one path."""
    place = {id: number for number, id in enumerate(messages)}
    parents = {message.parent for message in messages.values()}
    leaves = [id for id in messages if id not in parents] or order

    def age(id: str) -> tuple[datetime, int]:
        return times.get(id, _LONG_AGO), place[id]

    if leaf not in messages:
        leaf = max(leaves, key=age, default=None)
    taken: set[str] = set()
    main = _climb(messages, leaf, taken)
    prompted = _find_prompted(messages, order, taken)
    # Of paths that part, the whole one is the path with a prompt; of several, the newest.
    ends = sorted(leaves, key=lambda id: (id in prompted, *age(id)), reverse=True)
    paths = (_climb(messages, end, taken) for end in (*ends, *reversed(order)))  # cycles have no leaf
    return [main, *sorted(filter(None, paths), key=lambda path: place[path[0]])]


def _climb(messages: Mapping[str, Message], leaf: str | None, taken: set[str]) -> list[str]:
    """Return the path from the first message that is not taken down to `leaf`, and take it."""
    path: list[str] = []
    while leaf is not None and leaf in messages and leaf not in taken:
        taken.add(leaf)
        path.append(leaf)
        leaf = messages[leaf].parent
    return path[::-1]


def _find_prompted(messages: Mapping[str, Message], order: Iterable[str], main: Set[str]) -> set[str]:
    """Return the messages off the conversation with a prompt between it and them."""
    prompted: set[str] = set()
    for id in order:
        if id not in main and (messages[id].is_prompt or messages[id].parent in prompted):
            prompted.add(id)
    return prompted


def _complete_turns(
    messages: Mapping[str, Message], order: Iterable[str], times: Mapping[str, datetime], began: datetime | None
) -> dict[str, list[Turn]]:
    """Return the turns of each message, with time and parent."""
    turns: dict[str, list[Turn]] = {}
    last_turn: dict[str, str | None] = {}  # by message, the parent of the next message's turns
    for id in order:
        message = messages[id]
        before = last_turn.get(message.parent or "")
        time, quality = complete_time(message.time, times.get(id, began))
        turns[id] = [
            replace(each, time=time, time_quality=quality, parent=each.parent or before) for each in message.turns
        ]
        names = [turn.id for turn in message.turns]
        last_turn[id] = id if id in names else names[-1] if names else before
    return turns


def _make_ids_unique(turns: Iterable[Turn]) -> Iterator[Turn]:
    names: dict[str, int] = {}
    for turn in turns:
        name = make_unique(turn.id, names)
        yield turn if turn.id == name else replace(turn, id=name, unique=False)
