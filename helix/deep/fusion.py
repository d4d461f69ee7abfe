"""The deep tier's arithmetic: recalls of several wordings, fused, and the model's order applied.

All of it follows from the snapshot, the question and the model's replies. A process that has the replies can answer
again without a model, with only what the caller may see.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from helix.deep.context import DeepQuestion
from helix.deep.replies import Replies
from helix.question.build import reword
from helix.ranking.rrf import rrf
from helix.ranking.topk import sort_rows
from helix.recipes.cems_intent import classify
from helix.recipes.common import JudgedRows, pack_kept
from helix.recipes.registry import recipe
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.collapse import clusters
from helix.stages.pack import pack
from helix.stages.relevance import select_relevant
from helix.stages.replaced import add_replacements
from helix.stages.route import scope
from helix.stages.trace import Trace
from helix.types import Bundle, Item, Query

ORIGINAL, OTHER = 2.0, 1.0
"""Weights in the fusion: of the question as it was asked, and of each other wording."""

K: Final = 10
"""Constant of reciprocal rank fusion. These lists are whole recalls: a first place means more than one of a leg.

With 60, five wordings of random words cost .17 recall@10 on LoCoMo, with 10 they cost .015; those with a tenth of their
words right gain .027 instead of losing .007 (simulated: docs/explanation/tiers.md).
"""

TOP: Final = 40
"""Items that the model orders."""

SHARE: Final = 0.7
"""Share of the model's order in a score: SHARE / (1 + rank) + (1 − SHARE) · score, ranks from 0, scores in [0, 1]."""


class FusedItems(NamedTuple):
    """The best items by all wordings."""

    first: Bundle  # of the question as it was asked
    items: list[Item]  # best first, each once; scores from 0 to 1
    degraded: tuple[str, ...]
    answered: float  # of the wording that is answered best


def recall_wordings(question: DeepQuestion, rewrite: Callable[[str], Mapping[str, str]] | None) -> FusedItems:
    """Recall a question and its other wordings, and fuse the lists by weighted reciprocal ranks.

    The recipe `cems` asks for wordings itself, where its mode and its first results call for them, and fuses their
    lists by its own constants.

    Args:
        rewrite: called once at most, with the question's intent; None: no other wordings.
    """
    wide = replace(question.query, k=max(question.query.k, TOP))
    if question.constants.recipe == "cems":
        first = _recall(question, replace(wide, rewrite=rewrite))
        return FusedItems(
            first, _scale(first.items, [item.score for item in first.items]), first.degraded, first.answered
        )
    first = _recall(question, wide)
    if first.skipped or rewrite is None:
        return FusedItems(
            first, _scale(first.items, [item.score for item in first.items]), first.degraded, first.answered
        )
    intent = classify(wide.text, wide.now, wide.days, 0, 0).kind
    others = [_recall(question, replace(reword(wide, text), budget=0)) for text in rewrite(intent).values()]
    degraded = tuple(dict.fromkeys(reason for bundle in (first, *others) for reason in bundle.degraded))
    items = fuse_lists([first.items, *(bundle.items for bundle in others)], [ORIGINAL, *[OTHER] * len(others)])
    answered = max(bundle.answered for bundle in (first, *others))
    return FusedItems(first, _drop_copies(items, question.snap), degraded, answered)


def _recall(question: DeepQuestion, query: Query) -> Bundle:
    compose = recipe(question.constants.recipe).recall
    return compose(query, question.snap, question.constants, Trace(), question.models)


def item_key(item: Item) -> str:
    """Return the identity of an item in a list: its id and text, as some recipes show several facts of one."""
    return f"{item.id}-{zlib.crc32(item.text.encode()):08x}"


def fuse_lists(lists: Sequence[Sequence[Item]], weights: Sequence[float]) -> list[Item]:
    """Fuse lists of items by `rrf`, divided by the best score; ties keep first-seen order.

    An item has its highest relevance. `why` gets the rank in each list: `asked`, `wording 1`, …
    """
    items: dict[str, Item] = {}
    places: dict[str, dict[int, int]] = {}
    for i, found in enumerate(lists):
        for rank, item in enumerate(found, 1):
            key = item_key(item)
            known = items.setdefault(key, item)
            items[key] = replace(known, relevance=max(known.relevance, item.relevance))
            places.setdefault(key, {})[i] = rank
    ranks = [np.array([place.get(i, np.nan) for place in places.values()]) for i in range(len(lists))]
    scores = rrf(ranks, weights, K)
    best = sort_rows(scores, np.arange(len(scores))).tolist()
    named = [{f"wording {i}" if i else "asked": rank for i, rank in place.items()} for place in places.values()]
    ordered = list(items.values())
    fused = [replace(ordered[i], why={**ordered[i].why, **named[i]}) for i in best]
    return _scale(fused, [float(scores[i]) for i in best])


def _scale(items: Sequence[Item], scores: Sequence[float]) -> list[Item]:
    """Return the items with scores divided by the best: from 0 to 1."""
    best = max(scores, default=0.0)
    return [
        replace(item, score=round(max(0.0, score) / best, 6) if best > 0 else 0.0)
        for item, score in zip(items, scores, strict=True)
    ]


def _drop_copies(items: Sequence[Item], snap: Snapshot) -> list[Item]:
    """Keep the best of near-duplicates that different lists have brought."""
    rows = np.array([-1 if (row := snap.find(item.id)) is None else row for item in items], np.int64)
    cluster_of = clusters(rows.astype(np.uint32), snap).tolist()
    first: dict[int, str] = {}
    for item, cluster in zip(items, cluster_of, strict=True):
        first.setdefault(cluster, item.id)
    return [item for item, cluster in zip(items, cluster_of, strict=True) if first[cluster] == item.id]


def apply_order(items: Sequence[Item], keys: Sequence[str]) -> list[Item]:
    """Order items by SHARE / (1 + rank) + (1 − SHARE) · score, best first.

    Items that the model has ordered change places among themselves; others keep their rank.

    Args:
        items: best first, scores from 0 to 1.
        keys: of the items that the model was sent, its best first; unknown ones are ignored.
    """
    position = {item_key(item): i for i, item in enumerate(items)}
    named = [position[key] for key in keys if key in position]
    if not named:
        return list(items)
    rank = np.arange(len(items))
    rank[named] = np.sort(named)
    place = {i: n for n, i in enumerate(named, 1)}
    scores = np.array([SHARE / (1 + rank[i]) + (1 - SHARE) * item.score for i, item in enumerate(items)], np.float64)
    return [
        replace(
            items[i],
            score=round(float(scores[i]), 6),
            why={**items[i].why, **({"model": place[i]} if i in place else {})},
        )
        for i in sort_rows(scores, np.arange(len(items))).tolist()
    ]


def compose_answer(question: DeepQuestion, plain: Bundle, replies: Replies, began: float) -> Bundle:
    """Return the answer of the deep tier.

    Args:
        plain: the answer without a model.
        began: start of the recall, by `time.perf_counter`.
    """
    found = recall_wordings(question, (lambda _: replies.wordings) if replies.wordings else None)
    items = apply_order(found.items, replies.order)[: question.query.k]
    context, tokens, placed = _pack(items, found.answered, question)
    return replace(
        plain,
        snapshot=question.snap.generation,
        items=tuple(items),
        packed=tuple(items[i] for i in placed),
        beyond=(),
        answered=found.answered,
        context=context,
        tokens=tokens,
        degraded=found.degraded,
        ms={**plain.ms, "total": round((time.perf_counter() - began) * 1000, 3)},
        deep=replies.report(),
        notice=None if items else plain.notice,
    )


def fall_back(plain: Bundle, reason: str) -> Bundle:
    """Return the answer without a model, with the reason in `degraded`."""
    return replace(plain, degraded=(*plain.degraded, f"deep: {reason}"))


def _pack(items: Sequence[Item], answered: float, question: DeepQuestion) -> tuple[str, int, list[int]]:
    """Pack the relevant items as the profile's recipe does."""
    query, snap = question.query, question.snap
    rows = np.array([snap.find(item.id) for item in items], np.uint32)
    stored = add_replacements(snap.text(rows), rows, snap, query.moment)
    entries = [{**entry, "text": item.text} for entry, item in zip(stored, items, strict=True)]
    relevance = np.array([item.relevance for item in items], np.float32)
    judged = JudgedRows(relevance, answered, select_relevant(relevance, answered, query.min_relevance))
    pack_rows = getattr(recipe(question.constants.recipe), "pack_rows", None)
    if pack_rows is not None:
        context, tokens, placed = pack_rows(rows, entries, judged, query, snap, scope(query, snap), question.constants)
        return context, tokens, placed
    return pack_kept(judged, pack, entries, query.budget, snap.counter)
