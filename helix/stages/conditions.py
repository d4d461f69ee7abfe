"""The filters of a question as an engine applies them: conditions that every allowed row meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.engines.base import AnyOf, Between, Condition
from helix.snapshot.reader.conditions import limit_projects
from helix.types import Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def list_conditions(query: Query, snap: Snapshot) -> tuple[Condition, ...]:
    """Return the conditions of the view and of the question; none where no engine is asked.

    What no field of an engine says is left to the check of its rows: superseded items, and hints of the question.
    """
    if snap.files.engine is None:
        return ()
    found, columns = list(snap.conditions), snap.columns
    if query.project is not None:
        found.append(limit_projects(columns, columns.project == snap.projects.index(query.project)))
    if query.type is not None:
        found.append(AnyOf("type", (query.type,)))
    if query.session is not None:
        keys = snap.sessions[np.array(query.sessions, np.int64)]
        found.append(AnyOf("session_key", tuple(f"{key:016x}" for key in keys.tolist())))
    if query.speaker is not None:
        found.append(AnyOf("speaker", tuple(snap.speakers[code] for code in query.speakers)))
    if query.since is not None or query.until is not None:
        ends = [None if one is None else int(one.timestamp()) for one in (query.since, query.until)]
        found.append(Between("time", *ends))
    if len(columns.ends):
        found.append(Between("valid_until", query.moment + 1, None))
    return tuple(found)
