"""Deep recalls that wait for a worker, as files in `deep/`: what is asked, and what a model said of it.

The query process leaves a question here and reads the replies; a worker of the queue `deep` asks the model in between.
So the process that answers opens no connection, and needs no broker. Nothing here is durable beyond its purpose: what
is asked is asked anew, what was answered is asked anew a day later, and whoever forgets anything empties the folder.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from helix.deep.replies import Replies, Unanswered, replies_of
from helix.errors import StoreError
from helix.redact.redact import redact
from helix.snapshot import paths

FOLDER: Final = "deep"

MOST_WAITING: Final = 100
"""Jobs that may wait; another one is refused."""

KEPT: Final = 600.0
"""Seconds for which a job and what came of it can be asked for."""

REPLIES_KEPT: Final = 86_400.0
"""Seconds for which replies answer the same question again."""

MOST_REPLIES: Final = 1_000

GRACE: Final = 2.0
"""Seconds after a job's deadline in which a worker may still say what came of it."""

NOBODY: Final = "no worker of the queue 'deep' runs here: start 'helix worker --queues deep'"

FORGOTTEN: Final = "something was forgotten meanwhile: ask again"

_EMPTIED: Final = "emptied"
"""The file whose time says when the folder was last emptied."""

_NAME = re.compile(r"[0-9a-f]{32}")
_WAIT: Final = 0.02  # seconds between two looks


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked."""

    id: str
    arguments: Mapping[str, Any]  # of `Memory.recall`; secrets in its words are replaced
    owner: str  # who may ask for the answer: the id of a key; empty: the owner of the store
    deadline: float  # seconds since the epoch
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: replies, or why there are none."""

    replies: Replies | None
    failed: str = ""


def place(root: Path, arguments: Mapping[str, Any], seconds: float, *, owner: str = "", explain: bool = False) -> Job:
    """Leave a job for a worker.

    Args:
        arguments: of `Memory.recall`, that JSON can hold; the moment of asking is noted where it is not given.
        seconds: it may take.

    Raises:
        StoreError: too many wait, or the store cannot be written.
    """
    sweep(root)
    if len(waiting(root)) >= MOST_WAITING:
        raise StoreError(f"{MOST_WAITING} deep recalls wait already", "ask again later, or without the tier deep")
    said = {**without_secrets(arguments), "now": arguments.get("now") or datetime.now(UTC).isoformat()}
    job = Job(secrets.token_hex(16), said, owner, time.time() + seconds, explain)
    _write(_path(root, job.id, "job"), asdict(job))
    return job


def without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What of a question may reach the disk and the endpoint."""
    names = [redact(str(name))[0] for name in arguments.get("entities") or ()]
    return {**arguments, "query": redact(str(arguments["query"]))[0], "entities": names}


def read(root: Path, identity: str) -> Job | None:
    """A job by its id; None where there is none, or none any more."""
    found = _read(_path(root, identity, "job")) if _NAME.fullmatch(identity) else None
    return Job(**found) if found else None


def is_claimed(root: Path, job: Job) -> bool:
    """Whether somebody works on a job."""
    return _is_held(_path(root, job.id, "lock"))


def waiting(root: Path) -> list[str]:
    """The jobs nothing has come of yet, and something may; oldest first."""
    folder, now = root / FOLDER, time.time()
    done = {path.stem for path in folder.glob("*.done")}
    found = [(when, path.stem) for path in folder.glob("*.job") if path.stem not in done and (when := _written(path))]
    jobs = ((name, read(root, name)) for _, name in sorted(found))
    return [name for name, job in jobs if job is not None and now < job.deadline]


def _written(path: Path) -> float:
    """When a file was last written; 0 where it is gone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def finish(root: Path, job: Job, outcome: Outcome, began: float) -> None:
    """Say what came of a job.

    Args:
        began: when it was taken up, seconds since the epoch: if anything was forgotten since, it comes to nothing.
    """
    with _writing(root, began) as unspoilt:
        found = outcome if unspoilt else Outcome(None, FORGOTTEN)
        _write(_path(root, job.id, "done"), {"replies": found.replies, "failed": found.failed})


def outcome(root: Path, job: Job) -> Outcome | None:
    """What came of a job; None while something may yet."""
    found = _read(_path(root, job.id, "done"))
    if found:
        return Outcome(replies_of(found["replies"]) if found["replies"] else None, found["failed"])
    if time.time() > job.deadline + GRACE:
        return Outcome(None, "no worker has answered in time")
    return None


def wait(root: Path, job: Job) -> Outcome:
    """What comes of a job."""
    while (found := outcome(root, job)) is None:
        time.sleep(_WAIT)
    return found


# ---------------------------------------------------------------- replies, kept


def digest(*of: object) -> str:
    """A name for all that replies hang on."""
    return hashlib.sha256(orjson.dumps(of, default=str, option=orjson.OPT_SORT_KEYS)).hexdigest()


def kept(root: Path, name: str) -> Replies | None:
    """The replies to the same question, of the same snapshot, by the same prompts; None where there are none."""
    path = _path(root, name, "kept")
    found = _read(path) if paths.age(path) < REPLIES_KEPT else None
    return replies_of({**found, "cached": True, "calls": 0}) if found else None


def keep(root: Path, name: str, replies: Replies, began: float) -> None:
    """Keep replies for whoever asks the same again; not where anything was forgotten since it `began`."""
    with _writing(root, began) as unspoilt:
        if unspoilt:
            _write(_path(root, name, "kept"), asdict(replies))


# ---------------------------------------------------------------- housekeeping


def sweep(root: Path) -> None:
    """Remove what nobody will ask for."""
    replies: list[tuple[float, Path]] = []
    for path in (root / FOLDER).glob("*.*"):
        age = paths.age(path)
        if path.suffix == ".kept":
            replies.append((age, path))
        elif age > KEPT and _NAME.fullmatch(path.stem):
            path.unlink(missing_ok=True)
    for i, (age, path) in enumerate(sorted(replies)):
        if i >= MOST_REPLIES or age > REPLIES_KEPT:
            path.unlink(missing_ok=True)


def empty(root: Path) -> None:
    """Remove every question and every reply, those that are yet to come, too: a model may repeat what it was shown."""
    if not (root / FOLDER).is_dir():
        return
    with _opened(root, "write") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        (root / FOLDER / _EMPTIED).touch(mode=0o600)
        for path in (root / FOLDER).glob("*.*"):
            if path.suffix != ".lock":
                path.unlink(missing_ok=True)


@contextmanager
def _writing(root: Path, began: float) -> Iterator[bool]:
    """While nobody empties the folder; whether nobody has since some work began."""
    with _opened(root, "write") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield _written(root / FOLDER / _EMPTIED) < began


# ---------------------------------------------------------------- who is at work


@contextmanager
def attending(root: Path) -> Iterator[bool]:
    """Be the worker that looks for jobs, as long as the block lasts; False where another one is."""
    with _locked(root, "attend") as mine:
        yield mine


def attended(root: Path) -> bool:
    """Whether a worker looks for jobs: the kernel knows, however it ended."""
    return _is_held(_path(root, "attend", "lock"))


def _is_held(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # two who look are not in each other's way
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


@contextmanager
def claim(root: Path, identity: str) -> Iterator[bool]:
    """Be the one who works on a job; False where another process is at it."""
    with _locked(root, identity) as mine:
        yield mine
        if mine:
            (root / FOLDER / f"{identity}.lock").unlink(missing_ok=True)


def slots(root: Path, n: int) -> Callable[[float], AbstractContextManager[None]]:
    """What lets n recalls of a store, of whatever process, ask the endpoint at once; see `tier.Slot`."""

    @contextmanager
    def slot(deadline: float) -> Iterator[None]:
        while True:
            for i in range(n):
                with _locked(root, f"slot-{i}") as mine:
                    if mine:
                        yield
                        return
            if time.monotonic() > deadline:
                raise Unanswered(f"{n} deep recalls ask already (HELIX_DEEP_CONCURRENT)")
            time.sleep(_WAIT)

    return slot


@contextmanager
def _locked(root: Path, name: str) -> Iterator[bool]:
    with _opened(root, name) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def _opened(root: Path, name: str) -> Iterator[int]:
    """A lock file, open."""
    folder = root / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise paths.unwritable(root, error) from None
    try:
        yield handle
    finally:
        os.close(handle)


# ---------------------------------------------------------------- files


def _path(root: Path, name: str, kind: str) -> Path:
    return root / FOLDER / f"{name}.{kind}"


def _write(path: Path, said: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        paths.write_file(path, orjson.dumps(said))
    except OSError as error:
        raise paths.unwritable(path.parent.parent, error) from None


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, orjson.JSONDecodeError):
        found = orjson.loads(path.read_bytes())
        return found if isinstance(found, dict) else None
    return None
