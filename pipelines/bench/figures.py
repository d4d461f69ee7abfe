"""Figures in the form of all reports, the clock, and the system's file cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.errors import UsageError

Say = Callable[[str], None]
Report = dict[str, Any]

TURNS: Final = 3
"""Turns of each measurement that is compared with another."""


def time_call(call: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    call(*arguments, **options)
    return (time.perf_counter() - began) * 1000


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return round_values({"p50": p50, "p95": p95, "p99": p99})


def round_values(values: dict[str, Any]) -> dict[str, Any]:
    """Round figures to the hundredth."""
    return {name: round(value, 2) for name, value in values.items()}


def drop_caches(root: Path, *, everything: bool) -> str:
    """Drop the system's cache of the store's files, or of all files; return which.

    Raises:
        UsageError: the system does not permit to drop everything.
    """
    os.sync()
    if everything:
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3", "ascii")
        except OSError as error:
            raise UsageError(
                f"the system's caches cannot be dropped: {error}", "run as root, or without --cold"
            ) from None
        return "everything"
    for path in root.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    return "the store's files"
