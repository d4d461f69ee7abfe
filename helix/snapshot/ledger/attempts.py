"""Who works on a document, and how often that went wrong: a file each in `tries/`, while there is something to say.

Whoever works on a document holds a lock on its file, which the kernel frees when that process dies. So a second one
does not begin beside it, and what is left behind is a try that ended without a word. A try that fails, or kills the
process it runs in, is a strike against the document; that a whole worker disappears is mostly no fault of what it was
working on, and takes more to tell. What has had its strikes is given up (`dead/`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from helix.snapshot import paths
from helix.snapshot.digests import TRY, check_name
from helix.snapshot.ledger import inbox as ledger

STRIKES: Final = 3
"""Tries that may fail before a document is given up."""

VANISHED: Final = 5
"""Tries whose whole worker may disappear before it is: a deployment, a power cut, a kill by hand."""

GROWTH: Final = 4.0
"""Each wait for the next try is so many times the one before."""

LONGEST: Final = 600.0
"""Seconds of the longest wait. One that is longer was reckoned before the clock was set back."""

_WAIT: Final = 0.1
"""Seconds to wait for the lock: whoever only looks whether it is held has it for a moment."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of the tries of one document."""

    failed: int = 0  # strikes
    vanished: int = 0  # tries that ended without a word
    error: str = ""  # of the last strike
    after: float = 0.0  # seconds since the epoch: not tried again before
    running: str = ""  # process and machine of the try that is under way, or was

    def over(self) -> str:
        """Why the document is to be given up; empty while it is not."""
        if self.failed >= STRIKES:
            return self.error
        if self.vanished >= VANISHED:
            return f"{self.vanished} workers disappeared while they worked on it; the last was process {self.running}"
        return ""

    def waits(self) -> bool:
        """Whether its next try is yet to come."""
        return 0 < self.after - time.time() <= LONGEST


class Claim:
    """The right to work on a document, while the lock on its file is held."""

    def __init__(self, path: Path, handle: int, record: Record) -> None:
        self.path, self.handle, self.record = path, handle, record

    def write(self, record: Record) -> None:
        """Note what is known by now."""
        self.record = record
        data = orjson.dumps(asdict(record))
        os.pwrite(self.handle, data, 0)
        os.ftruncate(self.handle, len(data))

    def clear(self) -> None:
        """Nothing is left to say: it is made, or given up."""
        self.record = Record()
        self.path.unlink(missing_ok=True)


@contextmanager
def claim(root: Path, document: str) -> Iterator[Claim | None]:
    """Be the one who works on a document; None where another process is at it.

    A try that ended without a word is counted, and the new one noted, before anything is done. Where the block is left
    by an exception, the try counts for nothing: whoever knows better calls `strike`.

    Raises:
        UsageError: that is no name.
    """
    with _locked(root, document) as found:
        if found is None:
            yield None
            return
        before = found.record
        if before.running:
            before = replace(before, vanished=before.vanished + 1)
        found.write(replace(before, running=f"{os.getpid()} on {socket.gethostname()}"))
        try:
            yield found
        finally:
            if found.record.running:
                rest = replace(found.record, running="")
                found.write(rest) if rest != Record() else found.clear()


def _path(root: Path, document: str) -> Path:
    return root / "tries" / check_name(document, TRY)


@contextmanager
def _locked(root: Path, document: str) -> Iterator[Claim | None]:
    path = _path(root, document)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    deadline = time.monotonic() + _WAIT
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have removed the file meanwhile: then the lock is on nothing.
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(handle).st_ino == path.stat().st_ino:
                    yield Claim(path, handle, _parsed(os.pread(handle, 1 << 16, 0)))
                    return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                yield None
                return
            time.sleep(0.01)
        finally:
            os.close(handle)


def _parsed(data: bytes) -> Record:
    try:
        return Record(**orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError):  # new, or torn by a power cut
        return Record()


def strike(root: Path, document: str, error: str, wait: float, strikes: float = STRIKES) -> bool:
    """Note that a try failed; whether the document is given up with that.

    Args:
        error: what is said of it in `dead/`.
        wait: seconds before the second try; each later one waits longer.
        strikes: how many tries may fail; infinite where it is left to the next claim to see.

    Raises:
        UsageError: that is no name.
    """
    with _locked(root, document) as found:
        if found is None:  # somebody tries again already
            return False
        return struck(root, document, found, error, wait, strikes)


def struck(root: Path, document: str, found: Claim, error: str, wait: float, strikes: float = STRIKES) -> bool:
    """As `strike`, for whoever holds the claim."""
    failed = found.record.failed + 1
    if failed >= strikes:
        bury(root, document, found, error, failed)
        return True
    after = time.time() + min(wait * GROWTH ** (failed - 1), LONGEST)
    found.write(replace(found.record, failed=failed, error=error[:2000], after=after, running=""))
    return False


def bury(root: Path, document: str, found: Claim, error: str, tries: int) -> None:
    """Give a document up, with its error. The record goes last: a kill between the two gives it up once more."""
    ledger.give_up(root, document, error if tries < 2 else f"{error} (tried {tries} times)")
    found.clear()


def records(root: Path) -> dict[str, Record]:
    """What is known of every document that is being tried, or was without success."""
    found = {}
    for path in (root / "tries").glob("[0-9a-f]*"):
        if not TRY.fullmatch(path.name):
            continue
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = _parsed(path.read_bytes())
    return found


def is_running(root: Path, document: str) -> bool:
    """Whether a living process works on it now."""
    return paths.is_held(_path(root, document))
