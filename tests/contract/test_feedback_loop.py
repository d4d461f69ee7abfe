"""Memory does not feed on itself: items recalled into a session ten times add nothing to the store."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helix.snapshot.sql import run_statement
from tests.support.processes import wait_until
from tests.support.serving import HELIX

PROMPT = "why did we pick sqlite for the idempotency keys?"
SOON = 90.0  # seconds: each round publishes in a process of its own

Records = Callable[[int, str], list[dict[str, Any]]]


def claude(i: int, context: str) -> list[dict[str, Any]]:
    """Return a prompt, a hook's addition and a tool call as Claude Code logs them."""
    common = {"sessionId": "loop", "cwd": "/home/ana/src/ledgerline", "timestamp": f"2026-06-01T10:{i:02}:00Z"}
    call = {"type": "tool_use", "id": f"t{i}", "name": "mcp__helix__recall", "input": {"query": PROMPT}}
    result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": [{"type": "text", "text": context}]}
    reminder = f"<system-reminder>\nUserPromptSubmit hook additional context: {context}\n</system-reminder>"
    attached = {"type": "hook_additional_context", "content": [context], "hookEvent": "UserPromptSubmit"}

    def record(kind: str, name: str, before: str | None, content: Any = None, **more: Any) -> dict[str, Any]:
        message = {} if content is None else {"message": {"role": kind, "content": content}}
        return {"type": kind, "uuid": f"{name}{i}", "parentUuid": before, **common, **message, **more}

    return [
        *([record("user", "u", None, PROMPT)] if not i else []),
        record("attachment", "x", "u0", attachment=attached),
        record("user", "r", f"x{i}", reminder),
        record("user", "p", f"r{i}", f"UserPromptSubmit hook additional context: {context}"),
        record("assistant", "a", f"p{i}", [call]),
        record("user", "o", f"a{i}", [result]),
        record("user", "m", f"o{i}", context),
    ]


def codex(i: int, context: str) -> list[dict[str, Any]]:
    """Return the same as Codex logs it: context is a developer's or a user's message."""

    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": f"2026-06-01T10:{i:02}:00.000Z", "type": "response_item", "payload": payload}

    def message(role: str, text: str) -> dict[str, Any]:
        return item(type="message", role=role, content=[{"type": "input_text", "text": text}])

    meta = {
        "id": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "cwd": "/home/ana/src/ledgerline",
        "timestamp": "2026-06-01T10:00:00Z",
    }
    call = {"type": "function_call", "name": "mcp__helix__recall", "arguments": json.dumps({"query": PROMPT})}
    return [
        *([{"timestamp": "2026-06-01T10:00:00Z", "type": "session_meta", "payload": meta}] if not i else []),
        *([message("user", PROMPT)] if not i else []),
        message("developer", context),
        message("user", context),
        item(**call, call_id=f"c{i}"),
        item(type="function_call_output", call_id=f"c{i}", output=context),
    ]


def gemini(i: int, context: str) -> list[dict[str, Any]]:
    """Return the same as Gemini logs it: context is appended to the prompt, in its own tag."""
    head = {
        "sessionId": "loop",
        "projectHash": "f0",
        "startTime": "2026-06-01T10:00:00Z",
        "directories": ["/home/ana/src/ledgerline"],
    }
    asked = {"id": "u", "timestamp": "2026-06-01T10:00:00Z", "type": "user", "content": PROMPT}
    responses = [{"functionResponse": {"id": f"c{i}", "name": "helix__recall", "response": {"output": context}}}]
    call = {"id": f"c{i}", "name": "helix__recall", "args": {"query": PROMPT}, "status": "success", "result": responses}
    return [
        *([head, asked] if not i else []),
        {
            "id": f"h{i}",
            "timestamp": f"2026-06-01T10:{i:02}:00Z",
            "type": "user",
            "content": f"<hook_context>{context}</hook_context>",
        },
        {"id": f"m{i}", "timestamp": f"2026-06-01T10:{i:02}:01Z", "type": "user", "content": context},
        {"id": f"g{i}", "timestamp": f"2026-06-01T10:{i:02}:02Z", "type": "gemini", "content": "", "toolCalls": [call]},
    ]


def items(store: Path) -> list[tuple[Any, ...]]:
    with run_statement(store, "SELECT id, text FROM items ORDER BY id") as found:
        return list(found.rows)


@pytest.mark.parametrize(
    ("rounds", "records", "asks", "ends"),
    [
        pytest.param(2, claude, "UserPromptSubmit", "Stop", id="claude-code"),
        pytest.param(10, claude, "UserPromptSubmit", "Stop", id="claude-code-long", marks=pytest.mark.soak),
        pytest.param(10, codex, "UserPromptSubmit", "Stop", id="codex", marks=pytest.mark.soak),
        pytest.param(10, gemini, "BeforeAgent", "AfterAgent", id="gemini", marks=pytest.mark.soak),
    ],
)
def test_feedback_through_a_hook_raises_salience(
    own_store: Path, cache: Path, tmp_path: Path, rounds: int, records: Records, asks: str, ends: str
) -> None:
    folder = {"codex": ".codex/sessions", "gemini": ".gemini/tmp/f0/chats"}.get(records.__name__, ".claude/projects/p")
    transcript = tmp_path / folder / ("rollout-loop.jsonl" if records is codex else "loop.jsonl")
    transcript.parent.mkdir(parents=True)

    def hook(event: str, session: str) -> str:
        given = {"session_id": session, "transcript_path": str(transcript), "cwd": "/home/ana/src/ledgerline"}
        done = subprocess.run(
            [HELIX, "hook", event, "--store", str(own_store)],
            input=json.dumps({**given, "hook_event_name": event, "prompt": PROMPT}),
            capture_output=True,
            text=True,
            env={**os.environ, "HELIX_CACHE": str(cache)},
            timeout=60,
            check=True,
        )
        return done.stdout

    before: list[tuple[Any, ...]] = []
    for i in range(rounds):
        context = json.loads(hook(asks, f"round {i}"))["hookSpecificOutput"]["additionalContext"]
        assert "SQLite" in context
        with transcript.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records(i, context))
        size = transcript.stat().st_size
        hook(ends, f"round {i}")
        wait_until(SOON, lambda size=size: count_published_bytes(own_store) == size)
        found = items(own_store)
        if not i:
            before = found
            assert [text for _, text in before].count(PROMPT) >= 1
        assert found == before, [text for each, text in found if (each, text) not in before]
    assert not any("<memory>" in text or "</memory>" in text for _, text in before)


def count_published_bytes(store: Path) -> int:
    """Return the bytes of the growing source that are published."""
    from helix.snapshot.ledger import cursors, inbox

    found = [cursor for path in (store / "sources").iterdir() if (cursor := cursors.read_cursor(store, path.stem))]
    growing = [cursor for cursor in found if "loop" in inbox.read_envelope(store, cursor.document).path]
    return growing[0].offset if growing and not inbox.list_pending(store) else 0
