"""From a question to a model's replies, by whatever process asks it: a worker, or the SDK where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.deep import jobs
from helix.deep.endpoint import Endpoint, ask, endpoint_of
from helix.deep.fusion import TOP, Asked, checked, key_of, pooled
from helix.deep.prompts import digest
from helix.deep.replies import Replies, Unanswered
from helix.deep.techniques import REWRITES, chosen, order_of, ranking, rewriting, wordings
from helix.errors import HelixError, StoreError
from helix.recipes.cems import probe
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.route import scope
from helix.types import Bool, Item

if TYPE_CHECKING:
    from helix.sdk.memory import Memory

_FRAME: Final = 500
"""Tokens of a prompt that are not memories: what is asked for, and the question."""

Slot = Callable[[float], AbstractContextManager[None]]
"""Called with a deadline: waits until one more may ask the endpoint, or raises Unanswered."""


def ask_model(asked: Asked, endpoint: Endpoint, settings: Settings, deadline: float, slot: Slot) -> Replies:
    """Ask for all that is switched on: other wordings, side by side, then an order of what those have found.

    Args:
        deadline: by `time.monotonic`.

    Raises:
        Unanswered: any of it failed; then nothing more is asked.
        UsageError: a setting is wrong.
    """
    began, names = time.monotonic(), chosen(settings)
    sendable = _sendable(asked.snap, settings)
    rewrites = [name for name in names if name in REWRITES]
    found: dict[str, str] = {}
    calls = sent = 0

    def rewrite(intent: str) -> Mapping[str, str]:
        nonlocal calls, sent
        phrases = _phrases(asked, sendable) if intent == "preference" and "synthesis" in rewrites else []
        today, text = f"{asked.query.now:%Y-%m-%d}", asked.query.text
        prompts = {name: rewriting(name, text, intent, today, phrases) for name in rewrites}
        calls, sent = calls + len(prompts), sent + len(phrases)
        replies = ask(endpoint, prompts, deadline)
        for name in rewrites:
            found.update(wordings(name, text, replies[name]))
        return found

    with slot(deadline):
        pool = pooled(asked, rewrite if rewrites else None)
        left = (
            {} if found else dict.fromkeys(rewrites, f"{asked.constants.name} wants no other wording of this question")
        )
        order: tuple[str, ...] = ()
        if "rerank" in names:
            best = [item for item in pool.items[:TOP] if _may_go(item, asked.snap, sendable)]
            if len(best) > 1:
                texts = _cut([_shown(item) for item in best], settings.deep_tokens - _FRAME, asked.snap.counter)
                calls, sent = calls + 1, sent + len(best)
                reply = ask(endpoint, {"rerank": ranking(asked.query.text, texts)}, deadline)["rerank"]
                order = tuple(key_of(best[i]) for i in order_of(reply, len(best)))
            elif len(pool.items) > 1:
                left["rerank"] = "the memories that were found may not be sent (HELIX_DEEP_PROJECTS)"
            else:
                left["rerank"] = "there is nothing to be ordered"
    used = tuple(name for name in names if name not in left)
    return Replies(found, order, used, left, endpoint.model, calls, sent, round(time.monotonic() - began, 3))


def _sendable(snap: Snapshot, settings: Settings) -> Bool:
    """bool[rows]: of a project whose memories may be sent."""
    names = {name.strip() for name in settings.deep_projects.split(",") if name.strip()}
    known = np.array(["*" in names or name in names for name in (*snap.projects, "*")], bool)  # the last: of none
    out: Bool = known[snap.columns.project]
    return out


def _may_go(item: Item, snap: Snapshot, sendable: Bool) -> bool:
    row = snap.find(item.id)
    return row is not None and bool(sendable[row])


def _phrases(asked: Asked, sendable: Bool) -> list[str]:
    """What users said of their own preferences, as the profile probe of `cems` finds it; what may be sent of it."""
    plan = scope(asked.query, asked.snap)
    allowed = sendable & (asked.snap.alive if plan.allowed is None else plan.allowed)
    return probe(asked.query, asked.snap, replace(plan, allowed=allowed), load("cems"))


def _shown(item: Item) -> str:
    """A memory as the model reads it: when, who, what."""
    head = " ".join(part for part in ((item.time or "")[:10], item.speaker or "") if part)
    return f"{head}: {item.text}" if head else item.text


def _cut(texts: Sequence[str], room: int, count: Callable[[Sequence[str]], list[int]]) -> list[str]:
    """Texts that together have about so many tokens: each at most its even share."""
    share = max(1, room // max(1, len(texts)))
    return [text if n <= share else text[: len(text) * share // n] for text, n in zip(texts, count(texts), strict=True)]


# ---------------------------------------------------------------- kept


def replies(memory: Memory, arguments: Mapping[str, Any], settings: Settings, seconds: float) -> Replies:
    """What the model says, now or when it was asked the same before.

    Args:
        arguments: of `Memory.recall`, with the moment of asking.
        seconds: there are.

    Raises:
        Unanswered: it says nothing of use, and why.
    """
    deadline, began = time.monotonic() + seconds, time.time()
    try:
        endpoint = endpoint_of(settings)
        if endpoint is None:
            raise Unanswered("no endpoint is named (HELIX_DEEP_URL)")
        asked = checked(memory, arguments)
        name = _name(memory, arguments, settings)
        if (known := jobs.kept(memory.root, name)) is not None:
            return known
        found = ask_model(asked, endpoint, settings, deadline, jobs.slots(memory.root, settings.deep_concurrent))
    except HelixError as error:
        raise Unanswered(str(error)) from None
    with suppress(StoreError):  # of a store that is only read the same will be asked again
        if manifests.current_name(memory.root) == memory.snapshot.name:  # else nobody will ask the same
            jobs.keep(memory.root, name, found, began)
    return found


def _name(memory: Memory, arguments: Mapping[str, Any], settings: Settings) -> str:
    """Of all that replies hang on: question, snapshot, prompts, and what may be asked and sent."""
    day = str(arguments["now"])[:10]
    asked = [
        settings.deep_url,
        settings.deep_model,
        settings.deep_options,
        settings.deep_techniques,
        settings.deep_calls,
        settings.deep_projects,
        settings.deep_tokens,
        settings.deep_reply_tokens,
    ]
    return jobs.digest(memory.snapshot.name, digest(), day, {**arguments, "now": None}, asked)
