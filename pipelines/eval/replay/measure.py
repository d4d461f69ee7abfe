"""Replay of the sessions of logs: what a hook would have added at each prompt, and how much evidence that holds.

Prompts follow the order of time. The store answers each as of its moment, with only what other sessions of its
project had said before; see `Logs.list_earlier`. The hook is a function that the caller passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np

from helix.sdk.memory import Memory
from helix.snapshot.reader.snapshot import Snapshot
from helix.types import F64, I64
from pipelines.eval.replay.evidence import TermIndex, find_needed, find_terms, measure_evidence
from pipelines.eval.replay.logs import LoggedPrompt, Logs, tell_moment

SESSION_TOKENS: Final = 12_000
"""Tokens that hooks add to a session."""

SAMPLES: Final = 1_000
"""Draws of sessions for an interval."""


class HookSetting(NamedTuple):
    """Limits of a hook, as a row of the report."""

    name: str
    answered: float
    relevance: float
    budget: int
    profile: str = "helix"
    tokens: int = SESSION_TOKENS  # of a session
    record: bool = True  # what was given is not given again; without it, tokens of a session have no limit


SHARES: Final = ("evidence", "alone", "random", "random_alone")
"""Shares of the needed terms' weight, of `ReplayedPrompt`."""


class Addition(NamedTuple):
    """A context that a hook adds to a prompt, which may be empty."""

    text: str = ""
    items: tuple[str, ...] = ()
    tokens: int = 0


class HookState(NamedTuple):
    """The record of a session: items, tokens and terms that hooks gave it."""

    seen: tuple[str, ...] = ()
    tokens: int = 0
    terms: frozenset[str] = frozenset()


Hook = Callable[[Memory, Snapshot, LoggedPrompt, HookSetting, HookState, datetime | None], Addition]


class ReplayedPrompt(NamedTuple):
    """A prompt with the answers of all settings."""

    prompt: LoggedPrompt
    earlier: int  # items of other sessions
    needed: Mapping[str, float]
    answers: dict[str, Addition]  # by name of the setting
    evidence: dict[str, float]  # share of the needed weight given, now or before in the session
    alone: dict[str, float]  # share given now
    random: dict[str, float]  # share given now or before, of as many tokens of random earlier items
    random_alone: dict[str, float]  # share given now, of these


def replay(
    logs: Logs, settings: Sequence[HookSetting], hook: Hook, say: Callable[[str], None], seed: int = 0
) -> list[ReplayedPrompt]:
    """Replay all prompts that have a time."""
    index = TermIndex({item.row: item.text for item in logs.items}, logs.snap.rows)
    states: dict[tuple[str, int], HookState] = {}
    controls: dict[tuple[str, int], frozenset[str]] = {}
    prompts = [prompt for prompt in logs.prompts if prompt.at is not None]
    out: list[ReplayedPrompt] = []
    for number, prompt in enumerate(prompts, 1):
        earlier = logs.list_earlier(prompt)
        before, reply = ([item.row for item in part] for part in (prompt.before, prompt.reply))
        needed = find_needed(index, prompt.text, before, reply, earlier)
        snap = logs.narrow(earlier, prompt.at) if len(earlier) else None
        one = ReplayedPrompt(prompt, len(earlier), needed, {}, {}, {}, {}, {})
        for setting in settings:
            key = (setting.name, prompt.session)
            state = states.get(key, HookState())
            answer = hook(logs.memory, snap, prompt, setting, state, tell_moment(prompt.at)) if snap else Addition()
            states[key] = state = _add_answer(state, answer)
            drawn = _draw_terms(index, logs.snap, earlier, answer.tokens, random.Random(f"{seed} {number}"))
            controls[key] = controls.get(key, frozenset()) | drawn
            given = (state.terms, find_terms(answer.text), controls[key], drawn)
            shares = (one.evidence, one.alone, one.random, one.random_alone)
            one.answers[setting.name] = answer._replace(text="")
            for share, terms in zip(shares, given, strict=True):
                share[setting.name] = measure_evidence(needed, terms)
        out.append(one)
        if number % 50 == 0 or number == len(prompts):
            say(f"{number} of {len(prompts)} prompts")
    return out


def _add_answer(state: HookState, answer: Addition) -> HookState:
    """Return the state after an answer."""
    terms = find_terms(answer.text) if answer.text else frozenset()
    return HookState((*state.seen, *answer.items), state.tokens + answer.tokens, state.terms | terms)


def _draw_terms(index: TermIndex, snap: Snapshot, earlier: I64, tokens: int, draw: random.Random) -> frozenset[str]:
    """Return the terms of random earlier items, whose tokens are about as many."""
    rows, chosen, left = earlier.tolist(), [], tokens
    draw.shuffle(rows) if tokens else None
    for row in rows:
        size = int(snap.columns.tokens[row])
        if left <= 0:
            break
        if size <= left or draw.random() < left / size:
            chosen.append(row)
        left -= size
    return index.join(chosen)


# ---------------------------------------------------------------- figures


def summarise(replayed: Sequence[ReplayedPrompt], settings: Sequence[HookSetting], base: str) -> dict[str, Any]:
    """Return the figures of all settings, over all prompts and over those with an earlier item.

    Args:
        base: name of the setting that ratios compare with.
    """
    groups = {"all": list(replayed), "with_earlier": [one for one in replayed if one.earlier]}
    return {
        "prompts": {name: len(group) for name, group in groups.items()},
        "sessions": {name: len({one.prompt.session for one in group}) for name, group in groups.items()},
        "with_needed": sum(bool(one.needed) for one in replayed),
        "base": base,
        **{name: [_measure_setting(group, setting, base) for setting in settings] for name, group in groups.items()},
    }


def _measure_setting(group: Sequence[ReplayedPrompt], setting: HookSetting, base: str) -> dict[str, Any]:
    """Return the figures of a setting, with its ratios to the base and their 95 % intervals over sessions."""
    name, needing = setting.name, [one for one in group if one.needed]
    tokens = _read_tokens(group, name)
    sessions, needing_sessions = (np.array([one.prompt.session for one in part], np.int64) for part in (group, needing))
    shares = {share: _read_shares(needing, share, name) for share in SHARES}
    row = {
        **setting._asdict(),
        "tokens_a_prompt": _mean(tokens, 1),
        "given": _mean(np.asarray(tokens > 0, np.float64)),
        **{share: _mean(values) for share, values in shares.items()},
    }
    compared = {"tokens": _compare(tokens, _read_tokens(group, base), sessions)}
    for share in SHARES[:2]:
        compared[share] = _compare(shares[share], _read_shares(needing, share, base), needing_sessions)
    return (
        row
        | {f"{what}_ratio": found[0] for what, found in compared.items()}
        | {f"{what}_interval": found[1] for what, found in compared.items()}
    )


def _read_tokens(group: Sequence[ReplayedPrompt], name: str) -> F64:
    return np.array([one.answers[name].tokens for one in group], np.float64)


def _read_shares(group: Sequence[ReplayedPrompt], share: str, name: str) -> F64:
    return np.array([getattr(one, share)[name] for one in group], np.float64)


def _compare(ours: F64, base: F64, sessions: I64, seed: int = 0) -> tuple[float | None, list[float] | None]:
    """Return the ratio of two sums, with a 95 % interval by the bootstrap over sessions; None where the base is 0."""
    codes, place = np.unique(sessions, return_inverse=True)
    a, b = (np.bincount(place, values, len(codes)) for values in (ours, base))
    if not b.sum():
        return None, None
    drawn = np.random.default_rng(seed).integers(0, len(codes), (SAMPLES, len(codes)))
    sums = np.maximum(b[drawn].sum(axis=1), 1e-9)
    low, high = np.quantile(a[drawn].sum(axis=1) / sums, [0.025, 0.975]).tolist()
    return round(float(a.sum() / b.sum()), 4), [round(low, 4), round(high, 4)]


def _mean(values: F64, digits: int = 4) -> float | None:
    return round(float(values.mean()), digits) if len(values) else None
