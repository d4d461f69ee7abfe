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


REFUSED = "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused."
PACKAGES = "go: cannot write multiple packages to non-directory tide"
TRACE = """FAILED tests/test_queue.py::test_pop - KeyError: 'tide'
  File "/srv/harbour/src/queue.py", line 3, in pop
KeyError: 'tide'
1 failed"""


def write_harbour_logs(logs: Path) -> None:
    """Write three sessions of the project harbour: rules, failures with their fixes, an open end."""
    write_log(logs, "aaaa0001", "2026-05-01T10:00:00", [
        ("ask", "Never edit generated/tides.py by hand: make codegen writes it."),
        ("say", "Understood."),
        ("ask", "Don't use npm here, use pnpm."),
        ("say", "Noted."),
        ("ask", "We decided that src/locks.py stays single-threaded, because the port has one clock."),
        ("say", "Good."),
        ("ask", "the queue test fails, fix it"),
        *run("pytest -q tests/test_queue.py", f"E   {REFUSED}\n1 failed in 0.2s", True, "Now let me run the test."),
        *run("cat docker-compose.yml", "services:\n  redis: {}\n"),
        *run("docker compose up -d redis", "started", False, "Redis is not running, so I start it."),
        *run("pytest -q tests/test_queue.py", "4 passed in 0.3s", False),
        ("say", "The test passes now, since redis runs."),
    ])  # fmt: skip
    write_log(logs, "aaaa0002", "2026-05-02T10:00:00", [
        ("ask", "build the tool"),
        *run("go build -o tide ./...", PACKAGES, True),
        *run("go build -o tide .", "", False),
        *edit("/srv/harbour/src/queue.py", "The retry belongs into pop, since push must stay quick."),
        *run("pytest -q", TRACE, True),
        *edit("/srv/harbour/src/queue.py"),
        *run("pytest -q", "9 passed in 1s", False),
        *run('git commit -am "queue: retry in pop"', "[main 1a2b3c4] queue: retry in pop\n 1 file changed", False),
    ])  # fmt: skip
    write_log(logs, "aaaa0003", "2026-05-03T10:00:00", [
        ("ask", "tidy the docs"),
        *edit("/srv/harbour/docs/a.md"),
        *run("make docs", "make: *** [docs] Error 2", True),
        ("say", "The docs do not build. Still to do: install the theme. Shall I install it?"),
    ])  # fmt: skip
