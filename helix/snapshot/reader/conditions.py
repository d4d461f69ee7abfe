"""Conditions by which an engine narrows its search to the rows of a view; the rows themselves are checked after it."""

from __future__ import annotations

import numpy as np

from helix.engines.base import ALWAYS, PUBLIC, AnyOf, Between, Condition
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.columns import SnapshotColumns
from helix.types import I64, Bool


def limit_readers(principal: str | None) -> Condition:
    """Return the condition that a principal may read an item; None reads items without an ACL."""
    return AnyOf("readers", (PUBLIC,) if principal is None else (PUBLIC, principal))


def limit_projects(columns: SnapshotColumns, rows: Bool) -> Condition:
    """Return the condition that an item is of a project that some rows have, by the names that are stored.

    A view may show another name: the shortest that no other project in it ends with.

    Args:
        rows: bool[rows].
    """
    stored = columns.stored_projects
    codes = np.unique(stored.codes[rows]).tolist()
    return AnyOf("project_key", tuple(stored.names[code] if code >= 0 else "" for code in codes))


def limit_moments(said_by: int | None, ingested_by: int | None) -> list[Condition]:
    """Return the conditions that an item was said, and held, or was ingested, by a moment.

    Args:
        said_by: seconds.
        ingested_by: microseconds.
    """
    found: list[Condition] = []
    if said_by is not None:
        found += [Between("t_valid", None, said_by), Between("valid_until", said_by + 1, None)]
    return found if ingested_by is None else [*found, Between("accepted", None, ingested_by)]


def find_ends(t_invalid: I64) -> I64:
    """Return the end of each item's validity, in seconds; ALWAYS where it is open."""
    return np.where(t_invalid == NO_TIME, ALWAYS, t_invalid)
