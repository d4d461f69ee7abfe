"""API keys: who asks, what they may do, and what they may see.

A key is `hx_<id>_<secret>`, the secret 256 random bits. It is shown once, when it is made; the store keeps the SHA-256
of the whole key, in a file of the owner alone. With that many random bits a plain digest is as good as a slow one, and
a request pays a microsecond for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from helix.errors import AccessError, StoreError, UsageError
from helix.settings import Settings
from helix.snapshot.paths import write_file

SCOPES: Final = ("recall", "feedback", "admin")
"""What a key may do: ask; say what was of use; see the state of the whole store and its metrics."""

FILE: Final = "keys.json"
FORMAT: Final = 1

_KEY = re.compile(r"hx_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_AGE = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


class Denied(AccessError):
    """Who asks may not: 401 nobody knows them, 403 not this, 429 not so often."""

    def __init__(self, status: int, what: str, remedy: str = "", *, wait: float = 0.0) -> None:
        super().__init__(what, remedy)
        self.status = status
        self.wait = wait  # seconds until it is worth another try


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    key: str  # id of the key; empty: the owner, on this machine
    principal: str | None
    projects: tuple[str, ...] | None  # the only ones that exist for them; None: all
    scopes: frozenset[str]

    def speaks_for(self, named: str | None) -> str | None:
        """The principal of a request. The owner may ask as anybody, a key only as its own.

        Raises:
            Denied: it names another.
        """
        if not self.key:
            return named if named is not None else self.principal
        if named not in (None, self.principal):
            raise Denied(403, "this key is not of the principal that is named", "leave `principal` out")
        return self.principal

    def needs(self, scope: str) -> None:
        """Raises Denied where the key has not the scope."""
        if scope not in self.scopes:
            raise Denied(403, f"this key has not the scope {scope}", "ask with one that has ('helix keys create')")


OWNER: Final = Caller("", None, None, frozenset(SCOPES))
"""Who may read the store's files may as well ask for everything."""


class Record(NamedTuple):
    """A key as it is stored. Times are ISO 8601, UTC."""

    id: str
    sha256: str
    principal: str
    projects: list[str] | None
    scopes: list[str]
    name: str
    created: str
    expires: str | None
    revoked: str | None

    def state(self, now: datetime) -> str:
        """live, expired or revoked."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and datetime.fromisoformat(self.expires) <= now else "live"

    def shown(self, now: datetime) -> dict[str, Any]:
        """Without the digest."""
        return {**{name: value for name, value in self._asdict().items() if name != "sha256"}, "state": self.state(now)}


def path_of(root: Path, settings: Settings) -> Path:
    """The file of a store's keys."""
    return Path(settings.keys).expanduser() if settings.keys else root / FILE


# ---------------------------------------------------------------- asking


class Keys:
    """The keys as the query process reads them: anew whenever the file is another one. Safe to share between threads.

    Args:
        path: None: there are none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._records: dict[str, Record] = {}
        self._lock = threading.Lock()

    def caller(self, key: str) -> Caller:
        """Who comes with a key.

        Raises:
            Denied: it is none, or no longer.
            StoreError: the file of keys cannot be read: then nobody is let in.
        """
        form = _KEY.fullmatch(key)
        record = self._fresh().get(form[1]) if form else None
        known = record.sha256 if record else _NOBODYS
        # Compared also where there is nothing to compare with: the time it takes tells nobody which ids there are.
        same = hmac.compare_digest(_digest(key), known)
        if record is None or not same or record.state(datetime.now(UTC)) != "live":
            raise Denied(401, "this key is unknown, expired or revoked", "make one with 'helix keys create'")
        projects = None if record.projects is None else tuple(record.projects)
        return Caller(record.id, record.principal, projects, frozenset(record.scopes))

    def _fresh(self) -> dict[str, Record]:
        if self._path is None:
            return {}
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}", "give the query process read access to it") from None
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        with self._lock:
            if seen != self._seen:
                self._records = {record.id: record for record in load(self._path)}
                self._seen = seen
            return self._records


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


_NOBODYS: Final = "0" * 64


# ---------------------------------------------------------------- keeping


def load(path: Path) -> list[Record]:
    """All keys there ever were, oldest first.

    Raises:
        StoreError: the file is damaged, or of a newer format.
    """
    try:
        raw = orjson.loads(path.read_bytes())
        if raw["format"] != FORMAT:
            raise StoreError(f"{path} has format {raw['format']}, this Helix knows {FORMAT}", "update Helix")
        return [_record(entry) for entry in raw["keys"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "give the query process read access to it") from None
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(
            f"{path} is damaged: {error}", "put it back from a backup, or remove it and make new keys"
        ) from None


def _record(entry: Any) -> Record:
    """Read one key as it was stored. Raises ValueError or TypeError where it was not."""
    record = Record(**entry)
    texts = {*(entry.keys() - {"projects", "scopes", "expires", "revoked"})}
    texts |= {name for name in ("expires", "revoked") if entry[name] is not None}
    lists = {"scopes"} if record.projects is None else {"scopes", "projects"}
    for name in sorted(texts):
        if not isinstance(entry[name], str):
            raise TypeError(f"{name} is no text")
    for name in sorted(lists):
        if not (isinstance(entry[name], list) and all(isinstance(one, str) for one in entry[name])):
            raise TypeError(f"{name} is no list of texts")
    if not _DIGEST.fullmatch(record.sha256):
        raise ValueError("sha256 is no digest")
    for moment in filter(None, (record.created, record.expires, record.revoked)):
        if datetime.fromisoformat(moment).tzinfo is None:
            raise ValueError(f"the time {moment} has no zone")
    return record


@contextmanager
def _changing(path: Path) -> Iterator[list[Record]]:
    """The keys, which are written back as they are left, one process at a time."""
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent} is no folder", "ingest something first, or name another store")
    with open(path.with_name(path.name + ".lock"), "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = load(path)
        yield records
        entries = [record._asdict() for record in records]
        write_file(path, orjson.dumps({"format": FORMAT, "keys": entries}, option=orjson.OPT_INDENT_2))


def create(
    path: Path,
    principal: str,
    *,
    projects: Sequence[str] = (),
    scopes: Sequence[str] = ("recall", "feedback"),
    expires: str | None = None,
    name: str = "",
) -> tuple[str, Record]:
    """Make a key: (the key, which nobody can be shown again; how it is stored).

    Args:
        projects: the only ones it sees; none named: all.
        expires: ISO 8601, or an age like 90d from now; None: never.

    Raises:
        UsageError: an argument is out of range.
        StoreError: the file cannot be read or written.
    """
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise UsageError(f"unknown scope {', '.join(unknown)!r}", f"there are {', '.join(SCOPES)}")
    if not principal.strip():
        raise UsageError("the principal is empty", "name who asks with this key, as ACLs name them")
    now = datetime.now(UTC)
    key, record = _new(
        principal=principal,
        projects=sorted(set(projects)) or None,
        scopes=[scope for scope in SCOPES if scope in scopes],
        name=name,
        created=_iso(now),
        expires=_iso(moment) if (moment := _ends(expires, now)) else None,
        revoked=None,
    )
    with _changing(path) as records:
        records.append(record)
    return key, record


def rotate(path: Path, identity: str, overlap: str = "1d") -> tuple[str, Record]:
    """Make a key with the rights of another, which goes on for a while.

    Raises:
        UsageError: there is no such key, or it is no longer live.
        StoreError: as for `create`.
    """
    now = datetime.now(UTC)
    with _changing(path) as records:
        at = _find(records, identity)
        old = records[at]
        if old.state(now) != "live":
            raise UsageError(f"the key {identity} is {old.state(now)}", "make a new one with 'helix keys create'")
        until = min(filter(None, (_iso(_ends(overlap, now) or now), old.expires)))
        lasts = None
        if old.expires:  # as long as the old one did
            lasts = _iso(now + (datetime.fromisoformat(old.expires) - datetime.fromisoformat(old.created)))
        rights = {**old._asdict(), "created": _iso(now), "expires": lasts}
        key, record = _new(**{name: value for name, value in rights.items() if name not in ("id", "sha256")})
        records[at] = old._replace(expires=until)
        records.append(record)
    return key, record


def revoke(path: Path, identity: str) -> Record:
    """End a key at once.

    Raises:
        UsageError: there is no such key.
        StoreError: as for `create`.
    """
    with _changing(path) as records:
        at = _find(records, identity)
        records[at] = records[at]._replace(revoked=records[at].revoked or _iso(datetime.now(UTC)))
        return records[at]


def _new(**rights: Any) -> tuple[str, Record]:
    identity = secrets.token_hex(6)
    key = f"hx_{identity}_{secrets.token_urlsafe(32)}"
    return key, Record(id=identity, sha256=_digest(key), **rights)


def _find(records: Sequence[Record], identity: str) -> int:
    for at, record in enumerate(records):
        if record.id == identity:
            return at
    raise UsageError(f"no key has the id {identity[:40]!r}", "'helix keys list' has them")


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _ends(text: str | None, now: datetime) -> datetime | None:
    """When a key ends."""
    if text is None:
        return None
    if age := _AGE.fullmatch(text.strip()):
        return now + int(age[1]) * _UNITS[age[2]]
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is no time", "give ISO 8601, or an age like 90d") from None
    if moment <= now:
        raise UsageError(f"{text!r} is past", "give a moment to come")
    return moment
