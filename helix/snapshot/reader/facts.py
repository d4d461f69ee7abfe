"""Facts of a snapshot's live items: which hold at a moment, which are superseded and by what."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from helix.snapshot.index.fact_columns import FactColumns, Sayings, find_ends, join_facts
from helix.snapshot.index.facts import FactField
from helix.snapshot.reader.row_map import RowMap, owners_of
from helix.snapshot.segment.batch import NO_TIME
from helix.snapshot.segment.layout import FACT_TEXT
from helix.snapshot.segment.open import read_table
from helix.types import F32, I64, U64, AnyArray, Bool


class Facts:
    """The facts of the live rows, numbered in the order of their rows."""

    def __init__(self, rows: RowMap) -> None:
        self._rows = rows

    @cached_property
    def columns(self) -> FactColumns:
        """One entry a fact."""
        rows = self._rows
        return join_facts(rows.segments, rows.generation.starts, rows.alive, rows.columns.fact_scopes)

    @cached_property
    def field(self) -> FactField:
        """The facts as a field to search: entry i is fact i."""
        return FactField(self._rows.segments, self._rows.generation.starts, self._rows.alive)

    # ------------------------------------------------------------ in words

    def _text_tables(self) -> Iterator[tuple[int, I64, pa.Table]]:
        """Yield, by segment: (number of its first live fact, its live facts, FACT_TEXT of all its facts)."""
        first = 0
        for start, segment in self._rows.by_segment():
            live = np.flatnonzero(self._rows.alive[start + segment.facts["row"].to_numpy().astype(np.int64)])
            if len(live):
                table = segment.fact_text
                if not len(table):  # a segment older than the index of facts
                    path = self._rows.generation.root / "segments" / segment.id / "facts.parquet"
                    table = read_table(path, FACT_TEXT.names)
                yield first, live, table
            first += len(live)

    def texts(self, facts: I64) -> list[dict[str, Any]]:
        """Read facts in words: subject, relation, object, qualifier, closes."""
        out: list[dict[str, Any]] = [{}] * len(facts)
        for first, live, table in self._text_tables():
            here = np.flatnonzero((facts >= first) & (facts < first + len(live)))
            for place, row in zip(here.tolist(), live[facts[here] - first].tolist(), strict=True):
                out[place] = {name: table[name][row].as_py() for name in FACT_TEXT.names}  # `take` imports slowly
        return out

    def naming(self, name: str) -> I64:
        """Find the facts, ascending, whose subject or object holds a name as whole words, whatever its case."""
        import pyarrow.compute as pc

        pattern = rf"(^|\W){re.escape(name)}($|\W)"
        found = [np.empty(0, np.int64)]
        for first, live, table in self._text_tables():
            matches = np.zeros(len(table), bool)
            for column in (table["subject"], table["object"]):
                matches |= pc.match_substring_regex(column, pattern, ignore_case=True).to_numpy().astype(bool)
            found.append(first + np.flatnonzero(matches[live]))
        return np.concatenate(found)

    def find_relations(self, relations: Collection[str]) -> Bool:
        """Return which facts have one of some relations: bool[facts]."""
        names, code = self._relations
        return np.isin(code, [place for place, name in enumerate(names) if name in relations])

    @cached_property
    def _relations(self) -> tuple[list[str], I64]:
        """(the relations; the place of each fact's, int64[facts])."""
        place: dict[str, int] = {}
        found = [np.empty(0, np.int64)]
        for _, live, table in self._text_tables():
            own = [place.setdefault(name, len(place)) for name in table["relation"].to_pylist()]  # imports no `compute`
            found.append(np.array(own, np.int64)[live])
        return list(place), np.concatenate(found)

    def entity_names(self, entities: U64) -> dict[int, tuple[str, str]]:
        """Read (kind, name as written) of entities, by hash, from Parquet; no recall needs it.

        Raises:
            StoreError: a file is damaged.
        """
        import pyarrow.compute as pc

        names: dict[int, tuple[str, str]] = {}
        wanted = pa.array(entities, pa.uint64())
        for segment in self._rows.segments:
            path = self._rows.generation.root / "segments" / segment.id / "entities.parquet"
            table = read_table(path, ["kind", "name", "hash"])
            for entry in table.filter(pc.is_in(table["hash"], wanted)).to_pylist():
                names.setdefault(entry["hash"], (entry["kind"], entry["name"]))
        return names

    # ------------------------------------------------------------ what holds

    @cached_property
    def ends(self) -> I64:
        """Seconds since when each fact no longer holds: int64[facts]; NO_TIME where it does."""
        items, row = self._rows.columns, self.columns.row
        return find_ends(self.columns, Sayings(items.t_valid[row], items.session[row], items.ord[row]))

    def holding(self, at: int) -> Bool:
        """Return which facts hold at a moment, in seconds: bool[facts]."""
        holds: Bool = (self.columns.t_valid <= at) & ((self.ends == NO_TIME) | (self.ends > at))
        return holds & ~self.columns.closes

    def find_superseded(self, at: int) -> I64:
        """Return the rows, ascending, that state facts of which none holds at a moment, in seconds."""
        rows, first = self._stating_rows
        if not len(rows):
            return rows
        stated = ~self.columns.closes & (self.columns.t_valid <= at)
        holds = self.holding(at)
        return rows[np.logical_or.reduceat(stated, first) & ~np.logical_or.reduceat(holds, first)]

    @cached_property
    def _stating_rows(self) -> tuple[I64, I64]:
        """(rows that state facts, ascending; the first fact of each)."""
        rows, first = np.unique(self.columns.row, return_index=True)
        return rows, first

    def successors(self, rows: I64, at: int) -> tuple[I64, I64]:
        """Find what superseded items: rows whose facts hold, of the same subject and relation, one object at a time.

        Args:
            rows: int64[n], all superseded.
            at: the moment, in seconds.

        Returns:
            (position in `rows` int64[m], row of a successor int64[m]).
        """
        known, (groups, order) = self.columns, self._by_group
        low, high = (known.row.searchsorted(rows, side) for side in ("left", "right"))
        owner, fact = owners_of(low, high)
        ended = ~known.closes[fact] & known.functional[fact] & (known.t_valid[fact] <= at)
        owner, fact = owner[ended], fact[ended]
        low, high = (groups.searchsorted(known.group[fact], side) for side in ("left", "right"))
        of, place = owners_of(low, high)
        later = order[place]
        holds = (known.t_valid[later] <= at) & ((self.ends[later] == NO_TIME) | (self.ends[later] > at))
        holds &= ~known.closes[later]
        return owner[of[holds]], known.row[later[holds]]

    @cached_property
    def _by_group(self) -> tuple[U64, I64]:
        """(groups of all facts, ascending, uint64[facts]; the fact of each int64[facts])."""
        order = np.argsort(self.columns.group, kind="stable")
        return self.columns.group[order], order

    def stale(self, rows: AnyArray, at: int) -> Bool:
        """Return which rows state facts of which none holds at a moment, in seconds: bool[len(rows)]."""
        known, out = self.columns, np.zeros(len(rows), bool)
        some = self.ending[rows].nonzero()[0]
        if not len(some):
            return out
        low, high = (known.row.searchsorted(rows[some], side) for side in ("left", "right"))
        owner, fact = owners_of(low, high)
        stated = ~known.closes[fact] & (known.t_valid[fact] <= at)
        holds = stated & ((self.ends[fact] == NO_TIME) | (self.ends[fact] > at))
        out[some[owner[stated]]] = True
        out[some[owner[holds]]] = False
        return out

    @cached_property
    def ending(self) -> Bool:
        """Rows that state a fact that ends, so that at some moment none of theirs may hold: bool[rows]."""
        out = np.zeros(self._rows.rows, bool)
        out[self.columns.row[self.ends != NO_TIME]] = True
        return out

    @cached_property
    def edges(self) -> tuple[U64, U64, F32, I64]:
        """Facts that hold, as edges between entities.

        (subjects uint64[e] sorted, objects uint64[e], confidence float32[e], the stating row int64[e]).
        """
        holds = self.ends == NO_TIME if self._rows.at is None else self.holding(self._rows.at)
        chosen = np.flatnonzero(holds & (self.columns.object_entity != 0))
        chosen = chosen[np.argsort(self.columns.subject_entity[chosen], kind="stable")]
        found = self.columns.take(chosen)
        return found.subject_entity, found.object_entity, found.confidence, found.row

    def warm(self) -> None:
        """Make the arrays that a recall needs."""
        _ = self.ends, self._stating_rows, self.ending, self._by_group, self.edges, self.field
