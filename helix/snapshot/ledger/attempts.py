"""Claims and failed attempts of documents: one file each in `tries/` while there is something to record.

A process that works on a document locks its file; the kernel frees the lock when the process dies. So no second process
starts, and a leftover record is an attempt whose process vanished. An attempt that fails, or kills its child process,
counts as failed. A vanished worker is rarely the document's fault, so more of those are allowed. A document with too
many is given up (`dead/`).
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
from helix.snapshot.digests import ATTEMPT, check_name
from helix.snapshot.ledger import inbox

MAX_FAILURES: Final = 3  # failed attempts before a document is given up
MAX_LOST: Final = 5  # attempts whose whole worker vanished (deployment, power cut, kill) before it is given up
GROWTH: Final = 4.0  # factor between two waits
LONGEST: Final = 600.0  # seconds of the longest wait; a longer one was set before the clock was put back
_WAIT: Final = 0.1  # seconds to wait for the lock: `is_held` holds it for a moment


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """Attempts of one document."""

    failed: int = 0
    vanished: int = 0  # attempts whose process disappeared
    error: str = ""  # of the last failed attempt
    after: float = 0.0  # seconds since the epoch: earliest time of the next attempt
    running: str = ""  # process and machine of the running or vanished attempt

    def explain_end(self) -> str:
        """Return why the document must be given up; empty if it need not."""
        if self.failed >= MAX_FAILURES:
            return self.error
        if self.vanished >= MAX_LOST:
            return f"{self.vanished} workers disappeared while they worked on it; the last was process {self.running}"
        return ""

    def is_waiting(self) -> bool:
        """Return whether the next attempt is due later."""
        return 0 < self.after - time.time() <= LONGEST


class AttemptClaim:
    """The right to work on a document, while the lock on its file is held."""

    def __init__(self, path: Path, handle: int, record: AttemptRecord) -> None:
        self.path, self.handle, self.record = path, handle, record

    def write(self, record: AttemptRecord) -> None:
        """Write the record to the locked file."""
        self.record = record
        data = orjson.dumps(asdict(record))
        os.pwrite(self.handle, data, 0)
        os.ftruncate(self.handle, len(data))

    def clear(self) -> None:
        """Remove the record: the document is enriched or given up."""
        self.record = AttemptRecord()
        self.path.unlink(missing_ok=True)


@contextmanager
def claim_document(root: Path, document: str) -> Iterator[AttemptClaim | None]:
    """Claim a document for this process; None if another process works on it.

    A vanished attempt is counted and the new one recorded first. An exception from the block does not count as a
    failed attempt: the caller records that with `record_failure`.

    Raises:
        UsageError: it is no document name.
    """
    with _lock(root, document) as claim:
        if claim is None:
            yield None
            return
        before = claim.record
        if before.running:
            before = replace(before, vanished=before.vanished + 1)
        claim.write(replace(before, running=f"{os.getpid()} on {socket.gethostname()}"))
        try:
            yield claim
        finally:
            if claim.record.running:
                rest = replace(claim.record, running="")
                claim.write(rest) if rest != AttemptRecord() else claim.clear()


def _locate(root: Path, document: str) -> Path:
    return root / "tries" / check_name(document, ATTEMPT)


@contextmanager
def _lock(root: Path, document: str) -> Iterator[AttemptClaim | None]:
    path = _locate(root, document)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    deadline = time.monotonic() + _WAIT
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file: then this lock is on a deleted one.
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(handle).st_ino == path.stat().st_ino:
                    yield AttemptClaim(path, handle, _parse_record(os.pread(handle, 1 << 16, 0)))
                    return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                yield None
                return
            time.sleep(0.01)
        finally:
            os.close(handle)


def _parse_record(data: bytes) -> AttemptRecord:
    try:
        return AttemptRecord(**orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError):  # new, or torn by a power cut
        return AttemptRecord()


def record_failure(root: Path, document: str, error: str, wait: float, max_failures: float = MAX_FAILURES) -> bool:
    """Record a failed attempt. Return whether the document is given up now.

    Args:
        error: its text in `dead/`.
        wait: seconds before the second attempt; each later one waits longer.
        max_failures: attempts that may fail; infinite leaves the decision to the next claim.

    Raises:
        UsageError: it is no document name.
    """
    with _lock(root, document) as claim:
        if claim is None:  # the next attempt runs already
            return False
        return add_failure(root, document, claim, error, wait, max_failures)


def add_failure(
    root: Path, document: str, claim: AttemptClaim, error: str, wait: float, max_failures: float = MAX_FAILURES
) -> bool:
    """Record a failed attempt as `record_failure` does, for the holder of the claim."""
    failed = claim.record.failed + 1
    if failed >= max_failures:
        end_attempts(root, document, claim, error, failed)
        return True
    after = time.time() + min(wait * GROWTH ** (failed - 1), LONGEST)
    claim.write(replace(claim.record, failed=failed, error=error[:2000], after=after, running=""))
    return False


def end_attempts(root: Path, document: str, claim: AttemptClaim, error: str, tries: int) -> None:
    """Give a document up, with its error. The record is removed last: after a kill in between it is given up again."""
    inbox.give_up(root, document, error if tries < 2 else f"{error} (tried {tries} times)")
    claim.clear()


def list_records(root: Path) -> dict[str, AttemptRecord]:
    """Return the record of every document with a running or failed attempt."""
    records = {}
    for path in (root / "tries").glob("[0-9a-f]*"):
        if not ATTEMPT.fullmatch(path.name):
            continue
        with contextlib.suppress(FileNotFoundError):
            records[path.name] = _parse_record(path.read_bytes())
    return records


def is_running(root: Path, document: str) -> bool:
    """Return whether a living process works on it now."""
    return paths.is_held(_locate(root, document))
