"""Manifests: one generation each, as JSON in a file whose name contains its digest."""

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
from helix.snapshot import manifest_checks, paths

FORMAT = 3
OLDEST = 2  # format 1 was never released
READER_FLAGS: frozenset[str] = frozenset()
LEDGER = "ledger"  # flag of a manifest that lists another store's documents without their items; no commit extends it
NOTHING = "-"  # content of CURRENT until the first generation is published: a crash then loses no pointer
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
    """Deleted rows of one segment; `file` holds them as uint32, ascending."""

    segment: str
    rows: int
    file: File


@dataclass(frozen=True, slots=True)
class Index:
    """An index over the items of the segments in `covers`."""

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
    vectors: str = "int8"  # storage level: int8, binary, prefix:DIMS; "+float": rescored in half precision


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation; FORMAT.md describes the fields."""

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
        """True for a manifest that only lists the documents of another store."""
        return LEDGER in self.writer_flags

    def files(self) -> list[File]:
        """List every file this generation needs."""
        files: list[File] = [*self.encoder, *self.documents]
        files.extend(file for file in (self.forgotten, self.access) if file)
        for segment in self.segments:
            files.extend(segment.files)
        for index in self.indexes:
            files.extend(index.files)
        files.extend(deletes.file for deletes in self.deletes)
        return files


def make_id() -> str:
    """Return a new name for a segment, an index or a file."""
    return f"{time.strftime('%Y%m%d%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def describe_file(root: Path, path: Path, rows: int = 0) -> File:
    """Return path, size and digest of a file of the store."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return File(str(path.relative_to(root)), path.stat().st_size, digest, rows)


def describe_tree(root: Path, folder: Path) -> tuple[File, ...]:
    """Describe every file below a folder, by name."""
    return tuple(describe_file(root, path) for path in sorted(folder.rglob("*")) if path.is_file())


def dump(manifest: Manifest) -> tuple[str, bytes]:
    """Return the file name and bytes of a manifest."""
    data = orjson.dumps(manifest, option=orjson.OPT_APPEND_NEWLINE)  # one line, as every commit writes one
    return f"{manifest.generation:08d}-{hashlib.sha256(data).hexdigest()[:16]}.json", data


def parse(name: str, data: bytes, *, write: bool = False) -> Manifest:
    """Parse a manifest and check its digest, format and flags.

    Raises:
        StoreError: damaged, or written by a newer Helix.
    """
    where = f"manifests/{name}"
    restore = "restore it from a backup, or return to an earlier generation with 'helix rollback'"
    if name != f"{name[:8]}-{hashlib.sha256(data).hexdigest()[:16]}.json":
        # A newer format may name its manifests differently: report that first.
        damage = StoreError(f"{where} is damaged: its bytes do not match its name", restore)
        raise _find_newer(where, data, write) or damage
    if error := _find_newer(where, data, write):
        raise error
    try:
        raw = orjson.loads(data)
        manifest_checks.check_manifest(raw)
        return Manifest(
            **{
                **raw,
                "lineage": Lineage(**raw["lineage"]),
                "segments": tuple(Segment(**{**s, "files": _parse_files(s["files"])}) for s in raw["segments"]),
                "deletes": tuple(Deletes(**{**d, "file": File(**d["file"])}) for d in raw["deletes"]),
                "indexes": tuple(
                    Index(**{**i, "files": _parse_files(i["files"]), "covers": tuple(i["covers"])})
                    for i in raw["indexes"]
                ),
                "documents": _parse_files(raw["documents"]),
                "forgotten": File(**raw["forgotten"]) if raw["forgotten"] else None,
                "access": File(**raw["access"]) if raw["access"] else None,
                "encoder": _parse_files(raw["encoder"]),
                "reader_flags": tuple(raw["reader_flags"]),
                "writer_flags": tuple(raw["writer_flags"]),
            }
        )
    except manifest_checks.OutOfBounds as error:
        raise StoreError(f"{where} is damaged: {error}", restore) from None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StoreError(f"{where} is damaged: {error!r}", restore) from None


def _parse_files(raw: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
    return tuple(File(**entry) for entry in raw)


def _find_newer(where: str, data: bytes, write: bool) -> NewerStore | None:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(raw, dict):
        return None
    version = raw.get("format")
    if isinstance(version, int) and version > FORMAT:
        return NewerStore(
            f"{where} is of store format {version}; this Helix knows formats up to {FORMAT}", "upgrade Helix to open it"
        )
    if isinstance(version, int) and version < OLDEST:
        return NewerStore(
            f"{where} is of store format {version}, which was never released; this Helix reads {OLDEST} to {FORMAT}",
            "ingest the sources into a new store (--store)",
        )
    flags = _read_flags(raw, "reader_flags") - READER_FLAGS
    if write:
        flags |= _read_flags(raw, "writer_flags") - WRITER_FLAGS
    if flags:
        names = ", ".join(sorted(flags))
        return NewerStore(f"{where} needs features this Helix does not know: {names}", "upgrade Helix")
    return None


def _read_flags(raw: Mapping[str, Any], name: str) -> set[str]:
    """Return the flags of a manifest; none if the field is malformed, which `check_manifest` reports."""
    found = raw.get(name)
    return {flag for flag in found if isinstance(flag, str)} if isinstance(found, list) else set()


_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
_POINTER_BYTES = 256
_MANIFEST_BYTES = 64 << 20


def read_current(root: Path, pointer: str = "CURRENT") -> str | None:
    """Return the manifest that CURRENT (or NEXT) names; None if nothing is published yet.

    If manifests exist, a missing, empty, truncated or unreadable pointer is damage, never an empty store.

    Raises:
        StoreError: there is no store here, it cannot be read, or the pointer is damaged.
    """
    for _ in range(_LOOKS):
        name = _read_pointer(root, pointer)
        if name is None or (root / "manifests" / name).is_file():
            return name
    remedy = _choose_remedy(root, pointer)
    raise StoreError(f"{root / pointer} names the manifest {name!r}, which does not exist", remedy)


_LOOKS = 3  # `gc` may remove a manifest right after a newer one replaced it


def _read_pointer(root: Path, pointer: str) -> str | None:
    path = root / pointer
    try:
        data = paths.read_regular(path, _POINTER_BYTES)
    except FileNotFoundError:
        if pointer == "CURRENT" and list_manifests(root):
            raise StoreError(f"{path} is missing, but there are manifests", _choose_remedy(root, pointer)) from None
        if (root / "inbox").is_dir():
            return None
        raise StoreError(
            f"no Helix store at {root}",
            "make one with 'helix init' or 'helix ingest PATH --store DIR', or set HELIX_STORE",
        ) from None
    except PermissionError as error:
        raise StoreError(f"cannot read the store {root}: {error.strerror}", "check its permissions") from None
    except OSError as error:
        raise StoreError(f"{path} is damaged: {error.strerror or error}", _choose_remedy(root, pointer)) from None
    name = data.decode("ascii", "replace").strip()
    if name == NOTHING or not (name or list_manifests(root)):
        return None
    if not _NAME.fullmatch(name):
        what = f"it says {name[:40]!r}" if name else "it is empty"
        raise StoreError(f"{path} is damaged: {what}, which is no manifest's name", _choose_remedy(root, pointer))
    return name


def list_manifests(root: Path) -> list[Path]:
    """List the files of all manifests, the oldest first."""
    return sorted((root / "manifests").glob("[0-9]*.json"))


def parse_generation(path: Path) -> int:
    """Return the generation in a manifest's name; 0 if there is no number."""
    return int(path.name[:8]) if path.name[:8].isdecimal() else 0


def _choose_remedy(root: Path, pointer: str = "CURRENT") -> str:
    if not list_manifests(root):
        return "restore the store from a backup, or from another copy with 'helix pull'"
    if pointer != "CURRENT":
        return f"remove {root / pointer}: the running reindex starts over"
    return f"run 'helix rollback --store {root}': it returns to the newest undamaged generation"


def load(root: Path, name: str, *, write: bool = False) -> Manifest:
    """Load the manifest of that name.

    Raises:
        StoreError: it is missing, damaged or newer.
    """
    path = root / "manifests" / name
    if not _NAME.fullmatch(name):
        raise StoreError(f"{name[:80]!r} is no manifest's name", _choose_remedy(root))
    try:
        data = paths.read_regular(path, _MANIFEST_BYTES)
    except FileNotFoundError:
        fault = f"{root / 'CURRENT'} names the manifest {name!r}, which does not exist"
        raise StoreError(fault, _choose_remedy(root)) from None
    except OSError as error:
        raise StoreError(f"{path} is damaged: {error.strerror or error}", _choose_remedy(root)) from None
    return parse(name, data, write=write)


def load_readable(root: Path) -> list[tuple[str, Manifest]]:
    """Load every readable manifest, newest first, whether or not a pointer leads to it.

    Raises:
        NewerStore: a newer Helix wrote one; what it published must not be lost.
    """
    entries: list[tuple[str, Manifest]] = []
    for path in list_manifests(root):
        try:
            entries.append((path.name, load(root, path.name)))
        except NewerStore:
            raise
        except StoreError:
            continue
    return sorted(entries, key=lambda entry: (entry[1].generation, entry[1].token), reverse=True)


def list_generations(root: Path) -> list[tuple[str, Manifest]]:
    """List (name, manifest) of the retained generations along the parents of CURRENT, newest first."""
    return list_ancestors(root, read_current(root))


def list_ancestors(root: Path, name: str | None) -> list[tuple[str, Manifest]]:
    """List (name, manifest) of a generation and its retained ancestors, newest first.

    Raises:
        StoreError: its manifest is damaged.
    """
    entries: list[tuple[str, Manifest]] = []
    while name and (root / "manifests" / name).exists() and name not in {known for known, _ in entries}:
        try:
            manifest = load(root, name)
        except StoreError:
            if not entries:
                raise
            break  # the ancestors of a damaged one are unknown
        entries.append((name, manifest))
        name = manifest.parent
    return entries


def find_generation(root: Path, generation: int) -> str:
    """Return the name of a retained generation.

    Raises:
        UsageError: it is not retained.
    """
    names = {manifest.generation: name for name, manifest in list_generations(root)}
    if generation not in names:
        known = ", ".join(map(str, sorted(names))) or "none"
        raise UsageError(f"no generation {generation} of {root} is retained", f"there are: {known}")
    return names[generation]
