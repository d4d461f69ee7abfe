"""Logs of Claude Code, written from a few events: what a user asks, what the agent says, calls and results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Event = tuple[Any, ...]
"""("ask", text) · ("say", text) · ("call", tool, input) · ("result", text) or ("result", text, failed)."""


def run(command: str, output: str = "", failed: bool | None = None, say: str = "") -> list[Event]:
    """A command and what it returned."""
    told: list[Event] = [("say", say)] if say else []
    return [*told, ("call", "Bash", {"command": command}), ("result", output, failed)]


def edit(path: str, say: str = "") -> list[Event]:
    """An edit of a file."""
    given = {"file_path": path, "old_string": "a", "new_string": "b"}
    told: list[Event] = [("say", say)] if say else []
    return [*told, ("call", "Edit", given), ("result", f"The file {path} has been updated successfully.", False)]


def write_log(folder: Path, session: str, begin: str, events: Sequence[Event], cwd: str = "/srv/harbour") -> Path:
    """Write one session, a record a minute, and return its file."""
    at = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    lines, parent, call = [], None, ""
    for number, event in enumerate(events):
        uuid = f"{number + 0x10:08x}-0000-4000-8000-{session[-12:]:0>12}"
        kind, content = _make_content(event, call)
        if event[0] == "call":
            call = f"toolu_{session}_{number}"
            content = [{"type": "tool_use", "id": call, "name": event[1], "input": event[2]}]
        record = {
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "cwd": cwd, "gitBranch": "main",
            "timestamp": (at + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"), "isSidechain": False,
            "message": {"role": kind, "content": content, "id": f"msg_{session}_{number}"},
        }  # fmt: skip
        lines.append(json.dumps(record))
        parent = uuid
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _make_content(event: Event, call: str) -> tuple[str, Any]:
    if event[0] == "ask":
        return "user", event[1]
    if event[0] == "result":
        failed = {} if len(event) < 3 or event[2] is None else {"is_error": event[2]}
        return "user", [{"type": "tool_result", "tool_use_id": call, "content": event[1], **failed}]
    return "assistant", [{"type": "text", "text": event[1]}] if event[0] == "say" else []
