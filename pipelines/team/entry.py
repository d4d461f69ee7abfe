"""An entry of a team's memory: one small signed Markdown file, named by the digest of its bytes.

The file is front matter of quoted scalars, then the text. It has one form: an entry that is read and written again
gives the same bytes, or it is refused. So there is nothing to be read in two ways, and no YAML parser is needed. The
signature covers every byte but its own line. A changed file is another entry, and two files of one name are equal.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Final

from helix.redact.redact import redact
from helix.sdk.notes import MAX_NOTE
from helix.util.sanitise import sanitise_text
from pipelines.export.front_matter import write_front_matter
from pipelines.team.keys import PUBLIC, SIGNATURE, SigningKey

FORMAT: Final = "team entry 1"

FOLDERS: Final = {
    "decision": "decisions",
    "rule": "rules",
    "note": "notes",
    "team": "members",
    "member": "members",
    "removal": "members",
    "withdrawal": "withdrawals",
}
"""Kinds of entries, and the folder of each."""

LEARNED: Final = ("decision", "rule", "note")
"""Kinds that stores learn; the others say who may write."""

MAX_FILE: Final = 16 << 10
"""Bytes of a file."""

MAX_REMOVAL: Final = 4 << 20
"""Bytes of a removal, which lists every entry of its member."""

ROLES: Final = ("owner", "member")

PATH: Final = re.compile(
    r"(?:decisions|rules|notes|members|withdrawals)/[a-z0-9]+(?:-[a-z0-9]+){0,40}-([0-9a-f]{32})\.md"
)
"""Path of an entry: folder, words for a reader, id."""

ID: Final = re.compile(r"[0-9a-f]{32}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Name of a member."""

_ITEM: Final = re.compile(r"[0-9a-f]{16}")
_SAID: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_LINE: Final = re.compile(r'([a-z]+): (".*")')
_SLUG_CHARS: Final = 48
_LABEL: Final = 120  # characters of a project or a topic
_CONTEXT: Final = b"helix team entry 1\n"  # begins what is signed, so that no other signature of the key is one


class EntryRefused(Exception):
    """A file that is no entry; the message is the reason."""


@dataclass(frozen=True, slots=True)
class TeamEntry:
    """An entry. An absent part is empty; the fields of the file, in its order, then the text."""

    kind: str  # a key of FOLDERS
    project: str = ""
    topic: str = ""
    said: str = ""  # ISO 8601, UTC, seconds; shown, and the time of the item that a store learns
    name: str = ""  # of the team or the member
    role: str = ""  # of a member: one of ROLES
    key: str = ""  # public key of the team or the member
    item: str = ""  # id of the item in the store that published it
    replaces: tuple[str, ...] = ()  # entries that it replaces, ascending
    withdraws: str = ""  # entry that it withdraws
    removes: str = ""  # entry of the member that it removes
    accepts: tuple[str, ...] = ()  # of a removal: entries of that member that stay accepted, ascending
    team: str = ""  # id of the team's first entry
    signer: str = ""  # entry of the member who signed it, or the team's; empty: it is the team's
    signature: str = ""
    text: str = ""

    def dump(self) -> bytes:
        """Return the bytes of the file."""
        return self._write(self.signature)

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that the signature is of."""
        return _CONTEXT + self._write("")

    @property
    def id(self) -> str:
        """The id: 128 bits of the SHA-256 of the file."""
        return hashlib.sha256(self.dump()).hexdigest()[:32]

    @property
    def path(self) -> str:
        """The path of the file in the tree."""
        return f"{FOLDERS[self.kind]}/{_make_slug(self.name or self.topic or self.text, self.kind)}-{self.id}.md"

    def _write(self, signature: str) -> bytes:
        given: dict[str, str | Sequence[str] | None] = {"helix": FORMAT}
        given |= {name: getattr(self, name) or None for name in _FIELDS}
        given["signature"] = signature or None
        return f"{write_front_matter(given)}{self.text}\n".encode()


_FIELDS: Final = tuple(one.name for one in fields(TeamEntry) if one.name not in ("signature", "text"))
_LISTS: Final = ("replaces", "accepts")


def sign_entry(entry: TeamEntry, key: SigningKey) -> TeamEntry:
    """Return an entry with its signature."""
    return replace(entry, signature=key.sign(entry.signed_bytes))


def parse_entry(path: str, data: bytes) -> TeamEntry:
    """Return the entry of a file.

    Args:
        path: as the tree names it; any text.

    Raises:
        EntryRefused: it is no entry, or not the one that its name says.
    """
    named = PATH.fullmatch(path)
    if named is None:
        raise EntryRefused("no name of an entry")
    if len(data) > MAX_REMOVAL:
        raise EntryRefused(f"{len(data):,} bytes, more than an entry has")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise EntryRefused("not UTF-8") from None
    entry = _read_file(text)
    if len(data) > MAX_FILE and entry.kind != "removal":
        raise EntryRefused(f"{len(data):,} bytes, more than {MAX_FILE:,}")
    if entry.dump() != data:
        raise EntryRefused("not in the form of an entry: 'helix team publish' writes it")
    if entry.id != named[1]:
        raise EntryRefused("its content was changed: the name is the digest of other bytes")
    if FOLDERS[entry.kind] != path.partition("/")[0]:
        raise EntryRefused(f"a {entry.kind} in the wrong folder")
    if fault := find_fault(entry):
        raise EntryRefused(fault)
    return entry


def _read_file(text: str) -> TeamEntry:
    """Return the entry that front matter and text say, not yet checked."""
    lines = text.split("\n")
    try:
        end = lines.index("---", 1)
    except ValueError:
        raise EntryRefused("no front matter") from None
    given: dict[str, str | list[str]] = {}
    at = ""
    for line in lines[1:end]:
        found = _LINE.fullmatch(line)
        if found:
            given[found[1]] = _unquote(found[2])
        elif line.startswith("  - ") and at in given and isinstance(given[at], list):
            given[at].append(_unquote(line[4:]))  # type: ignore[union-attr]
        elif line.removesuffix(":") in _LISTS and line.endswith(":"):
            at = line[:-1]
            given[at] = []
        else:
            raise EntryRefused("front matter of another form")
    if given.pop("helix", None) != FORMAT:
        raise EntryRefused("an entry of another format; it may need a newer release")
    known = {*_FIELDS, "signature"}
    if any(name not in known or isinstance(value, list) != (name in _LISTS) for name, value in given.items()):
        raise EntryRefused("front matter with other fields")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if values.get("kind") not in FOLDERS:
        raise EntryRefused("an unknown kind of entry")
    return TeamEntry(**values, text="\n".join(lines[end + 1 :]).removesuffix("\n"))  # type: ignore[arg-type]


def _unquote(scalar: str) -> str:
    try:
        value = json.loads(scalar)
    except ValueError:
        raise EntryRefused("front matter with a damaged value") from None
    if not isinstance(value, str):
        raise EntryRefused("front matter with a value that is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise EntryRefused("front matter with half a character") from None
    return value


def find_fault(entry: TeamEntry) -> str:
    """Return the reason why an entry is not well formed; empty for a good one."""
    checks: Sequence[tuple[bool, str]] = (
        (len(entry.text) > MAX_NOTE, f"a text of {len(entry.text):,} characters, more than {MAX_NOTE:,}"),
        (entry.kind in LEARNED and not entry.text.strip(), "no text"),
        (entry.kind not in LEARNED and bool(entry.text), f"a {entry.kind} with a text"),
        (entry.text != entry.text.strip(), "blanks around the text"),
        (any(len(part) > _LABEL for part in (entry.project, entry.topic)), f"a label of more than {_LABEL} characters"),
        (_is_hidden(entry), "hidden characters, or a tag that memory is wrapped in"),
        (entry.kind in LEARNED and not _is_time(entry.said), "a time of another form"),
        (entry.kind not in LEARNED and bool(entry.said), f"a {entry.kind} with a time"),
        (bool(entry.item) and not _ITEM.fullmatch(entry.item), "an item of another form"),
        (not _has_ids(entry), "references of another form"),
        (not _has_own_fields(entry), f"the fields of a {entry.kind} are incomplete, or those of another kind"),
        (not SIGNATURE.fullmatch(entry.signature), "no signature"),
    )
    return next((reason for is_wrong, reason in checks if is_wrong), "")


def _is_hidden(entry: TeamEntry) -> bool:
    parts = (entry.text, entry.project, entry.topic)
    return any(sanitise_text(part) != part for part in parts) or any("\n" in part for part in parts[1:])


def find_secret(entry: TeamEntry) -> str:
    """Return the reason why an entry may not be merged if redaction would change it; empty for a clean one.

    Stores redact it as they learn it. This is no part of the form: a later release knows more secrets, and members of
    different releases have to agree on what an entry is.
    """
    kinds = sorted({kind for part in (entry.text, entry.project, entry.topic) for kind in redact(part)[1]})
    return f"a secret in the text ({', '.join(kinds)}): consider it known, and replace it" if kinds else ""


def _is_time(said: str) -> bool:
    try:
        return bool(_SAID.fullmatch(said)) and parse_said(said).year >= 1970
    except ValueError:
        return False


def parse_said(said: str) -> datetime:
    """Return the time of an entry."""
    return datetime.strptime(said, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def format_said(time: datetime) -> str:
    """Return a time in the form of an entry."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _has_ids(entry: TeamEntry) -> bool:
    """Return whether all references are ids, lists ascending and without repeats."""
    single = [one for one in (entry.team, entry.withdraws, entry.removes, entry.signer) if one]
    lists = (entry.replaces, entry.accepts)
    return all(ID.fullmatch(one) for one in (*single, *entry.replaces, *entry.accepts)) and all(
        list(one) == sorted(set(one)) for one in lists
    )


_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "team": ("name", "key"),
    "member": ("team", "name", "role", "key", "signer"),
    "removal": ("team", "removes", "signer"),
    "withdrawal": ("team", "withdraws", "signer"),
    **dict.fromkeys(LEARNED, ("team", "project", "said", "signer")),
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "removal": ("accepts",),
    **dict.fromkeys(LEARNED, ("topic", "item", "replaces")),
}


def _has_own_fields(entry: TeamEntry) -> bool:
    required, optional = _REQUIRED[entry.kind], _OPTIONAL.get(entry.kind, ())
    given = {name for name in _FIELDS if name != "kind" and getattr(entry, name)}
    return (
        given.issuperset(required)
        and given.issubset({*required, *optional})
        and (not entry.key or PUBLIC.fullmatch(entry.key) is not None)
        and (not entry.name or NAME.fullmatch(entry.name) is not None)
        and (not entry.role or entry.role in ROLES)
    )


def _make_slug(text: str, otherwise: str) -> str:
    """Return a few words of a text for a file's name: letters and digits of ASCII, and hyphens."""
    plain = unicodedata.normalize("NFKD", text[:400]).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))
    if len(slug) > _SLUG_CHARS:
        slug = slug[: _SLUG_CHARS + 1].rpartition("-")[0] or slug[:_SLUG_CHARS]
    return slug or otherwise
