"""Names of files: which paths mean the same file, and the shortest end that names one file only.

Paths are turned, with the last part first, and sorted: then all that end in the same way follow each other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.snapshot.reader.entity_names import turn_path
from helix.types import I64

MOST: Final = 0.9
"""Share of the items that name longer paths, from which one of them is what an end of several means."""


def find_longest(turned: Sequence[str], items: I64) -> I64:
    """Return the path that each one abbreviates, itself if none or several do: int64[n].

    `app.py` abbreviates `src/app.py` if no other path ends so, apart from longer ones that end in `src/app.py`, or if
    the others are hardly ever named.

    Args:
        turned: n turned paths, ascending.
        items: how many items name each path.
    """
    n = len(turned)
    share, total = items.tolist(), items.tolist()  # items that mean a path; that name it or a longer one
    best, stop = list(range(n)), [0] * n  # the path that most of these items mean; where the longer ones end
    for at in range(n - 1, -1, -1):
        one, after, longer, own = turned[at], at + 1, 0, total[at]
        while after < n and turned[after].startswith(one):
            longer += total[after]
            if best[at] == at or share[after] > share[at]:
                best[at], share[at] = best[after], share[after]
            after = stop[after]
        stop[at] = after
        total[at] += longer
        if best[at] != at and share[at] >= MOST * longer:
            share[at] += own
        else:
            best[at], share[at] = at, own
    return np.array(best, np.int64)


def shorten_path(turned: Sequence[str], path: str, written: str) -> str:
    """Return the shortest end of a path that no other one has; without an extension it has at least two parts.

    Args:
        turned: all turned paths, ascending, with that of `path`.
        path: normalised.
        written: the same in its own letters.
    """
    one = turn_path(path)
    at, parts = bisect_left(turned, one), written.strip("/").split("/")
    beside = [turned[other] for other in (at - 1, at + 1) if 0 <= other < len(turned)]
    least = 1 if "." in parts[-1] else 2
    needed = max((_count_common(one, other) for other in beside), default=0) + 1
    return "/".join(parts[-max(needed, least) :])


def _count_common(one: str, other: str) -> int:
    """Return how many parts two turned paths have in common at their beginning."""
    count = 0
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        count += 1
    return count
