"""Changes of `helix install` to an agent's files.

An edit keeps everything else in a file: its place, order and formatting. Each change is computed, checked for its
meaning, shown, and then written whole or not at all. A backup next to the file holds its content from before.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from helix.errors import StoreError, UsageError
from helix.snapshot import paths
from query.install.agents import AGENTS
from query.install.hooks import make_hooks, put_hooks, remove_hooks
from query.install.plugin import is_plugin, write_plugin
from query.install.servers import (
    make_server,
    put_json_server,
    put_toml_server,
    remove_json_server,
    remove_toml_server,
)

BACKUP: Final = ".helix-backup"
"""Suffix of a file's backup."""

Edit = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content of one file before and after; None: no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    has_entries: bool = False  # `before` has Helix's entries

    @property
    def diff(self) -> str:
        """A unified diff."""
        old, new = ((text or b"").decode().splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    @property
    def added_lines(self) -> int:
        """How many lines the change adds."""
        return sum(line.startswith("+") for line in self.diff.splitlines()[2:])

    @property
    def removed_lines(self) -> int:
        """How many lines the change takes away."""
        return sum(line.startswith("-") for line in self.diff.splitlines()[2:])

    @property
    def action(self) -> str:
        """The change in one word: made, removed or changed."""
        return "made" if self.before is None else "removed" if self.after is None else "changed"

    def write(self) -> None:
        """Write the content after the change.

        Raises:
            StoreError: the file has changed since it was read.
        """
        path = self.path.resolve()  # replaces a link's target, not the link
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (path.read_bytes() if path.exists() else None) != self.before:
            raise StoreError(f"{path} changed meanwhile", "run the command again")
        mode = path.stat().st_mode & 0o777 if self.before is not None else 0o600
        if self.after is None:
            path.unlink()
        else:
            paths.write_file(path, self.after, mode)

    def write_backup(self) -> None:
        """Back up a file that has none of Helix's entries yet."""
        if self.before is not None and not self.has_entries:
            paths.write_file(_get_backup(self.path.resolve()), self.before, self.path.stat().st_mode & 0o777)

    def remove_backup(self) -> None:
        """Remove the backup."""
        _get_backup(self.path.resolve()).unlink(missing_ok=True)


def find_helix() -> list[str]:
    """Return the command line of `helix` from any folder: this interpreter's script, else its module."""
    script = Path(sys.executable).with_name("helix")
    if os.access(script, os.X_OK):
        return [str(script)]
    path = shutil.which("helix")
    return [path] if path else [sys.executable, "-P", "-m", "helix.cli"]


def plan_changes(name: str, scope: str, helix: Sequence[str], store: Path, *, remove: bool = False) -> list[FileChange]:
    """Return the changes to an agent's files, without writing them.

    Args:
        name: of AGENTS.
        scope: user | project (the current folder).
        helix: the command.
        store: absolute.
        remove: remove Helix's entries instead.

    Raises:
        UsageError: a file cannot be edited; the error names it, with the lines to add by hand.
    """
    agent = AGENTS[name]
    servers = agent.locate(agent.servers, scope)
    entry = make_server(name, helix, store)
    if servers.suffix == ".toml":
        server_edits: tuple[Edit, Edit] = (partial(put_toml_server, entry), remove_toml_server)
    else:
        key = agent.servers_key
        server_edits = (partial(put_json_server, entry, key=key), partial(remove_json_server, key=key))
    edits: dict[Path, list[tuple[Edit, Edit]]] = {}
    if agent.events:
        hook_edits = partial(put_hooks, agent, make_hooks(agent, helix, store)), partial(remove_hooks, agent)
        edits[agent.locate(agent.hooks, scope)] = [hook_edits]
    edits.setdefault(servers, []).append(server_edits)
    changes = [_plan_change(path, pairs, remove) for path, pairs in edits.items()]
    if agent.plugin[0]:
        changes.append(_plan_plugin(agent.locate(agent.plugin, scope), write_plugin(helix, store), remove))
    return [change for change in changes if change.before != change.after]


def write_changes(changes: Sequence[FileChange], *, remove: bool = False) -> None:
    """Write planned changes, each with a backup of the file; with `remove` the backup is removed, too."""
    for change in changes:
        if not remove:
            change.write_backup()
        change.write()
        if remove:
            change.remove_backup()


def _plan_plugin(path: Path, text: str, remove: bool) -> FileChange:
    """Return the change of a file that is Helix's own.

    Raises:
        UsageError: another file has that name.
    """
    before = path.read_bytes() if path.exists() else None
    if before is not None and not is_plugin(before.decode("utf-8", "replace")):
        raise UsageError(f"{path} is not Helix's plugin", "rename it")
    return FileChange(path, before, None if remove else text.encode(), before is not None)


def _plan_change(path: Path, edits: Sequence[tuple[Edit, Edit]], remove: bool) -> FileChange:
    """Return the change of one file by pairs of edits: putting entries in, and removing them."""
    puts, removals = zip(*edits, strict=True)
    before = path.read_bytes() if path.exists() else None
    try:
        text = _decode(path, before)
        without = _apply(text, removals)
        if not remove:
            after = _apply(text, puts)
            return FileChange(path, before, after.encode() if after != text else before, without != text)
        if without == text:
            return FileChange(path, before, before)
        backup = _get_backup(path.resolve())
        original = backup.read_bytes() if backup.exists() else None
        base = _decode(backup, original)
        # Without other changes since, the file's first content returns.
        if _apply(base, removals) == base and _apply(_apply(base, puts), removals) == without:
            return FileChange(path, before, original)
        return FileChange(path, before, without.encode())
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, ValueError) else "its shape differs from the agent's documentation"
        lines = _apply(_decode(path, None), puts)
        remedy = "remove Helix's entries yourself" if remove else f"nothing was written; add this yourself:\n{lines}"
        raise UsageError(f"{path} cannot be edited: {why}", remedy) from None


def _decode(path: Path, data: bytes | None) -> str:
    if data is not None and data.strip():
        return data.decode()
    return "" if path.name.removesuffix(BACKUP).endswith(".toml") else "{}\n"


def _apply(text: str, edits: Sequence[Edit]) -> str:
    for edit in edits:
        text = edit(text)
    return text


def _get_backup(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)
