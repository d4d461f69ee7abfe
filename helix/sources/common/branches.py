"""Conversations whose messages form a tree: the path that was kept, and the attempts that were left.

Chat sites keep every edited prompt and every regenerated answer as another child of the same message. One path through
the tree is the conversation. What hangs off it is a session of its own where a person asked something on it; another
answer to the same prompt is not. Times and children lists are not relied on: only parents are, and these may be
missing or form a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from helix.sources.common.junk import left_out
from helix.sources.common.shared import TITLE_CHARS, one_line, unique
from helix.types import Session, Turn

ABANDONED: Final = "abandoned"  # rule of what is left out of answers that were regenerated
_BRANCH_CHARS: Final = 8  # of a message's id, in the id of the branch that begins with it
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a tree. One without turns is noise, to be walked through."""

    id: str
    parent: str | None
    time: datetime | None = None
    turns: tuple[Turn, ...] = ()  # time, and parent where it is the message before, are still open
    prompt: bool = False  # a person speaks


@dataclass(frozen=True, slots=True)
class Conversation:
    """A tree of messages, with what is said about all of it."""

    id: str
    messages: Mapping[str, Message]
    leaf: str | None = None  # where the conversation ends; None or unknown: at the newest message
    title: str | None = None
    project: str | None = None
    began: datetime | None = None


def sessions(source: str, conversation: Conversation, taken: dict[str, int], junk: Counter[str]) -> Iterator[Session]:
    """The conversation, then the branches that a person spoke on. `taken`: session ids there are already."""
    messages = conversation.messages
    order = _parents_first(messages)
    times = _times(messages, order)
    main, *branches = _paths(messages, order, times, conversation.leaf)
    turns = _turns(messages, order, times, conversation.began)

    name = unique(conversation.id, taken)
    title = conversation.title or _first_prompt(turns[id] for path in (main, *branches) for id in path)
    for path in (main, *branches):
        said = [turn for id in path for turn in turns[id]]
        if not said:
            continue
        if path is not main and not any(messages[id].prompt for id in path):
            left_out(sum(len(turn.text) for turn in said), ABANDONED, junk)
            continue
        yield Session(
            source=source,
            id=name if path is main else _branch_id(name, next(id for id in path if turns[id]), taken),
            turns=_distinct(said),
            project=conversation.project,
            title=one_line(title, TITLE_CHARS) if title else None,
            branch_of=None if path is main else name,
        )


def _parents_first(messages: Mapping[str, Message]) -> list[str]:
    """Every message once, parents before children. A cycle opens at the message it is first met at."""
    order: list[str] = []
    done: set[str] = set()
    for start in messages:
        chain: list[str] = []
        at: str | None = start
        while at is not None and at in messages and at not in done:
            done.add(at)
            chain.append(at)
            at = messages[at].parent
        order += reversed(chain)
    return order


def _times(messages: Mapping[str, Message], order: Iterable[str]) -> dict[str, datetime]:
    """The time of each message, else that of the nearest one before it that has one."""
    times: dict[str, datetime] = {}
    for id in order:
        time = messages[id].time or times.get(messages[id].parent or "")
        if time is not None:
            times[id] = time
    return times


def _paths(
    messages: Mapping[str, Message], order: list[str], times: Mapping[str, datetime], leaf: str | None
) -> list[list[str]]:
    """The conversation first, then what is left of every other path. Each message is on one of them."""
    place = {id: number for number, id in enumerate(messages)}
    parents = {message.parent for message in messages.values()}
    leaves = [id for id in messages if id not in parents] or order

    def age(id: str) -> tuple[datetime, int]:
        return times.get(id, _LONG_AGO), place[id]

    if leaf not in messages:
        leaf = max(leaves, key=age, default=None)
    taken: set[str] = set()
    main = _climb(messages, leaf, taken)
    asked = _asked(messages, order, taken)
    # Of paths that part, the one a person went on with is the whole one; the newest, where he did on several.
    ends = sorted(leaves, key=lambda id: (id in asked, *age(id)), reverse=True)
    left = (_climb(messages, end, taken) for end in (*ends, *reversed(order)))  # the latter for cycles, which have none
    return [main, *sorted(filter(None, left), key=lambda path: place[path[0]])]


def _climb(messages: Mapping[str, Message], leaf: str | None, taken: set[str]) -> list[str]:
    """From the first message that is not taken down to `leaf`; they are taken now."""
    path: list[str] = []
    while leaf is not None and leaf in messages and leaf not in taken:
        taken.add(leaf)
        path.append(leaf)
        leaf = messages[leaf].parent
    return path[::-1]


def _asked(messages: Mapping[str, Message], order: Iterable[str], main: Set[str]) -> set[str]:
    """The messages on whose way off the conversation a person spoke."""
    asked: set[str] = set()
    for id in order:
        if id not in main and (messages[id].prompt or messages[id].parent in asked):
            asked.add(id)
    return asked


def _turns(
    messages: Mapping[str, Message], order: Iterable[str], times: Mapping[str, datetime], began: datetime | None
) -> dict[str, list[Turn]]:
    """The turns of each message, whole: what they answer, and when."""
    turns: dict[str, list[Turn]] = {}
    answered: dict[str, str | None] = {}  # by message, the turn that one after it answers
    for id in order:
        message = messages[id]
        before = answered.get(message.parent or "")
        time = times.get(id, began)
        quality = "exact" if message.time else "derived" if time else "none"
        turns[id] = [
            replace(turn, time=time, time_quality=quality, parent=turn.parent or before) for turn in message.turns
        ]
        names = [turn.id for turn in message.turns]
        answered[id] = id if id in names else names[-1] if names else before
    return turns


def _distinct(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    names: dict[str, int] = {}
    named = ((turn, unique(turn.id, names)) for turn in turns)
    return tuple(turn if turn.id == name else replace(turn, id=name, unique=False) for turn, name in named)


def _first_prompt(turns: Iterable[Iterable[Turn]]) -> str | None:
    return next((turn.text for some in turns for turn in some if turn.origin == "human"), None)


def _branch_id(session: str, message: str, taken: dict[str, int]) -> str:
    short = f"{session}~{message[:_BRANCH_CHARS]}"
    return unique(short if short not in taken else f"{session}~{message}", taken)
