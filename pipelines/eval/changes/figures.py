"""From the answers about a changing history to figures: a judgement of each question and turn, and their means.

A rank is that of an item, from 1. An item with a current and a stale turn ranks neither above the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np

from helix.types import F64
from pipelines.eval.changes.history import Change, ChangingHistory, Control, PastQuestion
from pipelines.eval.score import bootstrap

Ranking = Sequence[Collection[str]]
"""The turns of each item, best first."""

FIGURES: Final[Mapping[str, str]] = {
    "above": "now: a current turn is found, above every stale turn",
    "first": "now: a current turn is first",
    "top3": "now: a current turn is among the first three",
    "context": "now: the context holds a current turn",
    "context_above": "now: the context holds it before every stale turn",
    "then": "then: a turn that set the earlier value is first",
    "then3": "then: it is among the first three",
    "why": "why: a turn with the reason is among the first three",
    "why1": "why: it is first",
    "marked": "stale turns that are marked as superseded",
    "false": "turns of controls that hold, and are marked",
    "false_all": "turns that no pair calls stale, and are marked",
}
"""Every figure, with its meaning. All are shares; of the last two less is better."""

FALSE: Final = ("false", "false_all")
"""Figures of which less is better."""


class RecalledItems(NamedTuple):
    """The answer to one question."""

    ranking: Ranking
    packed: Ranking  # items of the context, in its order


class Judgement(NamedTuple):
    """The figures of one question or one turn, with all that explains them."""

    history: ChangingHistory
    of: Change | Control | None  # None: a turn that no pair calls stale
    figures: Mapping[str, bool]
    turns: tuple[str, ...]  # the turns that answer, or the one that is looked at
    question: str = ""  # none for a turn
    ranking: Ranking = ()

    @property
    def category(self) -> str:
        """The category of its pair, or the kind of its control."""
        return self.of.category if isinstance(self.of, Change) else self.of.kind if self.of else ""


def find_rank(ranking: Ranking, wanted: AbstractSet[str]) -> int | None:
    """Return the rank of the first item with a wanted turn; None if no item has one."""
    return next((rank for rank, turns in enumerate(ranking, 1) if not wanted.isdisjoint(turns)), None)


def ranks_above(ranking: Ranking, wanted: AbstractSet[str], others: AbstractSet[str]) -> bool:
    """Return whether a wanted turn is in the ranking, and none of the others is as high."""
    best, other = find_rank(ranking, wanted), find_rank(ranking, others)
    return best is not None and (other is None or best < other)


def ranks_within(ranking: Ranking, wanted: AbstractSet[str], k: int) -> bool:
    """Return whether one of the first k items has a wanted turn."""
    return find_rank(ranking[:k], wanted) is not None


def judge_now(answer: RecalledItems, pair: Change) -> dict[str, bool]:
    """Return the figures of a question in the present."""
    stale = frozenset(pair.stale)
    return {
        "above": ranks_above(answer.ranking, pair.current, stale),
        "first": ranks_within(answer.ranking, pair.current, 1),
        "top3": ranks_within(answer.ranking, pair.current, 3),
        "context": find_rank(answer.packed, pair.current) is not None,
        "context_above": ranks_above(answer.packed, pair.current, stale),
    }


def judge_then(answer: RecalledItems, question: PastQuestion) -> dict[str, bool]:
    """Return the figures of a question about an earlier value."""
    first, third = (ranks_within(answer.ranking, question.gold, k) for k in (1, 3))
    return {"then": first, "then3": third}


def judge_why(answer: RecalledItems, question: PastQuestion) -> dict[str, bool]:
    """Return the figures of a question about a reason."""
    first, third = (ranks_within(answer.ranking, question.gold, k) for k in (1, 3))
    return {"why": third, "why1": first}


def judge_marks(history: ChangingHistory, marked: Collection[str]) -> list[Judgement]:
    """Return a judgement of each stale turn of a pair, each kept turn of a control, and each turn that is not stale.

    Args:
        marked: turns that the store marks as superseded.
    """
    found = [
        Judgement(history, pair, {"marked": turn in marked}, (turn,)) for pair in history.pairs for turn in pair.stale
    ]
    found += [
        Judgement(history, control, {"false": turn in marked}, (turn,))
        for control in history.controls
        for turn in control.keep
    ]
    stale = {turn for pair in history.pairs for turn in pair.stale}
    others = (turn.id for turn in history.turns if turn.id not in stale)
    return [*found, *(Judgement(history, None, {"false_all": turn in marked}, (turn,)) for turn in others)]


def make_row(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Return the share of each measured figure, with `n` and `ci`: its number of judgements, and (low, high)."""
    values = _collect_values(judgements)
    intervals = {name: [round(float(bound), 4) for bound in bootstrap(own)] for name, own in values.items()}
    return {**_compute_shares(values), "ci": intervals}


def _collect_values(judgements: Iterable[Judgement]) -> dict[str, F64]:
    values: dict[str, list[bool]] = {name: [] for name in FIGURES}
    for one in judgements:
        for name, value in one.figures.items():
            values[name].append(value)
    return {name: np.array(own, np.float64) for name, own in values.items() if own}


def _compute_shares(values: Mapping[str, F64]) -> dict[str, Any]:
    shares = {name: round(float(own.mean()), 4) for name, own in values.items()}
    return {**shares, "n": {name: len(own) for name, own in values.items()}}


def group_rows(judgements: Sequence[Judgement], kind: type[Change] | type[Control]) -> dict[str, dict[str, Any]]:
    """Return the shares and `n` by category of pair or by kind of control, each with the number of `groups`."""
    own = [one for one in judgements if isinstance(one.of, kind)]
    rows = {}
    for category in sorted({one.category for one in own}):
        alike = [one for one in own if one.category == category]
        groups = {(one.history.folder, one.of) for one in alike}
        rows[category] = {"groups": len(groups), **_compute_shares(_collect_values(alike))}
    return rows


def list_misses(judgements: Iterable[Judgement], figures: Collection[str]) -> list[dict[str, Any]]:
    """List the judgements that fail one of the figures, each with the names of those in `failed`.

    A question has `found`: its items up to the last one with a turn of its pair, but at least the first. `is` says
    whether an item has a turn that answers, another current or a stale one. `missing` are the turns that answer and
    are in no item. A turn has `compare`: the current turns of its pair, or those that its control looks like.
    """
    misses = []
    for one in judgements:
        failed = [name for name, value in one.figures.items() if name in figures and value == (name in FALSE)]
        if failed:
            history, of = one.history, one.of
            place = {"half": history.half, "history": history.name, "id": of.id if of else ""}
            describe = _describe_question if one.question else _describe_turn
            misses.append({"failed": failed, **place, "category": one.category, **describe(one)})
    return misses


def _describe_turn(one: Judgement) -> dict[str, Any]:
    of = one.of
    others = sorted(of.current) if isinstance(of, Change) else of.looks_like if of else ()
    return {**_quote(one, one.turns)[0], "compare": _quote(one, others)}


def _describe_question(one: Judgement) -> dict[str, Any]:
    pair, found = one.of, []
    kinds = {turn: name for name in ("stale", "current") for turn in getattr(pair, name)}
    kinds |= dict.fromkeys(one.turns, "answer")
    for rank, turns in enumerate(one.ranking, 1):
        name = next((name for name in ("answer", "current", "stale") if name in map(kinds.get, turns)), "")
        found.append({"rank": rank, "is": name, "turns": _quote(one, turns)})
    last = max((i for i, entry in enumerate(found) if entry["is"]), default=0)
    ranked = {turn for turns in one.ranking for turn in turns}
    missing = [turn for turn in one.turns if turn not in ranked]
    return {"question": one.question, "found": found[: last + 1], "missing": _quote(one, missing)}


def _quote(one: Judgement, turns: Iterable[str]) -> list[dict[str, str]]:
    texts = {turn.id: turn.text for turn in one.history.turns}
    return [{"turn": turn, "text": texts.get(turn, "")} for turn in turns]
