"""The voice of an item, for a person: its speaker, else the user, the agent or a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from helix.snapshot.segment.batch import hash_parts
from helix.types import AnyArray

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

YOU: Final = "you"
"""The user of an agent: what an owner reads of an own store."""

AGENTS: Final = (
    *(
        "claude-code",
        "codex",
        "cursor",
        "gemini",
        "copilot",
        "copilot-cli",
        "opencode",
        "aider",
        "cline",
        "amp",
        "droid",
    ),
    *("qwen", "kimi", "kiro", "zed", "pi", "grok", "hermes", "antigravity", "swe-agent", "chatgpt", "claude-ai"),
)
"""Formats that name the assistant, the commonest first; a name is copied since importing adapters takes long."""


def list_voices(snap: Snapshot, rows: AnyArray, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return who said each of some items; "" for a document.

    Args:
        rows: integer[n].
        entries: theirs, of `snap.text`.
    """
    keys = snap.sessions[snap.columns.session[rows]].tolist()
    return [
        entry["speaker"] or _name_role(entry["role"], key, entry["session"])
        for key, entry in zip(keys, entries, strict=True)
    ]


def _name_role(role: str, key: int, session: str) -> str:
    if role == "assistant":
        return find_agent(key, session) or role
    return {"user": YOU, "document": ""}.get(role, role)


@lru_cache(maxsize=1 << 14)
def find_agent(key: int, session: str) -> str:
    """Return the agent of a session, by its key and name; "" for one that is no agent's log or assistant's export.

    The key is the hash of format and name, so no table of formats is read.
    """
    return next((name for name in AGENTS if int(hash_parts(name, session), 16) == key), "")
