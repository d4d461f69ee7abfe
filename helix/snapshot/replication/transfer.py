"""Steps that push and pull share: manifests and their ancestors on both sides, verified blocks, and the report."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from helix.errors import Damaged, HelixError, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.replication.object_store import BLOCK, MissingFile, Pointer, RemoteStore, read_blocks, read_pointer

RESTARTS = 5  # starts over at most so often because CURRENT changed and its files were deleted
MANIFEST_NAME = re.compile(r"\d{8}-[0-9a-f]{16}\.json")
SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransferReport:
    """Result of a push or pull: `transferred` of the `files` that a generation needs."""

    url: str
    generation: int
    manifest: str
    files: int
    transferred: int
    bytes: int  # of the files transferred
    removed: int  # old files
    seconds: float


def build_report(
    remote: RemoteStore, name: str, files: int, moved: list[File], removed: int, started: float
) -> TransferReport:
    """Build the report of a transfer that began at `started` (time.monotonic)."""
    return TransferReport(
        url=remote.url,
        generation=parse_generation(name),
        manifest=name,
        files=files,
        transferred=len(moved),
        bytes=sum(file.bytes for file in moved),
        removed=removed,
        seconds=round(time.monotonic() - started, 3),
    )


def retry_while_moving(current: Callable[[], str], work: Callable[[str], T], where: str, remedy: str) -> T:
    """Work on the generation that CURRENT names; start over if a file is missing and CURRENT has changed."""
    for _ in range(RESTARTS):
        name = current()
        try:
            return work(name)
        except MissingFile as missing:
            if current() == name:
                text = f"{missing} is missing, though generation {parse_generation(name)} needs it"
                raise StoreError(text, remedy) from None
    text = f"{where} published {RESTARTS} generations and deleted them while this ran"
    raise StoreError(text, "run the command again")


def parse_generation(name: str) -> int:
    """Return the generation in a manifest's name."""
    return int(name[:8])


def trace_history(name: str, load: Callable[[str], Manifest | None], down_to: int = 0) -> list[str]:
    """Return `name` and its ancestors, as far as their manifests exist and no further than generation `down_to`."""
    names = [name]
    while parse_generation(names[-1]) > down_to and (manifest := load(names[-1])) and manifest.parent:
        names.append(manifest.parent)
    return names


def load_local_manifest(root: Path, name: str) -> Manifest | None:
    """Load a manifest of the store; None if gc deleted it or it is damaged, which ends the history."""
    try:
        return manifests.load(root, name)
    except StoreError:
        return None


def load_remote_manifest(remote: RemoteStore, name: str) -> Manifest:
    """Read and parse a manifest of the remote."""
    return parse_remote_manifest(remote, name, b"".join(read_blocks(remote, f"manifests/{name}")))


def parse_remote_manifest(remote: RemoteStore, name: str, data: bytes) -> Manifest:
    """Parse a manifest of the remote, which may name only files of a store.

    Raises:
        StoreError: it is damaged or newer, or names another file.
    """
    try:
        manifest = manifests.parse(name, data)
    except HelixError as error:
        raise type(error)(f"{remote.url}: {error.what}", error.remedy) from None
    for file in manifest.files():
        # A remote is not trusted: its manifest must not write outside the store, nor over CURRENT.
        parts = PurePosixPath(file.path).parts
        if len(parts) < 2 or parts[0] not in paths.OWNED or ".." in parts or not SHA256.fullmatch(file.sha256):
            raise StoreError(
                f"{remote.url}: manifests/{name} names {file.path!r}, which is no file of a store",
                "nothing was transferred; push again from a store that 'helix verify' finds whole",
            )
    return manifest


def find_remote_manifest(remote: RemoteStore, name: str) -> Manifest | None:
    """Read and parse a manifest of the remote; None if it does not exist."""
    try:
        return load_remote_manifest(remote, name)
    except MissingFile:
        return None


def read_remote_current(remote: RemoteStore) -> str | None:
    """Return the manifest that CURRENT of the remote names; None if nothing is published.

    Raises:
        StoreError: no access, or CURRENT is damaged.
    """
    pointer = read_pointer(remote, "CURRENT")
    return None if pointer is None else parse_current(remote, pointer)


class NothingPublished(StoreError):
    """No store is published at a URL."""


def require_remote_current(remote: RemoteStore) -> str:
    """Return the manifest that CURRENT of the remote names.

    Raises:
        NothingPublished: there is no CURRENT.
        StoreError: no access, or CURRENT is damaged.
    """
    name = read_remote_current(remote)
    if name is None:
        remedy = "check the URL, or 'helix push' one there"
        raise NothingPublished(f"no Helix store is published at {remote.url}", remedy)
    return name


def parse_current(remote: RemoteStore, pointer: Pointer) -> str:
    """Return the manifest that CURRENT of the remote names.

    Raises:
        StoreError: it is damaged.
    """
    name = pointer.data.decode("ascii", "replace").strip()
    if not MANIFEST_NAME.fullmatch(name):
        raise StoreError(
            f"{remote.url}: CURRENT is damaged or of a newer Helix: it names {name[:60]!r}",
            "upgrade Helix; if that does not help, push again with --force",
        )
    return name


def verify_blocks(blocks: Iterable[bytes], file: File, where: str, remedy: str) -> Iterator[bytes]:
    """Yield the blocks, the last one only if size and digest match: a damaged file never becomes whole.

    Raises:
        Damaged: they differ.
    """
    digest, size, last = hashlib.sha256(), 0, b""
    for block in blocks:
        digest.update(block)
        size += len(block)
        if size > file.bytes:
            break
        if last:
            yield last
        last = block
    if size != file.bytes:
        raise Damaged(f"{where} is damaged: its size is not the recorded {file.bytes} bytes", remedy)
    if digest.hexdigest() != file.sha256:
        raise Damaged(f"{where} is damaged: sha256 {digest.hexdigest()[:12]}…, not {file.sha256[:12]}…", remedy)
    yield last


def read_local_blocks(root: Path, name: str) -> Iterator[bytes]:
    """Read a file of the store block by block.

    Raises:
        MissingFile: it does not exist.
        StoreError: it cannot be read.
    """
    path = root / name
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
    except FileNotFoundError:
        raise MissingFile(str(path)) from None
    except OSError as error:
        text = f"cannot read {path}: {error.strerror or error}"
        raise StoreError(text, "check its permissions and the disk") from None
