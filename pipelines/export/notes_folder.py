"""The folder of exported notes: a manifest tells its notes from a user's own, which no export touches."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import UsageError
from helix.snapshot.paths import write_file
from pipelines.export.target import explain_failure

MANIFEST: Final = ".helix-export.json"
"""{"format": 1, "notes": {path: [digests it may have]}}"""

_FORMAT: Final = 1


def check_folder(target: Path) -> None:
    """Check that notes may be written to a folder: it is new, empty, or holds an earlier export.

    Raises:
        UsageError: it is none of these.
    """
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise UsageError(f"{target} is no folder", "name a new folder")
    if not (target / MANIFEST).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds files, and no earlier export", "name a new folder, such as one inside of it")
    _read_manifest(target)


def replace_notes(made: Path, target: Path, force: bool) -> list[str]:
    """Move the notes of a new folder into the target, and remove those that an earlier export left there.

    An edited note of the earlier export stays, unless `force`; a note of the user's own always does.

    Returns:
        the notes that stayed, relative to the target.

    Raises:
        UsageError, StoreError: the target cannot be written.
    """
    notes = sorted(path.relative_to(made).as_posix() for path in made.rglob("*.md"))
    digests = {note: _digest(made / note) for note in notes}
    try:
        if not os.path.lexists(target):
            _write_manifest(made, {note: [digest] for note, digest in digests.items()})
            made.rename(target)
            return []
        return _merge(made, target, digests, force)
    except OSError as error:
        raise explain_failure(target, error) from None


def _merge(made: Path, target: Path, digests: dict[str, str], force: bool) -> list[str]:
    before = _read_manifest(target)
    kept = [note for note in {**before, **digests} if not _may_replace(target, note, before, force)]
    free = set(digests) - set(kept)
    # Both states of a note count until all are replaced: a kill in between leaves no note that looks edited.
    both = {note: [*before.get(note, ()), *([digests[note]] if note in free else [])] for note in {*before, *free}}
    _write_manifest(target, both)
    for note in sorted(free):
        (target / note).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (made / note).replace(target / note)
    for note in sorted(set(before) - set(digests) - set(kept)):
        (target / note).unlink(missing_ok=True)
        with suppress(OSError):  # it holds other notes
            (target / note).parent.rmdir()
    rest = {note: before[note] for note in kept if note in before}
    _write_manifest(target, {**rest, **{note: [digests[note]] for note in free}})
    return sorted(kept)


def _may_replace(target: Path, note: str, before: dict[str, list[str]], force: bool) -> bool:
    """Return whether a note is absent, or as an export wrote it."""
    path = target / note
    folders = [folder for folder in path.parents if folder != target and folder.is_relative_to(target)]
    if path.is_symlink() or any(folder.is_symlink() for folder in folders):
        return False
    if not path.exists():
        return True
    return path.is_file() and note in before and (force or _digest(path) in before[note])


def _read_manifest(target: Path) -> dict[str, list[str]]:
    path = target / MANIFEST
    if not path.exists():
        return {}
    try:
        raw: Any = orjson.loads(path.read_bytes())
        if raw["format"] != _FORMAT:
            raise ValueError("another format")
        notes = {str(note): [str(digest) for digest in digests] for note, digests in raw["notes"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{path} cannot be read", "export to a new folder") from None
    outside = [note for note in notes if Path(note).is_absolute() or ".." in Path(note).parts]
    if outside:
        raise UsageError(f"{path} names {outside[0]!r}, outside of its folder", "export to a new folder")
    return notes


def _write_manifest(target: Path, notes: dict[str, list[str]]) -> None:
    raw = {"format": _FORMAT, "notes": {note: notes[note] for note in sorted(notes)}}
    write_file(target / MANIFEST, orjson.dumps(raw, option=orjson.OPT_INDENT_2))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
