"""Watching: what is written to a log is taken in and published while the session goes on.

The system says which files change (inotify and its like; where it will not, the folders are looked through). Each
change is taken in from where the last one ended, so a restart goes on where it stood, and what changed meanwhile is
found by a look at every file. New turns are published before what has waited for longer: a large import delays no
fresh turn.
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

from helix.encoders.dense import Encoder, TokenCounter
from helix.errors import HelixError, InputRefused, StoreError
from helix.redact.paths import redact_path
from helix.settings import Settings
from helix.snapshot.ledger import inbox as ledger
from helix.sources import registry as sources
from helix.sources.common.places import Place
from pipelines.ingest.accept import Inbox, Way, is_shown, leads_out, take
from pipelines.ingest.backpressure import Backlog
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.ingest import open_encoder, tidy
from pipelines.maintain.compact import compact

SETTLE: Final = 0.1
"""Seconds after a change before a file is read: hosts write a turn in several goes."""

SHARE: Final = 10.0
"""A file is read again after this many times as long as reading it took: a large one that is always read whole must not
keep the machine busy."""

LONGEST: Final = 60.0
"""Seconds a file waits at most."""

SWEEP: Final = 60.0
"""Seconds between looks at every file, for what the system did not say."""

POLL: Final = 0.3
"""Seconds between looks at the files of which the system tells nothing."""

SLICE: Final = 1.0
"""Seconds of work on what has waited, between looks at what is new."""

QUIET: Final = 5.0
"""Seconds without anything to do before all is tidied up."""

MERGE: Final = 16
"""Commits, each of which adds a segment, before they are merged while there is something to do: every one of them costs
the next commit and every recall a few milliseconds."""

_DATABASES: Final = frozenset({".db", ".vscdb", ".sqlite", ".sqlite3"})
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""Ends of names of the files a database is written through."""

log = logging.getLogger("helix.watch")

Deliver = Callable[[Sequence[str]], None]
"""Called with documents that were just accepted."""


@dataclass
class Watch:
    """What is watched, and what is to be done about it."""

    inbox: Inbox
    places: Callable[[], Sequence[Place]]  # looked up again now and then: an agent may be installed meanwhile
    deliver: Deliver
    project: str | None = None
    acl: tuple[str, ...] = ()
    polling: bool = False  # look through the folders, do not ask the system
    backlog: Backlog | None = None  # where the work is left to others: how much may wait
    due: dict[Path, float] = field(default_factory=dict)  # when each changed file is read
    _rest: dict[Path, float] = field(default_factory=dict)  # before when it is not read again
    _seen: dict[Path, tuple[int, int]] = field(default_factory=dict)  # size and time at the last look
    _outside: set[Path] = field(default_factory=set)  # links that nobody follows, each told of once

    def note(self, places: Sequence[Place], paths: Iterable[Path], now: float) -> None:
        """Remember that files may have changed, or all below a folder that is new."""
        for path in {_database_of(path) for path in paths}:
            for place in places:
                if path.is_dir() and path.is_relative_to(place.folder):
                    found = _files(place, path)
                else:
                    found = iter([path] if _holds(place, path) else [])
                for file in found:
                    if self._stays(place, file):
                        self.due.setdefault(file, max(now + SETTLE, self._rest.get(file, 0.0)))

    def sweep(self, places: Sequence[Place], now: float) -> None:
        """Look at every file. What changed last is taken in first."""
        found: list[tuple[float, Path]] = []
        for place in places:
            for path in _files(place):
                stat = _stat(path)
                news = stat and stat != self._seen.get(path) and path not in self.due
                if stat and news and (not path.is_symlink() or self._stays(place, path)):
                    found.append((stat[1], path))
        for _, path in sorted(found, reverse=True):
            self.due[path] = max(now, self._rest.get(path, 0.0))

    def _stays(self, place: Place, path: Path) -> bool:
        """Return whether a file is in the folder that is watched. What a link leads to elsewhere, nobody has named."""
        if path == place.folder or not leads_out(path, place.folder):
            return True
        if path not in self._outside:
            self._outside.add(path)
            log.warning("not taken: %s is a link that leads out of %s", redact_path(str(path)), place.folder)
        return False

    def work(self) -> bool:
        """Take in what is due, for a slice of time; whether there was anything."""
        began = time.monotonic()
        ready = [path for path, when in self.due.items() if when <= began]
        for path in ready:
            del self.due[path]
            self._take(path)
            if time.monotonic() - began > SLICE:
                break
        return bool(ready)

    def _take(self, path: Path) -> None:
        stat = _stat(path)
        if stat is None:  # removed, or renamed: what was taken in of it stays
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
            taken = take(self.inbox, path, Way(self.project, "auto", self.acl, False, SLICE))
            if taken.more:  # of a large one; others that have changed meanwhile go first
                self.due[path] = began
            if self.backlog:
                self.backlog.add(len(taken.documents))
        except InputRefused as error:  # not a log, or no whole line yet: with the next change it is looked at anew
            log.info("not taken: %s", error)
            return
        except HelixError as error:
            log.error("%s is tried again: %s", redact_path(str(path)), error)
            self.due[path] = time.monotonic() + QUIET
            return
        finally:
            ended = time.monotonic()
            self._rest[path] = ended if path in self.due else ended + min(SHARE * (ended - began), LONGEST)
        if taken.forgotten:
            log.warning("%s: what was forgotten of it stays out; 'helix ingest --remember' takes it in again", path)
        if taken.documents:
            for document in taken.documents:
                log.info("accepted", extra={"document": document, "source": redact_path(str(path))})
            self.deliver(taken.documents)


def watch(given: Watch, stop: threading.Event, meanwhile: Callable[[bool], object] = bool) -> None:
    """Watch until told to stop.

    Args:
        meanwhile: called after every look with whether it found anything: time for other work.
    """
    polling = given.polling
    while not stop.is_set():
        places = given.places()
        folders = [] if polling else sorted({place.folder for place in places if place.folder.is_dir()})
        # What no change is told of is looked at again and again.
        silent = [place for place in places if polling or not place.folder.is_dir()]
        looked = time.monotonic()
        again = swept = float("-inf")
        try:
            for paths in _changes(folders, stop):
                now = time.monotonic()
                if now - swept > SWEEP:  # at first, too: what changed before the system was asked
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
        except FileNotFoundError:  # a folder went away between two looks
            stop.wait(SETTLE)
        except OSError as error:  # as many watches as the system allows are in use
            log.warning("the system does not tell of changes (%s): looking through the folders instead", error)
            polling = True


def _changes(folders: Sequence[Path], stop: threading.Event) -> Iterator[list[Path]]:
    """Files that changed, a few times a second; none where there were none."""
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


def _files(place: Place, below: Path | None = None) -> Iterator[Path]:
    """The sessions of a place, or those of them below a folder in it."""
    if place.folder.is_file():
        yield place.folder
    for folder, folders, files in os.walk(below or place.folder):
        folders[:] = [name for name in folders if is_shown(name)]
        for name in files:
            path = Path(folder, name)
            if _holds(place, path):
                yield path


def _holds(place: Place, path: Path) -> bool:
    if path == place.folder:
        return True
    return place.holds(path) and all(map(is_shown, path.relative_to(place.folder).parts)) and not sources.belongs(path)


def _database_of(path: Path) -> Path:
    for end in _BESIDE:
        if path.name.endswith(end):
            return path.with_name(path.name.removesuffix(end))
    return path


def _stat(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; of a database also of what it is written through. None where it is gone."""
    try:
        stats = [path.stat()]
    except OSError:
        return None
    for end in _BESIDE if path.suffix in _DATABASES else ():
        with contextlib.suppress(OSError):
            stats.append(path.with_name(path.name + end).stat())
    return sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)


# ---------------------------------------------------------------- publishing in this process


class Publisher:
    """Enriches and publishes what is accepted, the newest first, a slice of time at a go. For one thread."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root, self.settings = root, settings
        self.waiting: list[str] = ledger.pending(root)[::-1]  # the last is the next
        self._encoder: tuple[Encoder, TokenCounter] | None = None
        self._made = False
        self._worked = time.monotonic()
        self._untidy = True
        self._added = 0  # segments since the last merge
        self._tidying: threading.Thread | None = None

    def add(self, documents: Sequence[str]) -> None:
        """Documents that were just accepted, in order: they go first."""
        self.waiting += reversed(documents)

    def step(self, busy: bool = False) -> bool:
        """Work for a slice of time; whether there was any. What was made is recallable when this returns."""
        if not self.waiting and not self._made:
            self._tidy(busy)
            return False
        began = time.monotonic()
        while self.waiting and time.monotonic() - began < SLICE:
            self._made |= self._enrich(self.waiting.pop())
        if self._made:
            try:
                done = commit(self.root, self._open()[0], self.settings)
            except StoreError as error:  # what is made is kept, and published with the next go
                log.error("not published yet: %s", error)
                time.sleep(SETTLE)
                return True
            log.info("generation %d: %d documents, %d items", done.generation, len(done.documents), done.added)
            self._added += 1
            if self._added >= MERGE:
                self._beside(compact)
        self._made = False
        self._worked, self._untidy = time.monotonic(), True
        return True

    def _enrich(self, document: str) -> bool:
        encoder, counter = self._open()
        tried = try_enrich(self.root, document, encoder, counter, self.settings)
        if tried.dead:
            log.error("%s is given up: %s", document[:12], tried.error)
        return tried.part is not None

    def open(self) -> None:
        """Load the encoder now, so that what comes first does not wait for it.

        Raises:
            EncoderError: none is in reach.
        """
        self._open()

    def _open(self) -> tuple[Encoder, TokenCounter]:
        if self._encoder is None:
            encoder = open_encoder(self.root, self.settings)
            self._encoder = encoder, TokenCounter(encoder.folder)
        return self._encoder

    def _tidy(self, busy: bool) -> None:
        """Merge segments and remove what is no longer needed once nothing has happened for a while."""
        if not busy and self._untidy and time.monotonic() - self._worked >= QUIET and self._beside(tidy):
            self._untidy = False

    def _beside(self, work: Callable[[Path, Settings], object]) -> bool:
        """Begin some upkeep beside what happens next; False while an earlier one is at work."""
        if self._tidying is not None and self._tidying.is_alive():
            return False
        self._added = 0
        self._tidying = threading.Thread(target=self._keep_up, args=(work,), name="helix-tidy", daemon=True)
        self._tidying.start()
        return True

    def _keep_up(self, work: Callable[[Path, Settings], object]) -> None:
        try:
            work(self.root, self.settings)
        except (HelixError, OSError) as error:
            log.warning("tidying up failed: %s", error)

    def close(self) -> None:
        """Wait for a merge that is under way."""
        if self._tidying is not None:
            self._tidying.join()
