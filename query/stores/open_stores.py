"""The open stores of a server, within a bound of memory.

Above the bound the store that was used least recently gives back the pages of its mapped files, and stays open: its
next answer reads them again, mostly from the system's cache. Only where that is not enough is a store closed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_USUAL_MAPS: Final = 65_530
_SHARE: Final = 0.9
"""Share of the maps that the system allows a process; the rest is for libraries, models and closing stores."""


class OpenSize(NamedTuple):
    """The memory and the maps that an open thing takes."""

    held: int  # bytes, as long as it is open
    mapped: int  # bytes of mapped files at most, until they are released
    files: int = 0  # mapped files


class OpenCounts(NamedTuple):
    """The state of all open things."""

    stores: int
    bytes: int
    released: int  # how often one gave back its pages for others
    closed: int  # how often one was closed for others


def read_most_files() -> int:
    """Return how many files all open stores may map: Linux bounds the maps of a process."""
    most = _USUAL_MAPS
    with suppress(OSError, ValueError):
        most = int(Path("/proc/sys/vm/max_map_count").read_text())
    return int(most * _SHARE)


@dataclass(slots=True)
class _Sized(Generic[T]):
    thing: T
    size: OpenSize


class _Left(NamedTuple, Generic[T]):
    """Things to release and to close, outside the lock."""

    released: list[T]
    closed: list[T]


class OpenStores(Generic[T]):
    """Open things by name within a bound. Safe to share between threads.

    A thing is opened once, however many ask for it at the same time; different ones open side by side. One above the
    bound alone stays open until another is asked for.

    Args:
        bound: bytes of all open things.
        close: ends a thing that left; a request may still use it.
        release: gives back the memory of a thing's mapped files; a request may use it at the same time.
        most_files: mapped files of all open things.
    """

    def __init__(
        self, bound: int, close: Callable[[T], None], release: Callable[[T], None], most_files: int = _USUAL_MAPS
    ) -> None:
        self.bound = bound
        self._close, self._release, self._most_files = close, release, most_files
        self._entries: OrderedDict[str, _Sized[T]] = OrderedDict()  # least recently used first
        self._resident: OrderedDict[str, _Sized[T]] = OrderedDict()  # those of them that were not released since
        self._opening: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._files = 0
        self._size = self._released = self._closed = 0

    def find(self, name: str) -> T | None:
        """Return an open thing, which is now the most recently used one; None where it is not open."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            self._entries.move_to_end(name)
            if name in self._resident:
                self._resident.move_to_end(name)
                return entry.thing
            self._resident[name] = entry
            self._size += entry.size.mapped
            left = self._shrink(spared=name)
        self._leave(left)
        return entry.thing

    def get(self, name: str, open_thing: Callable[[], tuple[T, OpenSize]]) -> T:
        """Return an open thing; open it if it is not.

        Args:
            open_thing: opens it, and returns its size too; an error leaves everything as it was.
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

    def _add(self, name: str, thing: T, size: OpenSize) -> None:
        with self._lock:
            self._entries[name] = self._resident[name] = _Sized(thing, size)
            self._size += size.held + size.mapped
            self._files += size.files
            left = self._shrink(spared=name)
        self._leave(left)

    def resize(self, name: str, size: OpenSize) -> None:
        """Record the new size of an open thing, and make others smaller if that is too much."""
        with self._lock:
            if (entry := self._entries.get(name)) is None:
                return
            self._size += size.held + size.mapped - entry.size.held
            self._size -= entry.size.mapped if name in self._resident else 0
            self._files += size.files - entry.size.files
            entry.size = size
            self._resident.setdefault(name, entry)
            left = self._shrink(spared=name)
        self._leave(left)

    def _shrink(self, spared: str) -> _Left[T]:
        """Release the least recently used things until the rest is within the bound, and close them if that fails."""
        left = _Left[T]([], [])
        while self._size > self.bound and (name := next((one for one in self._resident if one != spared), None)):
            entry = self._resident.pop(name)
            self._size -= entry.size.mapped
            left.released.append(entry.thing)
        while (self._size > self.bound or self._files > self._most_files) and len(self._entries) > 1:
            left.closed.append(self._take_out(next(name for name in self._entries if name != spared)).thing)
        self._released += len(left.released)
        self._closed += len(left.closed)
        return left

    def _take_out(self, name: str) -> _Sized[T]:
        entry = self._entries.pop(name)
        self._size -= entry.size.held
        if self._resident.pop(name, None) is not None:
            self._size -= entry.size.mapped
        self._files -= entry.size.files
        return entry

    def _leave(self, left: _Left[T]) -> None:
        for one in left.closed:
            self._close(one)
        for one in left.released:
            self._release(one)

    def drop(self, name: str) -> None:
        """Close a thing, if it is open."""
        with self._lock:
            entry = self._take_out(name) if name in self._entries else None
        if entry is not None:
            self._close(entry.thing)

    def count(self) -> OpenCounts:
        """Count the open things, their bytes, and what was done for others."""
        with self._lock:
            return OpenCounts(len(self._entries), self._size, self._released, self._closed)

    def list_open(self) -> list[tuple[str, T]]:
        """Return the open things by name, least recently used first."""
        with self._lock:
            return [(name, entry.thing) for name, entry in self._entries.items()]
