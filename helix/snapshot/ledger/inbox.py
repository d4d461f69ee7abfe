"""The inbox: envelopes of accepted documents and the state of each.

No state is recorded twice. A document is accepted if `inbox/` has its envelope, done if the current manifest's
`documents` name it, dead if `dead/` has its record, and pending otherwise. So no crash can make these disagree.

A document's name is a digest of 64 hex digits. Any other text raises UsageError and never becomes a path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from helix.errors import Damaged, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.digests import DOCUMENT, check_name
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import read_table
from helix.types import Problem

Repository = tuple[str, str]
"""Top folder and remote (host/owner/name) of a repository; an unknown one is empty."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """An accepted document, with its secrets redacted."""

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
    forgotten: bool = False  # the text is removed; the items of it that are not forgotten replace it
    after: str = ""  # the document whose source grew by this text; empty for the beginning
    first: str = ""  # the document with the beginning of that source
    instead: str = ""  # the document that held this source before it was rewritten
    lines: int = 0  # of the source before this text
    chars: int = 0
    epoch: int = 0  # how often another source replaced the one at this path
    remember: bool = False  # its forgotten items are wanted again
    repositories: Mapping[str, Repository] = field(default_factory=dict)  # by folder that the text names


def name_document(
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
    """Return a document's name: a digest of its content, format, project and ACL, but not of its origin.

    Args:
        again: how often it was forgotten and ingested again.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    # The same text after other text, or replacing another source, is another document.
    place: list[object] = [after, lines] if after else [epoch] if epoch else []
    if again:
        place += ["again", again]
    digest.update(orjson.dumps([format, project, sorted(acl), *place]))
    return digest.hexdigest()


SEAL: Final = 64  # characters of the digest that begins an envelope
ROLLED_BACK: Final = "rolled back from generation"  # begins the error of a document that a rollback made dead

_OPTIONAL: Final = ("forgotten", "after", "first", "instead", "lines", "chars", "epoch", "remember", "repositories")
"""Fields that are written only if they are not empty."""
_MAX_CACHED: Final = 64  # stores of `_done_cache`: a worker may serve thousands
_done_cache: Final[dict[Path, tuple[str | None, set[str]]]] = {}  # by store: name and documents of its manifest


def accept_envelope(root: Path, envelope: Envelope, *, settle: bool = True) -> None:
    """Write a document's envelope. It is durable on return, or for one of many after `sync_inbox`."""
    head = {
        "path": envelope.path,
        "format": envelope.format,
        "project": envelope.project,
        "acl": envelope.acl,
        "mtime": envelope.mtime,
        "accepted": envelope.accepted,
        "redacted": envelope.redacted,
        "problems": [list(problem) for problem in envelope.problems],
        **{name: value for name in _OPTIONAL if (value := getattr(envelope, name))},
    }
    body = orjson.dumps(head) + b"\n" + envelope.text.encode("utf-8", "replace")
    _write_bytes(root, envelope, hashlib.sha256(body).hexdigest().encode() + b"\n" + body, settle)


def adopt_envelope(root: Path, document: str, data: bytes, where: str) -> Envelope:
    """Accept an envelope that another machine has written, byte for byte and with its time.

    Raises:
        StoreError: it is damaged; the message names `where` it came from.
    """
    remedy = "remove it there: the machine that accepted it sends it again when its worker starts"
    envelope = _parse_envelope(document, data, where, remedy)
    _write_bytes(root, envelope, data)
    return envelope


def _locate_envelope(root: Path, document: str) -> Path:
    return root / "inbox" / check_name(document)


def _locate_dead(root: Path, document: str) -> Path:
    return root / "dead" / f"{check_name(document)}.json"


def _write_bytes(root: Path, envelope: Envelope, data: bytes, settle: bool = True) -> None:
    path = _locate_envelope(root, envelope.document)
    try:
        paths.write_file(path, data, settle=settle)
        os.utime(path, (envelope.accepted.timestamp(),) * 2)  # also if it replaces a forgotten one
    except OSError as error:
        raise paths.make_write_error(root, error) from None


def sync_inbox(root: Path) -> None:
    """Make every accepted document durable."""
    paths.sync_folder(root / "inbox")


def read_envelope(root: Path, document: str) -> Envelope:
    """Read the envelope of an accepted document.

    Raises:
        StoreError: it is missing or damaged.
    """
    path = _locate_envelope(root, document)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"no accepted document {document[:12]}… in {root / 'inbox'}", "enqueue it again") from None
    remedy = "restore it from a backup, or remove it and ingest its source again"
    return _parse_envelope(document, data, str(path), remedy)


def read_seal(root: Path, document: str) -> str:
    """Return the digest in an envelope, which changes when the envelope is replaced; empty if it is missing."""
    try:
        with _locate_envelope(root, document).open("rb") as file:
            return file.read(SEAL).decode("ascii", "replace")
    except FileNotFoundError:
        return ""


def _parse_envelope(document: str, data: bytes, where: str, remedy: str) -> Envelope:
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
        mtime=_parse_time(raw["mtime"]),
        accepted=_parse_time(raw["accepted"]) or datetime.now(UTC),
        redacted=raw["redacted"],
        problems=tuple(Problem(*entry) for entry in raw["problems"]),
        repositories={folder: (top, remote) for folder, (top, remote) in raw.pop("repositories", {}).items()},
        **{name: raw[name] for name in _OPTIONAL if name in raw},
    )


def read_accepted_time(root: Path, document: str) -> datetime | None:
    """Return the time in an envelope's header; None if it is missing or damaged."""
    try:
        with _locate_envelope(root, document).open("rb") as file:
            file.readline()
            return _parse_time(orjson.loads(file.readline())["accepted"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def is_forgotten(root: Path, document: str) -> bool:
    """Return whether the text of a document was removed, by the header of its envelope."""
    try:
        with _locate_envelope(root, document).open("rb") as file:
            file.readline()
            return bool(orjson.loads(file.readline()).get("forgotten"))
    except (OSError, ValueError, AttributeError):
        return False


def forget_text(root: Path, document: str, kept: str = "") -> None:
    """Remove a document's text and path. Its name stays, so that the same bytes are not ingested again.

    Args:
        kept: replaces the text: the items that are not forgotten, one JSON object a line.
    """
    emptied = Envelope(document, "", kept, "", None, (), None, datetime.now(UTC), {}, (), forgotten=True)
    try:
        old = read_envelope(root, document)
    except StoreError:  # damaged: no field of it can be retained
        accept_envelope(root, emptied)
        return
    place = {name: getattr(old, name) for name in _OPTIONAL if name not in ("forgotten", "remember", "repositories")}
    accept_envelope(root, replace(emptied, format=old.format, accepted=old.accepted, **place))


def _parse_time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None


def list_accepted(root: Path) -> list[str]:
    """List every accepted document by name. A copy that only serves has no inbox."""
    if not (root / "inbox").is_dir():
        return []
    # Names only: a large store has tens of thousands, and a Path each costs ten times as much.
    return sorted(filter(DOCUMENT.fullmatch, os.listdir(root / "inbox")))  # noqa: PTH208


def load_current(root: Path) -> tuple[str | None, Manifest | None]:
    """Return (name, content) of the current manifest, or Nones."""
    name = manifests.read_current(root)
    return name, manifests.load(root, name) if name else None


def list_done(root: Path, manifest: Manifest | None) -> set[str]:
    """List the documents whose items are published.

    Raises:
        StoreError: a document table is missing or damaged.
    """
    documents: set[str] = set()
    for file in manifest.documents if manifest else ():
        try:
            documents.update(read_table(root / file.path, columns=["document"])["document"].to_pylist())
        except OSError as error:
            raise make_damage_error(root / file.path, error.strerror or str(error)) from None
    return documents


def list_dead(root: Path) -> dict[str, dict[str, object]]:
    """Return the record of every document that was given up, by name."""
    records: dict[str, dict[str, object]] = {}
    for path in sorted((root / "dead").glob("[0-9a-f]*.json")):
        try:
            records[path.stem] = dict(orjson.loads(path.read_bytes()))
        except (orjson.JSONDecodeError, TypeError):  # the document is dead all the same
            records[path.stem] = {"document": path.stem, "error": f"{path} is damaged: not JSON"}
    return records


def list_pending(root: Path) -> list[str]:
    """List accepted documents that are neither done nor dead, oldest first."""
    return list_waiting(root, list_done(root, load_current(root)[1]))


def list_waiting(root: Path, done: set[str]) -> list[str]:
    """List accepted documents that are neither dead nor in `done`, oldest first."""
    finished = done | {path.stem for path in (root / "dead").glob("[0-9a-f]*.json")}
    left = [document for document in list_accepted(root) if document not in finished]
    return sorted(left, key=lambda document: ((root / "inbox" / document).stat().st_mtime_ns, document))


def measure_envelopes(root: Path, documents: Sequence[str]) -> int:
    """Return the bytes of the envelopes of documents; a removed one has none."""
    total = 0
    for document in documents:
        with contextlib.suppress(FileNotFoundError):
            total += _locate_envelope(root, document).stat().st_size
    return total


def is_pending(root: Path, document: str) -> bool:
    """Return whether one document is pending, without listing the others."""
    if not _locate_envelope(root, document).is_file() or _locate_dead(root, document).is_file():
        return False
    return not is_done(root, document)


def is_done(root: Path, document: str) -> bool:
    """Return whether the items of one document are published."""
    name, manifest = load_current(root)
    known = _done_cache.pop(root, None)
    if known is None or known[0] != name:
        known = (name, list_done(root, manifest))  # a manifest never changes, and workers ask often
    for stale in list(_done_cache)[: max(0, len(_done_cache) + 1 - _MAX_CACHED)]:  # the least recently asked
        _done_cache.pop(stale, None)
    _done_cache[root] = known
    return document in known[1]


def revive_document(root: Path, document: str) -> bool:
    """Retry a dead document. Return whether it was dead."""
    record = _locate_dead(root, document)
    if not record.exists():
        return False
    (root / "tries" / document).unlink(missing_ok=True)  # its attempts count from zero again
    record.unlink(missing_ok=True)
    return True


def give_up(root: Path, document: str, error: str) -> None:
    """Record a document as dead, with its error. Its envelope stays."""
    record = {"document": document, "error": error[:2000], "when": datetime.now(UTC)}
    paths.write_file(_locate_dead(root, document), orjson.dumps(record, option=orjson.OPT_INDENT_2))


def is_dead(root: Path, document: str) -> bool:
    """Return whether a document was given up."""
    return _locate_dead(root, document).exists()
