"""Access events: which items were of use, and when.

They are appended beside the snapshot, one file a process, and folded into the manifest's `access` by `touch`. A line is
`{"item": 16 hex digits, "kind": …, "at": seconds}`: no query and no principal, so there is no text to forget in it.

A file is held under flock(2) for as long as somebody appends to it. Whoever folds removes a file only under that same
lock, so what is written is never removed unread.
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
import numpy.typing as npt
import orjson

from helix.errors import StoreError, UsageError
from helix.snapshot.checked_arrays import damaged
from helix.snapshot.manifest import File
from helix.snapshot.npz import read_npz
from helix.snapshot.paths import sync_folder
from helix.types import I64, U32, U64
from helix.util.failpoints import failpoint

log = logging.getLogger("helix.events")

KINDS: Final = ("used", "helpful", "wrong", "fetched")
COUNTED: Final = frozenset(KINDS) - {"wrong"}
"""Kinds that are an access: what was wrong was of no use."""

SYNC_EVERY = 1.0  # seconds
ROTATE = 16 << 20  # bytes: a busy process begins a new file, so that the folded one can go

_LATEST = 1 << 40  # seconds; a later time is a damaged line
_ID = re.compile(r"[0-9a-f]{16}")


class Event(NamedTuple):
    """One access; build with `make_event`."""

    item: str  # 16 hex digits
    kind: str  # one of KINDS
    at: float  # seconds since 1970 UTC


def make_event(item: str, kind: str, at: float | None = None) -> Event:
    """A checked event; `at` is the clock's where not given.

    Raises:
        UsageError: the item is no id, or nobody knows the kind.
    """
    if not _ID.fullmatch(item):
        raise UsageError(f"{item[:40]!r} is no item id", "give 16 hex digits, as recall shows them")
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind[:40]!r}", f"there are {', '.join(KINDS)}")
    return Event(item, kind, time.time() if at is None else at)


# ---------------------------------------------------------------- appending


class Appender:
    """The file one process appends its events to, made at the first event. Safe to share between threads.

    When `append` returns, the events outlive this process, however it dies. They are synced within `SYNC_EVERY` seconds
    and at `close`, so a crash of the machine may lose the last second and tear the last line, which is then ignored.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._file: io.FileIO | None = None
        self._of: tuple[int, str] = (0, "")  # the process and the day the file belongs to
        self._dirty = False
        self._timer: threading.Timer | None = None

    def append(self, events: Sequence[Event]) -> None:
        """Append a batch by one write.

        Raises:
            StoreError: the events folder cannot be written. Nothing of a batch of one was taken.
        """
        lines = b"".join(orjson.dumps(event._asdict(), option=orjson.OPT_APPEND_NEWLINE) for event in events)
        if not lines:
            return
        with self._lock:
            try:
                if self._current().write(lines) != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                # Whole lines may be folded already, so a torn one is not cut off: it becomes the last of its file.
                with contextlib.suppress(OSError):
                    self._release()
                raise _unwritable(self.root, error) from None
            self._dirty = True
            if self._timer is None:
                self._timer = threading.Timer(SYNC_EVERY, self._tick)
                self._timer.daemon = True
                self._timer.start()

    def sync(self) -> None:
        """Make durable what was appended. OSError where the disk refuses."""
        with self._lock:
            if self._file is None or not self._dirty:
                return
            self._dirty = False
            handle = os.dup(self._file.fileno())
        try:  # outside the lock: a slow disk stops nobody from appending
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Sync and let go of the file; the next event begins another."""
        with self._lock:
            self._release()

    def _tick(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.sync()
        except OSError as error:
            log.error("access events of %s are not durable: %s", self.root, error.strerror or error)

    def _current(self) -> io.FileIO:
        """The file in force; a new one after midnight, in a forked child, when full, or where somebody removed it."""
        of = (os.getpid(), time.strftime("%Y-%m-%d", time.gmtime()))
        if self._file is not None:
            state = os.fstat(self._file.fileno())
            if self._of != of or state.st_size >= ROTATE or not state.st_nlink:
                self._release()
        if self._file is None:
            self._file, self._of = _create(self.root / "events", f"{of[1]}-{of[0]}"), of
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


def append(root: Path, events: Sequence[Event]) -> None:
    """Append once, durably, through a file of its own. Whoever appends often keeps an `Appender`.

    Raises:
        StoreError: the events folder cannot be written.
    """
    with contextlib.closing(Appender(root)) as appender:
        appender.append(events)


def _create(folder: Path, prefix: str) -> io.FileIO:
    """A new file, ours while it is open."""
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        path = folder / f"{prefix}-{secrets.token_hex(4)}.jsonl"
        file = io.FileIO(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_APPEND, 0o600))
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # else a fold took it for a dead process's, and removed it
                sync_folder(folder)
                return file
        except OSError:
            path.unlink(missing_ok=True)
            file.close()
            raise
        file.close()


def _unwritable(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot append access events to {root / 'events'}: {error.strerror or error}",
        "give this process write access to that folder and space, or send feedback to one that has it; recall goes on",
    )


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Access:
    """When and how often items were of use, one entry an item, `key` ascending."""

    key: U64
    last: I64  # seconds since 1970 UTC
    count: U32  # stays at its maximum once there


NOTHING: Final = Access(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True)
class News:
    """What was appended since a generation's watermarks."""

    access: Access
    lines: int  # read, of any kind, the damaged ones too
    marks: Mapping[str, int]  # bytes of each file that are read now; files that are gone are left out


def read(root: Path, marks: Mapping[str, int]) -> News:
    """Every whole line behind the watermarks. A torn last line waits until it is whole.

    Args:
        marks: bytes read so far, by file name.

    Raises:
        StoreError: a file cannot be read.
    """
    parts, lines, read_to = [NOTHING], 0, {}
    for path in _files(root):
        start = marks.get(path.name, 0)
        try:
            with path.open("rb") as file:
                data = _whole_lines(file, start)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}", "check its owner") from None
        parts.append(combine([_parse(data)]))
        lines += data.count(b"\n")
        if start + len(data):
            read_to[path.name] = start + len(data)
    return News(combine(parts), lines, read_to)


def clean(root: Path, marks: Mapping[str, int]) -> int:
    """Remove every file whose lines are all read and that nobody appends to any more; how many.

    Only the writer may, while it holds the lock, and only after the marks were published.
    """
    removed = 0
    for path in _files(root):
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            # Nobody can append now: what is whole but unread would have come since `read`, and waits.
            if not _whole_lines(file, marks.get(path.name, 0)):
                path.unlink()
                removed += 1
                failpoint("touch.cleaning")
    return removed


def combine(parts: Sequence[Access]) -> Access:
    """The latest time and the sum of counts of every item. Keys of a part need be neither sorted nor distinct."""
    key = np.concatenate([part.key for part in parts])
    if not len(key):
        return NOTHING
    order = np.argsort(key, kind="stable")
    key = key[order]
    last = np.concatenate([part.last for part in parts])[order]
    count = np.concatenate([part.count for part in parts]).astype(np.uint64)[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    most = np.uint64(np.iinfo(np.uint32).max)
    return Access(
        key[starts],
        np.maximum.reduceat(last, starts),
        np.minimum(np.add.reduceat(count, starts), most).astype(np.uint32),
    )


def select(access: Access, keep: npt.NDArray[np.bool_]) -> Access:
    """Some of the items: bool[len(key)]."""
    return Access(access.key[keep], access.last[keep], access.count[keep])


def load_access(root: Path, file: File | None) -> Access:
    """The sidecar a manifest names in `access`; empty for None.

    Raises:
        StoreError: it is missing or damaged.
    """
    if file is None:
        return NOTHING
    return read_access(root / file.path)


def read_access(path: Path) -> Access:
    """A sidecar.

    Raises:
        StoreError: it is missing or damaged.
    """
    found = Access(**read_npz(path, {"key": (np.uint64, 1), "last": (np.int64, 1), "count": (np.uint32, 1)}))
    if not len(found.key) == len(found.last) == len(found.count):
        raise damaged(path, "its arrays are not of one length")
    return found


def dump_access(access: Access) -> bytes:
    """The sidecar's bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, key=access.key, last=access.last, count=access.count)
    return buffer.getvalue()


def _files(root: Path) -> list[Path]:
    return sorted((root / "events").glob("*.jsonl"))


def _whole_lines(file: BinaryIO, start: int) -> bytes:
    file.seek(start)
    data = file.read()
    return data[: data.rfind(b"\n") + 1]


def _parse(data: bytes) -> Access:
    """One entry an event that counts, in the order of the lines."""
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
    return Access(np.array(keys, np.uint64), np.array(times, np.int64), np.ones(len(keys), np.uint32))
