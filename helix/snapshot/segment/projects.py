"""The project of each row: names follow from the workspaces of the live rows together (`helix.util.workspaces`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from helix.native.arrays import explain_damage
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.open import load_alive, open_segment
from helix.types import I32, U64, Bool
from helix.util.workspaces import Workspace, decode_workspace, name_workspace, name_workspaces


class NameColumn(NamedTuple):
    """A dictionary column over all segments."""

    codes: I32  # of each row, −1 for none
    names: list[str]

    @classmethod
    def join(cls, tables: Sequence[pa.Table], name: str) -> NameColumn:
        """Join the column of every segment."""
        if not tables:
            return cls(np.empty(0, np.int32), [])
        column = pa.concat_tables([table.select([name]) for table in tables]).unify_dictionaries()[name]
        names = column.chunks[-1].dictionary.to_pylist() if column.num_chunks else []
        if not names:
            return cls(np.full(len(column), -1, np.int32), [])
        return cls(np.concatenate([_fill_nulls(chunk.indices) for chunk in column.chunks]), names)

    def list_present(self, rows: Bool) -> list[int]:
        """Return the codes of some rows, ascending, without −1."""
        present = np.zeros(len(self.names) + 1, bool)
        present[self.codes[rows]] = True  # the last: −1
        return np.flatnonzero(present[:-1]).tolist()


class ProjectNames(NamedTuple):
    """The projects of a generation or of a view of it."""

    projects: NameColumn
    renamed: dict[str, str]  # live workspaces, encoded, whose project has another name than the stored one

    def name(self, workspace: str) -> str:
        """Return the project of a live workspace, which is encoded."""
        return self.renamed.get(workspace) or name_workspace(decode_workspace(workspace)) or ""


def resolve_projects(stored: NameColumn, workspaces: NameColumn, alive: Bool) -> ProjectNames:
    """Return the projects of rows as they are shown.

    Args:
        stored: the names that each row's workspace alone, or the caller, gave its project.
        alive: bool[rows]; only their workspaces count.

    Raises:
        StoreError: a workspace is damaged.
    """
    live = workspaces.list_present(alive) if workspaces.names else []
    try:
        known = {code: decode_workspace(workspaces.names[code]) for code in live}
    except ValueError:
        raise explain_damage("a column names a workspace that is none") from None
    shown = name_workspaces(known.values())
    renamed = {code: shown[known[code]] for code in live if shown[known[code]] != name_workspace(known[code])}
    if not renamed:
        return ProjectNames(stored, {})
    names = list(dict.fromkeys([*stored.names, *renamed.values()]))
    place = {name: code for code, name in enumerate(names)}
    table = np.full(len(workspaces.names) + 1, -1, np.int32)
    table[list(renamed)] = [place[name] for name in renamed.values()]
    changed = table[workspaces.codes]
    codes = np.where(changed >= 0, changed, stored.codes)
    return ProjectNames(NameColumn(codes, names), {workspaces.names[code]: name for code, name in renamed.items()})


def read_projects(root: Path, manifest: Manifest | None) -> tuple[dict[str, str], dict[Workspace, str]]:
    """Read the renamed workspaces of a generation (see `ProjectNames`), and the project of each live workspace.

    Raises:
        StoreError: a file is missing or damaged.
    """
    segments = [open_segment(root, segment, ()) for segment in (manifest.segments if manifest else ())]
    if manifest is None or not segments:
        return {}, {}
    tables = [segment.columns for segment in segments]
    alive = np.concatenate([load_alive(root, manifest, segment) for segment in segments])
    workspaces = NameColumn.join(tables, "workspace")
    found = resolve_projects(NameColumn.join(tables, "project"), workspaces, alive)
    live = [workspaces.names[code] for code in workspaces.list_present(alive)]
    return found.renamed, {decode_workspace(text): found.name(text) for text in live}


def hash_scopes(workspaces: NameColumn, renamed: Mapping[str, str]) -> U64:
    """Hash the name of each row that `resolve_projects` renamed: uint64[rows], 0 for the others.

    A fact ends only facts of the same project. Its stored slot has the stored name, which two projects may share.
    """
    known = {name: int(hash_parts("project", name), 16) for name in renamed.values()}
    table = [known[renamed[name]] if name in renamed else 0 for name in workspaces.names]
    return np.array([*table, 0], np.uint64)[workspaces.codes]


def _fill_nulls(codes: pa.Array) -> I32:
    """Return int32[n], −1 for null."""
    values = codes.to_numpy(zero_copy_only=False)  # float64 with NaN for nulls, if there are any
    return np.asarray(np.nan_to_num(values, nan=-1.0) if codes.null_count else values, np.int32)
