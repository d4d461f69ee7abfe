"""From answers to figures: the metrics of a question, the means of a row with their intervals.

Metrics are of one ranking, best first, each entry once, against the gold (Manning, Raghavan & Schütze 2008, chapter 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2
from typing import Any, NamedTuple

import numpy as np

from helix.types import F64
from pipelines.eval.sets.benchmark import Question

DRAWS = 2_000
"""Draws of the bootstrap."""


def recall_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return the share of the gold among the first k."""
    return len(gold & set(ranking[:k])) / len(gold) if gold else 0.0


def any_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return 1 if the first k have any of the gold (trec_eval's success), else 0."""
    return float(not gold.isdisjoint(ranking[:k]))


def all_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Return 1 if the first k have all of the gold, else 0."""
    return float(gold <= set(ranking[:k]))


def reciprocal_rank(ranking: Sequence[str], gold: AbstractSet[str]) -> float:
    """Return 1 / rank of the first gold entry, ranks from 1; 0 if the ranking has none."""
    return next((1 / rank for rank, entry in enumerate(ranking, 1) if entry in gold), 0.0)


def ranks_newest(ranking: Sequence[str], gold: AbstractSet[str], newest: str) -> float:
    """Return 1 if the newest gold entry is in the ranking, above the rest of the gold, else 0."""
    return float(next((entry for entry in ranking if entry in gold), None) == newest)


def ndcg_at(ranking: Sequence[str], grades: Mapping[str, float], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first k (Järvelin & Kekäläinen 2002), as trec_eval does.

    Gain is the grade, discount log2(rank + 1), and the best possible order of `grades` is 1. An entry without a grade,
    or with one of at most 0, is not relevant.
    """
    best = _compute_dcg(sorted((max(grade, 0.0) for grade in grades.values()), reverse=True)[:k])
    return _compute_dcg(max(grades.get(entry, 0.0), 0.0) for entry in ranking[:k]) / best if best else 0.0


def _compute_dcg(gains: Iterable[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def bootstrap(values: F64, seed: int = 0) -> F64:
    """Return the 95 % interval of the mean over the first axis, by the percentile bootstrap (Efron 1979).

    Differences, one a question, make it the paired bootstrap. A draw takes whole questions, so metrics stay together:
    float64[n] or float64[n, metrics] → (low, high) as float64[2] or float64[2, metrics].
    """
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(0, len(values), len(values))].mean(axis=0) for _ in range(DRAWS)]
    interval: F64 = np.percentile(means, (2.5, 97.5), axis=0)
    return interval


KS = (1, 5, 10, 20)
BUDGETS = (500, 1_000, 2_000)
"""Tokens of the packs."""
METRICS = (
    *(f"any@{k}" for k in KS),
    *(f"rec@{k}" for k in KS),
    *(f"all@{k}" for k in KS),
    "mrr",
    "ndcg@10",
    *(f"pack@{budget}" for budget in BUDGETS),
)
GAINS = ("rec@10", "ndcg@10")
"""Metrics compared with the better leg, question by question."""

SESSION_KS = (1, 5, 10)
SESSION_METRICS = tuple(f"{name}@{k}" for name in ("any", "rec", "all") for k in SESSION_KS)

Floats = F64


class RankedAnswer(NamedTuple):
    """The answer to one question in one way."""

    ranking: Sequence[str]  # turns, best first, each once
    packs: Mapping[int, AbstractSet[str]]  # turns in the pack, by its budget in tokens
    skipped: bool = False  # the skip rules took it for a question that needs no memory
    ms: float = 0.0


def score_answer(question: Question, answer: RankedAnswer) -> dict[str, float]:
    """Return the METRICS of one question. Only the length of the ranking cuts the reciprocal rank."""
    ranking, gold = answer.ranking, question.gold
    grades = dict.fromkeys(gold, 1.0) if question.grades is None else question.grades
    at = {"any": any_at, "rec": recall_at, "all": all_at}
    return {
        **{f"{name}@{k}": metric(ranking, gold, k) for name, metric in at.items() for k in KS},
        "mrr": reciprocal_rank(ranking, gold),
        "ndcg@10": ndcg_at(ranking, grades, 10),
        **{f"pack@{budget}": len(gold & answer.packs[budget]) / len(gold) for budget in BUDGETS},
    }


def list_sessions(turns: Iterable[str]) -> list[str]:
    """Return the sessions of turns, each once, in order."""
    return list(dict.fromkeys(turn.partition("\t")[0] for turn in turns))


def score_sessions(questions: Sequence[Question], answers: Sequence[RankedAnswer]) -> dict[str, float]:
    """Return the mean SESSION_METRICS: a session ranks as its best turn does, and is gold if it has a gold turn."""
    at = {"any": any_at, "rec": recall_at, "all": all_at}
    rows = []
    for question, answer in zip(questions, answers, strict=True):
        ranking, gold = list_sessions(answer.ranking), set(list_sessions(question.gold))
        rows.append([metric(ranking, gold, k) for metric in at.values() for k in SESSION_KS])
    return dict(zip(SESSION_METRICS, np.mean(rows, axis=0).round(4).tolist(), strict=True))


def score_undoubted(questions: Sequence[Question], values: Floats) -> dict[str, float]:
    """Return the number of questions whose gold is known to be wrong, and any@10 and rec@10 of the others; {} for 0.

    Args:
        values: of `score_answers`.
    """
    sound = np.array([not question.doubted for question in questions])
    if sound.all():
        return {}
    any_, rec = (float(values[sound, METRICS.index(name)].mean()) for name in ("any@10", "rec@10"))
    return {"doubted": int((~sound).sum()), "any@10": round(any_, 4), "rec@10": round(rec, 4)}


def score_answers(questions: Sequence[Question], answers: Sequence[RankedAnswer]) -> Floats:
    """Return float64[questions, METRICS]."""
    pairs = zip(questions, answers, strict=True)
    return np.array([list(score_answer(question, answer).values()) for question, answer in pairs], np.float64)


def make_row(values: Floats, answers: Sequence[RankedAnswer], sizes: Sequence[int]) -> dict[str, Any]:
    """Return one row of the report from `score_answers` and the turns of each question's haystack.

    It has the mean of each metric; `low` and `high` of rec@10; `ci`: (low, high) of each; `skipped`; `short`: questions
    with fewer turns in the answer than the largest k, though the haystack has more; `p50` and `p95` in milliseconds.
    """
    low, high = bootstrap(values)
    ci = {name: _round(low[i], high[i]) for i, name in enumerate(METRICS)}
    ms = [answer.ms for answer in answers]
    return {
        **{name: round(float(mean), 4) for name, mean in zip(METRICS, values.mean(axis=0), strict=True)},
        "low": ci["rec@10"][0],
        "high": ci["rec@10"][1],
        "skipped": sum(answer.skipped for answer in answers),
        "short": sum(len(answer.ranking) < min(KS[-1], size) for answer, size in zip(answers, sizes, strict=True)),
        "p50": round(float(np.percentile(ms, 50)), 2),
        "p95": round(float(np.percentile(ms, 95)), 2),
        "ci": ci,
    }


def measure_gain(values: Floats, legs: Mapping[str, Floats]) -> dict[str, Any]:
    """Compare with the leg of the better mean by the paired bootstrap.

    Returns:
        (difference, low, high) by metric of GAINS; `over`: the leg of each.
    """
    gain: dict[str, Any] = {"over": {}}
    for name in GAINS:
        i = METRICS.index(name)
        best = max(legs, key=lambda leg: float(legs[leg][:, i].mean()))
        difference = values[:, i] - legs[best][:, i]
        gain[name] = _round(difference.mean(), *bootstrap(difference))
        gain["over"][name] = best
    return gain


def summarise_kinds(
    questions: Sequence[Question], answers: Sequence[RankedAnswer], values: Floats
) -> dict[str, dict[str, float]]:
    """Return by kind the number of questions, any@10, and rec@10 with its interval; {} for a set without kinds.

    A kind with questions whose newest gold turn is known also has `newest`, `newest_low` and `newest_high`: the share
    of answers that rank it above the other gold turns, with its interval.
    """
    kinds = np.array([question.kind for question in questions])
    summary: dict[str, dict[str, float]] = {}
    for kind in sorted({question.kind for question in questions} - {""}):
        own = values[kinds == kind]
        hits, recalls = own[:, METRICS.index("any@10")], own[:, METRICS.index("rec@10")]
        low, high = _round(*bootstrap(recalls))
        any_, rec = _round(hits.mean(), recalls.mean())
        summary[kind] = {"questions": len(own), "any@10": any_, "rec@10": rec, "low": low, "high": high}
        newest = [
            ranks_newest(answer.ranking, question.gold, question.newest)
            for question, answer in zip(questions, answers, strict=True)
            if question.kind == kind and question.newest is not None
        ]
        if newest:
            figures = (np.mean(newest), *bootstrap(np.array(newest)))
            summary[kind] |= zip(("newest", "newest_low", "newest_high"), _round(*figures), strict=True)
    return summary


def list_warnings(sizes: Sequence[int]) -> list[str]:
    """Return a line for each k of more than a fifth of a haystack, where finding means little.

    Args:
        sizes: turns of each question's haystack.
    """
    counts = {k: sum(k * 5 > size for size in sizes) for k in KS}
    return [
        f"k = {k} is more than a fifth of the haystack for {n} of {len(sizes)} questions (the smallest has "
        f"{min(sizes)} turns)"
        for k, n in counts.items()
        if n
    ]


def list_shortfalls(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line on the rows with answers of fewer turns than the largest k, if there are any."""
    short = [f"{way} {row['short']:,}" for way, row in rows.items() if row["short"]]
    return [f"questions for which fewer than {KS[-1]} turns came back: {', '.join(short)}"] if short else []


def _round(*values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
