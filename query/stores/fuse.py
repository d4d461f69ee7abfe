"""A recall over several stores: their ranked lists as one, and one context.

Relevance is a probability, comparable between stores, so the lists are merged by it. A list's own order stays: an item
counts with the least relevance of the items up to it. The same text in two stores is one item, which names both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.recipes.default_pack import cap_tokens
from helix.recipes.load_profile import load
from helix.sdk.question_weights import weigh_question
from helix.stages.pack import Count, ExcerptRules, pack
from helix.stages.relevance import LEAST_ANSWERED

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from query.schema.requests import RecallRequest


class StoreItem(NamedTuple):
    """An item of one store's answer."""

    store: str
    item: Mapping[str, Any]
    weight: float  # the least relevance of the items up to it in its store's list
    is_packed: bool  # its store put it into a context


def merge_answers(answers: Mapping[str, Mapping[str, Any]]) -> list[StoreItem]:
    """Merge the items of several answers, best first; ties keep the order of the stores.

    Args:
        answers: the JSON of a recall by store.
    """
    every: list[StoreItem] = []
    for store, answer in answers.items():
        packed, least = set(answer["packed"]), 1.0
        for i, item in enumerate((*answer["items"], *answer["beyond"])):
            least = min(least, item["relevance"])
            every.append(StoreItem(store, item, least, i in packed))
    return sorted(every, key=lambda one: -one.weight)


def join_copies(items: Sequence[StoreItem]) -> list[tuple[StoreItem, list[str]]]:
    """Return each text once, at its best place, with the other stores that have it."""
    found: dict[str, tuple[StoreItem, list[str]]] = {}
    for one in items:
        text = " ".join(one.item["text"].split())
        if text not in found:
            found[text] = one, []
        elif one.store != found[text][0].store and one.store not in found[text][1]:
            found[text][1].append(one.store)
    return list(found.values())


def fuse_answers(
    answers: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, str],
    k: int,
    budget: int,
    count: Count,
    make_rules: Callable[[list[float]], ExcerptRules],
) -> dict[str, Any]:
    """Return one answer from those of several stores, with the store of each item.

    Args:
        answers: the JSON of a recall by store, at least one.
        failed: the reason by store that gave no answer.
        k: items to return.
        count: counts the tokens of texts.
        make_rules: returns how items of so much relevance are shortened.
    """
    ranked = join_copies(merge_answers(answers))
    items = [{**one.item, "store": one.store, "also_in": others} for one, others in ranked]
    relevant = [i for i, (one, _) in enumerate(ranked) if one.is_packed]
    entries = [_make_entry(items[i], len(answers) > 1) for i in relevant]
    rules = make_rules([items[i]["relevance"] for i in relevant])
    context, tokens, placed = pack(entries, budget, count, rules=rules) if entries else ("", 0, [])
    order = [relevant[i] for i in placed]
    beyond = sorted(i for i in order if i >= k)
    place = {i: i for i in range(min(k, len(items)))} | {i: k + at for at, i in enumerate(beyond)}
    first = next(iter(answers.values()))
    answered = max(answer["answered"] for answer in answers.values())
    return {
        **{name: first[name] for name in ("profile", "counter")},
        "snapshot": max(answer["snapshot"] for answer in answers.values()),
        "skipped": all(answer["skipped"] for answer in answers.values()),
        "degraded": [
            *(f"{store}: {reason}" for store, answer in answers.items() for reason in answer["degraded"]),
            *(f"{store}: {reason}" for store, reason in failed.items()),
        ],
        "answered": answered,
        "relevant": answered >= LEAST_ANSWERED,
        "items": items[:k],
        "beyond": [items[i] for i in beyond],
        "packed": [place[i] for i in order],
        "context": context,
        "tokens": tokens,
        "budget": budget,
        "ms": {},
        "notice": _join_notices(answers, found=bool(items)),
        "coverage": None,
        "stores": {
            store: {"snapshot": answer["snapshot"], "items": len(answer["items"]), "ms": answer["ms"]["total"]}
            for store, answer in answers.items()
        },
    }


def shorten_as_one(
    request: RecallRequest, views: Sequence[Snapshot], profiles: str, relevance: Sequence[float]
) -> ExcerptRules:
    """Return how items of several stores are shortened: as those of one are.

    Args:
        views: what the caller sees of each store.
        profiles: the folder of own profiles.
        relevance: of each item, best first.
    """
    how = load("helix", profiles).pack
    caps = cap_tokens(np.array(relevance, np.float32), request.budget, how, wide=False)
    return ExcerptRules(weigh_question(request.query, views), caps.tolist(), how.full)


def _make_entry(item: Mapping[str, Any], named: bool) -> dict[str, Any]:
    """Return the shown fields of an item for `pack`; its store comes before its title."""
    said = item["time"] and datetime.fromisoformat(item["time"].replace("Z", "+00:00"))
    title = " · ".join(filter(None, (item["store"] if named else "", item["title"])))
    replaced = item["replaced_by"]
    entry = {**item, "time": said, "title": title}
    # One session id in two stores is two sessions; the title tells them apart.
    return entry | ({"replaced": _quote_successor(replaced)} if replaced else {})


def _quote_successor(replaced: Mapping[str, Any]) -> dict[str, Any]:
    said = replaced["time"] and datetime.fromisoformat(replaced["time"].replace("Z", "+00:00"))
    return {"time": said, "quote": replaced["text"], "session": replaced["id"], "turns": [], "id": replaced["id"]}


def _join_notices(answers: Mapping[str, Mapping[str, Any]], *, found: bool) -> str | None:
    """Return the notices of an empty answer, each once."""
    notices = dict.fromkeys(answer["notice"] for answer in answers.values() if answer["notice"])
    return None if found or not notices else "; ".join(notices)
