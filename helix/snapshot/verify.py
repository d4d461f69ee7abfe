"""Checks every file of a store against the digests in its manifests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from helix.errors import Damaged, HelixError, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import REMEDY
from helix.snapshot.ledger import cursors
from helix.snapshot.ledger.digested_file import read_digested
from helix.snapshot.manifest import File
from helix.snapshot.partial import MARK, read_partial
from helix.snapshot.paths import ENCODER_CHOICE, OWNED, TEMPORARY
from helix.util.hashing import hash_file


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification."""

    files: int
    bytes: int
    generations: int
    problems: tuple[str, ...]  # one line each, which names the file
    orphans: tuple[str, ...]  # files that no manifest names


def verify_store(root: Path) -> VerifyReport:
    """Check CURRENT and NEXT, every manifest and all files they name, and every accepted document.

    Raises:
        StoreError: there is no store at `root`.
    """
    problems: list[str] = []
    seen: dict[str, File] = {}
    names: list[str] = []
    for pointer in ("CURRENT", "NEXT"):
        try:
            manifests.read_current(root, pointer)
        except StoreError as error:
            if not (root / "manifests").is_dir():
                raise
            problems.append(str(error))
    for path in manifests.list_manifests(root):
        names.append(path.name)
        try:
            files = manifests.load(root, path.name).files()
        except HelixError as error:
            problems.append(str(error))
            continue
        seen.update({file.path: file for file in files})
    total = 0
    named = dict(seen)
    for absent in _list_arriving(root, problems):
        seen.pop(absent, None)
    for file in seen.values():
        total += file.bytes
        if problem := find_damage(root, file):
            problems.append(problem)
    envelopes = [path for path in sorted((root / "inbox").glob("*")) if not path.name.startswith(TEMPORARY)]
    for path in envelopes:
        total += path.stat().st_size
        if not is_whole_envelope(path):
            problems.append(f"inbox/{path.name} is damaged: its bytes do not match its digest")
    sources = cursors.list_files(root)
    total += sum(path.stat().st_size for path in sources)
    problems += [
        f"sources/{path.name} is damaged: its bytes do not match its digest; remove it, and its source is read again"
        for path in cursors.list_damaged(root)
    ]
    choices = [path for path in [root / ENCODER_CHOICE] if path.exists()]
    problems += [
        f"{path.name} is damaged: its bytes do not match its digest; remove it, and it is made again"
        for path in choices
        if read_digested(path) is None
    ]
    return VerifyReport(
        len(seen) + len(envelopes) + len(sources) + len(names) + len(choices),
        total,
        len(names),
        tuple(problems),
        _find_orphans(root, named),
    )


def _list_arriving(root: Path, problems: list[str]) -> frozenset[str]:
    """Return the files that a replica still lacks; the problem that they are is added once."""
    try:
        found = read_partial(root)
    except StoreError as error:
        problems.append(str(error))
        return frozenset()
    if found is None:
        return frozenset()
    problems.append(f"{found.manifest} is still arriving: {len(found.absent)} files are missing, as {MARK} says")
    return found.absent


def require_whole(root: Path, files: Iterable[File]) -> None:
    """Compare files with their digests before they are read for a merge: a copy of damage would get a valid digest.

    Lucene checks the segments of a merge the same way (CodecReader.checkIntegrity).

    Raises:
        Damaged: a file differs from the manifest; it is named.
    """
    for file in files:
        if problem := find_damage(root, file):
            raise Damaged(f"{root}: {problem}", f"nothing was written; {REMEDY}")


def is_whole(root: Path, files: Iterable[File]) -> bool:
    """Return whether every file matches its manifest."""
    return not any(find_damage(root, file) for file in files)


def find_damage(root: Path, file: File) -> str | None:
    """Return what is wrong with one file; None if it is whole."""
    path = root / file.path
    if not path.is_file():
        return f"{file.path} is missing"
    size = path.stat().st_size
    if size != file.bytes:
        return f"{file.path} is damaged: {size} bytes, the manifest says {file.bytes}"
    digest = hash_file(path)
    if digest != file.sha256:
        return f"{file.path} is damaged: sha256 {digest[:12]}…, the manifest says {file.sha256[:12]}…"
    return None


def is_whole_envelope(path: Path) -> bool:
    """Return whether the first line of an envelope is the SHA-256 of the rest."""
    with path.open("rb") as file:
        claimed = file.readline(66)
        return claimed == hashlib.file_digest(file, "sha256").hexdigest().encode() + b"\n"


def _find_orphans(root: Path, seen: dict[str, File]) -> tuple[str, ...]:
    named = {"/".join(Path(path).parts[:2]) for path in seen}
    return tuple(
        str(path.relative_to(root))
        for folder in OWNED
        for path in sorted((root / folder).glob("[0-9a-f]*"))
        if str(path.relative_to(root)) not in named
    )
