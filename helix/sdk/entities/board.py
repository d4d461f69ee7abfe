"""The entities of a view: counted, one for each thing that items name in several ways, with the name a person reads."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from helix.sdk.entities.counts import (
    NEVER,
    Counts,
    add_counts,
    count_facts,
    count_named,
    count_sizes,
    count_turns,
    list_distinct,
)
from helix.sdk.entities.paths import find_longest, shorten_path
from helix.snapshot.reader.entity_names import turn_path
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.text.names import NAME_KINDS
from helix.types import F64, I64, U64, Bool

SAME_NAME: Final = (*NAME_KINDS, "package")
"""Kinds of a name. Its kind depends on the sentence, so one name of several of these kinds is one entity."""


LIKELY: Final = 0.5
"""A name is of a kind if that has this share of the items that do not say what it is."""


class EntityBoard:
    """The entities of a view. An entity is a number, its place in the table of the generation.

    Of entities that are the same thing one counts for all: of a name the kind that most items give it, of a file its
    longest path. Nothing of other rows has a part in any of it.

    Args:
        project: the only project; None: all.
    """

    def __init__(self, snap: Snapshot, project: str | None) -> None:
        self.table, self._rows, self._graph, self._columns = (
            snap.files.entities,
            max(snap.rows, 1),
            snap.graph,
            snap.columns,
        )
        self.mask: Bool = snap.alive
        if project is not None:
            self.mask = snap.alive & (snap.columns.project == snap.projects.index(project))
        self.live = int(self.mask.sum())
        self._sizes = count_sizes(snap, self.mask)
        named = count_named(snap, self.table, self.mask, self._sizes)
        self._own = named.items.copy()
        turns = count_turns(snap, self.table, self.mask)
        self.same = np.arange(len(self.table.key))
        self._join_names(turns)
        self._join_paths()
        self.turns: I64 = np.bincount(self.same, turns, len(self.same)).astype(np.int64)
        self.counts = self._join_counts(named)
        self.facts = count_facts(snap, self.table, self.mask, self.same)
        shown = np.flatnonzero(self.counts.items)
        self.shown: I64 = shown[np.lexsort((self.table.key[shown], -self.counts.items[shown]))]

    # ------------------------------------------------------------ the same thing

    def _list_present(self, *kinds: str) -> I64:
        """Return the entities of some kinds that an item names."""
        codes = [code for code, kind in enumerate(self.table.kinds) if kind in kinds]
        return np.flatnonzero((self._own > 0) & np.isin(self.table.kind, codes))

    def _join_names(self, turns: I64) -> None:
        """Let one kind of each name count for all: that of a speaker, else the most named one that says what it is."""
        names, table = self._list_present(*SAME_NAME), self.table
        if not len(names):
            return
        words = table.word.take(pa.array(names)).dictionary_encode().indices.to_numpy()
        is_plain = np.array([kind == "name" for kind in table.kinds])[table.kind[names]]
        weight = np.where(is_plain, LIKELY * self._own[names], self._own[names])
        order = np.lexsort((table.key[names], is_plain, -weight, -turns[names]))
        names, words = names[order], words[order]
        _, first, group = np.unique(words, return_index=True, return_inverse=True)
        self.same[names] = names[first[group]]

    def _join_paths(self) -> None:
        """Let the longest path of each file count for all."""
        paths, turned = self.table.paths, self.table.turned
        here = np.flatnonzero(self._own[paths])
        if len(here):
            longest = find_longest([turned[at] for at in here.tolist()], self._own[paths[here]])
            self.same[paths[here]] = paths[here[longest]]

    def _join_counts(self, named: Counts) -> Counts:
        """Return the counts of what counts for others; those of the others are 0."""
        moved = np.flatnonzero(self.same != np.arange(len(self.same)))
        joined = np.unique(self.same[moved])
        for column, none in zip(named, (0, NEVER, NO_TIME, 0, 0), strict=True):
            column[moved] = column[joined] = none
        owner, row = self.find_rows(joined)
        add_counts(named, owner, self._columns.session[row], self._columns.time[row], self._sizes)
        return named

    def list_members(self, numbers: I64) -> I64:
        """Return the entities that some count for, themselves included."""
        chosen = np.zeros(len(self.same), bool)
        chosen[numbers] = True
        return np.flatnonzero(chosen[self.same] & (self._own > 0))

    def find_rows(self, numbers: I64) -> tuple[I64, I64]:
        """Return which rows name entities, each once: (entity int64[m] ascending, row int64[m])."""
        owner, row = self._list_rows(numbers)
        pairs = list_distinct(owner * self._rows + row)
        return pairs // self._rows, pairs % self._rows

    def find_named(self, numbers: I64) -> tuple[I64, I64]:
        """Return the same by row: (row int64[m] ascending, entity int64[m])."""
        owner, row = self._list_rows(numbers)
        pairs = list_distinct(row * len(self.same) + owner)
        return pairs // len(self.same), pairs % len(self.same)

    def _list_rows(self, numbers: I64) -> tuple[I64, I64]:
        members = self.list_members(numbers)
        place, row = self._graph.rows_of(self.table.key[members])
        keep = self.mask[row]
        return self.same[members[place[keep]]], row[keep].astype(np.int64)

    def list_beside(self, number: int) -> tuple[I64, I64]:
        """Return the other entities that rows of one name: (entity int64[m] ascending, rows in common int64[m])."""
        _, rows = self.find_rows(np.array([number]))
        place, keys = self._graph.entities_of(rows)
        found = self.table.find(keys)
        known = found >= 0
        pairs = list_distinct(place[known] * len(self.same) + self.same[found[known]]) % max(len(self.same), 1)
        beside, counted = np.unique(pairs, return_counts=True)
        return beside[beside != number], counted[beside != number]

    def find(self, keys: U64) -> I64:
        """Return the entities that count for some keys, without those that no item names: ascending."""
        found = self.table.find(keys)
        found = self.same[found[found >= 0]]
        return np.unique(found[self.counts.items[found] > 0])

    def find_path(self, end: str) -> I64:
        """Return the path that ends so, if it is the only one."""
        paths, turned = self._files
        wanted = turn_path(end.lower().strip())
        at = bisect_left(turned, wanted)
        found = paths[at : at + 1] if at < len(turned) and turned[at].startswith(wanted) else paths[:0]
        return found if at + 1 >= len(turned) or not turned[at + 1].startswith(wanted) else paths[:0]

    @cached_property
    def _files(self) -> tuple[I64, list[str]]:
        """The paths that count for others or for themselves, and the same turned: ascending."""
        paths, turned = self.table.paths, self.table.turned
        here = np.flatnonzero((self._own[paths] > 0) & (self.same[paths] == paths))
        return paths[here], [turned[at] for at in here.tolist()]

    @property
    def is_named(self) -> Bool:
        """Mark the entities that an item names under this very name: bool[e]."""
        return self._own > 0

    # ------------------------------------------------------------ what a person reads

    @cached_property
    def telling(self) -> F64:
        """How much each entity tells, in nats: float64[e].

        A session names its subject again and again; a common word is as evenly spread as the items. So
        the items after the first of a session count, by how much more often than by chance they name it. A tenth of
        the information of all its items orders those that no session names twice.
        """
        items = np.maximum(self.counts.items, 1)
        rare = np.log(max(self.live, 1) / items)
        about = np.maximum(self.counts.spread + self.counts.again * rare, 0.0)
        return np.where(self.counts.items > 0, about + 0.1 * items * rare, 0.0)

    def kinds_of(self, numbers: I64) -> list[str]:
        """Return the kinds of entities."""
        return [self.table.kinds[code] for code in self.table.kind[numbers].tolist()]

    def label(self, numbers: I64) -> list[str]:
        """Return the names of entities: as written, of a file the shortest end that no other file has."""
        return [
            self._write_path(word, name)
            if kind == "path"
            else self._write_relationship(word)
            if kind == "relationship"
            else find_written(word, name)
            for kind, word, name in zip(*self.table.select(numbers), strict=True)
        ]

    def _write_path(self, word: str, name: str) -> str:
        return shorten_path(self._files[1], word, find_written(word, name.replace("\\", "/")))

    def _write_relationship(self, word: str) -> str:
        """Return a relative with the name of the owner as it is written: "sister of Melanie"."""
        kin, of, owner = word.partition(" of ")
        found = self.table.find(np.array([int(hash_parts("person", owner), 16)], np.uint64))
        return kin + of + (self.label(found)[0] if found[0] >= 0 and self._own[found[0]] else owner)


def find_written(word: str, name: str) -> str:
    """Return the normalised name in the letters of the written one; as it is where that does not hold it.

    The rest of the written name, such as a line number, may be of an item that the view hides.
    """
    at = name.lower().find(word)
    return name[at : at + len(word)] if at >= 0 and len(name.lower()) == len(name) else word


def make_board(snap: Snapshot, project: str | None) -> EntityBoard:
    """Return the board of a view, which keeps it."""
    return snap.keep(("entities", project), lambda: EntityBoard(snap, project))


class Sight(NamedTuple):
    """The caller's view at a moment."""

    whole: Snapshot  # whenever it was said
    seen: Snapshot
    moment: datetime | None  # None: now
    project: str | None  # the only one; None: all
    board: EntityBoard
