"""One generation of the store, as JSON whose name carries its own digest."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from helix.errors import NewerStore, StoreError, UsageError
from helix.snapshot import manifest_checks as bounds
from helix.snapshot import paths

FORMAT = 3
OLDEST = 2  # format 1 was never released
READER_FLAGS: frozenset[str] = frozenset()
LEDGER = "ledger"
"""The flag of a manifest that says what another store has taken in, without its items: nothing is committed to it."""

WRITER_FLAGS: frozenset[str] = frozenset({LEDGER})


@dataclass(frozen=True, slots=True)
class File:
    """A file of the store. `path` is relative to the store's root."""

    path: str
    bytes: int
    sha256: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """The items of one commit."""

    id: str
    rows: int
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True)
class Deletes:
    """Rows of one segment that are gone; `file` holds them as uint32, ascending."""

    segment: str
    rows: int
    file: File


@dataclass(frozen=True, slots=True)
class Index:
    """Something built over items. `covers` names the segments it knows."""

    id: str
    kind: str
    covers: tuple[str, ...]
    files: tuple[File, ...]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lineage:
    """One encoder and one pipeline."""

    encoder: str  # fingerprint
    name: str
    dim: int
    pipeline: str  # fingerprint
    vectors: str = "int8"  # how they are searched: int8, binary, prefix:DIMS; "+float": rescored in half precision


@dataclass(frozen=True, slots=True)
class Manifest:
    """See FORMAT.md."""

    generation: int
    parent: str | None
    created: str
    lineage: Lineage
    segments: tuple[Segment, ...]
    deletes: tuple[Deletes, ...]
    indexes: tuple[Index, ...]
    documents: tuple[File, ...]
    encoder: tuple[File, ...]
    coverage: Mapping[str, Any]
    counts: Mapping[str, int]
    token: int
    forgotten: File | None = None
    access: File | None = None
    watermarks: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT
    reader_flags: tuple[str, ...] = ()
    writer_flags: tuple[str, ...] = ()

    @property
    def is_ledger(self) -> bool:
        """Whether it only says what another store holds."""
        return LEDGER in self.writer_flags

    def files(self) -> list[File]:
        """Every file this generation needs."""
        files: list[File] = [*self.encoder, *self.documents]
        files.extend(file for file in (self.forgotten, self.access) if file)
        for segment in self.segments:
            files.extend(segment.files)
        for index in self.indexes:
            files.extend(index.files)
        files.extend(deletes.file for deletes in self.deletes)
        return files


def make_id() -> str:
    """A name no other segment, index or file of the store has."""
    return f"{time.strftime('%Y%m%d%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def describe_file(root: Path, path: Path, rows: int = 0) -> File:
    """A file of the store as a manifest names it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return File(str(path.relative_to(root)), path.stat().st_size, digest, rows)


def describe_tree(root: Path, folder: Path) -> tuple[File, ...]:
    """Every file below a folder, by name."""
    return tuple(describe_file(root, path) for path in sorted(folder.rglob("*")) if path.is_file())


def dump(manifest: Manifest) -> tuple[str, bytes]:
    """File name and bytes."""
    data = orjson.dumps(manifest, option=orjson.OPT_APPEND_NEWLINE)  # one line: it is written with every commit
    return f"{manifest.generation:08d}-{hashlib.sha256(data).hexdigest()[:16]}.json", data


def parse(name: str, data: bytes, *, write: bool = False) -> Manifest:
    """Read a manifest, checking its digest, format and flags.

    Raises:
        StoreError: damaged, or written by a newer Helix.
    """
    where = f"manifests/{name}"
    restore = "restore it from a backup, or return to an earlier generation with 'helix rollback'"
    if name != f"{name[:8]}-{hashlib.sha256(data).hexdigest()[:16]}.json":
        # A newer format may name its manifests otherwise: say that first.
        raise _newer(where, data, write) or StoreError(f"{where} is damaged: its bytes do not match its name", restore)
    if error := _newer(where, data, write):
        raise error
    try:
        raw = orjson.loads(data)
        bounds.check_manifest(raw)
        return Manifest(
            **{
                **raw,
                "lineage": Lineage(**raw["lineage"]),
                "segments": tuple(Segment(**{**s, "files": _files(s["files"])}) for s in raw["segments"]),
                "deletes": tuple(Deletes(**{**d, "file": File(**d["file"])}) for d in raw["deletes"]),
                "indexes": tuple(
                    Index(**{**i, "files": _files(i["files"]), "covers": tuple(i["covers"])}) for i in raw["indexes"]
                ),
                "documents": _files(raw["documents"]),
                "forgotten": File(**raw["forgotten"]) if raw["forgotten"] else None,
                "access": File(**raw["access"]) if raw["access"] else None,
                "encoder": _files(raw["encoder"]),
                "reader_flags": tuple(raw["reader_flags"]),
                "writer_flags": tuple(raw["writer_flags"]),
            }
        )
    except bounds.OutOfBounds as error:
        raise StoreError(f"{where} is damaged: {error}", restore) from None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StoreError(f"{where} is damaged: {error!r}", restore) from None


def _files(raw: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
    return tuple(File(**entry) for entry in raw)


def _newer(where: str, data: bytes, write: bool) -> NewerStore | None:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(raw, dict):
        return None
    found = raw.get("format")
    if isinstance(found, int) and found > FORMAT:
        return NewerStore(
            f"{where} is of store format {found}; this Helix knows formats up to {FORMAT}", "upgrade Helix to open it"
        )
    if isinstance(found, int) and found < OLDEST:
        return NewerStore(
            f"{where} is of store format {found}, which was never released; this Helix reads {OLDEST} to {FORMAT}",
            "ingest the sources into a new store (--store)",
        )
    flags = _flags(raw, "reader_flags") - READER_FLAGS
    if write:
        flags |= _flags(raw, "writer_flags") - WRITER_FLAGS
    if flags:
        return NewerStore(
            f"{where} needs features this Helix does not know: {', '.join(sorted(flags))}", "upgrade Helix"
        )
    return None


def _flags(raw: Mapping[str, Any], name: str) -> set[str]:
    """Return the flags of a manifest; none where the field is no list of texts, which its bounds say next."""
    found = raw.get(name)
    return {flag for flag in found if isinstance(flag, str)} if isinstance(found, list) else set()


NOTHING = "-"
"""What CURRENT holds while the first generation is on its way: a crash then loses no pointer, there was none."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
_POINTER_BYTES = 256
_MANIFEST_BYTES = 64 << 20


def read_current(root: Path, pointer: str = "CURRENT") -> str | None:
    """Return what CURRENT (or NEXT) names; None where nothing has been published yet.

    A pointer that is missing, empty, cut or unreadable while there are manifests is damage, never an empty store.

    Raises:
        StoreError: there is no store here, it cannot be read, or the pointer is damaged.
    """
    for _ in range(_LOOKS):
        name = _read_pointer(root, pointer)
        if name is None or (root / "manifests" / name).is_file():
            return name
    raise StoreError(f"{root / pointer} names the manifest {name!r}, which does not exist", _remedy(root, pointer))


_LOOKS = 3  # `gc` may remove a manifest right after a newer one took its place


def _read_pointer(root: Path, pointer: str) -> str | None:
    path = root / pointer
    try:
        data = paths.read_regular(path, _POINTER_BYTES)
    except FileNotFoundError:
        if pointer == "CURRENT" and list_manifests(root):
            raise StoreError(f"{path} is missing, but there are manifests", _remedy(root, pointer)) from None
        if (root / "inbox").is_dir():
            return None
        raise StoreError(
            f"no Helix store at {root}", "make one with 'helix ingest PATH --store DIR', or set HELIX_STORE"
        ) from None
    except PermissionError as error:
        raise StoreError(f"cannot read the store {root}: {error.strerror}", "check its permissions") from None
    except OSError as error:
        raise StoreError(f"{path} is damaged: {error.strerror or error}", _remedy(root, pointer)) from None
    name = data.decode("ascii", "replace").strip()
    if name == NOTHING or not (name or list_manifests(root)):
        return None
    if not _NAME.fullmatch(name):
        what = f"it says {name[:40]!r}" if name else "it is empty"
        raise StoreError(f"{path} is damaged: {what}, which is no manifest's name", _remedy(root, pointer))
    return name


def list_manifests(root: Path) -> list[Path]:
    """Return the files of all manifests, the oldest first."""
    return sorted((root / "manifests").glob("[0-9]*.json"))


def parse_generation(path: Path) -> int:
    """Return the number of the generation that a manifest's name says; 0 where it says none."""
    return int(path.name[:8]) if path.name[:8].isdecimal() else 0


def _remedy(root: Path, pointer: str = "CURRENT") -> str:
    if not list_manifests(root):
        return "restore the store from a backup, or from another copy with 'helix pull'"
    if pointer != "CURRENT":
        return f"remove {root / pointer}: a reindex that was under way starts over"
    return f"run 'helix rollback --store {root}': it returns to the newest generation that is whole"


def load(root: Path, name: str, *, write: bool = False) -> Manifest:
    """The manifest of that name.

    Raises:
        StoreError: missing, damaged or newer.
    """
    path = root / "manifests" / name
    if not _NAME.fullmatch(name):
        raise StoreError(f"{name[:80]!r} is no manifest's name", _remedy(root))
    try:
        data = paths.read_regular(path, _MANIFEST_BYTES)
    except FileNotFoundError:
        raise StoreError(
            f"{root / 'CURRENT'} names the manifest {name!r}, which does not exist", _remedy(root)
        ) from None
    except OSError as error:
        raise StoreError(f"{path} is damaged: {error.strerror or error}", _remedy(root)) from None
    return parse(name, data, write=write)


def load_readable(root: Path) -> list[tuple[str, Manifest]]:
    """Read every manifest that can be read, newest first, whether a pointer leads to it or not.

    Raises:
        NewerStore: one was written by a newer Helix: what that one published must not be lost.
    """
    found: list[tuple[str, Manifest]] = []
    for path in list_manifests(root):
        try:
            found.append((path.name, load(root, path.name)))
        except NewerStore:
            raise
        except StoreError:
            continue
    return sorted(found, key=lambda entry: (entry[1].generation, entry[1].token), reverse=True)


def list_generations(root: Path) -> list[tuple[str, Manifest]]:
    """Generations that are still there, newest first: name and manifest, along the parents of CURRENT."""
    return list_ancestors(root, read_current(root))


def list_ancestors(root: Path, name: str | None) -> list[tuple[str, Manifest]]:
    """A generation and those before it that are still there, newest first.

    Raises:
        StoreError: its manifest is damaged.
    """
    found: list[tuple[str, Manifest]] = []
    while name and (root / "manifests" / name).exists() and name not in {known for known, _ in found}:
        try:
            manifest = load(root, name)
        except StoreError:
            if not found:
                raise
            break  # what came before a damaged one cannot be known
        found.append((name, manifest))
        name = manifest.parent
    return found


def find_generation(root: Path, generation: int) -> str:
    """The name of a generation that is still there.

    Raises:
        UsageError: it is not.
    """
    there = {manifest.generation: name for name, manifest in list_generations(root)}
    if generation not in there:
        known = ", ".join(map(str, sorted(there))) or "none"
        raise UsageError(f"no generation {generation} of {root} is kept", f"there are: {known}")
    return there[generation]
