"""Figures of relevance: how well it separates, how well it is calibrated, what a threshold keeps and empties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from helix.types import F32, F64, AnyArray, Bool

BINS: Final = 15

NEGATIVES: Final = ("other", "hard", "abstention", "none")
"""Kinds of unanswerable cases."""


class JudgedCases(NamedTuple):
    """Cases with their probabilities, of models that never saw them."""

    source: AnyArray  # str[cases]
    kind: AnyArray
    answered: F32  # 0 for a skipped question
    case: AnyArray  # int[items], the case of each item
    relevance: F32
    gold: Bool


def measure_auc(positive: F32, negative: F32) -> float | None:
    """Return the area under the ROC curve; None without one of the kinds."""
    from sklearn.metrics import roc_auc_score

    if not len(positive) or not len(negative):
        return None
    labels = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
    return round(float(roc_auc_score(labels, np.concatenate([positive, negative]))), 4)


def bin_calibration(probability: F32, label: AnyArray, weight: AnyArray) -> list[dict[str, float]]:
    """Return the weight, mean probability and share of positives of each of BINS bins of equal width."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    out = []
    for number in range(BINS):
        at = place == number
        total = float(weight[at].sum())
        if total > 0:
            out.append(
                {
                    "weight": total / float(weight.sum()),
                    "predicted": float(np.average(probability[at], weights=weight[at])),
                    "observed": float(np.average(label[at], weights=weight[at])),
                }
            )
    return out


def measure_calibration(bins: list[dict[str, float]]) -> float:
    """Return the expected calibration error (Naeini et al. 2015)."""
    return round(sum(one["weight"] * abs(one["predicted"] - one["observed"]) for one in bins), 4)


def trace_coverage(answered: F32, right: AnyArray, weight: AnyArray) -> list[tuple[float, float]]:
    """Return (coverage, risk) of answering the surest questions only: at most 50 points (El-Yaniv & Wiener 2010)."""
    order = np.argsort(-answered, kind="stable")
    total = np.cumsum(weight[order])
    wrong = np.cumsum(weight[order] * (1 - right[order]))
    places = np.unique(np.linspace(0, len(order) - 1, 50).astype(np.int64))
    return [(round(float(total[i] / total[-1]), 4), round(float(wrong[i] / total[i]), 4)) for i in places]


def summarise(judged: JudgedCases, weight: Mapping[str, F64], least: float) -> dict[str, Any]:
    """Return all figures.

    Args:
        weight: of each case, for calibration: "cases" float64[cases].
        least: `answered` below which a context is empty.
    """
    own = judged.kind == "own"
    sets = [str(name) for name in np.unique(judged.source[own])]
    rows: dict[str, Any] = {}
    for name in (*sets, "all"):
        here = np.isin(judged.source, sets) if name == "all" else judged.source == name
        row: dict[str, Any] = {"answerable": int((here & own).sum())}
        for kind in NEGATIVES[:3]:
            row[kind] = measure_auc(judged.answered[here & own], judged.answered[here & (judged.kind == kind)])
        row["emptied"] = round(float((judged.answered[here & own] < least).mean()), 4)
        row["passed"] = _share(judged.answered[here & (judged.kind == "other")] >= least)
        rows[name] = row
    prompts = {
        str(name): _share(judged.answered[judged.source == name] >= least)
        for name in np.unique(judged.source[judged.kind == "none"])
    }
    cases = np.asarray(weight["cases"])
    used = cases > 0
    items = used[judged.case]
    answers = bin_calibration(judged.answered[used], own[used], cases[used])
    relevance = bin_calibration(judged.relevance[items], judged.gold[items], cases[judged.case][items])
    return {
        "least": least,
        "sets": rows,
        "prompts": prompts,
        "calibration": {"answered": answers, "relevance": relevance},
        "ece": {"answered": measure_calibration(answers), "relevance": measure_calibration(relevance)},
        "coverage": trace_coverage(judged.answered[used], own[used].astype(np.float64), cases[used]),
    }


def _share(passed: AnyArray) -> float | None:
    return round(float(passed.mean()), 4) if len(passed) else None


def share_passed(judged: JudgedCases, sources: AnyArray, least: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return the cases of each source and the share of them whose `answered` reaches each threshold.

    Args:
        sources: of each case, empty for those that do not count: str[cases].
        least: thresholds by name.
    """
    out = {}
    for name in np.unique(sources[sources != ""]):
        answered = judged.answered[sources == name]
        shares = {threshold: _share(answered >= value) for threshold, value in least.items()}
        out[str(name)] = {"cases": len(answered), **shares}
    return out
