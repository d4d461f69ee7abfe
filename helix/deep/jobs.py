"""Deep recalls that wait for a worker: files in the store's folder `deep/`.

A query process leaves a job and reads the replies; a worker of the queue `deep` asks the model in between. So the
process that answers opens no connection and needs no broker. Nothing here is durable: a lost job is asked again, cached
replies expire after a day, and `helix forget` empties the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from helix.deep.arguments import redact_question, to_arguments
from helix.deep.replies import Replies, Unanswered, parse_replies
from helix.errors import StoreError
from helix.snapshot import paths
from helix.types import RecallOptions

FOLDER: Final = "deep"

MAX_WAITING: Final = 100
"""Jobs that may wait; more are refused."""

JOB_TTL: Final = 600.0
"""Seconds that a job and its outcome are retained."""

REPLIES_TTL: Final = 86_400.0
"""Seconds that replies are cached."""

MAX_REPLIES: Final = 1_000
"""Replies that are cached."""

GRACE: Final = 2.0
"""Seconds after a job's deadline in which a worker may still finish it."""

NO_WORKER: Final = "no worker of the queue 'deep' runs here: start 'helix worker --queues deep'"

FORGOTTEN: Final = "something was forgotten meanwhile: ask again"

_EMPTIED: Final = "emptied"
"""Name of the file whose time is that of the last `empty`."""

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_WAIT: Final = 0.02  # seconds between two looks


@dataclass(frozen=True, slots=True)
class Job:
    """A question that waits for a worker."""

    id: str
    arguments: Mapping[str, Any]  # of `Memory.recall`, secrets redacted
    owner: str  # id of the key that may read the answer; empty: the owner of the store
    deadline: float  # seconds since the epoch
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: replies, or the reason why there are none."""

    replies: Replies | None
    failed: str = ""


def place(root: Path, query: str, options: RecallOptions, seconds: float, *, owner: str = "") -> Job:
    """Leave a job for a worker.

    Args:
        options: the moment of the question is added if it is missing.
        seconds: the job's time limit.

    Raises:
        StoreError: too many jobs wait, or the store cannot be written.
    """
    sweep(root)
    if len(list_waiting(root)) >= MAX_WAITING:
        raise StoreError(f"{MAX_WAITING} deep recalls wait already", "ask again later, or without the tier deep")
    arguments = to_arguments(*redact_question(query, options))
    if not isinstance(arguments["now"], str):
        arguments["now"] = arguments["now"].isoformat()
    job = Job(secrets.token_hex(16), arguments, owner, time.time() + seconds, options.explain)
    _write(_locate(root, job.id, "job"), asdict(job))
    return job


def read(root: Path, identity: str) -> Job | None:
    """Return a job by its id; None if it is unknown."""
    fields = _read(_locate(root, identity, "job")) if _NAME.fullmatch(identity) else None
    return Job(**fields) if fields else None


def is_claimed(root: Path, job: Job) -> bool:
    """Return whether a worker works on a job."""
    return paths.is_held(_locate(root, job.id, "lock"))


def list_waiting(root: Path) -> list[str]:
    """List jobs without an outcome whose deadline has not passed, oldest first."""
    folder, now = root / FOLDER, time.time()
    done = {path.stem for path in folder.glob("*.done")}
    found = [(when, path.stem) for path in folder.glob("*.job") if path.stem not in done and (when := _mtime(path))]
    jobs = ((name, read(root, name)) for _, name in sorted(found))
    return [name for name, job in jobs if job is not None and now < job.deadline]


def _mtime(path: Path) -> float:
    """Return when a file was last written; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def finish(root: Path, job: Job, outcome: Outcome, began: float) -> None:
    """Write the outcome of a job.

    Args:
        began: start of the work, seconds since the epoch; if anything was forgotten since, the outcome is dropped.
    """
    with _lock_writing(root, began) as is_valid:
        result = outcome if is_valid else Outcome(None, FORGOTTEN)
        _write(_locate(root, job.id, "done"), {"replies": result.replies, "failed": result.failed})


def read_outcome(root: Path, job: Job) -> Outcome | None:
    """Return the outcome of a job; None while there may yet be one."""
    fields = _read(_locate(root, job.id, "done"))
    if fields:
        return Outcome(parse_replies(fields["replies"]) if fields["replies"] else None, fields["failed"])
    if time.time() > job.deadline + GRACE:
        return Outcome(None, "no worker has answered in time")
    return None


def wait_for_outcome(root: Path, job: Job) -> Outcome:
    """Wait for the outcome of a job."""
    while (outcome := read_outcome(root, job)) is None:
        time.sleep(_WAIT)
    return outcome


# ---------------------------------------------------------------- cached replies


def digest(*parts: object) -> str:
    """Return a key of everything that replies depend on."""
    return hashlib.sha256(orjson.dumps(parts, default=str, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_replies(root: Path, key: str) -> Replies | None:
    """Return cached replies; None if there are none."""
    path = _locate(root, key, "kept")
    fields = _read(path) if paths.measure_age(path) < REPLIES_TTL else None
    return parse_replies({**fields, "cached": True, "calls": 0}) if fields else None


def write_replies(root: Path, key: str, replies: Replies, began: float) -> None:
    """Cache replies, unless anything was forgotten since `began`."""
    with _lock_writing(root, began) as is_valid:
        if is_valid:
            _write(_locate(root, key, "kept"), asdict(replies))


# ---------------------------------------------------------------- housekeeping


def sweep(root: Path) -> None:
    """Remove expired jobs, outcomes and replies."""
    replies: list[tuple[float, Path]] = []
    for path in (root / FOLDER).glob("*.*"):
        age = paths.measure_age(path)
        if path.suffix == ".kept":
            replies.append((age, path))
        elif age > JOB_TTL and _NAME.fullmatch(path.stem):
            path.unlink(missing_ok=True)
    for i, (age, path) in enumerate(sorted(replies)):
        if i >= MAX_REPLIES or age > REPLIES_TTL:
            path.unlink(missing_ok=True)


def empty(root: Path) -> None:
    """Remove every question and reply, also those still being written: a model may repeat what it was shown."""
    if not (root / FOLDER).is_dir():
        return
    with _open_lock(root, "write") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        (root / FOLDER / _EMPTIED).touch(mode=0o600)
        for path in (root / FOLDER).glob("*.*"):
            if path.suffix != ".lock":
                path.unlink(missing_ok=True)


@contextmanager
def _lock_writing(root: Path, began: float) -> Iterator[bool]:
    """Keep the folder from being emptied; yield whether it was not since `began`."""
    with _open_lock(root, "write") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield _mtime(root / FOLDER / _EMPTIED) < began


# ---------------------------------------------------------------- workers


@contextmanager
def attend(root: Path) -> Iterator[bool]:
    """Be the worker that looks for jobs while the block lasts; yield False if another one is."""
    with _try_lock(root, "attend") as mine:
        yield mine


def has_worker(root: Path) -> bool:
    """Return whether a worker looks for jobs; its lock ends with its process."""
    return paths.is_held(_locate(root, "attend", "lock"))


@contextmanager
def claim(root: Path, identity: str) -> Iterator[bool]:
    """Work on a job alone; yield False if another process does."""
    with _try_lock(root, identity) as mine:
        yield mine
        if mine:
            (root / FOLDER / f"{identity}.lock").unlink(missing_ok=True)


def limit_concurrency(root: Path, n: int) -> Callable[[float], AbstractContextManager[None]]:
    """Return what lets n recalls of a store, over all processes, ask the endpoint at once; see `ask.Slot`."""

    @contextmanager
    def slot(deadline: float) -> Iterator[None]:
        while True:
            for i in range(n):
                with _try_lock(root, f"slot-{i}") as mine:
                    if mine:
                        yield
                        return
            if time.monotonic() > deadline:
                raise Unanswered(f"{n} deep recalls ask already (HELIX_DEEP_CONCURRENT)")
            time.sleep(_WAIT)

    return slot


@contextmanager
def _try_lock(root: Path, name: str) -> Iterator[bool]:
    with _open_lock(root, name) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def _open_lock(root: Path, name: str) -> Iterator[int]:
    """Open a lock file; yield its descriptor."""
    folder = root / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise paths.make_write_error(root, error) from None
    try:
        yield handle
    finally:
        os.close(handle)


# ---------------------------------------------------------------- files


def _locate(root: Path, name: str, kind: str) -> Path:
    return root / FOLDER / f"{name}.{kind}"


def _write(path: Path, fields: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        paths.write_file(path, orjson.dumps(fields))
    except OSError as error:
        raise paths.make_write_error(path.parent.parent, error) from None


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, orjson.JSONDecodeError):
        fields = orjson.loads(path.read_bytes())
        return fields if isinstance(fields, dict) else None
    return None
