"""Answers kept for a while: an agent that asks the same again a moment later does not wait for it again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from helix.types import Bundle


class Answers:
    """The last few, by all that an answer hangs on. Safe to share between threads.

    Args:
        size: answers that are kept; 0: none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, Bundle] = OrderedDict()  # the one asked for last is last
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> Bundle | None:
        """What was answered; None where that is not kept."""
        with self._lock:
            found = self._kept.get(asked)
            if found is not None:
                self._kept.move_to_end(asked)
            return found

    def keep(self, asked: Hashable, answer: Bundle) -> None:
        """Keep an answer; the one that was asked for longest ago goes."""
        with self._lock:
            self._kept[asked] = answer
            self._kept.move_to_end(asked)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
