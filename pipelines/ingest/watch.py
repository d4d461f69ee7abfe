"""Watching files and folders: new lines of logs are accepted while their sessions run.

The system reports which files change (inotify and the like; where it cannot, folders are polled). Each file is accepted
from its cursor on, so a restart loses nothing. A sweep over all files finds changes made meanwhile. New turns precede
older pending ones: a large import delays no fresh turn.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import watchfiles

from helix.errors import HelixError, InputRefused
from helix.redact.paths import redact_path
from helix.sources import registry as sources
from helix.sources.common.places import Place
from pipelines.ingest.accept import accept_source
from pipelines.ingest.accept_all import Backlog
from pipelines.ingest.source import AcceptOptions, Inbox, is_outside, is_store, is_visible

SETTLE: Final = 0.1
"""Seconds from a change until a file is read: a turn is written in several steps."""

SHARE: Final = 10.0
"""Pause after reading a file, in multiples of the time reading took: a large file must not keep the machine busy."""

LONGEST: Final = 60.0
"""Longest such pause, in seconds."""

SWEEP: Final = 60.0
"""Seconds between sweeps over every file, for changes the system did not report."""

POLL: Final = 0.3
"""Seconds between polls of files without change reports."""

SLICE: Final = 1.0
"""Seconds of work on pending documents between looks at changes."""

QUIET: Final = 5.0
"""Seconds without work before the store is tidied up."""

_DATABASES: Final = frozenset({".db", ".vscdb", ".sqlite", ".sqlite3"})
_JOURNALS: Final = ("-wal", "-shm", "-journal")
"""Suffixes of the files a database writes first."""

log = logging.getLogger("helix.watch")
accepted_log = logging.getLogger("helix.watch.accepted")
"""Where the same process publishes, a person reads of the published batch instead."""

Deliver = Callable[[Sequence[str]], None]
"""Called with newly accepted documents."""


@dataclass
class Watch:
    """The watched places, and the files that are due."""

    inbox: Inbox
    places: Callable[[], Sequence[Place]]  # called again now and then: an agent may be installed meanwhile
    deliver: Deliver
    project: str | None = None
    acl: tuple[str, ...] = ()
    polling: bool = False  # poll the folders instead of asking the system
    backlog: Backlog | None = None  # the limit of waiting documents, where workers enrich them
    due: dict[Path, float] = field(default_factory=dict)  # when each changed file is read
    _rest: dict[Path, float] = field(default_factory=dict)  # earliest time of the next read
    _seen: dict[Path, tuple[int, int]] = field(default_factory=dict)  # size and mtime at the last look
    _outside: set[Path] = field(default_factory=set)  # links that are not followed; each is logged once

    def note(self, places: Sequence[Place], paths: Iterable[Path], now: float) -> None:
        """Mark changed files as due, and all files below a new folder."""
        for path in {_find_database(path) for path in paths}:
            if path.is_relative_to(self.inbox.root.absolute()):
                continue  # the store itself
            for place in places:
                if path.is_dir() and path.is_relative_to(place.folder):
                    found = _list_files(place, path)
                else:
                    found = iter([path] if _is_session(place, path) else [])
                for file in found:
                    if self._is_inside(place, file):
                        self.due.setdefault(file, max(now + SETTLE, self._rest.get(file, 0.0)))

    def sweep(self, places: Sequence[Place], now: float) -> None:
        """Look at every file; mark changed ones as due, latest change first."""
        found: list[tuple[float, Path]] = []
        for place in places:
            for path in _list_files(place):
                stat = _read_stat(path)
                news = stat and stat != self._seen.get(path) and path not in self.due
                if stat and news and (not path.is_symlink() or self._is_inside(place, path)):
                    found.append((stat[1], path))
        for _, path in sorted(found, reverse=True):
            self.due[path] = max(now, self._rest.get(path, 0.0))

    def _is_inside(self, place: Place, path: Path) -> bool:
        """Return whether a file is inside the watched folder; a link may lead out of it."""
        if path == place.folder or not is_outside(path, place.folder):
            return True
        if path not in self._outside:
            self._outside.add(path)
            log.warning("not accepted: %s is a link that leads out of %s", redact_path(str(path)), place.folder)
        return False

    def work(self) -> bool:
        """Accept due files for a slice of time; return whether any was due."""
        began = time.monotonic()
        ready = [path for path, when in self.due.items() if when <= began]
        for path in ready:
            del self.due[path]
            self._accept(path)
            if time.monotonic() - began > SLICE:
                break
        return bool(ready)

    def _accept(self, path: Path) -> None:
        stat = _read_stat(path)
        if stat is None:  # removed or renamed: its items stay
            self._seen.pop(path, None)
            return
        self._seen[path] = stat
        began = time.monotonic()
        try:
            if self.backlog:
                self.backlog.check()
        except InputRefused as error:
            log.warning("%s waits: %s", redact_path(str(path)), error.what)
            self.due[path] = began + QUIET
            return
        try:
            options = AcceptOptions(self.project, "auto", self.acl, False, SLICE)
            accepted = accept_source(self.inbox, path, options)
            if accepted.more:  # other changed files precede the rest of a large one
                self.due[path] = began
            if self.backlog:
                self.backlog.add(accepted.documents)
        except InputRefused as error:  # not a log, or no whole line yet: its next change is a new attempt
            log.info("%s is not accepted: %s", redact_path(str(path)), error)
            return
        except HelixError as error:
            log.error("%s is retried: %s", redact_path(str(path)), error)
            self.due[path] = time.monotonic() + QUIET
            return
        finally:
            ended = time.monotonic()
            self._rest[path] = ended if path in self.due else ended + min(SHARE * (ended - began), LONGEST)
        if accepted.forgotten:
            log.warning("%s: its forgotten items stay out; 'helix ingest --remember' accepts them again", path)
        for left_out in accepted.left_out:
            log.info(left_out.describe(redact_path(str(path))))
        if accepted.documents:
            for document in accepted.documents:
                accepted_log.info("accepted", extra={"document": document, "source": redact_path(str(path))})
            self.deliver(accepted.documents)


def watch(given: Watch, stop: threading.Event, meanwhile: Callable[[bool], object] = bool) -> None:
    """Watch until `stop` is set.

    Args:
        meanwhile: called after every look, with whether it found work.
    """
    polling = given.polling
    while not stop.is_set():
        places = given.places()
        folders = [] if polling else sorted({place.folder for place in places if place.folder.is_dir()})
        # Polled: the system reports no changes of these.
        silent = [place for place in places if polling or not place.folder.is_dir()]
        looked = time.monotonic()
        again = swept = float("-inf")
        try:
            for paths in _read_changes(folders, stop):
                now = time.monotonic()
                if now - swept > SWEEP:  # also at first: changes from before the watch
                    given.sweep(places, now)
                    swept = now
                if now > again:
                    given.sweep(silent, now)
                    again = time.monotonic() + max(POLL, SHARE * (time.monotonic() - now))
                given.note(places, paths, now)
                meanwhile(given.work())
                if now - looked > QUIET:
                    looked = now
                    if given.places() != places:
                        break
        except FileNotFoundError:  # a folder was removed between two looks
            stop.wait(SETTLE)
        except OSError as error:  # the system has no more watches
            log.warning("the system does not report changes (%s): polling the folders instead", error)
            polling = True


def _read_changes(folders: Sequence[Path], stop: threading.Event) -> Iterator[list[Path]]:
    """Yield the changed files a few times a second, or an empty list."""
    if not folders:
        while not stop.wait(SETTLE):
            yield []
        return
    changes = watchfiles.watch(
        *folders,
        watch_filter=None,
        debounce=100,  # milliseconds
        step=25,
        rust_timeout=100,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    for found in changes:
        yield [Path(path) for _, path in found]


def _list_files(place: Place, below: Path | None = None) -> Iterator[Path]:
    """Yield the session files of a place, or those below one of its folders."""
    if place.folder.is_file():
        yield place.folder
    for folder, folders, files in os.walk(below or place.folder):
        if is_store(folders):
            folders.clear()
            continue
        folders[:] = filter(is_visible, folders)
        for name in files:
            path = Path(folder, name)
            if _is_session(place, path):
                yield path


def _is_session(place: Place, path: Path) -> bool:
    if path == place.folder:
        return True
    parts = path.relative_to(place.folder).parts if place.holds(path) else ()
    return bool(parts) and all(map(is_visible, parts)) and not sources.is_companion(path)


def _find_database(path: Path) -> Path:
    for end in _JOURNALS:
        if path.name.endswith(end):
            return path.with_name(path.name.removesuffix(end))
    return path


def _read_stat(path: Path) -> tuple[int, int] | None:
    """Return size and mtime, of a database with its journals; None where the file is gone."""
    try:
        stats = [path.stat()]
    except OSError:
        return None
    for end in _JOURNALS if path.suffix in _DATABASES else ():
        with contextlib.suppress(OSError):
            stats.append(path.with_name(path.name + end).stat())
    return sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
