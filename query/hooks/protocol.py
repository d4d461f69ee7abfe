"""The hook protocol: agents' events and payloads, the answer's shape, and the hook's own folders.

`query.hooks.command` imports this module while an agent waits, so it imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from helix.util.repositories import find_repository

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from typing import Any

EVENTS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",  # Gemini's UserPromptSubmit
    "Stop": "transcript",
    "SubagentStop": "transcript",
    "PreCompact": "transcript",
    "SessionEnd": "transcript",
    "AfterAgent": "transcript",  # Gemini's Stop
    "PreCompress": "transcript",  # Gemini's PreCompact
    "PreToolUse": "before",
    "BeforeTool": "before",  # Gemini's PreToolUse
    "BeforeShellExecution": "before",  # Cursor's, of a command
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "AfterTool": "after",  # Gemini's PostToolUse
    "AfterShellExecution": "after",  # Cursor's, of a command
}
"""The action of each event: all but `transcript`, which ingests, answer with a context."""

ENQUEUE = 2.0  # seconds to wait for `helix enqueue`, which continues by itself
MAX_PROMPT = 4_000  # characters of a prompt in the request, half of them from its end
MAX_TARGET = 4_000  # characters of a command or a path in the request
MAX_OUTPUT = 40_000  # characters of a tool's output in the request, half of them from its end
MAX_LOG = 1 << 20  # bytes; a larger log is rotated once

_TARGETS = (
    *("command", "cmd", "file_path", "filePath", "absolute_path", "notebook_path", "path", "target_file", "filename"),
    *("commandLine", "CommandLine", "script", "input", "patch"),
)
"""Arguments of a tool call that name a command or a file."""

_OUTPUTS = (
    "error",
    "stderr",
    "stdout",
    "output",
    "llmContent",
    "returnDisplay",
    "content",
    "text",
    "message",
    "result",
)
"""Fields of a tool's response that hold text."""

_FIELDS = frozenset(("output", "exitCode", "exit_code", "stdout", "stderr"))

_FAILING = (
    *("error", "fail", "exception", "fatal", "panic", "traceback", "cannot", "can't", "could not", "unable", "denied"),
    *("not found", "no such", "refused", "invalid", "unknown", "unrecognized", "undefined", "missing", "timed out"),
    *("killed", "rejected", "conflict", "not properly", "unresolved", "unexpected", "warning: unused", "abort"),
)
"""Words of failures."""

_FILLERS = """
    a again ahead alright and continue cool do done exactly fine finish go good great hello hey hi it k keep lgtm looks
    me more n next nice no nope now ok okay on one perfect please proceed resume retry right same sounds stop sure thank
    thanks that that's the then there this thx try wait y yeah yep yes you
"""
"""Words that ask for nothing: a short prompt of these alone continues the agent's own context."""


def find_event(word: str) -> str | None:
    """Return the event of a name in any case and with any separators; None for other events."""
    letters = "".join(filter(str.isalpha, word)).lower()
    return next((event for event in EVENTS if event.lower() == letters), None)


def detect_agent(payload: Mapping[str, Any]) -> str:
    """Return the agent that sent a payload, by the field names that only this agent uses."""
    if "cursor_version" in payload:
        return "cursor"
    if str(payload.get("hook_event_name")) in ("BeforeAgent", "AfterAgent", "PreCompress") or "timestamp" in payload:
        return "gemini"
    # Codex uses Claude Code's names, and adds a turn id.
    transcript = str(payload.get("transcript_path"))
    return "codex" if "turn_id" in payload or "/.codex/" in transcript or "/rollout-" in transcript else "claude-code"


def list_transcripts(payload: Mapping[str, Any]) -> list[str]:
    """Return the absolute paths of the session's transcript and of its subagents' transcripts."""
    paths = [_find_text(payload, "transcript_path"), _find_text(payload, "agent_transcript_path")]
    folder = f"{paths[0].removesuffix('.jsonl')}/subagents"
    with suppress(OSError):
        paths += sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".jsonl"))  # noqa: PTH208
    absolute = (os.path.abspath(os.path.expanduser(path)) for path in paths if path)  # noqa: PTH100, PTH111
    return list(dict.fromkeys(absolute))


def list_folders(payload: Mapping[str, Any]) -> list[str]:
    """Return the folders that the agent works in, the likeliest first."""
    roots = payload.get("workspace_roots")
    folders = [
        os.environ.get("CLAUDE_PROJECT_DIR", ""),  # the session's first folder; `cwd` may have moved
        os.environ.get("GEMINI_PROJECT_DIR", ""),
        _find_text(payload, "cwd"),
        *([root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []),
    ]
    return [folder for folder in folders if folder]


def find_session(payload: Mapping[str, Any]) -> str:
    """Return the session's id; empty where the event names none."""
    return _find_text(payload, "session_id", "conversation_id")


def find_prompt(payload: Mapping[str, Any]) -> str:
    """Return the prompt; empty where the event has none."""
    return _find_text(payload, "prompt")


def name_project(folder: str) -> str:
    """Return the project of a folder, by itself: the name of its repository, else its own."""
    top, remote = find_repository(folder)
    return (remote or top or folder).replace("\\", "/").rstrip("/").rpartition("/")[2]


def build_request(event: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the body of POST /v1/hook; None where the prompt needs no memory."""
    prompt = find_prompt(payload)
    if EVENTS[event] == "prompt" and not may_need_memory(prompt):
        return None
    if len(prompt) > MAX_PROMPT:
        half = MAX_PROMPT // 2
        prompt = f"{prompt[:half]}\n{prompt[-half:]}"
    place = _describe_place(payload)
    return {"kind": EVENTS[event], "prompt": prompt, **place, "source": _find_text(payload, "source")}


def _describe_place(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that name the agent's folders and session."""
    folders = list_folders(payload)
    return {
        "folders": folders,
        "repositories": {folder: found for folder in folders if (found := find_repository(folder))[0]},
        "session": find_session(payload),
    }


def build_action_request(event: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the body of POST /v1/hook for a tool call; None where nothing can be known of it."""
    tool, arguments = _find_text(payload, "tool_name"), payload.get("tool_input")
    if event in ("BeforeShellExecution", "AfterShellExecution"):
        tool, arguments = "shell", {"command": _find_text(payload, "command")}
    arguments = arguments if isinstance(arguments, (dict, str)) else {}
    if isinstance(arguments, dict):
        arguments = {name: arguments[name] for name in _TARGETS if isinstance(arguments.get(name), (str, list))}
        arguments = {name: value[:MAX_TARGET] for name, value in arguments.items()}
    request: dict[str, Any] = {"kind": EVENTS[event], "tool": tool, "input": arguments}
    if not arguments:
        return None
    if EVENTS[event] == "after":
        output, failed = read_output(event, payload)
        if not failed and not may_tell_failure(output):
            return None
        half = MAX_OUTPUT // 2
        output = output if len(output) <= MAX_OUTPUT else f"{output[:half]}\n{output[-half:]}"
        request |= {"output": output, "failed": failed}
    return {**request, **_describe_place(payload)}


def read_output(event: str, payload: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the text of a tool's response, and whether the event says that the tool failed; None: it does not say."""
    texts, failed = list[str](), True if event == "PostToolUseFailure" else None
    stack: list[object] = [payload.get(name) for name in ("tool_response", "tool_output", "output", "error")]
    while stack:
        value = stack.pop(0)
        if isinstance(value, str) and value.startswith('{"') and (inner := _read_json(value)):
            stack = [inner, *stack]  # Cursor's
        elif isinstance(value, str) and value:
            texts.append(value)
        elif isinstance(value, list):
            stack = [*value, *stack]
        elif isinstance(value, dict):
            if value.get("is_error") is True or value.get("success") is False or value.get("error"):
                failed = True
            codes = [value.get(name) for name in ("exit_code", "exitCode")]
            failed = failed or any(type(code) is int and code != 0 for code in codes) or None
            stack = [*(value.get(name) for name in _OUTPUTS), *stack]
    return "\n".join(texts), failed


def _read_json(text: str) -> dict[str, Any]:
    import json

    with suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) and not _FIELDS.isdisjoint(value) else {}
    return {}


def may_tell_failure(output: str) -> bool:
    """Return whether an output has a word of failures: most outputs have none, and ask nothing."""
    text = f"{output[:MAX_OUTPUT]}\n{output[-MAX_OUTPUT:]}".lower()
    return any(word in text for word in _FAILING)


def may_need_memory(prompt: str) -> bool:
    """Return False for an agent's own command, and for a short prompt of filler words ("yes, go ahead")."""
    words = prompt.split()
    if not words or (words[0][0] == "/" and "/" not in words[0][1:]):  # a path has a second slash
        return False
    letters = ["".join(c for c in word.lower() if c.isalnum() or c == "'") for word in words]
    fillers = _FILLERS.split()
    return len(words) > 8 or not all(word in fillers or not word or word.isdigit() for word in letters)


def format_answer(agent: str, event: str, context: str) -> dict[str, Any]:
    """Return the hook's answer in the agent's own JSON shape."""
    if agent == "cursor":
        return {"additional_context": context}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}


def _find_text(payload: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := payload.get(name), str) and value), "")


def is_store(root: str) -> bool:
    """Return whether a folder is a store."""
    return os.path.isdir(f"{root}/manifests")  # noqa: PTH112


def has_manifests(root: str) -> bool:
    """Return whether a generation was published. Then a store without CURRENT is damaged, and its reader says so."""
    return is_store(root) and any(name.endswith(".json") for name in os.listdir(f"{root}/manifests"))  # noqa: PTH208


def get_cache_folder() -> str:
    """Return this user's cache folder of Helix."""
    return os.environ.get("HELIX_CACHE") or os.path.expanduser("~/.cache/helix")  # noqa: PTH111


def open_log(root: str) -> int:
    """Open the hook log for appending: the store's, or the user's without a store. Rotate it beyond MAX_LOG."""
    folder = f"{root}/logs" if is_store(root) else get_cache_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    path = f"{folder}/hook.log"
    with suppress(OSError):
        if os.stat(path).st_size > MAX_LOG:  # noqa: PTH116
            os.replace(path, f"{path}.1")  # noqa: PTH105
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
