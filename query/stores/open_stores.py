"""The open stores of a server, at most so many bytes of them: the least recently used one is closed first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Sized(Generic[T]):
    thing: T
    size: int


class OpenStores(Generic[T]):
    """Open things by name within a bound of bytes. Safe to share between threads.

    A thing is opened once, however many ask for it at the same time; different ones open side by side. One above the
    bound alone stays open until another is asked for.

    Args:
        bound: bytes of all open things.
        close: ends a thing that left; a request may still use it.
    """

    def __init__(self, bound: int, close: Callable[[T], None]) -> None:
        self.bound = bound
        self._close = close
        self._entries: OrderedDict[str, _Sized[T]] = OrderedDict()  # least recently used first
        self._opening: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self.size = 0
        """Bytes of the open things."""
        self.closed = 0
        """Things that were closed for others."""

    def find(self, name: str) -> T | None:
        """Return an open thing, which is now the most recently used one; None where it is not open."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            self._entries.move_to_end(name)
            return entry.thing

    def get(self, name: str, open_thing: Callable[[], tuple[T, int]]) -> T:
        """Return an open thing; open it if it is not.

        Args:
            open_thing: opens it, and returns its bytes too; an error leaves everything as it was.
        """
        if (found := self.find(name)) is not None:
            return found
        with self._lock:
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            try:
                if (found := self.find(name)) is not None:
                    return found
                thing, size = open_thing()
                self._add(name, thing, size)
                return thing
            finally:
                with self._lock:
                    if self._opening.get(name) is opening:
                        del self._opening[name]

    def _add(self, name: str, thing: T, size: int) -> None:
        with self._lock:
            self._entries[name] = _Sized(thing, size)
            self.size += size
            left = self._shrink(spared=name)
        for one in left:
            self._close(one)

    def resize(self, name: str, size: int) -> None:
        """Record the new size of an open thing, and close others if that is too much."""
        with self._lock:
            if (entry := self._entries.get(name)) is None:
                return
            self.size += size - entry.size
            entry.size = size
            left = self._shrink(spared=name)
        for one in left:
            self._close(one)

    def _shrink(self, spared: str) -> list[T]:
        """Take out the least recently used things until the rest is within the bound."""
        left = []
        while self.size > self.bound and len(self._entries) > 1:
            name = next(name for name in self._entries if name != spared)
            entry = self._entries.pop(name)
            self.size -= entry.size
            self.closed += 1
            left.append(entry.thing)
        return left

    def drop(self, name: str) -> None:
        """Close a thing, if it is open."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                self.size -= entry.size
        if entry is not None:
            self._close(entry.thing)

    def list_open(self) -> list[tuple[str, T]]:
        """Return the open things by name, least recently used first."""
        with self._lock:
            return [(name, entry.thing) for name, entry in self._entries.items()]
