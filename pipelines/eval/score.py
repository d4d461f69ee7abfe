"""From answers to the figures of a benchmark report: a question's metrics, a row's means with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.eval.metrics import all_at, any_at, bootstrap, ndcg_at, recall_at, reciprocal_rank
from pipelines.eval.sets.registry import Question

KS = (1, 5, 10, 20)
BUDGETS = (500, 1_000, 2_000)
"""Tokens of the packs that are looked into."""
METRICS = (
    *(f"any@{k}" for k in KS),
    *(f"rec@{k}" for k in KS),
    *(f"all@{k}" for k in KS),
    "mrr",
    "ndcg@10",
    *(f"pack@{budget}" for budget in BUDGETS),
)
GAINS = ("rec@10", "ndcg@10")
"""What is compared with the better leg, question by question."""

Floats = npt.NDArray[np.float64]


class Answer(NamedTuple):
    """What one way of asking gave for one question."""

    ranking: Sequence[str]  # turns, best first, each once
    packs: Mapping[int, AbstractSet[str]]  # turns in the pack, by its budget in tokens
    skipped: bool = False  # taken for a question that needs no memory
    ms: float = 0.0


def score(question: Question, answer: Answer) -> dict[str, float]:
    """The METRICS of one question. The reciprocal rank is cut by nothing but the length of the ranking."""
    ranking, gold = answer.ranking, question.gold
    grades = dict.fromkeys(gold, 1.0) if question.grades is None else question.grades
    at = {"any": any_at, "rec": recall_at, "all": all_at}
    return {
        **{f"{name}@{k}": metric(ranking, gold, k) for name, metric in at.items() for k in KS},
        "mrr": reciprocal_rank(ranking, gold),
        "ndcg@10": ndcg_at(ranking, grades, 10),
        **{f"pack@{budget}": len(gold & answer.packs[budget]) / len(gold) for budget in BUDGETS},
    }


def matrix(questions: Sequence[Question], answers: Sequence[Answer]) -> Floats:
    """float64[questions, METRICS]."""
    pairs = zip(questions, answers, strict=True)
    return np.array([list(score(question, answer).values()) for question, answer in pairs], np.float64)


def row(values: Floats, answers: Sequence[Answer], sizes: Sequence[int]) -> dict[str, Any]:
    """One row of the report.

    Args:
        values: of `matrix`.
        sizes: turns of each question's haystack.

    Returns:
        The mean of each metric; `low` and `high` of rec@10; `ci`: (low, high) of each; `skipped`; `short`: questions
        for which fewer turns came back than the largest k, though there were more; `p50` and `p95` in milliseconds.
    """
    low, high = bootstrap(values)
    ci = {name: _rounded(low[i], high[i]) for i, name in enumerate(METRICS)}
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


def gain(values: Floats, legs: Mapping[str, Floats]) -> dict[str, Any]:
    """By metric of GAINS (difference to the leg with the better mean, low, high), by the paired bootstrap; `over` names
    the leg of each."""
    out: dict[str, Any] = {"over": {}}
    for name in GAINS:
        i = METRICS.index(name)
        best = max(legs, key=lambda leg: float(legs[leg][:, i].mean()))
        difference = values[:, i] - legs[best][:, i]
        out[name] = _rounded(difference.mean(), *bootstrap(difference))
        out["over"][name] = best
    return out


def kinds(questions: Sequence[Question], values: Floats) -> dict[str, dict[str, float]]:
    """Kind of question → how many there are, any@10 and rec@10 with its interval; nothing where a set has no kinds."""
    of = np.array([question.kind for question in questions])
    out: dict[str, dict[str, float]] = {}
    for kind in sorted({question.kind for question in questions} - {""}):
        own = values[of == kind]
        hits, recalls = own[:, METRICS.index("any@10")], own[:, METRICS.index("rec@10")]
        low, high = _rounded(*bootstrap(recalls))
        any_, rec = _rounded(hits.mean(), recalls.mean())
        out[kind] = {"questions": len(own), "any@10": any_, "rec@10": rec, "low": low, "high": high}
    return out


def warnings(sizes: Sequence[int]) -> list[str]:
    """A line for every k that is more than a fifth of a haystack: so near the whole of it, finding is no merit.

    Args:
        sizes: turns of each question's haystack.
    """
    found = [(k, sum(k * 5 > size for size in sizes)) for k in KS]
    return [
        f"k = {k} is more than a fifth of the haystack for {n} of {len(sizes)} questions (the smallest has "
        f"{min(sizes)} turns)"
        for k, n in found
        if n
    ]


def shortfalls(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line on the rows for which too few turns came back to fill the largest k, if there are such."""
    found = [f"{way} {one['short']:,}" for way, one in rows.items() if one["short"]]
    return [f"questions for which fewer than {KS[-1]} turns came back: {', '.join(found)}"] if found else []


def _rounded(*values: Any) -> list[float]:
    return [round(float(value), 4) for value in values]
