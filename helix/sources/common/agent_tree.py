"""Sessions of agents that log a tree: each record names the one before it, and the last one ends the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from helix.sources.common.agent_log import AgentLog
from helix.sources.common.branches import Conversation, Message, build_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.types import Session
from helix.util.workspaces import Workspace, name_workspace


@dataclass(slots=True)
class AgentTree:
    """Records of one session so far."""

    cleaner: TextCleaner
    messages: dict[str, Message] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)  # tool call: turn that made it
    records: dict[str, str] = field(default_factory=dict)  # tool call: record that made it
    leaf: str | None = None


def open_record(tree: AgentTree, id: str) -> AgentLog:
    """Return a log for the turns of one record, which may have others already."""
    known = tree.messages.get(id)
    ids = {turn.id: 0 for turn in known.turns} if known else {}
    return AgentLog(tree.cleaner, ids=ids, callers=tree.callers)


def close_record(tree: AgentTree, id: str, parent: str | None, time: datetime | None, log: AgentLog) -> None:
    """Add a record with the turns of its log. A parent may also be a tool call."""
    known = tree.messages.get(id)
    new = (replace(turn, time=None, time_quality="none") for turn in log.turns)
    turns = (*(known.turns if known else ()), *new)
    if parent is not None and parent not in tree.messages:
        parent = tree.records.get(parent, parent)
    # The calls of this record are the last ones.
    tree.records.update(dict.fromkeys(islice(reversed(tree.callers), len(tree.callers) - len(tree.records)), id))
    is_prompt = any(turn.origin == "human" for turn in turns)
    tree.messages[id] = Message(id, None if parent == id else parent, time, turns, is_prompt)
    tree.leaf = id


def list_path(tree: AgentTree) -> list[str]:
    """Return the records of the conversation, the last one first."""
    path: dict[str, None] = {}
    at = tree.leaf
    while at is not None and at in tree.messages and at not in path:
        path[at] = None
        at = tree.messages[at].parent
    return list(path)


def build_tree(
    tree: AgentTree, source: str, id: str, *, title: str | None = None, workspace: Workspace | None = None
) -> Iterator[Session]:
    """Yield the conversation, then the branches on which a person speaks."""
    project = name_workspace(workspace) if workspace else None
    conversation = Conversation(id, tree.messages, tree.leaf, title, project)
    for session in build_sessions(source, conversation, {}, tree.cleaner):
        yield replace(session, workspace=workspace)
