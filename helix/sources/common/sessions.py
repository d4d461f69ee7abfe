"""Sessions and turns, built from the fields that a log gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from helix.sources.common.names import fold_line, make_unique
from helix.sources.common.times import complete_time
from helix.types import Session, Turn
from helix.util.workspaces import Workspace, name_workspace

_BRANCH_CHARS: Final = 8  # of a message's id, in the id of the branch that begins with it


def complete_turn(turn: Turn, fallback: datetime | None = None, is_subagent: bool = False) -> Turn:
    """Return a turn with `fallback` as its default time. All turns of a subagent but summaries have its origin."""
    time, quality = complete_time(turn.time, fallback)
    origin = "subagent" if is_subagent and turn.origin != "summary" else turn.origin
    return replace(turn, time=time, time_quality=quality, origin=origin)


def find_first_prompt(turns: Iterable[Turn]) -> str | None:
    """Return the text of the first turn of a person."""
    return next((turn.text for turn in turns if turn.origin == "human"), None)


def make_sessions(
    source: str,
    id: str,
    turns: Iterable[Turn],
    *,
    project: str | None = None,
    workspace: Workspace | None = None,
    title: str | None = None,
    branch_of: str | None = None,
) -> tuple[Session, ...]:
    """Return the one session of these turns; none without turns. Its title is by default the first user's turn.

    Args:
        project: by default the workspace names it.
    """
    whole = tuple(turns)
    title = title or next((turn.text for turn in whole if turn.role == "user"), None)
    project = project or (name_workspace(workspace) if workspace else None)
    return (Session(source, id, whole, project, fold_title(title), branch_of, workspace),) if whole else ()


def fold_title(title: str | None) -> str | None:
    """Return a title on one line; None without one."""
    return fold_line(title) if title else None


def name_branch(session: str, message: str, taken: dict[str, int]) -> str:
    """Return an id for the branch of a session that begins with a message, and add it to `taken`."""
    short = f"{session}~{message[:_BRANCH_CHARS]}"
    return make_unique(short if short not in taken else f"{session}~{message}", taken)
