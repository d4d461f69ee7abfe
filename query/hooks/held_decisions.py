"""The part of a briefing that lists the decisions of a project which hold, and what was rejected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from helix.stages.pack import CLOSE, OPEN

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

SHARE: Final = 0.25
"""Part of a briefing's budget that decisions may take."""

_HELD: Final = 12  # entries
_REJECTED: Final = 4

Count = Callable[[Sequence[str]], list[int]]


def format_held_decisions(snap: Snapshot, project: str, room: int, count: Count) -> str:
    """Return the newest decisions as lines below headings; empty if none is known or fits.

    Args:
        room: tokens of the lines.
        count: counts the tokens of texts.
    """
    from helix.sdk.decisions.lines import format_decision, format_rejection
    from helix.sdk.decisions.listing import list_decisions

    found = list_decisions(snap, int(time.time()), project=project, limit=_HELD)
    held = (f"- {format_decision(entry, entry['item'])}" for entry in found["decisions"])
    rejected = (f"- {format_rejection(entry, entry['item'])}" for entry in found["rejected"][:_REJECTED])
    lines = _fit("Decisions that hold:", held, room, count)
    room -= sum(count(lines))
    return "\n".join([*lines, *_fit("Rejected:", rejected, room, count)])


def _fit(heading: str, lines: Iterable[str], room: int, count: Count) -> list[str]:
    """Return a heading and the first lines that fit below it; nothing if none does."""
    found = [heading]
    room -= sum(count([f"{heading}\n"]))
    for line in lines:
        room -= sum(count([f"{line}\n"]))
        if room < 0:
            break
        found.append(line)
    return found if len(found) > 1 else []


def insert_lines(lines: str, context: str) -> str:
    """Return a context that begins with some lines, within its wrapper; without a context one of its own."""
    if not lines:
        return context
    return context.replace(f"{OPEN}\n", f"{OPEN}\n{lines}\n", 1) if context else f"{OPEN}\n{lines}\n{CLOSE}"
