"""Names of files: which paths mean the same file, and the shortest end that names one file only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.types import I64

MOST: Final = 0.9
"""Share of the items that name longer paths, from which one of them is what an end of several means."""


def find_longest(paths: Sequence[str], items: I64) -> I64:
    """Return the path that each one abbreviates, itself if none or several do: int64[n].

    `app.py` abbreviates `src/app.py` if no other path ends so, apart from longer ones that end in `src/app.py`, or if
    the others are hardly ever named.

    Args:
        items: how many items name each path.
    """
    ends = [_turn(path) for path in paths]
    order = sorted(range(len(ends)), key=lambda at: (ends[at], paths[at]))
    n, longest = len(order), np.array(order, np.int64)
    total = items[order].tolist()  # of a path and of all longer ones
    best, stop = list(range(n)), [0] * n  # the path that most items mean; where the longer ones end
    share = items[order].tolist()  # items that mean it
    for at in range(n - 1, -1, -1):  # the longer ones of an end follow it
        one, after, longer = ends[order[at]], at + 1, 0
        while after < n and ends[order[after]].startswith(one):
            longer += total[after]
            if best[at] == at or share[after] > share[at]:
                best[at], share[at] = best[after], share[after]
            after = stop[after]
        stop[at] = after
        if best[at] != at and share[at] >= MOST * longer:
            share[at] += items[order[at]]
        else:
            best[at], share[at] = at, int(items[order[at]])
        total[at] += longer
    longest[order] = np.array(order, np.int64)[best]
    return longest


def _turn(path: str) -> str:
    """Return a path with its last part first, each part closed by a slash."""
    return "/".join(reversed(path.strip("/").split("/"))) + "/"


class PathNames:
    """The shortest ends that name one path of several.

    Args:
        paths: distinct, none abbreviates another.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        turned = sorted(_turn(path) for path in paths)
        self._parts: dict[str, int] = {}
        before = 0
        for at, one in enumerate(turned):
            after = _count_common(one, turned[at + 1]) if at + 1 < len(turned) else 0
            self._parts[one] = max(before, after) + 1
            before = after

    def shorten(self, path: str, written: str) -> str:
        """Return the shortest end of a path; without an extension it has at least two parts.

        Args:
            path: one of the paths.
            written: the same in its own letters.
        """
        turned, parts = _turn(path), written.strip("/").split("/")
        least = 1 if "." in parts[-1] else 2
        return "/".join(parts[-max(self._parts[turned], least) :])


def _count_common(one: str, other: str) -> int:
    """Return how many parts two turned paths have in common at their beginning."""
    count = 0
    for left, right in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if left != right:
            break
        count += 1
    return count
