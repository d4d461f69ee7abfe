"""A store as JSON lines: one turn a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

import orjson

from pipelines.export.turns import ExportCounts, ExportedSession


def write_lines(sessions: Iterable[ExportedSession], file: IO[bytes], observe: Callable[[int], None]) -> ExportCounts:
    """Write each turn as a line that `helix ingest` reads again without loss.

    Args:
        observe: called with the turns written so far, after each session.
    """
    counts = ExportCounts()
    for found in sessions:
        file.writelines(orjson.dumps(record) + b"\n" for record in found.write_records())
        counts.add(found)
        observe(counts.turns)
    return counts
