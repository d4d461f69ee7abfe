"""The ledger: which documents are accepted, and what has become of them.

Nothing is recorded twice: a document is accepted because its envelope lies in `inbox/`, done because the current
manifest's `documents` name it, dead because `dead/` does, and pending otherwise. No crash can make these disagree.

A document's name is a digest of 64 hex digits. Whatever else is given for one raises UsageError, and names no file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from helix.errors import Damaged, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.checked_arrays import damaged
from helix.snapshot.digests import DOCUMENT, check_name
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import read_table
from helix.types import Problem


@dataclass(frozen=True, slots=True)
class Envelope:
    """One accepted document. Secrets are redacted already."""

    document: str
    path: str
    text: str
    format: str
    project: str | None
    acl: tuple[str, ...]
    mtime: datetime | None
    accepted: datetime
    redacted: Mapping[str, int]
    problems: tuple[Problem, ...]
    forgotten: bool = False  # the text is gone for good; in its place are the items of it that are not forgotten
    after: str = ""  # the document whose source grew by this text; its beginning where empty
    first: str = ""  # the document with the beginning of that source
    instead: str = ""  # the document that held this source before it was written anew
    lines: int = 0  # of the source that lie before this text
    chars: int = 0
    epoch: int = 0  # how often another source took the place of the one that began at this path
    remember: bool = False  # what was forgotten of it is asked back


def name_of(
    text: str,
    format: str,
    project: str | None,
    acl: Sequence[str],
    *,
    after: str = "",
    lines: int = 0,
    epoch: int = 0,
    again: int = 0,
) -> str:
    """Return what identifies a document: its content and what it is taken as, not where it came from.

    Args:
        again: how often it was forgotten and asked back.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    # The same words behind other ones, or in place of another source, are another document.
    place: list[object] = [after, lines] if after else [epoch] if epoch else []
    if again:
        place += ["again", again]
    digest.update(orjson.dumps([format, project, sorted(acl), *place]))
    return digest.hexdigest()


_PLACE: Final = (
    "forgotten",
    "after",
    "first",
    "instead",
    "lines",
    "chars",
    "epoch",
    "remember",
)  # written where they say something


def write(root: Path, envelope: Envelope, *, settle: bool = True) -> None:
    """Make a document accepted: durable when this returns, or with `settle` once, where it is one of many."""
    head = {
        "path": envelope.path,
        "format": envelope.format,
        "project": envelope.project,
        "acl": envelope.acl,
        "mtime": envelope.mtime,
        "accepted": envelope.accepted,
        "redacted": envelope.redacted,
        "problems": [list(problem) for problem in envelope.problems],
        **{name: value for name in _PLACE if (value := getattr(envelope, name))},
    }
    body = orjson.dumps(head) + b"\n" + envelope.text.encode("utf-8", "replace")
    _place(root, envelope, hashlib.sha256(body).hexdigest().encode() + b"\n" + body, settle)


def take(root: Path, document: str, data: bytes, where: str) -> Envelope:
    """Make a document accepted whose envelope another machine has written: byte for byte, and at its time.

    Raises:
        StoreError: it is damaged; the message says `where` it came from.
    """
    remedy = "remove it there: the machine that accepted it puts it there again when its worker starts"
    envelope = _parse(document, data, where, remedy)
    _place(root, envelope, data)
    return envelope


def _envelope(root: Path, document: str) -> Path:
    return root / "inbox" / check_name(document)


def _dead(root: Path, document: str) -> Path:
    return root / "dead" / f"{check_name(document)}.json"


def _place(root: Path, envelope: Envelope, data: bytes, settle: bool = True) -> None:
    path = _envelope(root, envelope.document)
    try:
        paths.write_file(path, data, settle=settle)
        os.utime(path, (envelope.accepted.timestamp(),) * 2)  # also where it takes the place of what was forgotten
    except OSError as error:
        raise paths.unwritable(root, error) from None


def settle(root: Path) -> None:
    """Make every accepted document durable."""
    paths.sync_folder(root / "inbox")


def read(root: Path, document: str) -> Envelope:
    """An accepted document.

    Raises:
        StoreError: it is not there, or its bytes are damaged.
    """
    path = _envelope(root, document)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"no accepted document {document[:12]}… in {root / 'inbox'}", "enqueue it again") from None
    return _parse(document, data, str(path), "restore it from a backup, or remove it and ingest its source again")


def seal(root: Path, document: str) -> str:
    """The digest an envelope carries: it tells one from another that takes its place. Empty where there is none."""
    try:
        with _envelope(root, document).open("rb") as file:
            return file.read(SEAL).decode("ascii", "replace")
    except FileNotFoundError:
        return ""


SEAL: Final = 64
"""Characters of an envelope's digest, with which it begins."""


def _parse(document: str, data: bytes, where: str, remedy: str) -> Envelope:
    claimed, newline, body = data.partition(b"\n")
    if not newline:
        raise Damaged(f"{where} is damaged: it has no header", remedy)
    if hashlib.sha256(body).hexdigest().encode() != claimed:
        raise Damaged(f"{where} is damaged: its bytes do not match its digest", remedy)
    head, text = body.split(b"\n", 1)
    raw = orjson.loads(head)
    return Envelope(
        document=document,
        path=raw["path"],
        text=text.decode("utf-8"),
        format=raw["format"],
        project=raw["project"],
        acl=tuple(raw["acl"]),
        mtime=_time(raw["mtime"]),
        accepted=_time(raw["accepted"]) or datetime.now(UTC),
        redacted=raw["redacted"],
        problems=tuple(Problem(*entry) for entry in raw["problems"]),
        **{name: raw[name] for name in _PLACE if name in raw},
    )


def accepted_at(root: Path, document: str) -> datetime | None:
    """When a document was accepted, by the head of its envelope; None where that is not there or cannot be read."""
    try:
        with _envelope(root, document).open("rb") as file:
            file.readline()
            return _time(orjson.loads(file.readline())["accepted"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def is_forgotten(root: Path, document: str) -> bool:
    """Return whether the text of a document was taken away, by the head of its envelope."""
    try:
        with _envelope(root, document).open("rb") as file:
            file.readline()
            return bool(orjson.loads(file.readline()).get("forgotten"))
    except (OSError, ValueError, AttributeError):
        return False


def forget(root: Path, document: str, kept: str = "") -> None:
    """Take a document's text and path away; its name stays, so that the same bytes are not taken in again.

    Args:
        kept: what takes the place of the text: the items that are not forgotten, one JSON object a line.
    """
    nothing = Envelope(document, "", kept, "", None, (), None, datetime.now(UTC), {}, (), forgotten=True)
    try:
        old = read(root, document)
    except StoreError:  # damaged: nothing of it is worth keeping
        write(root, nothing)
        return
    place = {name: getattr(old, name) for name in _PLACE if name not in ("forgotten", "remember")}
    write(root, replace(nothing, format=old.format, accepted=old.accepted, **place))


def _time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def accepted(root: Path) -> list[str]:
    """Every accepted document, by name. A copy of a store that only serves has no inbox."""
    if not (root / "inbox").is_dir():
        return []
    # Names alone: a large store has tens of thousands, and a Path of each costs ten times as much.
    return sorted(filter(DOCUMENT.fullmatch, os.listdir(root / "inbox")))  # noqa: PTH208


def current(root: Path) -> tuple[str | None, Manifest | None]:
    """Name and content of the current manifest."""
    name = manifests.current_name(root)
    return name, manifests.load(root, name) if name else None


def done(root: Path, manifest: Manifest | None) -> set[str]:
    """Documents whose items are published.

    Raises:
        StoreError: a document table is missing or damaged.
    """
    found: set[str] = set()
    for file in manifest.documents if manifest else ():
        try:
            found.update(read_table(root / file.path, columns=["document"])["document"].to_pylist())
        except OSError as error:
            raise damaged(root / file.path, error.strerror or str(error)) from None
    return found


def dead(root: Path) -> dict[str, dict[str, object]]:
    """Documents given up, with the error."""
    found: dict[str, dict[str, object]] = {}
    for path in sorted((root / "dead").glob("[0-9a-f]*.json")):
        try:
            found[path.stem] = dict(orjson.loads(path.read_bytes()))
        except (orjson.JSONDecodeError, TypeError):  # the document is given up all the same
            found[path.stem] = {"document": path.stem, "error": f"{path} is damaged: not JSON"}
    return found


def pending(root: Path) -> list[str]:
    """Accepted, and neither done nor dead; oldest first."""
    return waiting(root, done(root, current(root)[1]))


def waiting(root: Path, done: set[str]) -> list[str]:
    """Accepted, and neither dead nor among `done`; oldest first."""
    finished = done | {path.stem for path in (root / "dead").glob("[0-9a-f]*.json")}
    left = [document for document in accepted(root) if document not in finished]
    return sorted(left, key=lambda document: ((root / "inbox" / document).stat().st_mtime_ns, document))


def is_pending(root: Path, document: str) -> bool:
    """Whether this one document waits, without a look at the others' files."""
    if not _envelope(root, document).is_file() or _dead(root, document).is_file():
        return False
    return not is_done(root, document)


def is_done(root: Path, document: str) -> bool:
    """Whether the items of this one document are published."""
    name, manifest = current(root)
    if (known := _KNOWN.get(root)) is None or known[0] != name:
        known = _KNOWN[root] = name, done(root, manifest)  # of a manifest nothing changes, and workers ask each time
    return document in known[1]


_KNOWN: Final[dict[Path, tuple[str | None, set[str]]]] = {}


ROLLED_BACK: Final = "rolled back from generation"
"""What the error of a document begins with that is dead because the generation with it was taken back."""


def revive(root: Path, document: str) -> bool:
    """Offer a dead document again; True if it was dead."""
    record = _dead(root, document)
    if not record.exists():
        return False
    (root / "tries" / document).unlink(missing_ok=True)  # it starts afresh
    record.unlink(missing_ok=True)
    return True


def give_up(root: Path, document: str, error: str) -> None:
    """Move a document to the dead, with its error; its envelope stays."""
    record = {"document": document, "error": error[:2000], "when": datetime.now(UTC)}
    paths.write_file(_dead(root, document), orjson.dumps(record, option=orjson.OPT_INDENT_2))


def is_dead(root: Path, document: str) -> bool:
    """Whether a document was given up."""
    return _dead(root, document).exists()
