"""Trace: what each stage took in and gave out, how long it took, and what fell out where."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from helix.types import Item

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot

P = ParamSpec("P")
R = TypeVar("R")


class Trace:
    """Milliseconds of every stage; with `on`, also rows in and out and what was dropped, and why."""

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.ms: dict[str, float] = {}
        self.stages: list[dict[str, Any]] = []
        self.degraded: list[str] = []
        self.seen: dict[str, Any] = {}  # what why_not() asks for; kept only with `on`
        self._began = time.perf_counter()

    def run(self, name: str, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a stage under the clock."""
        began = time.perf_counter()
        result = stage(*args, **kwargs)
        self.ms[name] = round((time.perf_counter() - began) * 1000, 3)
        return result

    def keep(self, **what: Any) -> None:
        """Keep intermediate results for `why_not`, if anybody listens."""
        if self.on:
            self.seen.update(what)

    def note(self, name: str, **facts: Any) -> None:
        """Keep facts about a stage, if anybody listens."""
        if self.on:
            self.stages.append({"stage": name, **facts})

    def total(self) -> None:
        """Close the clock."""
        self.ms["total"] = round((time.perf_counter() - self._began) * 1000, 3)


def why_not(identity: str, snap: Snapshot, trace: Trace, items: Sequence[Item], packed: Sequence[Item]) -> str:
    """At which stage an item fell out, in one sentence. An item the asker may not see is as good as none."""
    seen = trace.seen
    row = snap.find(identity)
    plan = seen["plan"]
    if row is None or (snap.restricted[row] and plan.allowed is not None and not plan.allowed[row]):
        return f"no live item has the id {identity}"
    if plan.skip:
        return f"route: the question was skipped as one that needs no memory (score {plan.skip_score:.2f})"
    if plan.allowed is not None and not plan.allowed[row]:
        return "route: outside the filters of the question"
    if identity in [item.id for item in packed]:
        return f"it is in the answer, at rank {[item.id for item in items].index(identity) + 1}, and in the context"
    if identity in [item.id for item in items]:
        place = [item.id for item in items].index(identity) + 1
        return f"pack: it is in the answer at rank {place}, but does not fit the budget behind better ones"
    pool = seen["pool"]
    place_in_pool = np.flatnonzero(pool.row == row)
    if not len(place_in_pool):
        limits = ", ".join(f"{name} rank {limit}" for name, limit in seen["limits"].items())
        return f"retrieve: below {limits}, and the graph walk did not reach it"
    place = int(place_in_pool[0])
    score, worst = float(pool.final[place]), items[-1].score if items else 0.0
    if row in seen["near"]:
        return f"diversify: a near-duplicate of a better item (rank {place + 1} of {len(pool)}, score {score:.3f})"
    return f"rank: {place + 1} of {len(pool)} with score {score:.3f}; the last item returned has {worst:.3f}"
