"""Sessions of logs in the order of time, each with what other sessions of its project had said before it began."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from helix.snapshot.reader.snapshot import Snapshot
from helix.types import I64
from pipelines.eval.replay.logs import LoggedItem, Logs


class LoggedSession(NamedTuple):
    """A session with a time, and the store as it was before."""

    items: tuple[LoggedItem, ...]  # in reading order
    code: int  # of the snapshot
    at: int  # seconds
    earlier: I64  # rows of other sessions of its project: int64[n]
    view: Snapshot  # of these rows only


def list_sessions(logs: Logs) -> Iterator[LoggedSession]:
    """Yield the sessions that have a time and an earlier session of their project, in the order of time."""
    whole = [tuple(items) for _, items in groupby(logs.items, key=lambda item: item.session)]
    timed = [items for items in whole if items[0].time is not None]
    for items in sorted(timed, key=lambda items: items[0].time or 0):
        at = items[0].time or 0
        earlier = logs.list_before(items[0].project, items[0].session, at)
        if len(earlier):
            code = int(logs.snap.columns.session[items[0].row])
            yield LoggedSession(items, code, at, earlier, logs.narrow(earlier, at))


def find_last_session(logs: Logs, session: LoggedSession) -> I64:
    """Return the rows of the newest earlier session, the newest first: int64[m]."""
    rows = session.earlier
    columns = logs.snap.columns
    newest = rows[np.argmax(columns.time[rows])]
    own = rows[columns.session[rows] == columns.session[newest]]
    return np.asarray(own[np.argsort(-columns.ord[own].astype(np.int64))], np.int64)
