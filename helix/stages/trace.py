"""Trace: what each stage took in and gave out, how long it took, and what fell out where, by what margin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from helix.types import Item, Leg, Pool

P = ParamSpec("P")
R = TypeVar("R")


class Retrieved(NamedTuple):
    """A leg's answer, how many rows it may give, and the score it would give any one row (0: none)."""

    leg: Leg
    limit: int
    score: Callable[[int], float]


class Dropped(NamedTuple):
    """Rows that a stage left out, and why, in words that follow on the stage's name."""

    stage: str
    rows: npt.NDArray[Any]
    why: Sequence[str]


class Spent(NamedTuple):
    """When a piece of work began, by `time.perf_counter`, and the milliseconds it took."""

    began: float
    ms: float


def timed(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R, Spent]:
    """(result, time spent)."""
    began = time.perf_counter()
    result = work(*args, **kwargs)
    return result, Spent(began, (time.perf_counter() - began) * 1000)


class Trace:
    """Milliseconds of every stage; with `on`, also rows in and out and what was dropped, and why."""

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.ms: dict[str, float] = {}
        self.stages: list[dict[str, Any]] = []
        self.spans: list[dict[str, Any]] = []
        self.degraded: list[str] = []
        # Kept only with `on`, for candidates() and why_not().
        self.retrieved: list[Retrieved] = []
        self.dropped: list[Dropped] = []
        self.pool: Pool | None = None
        self.parts: tuple[npt.NDArray[Any], Mapping[str, npt.NDArray[Any]]] | None = None
        self.shares: dict[str, dict[int, float]] = {}  # by name and row
        self.outside: Callable[[int], str | None] = lambda row: None
        self.skipped = ""
        self._began = time.perf_counter()

    def run(self, name: str, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a stage under the clock; what is called twice counts twice."""
        result, spent = timed(stage, *args, **kwargs)
        self.took(name, spent)
        return result

    def took(self, name: str, spent: Spent) -> None:
        """Time a stage took somewhere else: in another thread."""
        self.ms[name] = round(self.ms.get(name, 0.0) + spent.ms, 3)
        if self.on:
            at = (spent.began - self._began) * 1000
            self.spans.append({"stage": name, "at": round(at, 3), "ms": round(spent.ms, 3)})

    def note(self, name: str, **facts: Any) -> None:
        """Keep facts about a stage, rows_in and rows_out among them, if anybody listens."""
        if self.on:
            self.stages.append({"stage": name, **facts})

    def leg(self, stage: str, leg: Leg, rows_in: int, limit: int, score: Callable[[int], float]) -> None:
        """Keep a leg's answer.

        Args:
            stage: under which name its milliseconds are kept.
            rows_in: rows it searched.
            limit: rows it gives at most.
            score: what it would give a row.
        """
        if self.on:
            self.note(stage, rows_in=rows_in, rows_out=len(leg.rows))
            self.retrieved.append(Retrieved(leg, limit, score))

    def drop(self, stage: str, rows: npt.NDArray[Any], why: Sequence[str] | str) -> None:
        """Keep what a stage left out: one reason for all, or one a row."""
        if self.on and len(rows):
            self.dropped.append(Dropped(stage, rows, [why] * len(rows) if isinstance(why, str) else why))

    def ranked(self, pool: Pool) -> None:
        """Keep everything that was ranked, best first: the explanation lists it."""
        if self.on:
            self.pool = pool

    def parted(self, rows: npt.NDArray[Any], parts: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep what each feature added to the similarity of rows, by name."""
        self.parts = rows, parts

    def shared(self, rows: npt.NDArray[Any], shares: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep what each signal adds to the score of rows, by name."""
        if self.on:
            at = rows.tolist()
            self.shares = {name: dict(zip(at, share.tolist(), strict=True)) for name, share in shares.items()}

    def moved(self, by: str, rows: npt.NDArray[Any], final: npt.NDArray[Any]) -> None:
        """Keep what a later step added to the scores of rows, or took off: they stay the sums of their shares."""
        if self.on:
            before = list(self.shares.values())
            scores = zip(rows.tolist(), final.tolist(), strict=True)
            self.shares[by] = {row: score - sum(share[row] for share in before) for row, score in scores}

    def total(self) -> None:
        """Close the clock."""
        self.ms["total"] = round((time.perf_counter() - self._began) * 1000, 3)

    def report(self, ids: Callable[[npt.NDArray[Any]], list[str]]) -> dict[str, Any] | None:
        """Stages with their milliseconds, and every candidate with its ranks, its signals, what its similarity is
        made of (`parts`), what its score is the sum of (`shares`; none where a recipe does not add) and where it fell
        out. `spans` says when each piece of work began, `at` milliseconds of the whole, and how long it took.

        Args:
            ids: of rows.
        """
        if not self.on:
            return None
        stages = [
            {**stage, "ms": self.ms[stage["stage"]]} if stage["stage"] in self.ms else stage for stage in self.stages
        ]
        spans = sorted(self.spans, key=lambda span: float(span["at"]))
        return {"stages": stages, "candidates": self._candidates(ids), "spans": spans}

    def _candidates(self, ids: Callable[[npt.NDArray[Any]], list[str]]) -> list[dict[str, Any]]:
        pool = self.pool
        if pool is None:
            return []
        fell = {
            int(row): f"{cut.stage}: {why}" for cut in self.dropped for row, why in zip(cut.rows, cut.why, strict=True)
        }
        rows, parts = self.parts or (np.empty(0, np.int64), {})
        at = {row: i for i, row in enumerate(rows.tolist())}
        out, signals = [], kept_signals(pool)
        for place, (row, identity) in enumerate(zip(pool.row.tolist(), ids(pool.row), strict=True)):
            score, said = value_of(pool.final[place]), signals[place]
            added = (
                {name: value_of(part[at[row]]) for name, part in parts.items() if part[at[row]]} if row in at else {}
            )
            shares = {name: share for name, by_row in self.shares.items() if (share := value_of(by_row[row]))}
            shown = {"rank": place + 1, "id": identity, "score": score, **said, "parts": added, "shares": shares}
            out.append({**shown, "dropped": fell.get(row)})
        return out


def value_of(value: float) -> float | None:
    """A signal as it is shown."""
    return None if isnan(value) else round(float(value), 6)


def why_not(identity: str, row: int, trace: Trace, items: Sequence[Item], packed: Sequence[Item]) -> str:
    """At which stage an item fell out and by what margin, in one sentence."""
    if trace.skipped:
        return f"route: {trace.skipped}"
    if outside := trace.outside(row):
        return f"route: {outside}"
    shown = [item.id for item in items]
    if identity in [item.id for item in packed]:
        return f"it is in the answer, at rank {shown.index(identity) + 1}, and in the context"
    pool = trace.pool
    found = np.flatnonzero(pool.row == row) if pool is not None else np.empty(0, np.intp)
    where = (
        f"rank {int(found[0]) + 1} of {len(pool)}, score {float(pool.final[found[0]]):.3f}"
        if pool and len(found)
        else ""
    )
    for cut in trace.dropped:
        at = np.flatnonzero(cut.rows == row)
        if len(at):
            return f"{cut.stage}: {cut.why[int(at[0])]}" + (f" ({where})" if where else "")
    if identity in shown:
        place = shown.index(identity) + 1
        return f"pack: it is in the answer at rank {place}, but does not fit the budget behind better ones"
    if where:
        worst = f"; the last item returned has {items[-1].score:.3f}" if items else ""
        return f"rank: {where}{worst}"
    return "retrieve: " + "; ".join([_missed(one, row) for one in trace.retrieved] or ["no leg could search"])


def _missed(one: Retrieved, row: int) -> str:
    """Why a leg did not bring a row."""
    leg, score = one.leg, one.score(row)
    if len(leg.rows) < one.limit or not len(leg.rows):
        return f"{leg.name} finds nothing in it (score {score:.3f})"
    last = float(leg.scores[-1])
    return f"below {leg.name} rank {one.limit}: {score:.3f}, the last of them has {last:.3f} ({last - score:.3f} more)"


def kept_signals(pool: Pool) -> list[dict[str, Any]]:
    """The ranks and signals of each row of a pool, as `why` shows them."""
    ranks = [ranks.tolist() for ranks in pool.ranks.values()]
    signals = np.array([*pool.signals.values()], np.float64).round(6).tolist()
    names = (*pool.ranks, *pool.signals)
    columns = [[None if isnan(rank) else int(rank) for rank in column] for column in ranks]
    columns += [[None if isnan(value) else value for value in column] for column in signals]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
