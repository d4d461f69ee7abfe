"""The prompt hook at the prompts of a replay, with the limits of each row of the report.

Hooks are of a higher floor: the package declares their module as an entry point, as it does commands.
"""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, Final

from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.eval.replay.logs import LoggedPrompt
from pipelines.eval.replay.measure import Addition, HookSetting, HookState

PLAIN: Final = 'base = "helix"\n[pack]\nitems = 0\ncertain = 0.0\n'
"""Profile of the hook before relevance: only the k best are packed, all excerpts are of one length."""

BEFORE: Final = HookSetting("before", 0.0, 0.0, 1_800, "plain", record=False)
"""The hook before relevance: 1,800 tokens for every prompt that the skip rules let pass, and no record."""

SHORT: Final = BEFORE._replace(name="before, 500 tokens", budget=500)

HOOKS: Final = "helix.hooks"
"""Group of the entry point."""

UNLIMITED: Final = 1_000_000
"""Tokens that no session spends."""

_ANSWERED: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_RELEVANCE: Final = (0.005, 0.1)
_BUDGETS: Final = (500, 1_000)
_SESSIONS: Final = (6_000, UNLIMITED)


def load_hook() -> Any:
    """Load the module of the prompt hook: `LIMITS` and `answer_prompt`.

    Raises:
        UsageError: no installed package declares it.
    """
    for entry in entry_points(group=HOOKS, name="prompt"):
        return entry.load()
    raise UsageError("no prompt hook is installed", "install helix-recall again")


def list_settings(answered: float, sweep: bool) -> list[HookSetting]:
    """Return the rows of a report: the hook before relevance, the hook now, and others around it."""
    limits = load_hook().LIMITS
    now = HookSetting("now", answered, limits["relevance"], limits["budget"], tokens=limits["tokens"])
    rows = [BEFORE, SHORT, now]
    if sweep:
        rows += [now._replace(name=f"answered {least:g}", answered=least) for least in _ANSWERED if least != answered]
        rows += [now._replace(name=f"relevance {least:g}", relevance=least) for least in _RELEVANCE]
        rows += [now._replace(name=f"budget {budget:,}", budget=budget) for budget in _BUDGETS]
        rows += [now._replace(name=f"session {tokens:,}", tokens=tokens) for tokens in _SESSIONS]
        rows += [now._replace(name="no record", record=False)]
        free = now._replace(relevance=0.005, tokens=UNLIMITED)
        rows += [free._replace(name=f"answered {least:g}, no limits", answered=least) for least in (0.1, 0.2, 0.3)]
    return rows


class HookCaller:
    """The prompt hook, as of a moment.

    Settings that differ in `answered` alone share their recalls: a context above a threshold is the same above a lower
    one, and none above a threshold is none above a higher one.
    """

    def __init__(self) -> None:
        self._hook = load_hook()
        self._answers: dict[tuple[Any, ...], list[tuple[float, Addition]]] = {}

    def __call__(
        self,
        memory: Memory,
        snap: Snapshot,
        prompt: LoggedPrompt,
        setting: HookSetting,
        state: HookState,
        at: datetime | None,
    ) -> Addition:
        """Return what the hook adds to a prompt."""
        given, budget = {}, setting.budget
        if setting.record:
            given = {"seen": list(state.seen), "left": max(0, setting.tokens - state.tokens)}
            budget = min(budget, setting.tokens - state.tokens)
        key = (prompt.session, at, prompt.text, state.seen if given else (), budget, setting.relevance, setting.profile)
        known = self._answers.setdefault(key, [])
        for answered, answer in known:
            if answered >= setting.answered if answer.text else answered <= setting.answered:
                return answer
        limits = {name: getattr(setting, name) for name in ("answered", "relevance", "budget")}
        found = self._hook.answer_prompt(
            memory, snap, prompt.text, {**limits, "profile": setting.profile, "now": at}, given
        )
        known.append((setting.answered, Addition(found["context"], tuple(found["items"]), found["tokens"])))
        return known[-1][1]
