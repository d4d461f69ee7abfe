"""The prompt hook as of a moment, with other limits: the entry point `prompt` of `helix.hooks`, for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from helix.sdk.memory import Memory
from helix.snapshot.reader.snapshot import Snapshot
from query.hooks.actions import Action, answer_after, answer_before
from query.hooks.briefing import BRIEFING_BUDGET
from query.hooks.briefing import brief_project as write_briefing
from query.hooks.command import TOKENS
from query.hooks.context import LEAST_RELEVANCE, PROMPT_BUDGET, PromptRules, answer_hook, brief_view
from query.hooks.protocol import build_request

LIMITS: Final = {"relevance": LEAST_RELEVANCE, "budget": PROMPT_BUDGET, "tokens": TOKENS}
"""Limits of the hook: least relevance of an item, tokens of a prompt and of a session."""

_RULES: Final = ("answered", "relevance", "budget", "tokens")
_NOTHING: Final = {"context": "", "items": [], "tokens": 0}


def answer_action(
    memory: Memory, view: Snapshot, kind: str, step: Mapping[str, Any], output: str, seen: tuple[str, ...]
) -> dict[str, Any]:
    """Return what a hook says at a tool call, with `steps`: numbers of the steps that it quotes.

    Args:
        view: of the generation, as of the session's begin; all its rows are of the session's project.
        kind: before or after.
        step: the call, as `Steps.read` gives it.
        output: what it returned.
        seen: ids of items that hooks gave the session before.
    """
    name = "file_path" if step["action"] == "edit" else "command"
    action = Action(step["tool"], {name: step["target"]}, output, True if kind == "after" else None)
    answer = answer_before if kind == "before" else answer_after
    found = answer(view, action, None, frozenset(seen))
    tokens = sum(view.counter([found.text])) if found.text else 0
    return {"context": found.text, "items": list(found.items), "tokens": tokens, "steps": list(found.steps)}


def answer_call(memory: Memory, tool: str, arguments: object) -> str:
    """Return what a hook says before a tool call, in any project."""
    return answer_before(memory.snapshot, Action(tool, arguments), None, frozenset()).text


def brief_project(view: Snapshot, project: str) -> str:
    """Return the briefing of a project as text."""
    return write_briefing(view, project, BRIEFING_BUDGET).text


def answer_start(memory: Memory, view: Snapshot, prompt: str, answered: float, at: int) -> dict[str, Any]:
    """Return what hooks give a session by its first prompt: a briefing, then the memories for the prompt.

    Args:
        view: of the generation, as of the session's begin; all its rows are of the session's project.
        answered: least probability that the answer to the prompt helps.
        at: seconds, of the session's begin.
    """
    now = datetime.fromtimestamp(at, UTC)
    briefing = brief_view(memory, view, now)
    given = {"seen": list(briefing.items)}
    told = answer_prompt(memory, view, prompt, {"answered": answered, **LIMITS, "tokens": 0, "now": now}, given)
    texts = [text for text in (briefing.text, told["context"]) if text]
    return {"context": "\n".join(texts), "tokens": sum(view.counter(texts)) if texts else 0}


def answer_prompt(
    memory: Memory, view: Snapshot, prompt: str, limits: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what `answer_hook` does for a prompt; nothing where the hook asks no memory.

    Args:
        view: of the generation, as of the prompt's moment.
        limits: `answered`, `relevance` and `budget`; the rest are options of a recall.
        given: `seen` and `left`, of the record of the session; may be empty.
    """
    request = build_request("UserPromptSubmit", {"prompt": prompt})
    if request is None:
        return dict(_NOTHING)
    options = {name: value for name, value in limits.items() if name not in _RULES}
    rules = PromptRules(limits["answered"], limits["relevance"], limits["budget"], options)
    return answer_hook(memory, {**request, **given}, view, rules)
