"""The prompt hook as of a moment, with other limits: the entry point `prompt` of `helix.hooks`, for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from helix.sdk.memory import Memory
from helix.snapshot.reader.snapshot import Snapshot
from query.hooks.command import TOKENS
from query.hooks.context import LEAST_RELEVANCE, PROMPT_BUDGET, PromptRules, answer_hook
from query.hooks.protocol import build_request

LIMITS: Final = {"relevance": LEAST_RELEVANCE, "budget": PROMPT_BUDGET, "tokens": TOKENS}
"""Limits of the hook: least relevance of an item, tokens of a prompt and of a session."""

_RULES: Final = ("answered", "relevance", "budget")
_NOTHING: Final = {"context": "", "items": [], "tokens": 0}


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
