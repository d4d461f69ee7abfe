"""Topics of a view at a moment: what each slot holds by facts, and chains of items that change each other by links.

All of it is arithmetic on columns; no text is read.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from helix.enrich.trust import LEAST_TRUST
from helix.sdk.decisions.plain_words import list_words
from helix.snapshot.index.fact_columns import FactColumns, Sayings, find_ends
from helix.snapshot.reader.changes import MARKED
from helix.snapshot.reader.row_map import owners_of
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.types import F32, I64, ROLES, TYPES, U64, AnyArray, Bool

DECIDING_NOTHING: Final = list_words("deciding_nothing")
"""Relations of facts that decide nothing."""

REPORTED: Final = list_words("reported")
"""Relations of facts that decide nothing where an assistant states them, or who prompts one."""

REJECTING: Final = list_words("rejecting")
"""Relations of facts that reject their object."""

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class StatedFacts(NamedTuple):
    """The facts stated by a moment that decide or reject something: f of them, in the order of the snapshot."""

    number: I64  # of the snapshot
    columns: FactColumns
    ends: I64  # seconds; the least int64 if it still holds
    holds: Bool
    rejects: Bool


class Topics(NamedTuple):
    """Topics that hold by facts: t of them. A fact is a position in `StatedFacts`."""

    first: I64  # the fact that set it
    last: I64  # the last one that says the same
    fact: I64  # all facts that say so
    of: I64  # the topic of each of these


class Chains(NamedTuple):
    """Rows that later rows change: c of them, ascending."""

    old: I64
    next: I64  # the newest row that changes it
    end: I64  # the row at the end of its chain
    certainty: F32  # of the link to `next`


class TopicBoard:
    """The topics of a view at a moment.

    Args:
        at: seconds; only rows said by then count, and only those of some trust (`helix.enrich.trust`).
        project: the only project; None: all.
    """

    def __init__(self, snap: Snapshot, at: int, project: str | None) -> None:
        self.snap, self.at = snap, at
        self.said_at = snap.changes.said_at
        self.stated: Bool = snap.alive & (self.said_at <= at) & (snap.columns.confidence >= LEAST_TRUST)
        if project is not None:
            self.stated &= snap.columns.project == snap.projects.index(project)

    # ------------------------------------------------------------ facts

    @cached_property
    def facts(self) -> StatedFacts:
        """The facts of stated rows, without those that decide nothing."""
        known, find_relations = self.snap.facts.columns, self.snap.facts.find_relations
        items = self.snap.columns
        role, speaker = items.role[known.row], items.speaker[known.row]
        in_log = (role == ROLES.index("assistant")) | ((role == ROLES.index("user")) & (speaker < 0))
        idle = find_relations(DECIDING_NOTHING) | (find_relations(REPORTED) & in_log)
        number = np.flatnonzero(self.stated[known.row] & ~idle)
        columns = known.take(number)
        sayings = Sayings(self.said_at[columns.row], items.session[columns.row], items.ord[columns.row])
        ends = find_ends(columns, sayings)
        begun = columns.t_valid <= self.at
        holds = begun & ((ends == NO_TIME) | (ends > self.at)) & ~columns.closes
        return StatedFacts(number, columns, ends, holds, find_relations(REJECTING)[number])

    @cached_property
    def topics(self) -> Topics:
        """One topic a slot, or a slot and object where a slot has several at a time."""
        known = self.facts.columns
        held = np.flatnonzero(self.facts.holds & ~self.facts.rejects)
        slot = np.where(known.functional[held], known.group[held], known.group[held] ^ (known.object[held] * _MIX))
        order = np.lexsort((held, known.t_valid[held], known.object[held], slot))
        held, slot = held[order], slot[order]
        starts = _find_starts(slot, known.object[held])
        stops = np.append(starts[1:], len(held))[: len(starts)]
        # Of two objects that a slot has at once, the later one.
        latest = np.lexsort((held[starts], known.t_valid[held[starts]], slot[starts]))
        chosen = latest[np.append(slot[starts][latest][1:] != slot[starts][latest][:-1], True)[: len(latest)]]
        of, place = owners_of(starts[chosen], stops[chosen])
        return Topics(held[starts[chosen]], held[stops[chosen] - 1], held[place], of)

    @cached_property
    def _topics_by_row(self) -> tuple[I64, I64]:
        """(rows that state topics, ascending; the topic of each)."""
        rows = self.facts.columns.row[self.topics.fact]
        order = np.lexsort((self.topics.of, rows))
        return rows[order], self.topics.of[order]

    @property
    def topic_rows(self) -> I64:
        """The rows that state topics, ascending."""
        return self._topics_by_row[0]

    def rows_of(self, topic: int) -> list[int]:
        """Return the rows that state a topic, ascending."""
        low, high = self.topics.of.searchsorted((topic, topic + 1))
        return sorted(set(self.facts.columns.row[self.topics.fact[low:high]].tolist()))

    def get_last_row(self, topic: int) -> int:
        """Return the last row that states a topic."""
        return int(self.facts.columns.row[self.topics.last[topic]])

    def topics_of(self, row: int) -> list[int]:
        """Return the topics that a row states."""
        rows, topic = self._topics_by_row
        low, high = rows.searchsorted((row, row + 1))
        return sorted(set(topic[low:high].tolist()))

    def find_replaced(self, topic: int) -> list[int]:
        """Return the facts that a topic replaced, newest first: of each run of one object the first.

        An object that no fact asserts has its closing.
        """
        known, first = self.facts.columns, int(self.topics.first[topic])
        since = known.t_valid[first]
        slot = (
            _find_equal(known.group, self._by_group, known.group[first])
            if known.functional[first]
            else np.empty(0, np.int64)
        )
        own = _find_equal(known.family, self._by_family, known.family[first])
        closings = own[known.closes[own] & (known.row[own] == known.row[first]) & (known.object[own] != 0)]
        named = own[np.isin(known.object[own], known.object[closings]) & ~known.closes[own]]
        past = np.union1d(slot, named)
        past = past[~known.closes[past] & ~self.facts.holds[past] & (known.t_valid[past] <= since)]
        past = past[known.row[past] != known.row[first]]
        unasserted = closings[~np.isin(known.object[closings], known.object[past])]
        past = past[np.lexsort((past, known.t_valid[past]))]
        runs = past[_find_starts(known.object[past])]
        return [*unasserted.tolist(), *runs[::-1].tolist()]

    @cached_property
    def _by_group(self) -> I64:
        return np.argsort(self.facts.columns.group, kind="stable")

    @cached_property
    def _by_family(self) -> I64:
        return np.argsort(self.facts.columns.family, kind="stable")

    def share_slot(self, one: int, other: int) -> bool:
        """Return whether two rows state facts of one slot."""
        rows, group = self.facts.columns.row, self.facts.columns.group
        here, there = (group[slice(*rows.searchsorted((row, row + 1)))] for row in (one, other))
        return bool(np.isin(here, there).any())

    # ------------------------------------------------------------ links

    @cached_property
    def chains(self) -> Chains:
        """Chains of stated rows, by links that are certain enough to mark a row as superseded, and by facts."""
        links = self.snap.changes.links
        sure = (links.certainty >= MARKED) & self.stated[links.old] & self.stated[links.new]
        old, new, certainty = links.old[sure], links.new[sure], links.certainty[sure]
        stale, by_fact = self._link_stale_rows(np.union1d(old, new))
        old, new = np.concatenate([old, stale]), np.concatenate([new, by_fact])
        certainty = np.concatenate([certainty, np.ones(len(stale), np.float32)])
        at = self.said_at
        is_later = (at[new] > at[old]) | ((at[new] == at[old]) & (new > old))
        order = np.lexsort((new, at[new], old))
        order = order[is_later[order]]
        order = order[np.append(old[order][1:] != old[order][:-1], True)[: len(order)]]  # the newest of each
        return Chains(old[order], new[order], _follow(old[order], new[order]), certainty[order])

    def _link_stale_rows(self, rows: I64) -> tuple[I64, I64]:
        """Find rows of which no fact holds, and the row that set what now holds in a slot of theirs, if one did."""
        known = self.facts.columns
        rows = rows[self._is_stale[rows]]
        low, high = (known.row.searchsorted(rows, side) for side in ("left", "right"))
        owner, fact = owners_of(low, high)
        setting = self.topics.first[known.functional[self.topics.first]]
        setting = setting[np.argsort(known.group[setting])]
        place = np.minimum(known.group[setting].searchsorted(known.group[fact]), max(len(setting) - 1, 0))
        if not len(setting):
            return rows[:0], rows[:0]
        same = (known.group[setting][place] == known.group[fact]) & known.functional[fact]
        return rows[owner[same]], known.row[setting[place[same]]]

    @cached_property
    def _is_stale(self) -> Bool:
        """Rows that state facts of which none holds: bool[rows]."""
        stale = np.zeros(self.snap.rows, bool)
        stale[self.facts.columns.row] = True
        stale[self.facts.columns.row[self.facts.holds]] = False
        return stale

    @cached_property
    def ends(self) -> I64:
        """Rows that set something and are changed by none so far, ascending: ends of chains, and rows changed later.

        Rows that state facts of which none holds are left out.
        """
        links = self.snap.changes.links
        later = links.old[(links.certainty >= MARKED) & self.stated[links.old]]
        ends = np.union1d(self.chains.end, later)
        return ends[~np.isin(ends, self.chains.old) & ~self._is_stale[ends]]

    @cached_property
    def _by_end(self) -> I64:
        return np.argsort(self.chains.end, kind="stable")

    def find_end(self, row: int) -> int:
        """Return the end of the chain that a row begins, −1 if none changes it."""
        place = int(self.chains.old.searchsorted(row))
        return int(self.chains.end[place]) if place < len(self.chains.old) and self.chains.old[place] == row else -1

    def find_earlier(self, end: int) -> I64:
        """Return the links of the chains with an end, the newest old row first, as positions in `Chains`."""
        found = _find_equal(self.chains.end, self._by_end, end)
        old = self.chains.old[found]
        return found[np.lexsort((-old, -self.said_at[old]))]

    def rows_holding(self, terms: U64) -> I64:
        """Return the stated rows, ascending, that have all of some terms."""
        found: I64 | None = None
        for term in terms:
            rows = self.snap.lexical.postings(term)[0].astype(np.int64)
            found = rows if found is None else np.intersect1d(found, rows, assume_unique=True)
        return np.empty(0, np.int64) if found is None else found[self.stated[found]]

    def choose_newest(self, rows: I64, most: int) -> I64:
        """Return the newest rows, those of the type decision first."""
        is_other = self.snap.columns.type[rows] != TYPES.index("decision")
        return rows[np.lexsort((-rows, -self.said_at[rows], is_other))[:most]]


def _find_equal(keys: AnyArray, order: I64, key: Any) -> I64:
    """Return the positions of a key, given the order of all keys."""
    low, high = (int(np.searchsorted(keys, key, side, sorter=order)) for side in ("left", "right"))
    return order[low:high]


def _follow(old: I64, new: I64) -> I64:
    """Return the end of the chain from each old row, given ascending; each step is to a later row."""
    end, changed = new.copy(), np.arange(len(old))
    while len(changed):
        place = np.minimum(old.searchsorted(end[changed]), len(old) - 1)
        found = old[place] == end[changed]
        changed = changed[found]
        end[changed] = new[place[found]]
    return end


def _find_starts(*keys: U64) -> I64:
    """Return the starts of runs of equal keys."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    changed = np.zeros(len(keys[0]), bool)
    changed[0] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changed)
