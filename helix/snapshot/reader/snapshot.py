"""A generation, opened for reading: its files, and the live rows of it or of a view."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import EstimatedCounter, TokenCounter
from helix.errors import EncoderError
from helix.snapshot.index.flat import Gpu
from helix.snapshot.reader.catalog import Catalog
from helix.snapshot.reader.changes import Changes
from helix.snapshot.reader.citations import Citations
from helix.snapshot.reader.conditions import limit_moments, limit_projects, limit_readers
from helix.snapshot.reader.facts import Facts
from helix.snapshot.reader.generation import Generation, convert_faults, open_generation
from helix.snapshot.reader.graph import GraphView
from helix.snapshot.reader.lexical import BM25, Lexical
from helix.snapshot.reader.row_map import RowMap, map_rows
from helix.snapshot.reader.steps import Steps
from helix.snapshot.reader.vectors import Vectors
from helix.snapshot.segment.batch import NO_TIME
from helix.types import F32, AnyArray, Bool
from helix.util.threads import WorkStarter, start_in_background

if TYPE_CHECKING:
    from helix.encoders.sparse import QueryEncoder
    from helix.engines.base import Condition, Engine
    from helix.snapshot.index.tokens import TokenVectors

T = TypeVar("T")

KEPT: Final = {"entities": 2, "graph": 8}
"""What a snapshot keeps of others' work on its rows, by kind. At a million entities a list takes some 60 MB."""

VIEWS: Final = {"acl": 4, "time": 1}
"""Cached views by kind. At a million items one takes 25 MB, and a tenth of a second to make."""


class Snapshot:
    """The live rows of a generation, or fewer of them in a view, and what can be asked of them.

    `catalog` has names and accesses, `lexical` terms, `vectors`, `facts`, `changes` and `graph` what they say. Open
    one with `Snapshot.open`.
    """

    def __init__(
        self,
        generation: Generation,
        rows: RowMap,
        base: Snapshot | None = None,
        conditions: tuple[Condition, ...] = (),
    ) -> None:
        self.files, self.row_map = generation, rows
        self.root, self.name, self.manifest = generation.root, generation.name, generation.manifest
        self.rows, self.alive, self.columns, self.sessions = rows.rows, rows.alive, rows.columns, rows.sessions
        self.catalog: Catalog = Catalog(rows, base.catalog if base else None)
        self.lexical: Lexical = Lexical(rows, base.lexical if base else None)
        self.vectors: Vectors = Vectors(rows, base.vectors if base else None)
        self.facts = Facts(rows)
        self.steps: Steps = Steps(rows, base.steps if base else None)
        self.changes = Changes(rows, self.facts, self.steps)
        self.graph = GraphView(rows, self.catalog, self.facts)
        self.is_view, self.conditions = base is not None, conditions
        self._views: dict[tuple[str, Hashable], Snapshot] = {}
        self._kept: dict[tuple[str, Hashable], Any] = {}
        self._viewing = threading.Lock()

    @classmethod
    def open(
        cls,
        root: Path,
        name: str | None = None,
        *,
        threads: int = 0,
        before: Snapshot | None = None,
        gpu: Gpu | None = None,
        engine: Engine | None = None,
    ) -> Snapshot:
        """Open a generation; files are mapped, only columns are copied.

        Args:
            name: of its manifest; None: the one CURRENT names.
            before: an open generation; segments that both share are reused.
            gpu: searches the dense leg; None: the CPU does.
            engine: finds the candidates of the dense leg; None: the indexes do.

        Raises:
            StoreError: the store is missing, damaged or of a newer format; names the file.
            UsageError: the vectors do not fit the GPU.
        """
        generation = open_generation(root, name, threads, before.files if before else None, gpu, engine)
        with convert_faults(root, generation.name):
            return cls(generation, map_rows(generation))

    # ------------------------------------------------------------ views

    def seen_by(self, principal: str | None, projects: Sequence[str] | None = None) -> Snapshot:
        """Return the generation as a principal may see it; hidden items are as good as deleted.

        So nothing hidden has a part in any score, statistic, neighbourhood, fact, name or count. An item without an
        ACL is visible to everyone; one with an ACL to those it names.

        Args:
            projects: only these; None: all of them.
        """
        principals = self.catalog.principals
        named = principal if principal is not None and principal in principals else None
        within = None if projects is None else frozenset(projects)
        if within is None and not principals:
            return self

        def limit(alive: Bool) -> list[Condition]:
            readers = [limit_readers(named)] if principals else []
            return readers if within is None else [*readers, limit_projects(self.columns, alive)]

        return self._view(("acl", (named, within)), lambda: self.catalog.visible_to(named, within), limit)

    def known_at(self, said_by: datetime | None, ingested_by: datetime | None = None) -> Snapshot:
        """Return the generation with only what was said, or ingested, by a moment; the rest is as good as deleted.

        Args:
            said_by: t_valid ≤ moment, t_invalid none or later, whenever the item was ingested. None: any time.
            ingested_by: t_ingested ≤ moment, to the microsecond, whenever the item was said. None: any time.
        """
        if said_by is None and ingested_by is None:
            return self
        at = None if said_by is None else int(said_by.timestamp())
        accepted = None if ingested_by is None else int(ingested_by.timestamp()) * 1_000_000 + ingested_by.microsecond

        def find_alive() -> Bool:
            alive, columns = self.alive, self.columns
            if at is not None:
                alive = alive & (columns.t_valid <= at) & ((columns.t_invalid == NO_TIME) | (columns.t_invalid > at))
            return alive if accepted is None else alive & (columns.accepted <= accepted)

        return self._view(("time", (at, accepted)), find_alive, lambda alive: limit_moments(at, accepted), at)

    def _view(
        self,
        key: tuple[str, Hashable],
        find_alive: Callable[[], Bool],
        limit: Callable[[Bool], list[Condition]],
        at: int | None = None,
    ) -> Snapshot:
        """Return a cached view, or make it; the least recently used of a kind leaves when there are too many.

        Args:
            limit: returns the conditions by which an engine narrows its search to the rows of a view.
        """
        with self._viewing:
            view = self._views.pop(key, None)
            if view is None:
                alive = find_alive()
                more = tuple(limit(alive)) if self.files.engine else ()
                view = Snapshot(self.files, self.row_map.narrow(alive, at), self, self.conditions + more)
            self._views[key] = view
            alike = [other for other in self._views if other[0] == key[0]]
            if len(alike) > VIEWS[key[0]]:
                del self._views[alike[0]]
            return view

    def exclude(self, sessions: Sequence[int], rows: Sequence[int] = ()) -> Snapshot:
        """Return the snapshot without the rows of sessions, by code, and without some rows. It is not cached.

        Statistics of all rows stay, but for document frequencies and the list of projects.
        """
        rest = copy(self)
        rest.row_map = self.row_map.exclude(sessions, rows)
        rest.alive = rest.row_map.alive
        rest.catalog, rest.lexical = self.catalog.replace_rows(rest.row_map), self.lexical.replace_rows(rest.row_map)
        rest.graph = self.graph.replace_rows(rest.row_map)
        rest.steps = self.steps.replace_rows(rest.row_map)
        vars(rest).pop("citations", None)
        rest._views, rest._kept, rest._viewing = {}, {}, threading.Lock()
        return rest

    def keep(self, key: tuple[str, Hashable], make: Callable[[], T]) -> T:
        """Return what was made of these rows, or make it; the least recently used of a kind leaves."""
        with self._viewing:
            found: T | None = self._kept.pop(key, None)
        made = make() if found is None else found
        with self._viewing:
            self._kept.pop(key, None)
            self._kept[key] = made
            alike = [other for other in self._kept if other[0] == key[0]]
            if len(alike) > KEPT[key[0]]:
                del self._kept[alike[0]]
        return made

    # ------------------------------------------------------------ opening and warming

    @property
    def generation(self) -> int:
        """The generation's number; 0 for a store that nothing was published to."""
        return self.manifest.generation if self.manifest else 0

    @property
    def live(self) -> int:
        """The number of live items."""
        return self.row_map.live

    @property
    def start_work(self) -> WorkStarter:
        """Start work that a question needs later; see `Generation.start_work`."""
        return self.files.start_work

    @property
    def encoder(self) -> Encoder:
        """The lineage's query encoder; see `Generation.encoder`."""
        return self.files.encoder

    @property
    def sparse_encoder(self) -> QueryEncoder:
        """The learned-sparse query encoder; see `Generation.sparse_encoder`."""
        return self.files.sparse_encoder

    @property
    def tokens(self) -> TokenVectors | None:
        """The kept token vectors of all rows; see `Generation.tokens`. Ask only for rows that are live here."""
        return self.files.tokens

    @property
    def counter(self) -> TokenCounter | EstimatedCounter:
        """The token counter; see `Generation.counter`."""
        return self.files.counter

    @property
    def router(self) -> dict[str, F32] | None:
        """The arrays of the skip classifier; None where it was not trained."""
        return self.files.router

    def adopt(self, before: Snapshot) -> None:
        """Reuse the encoders that an earlier generation of the same lineage has loaded."""
        self.files.adopt(before.files)

    def warm(self) -> Snapshot:
        """Load what the first question would otherwise wait for.

        Raises:
            StoreError: a file is damaged.
        """
        with convert_faults(self.root, self.name):
            public = self.seen_by(None)
        if public is not self and not self.is_view:  # callers see this view, or one of their own
            public.warm()
            return self
        with convert_faults(self.root, self.name):
            loading = start_in_background(lambda: self.counter(["é"]))  # the encoder and its tokenizer, on another core
            with suppress(EncoderError):  # a recall reports it
                _ = self.lexical.impacts and self.sparse_encoder
            columns, catalog, lexical = self.columns, self.catalog, self.lexical
            _ = (self.live, lexical.mean_length, lexical.mean_window_length, catalog.last_access)
            _ = (
                self.vectors.type_directions,
                self.vectors.sample,
                columns.key,
                columns.time,
                columns.t_invalid,
                columns.ends,
            )
            _ = (
                columns.length,
                columns.near,
                columns.tokens,
                columns.type,
                columns.role,
                columns.salience,
                columns.confidence,
            )
            _ = (catalog.live_projects, catalog.live_speakers, catalog.project_names, catalog.speaker_codes)
            _ = (catalog.speaker_names, self.router, self.row_map.whole, self.vectors.table)
            self.facts.warm()
            self.changes.warm()
            _ = (self.graph.nodes, lexical.expansion, lexical.title_bits, lexical.norm(*BM25), loading())
        return self

    # ------------------------------------------------------------ rows

    def find(self, identity: str) -> int | None:
        """Return the row of an item by its id, its first digits, or a citation such as `b18d71f0#c34708f0`.

        None for no live item.

        Raises:
            UsageError: a citation is of several sessions, or several ids begin so.
        """
        row = self.row_map.find(identity)
        if row is None and "#" in identity:
            row = next(iter(self.citations.find(identity)), None)
        return self.row_map.find_beginning(identity) if row is None else row

    @cached_property
    def citations(self) -> Citations:
        """The live items by the citations that contexts show."""
        return Citations(self.row_map)

    def text(self, rows: AnyArray) -> list[dict[str, Any]]:
        """Read the shown fields of rows; see `RowMap.texts`."""
        return self.row_map.texts(rows)

    @property
    def projects(self) -> list[str]:
        """Projects by code."""
        return self.columns.projects

    @property
    def speakers(self) -> list[str]:
        """Speakers by code."""
        return self.columns.speakers
