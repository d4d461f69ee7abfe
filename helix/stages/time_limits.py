"""Options of time: which rows they leave, and why they leave none, or not a certain one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.snapshot.segment.batch import NO_TIME
from helix.types import I64, Bool, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

_MICRO = 1_000_000  # microseconds of a second


class TimeLimits(NamedTuple):
    """The options of time of one request; None: not given."""

    as_of: datetime | None = None
    ingested_as_of: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None


class _Limit(NamedTuple):
    """One option of time."""

    verb: str
    condition: str  # with its name
    passes: Bool  # the rows that meet it
    nearest: str  # how near the rows come that do not; empty: nothing to say


def read_limits(query: Query) -> TimeLimits:
    """Return the options of time of a question."""
    return TimeLimits(query.as_of, query.ingested_as_of, query.since, query.until)


def explain_empty(limits: TimeLimits, snap: Snapshot, rows: Bool, noun: str = "item") -> str | None:
    """Explain why options of time leave none of the rows; None if they leave one, or no row is given.

    Args:
        snap: as the caller may see it, without these limits.
        rows: bool[rows], what all other options leave.
        noun: of a row, for the sentence.
    """
    found = np.flatnonzero(rows)
    tried = list(_list_limits(limits, snap, found, noun)) if len(found) else []
    if not tried or np.logical_and.reduce([one.passes for one in tried]).any():
        return None
    alone = [one for one in tried if not one.passes.any()]  # each of them leaves nothing
    nearest = dict.fromkeys(one.nearest for one in alone if one.nearest)
    verbs = [""] + [one.verb for one in alone or tried]
    conditions = [
        one.condition if one.verb == before else f"{one.verb} {one.condition}"
        for one, before in zip(alone or tried, verbs, strict=False)
    ]
    return "; ".join([f"nothing was {' and '.join(conditions)}", *nearest])


def explain_row(limits: TimeLimits, snap: Snapshot, row: int) -> str | None:
    """Explain which options of time hide a row; None if none does."""
    columns, reasons = snap.columns, list[str]()
    if limits.as_of is not None:
        at, ended = int(limits.as_of.timestamp()), columns.t_invalid[row]
        if columns.t_valid[row] > at:
            reasons.append(f"said {_format_second(columns.t_valid[row])}, after {_format(limits.as_of)} (as_of)")
        elif NO_TIME < ended <= at:
            reasons.append(f"it no longer held at {_format(limits.as_of)} (as_of)")
    accepted = columns.accepted[row]
    if limits.ingested_as_of is not None and accepted > _count_micro(limits.ingested_as_of):
        when = _format_second(accepted // _MICRO)
        reasons.append(f"ingested {when}, after {_format(limits.ingested_as_of)} (ingested_as_of)")
    return " and ".join(reasons) or None


def _list_limits(limits: TimeLimits, snap: Snapshot, rows: I64, noun: str) -> Iterator[_Limit]:
    columns = snap.columns
    if limits.as_of is not None:
        at, said, ended = int(limits.as_of.timestamp()), columns.t_valid[rows], columns.t_invalid[rows]
        earliest = f"the earliest {noun} is of {_format_second(said.min())}"
        yield _Limit("said", f"by {_format(limits.as_of)} (as_of)", said <= at, earliest)
        if (ended != NO_TIME).any():
            yield _Limit("valid", f"at {_format(limits.as_of)} (as_of)", (ended == NO_TIME) | (ended > at), "")
    if limits.ingested_as_of is not None:
        accepted = columns.accepted[rows]
        earliest = f"the earliest {noun} was ingested {_format_second(accepted.min() // _MICRO)}"
        by = f"by {_format(limits.ingested_as_of)} (ingested_as_of)"
        yield _Limit("ingested", by, accepted <= _count_micro(limits.ingested_as_of), earliest)
    time = columns.time[rows]
    dated = time[time != NO_TIME]
    none = "" if len(dated) else f"no {noun} has a time"
    if limits.since is not None:
        latest = none or f"the latest {noun} is of {_format_second(dated.max())}"
        passes = time >= int(limits.since.timestamp())
        yield _Limit("said", f"since {_format(limits.since)} (since)", passes, latest)
    if limits.until is not None:
        earliest = none or f"the earliest {noun} is of {_format_second(dated.min())}"
        passes = (time != NO_TIME) & (time <= int(limits.until.timestamp()))
        yield _Limit("said", f"until {_format(limits.until)} (until)", passes, earliest)


def _count_micro(moment: datetime) -> int:
    return int(moment.timestamp()) * _MICRO + moment.microsecond


def _format(moment: datetime) -> str:
    return _format_second(int(moment.timestamp()))


def _format_second(second: Any) -> str:
    """Format a second since 1970 to the minute, UTC, or as its day alone at midnight."""
    return str(np.datetime64(int(second), "s"))[:16].replace("T", " ").removesuffix(" 00:00")
