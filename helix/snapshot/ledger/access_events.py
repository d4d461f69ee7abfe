"""Access events: which items were useful, and when.

Each process appends to a file of its own in `events/`; `touch` folds them into the manifest's `access`. A line is
`{"item": 16 hex digits, "kind": …, "at": seconds}`. It holds no query and no principal, so no text has to be forgotten.

The appending process holds its file under flock(2). `touch` removes a file only under that lock, so no event is removed
unread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import orjson

from helix.errors import StoreError, UsageError
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.manifest import File
from helix.snapshot.npz import read_npz
from helix.snapshot.paths import sync_folder
from helix.types import I64, U32, U64, Bool
from helix.util.failpoints import failpoint

log = logging.getLogger("helix.events")

KINDS: Final = ("used", "helpful", "wrong", "fetched", "stale")
COUNTED: Final = frozenset(KINDS) - {"wrong", "stale"}  # kinds that count as an access

SYNC_EVERY = 1.0  # seconds
ROTATE = 16 << 20  # bytes: a busy process then starts a new file, so that the folded one can be removed

_LATEST = 1 << 40  # seconds; a later time is a damaged line
_ID = re.compile(r"[0-9a-f]{16}")


class AccessEvent(NamedTuple):
    """One access; build with `make_event`."""

    item: str  # 16 hex digits
    kind: str  # one of KINDS
    at: float  # seconds since 1970 UTC


def make_event(item: str, kind: str, at: float | None = None) -> AccessEvent:
    """Build a checked event; `at` is now by default.

    Raises:
        UsageError: the item is no id, or the kind is unknown.
    """
    if not _ID.fullmatch(item):
        raise UsageError(f"{item[:40]!r} is no item id", "give 16 hex digits, as recall shows them")
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind[:40]!r}", f"there are {', '.join(KINDS)}")
    return AccessEvent(item, kind, time.time() if at is None else at)


class EventAppender:
    """Appends the events of one process to its file, made at the first event. Thread-safe.

    Events survive the death of the process once `append` returns. They are synced within `SYNC_EVERY` seconds and at
    `close`: a crash of the machine may lose the last second and tear the last line, which readers ignore.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._file: io.FileIO | None = None
        self._of: tuple[int, str] = (0, "")  # the process and the day the file belongs to
        self._dirty = False
        self._timer: threading.Timer | None = None

    def append(self, events: Sequence[AccessEvent]) -> None:
        """Append a batch by one write.

        Raises:
            StoreError: the events folder cannot be written. A batch of one is then not recorded.
        """
        lines = b"".join(orjson.dumps(event._asdict(), option=orjson.OPT_APPEND_NEWLINE) for event in events)
        if not lines:
            return
        with self._lock:
            try:
                if self._open_current().write(lines) != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                # Whole lines may be folded already, so a torn one is not cut off: it ends its file.
                with contextlib.suppress(OSError):
                    self._release()
                raise _make_write_error(self.root, error) from None
            self._dirty = True
            if self._timer is None:
                self._timer = threading.Timer(SYNC_EVERY, self._wake)
                self._timer.daemon = True
                self._timer.start()

    def sync(self) -> None:
        """Make appended events durable. Raises OSError if the disk refuses."""
        with self._lock:
            if self._file is None or not self._dirty:
                return
            self._dirty = False
            handle = os.dup(self._file.fileno())
        try:  # outside the lock: a slow disk must not block `append`
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Sync and close the file; the next event starts another."""
        with self._lock:
            self._release()

    def _wake(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.sync()
        except OSError as error:
            log.error("access events of %s are not durable: %s", self.root, error.strerror or error)

    def _open_current(self) -> io.FileIO:
        """Return the open file; a new one after midnight, in a forked child, when it is full or was removed."""
        of = (os.getpid(), time.strftime("%Y-%m-%d", time.gmtime()))
        if self._file is not None:
            state = os.fstat(self._file.fileno())
            if self._of != of or state.st_size >= ROTATE or not state.st_nlink:
                self._release()
        if self._file is None:
            self._file, self._of = _create_file(self.root / "events", f"{of[1]}-{of[0]}"), of
        return self._file

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        dirty, self._dirty = self._dirty, False
        with file:
            if self._of[0] != os.getpid():  # a forked child: the file, its lock and the timer are the parent's
                self._timer = None
            elif os.fstat(file.fileno()).st_size == 0:
                Path(str(file.name)).unlink(missing_ok=True)
            elif dirty:
                os.fsync(file.fileno())


def append_events(root: Path, events: Sequence[AccessEvent]) -> None:
    """Append once, durably, through a new file. To append often, keep an `EventAppender`.

    Raises:
        StoreError: the events folder cannot be written.
    """
    with contextlib.closing(EventAppender(root)) as appender:
        appender.append(events)


def _create_file(folder: Path, prefix: str) -> io.FileIO:
    """Create a file that this process locks while it is open."""
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        path = folder / f"{prefix}-{secrets.token_hex(4)}.jsonl"
        file = io.FileIO(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_APPEND, 0o600))
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # else `touch` removed it as a dead process's
                sync_folder(folder)
                return file
        except OSError:
            path.unlink(missing_ok=True)
            file.close()
            raise
        file.close()


def _make_write_error(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot append access events to {root / 'events'}: {error.strerror or error}",
        "give this process write access and space there, or send feedback to one that has; recall still works",
    )


@dataclass(frozen=True, slots=True)
class AccessTimes:
    """Time and number of accesses, one entry an item, `key` ascending."""

    key: U64
    last: I64  # seconds since 1970 UTC
    count: U32  # stays at its maximum once there


NO_ACCESS: Final = AccessTimes(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True)
class NewEvents:
    """Events appended after a generation's watermarks."""

    access: AccessTimes
    lines: int  # read, of any kind, including damaged ones
    marks: Mapping[str, int]  # bytes read of each file that still exists


def read_events(root: Path, marks: Mapping[str, int]) -> NewEvents:
    """Read every whole line after the watermarks. A torn last line waits until it is whole.

    Args:
        marks: bytes read so far, by file name.

    Raises:
        StoreError: a file cannot be read.
    """
    parts, lines, read_to = [NO_ACCESS], 0, {}
    for path in _list_files(root):
        start = marks.get(path.name, 0)
        try:
            with path.open("rb") as file:
                data = _read_whole_lines(file, start)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}", "check its owner") from None
        parts.append(combine_access([_parse_lines(data)]))
        lines += data.count(b"\n")
        if start + len(data):
            read_to[path.name] = start + len(data)
    return NewEvents(combine_access(parts), lines, read_to)


def remove_read_files(root: Path, marks: Mapping[str, int]) -> int:
    """Remove every file that is read to its end and has no appender. Return their number.

    Only the holder of the writer's lock may call this, after the marks were published.
    """
    removed = 0
    for path in _list_files(root):
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            # No process can append now: an unread whole line arrived after `read_events`, and waits.
            if not _read_whole_lines(file, marks.get(path.name, 0)):
                path.unlink()
                removed += 1
                failpoint("touch.cleaning")
    return removed


def combine_access(parts: Sequence[AccessTimes]) -> AccessTimes:
    """Return the latest time and the summed count of every item. Keys of a part may repeat, in any order."""
    key = np.concatenate([part.key for part in parts])
    if not len(key):
        return NO_ACCESS
    order = np.argsort(key, kind="stable")
    key = key[order]
    last = np.concatenate([part.last for part in parts])[order]
    count = np.concatenate([part.count for part in parts]).astype(np.uint64)[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    most = np.uint64(np.iinfo(np.uint32).max)
    return AccessTimes(
        key[starts],
        np.maximum.reduceat(last, starts),
        np.minimum(np.add.reduceat(count, starts), most).astype(np.uint32),
    )


def select_access(access: AccessTimes, keep: Bool) -> AccessTimes:
    """Return the items that a mask keeps: bool[len(key)]."""
    return AccessTimes(access.key[keep], access.last[keep], access.count[keep])


def load_access(root: Path, file: File | None) -> AccessTimes:
    """Read the access file that a manifest names; empty for None.

    Raises:
        StoreError: it is missing or damaged.
    """
    return NO_ACCESS if file is None else read_access(root / file.path)


def read_access(path: Path) -> AccessTimes:
    """Read an access file.

    Raises:
        StoreError: it is missing or damaged.
    """
    access = AccessTimes(**read_npz(path, {"key": (np.uint64, 1), "last": (np.int64, 1), "count": (np.uint32, 1)}))
    if not len(access.key) == len(access.last) == len(access.count):
        raise make_damage_error(path, "its arrays are not of one length")
    return access


def dump_access(access: AccessTimes) -> bytes:
    """Return the bytes of an access file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, key=access.key, last=access.last, count=access.count)
    return buffer.getvalue()


def _list_files(root: Path) -> list[Path]:
    return sorted((root / "events").glob("*.jsonl"))


def _read_whole_lines(file: BinaryIO, start: int) -> bytes:
    file.seek(start)
    data = file.read()
    return data[: data.rfind(b"\n") + 1]


def _parse_lines(data: bytes) -> AccessTimes:
    """Return one entry per counted event, in the order of the lines."""
    keys, times = [], []
    for line in data.split(b"\n"):
        try:
            event = orjson.loads(line)
            item, kind, at = event["item"], event["kind"], event["at"]
            if kind in COUNTED and _ID.fullmatch(item) and 0 <= at < _LATEST:
                keys.append(int(item, 16))
                times.append(int(at))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue
    return AccessTimes(np.array(keys, np.uint64), np.array(times, np.int64), np.ones(len(keys), np.uint32))
