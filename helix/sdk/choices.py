"""The values of each filter, with the number of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from helix.sdk.browse import format_seconds
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.types import TYPES


def list_choices(snap: Snapshot) -> dict[str, Any]:
    """Return the values of filters: projects, types and speakers with their item counts, and the time span."""
    columns = snap.columns
    time = columns.time[snap.alive]
    time = time[time != NO_TIME]

    def count(codes: Any, names: Mapping[int, str]) -> dict[str, int]:
        counts = np.bincount(codes[snap.alive].astype(np.int64) + 1, minlength=1)[1:]
        order = np.argsort(-counts, kind="stable")
        return {names[code]: int(counts[code]) for code in order.tolist() if counts[code]}

    return {
        "snapshot": snap.generation,
        "items": snap.live,
        "sessions": int((snap.catalog.session_size > 0).sum()),
        "first": format_seconds(time.min()) if len(time) else None,
        "last": format_seconds(time.max()) if len(time) else None,
        "projects": count(columns.project, dict(enumerate(snap.projects))),
        "old_projects": snap.catalog.old_projects,
        "types": count(columns.type, dict(enumerate(TYPES))),
        "speakers": count(columns.speaker, dict(enumerate(snap.speakers))),
    }
