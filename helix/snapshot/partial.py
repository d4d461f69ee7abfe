"""The mark of a replica whose files are still arriving: PARTIAL names the generation and the files it lacks.

It is written before CURRENT names that generation, and removed when every file is here. Until then the store answers
from words alone, and takes no writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from helix.errors import StoreError
from helix.snapshot import paths

MARK: Final = "PARTIAL"
_BYTES: Final = 64 << 20
_REMEDY: Final = "wait for the replica ('helix serve --replica-of'), or run 'helix pull'"


@dataclass(frozen=True, slots=True)
class PartialGeneration:
    """A generation that lacks files."""

    manifest: str
    absent: frozenset[str]  # paths in the store


def read_partial(root: Path) -> PartialGeneration | None:
    """Read the mark; None for a store without one.

    Raises:
        StoreError: it is damaged.
    """
    try:
        raw = orjson.loads(paths.read_regular(root / MARK, _BYTES))
        return PartialGeneration(str(raw["manifest"]), frozenset(map(str, raw["absent"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StoreError(f"{root / MARK} is damaged: {error}", "run 'helix pull' again") from None


def list_absent(root: Path, name: str | None) -> frozenset[str]:
    """Return the files of a generation that have not arrived here."""
    found = read_partial(root) if name else None
    return found.absent if found and found.manifest == name else frozenset()


def mark_partial(root: Path, name: str, absent: frozenset[str]) -> None:
    """Mark a generation before CURRENT names it."""
    data = orjson.dumps({"manifest": name, "absent": sorted(absent)})
    paths.write_file(root / MARK, data)


def clear_mark(root: Path) -> None:
    """Remove the mark, durably, once every file is here."""
    (root / MARK).unlink(missing_ok=True)
    paths.sync_folder(root)


def require_all_parts(root: Path, name: str | None) -> None:
    """Check that a generation has all its files here, before they are copied or added to.

    Raises:
        StoreError: some are still arriving.
    """
    if absent := list_absent(root, name):
        raise StoreError(f"{root} is a replica that is still arriving: {len(absent)} files are missing", _REMEDY)
