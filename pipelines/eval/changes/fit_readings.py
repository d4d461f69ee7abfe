"""Fit of the order of candidates for one reading of a question: now, then, or why.

The loss is the cross entropy of the gold candidates under the softmax of a question's scores (Cao et al. 2007,
"Learning to Rank: From Pairwise Approach to Listwise Approach"), plus that of the gold against the stale ones alone.
Questions without any link among their candidates
are left out, since recall leaves their order as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from helix.enrich.changes import LEAST
from helix.question.build import build_query
from helix.ranking.network import FARTHEST, ListNetwork, score_rows
from helix.recipes.default import rank_question
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.changes import Links
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features import reading as features
from helix.stages.reading import Linked, find_linked, read_rows
from helix.stages.trace import Trace
from helix.text.reading import Kind, read_hints, read_kind
from helix.types import F32, I64, AnyArray, RecallOptions
from pipelines.eval.changes.material import FOLDS, Material, Ordinary

UNITS: Final = 64
TRAININGS: Final = 5
PASSES: Final = 40
RATE: Final = 3e-3
DECAY: Final = 0.05
DROPPED: Final = 0.4
BATCH: Final = 64

SHARE: Final = 2.0
"""Weight of all questions of an ordinary set, where that of all histories' is 1."""

HEAVIEST: Final = 8.0
"""Largest weight of a question of an ordinary set, where that of a history's is 1."""


EARLY: Final = "unchanged"
"""Source of the questions about now that are asked before the change: in real logs most values never change."""

EARLY_WEIGHT: Final = 0.35
"""Of such a question: with it, values that never changed are found as well as without this stage."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the features of its candidates, and which of them are gold."""

    source: str  # "" for histories, `EARLY` for what they held before a change, else the set
    fold: int
    features: F32
    gold: AnyArray
    stale: AnyArray
    found: AnyArray  # bool[n], in the pool
    score: F32  # of the ranking
    linked: bool  # some of the candidates are
    all_gold: int  # gold items, whether among the candidates or not
    weight: float = 1.0


def ask_histories(materials: Sequence[Material], kind: Kind, settings: Settings) -> Iterator[Asked]:
    """Ask every question of one kind, with the links and claims predicted for left-out histories."""
    for number, one in enumerate(materials):
        snap = one.memory.snapshot
        _set_links(snap, one.pairs, one.links)
        vars(snap.lexical)["claims"] = lambda rows, one=one: one.claims[rows]
        for text, gold, stale in _list_questions(one, kind):
            options = RecallOptions(now=one.history.now)
            if (asked := _ask(text, kind, options, snap, settings)) is not None:
                yield _keep("", number % FOLDS, *asked, gold, stale)
        for text, gold, moment in _list_early(one) if kind == "now" else ():
            options = RecallOptions(now=moment, as_of=moment)
            if (asked := _ask(text, kind, options, snap, settings)) is not None:
                yield _keep(EARLY, number % FOLDS, *asked, gold, [])


def ask_ordinary(one: Ordinary, kind: Kind, settings: Settings) -> Iterator[Asked]:
    """Ask every question of a set that reads as one of this kind, with the links of left-out haystacks."""
    snap = one.memory.snapshot
    _set_links(snap, one.pairs, one.links)
    vars(snap.lexical)["claims"] = lambda rows: one.claims[rows]
    for question in one.questions:
        if read_kind(question.text) != kind:
            continue
        options = RecallOptions(project=question.project, now=question.at)
        turns = sorted(turn for turn in question.gold if turn in one.rows)
        fold = one.haystacks.index(question.project) % FOLDS if question.project else 0
        if turns and (asked := _ask(question.text, kind, options, snap, settings)) is not None:
            linked, x, chosen = _choose_pieces(*asked, [one.rows[turn] for turn in turns])
            older = [row for turn, row in zip(turns, chosen, strict=True) if question.newest not in (None, turn)]
            yield _keep(one.name, fold, linked, x, chosen, older)


def _choose_pieces(linked: Linked, x: F32, turns: Sequence[Sequence[int]]) -> tuple[Linked, F32, list[int]]:
    """Keep the best ranked piece of each turn among the candidates; return it too, the first where none is found."""
    keep, chosen = np.ones(len(linked.rows), np.bool_), []
    for pieces in turns:
        at = np.flatnonzero(np.isin(linked.rows, [*pieces]))
        best = at[np.argsort(-linked.score[at], kind="stable")]
        keep[best[1:]] = False
        chosen.append(int(linked.rows[best[0]]) if len(best) else pieces[0])
    rows, score, found, links = linked
    return Linked(rows[keep], score[keep], found[keep], links[keep][:, keep]), x[keep], chosen


def _ask(
    text: str, kind: Kind, options: RecallOptions, snap: Snapshot, settings: Settings
) -> tuple[Linked, F32] | None:
    """Return the candidates of a question and their features; None where recall would not order them."""
    profile = load("helix", settings.profiles)
    ranked = rank_question(build_query(text, snap, settings, options), snap, profile, Trace())
    if ranked is None or (vector := ranked.vector) is None or not len(ranked.pool):
        return None
    linked = find_linked(ranked.pool, ranked.query, kind, snap, ranked.plan, profile.reading)
    rows = read_rows(linked, ranked.query, vector, snap)
    return linked, features.compute_features(rows, read_hints(text), ranked.plan.days)


def _keep(source: str, fold: int, linked: Linked, x: F32, gold: Collection[int], stale: Collection[int]) -> Asked:
    wanted, old = np.isin(linked.rows, [*gold]), np.isin(linked.rows, [*stale])
    has_link = bool(linked.links.max(initial=0) >= LEAST)
    return Asked(source, fold, x, wanted, old, linked.found, linked.score, has_link, len({*gold}))


def _set_links(snap: Snapshot, pairs: Sequence[tuple[I64, I64, F32, I64]], links: Sequence[F32]) -> None:
    """Let the snapshot answer with the predicted links."""
    old, new = np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])
    certainty = np.concatenate(links)
    keep = certainty >= LEAST
    order = np.lexsort((new[keep], old[keep]))
    for derived in ("_by_new", "changing", "_either_end", "_newest"):
        vars(snap.changes).pop(derived, None)
    vars(snap.changes)["links"] = Links(old[keep][order], new[keep][order], certainty[keep][order])


def _list_questions(one: Material, kind: Kind) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield (text, gold rows, stale rows)."""

    def find(turns: Collection[str]) -> list[int]:
        return [one.rows[turn] for turn in turns if turn in one.rows]

    for pair in one.history.pairs:
        if kind == "now":
            yield from ((text, find(pair.current), find(pair.stale)) for text in pair.now)
        else:
            past = pair.then if kind == "then" else pair.why
            yield from ((question.text, find(question.gold), []) for question in past)


def _list_early(one: Material) -> Iterator[tuple[str, list[int], datetime]]:
    """Yield the questions about now as of the second before the change: (text, gold rows, moment)."""
    said_at = one.memory.snapshot.changes.said_at
    for pair in one.history.pairs:
        current = [int(said_at[one.rows[turn]]) for turn in pair.current if turn in one.rows]
        held = [one.rows[turn] for turn in pair.stale[-1:] if turn in one.rows]
        if current and held and said_at[held[0]] < min(current):
            moment = datetime.fromtimestamp(min(current) - 1, UTC)
            yield from ((text, held, moment) for text in pair.now)


def fit_reading(asked: Sequence[Asked], kind: Kind) -> tuple[ListNetwork, dict[str, float]]:
    """Fit the order of candidates; return it with its rates on left-out histories and haystacks."""
    asked = _weigh(asked)
    judged: dict[str, list[tuple[float, ...]]] = {}
    for fold in range(FOLDS):
        model = fit_network([one for one in asked if one.fold != fold])
        for one in asked:
            if one.fold == fold:
                judged.setdefault(one.source, []).append(_judge(model, one))
    names = ("above", "first", "top3") if kind == "now" else ("", "first", "top3")
    figures = {
        name: round(float(rate), 3) for name, rate in zip(names, np.mean(judged.pop(""), axis=0), strict=True) if name
    }
    for source, rates in sorted(judged.items()):
        before, after, old, new = np.mean(rates, axis=0).round(3).tolist()
        figures |= {f"{source} mrr": after, f"{source} mrr before": before}
        figures |= {f"{source} recall@10": new, f"{source} recall@10 before": old}
    return fit_network(asked), figures


def _weigh(asked: Sequence[Asked]) -> list[Asked]:
    """Return the questions with their weights."""
    counts = {source: sum(one.source == source and one.linked for one in asked) for source in {a.source for a in asked}}
    share = {source: min(SHARE * counts[""] / max(n, 1), HEAVIEST) for source, n in counts.items()}
    share |= {"": 1.0, EARLY: EARLY_WEIGHT}
    return [replace(one, weight=share[one.source]) for one in asked]


def _judge(model: ListNetwork, one: Asked) -> tuple[float, ...]:
    """Judge one order, of a history: above all stale, first, in three; else MRR and recall@10, before and after."""
    ranked = np.where(one.found, one.score, np.float32(-1))
    order = np.argsort(-score_rows(model, one.features) if one.linked else -ranked, kind="stable")
    if not one.source:
        return judge_order(order, one)
    before = one.gold[np.argsort(-ranked, kind="stable")]
    after = one.gold[order]
    rates = [_reciprocal(before), _reciprocal(after)]
    return *rates, *(float(gold[:10].sum()) / one.all_gold for gold in (before, after))


def _reciprocal(gold: AnyArray) -> float:
    places = np.flatnonzero(gold)
    return 1 / (1 + int(places[0])) if len(places) else 0.0


def judge_order(order: AnyArray, one: Asked) -> tuple[bool, bool, bool]:
    """Return whether a gold candidate is above every stale one, first, and in the first three."""
    order = order[:10]
    gold, stale = np.flatnonzero(one.gold[order]), np.flatnonzero(one.stale[order])
    first = int(gold[0]) if len(gold) else 10
    return first < (int(stale[0]) if len(stale) else 10), first == 0, first < 3


def fit_network(asked: Sequence[Asked]) -> ListNetwork:
    """Fit `TRAININGS` networks to the questions whose candidates are linked and hold gold; same input, same network."""
    import torch

    asked = [one for one in asked if one.linked and one.gold.any()]
    rows = np.vstack([one.features for one in asked])
    mean, deviation = rows.mean(axis=0), rows.std(axis=0) + np.float32(1e-4)
    most = max(len(one.features) for one in asked)
    x = np.zeros((len(asked), most, rows.shape[1]), np.float32)
    there, gold, stale = (np.zeros(x.shape[:2], np.bool_) for _ in range(3))
    for i, one in enumerate(asked):
        n = len(one.features)
        x[i, :n] = np.clip((one.features - mean) / deviation, -FARTHEST, FARTHEST)
        there[i, :n], gold[i, :n], stale[i, :n] = True, one.gold, one.stale
    each = np.array([one.source not in ("", EARLY) for one in asked])  # of a set all gold is wanted, of a history any
    weight = np.array([one.weight for one in asked], np.float32)
    inputs = [torch.from_numpy(array) for array in (x, there, gold, stale, each, weight)]
    trained = [_train_once(inputs, seed) for seed in range(TRAININGS)]
    hidden, bias, out, linear = (np.stack(parts).astype(np.float32) for parts in zip(*trained, strict=True))
    return ListNetwork(mean, deviation, hidden, bias, out, linear.mean(axis=0))


def _train_once(inputs: Sequence[Any], seed: int) -> list[AnyArray]:
    """Train one network; return its hidden weights [f, h], bias [h], output weights [h], and linear weights [f]."""
    import torch

    x, there, gold, stale, each, weight = inputs
    torch.manual_seed(seed)
    deep = torch.nn.Sequential(
        torch.nn.Linear(x.shape[2], UNITS), torch.nn.ReLU(), torch.nn.Dropout(DROPPED), torch.nn.Linear(UNITS, 1)
    )
    linear = torch.nn.Linear(x.shape[2], 1, bias=False)
    torch.nn.init.zeros_(linear.weight)
    parameters = [*deep.parameters(), *linear.parameters()]
    steps = PASSES * -(-len(x) // BATCH)
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    deep.train()
    for _ in range(PASSES):
        for chosen in torch.randperm(len(x)).split(BATCH):
            scores = (deep(x[chosen]) + linear(x[chosen])).squeeze(-1)
            chances = torch.log_softmax(scores.masked_fill(~there[chosen], -1e9), 1)
            wanted = gold[chosen]
            any_gold = torch.logsumexp(chances.masked_fill(~wanted | stale[chosen], -1e9), 1)
            all_gold = chances.masked_fill(~wanted, 0).sum(1) / wanted.sum(1)
            any_stale = torch.logsumexp(chances.masked_fill(~stale[chosen], -1e9), 1)
            above = torch.nn.functional.logsigmoid(any_gold - any_stale)  # 0 without a stale one
            fit = torch.where(each[chosen], all_gold, any_gold) + above
            loss = -(fit * weight[chosen]).sum() / weight[chosen].sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    weights = [deep[0].weight.T, deep[0].bias, deep[3].weight[0], linear.weight[0]]
    return [array.detach().numpy() for array in weights]
