"""Cached answers: an agent that repeats a question a moment later gets the same answer at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class AnswerCache(Generic[T]):
    """The least-recently-used cache of answers. Safe to share between threads.

    Args:
        size: answers to cache; 0: none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._answers: OrderedDict[Hashable, T] = OrderedDict()  # the most recently used is last
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """Return a cached answer; None if it is not cached."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def put(self, key: Hashable, answer: T) -> None:
        """Cache an answer; the least recently used one leaves."""
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)
