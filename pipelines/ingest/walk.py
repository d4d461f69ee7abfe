"""The files below the given paths, in the order in which they are accepted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from helix.sources import registry as sources

_HISTORIES: Final = frozenset({".specstory", ".aider.chat.history.md"})
"""Hidden names that are read all the same: they hold histories."""


def walk_inputs(inputs: Sequence[str | Path], note_outside: Callable[[Path], object] = bool) -> Iterator[Path]:
    """Yield the files of the given paths; walk folders in name order, without hidden entries and linked folders.

    Files that belong to another file (a database's log) are left out: they are no inputs of their own.

    Args:
        note_outside: called with each link to a file outside the given folder; the link is not followed.
    """
    for given in inputs:
        path = Path(given).expanduser()
        if not path.is_dir():
            yield path  # `accept` refuses a missing one by name
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if is_visible(name))
            for file in (Path(folder, name) for name in sorted(files) if is_visible(name)):
                if file.is_symlink() and is_outside(file, path):
                    note_outside(file)
                elif not sources.is_companion(file):
                    yield file


def is_outside(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder leads out of that folder through links."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def is_visible(name: str) -> bool:
    """Return whether a walk enters or reads an entry of this name."""
    return not name.startswith(".") or name in _HISTORIES
