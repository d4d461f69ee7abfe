"""From a question to a model's replies, in a worker, or in the SDK where no worker runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from helix.deep import jobs
from helix.deep.arguments import to_arguments
from helix.deep.context import DeepContext, DeepQuestion, prepare
from helix.deep.endpoint import Endpoint, ask, read_endpoint
from helix.deep.fusion import TOP, FusedItems, item_key, recall_wordings
from helix.deep.prompts import Messages, digest
from helix.deep.replies import Replies, Unanswered
from helix.deep.rerank_api import RerankEndpoint, rank_documents, read_rerank_endpoint
from helix.deep.techniques import (
    MAX_QUESTION,
    REWRITES,
    choose,
    parse_order,
    parse_wordings,
    prompt_ranking,
    prompt_rewrite,
)
from helix.errors import HelixError, StoreError
from helix.recipes.cems import probe
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.route import scope
from helix.types import Bool, Item, RecallOptions

_FRAME: Final = 500
"""Tokens of a prompt that are not memories: the task and the question."""

Slot = Callable[[float], AbstractContextManager[None]]
"""Called with a deadline, waits until the endpoint may be asked, or raises Unanswered."""


NO_ENDPOINT: Final = "no endpoint is named (HELIX_DEEP_URL or HELIX_RERANK_URL)"


class Endpoints(NamedTuple):
    """The endpoints of the deep tier, one of them at least."""

    chat: Endpoint | None
    rerank: RerankEndpoint | None  # orders the memories in place of the chat model


def read_endpoints(settings: Settings) -> Endpoints | None:
    """Return the endpoints the settings name; None where they name none. Raises UsageError if one is wrong."""
    endpoints = Endpoints(read_endpoint(settings), read_rerank_endpoint(settings))
    return endpoints if any(endpoints) else None


class _Requests:
    """The requests of one question, counted."""

    def __init__(self, question: DeepQuestion, endpoints: Endpoints, settings: Settings, deadline: float) -> None:
        self.question, self.endpoints, self.settings, self.deadline = question, endpoints, settings, deadline
        self.sendable = _find_sendable(question.snap, settings)
        self.calls = self.sent = 0
        self.wordings: dict[str, str] = {}
        self.rerank: dict[str, Any] = {}

    def rewrite(self, names: Sequence[str], intent: str) -> Mapping[str, str]:
        """Ask for other wordings, all techniques at once."""
        query = self.question.query
        phrases = self._find_preferences() if intent == "preference" and "synthesis" in names else []
        today = f"{query.now:%Y-%m-%d}"
        prompts = {name: prompt_rewrite(name, query.text, intent, today, phrases) for name in names}
        self.calls, self.sent = self.calls + len(prompts), self.sent + len(phrases)
        replies = self._ask_chat(prompts)
        for name in names:
            self.wordings.update(parse_wordings(name, query.text, replies[name]))
        return self.wordings

    def rank(self, items: Sequence[Item]) -> tuple[str, ...]:
        """Ask for an order of items; return their keys, best first."""
        texts = [_describe(item) for item in items]
        texts = _shorten(texts, self.settings.deep_tokens - _FRAME, self.question.snap.counter)
        self.calls, self.sent = self.calls + 1, self.sent + len(items)
        text = self.question.query.text
        order: Sequence[int]
        if (api := self.endpoints.rerank) is not None:
            order, billed, ms = rank_documents(api, text[:MAX_QUESTION], texts, self.deadline)
            self.rerank = {"model": api.model, "documents": len(texts), "billed": billed, "ms": ms}
        else:
            order = parse_order(self._ask_chat({"rerank": prompt_ranking(text, texts)})["rerank"], len(items))
        return tuple(item_key(items[i]) for i in order)

    def _ask_chat(self, prompts: Mapping[str, Messages]) -> Mapping[str, str]:
        if self.endpoints.chat is None:
            raise Unanswered("no chat endpoint is named (HELIX_DEEP_URL)")
        return ask(self.endpoints.chat, prompts, self.deadline)

    def may_send(self, item: Item) -> bool:
        """Return whether an item's project is one whose memories may leave."""
        row = self.question.snap.find(item.id)
        return row is not None and bool(self.sendable[row])

    def _find_preferences(self) -> list[str]:
        """Return what users said of their own preferences, found by the profile probe of `cems`, that may be sent."""
        query, snap = self.question.query, self.question.snap
        plan = scope(query, snap)
        allowed = self.sendable & (snap.alive if plan.allowed is None else plan.allowed)
        return probe(query, snap, replace(plan, allowed=allowed), load("cems"))


def ask_model(question: DeepQuestion, endpoints: Endpoints, settings: Settings, deadline: float, slot: Slot) -> Replies:
    """Ask for every technique that is switched on: other wordings first, then an order of what they found.

    Args:
        deadline: by `time.monotonic`.

    Raises:
        Unanswered: a request failed; nothing more is asked then.
        UsageError: a setting is wrong.
    """
    began, names = time.monotonic(), choose(settings)
    requests = _Requests(question, endpoints, settings, deadline)
    rewrites = [name for name in names if name in REWRITES]
    with slot(deadline):
        pool = recall_wordings(question, (lambda intent: requests.rewrite(rewrites, intent)) if rewrites else None)
        reason = f"{question.constants.name} wants no other wording of this question"
        left_out = {} if requests.wordings else dict.fromkeys(rewrites, reason)
        order: tuple[str, ...] = ()
        if "rerank" in names:
            best = [item for item in pool.items[:TOP] if requests.may_send(item)]
            if len(best) > 1:
                order = requests.rank(best)
            else:
                left_out["rerank"] = _explain_no_rerank(pool)
    used = tuple(name for name in names if name not in left_out)
    seconds = round(time.monotonic() - began, 3)
    model, calls, sent = endpoints.chat.model if endpoints.chat else "", requests.calls, requests.sent
    return Replies(requests.wordings, order, used, left_out, model, calls, sent, seconds, rerank=requests.rerank)


def _explain_no_rerank(pool: FusedItems) -> str:
    if len(pool.items) > 1:
        return "the memories that were found may not be sent (HELIX_DEEP_PROJECTS)"
    return "there is nothing to be ordered"


def _find_sendable(snap: Snapshot, settings: Settings) -> Bool:
    """Return the rows of projects whose memories may be sent: bool[rows]."""
    names = {name.strip() for name in settings.deep_projects.split(",") if name.strip()}
    known = np.array(["*" in names or name in names for name in (*snap.projects, "*")], bool)  # the last: no project
    out: Bool = known[snap.columns.project]
    return out


def _describe(item: Item) -> str:
    """Return a memory as the model reads it: when, who, text."""
    head = " ".join(part for part in ((item.time or "")[:10], item.speaker or "") if part)
    return f"{head}: {item.text}" if head else item.text


def _shorten(texts: Sequence[str], room: int, count: Callable[[Sequence[str]], list[int]]) -> list[str]:
    """Cut texts so that together they have about `room` tokens: each at most its even share."""
    share = max(1, room // max(1, len(texts)))
    return [text if n <= share else text[: len(text) * share // n] for text, n in zip(texts, count(texts), strict=True)]


# ---------------------------------------------------------------- cached replies


def fetch_replies(
    context: DeepContext, query: str, options: RecallOptions, settings: Settings, limit: float
) -> Replies:
    """Return a model's replies, cached ones where the same was asked before.

    Args:
        options: with the moment of the question.
        limit: seconds.

    Raises:
        Unanswered: there is no usable reply; says why.
    """
    deadline, began = time.monotonic() + limit, time.time()
    try:
        endpoints = read_endpoints(settings)
        if endpoints is None:
            raise Unanswered(NO_ENDPOINT)
        question = prepare(context, query, options)
        key = _cache_key(context.snapshot, query, options, settings)
        if (cached := jobs.read_replies(context.root, key)) is not None:
            return cached
        slots = jobs.limit_concurrency(context.root, settings.deep_concurrent)
        replies = ask_model(question, endpoints, settings, deadline, slots)
    except HelixError as error:
        raise Unanswered(str(error)) from None
    with suppress(StoreError):  # a read-only store: the same is asked again
        if manifests.read_current(context.root) == context.snapshot.name:  # else the key will not occur again
            jobs.write_replies(context.root, key, replies, began)
    return replies


def _cache_key(snap: Snapshot, query: str, options: RecallOptions, settings: Settings) -> str:
    """Return a key of everything that replies depend on: question, generation, prompts, and what may be sent."""
    day = str(options.now)[:10]
    configuration = [
        settings.deep_url,
        settings.deep_model,
        settings.deep_options,
        settings.deep_techniques,
        settings.deep_calls,
        settings.deep_projects,
        settings.deep_tokens,
        settings.deep_reply_tokens,
        settings.rerank_url,
        settings.rerank_model,
        settings.rerank_options,
    ]
    return jobs.digest(snap.name, digest(), day, {**to_arguments(query, options), "now": None}, configuration)
