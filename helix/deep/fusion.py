"""The tier deep, but for who asks the model: the question in other words through the ordinary recall, the lists fused,
the best ordered anew.

All of it follows from the snapshot, the question and the model's replies: who has the replies can answer again, without
a model, and only what they may see.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from helix.deep.replies import Replies
from helix.question.build import make_query, reworded
from helix.recipes.cems_intent import classify
from helix.recipes.load_profile import Constants, load
from helix.recipes.registry import recipe
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.collapse import clusters
from helix.stages.pack import pack
from helix.stages.route import scope
from helix.stages.trace import Trace
from helix.types import Bundle, Item, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers
    from helix.sdk.memory import Memory

ORIGINAL, OTHER = 2.0, 1.0
"""Weights in the fusion: of the question as it was asked, and of each other wording."""

K: Final = 10
"""Of reciprocal rank fusion, Σ w / (K + rank), ranks from 1. These lists are whole recalls: a first place means more
than one of a leg. With 60, five wordings that know nothing cost .17 recall@10 on LoCoMo, with 10 they cost .015; and
those with a tenth of their words right gain .027 instead of losing .007 (simulated: docs/tiers.md).
"""

TOP: Final = 40
"""Best items that the model orders."""

SHARE: Final = 0.7
"""Of the model's order in a score: SHARE · 1 / (1 + rank) + (1 − SHARE) · score, ranks from 0, scores from 0 to 1."""


class Asked(NamedTuple):
    """A question, checked, and what it is asked of."""

    query: Query
    snap: Snapshot  # as who asks may see it, and as of when they ask
    constants: Constants
    models: Rerankers


def checked(memory: Memory, arguments: Mapping[str, Any]) -> Asked:
    """The question of a recall.

    Args:
        arguments: of `Memory.recall`, without `tier`, `explain` and `why_not`.

    Raises:
        UsageError: one is out of range or names what is not there.
    """
    given = dict(arguments)
    profile, projects = given.pop("profile"), given.pop("projects")
    snap = memory.snapshot.seen_by(given["principal"], projects)
    query = make_query(given.pop("query"), snap, memory.settings, **given)
    constants = load(profile, memory.settings.profiles)
    return Asked(query, snap.known_at(query.as_of), constants, memory.models)


# ---------------------------------------------------------------- what is made of it


class Found(NamedTuple):
    """The best items by all wordings."""

    first: Bundle  # of the question as it was asked
    items: list[Item]  # best first, each once; scores from 0 to 1
    degraded: tuple[str, ...]


def pooled(asked: Asked, rewrite: Callable[[str], Mapping[str, str]] | None) -> Found:
    """The ordinary recall of the question and of its other wordings, fused by weighted reciprocal ranks.

    The recipe `cems` asks for wordings itself, where its mode and its first results call for them, and fuses their
    lists by its own constants.

    Args:
        rewrite: called once at most, with what the question wants; None: no other wordings.
    """
    wide = replace(asked.query, k=max(asked.query.k, TOP))
    if asked.constants.recipe == "cems":
        first = _recalled(asked, replace(wide, rewrite=rewrite))
        return Found(first, _scaled(first.items, [item.score for item in first.items]), first.degraded)
    first = _recalled(asked, wide)
    if first.skipped or rewrite is None:
        return Found(first, _scaled(first.items, [item.score for item in first.items]), first.degraded)
    intent = classify(wide.text, wide.now, wide.days, 0, 0).primary
    others = [_recalled(asked, replace(reworded(wide, text), budget=0)) for text in rewrite(intent).values()]
    degraded = tuple(dict.fromkeys(said for bundle in (first, *others) for said in bundle.degraded))
    items = fused([first.items, *(bundle.items for bundle in others)], [ORIGINAL, *[OTHER] * len(others)])
    return Found(first, _without_copies(items, asked.snap), degraded)


def _recalled(asked: Asked, query: Query) -> Bundle:
    return recipe(asked.constants.recipe).recall(query, asked.snap, asked.constants, Trace(), asked.models)


def key_of(item: Item) -> str:
    """What an item is known by: some recipes show several facts of one."""
    return f"{item.id}-{zlib.crc32(item.text.encode()):08x}"


def fused(lists: Sequence[Sequence[Item]], weights: Sequence[float]) -> list[Item]:
    """Σ w / (K + rank) over the lists (Cormack, Clarke & Büttcher 2009), the best divided by itself; best first.

    Of equals that one goes first which was met first. `why` says the rank in each list: `asked`, `wording 1`, …
    """
    items: dict[str, Item] = {}
    scores: dict[str, float] = {}
    ranks: dict[str, dict[str, int]] = {}
    for i, (found, weight) in enumerate(zip(lists, weights, strict=True)):
        for rank, item in enumerate(found, 1):
            key = key_of(item)
            items.setdefault(key, item)
            scores[key] = scores.get(key, 0.0) + weight / (K + rank)
            ranks.setdefault(key, {})[f"wording {i}" if i else "asked"] = rank
    best = sorted(items, key=lambda key: -scores[key])
    shown = [replace(items[key], why={**items[key].why, **ranks[key]}) for key in best]
    return _scaled(shown, [scores[key] for key in best])


def _scaled(items: Sequence[Item], scores: Sequence[float]) -> list[Item]:
    """With scores from 0 to 1: divided by the best."""
    best = max(scores, default=0.0)
    return [
        replace(item, score=round(max(0.0, score) / best, 6) if best > 0 else 0.0)
        for item, score in zip(items, scores, strict=True)
    ]


def _without_copies(items: Sequence[Item], snap: Snapshot) -> list[Item]:
    """Of near-duplicates that different lists have brought, the best."""
    rows = np.array([-1 if (row := snap.find(item.id)) is None else row for item in items], np.int64)
    of = clusters(rows.astype(np.uint32), snap).tolist()
    first: dict[int, str] = {}
    for item, cluster in zip(items, of, strict=True):
        first.setdefault(cluster, item.id)
    return [item for item, cluster in zip(items, of, strict=True) if first[cluster] == item.id]


def ordered(items: Sequence[Item], order: Sequence[str]) -> list[Item]:
    """The items by SHARE · 1 / (1 + rank) + (1 − SHARE) · score, best first.

    What the model has ordered changes places among itself; the rank of an item it has not seen is its own.

    Args:
        items: best first, scores from 0 to 1.
        order: keys of those the model was sent, its best first; those that are no longer there are passed over.
    """
    at = {key_of(item): i for i, item in enumerate(items)}
    named = [at[key] for key in order if key in at]
    if not named:
        return list(items)
    rank = list(range(len(items)))
    for place, i in zip(sorted(named), named, strict=True):
        rank[i] = place
    model = {i: n for n, i in enumerate(named, 1)}
    scores = [SHARE / (1 + rank[i]) + (1 - SHARE) * item.score for i, item in enumerate(items)]
    best = sorted(range(len(items)), key=lambda i: -scores[i])
    return [
        replace(
            items[i], score=round(scores[i], 6), why={**items[i].why, **({"model": model[i]} if i in model else {})}
        )
        for i in best
    ]


def answered(asked: Asked, plain: Bundle, replies: Replies, began: float) -> Bundle:
    """The answer of the tier deep.

    Args:
        plain: the answer without a model.
        began: when the question was asked, by `time.perf_counter`.
    """
    found = pooled(asked, (lambda _: replies.wordings) if replies.wordings else None)
    items = ordered(found.items, replies.order)[: asked.query.k]
    context, tokens, placed = _packed(items, asked)
    return replace(
        plain,
        snapshot=asked.snap.generation,
        items=tuple(items),
        packed=tuple(items[i] for i in placed),
        context=context,
        tokens=tokens,
        degraded=found.degraded,
        ms={**plain.ms, "total": round((time.perf_counter() - began) * 1000, 3)},
        deep=replies.told(),
    )


def fallen_back(plain: Bundle, why: str) -> Bundle:
    """The answer without a model, that says why it is."""
    return replace(plain, degraded=(*plain.degraded, f"deep: {why}"))


def _packed(items: Sequence[Item], asked: Asked) -> tuple[str, int, list[int]]:
    """The items as text, as the profile's recipe packs them."""
    query, snap = asked.query, asked.snap
    rows = np.array([snap.find(item.id) for item in items], np.uint32)
    entries = [{**entry, "text": item.text} for entry, item in zip(snap.text(rows), items, strict=True)]
    packed = getattr(recipe(asked.constants.recipe), "packed", None)
    if packed is None:
        return pack(entries, query.budget, snap.counter)
    context, tokens, placed = packed(rows, entries, query, snap, scope(query, snap), asked.constants)
    return context, tokens, placed
