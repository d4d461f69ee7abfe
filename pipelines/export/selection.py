"""The items of an export: those that a principal may see, narrowed by filters, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from helix.errors import UsageError
from helix.question.build import check_project, parse_moment
from helix.sdk.browse import find_sessions
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.batch import NO_TIME
from helix.types import Bool


@dataclass(frozen=True, slots=True)
class ExportFilter:
    """The caller's choice of items.

    Args:
        principal: the caller, as ACLs name it; None: only items without an ACL.
        everyone: items of every ACL; the owner's view.
    """

    principal: str | None = None
    everyone: bool = False
    project: str | None = None
    session: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Items of a generation, which stays open."""

    snap: Snapshot  # as the caller may see it
    chosen: Bool  # bool[rows]
    hidden: int  # live items that the caller may not see
    whole: bool  # every live item is chosen

    @property
    def root(self) -> Path:
        """The store."""
        return self.snap.root

    def list_items(self) -> pa.Table:
        """List the chosen items: `id`, `row`, and `place`, the number of the session in the order of its first row."""
        columns, rows = self.snap.columns, np.flatnonzero(self.chosen)
        session = columns.session[rows]
        codes, first = np.unique(session, return_index=True)
        place = np.empty(len(codes), np.int64)
        place[np.argsort(first)] = np.arange(len(codes))
        ids = format_hex(columns.key[rows])
        return pa.table({"id": ids, "row": pa.array(rows), "place": pa.array(place[np.searchsorted(codes, session)])})


def select_items(snap: Snapshot, wanted: ExportFilter) -> ExportSelection:
    """Choose the items of an export.

    Args:
        snap: the whole generation.

    Raises:
        UsageError: a filter names nothing, or a time cannot be read.
    """
    whole, snap = snap, snap if wanted.everyone else snap.seen_by(wanted.principal)
    chosen = snap.alive.copy()
    columns = snap.columns
    if (project := check_project(wanted.project, snap.catalog)) is not None:
        chosen &= columns.project == snap.projects.index(project)
    if wanted.session is not None:
        names = find_sessions(snap, wanted.session)
        if len(names) != 1:
            some = f": {', '.join(names[:5])}" if names else ""
            raise UsageError(
                f"{len(names)} sessions begin with {wanted.session[:64]!r}{some}", "'helix sessions' lists them"
            )
        chosen &= np.isin(columns.session, snap.catalog.sessions_named(names[0]))
    since, until = parse_moment(wanted.since, "since"), parse_moment(wanted.until, "until", end=True)
    if since is not None or until is not None:
        chosen &= columns.time != NO_TIME
    if since is not None:
        chosen &= columns.time >= int(since.timestamp())
    if until is not None:
        chosen &= columns.time <= int(until.timestamp())
    is_whole = int(chosen.sum()) == whole.live
    return ExportSelection(snap, chosen, whole.live - snap.live, is_whole)
