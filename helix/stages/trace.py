"""Trace of a recall: rows in and out of every stage, its time, and where each item fell out, by what margin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from helix.types import AnyArray, Item, Leg, Pool

P = ParamSpec("P")
R = TypeVar("R")


class TracedLeg(NamedTuple):
    """A leg's answer, its limit of rows, its score of any row (0: none), and why it does not search a row."""

    leg: Leg
    limit: int
    score: Callable[[int], float]
    outside: Callable[[int], str | None]


class DroppedRows(NamedTuple):
    """Rows that a stage left out, each with the reason, written after the stage's name."""

    stage: str
    rows: AnyArray
    why: Sequence[str]


class Spent(NamedTuple):
    """Start of a piece of work, by `time.perf_counter`, and its milliseconds."""

    began: float
    ms: float


def measure(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R, Spent]:
    """Run a piece of work; return (result, time spent)."""
    began = time.perf_counter()
    result = work(*args, **kwargs)
    return result, Spent(began, (time.perf_counter() - began) * 1000)


class Trace:
    """Milliseconds of every stage; with `on`, also rows in and out, and why rows were dropped."""

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.ms: dict[str, float] = {}
        self.stages: list[dict[str, Any]] = []
        self.spans: list[dict[str, Any]] = []
        self.degraded: list[str] = []
        # Filled only with `on`, for the report and why_not().
        self.retrieved: list[TracedLeg] = []
        self.dropped: list[DroppedRows] = []
        self.pool: Pool | None = None
        self.parts: tuple[AnyArray, Mapping[str, AnyArray]] | None = None
        self.shares: dict[str, dict[int, float]] = {}  # by name and row
        self.outside: Callable[[int], str | None] = lambda row: None
        self.explain_superseded: Callable[[AnyArray], Mapping[int, str]] = lambda rows: {}
        self.skipped = ""
        self._began = time.perf_counter()

    def run(self, name: str, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Time a stage; times of two calls add up."""
        result, spent = measure(stage, *args, **kwargs)
        self.add_time(name, spent)
        return result

    def add_time(self, name: str, spent: Spent) -> None:
        """Add the time that a stage spent in another thread."""
        self.ms[name] = round(self.ms.get(name, 0.0) + spent.ms, 3)
        if self.on:
            at = (spent.began - self._began) * 1000
            self.spans.append({"stage": name, "at": round(at, 3), "ms": round(spent.ms, 3)})

    def note(self, name: str, **facts: Any) -> None:
        """Record facts about a stage, such as rows_in and rows_out."""
        if self.on:
            self.stages.append({"stage": name, **facts})

    def leg(
        self,
        stage: str,
        leg: Leg,
        rows_in: int,
        limit: int,
        score: Callable[[int], float],
        outside: Callable[[int], str | None] = lambda row: None,
    ) -> None:
        """Record a leg's answer.

        Args:
            stage: the name that its milliseconds have.
            rows_in: rows it searched.
            limit: rows it returns at most.
            score: its score of any row.
            outside: why it does not search a row that others search; None: it does.
        """
        if self.on:
            self.note(stage, rows_in=rows_in, rows_out=len(leg.rows))
            self.retrieved.append(TracedLeg(leg, limit, score, outside))

    def drop(self, stage: str, rows: AnyArray, why: Sequence[str] | str) -> None:
        """Record rows that a stage left out: one reason for all, or one a row."""
        if self.on and len(rows):
            self.dropped.append(DroppedRows(stage, rows, [why] * len(rows) if isinstance(why, str) else why))

    def record_ranking(self, pool: Pool) -> None:
        """Record the ranked pool, best first, which the report lists."""
        if self.on:
            self.pool = pool

    def record_parts(self, rows: AnyArray, parts: Mapping[str, AnyArray]) -> None:
        """Record what each feature added to the similarity of rows, by name."""
        self.parts = rows, parts

    def record_shares(self, rows: AnyArray, shares: Mapping[str, AnyArray]) -> None:
        """Record what each signal adds to the score of rows, by name."""
        if self.on:
            at = rows.tolist()
            self.shares = {name: dict(zip(at, share.tolist(), strict=True)) for name, share in shares.items()}

    def record_change(self, by: str, rows: AnyArray, final: AnyArray) -> None:
        """Record what a later step added to scores or subtracted, so that shares still add up."""
        if self.on:
            before = list(self.shares.values())
            scores = zip(rows.tolist(), final.tolist(), strict=True)
            self.shares[by] = {row: score - sum(share.get(row, 0.0) for share in before) for row, score in scores}

    def total(self) -> None:
        """Record the total time."""
        self.ms["total"] = round((time.perf_counter() - self._began) * 1000, 3)

    def report(self, ids: Callable[[AnyArray], list[str]]) -> dict[str, Any] | None:
        """Return the report: stages, candidates and spans.

        A candidate has its ranks, its signals, the `parts` of its similarity, the `shares` of its score (none where a
        recipe does not add), the reason why it was dropped, and what `replaced` it. A span has the start of a piece
        of work, in milliseconds, and its time.

        Args:
            ids: returns the ids of rows.
        """
        if not self.on:
            return None
        stages = [{**one, "ms": self.ms[one["stage"]]} if one["stage"] in self.ms else one for one in self.stages]
        spans = sorted(self.spans, key=lambda span: float(span["at"]))
        return {"stages": stages, "candidates": self._list_candidates(ids), "spans": spans}

    def _list_candidates(self, ids: Callable[[AnyArray], list[str]]) -> list[dict[str, Any]]:
        pool = self.pool
        if pool is None:
            return []
        reasons = {int(row): f"{d.stage}: {why}" for d in self.dropped for row, why in zip(d.rows, d.why, strict=True)}
        rows, parts = self.parts or (np.empty(0, np.int64), {})
        at = {row: i for i, row in enumerate(rows.tolist())}
        replaced = self.explain_superseded(pool.row)
        out, signals = [], list_signals(pool)
        for place, (row, identity) in enumerate(zip(pool.row.tolist(), ids(pool.row), strict=True)):
            score = value_of(pool.final[place])
            known = parts.items() if row in at else ()
            added = {name: value_of(part[at[row]]) for name, part in known if part[at[row]]}
            shares = {name: share for name, by_row in self.shares.items() if (share := value_of(by_row.get(row, nan)))}
            entry = {"rank": place + 1, "id": identity, "score": score, **signals[place]}
            entry |= {"parts": added, "shares": shares, "dropped": reasons.get(row), "replaced": replaced.get(row)}
            out.append(entry)
        return out


def value_of(value: float) -> float | None:
    """Round a signal for the report; None for NaN."""
    return None if isnan(value) else round(float(value), 6)


def why_not(identity: str, row: int, trace: Trace, items: Sequence[Item], packed: Sequence[Item]) -> str:
    """Explain, in one sentence, at which stage an item fell out and by what margin, and what supersedes it."""
    place, replaced = _find_place(identity, row, trace, items, packed), trace.explain_superseded(np.array([row]))
    return f"{place}; {replaced[row]}" if row in replaced else place


def _find_place(identity: str, row: int, trace: Trace, items: Sequence[Item], packed: Sequence[Item]) -> str:
    """Explain at which stage an item fell out and by what margin."""
    if trace.skipped:
        return f"route: {trace.skipped}"
    if outside := trace.outside(row):
        return f"route: {outside}"
    shown, is_packed = [item.id for item in items], identity in [item.id for item in packed]
    if is_packed and identity in shown:
        return f"it is in the answer, at rank {shown.index(identity) + 1}, and in the context"
    place = _find_cut(identity, row, trace, items)
    return f"{place}; it is in the context all the same" if is_packed else place


def _find_cut(identity: str, row: int, trace: Trace, items: Sequence[Item]) -> str:
    pool, shown = trace.pool, [item.id for item in items]
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
    return "retrieve: " + "; ".join([_explain_miss(one, row) for one in trace.retrieved] or ["no leg could search"])


def _explain_miss(one: TracedLeg, row: int) -> str:
    """Explain why a leg did not find a row."""
    if reason := one.outside(row):
        return f"{one.leg.name} does not search it: {reason}"
    leg, score = one.leg, one.score(row)
    if len(leg.rows) < one.limit or not len(leg.rows):
        return f"{leg.name} finds nothing in it (score {score:.3f})"
    last = float(leg.scores[-1])
    return f"below {leg.name} rank {one.limit}: {score:.3f}, the last of them has {last:.3f} ({last - score:.3f} more)"


def list_signals(pool: Pool) -> list[dict[str, Any]]:
    """Return the ranks and signals of each row of a pool, as `why` shows them."""
    ranks = [ranks.tolist() for ranks in pool.ranks.values()]
    signals = np.array([*pool.signals.values()], np.float64).round(6).tolist()
    names = (*pool.ranks, *pool.signals)
    columns = [[None if isnan(rank) else int(rank) for rank in column] for column in ranks]
    columns += [[None if isnan(value) else value for value in column] for column in signals]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
