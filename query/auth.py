"""API keys: the caller of a request, its scopes, and the part of the store it sees.

A key is `hx_<id>_<secret>`, with 256 random bits in the secret. `helix keys create` prints it once; the store holds the
SHA-256 of the whole key, in a file that only the owner reads. With so many random bits a plain digest is as safe as a
slow one, and costs a request a microsecond.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from helix.errors import AccessError, StoreError, UsageError
from helix.settings import Settings
from helix.snapshot.paths import write_file
from helix.snapshot.store_names import STORE_NAME, check_store_name

SCOPES: Final = ("recall", "feedback", "remember", "forget", "admin")
"""Rights of a key: recall and browse; send feedback; write notes; delete items; read the store's status and metrics."""

FILE: Final = "keys.json"
FORMAT: Final = 1

_KEY = re.compile(r"hx_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_AGE = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class AccessDenied(AccessError):
    """A refused request: status 401 unknown caller, 403 missing right, 429 too many requests."""

    def __init__(self, status: int, what: str, remedy: str = "", *, wait: float = 0.0) -> None:
        super().__init__(what, remedy)
        self.status = status
        self.wait = wait  # seconds until a retry may succeed


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    key: str  # the key's id; empty: the owner, on this machine
    principal: str | None
    projects: tuple[str, ...] | None  # the visible ones; None: all
    scopes: frozenset[str]
    grants: Mapping[str, frozenset[str]] | None = None  # scopes by store, of a key to named stores; None: every store
    store: str | None = None  # the store that the request's path names

    def enter(self, store: str) -> Caller:
        """Return the caller with its rights in one store.

        Raises:
            AccessDenied: the key does not open it; the same as for a store that does not exist.
        """
        if self.grants is None:
            return replace(self, store=store)
        if store not in self.grants:
            raise make_unknown_store()
        return replace(self, store=store, scopes=self.grants[store])

    def check_principal(self, named: str | None) -> str | None:
        """Return the principal of a request. The owner may name any, a key only its own.

        Raises:
            AccessDenied: a key names another principal.
        """
        if not self.key:
            return named if named is not None else self.principal
        if named not in (None, self.principal):
            raise AccessDenied(403, "this key is not of the principal that is named", "leave `principal` out")
        return self.principal

    def act_as(self, named: str | None) -> Caller:
        """Return the caller as the principal of a request; see `check_principal`."""
        return replace(self, principal=self.check_principal(named))

    def check_scope(self, scope: str) -> None:
        """Raise AccessDenied without the scope."""
        if scope not in self.scopes:
            raise AccessDenied(403, f"this key lacks the scope {scope}", "use a key with it ('helix keys create')")


def make_unknown_store() -> AccessDenied:
    """Return the refusal of a store that does not exist, or that the caller may not see."""
    return AccessDenied(404, "no store of yours has this name", "GET /v1/stores lists your stores")


OWNER: Final = Caller("", None, None, frozenset(SCOPES))
"""The owner, who reads the store's files anyway and so may ask for everything."""


class KeyRecord(NamedTuple):
    """A stored key. Times are ISO 8601, UTC."""

    id: str
    sha256: str
    principal: str
    projects: list[str] | None
    scopes: list[str]
    name: str
    created: str
    expires: str | None
    revoked: str | None
    grants: dict[str, list[str]] | None = None  # scopes by store, on a server of many; None: the scopes in all of them

    def get_state(self, now: datetime) -> str:
        """Return live, expired or revoked."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and datetime.fromisoformat(self.expires) <= now else "live"

    def list_fields(self) -> dict[str, Any]:
        """Return the stored fields; without `grants` where the key has none, as earlier releases wrote it."""
        return {name: value for name, value in self._asdict().items() if name != "grants" or value is not None}

    def describe(self, now: datetime) -> dict[str, Any]:
        """Return the fields and the state, without the digest."""
        fields = {name: value for name, value in self.list_fields().items() if name != "sha256"}
        return {**fields, "state": self.get_state(now)}


def get_key_file(root: Path, settings: Settings) -> Path:
    """Return the path of a store's keys."""
    return Path(settings.keys).expanduser() if settings.keys else root / FILE


class KeyRing:
    """The keys in the query process, read again when the file changes. Safe to share between threads.

    Args:
        path: of the keys; None: no keys.
        many: the keys are of a server of many stores; otherwise a key to named stores is refused.
    """

    def __init__(self, path: Path | None, *, many: bool = False) -> None:
        self._path = path
        self._is_many = many
        self._stamp: tuple[int, int, int] | None = None  # inode, time and size of the file that was read
        self._records: dict[str, KeyRecord] = {}
        self._lock = threading.Lock()

    def identify(self, key: str) -> Caller:
        """Return the caller of a key.

        Raises:
            AccessDenied: the key is unknown, expired or revoked.
            StoreError: the key file is unreadable; then every key is refused.
        """
        form = _KEY.fullmatch(key)
        record = self._read().get(form[1]) if form else None
        # Compare even without a record: the time must not reveal which ids exist.
        is_same = hmac.compare_digest(_hash_key(key), record.sha256 if record else _NO_DIGEST)
        if record is None or not is_same or record.get_state(datetime.now(UTC)) != "live":
            raise AccessDenied(401, "this key is unknown, expired or revoked", "make one with 'helix keys create'")
        if record.grants is not None and not self._is_many:
            raise AccessDenied(403, "this key is to named stores", "ask the server of those stores")
        projects = None if record.projects is None else tuple(record.projects)
        grants = {store: frozenset(scopes) for store, scopes in (record.grants or {}).items()} or None
        return Caller(record.id, record.principal, projects, frozenset(record.scopes), grants)

    def _read(self) -> dict[str, KeyRecord]:
        if self._path is None:
            return {}
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _make_read_error(self._path, error) from None
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        with self._lock:
            if stamp != self._stamp:
                self._records = {record.id: record for record in load_keys(self._path)}
                self._stamp = stamp
            return self._records


def _hash_key(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


_NO_DIGEST: Final = "0" * 64


def _make_read_error(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: {error.strerror}", "give the query process read access to it")


def load_keys(path: Path) -> list[KeyRecord]:
    """Return every key ever made, oldest first.

    Raises:
        StoreError: the file is damaged, or of a newer format.
    """
    try:
        raw = orjson.loads(path.read_bytes())
        if raw["format"] != FORMAT:
            raise StoreError(f"{path} has format {raw['format']}, this Helix reads {FORMAT}", "update Helix")
        return [_read_record(entry) for entry in raw["keys"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _make_read_error(path, error) from None
    except (ValueError, LookupError, TypeError) as error:
        remedy = "put it back from a backup, or remove it and make new keys"
        raise StoreError(f"{path} is damaged: {error}", remedy) from None


def _read_record(entry: Any) -> KeyRecord:
    """Check and return one stored key. Raise ValueError or TypeError for a damaged one."""
    record = KeyRecord(**entry)
    for name, value in record._asdict().items():
        if value is None and name in ("projects", "expires", "revoked", "grants"):
            continue
        if name == "grants":
            _check_grants(value)
            continue
        if name in ("projects", "scopes"):
            if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
                raise TypeError(f"{name} is not a list of texts")
        elif not isinstance(value, str):
            raise TypeError(f"{name} is not a text")
    if not _DIGEST.fullmatch(record.sha256):
        raise ValueError("sha256 is not a digest")
    for moment in filter(None, (record.created, record.expires, record.revoked)):
        if datetime.fromisoformat(moment).tzinfo is None:
            raise ValueError(f"the time {moment} has no zone")
    return record


def _check_grants(value: Any) -> None:
    """Raise TypeError or ValueError for damaged grants."""
    if not isinstance(value, dict) or not value:
        raise TypeError("grants is not a table of stores")
    for store, scopes in value.items():
        if not STORE_NAME.fullmatch(store):
            raise ValueError("grants names no store")
        if not (isinstance(scopes, list) and scopes and set(scopes) <= set(SCOPES)):
            raise ValueError("grants has an unknown scope")


@contextmanager
def edit_keys(path: Path) -> Iterator[list[KeyRecord]]:
    """Yield the keys and write them back, one process at a time.

    Raises:
        StoreError: the file cannot be read or written.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent} is not a folder", "ingest something first, or name another store")
    with open(path.with_name(path.name + ".lock"), "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = load_keys(path)
        yield records
        entries = [record.list_fields() for record in records]
        write_file(path, orjson.dumps({"format": FORMAT, "keys": entries}, option=orjson.OPT_INDENT_2))


def create_key(
    path: Path,
    principal: str,
    *,
    projects: Sequence[str] = (),
    scopes: Sequence[str] = ("recall", "feedback"),
    expires: str | None = None,
    name: str = "",
    grants: Mapping[str, Sequence[str]] | None = None,
) -> tuple[str, KeyRecord]:
    """Make a key and return (key, record). The key cannot be read again later.

    Args:
        projects: the visible ones; empty: all.
        grants: scopes by store, its first one the key's own, in place of `scopes`; None: every store of the server.
        expires: ISO 8601, or an age like 90d from now; None: never.

    Raises:
        UsageError: an argument is out of range.
        StoreError: the file cannot be read or written.
    """
    for store in grants or ():
        check_store_name(store)
    given = [scopes] if grants is None else [*grants.values()]
    unknown = sorted({scope for one in given for scope in one} - set(SCOPES))
    if unknown or not given or not all(given):
        raise UsageError(f"unknown scope {', '.join(unknown)!r}", f"there are {', '.join(SCOPES)}")
    if not principal.strip():
        raise UsageError("the principal is empty", "name the caller with this key, as ACLs name it")
    now = datetime.now(UTC)
    key, record = _make_key(
        principal=principal,
        projects=sorted(set(projects)) or None,
        scopes=[scope for scope in SCOPES if any(scope in one for one in given)],
        name=name,
        created=format_moment(now),
        expires=format_moment(moment) if (moment := _parse_end(expires, now)) else None,
        revoked=None,
        grants=grants and {store: [scope for scope in SCOPES if scope in own] for store, own in grants.items()},
    )
    with edit_keys(path) as records:
        records.append(record)
    return key, record


def rotate_key(path: Path, identity: str, overlap: str = "1d") -> tuple[str, KeyRecord]:
    """Make a key with another key's rights and lifetime; the old key lives on for `overlap`.

    Raises:
        UsageError: the key is unknown or no longer live.
        StoreError: as for `create_key`.
    """
    now = datetime.now(UTC)
    with edit_keys(path) as records:
        at = _find_record(records, identity)
        old = records[at]
        if old.get_state(now) != "live":
            raise UsageError(f"the key {identity} is {old.get_state(now)}", "make a new one with 'helix keys create'")
        until = min(filter(None, (format_moment(_parse_end(overlap, now) or now), old.expires)))
        expires = None
        if old.expires:
            expires = format_moment(now + (datetime.fromisoformat(old.expires) - datetime.fromisoformat(old.created)))
        rights = {**old._asdict(), "created": format_moment(now), "expires": expires}
        key, record = _make_key(**{name: value for name, value in rights.items() if name not in ("id", "sha256")})
        records[at] = old._replace(expires=until)
        records.append(record)
    return key, record


def revoke_key(path: Path, identity: str) -> KeyRecord:
    """End a key at once.

    Raises:
        UsageError: the key is unknown.
        StoreError: as for `create_key`.
    """
    with edit_keys(path) as records:
        at = _find_record(records, identity)
        records[at] = records[at]._replace(revoked=records[at].revoked or format_moment(datetime.now(UTC)))
        return records[at]


def _make_key(**rights: Any) -> tuple[str, KeyRecord]:
    identity = secrets.token_hex(6)
    key = f"hx_{identity}_{secrets.token_urlsafe(32)}"
    return key, KeyRecord(id=identity, sha256=_hash_key(key), **rights)


def _find_record(records: Sequence[KeyRecord], identity: str) -> int:
    for at, record in enumerate(records):
        if record.id == identity:
            return at
    raise UsageError(f"no key has the id {identity[:40]!r}", "'helix keys list' prints the ids")


def format_moment(moment: datetime) -> str:
    """Return a time as the key file has it: ISO 8601, to the second."""
    return moment.isoformat(timespec="seconds")


def _parse_end(text: str | None, now: datetime) -> datetime | None:
    """Return the end that a time or an age names."""
    if text is None:
        return None
    if age := _AGE.fullmatch(text.strip()):
        return now + int(age[1]) * _UNITS[age[2]]
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time", "give ISO 8601, or an age like 90d") from None
    if moment <= now:
        raise UsageError(f"{text!r} is past", "give a future time")
    return moment
