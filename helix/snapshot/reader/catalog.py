"""Names in a snapshot, by live item: projects, speakers, sessions, principals; and accesses."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.snapshot.reader.row_map import RowMap
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.snapshot.segment.columns import list_distinct
from helix.text.gazetteer import COMMON_WORDS
from helix.text.tokenize import STOP_WORDS, split_project_words
from helix.types import I64, U32, U64, Bool
from helix.util.note_names import NOTE, NOTES, PINNED, TEAM, TEAM_SESSIONS
from helix.util.workspaces import (
    Workspace,
    decode_workspace,
    extend_names,
    find_old_name,
    get_last_name,
    has_end,
    list_old_names,
    name_workspace,
)

_FEW_NAMES: Final = 200_000
"""Up to so many ACL entries, Python finds the different ones faster than Arrow's `unique` is imported."""


class Catalog:
    """Projects, speakers, sessions and principals of the live rows.

    Args:
        base: the catalog of the whole generation, for a view; what is the same in both is taken from it.
    """

    def __init__(self, rows: RowMap, base: Catalog | None = None) -> None:
        self._rows, self._base = rows, base
        self.projects, self.speakers = rows.columns.projects, rows.columns.speakers
        self.workspaces = rows.columns.workspaces

    def replace_rows(self, rows: RowMap) -> Catalog:
        """Return the same catalog with other live rows, whose projects are listed again."""
        other = copy(self)
        for name in ("live_projects", "project_of", "old_projects"):
            vars(other).pop(name, None)
        other._rows = rows
        return other

    @cached_property
    def live_projects(self) -> list[str]:
        """Projects with a live item."""
        return [self.projects[code] for code in self._live_codes("project")]

    @cached_property
    def project_of(self) -> dict[Workspace, str]:
        """The project of each workspace of a live item."""
        live = [self.workspaces[code] for code in self._live_codes("workspace")]
        return {decode_workspace(text): self._name_project(text) for text in live}

    def _name_project(self, workspace: str) -> str:
        """Return the project of a live workspace, which is encoded."""
        return self._rows.columns.renamed.get(workspace) or name_workspace(decode_workspace(workspace)) or ""

    @cached_property
    def old_projects(self) -> dict[str, list[str]]:
        """Live projects by each other name that they had when a folder named a project; both ascending."""
        return list_old_names(self.project_of)

    def find_projects(self, name: str) -> list[str]:
        """Find the live projects that a name may mean which none of them has, ascending.

        It may be an old name, or the end of the path of a repository: of its remote or of its top folder.
        """
        return sorted(self._find_by_path(name).union(self.old_projects.get(name, ())))

    def _find_by_path(self, end: str) -> set[str]:
        return {project for workspace, project in self.project_of.items() if has_end(workspace, end)}

    def locate_project(self, workspaces: Sequence[Workspace]) -> str | None:
        """Return the live project of the first of some workspaces that is in one; None if none is."""
        unplaced = self._rows.alive & (self._rows.columns.workspace < 0)
        codes = _distinct_codes(self._rows.columns.project[unplaced] + 1, len(self.projects) + 1).tolist()
        named = {self.projects[code - 1] for code in codes if code}  # by a caller, or by an earlier release
        placed = set(self.project_of.values())
        for workspace in workspaces:
            project = extend_names(self.project_of, [workspace])[workspace]
            if project in placed | named:
                return project
            if (old := get_last_name(workspace.folder)) in named - placed:  # else it may be another repository's
                return old
        return None

    @cached_property
    def project_names(self) -> dict[str, list[tuple[tuple[str, ...], int]]]:
        """Live projects that a question can name, by first word: (words, code). A common word alone is no name."""
        names: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for code in self._live_codes("project"):
            words = split_project_words(self.projects[code])
            if len(words) > 1 or (words and len(words[0]) > 2 and words[0] not in STOP_WORDS | COMMON_WORDS):
                names.setdefault(words[0], []).append((words, code))
        return names

    @cached_property
    def live_speakers(self) -> list[int]:
        """Codes of the speakers of live items."""
        return self._live_codes("speaker")

    def _live_codes(self, name: str) -> list[int]:
        """Return the codes in a column of live items, ascending, without −1 (none)."""
        columns = self._rows.columns
        codes = _distinct_codes(getattr(columns, name)[self._rows.alive] + 1, len(getattr(columns, f"{name}s")) + 1)
        return [code - 1 for code in codes.tolist() if code]

    def live_sessions(self, keys: U64) -> tuple[int, ...]:
        """Return the codes of those sessions, by key, that have a live item."""
        codes, session = np.flatnonzero(np.isin(self._rows.sessions, keys)), self._rows.columns.session
        return tuple(code for code in codes.tolist() if self._rows.alive[session == code].any())

    @cached_property
    def note_sessions(self) -> dict[str, int]:
        """The code of each live session of notes or of a team's entries, by name; every recall asks for them."""
        sources = {NOTES: NOTE, PINNED: NOTE, **dict.fromkeys(TEAM_SESSIONS.values(), TEAM)}
        keys = {name: np.array([int(hash_parts(source, name), 16)], np.uint64) for name, source in sources.items()}
        return {name: codes[0] for name, key in keys.items() if (codes := self.live_sessions(key))}

    def sessions_named(self, name: str) -> tuple[int, ...]:
        """Return the codes of the live sessions of a name; each source may have one."""
        from helix.sources.registry import FORMATS

        return self.live_sessions(np.array([int(hash_parts(source, name), 16) for source in FORMATS], np.uint64))

    @cached_property
    def session_spans(self) -> tuple[I64, I64]:
        """Times of the first and the last live item, int64[sessions] each; NO_TIME where none has a time."""
        columns, alive = self._rows.columns, self._rows.alive
        code, time = columns.session[alive], columns.time[alive]
        code, time = code[time != NO_TIME], time[time != NO_TIME]
        last = np.full(len(self._rows.sessions), NO_TIME)
        np.maximum.at(last, code, time)
        first = np.where(last == NO_TIME, NO_TIME, np.iinfo(np.int64).max)
        np.minimum.at(first, code, time)
        return first, last

    @cached_property
    def session_size(self) -> I64:
        """Live items of each session: int64[sessions]."""
        return np.bincount(self._rows.columns.session[self._rows.alive], minlength=len(self._rows.sessions))

    # ------------------------------------------------------------ speakers

    @cached_property
    def speaker_words(self) -> list[frozenset[str]]:
        """Words of each speaker's name, lower case."""
        if self._base:
            return self._base.speaker_words
        return [frozenset(name.lower().split()) for name in self.speakers]

    @cached_property
    def speaker_codes(self) -> dict[str, list[int]]:
        """Codes of the speakers whose names have a word, by word, lower case."""
        if self._base:
            return self._base.speaker_codes
        codes: dict[str, list[int]] = {}
        for code, words in enumerate(self.speaker_words):
            for word in words:
                codes.setdefault(word, []).append(code)
        return codes

    @cached_property
    def speakers_by_name(self) -> dict[tuple[str, ...], str]:
        """Live speakers by the words of the whole name, lower case, and by its first word where only one has it.

        Of several whose names have the same words, such as Ana and ANA, the first of the alphabet.
        """
        names = sorted({self.speakers[code] for code in self.live_speakers}, reverse=True)
        words = {name: split_project_words(name) for name in names}
        first: dict[tuple[str, ...], set[str]] = {}
        for name, own in words.items():
            if own and own[0] not in STOP_WORDS | COMMON_WORDS:
                first.setdefault(own[:1], set()).add(name)
        alone = {word: owners.pop() for word, owners in first.items() if len(owners) == 1}
        return alone | {own: name for name, own in words.items() if own}

    @cached_property
    def speaker_names(self) -> dict[int | None, frozenset[str]]:
        """Words of the names of a project's speakers, lower case, by the project's code; None: of all projects."""
        # One number a pair of project and speaker; either may be none.
        columns, width = self._rows.columns, len(self.speakers) + 1
        pairs = (columns.project.astype(np.int64) + 1) * width + columns.speaker + 1
        pairs = _distinct_codes(pairs[self._rows.alive], (len(self.projects) + 1) * width) - width
        names: dict[int | None, set[str]] = {None: set()}
        for project, speaker in zip(*(part.tolist() for part in divmod(pairs, width)), strict=True):
            words = self.speaker_words[speaker - 1] if speaker else frozenset()
            names.setdefault(project, set()).update(words)
            names[None].update(words)
        return {project: frozenset(words) for project, words in names.items()}

    # ------------------------------------------------------------ access control

    @cached_property
    def principals(self) -> frozenset[str]:
        """Every name in an ACL."""
        names = self._rows.generation.acl_names
        return list_distinct(names) if len(names) <= _FEW_NAMES else frozenset(names.unique().to_pylist())

    def named_in_acl(self, principal: str) -> Bool:
        """Return the rows whose ACL names a principal: bool[rows]."""
        import pyarrow.compute as pc  # its import takes as long as opening a small store

        generation, out = self._rows.generation, np.zeros(self._rows.rows, bool)
        equal = pc.equal(generation.acl_names, principal).to_numpy(zero_copy_only=False)
        out[generation.acl_rows[np.asarray(equal, bool)]] = True
        return out

    def list_readers(self, row: int) -> list[str]:
        """Return the principals that the ACL of a row names; empty where it has none."""
        generation = self._rows.generation
        here = np.flatnonzero(generation.acl_rows == row)
        return sorted({generation.acl_names[at].as_py() for at in here.tolist()})

    def visible_to(self, principal: str | None, projects: frozenset[str] | None) -> Bool:
        """Return the live rows that a principal may see, of some projects or of all (None): bool[rows].

        An item without an ACL is visible to everyone; one with an ACL to those it names.
        """
        unrestricted = ~self._rows.generation.restricted
        readable = unrestricted if principal is None else unrestricted | self.named_in_acl(principal)
        visible: Bool = self._rows.alive & readable
        if projects is not None:
            columns = self._rows.columns
            # A name stays valid when another project of its end comes or goes.
            others = [self._find_by_path(name) for name in projects if name not in self.live_projects]
            named = projects.union(*(found for found in others if len(found) == 1))
            allowed = np.array([name in named for name in self.projects] + [False], bool)  # the last: no project
            # Under an old name the items that had it stay visible, and no others of their project.
            before = np.zeros(len(self.workspaces) + 1, bool)
            for code in self._live_codes("workspace"):
                text = self.workspaces[code]
                old = find_old_name(decode_workspace(text), self._name_project(text))
                before[code] = bool(old) and old in projects
            visible &= allowed[columns.project] | before[columns.workspace]
        return visible

    # ------------------------------------------------------------ accesses

    @cached_property
    def last_access(self) -> I64:
        """Time of the last access: int64[rows]; an item that had none has its own time, else its place.

        So an undated item is as old as can be until somebody uses it.
        """
        if self._base:  # a view's rows have the same
            return self._base.last_access
        columns = self._rows.columns
        last = columns.place.copy()
        rows, accessed, _ = self._accesses
        last[rows] = np.maximum(last[rows], accessed)
        return last

    @cached_property
    def access_count(self) -> U32:
        """Number of accesses: uint32[rows]."""
        out = np.zeros(self._rows.rows, np.uint32)
        rows, _, count = self._accesses
        out[rows] = count
        return out

    @cached_property
    def _accesses(self) -> tuple[I64, I64, U32]:
        """(rows int64[m], last access int64[m], count uint32[m]) of the live items that were accessed."""
        access = self._rows.generation.access
        if access is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32)
        rows = self._rows.by_key(access.key)
        here = rows >= 0
        return rows[here], access.last[here], access.count[here]


def _distinct_codes(values: npt.NDArray[np.integer], bound: int) -> I64:
    """Return the different values, from 0 and below the bound, ascending; by a table where that is no larger."""
    if bound > max(len(values), 1 << 20):
        return np.unique(values).astype(np.int64)
    present = np.zeros(bound, bool)
    present[values] = True
    return np.flatnonzero(present)
