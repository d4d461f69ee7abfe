"""`helix eval relevance`: the figures of models that never saw the cases they are measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from helix.stages.relevance import LEAST_ANSWERED
from helix.types import Bool
from pipelines.eval.relevance.ask import CaseEvidence
from pipelines.eval.relevance.collect import is_trainable
from pipelines.eval.relevance.figures import JudgedCases, share_passed, summarise
from pipelines.eval.relevance.fit import FOLDS, Signals, cross_fit, weigh_cases
from pipelines.eval.relevance.log_cases import FOREIGN, UNSAID

BY: Final = ("conversation", "set")
"""Left out of a fit at a time: conversations, or whole sets."""


def measure_relevance(
    asked: Sequence[CaseEvidence], by: str, variant: str, say: Callable[[str], None], hook: float
) -> dict[str, Any]:
    """Return the figures of `summarise`, by models that were fitted without the conversations or sets they predict.

    Args:
        by: of BY.
        variant: of `helix.stages.relevance.VARIANTS`.
        hook: least `answered` for a hook to speak.
    """
    signals = Signals(asked, variant)
    trainable: Bool = np.array([is_trainable(one) for one in signals.asked])
    folds = list(make_folds(signals, trainable, by))
    items, answers = cross_fit(signals, folds, say)
    silent = [one for one in asked if one.evidence is None]
    judged = JudgedCases(
        np.concatenate([signals.source, [one.source for one in silent]]),
        np.concatenate([signals.kind, [one.kind for one in silent]]),
        np.concatenate([answers, np.zeros(len(silent), np.float32)]),
        signals.case,
        items,
        signals.gold,
    )
    weights = np.concatenate([weigh_cases(signals, trainable, signals.mix), np.zeros(len(silent))])
    figures = summarise(judged, {"cases": weights}, LEAST_ANSWERED)
    names = [_name_log(one) for one in (*signals.asked, *silent)]
    logs = share_passed(judged, np.array(names, dtype=str), {"passed": LEAST_ANSWERED, "spoken": hook})
    return {"by": by, "variant": variant, "cases": len(asked), **figures, "hook": hook, "logs": logs}


def _name_log(one: CaseEvidence) -> str:
    """Return the source of a case of logs with the logs' folder; empty for others."""
    return f"{one.source}: {one.category}" if one.source in (FOREIGN, UNSAID) else ""


def make_folds(signals: Signals, trainable: Bool, by: str) -> list[tuple[Bool, Bool]]:
    """Return (cases to fit, cases to predict) of each fold. Cases that are never trained on are predicted in one."""
    if by == "set":
        names = [str(name) for name in np.unique(signals.source[signals.own])]
        place = {name: number for number, name in enumerate(names)}
        of = np.array([place.get(str(source), len(names)) for source in signals.source])
        numbers = range(len(names) + 1)
    else:
        groups = np.unique(signals.group[trainable])
        order = np.random.default_rng(1).permutation(groups).tolist()
        fold = {group: i % FOLDS for i, group in enumerate(order)}
        of = np.array([fold.get(group, 0) for group in signals.group.tolist()])
        numbers = range(FOLDS)
    folds = []
    for number in numbers:
        left_out: Bool = np.asarray(of == number)
        if by == "set" and number == len(numbers) - 1:  # prompts: by conversation, too few kinds for whole sets
            folds += [(trainable & ~part, part) for part in _halve(signals, left_out)]
        elif left_out.any():
            folds.append((trainable & ~left_out, left_out))
    return folds


def _halve(signals: Signals, chosen: Bool) -> list[Bool]:
    """Return two halves of some cases, by group."""
    groups = np.unique(signals.group[chosen])
    first = chosen & np.isin(signals.group, groups[::2])
    return [first, chosen & ~first]
