"""A manifest, opened: arrays mapped from the segments, and the few columns that scoring needs in memory."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.encoders.dense import Encoder, EstimatedCounter, TokenCounter
from helix.errors import EncoderError, StoreError
from helix.native import Vectors, vectors_of
from helix.ranking.bm25 import Norms
from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import check_below
from helix.snapshot.index import fact_columns as facts
from helix.snapshot.index.dense import Dense, library, open_dense
from helix.snapshot.index.doc2query import KIND, Expansion, Part, Queries, open_queries
from helix.snapshot.index.fact_columns import Facts
from helix.snapshot.index.facts import FactField
from helix.snapshot.index.graph import FactEdges, Graph
from helix.snapshot.index.occurrences import occurrences
from helix.snapshot.index.sparse import ENCODER, ImpactField, Impacts, encoder_of, open_impacts, usable
from helix.snapshot.ledger.access_events import load_access
from helix.snapshot.manifest import Index, Manifest
from helix.snapshot.npz import read_npz
from helix.snapshot.pins import pin, release
from helix.snapshot.segment.arrays import flat_index, lives, lookup
from helix.snapshot.segment.batch import NO_TIME, digest
from helix.snapshot.segment.columns import I32, Columns, acl, distinct, link, places, relink
from helix.snapshot.segment.layout import FACT_TEXT
from helix.snapshot.segment.open import Opened, check_files, deleted_rows, open_segment, read_table
from helix.text.gazetteer import COMMON
from helix.text.titles import bits
from helix.text.tokenize import STOP_WORDS, project_words
from helix.types import F32, I64, TYPES, U32, U64, Bool
from helix.util.threads import Meanwhile, beside, later

if TYPE_CHECKING:
    from helix.encoders.sparse import QueryEncoder

_ROUTER: Final = {"weights": (np.float32, 1), "bias": (np.float32, 0), "threshold": (np.float32, 0)}
"""router.npz."""

_STEP = 1_024  # rows turned into floats at a time: what stays in the cache
VIEWS = {"acl": 4, "as of": 1}
"""Views of a snapshot that are kept, by kind: at a million items one takes 25 MB, and a tenth of a second to make."""

_SHARED = (
    *("root", "name", "manifest", "rows", "projects", "speakers", "restricted"),
    *("_hold", "_threads", "_opened", "_starts", "_dense", "_access", "_acl_of", "_acl"),
)
"""What a view takes over as it is."""

_LOADED = ("encoder", "sparse_encoder", "counter", "router", "speaker_words", "speaker_codes")
"""What is loaded when first asked for and the same in every view."""

BM25 = (0.9, 0.6)
"""k1 and b of most profiles: what is made ready for."""

_FEW_NAMES = 200_000  # in ACLs

_KEPT_DFS = 65_536  # terms whose df is kept

_TRIES = 5  # how often to start over because CURRENT moved on and its files were deleted


@dataclass(frozen=True, slots=True)
class Block:
    """The vectors of one segment. Row i of `codes` is row `start + i` of the snapshot."""

    start: int
    codes: npt.NDArray[np.int8]
    scale: F32
    dense: Dense | None  # the segment's index, where it has one
    exact: npt.NDArray[np.float16] | None = None  # [n, d], where the lineage keeps them


Held = TypeVar("Held", Queries, Impacts)
"""An open index of some rows of a segment."""


class Hold:
    """While it lives, the pin on a generation does: a snapshot and its views have one in common."""


class Snapshot:
    """One generation, read-only. Opening maps files; nothing is copied but the columns.

    Args:
        before: an open generation; the segments both share are taken over as they are.

    Raises:
        StoreError: the store is missing, damaged or of a newer format; the file is named.
    """

    def __init__(
        self, root: Path, name: str | None = None, *, threads: int = 0, before: Snapshot | None = None
    ) -> None:
        self.root = root
        self._threads = threads
        for _ in range(_TRIES):
            self.name = name or manifests.current_name(root)
            held = pin(root, self.name) if self.name else None
            self._hold = Hold()
            claim = weakref.finalize(self._hold, release, *held) if held else None
            try:
                with _readable(root, self.name):
                    self._open(before)
                return
            except BaseException as error:
                if claim:
                    claim()
                # Removed after we looked at CURRENT and before the claim was seen: then CURRENT names another by now.
                gone = isinstance(error, StoreError) and name is None
                if not gone or manifests.current_name(root) == self.name:
                    raise
        raise StoreError(f"the generations of {root} change faster than they can be opened", "try again")

    def _open(self, before: Snapshot | None) -> None:
        """Map everything the generation names."""
        root = self.root
        self.manifest: Manifest | None = manifests.load(root, self.name) if self.name else None
        kept = {segment.id: segment for segment in before._opened} if before and before.root == root else {}
        known = set(before.manifest.files()) if before and before.manifest and before.root == root else set()
        if self.manifest:
            # Not the encoders: without one the other legs still answer, and the answer says so.
            weighs = encoder_of(self.manifest.indexes)
            apart = {*known, *self.manifest.encoder, *(weighs.files if weighs else ()), *self.manifest.documents}
            check_files(root, [file for file in self.manifest.files() if file not in apart])
        dim = self.manifest.lineage.dim if self.manifest else 0
        self._opened: list[Opened] = [kept.get(s.id) or open_segment(root, s, dim=dim) for s in self._segments()]
        ends = np.cumsum([0, *(segment.rows for segment in self._opened)], dtype=np.int64)
        self._starts, self.rows = ends[:-1], int(ends[-1])
        dense = self._open_dense(before._dense if kept and before else {})
        file = self.manifest.access if self.manifest else None
        self._access = load_access(root, file) if file else None
        self.alive = self._alive()
        self._base: weakref.ref[Snapshot] | None = None  # of a view: its snapshot, which keeps the view
        self._at: int | None = None  # of a view as of a moment, seconds
        self._views: dict[tuple[str, Hashable], Snapshot] = {}
        self._viewing = threading.Lock()
        session, previous, following, self.sessions = link(self._opened, self._starts, self.alive)
        self.columns = Columns(self._opened, session, previous, following)
        self.projects, self.speakers = self.columns.projects, self.columns.speakers
        self._acl_of, self._acl = acl([segment.columns for segment in self._opened])
        self.restricted: Bool = np.bincount(self._acl_of, minlength=self.rows).astype(bool)
        self._dense: dict[str, Dense] = {segment: index() for segment, index in dense.items()}

    # ------------------------------------------------------------ views

    def seen_by(self, principal: str | None, projects: Sequence[str] | None = None) -> Snapshot:
        """The same generation as a principal may see it: what is hidden from them is as good as deleted.

        So nothing hidden has a part in any score, statistic, neighbourhood, fact, name or count. An item without an
        ACL is everybody's; one with an ACL is for those it names.

        Args:
            projects: only these; None: all of them.
        """
        named = principal if principal is not None and principal in self._named else None
        within = None if projects is None else frozenset(projects)
        if within is None and not self._named:
            return self

        def shown() -> Bool:
            everybodys = ~self.restricted
            seen: Bool = self.alive & (everybodys if named is None else everybodys | self.named_in_acl(named))
            if within is not None:
                known = np.array([name in within for name in self.projects] + [False], bool)  # the last: of none
                seen &= known[self.columns.project]
            return seen

        return self._view(("acl", (named, within)), shown)

    def known_at(self, moment: datetime | None) -> Snapshot:
        """The same generation as of a moment: t_valid ≤ moment, t_invalid null or later, t_ingested ≤ moment."""
        if moment is None:
            return self
        at, columns = int(moment.timestamp()), self.columns
        exactly = at * 1_000_000 + moment.microsecond

        def known() -> Bool:
            holds = (columns.t_invalid == NO_TIME) | (columns.t_invalid > at)
            seen: Bool = self.alive & (columns.t_valid <= at) & (columns.accepted <= exactly) & holds
            return seen

        return self._view(("as of", exactly), known, at)

    def _view(self, key: tuple[str, Hashable], alive: Callable[[], Bool], at: int | None = None) -> Snapshot:
        """A kept view, or a new one; the least recently used goes when there are too many."""
        with self._viewing:
            view = self._views.pop(key, None) or self._with(alive(), at)
            self._views[key] = view
            alike = [other for other in self._views if other[0] == key[0]]
            if len(alike) > VIEWS[key[0]]:
                del self._views[alike[0]]
            return view

    def _with(self, alive: Bool, at: int | None) -> Snapshot:
        """This snapshot with fewer live rows; files, models and columns are shared, what hangs on `alive` is not."""
        view = object.__new__(Snapshot)
        for name in _SHARED:
            setattr(view, name, getattr(self, name))
        view._base, view._at = weakref.ref(self), at
        view.__dict__.update({name: self.__dict__[name] for name in _LOADED if name in self.__dict__})
        view._views, view._viewing = {}, threading.Lock()
        view.alive = alive
        view.sessions = self.sessions
        view.columns = self.columns.linked(*relink(self.columns, places(self._opened), alive, self.alive & ~alive))
        return view

    def without(self, sessions: Sequence[int]) -> Snapshot:
        """The same generation, of which sessions, by their codes, are not searched. Not kept, unlike a view: what is
        made of all rows is taken over, but for what a term's weight and the list of projects hang on.
        """
        rest = copy(self)
        for name in ("live", "_whole", "_dfs", "live_projects"):
            rest.__dict__.pop(name, None)
        rest._views, rest._viewing = {}, threading.Lock()
        rest.alive = self.alive.copy()
        for code in sessions:
            rest.alive &= self.columns.session != code
        return rest

    @property
    def is_view(self) -> bool:
        """Whether this is a view of a generation."""
        return self._base is not None

    @property
    def meanwhile(self) -> Meanwhile:
        """How a question has work done while it goes on: by a second thread; by its own where `threads` is 1, as where
        as many questions are asked at once as there are cores.
        """
        return later if self._threads == 1 else beside

    def _whole_snapshot(self) -> Snapshot | None:
        """Of a view: the snapshot it is a view of, unless that was let go meanwhile."""
        return self._base() if self._base else None

    # ------------------------------------------------------------ what a row is

    @property
    def generation(self) -> int:
        """Number of the generation; 0 for a store nothing was published to."""
        return self.manifest.generation if self.manifest else 0

    def _segments(self) -> tuple[manifests.Segment, ...]:
        return self.manifest.segments if self.manifest else ()

    def _alive(self) -> Bool:
        alive = np.ones(self.rows, bool)
        starts = dict(zip((segment.id for segment in self._opened), self._starts.tolist(), strict=True))
        rows = {segment.id: segment.rows for segment in self._opened}
        for deletes in self.manifest.deletes if self.manifest else ():
            gone = deleted_rows(self.root, deletes, rows[deletes.segment])
            alive[starts[deletes.segment] + gone.astype(np.int64)] = False
        return alive

    def _open_dense(self, before: dict[str, Dense]) -> dict[str, Callable[[], Dense]]:
        """What gives the dense index of each segment that has one, by segment: they are read while the rest is opened,
        since a large one is no shorter than that.
        """
        found: dict[str, Callable[[], Dense]] = {}
        shapes = {opened.id: opened["vectors.i8"].shape for opened in self._opened}
        for index in self.manifest.indexes if self.manifest else ():
            if index.kind == "dense":
                segment = index.covers[0]
                path = self.root / "indexes" / index.id / "dense" / "ivf.faiss"
                if segment in before:
                    found[segment] = partial(before.__getitem__, segment)
                else:
                    library()  # in this thread: it looks into the environment
                    found[segment] = self.meanwhile(open_dense, path, index.params, shapes[segment])
        return found

    def _start(self, segment: str) -> int:
        """The first row of a segment."""
        return int(self._starts[[opened.id for opened in self._opened].index(segment)])

    def _within(self, index: Index, held: Held) -> Held:
        """An open index, all of whose rows are of the segment it covers."""
        rows = next(opened.rows for opened in self._opened if opened.id == index.covers[0])
        check_below(self.root / "indexes" / index.id / index.kind / "rows.npy", held.rows, rows)
        return held

    @cached_property
    def expansion(self) -> Expansion | None:
        """The questions a model wrote for items, as a lexical field; None where it was asked of no live item."""
        parts = [
            Part(self._start(index.covers[0]), self._within(index, open_queries(self.root, index)))
            for index in (self.manifest.indexes if self.manifest else ())
            if index.kind == KIND
        ]
        field = Expansion(parts, self.rows, self.alive, self.columns.key) if parts else None
        return field if field and field.live else None

    @cached_property
    def impacts(self) -> ImpactField | None:
        """The weights a sparse encoder gave items; None where no live item has any."""
        parts = [
            (self._start(index.covers[0]), self._within(index, open_impacts(self.root, index)))
            for index in usable(self.manifest.indexes if self.manifest else ())
        ]
        field = ImpactField(parts, self.rows, self.alive, self.columns.key) if parts else None
        return field if field and field.live else None

    def adopt(self, before: Snapshot) -> None:
        """Take over what an earlier generation of the same lineage has loaded already: the encoders."""
        weighs = [encoder_of(one.manifest.indexes) if one.manifest else None for one in (self, before)]
        if weighs[0] and weighs[0] == weighs[1] and "sparse_encoder" in before.__dict__:
            self.__dict__["sparse_encoder"] = before.sparse_encoder
        if self.manifest and before.manifest and self.manifest.lineage.encoder == before.manifest.lineage.encoder:
            for name in ("encoder", "counter"):
                if name in before.__dict__:
                    self.__dict__[name] = before.__dict__[name]

    def warm(self) -> Snapshot:
        """Do now what the first question would have to wait for.

        Raises:
            StoreError: a file is damaged.
        """
        with _readable(self.root, self.name):
            everybody = self.seen_by(None)
        if everybody is not self and not self.is_view:  # who asks sees this, or a view of their own
            return everybody.warm() and self
        with _readable(self.root, self.name):
            reading = beside(lambda: self.counter(["é"]))  # the encoder and its tokenizer, by another core
            with suppress(EncoderError):  # the answer says so
                _ = self.impacts and self.sparse_encoder
            for name in ("live", "mean_length", "mean_window_length", "last_access", "type_directions"):
                getattr(self, name)
            scored = ("key", "time", "t_invalid", "ends", "length", "near", "type", "role", "salience", "confidence")
            for name in scored:
                getattr(self.columns, name)
            _ = (
                self.live_projects,
                self.live_speakers,
                self.project_names,
                self.fact_ends,
                self._fact_rows,
                self._states_facts,
                self._by_group,
                self.speaker_codes,
                self.speaker_names,
                self.router,
                self._whole,
                self.vector_table,
                self.fact_edges,
                self.fact_field,
                self.graph,
                self.expansion,
                self.some_titles,
                self._dfs,
                self.norm(*BM25),
                reading(),
            )
        return self

    @cached_property
    def live_projects(self) -> list[str]:
        """Projects with a live item."""
        return [self.projects[code] for code in self._live_codes("project")]

    @cached_property
    def project_names(self) -> dict[str, list[tuple[tuple[str, ...], int]]]:
        """By first word: the live projects a question can name, as (words, code); a common word alone is no name."""
        found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for code in self._live_codes("project"):
            words = project_words(self.projects[code])
            if len(words) > 1 or (words and len(words[0]) > 2 and words[0] not in STOP_WORDS | COMMON):
                found.setdefault(words[0], []).append((words, code))
        return found

    @cached_property
    def live_speakers(self) -> list[int]:
        """Codes of the speakers of live items."""
        return self._live_codes("speaker")

    def _live_codes(self, name: str) -> list[int]:
        """The codes in a column of live items, ascending; −1 is none."""
        found = _codes(getattr(self.columns, name)[self.alive] + 1, len(getattr(self.columns, f"{name}s")) + 1)
        return [code - 1 for code in found.tolist() if code]

    def live_sessions(self, keys: U64) -> tuple[int, ...]:
        """Codes of those sessions, by key, that have a live item."""
        codes = np.flatnonzero(np.isin(self.sessions, keys))
        return tuple(code for code in codes.tolist() if self.alive[self.columns.session == code].any())

    def sessions_named(self, name: str) -> tuple[int, ...]:
        """Codes of the live sessions of that name: each source may have one."""
        from helix.sources.registry import FORMATS

        return self.live_sessions(np.array([int(digest(source, name), 16) for source in FORMATS], np.uint64))

    @cached_property
    def session_spans(self) -> tuple[I64, I64]:
        """(time of the first live item int64[sessions], of the last one); NO_TIME where none has a time."""
        code, time = self.columns.session[self.alive], self.columns.time[self.alive]
        code, time = code[time != NO_TIME], time[time != NO_TIME]
        last = np.full(len(self.sessions), NO_TIME)
        np.maximum.at(last, code, time)
        first = np.where(last == NO_TIME, NO_TIME, np.iinfo(np.int64).max)
        np.minimum.at(first, code, time)
        return first, last

    @cached_property
    def speaker_words(self) -> list[frozenset[str]]:
        """The words of each speaker's name, lower case."""
        if base := self._whole_snapshot():
            return base.speaker_words
        return [frozenset(name.lower().split()) for name in self.speakers]

    @cached_property
    def speaker_codes(self) -> dict[str, list[int]]:
        """By word, lower case: the codes of the speakers whose names have it."""
        if base := self._whole_snapshot():
            return base.speaker_codes
        found: dict[str, list[int]] = {}
        for code, words in enumerate(self.speaker_words):
            for word in words:
                found.setdefault(word, []).append(code)
        return found

    @cached_property
    def speaker_names(self) -> dict[int | None, frozenset[str]]:
        """By code of a project, None for all of them: the words of the names of those who speak in it, lower case."""
        # One number a pair of project and speaker, none of which may be missing.
        width = len(self.speakers) + 1
        pairs = (self.columns.project.astype(np.int64) + 1) * width + self.columns.speaker + 1
        pairs = _codes(pairs[self.alive], (len(self.projects) + 1) * width) - width
        found: dict[int | None, set[str]] = {None: set()}
        for code, speaker in zip(*(part.tolist() for part in divmod(pairs, len(self.speakers) + 1)), strict=True):
            words = self.speaker_words[speaker - 1] if speaker else frozenset()
            found.setdefault(code, set()).update(words)
            found[None].update(words)
        return {code: frozenset(words) for code, words in found.items()}

    @cached_property
    def _named(self) -> frozenset[str]:
        """Everybody an ACL names."""
        # What takes many to one imports what takes longer than a few.
        return distinct(self._acl) if len(self._acl) <= _FEW_NAMES else frozenset(self._acl.unique().to_pylist())

    def named_in_acl(self, principal: str) -> Bool:
        """bool[rows]: the row's ACL names this principal."""
        import pyarrow.compute as pc  # here: it takes as long as opening a small store

        out = np.zeros(self.rows, bool)
        out[self._acl_of[np.asarray(pc.equal(self._acl, principal).to_numpy(zero_copy_only=False), bool)]] = True
        return out

    @cached_property
    def last_access(self) -> I64:
        """int64[rows]: when an item was last of use; its own time, else when it came in, where it never was."""
        if base := self._whole_snapshot():  # of the rows a view has it is the same
            return base.last_access
        own = np.where(self.columns.time != NO_TIME, self.columns.time, self.columns.t_ingested)
        rows, last, _ = self._accesses
        own[rows] = np.maximum(own[rows], last)
        return own

    @cached_property
    def access_count(self) -> U32:
        """uint32[rows]: how often an item was of use."""
        out = np.zeros(self.rows, np.uint32)
        rows, _, count = self._accesses
        out[rows] = count
        return out

    @cached_property
    def _accesses(self) -> tuple[I64, I64, U32]:
        """(rows int64[m], last access int64[m], count uint32[m]) of the live items that were accessed."""
        found = self._access
        if found is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32)
        rows = self.rows_by_key(found.key)
        here = rows >= 0
        return rows[here], found.last[here], found.count[here]

    def rows_by_key(self, keys: U64) -> I64:
        """int64[len(keys)]: the live row of each item key, −1 where there is none."""
        out = np.full(len(keys), -1, np.int64)
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            found = lookup(segment["ids.key"], segment["ids.row"], keys)
            row = np.maximum(found, 0) + start
            here = (found >= 0) & self.alive[row] if segment.rows else found >= 0
            out[here] = row[here]
        return out

    # ------------------------------------------------------------ dense

    @cached_property
    def encoder(self) -> Encoder:
        """The lineage's query encoder.

        Raises:
            EncoderError: its files are missing, or not the ones the lineage was built with.
        """
        if base := self._whole_snapshot():
            return base.encoder
        if self.manifest is None:
            raise EncoderError("the store is empty", "ingest something first")
        fingerprint = self.manifest.lineage.encoder
        # One thread: a question is short, and waking a second one takes longer than it saves.
        return Encoder(self.root / "encoders" / fingerprint, self._threads or 1, fingerprint)

    @cached_property
    def sparse_encoder(self) -> QueryEncoder:
        """What makes weights of a question, where items have such.

        Raises:
            EncoderError: its files are missing or damaged, or there is none.
        """
        if base := self._whole_snapshot():
            return base.sparse_encoder
        from helix.encoders.sparse import open_query  # here: most stores have none

        index = encoder_of(self.manifest.indexes) if self.manifest else None
        if index is None:
            raise EncoderError("the store has no sparse encoder", "set HELIX_SPARSE_ENCODER and run 'helix expand'")
        # One thread, as above: the other core is at the dense leg.
        return open_query(self.root / "indexes" / index.id / ENCODER, self._threads or 1)

    @cached_property
    def counter(self) -> TokenCounter | EstimatedCounter:
        """Counts tokens as the encoder does; an estimate where the encoder is out of reach."""
        if base := self._whole_snapshot():
            return base.counter
        try:
            return TokenCounter(self.encoder.folder)
        except EncoderError:
            return EstimatedCounter()

    @property
    def blocks(self) -> list[Block]:
        """The vectors, segment by segment."""
        return [
            Block(
                start,
                segment["vectors.i8"],
                segment["vectors.scale"],
                self._dense.get(segment.id),
                segment["vectors.f16"] if len(segment["vectors.f16"]) else None,
            )
            for start, segment in zip(self._starts.tolist(), self._opened, strict=True)
        ]

    def vectors(self, rows: npt.NDArray[Any]) -> F32:
        """float32[len(rows), d], dequantised."""
        out = np.empty((len(rows), self.manifest.lineage.dim if self.manifest else 0), np.float32)
        for segment, here, local in self._split(rows):
            values = segment["vectors.i8"].take(local, axis=0).astype(np.float32)
            values *= segment["vectors.scale"][local, None]
            if len(local) == len(rows):
                return values
            out[here] = values
        return out

    @cached_property
    def vector_table(self) -> Vectors:
        """The vectors of all rows, as a kernel reads them."""
        if base := self._whole_snapshot():
            return base.vector_table
        codes = [segment["vectors.i8"] for segment in self._opened]
        scales = [segment["vectors.scale"] for segment in self._opened]
        return vectors_of(codes, scales, self.manifest.lineage.dim if self.manifest else 0)

    @cached_property
    def centroids(self) -> F32:
        """float32[types + 1, d]: mean vector by type, last row of all items; zero where a type has none."""
        kinds = self.columns.type
        counts = np.append(np.bincount(kinds[self.alive], minlength=len(TYPES)), self.live).astype(np.float64)
        sums = sum((segment["vectors.sum"] for segment in self._opened), np.zeros((len(counts), 1)))
        dead = np.flatnonzero(~self.alive)
        for start in range(0, len(dead), _STEP):
            rows = dead[start : start + _STEP]
            gone = _one_hot(kinds[rows]) @ self.vectors(rows).astype(np.float64)  # faster than sums by group
            sums[:-1] -= gone
            sums[-1] -= gone.sum(axis=0)
        return np.asarray(sums / np.maximum(counts, 1)[:, None], np.float32)

    @cached_property
    def type_directions(self) -> F32:
        """float32[types, d]: the unit vectors of the types' centroids; zero where a type has no items."""
        centroids = self.centroids[:-1]
        norms = np.linalg.norm(centroids, axis=1, keepdims=True)
        return np.asarray(centroids / np.maximum(norms, 1e-9), np.float32)

    # ------------------------------------------------------------ lexical

    @property
    def key(self) -> U64:
        """uint64[rows]: the tie key."""
        return self.columns.key

    @property
    def length(self) -> F32:
        """float32[rows]: terms of each item."""
        return self.columns.length

    @cached_property
    def norm(self) -> Norms:
        """What the lengths of the rows do to their terms."""
        return Norms(self.columns.length, self.mean_length)

    def term(self, term: np.uint64) -> list[tuple[int, U32, npt.NDArray[np.uint16]]]:
        """Postings of a term, segment by segment, mapped: (first row of the segment, rows within it ascending,
        term frequencies). Deleted rows are still in them.
        """
        found = []
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            keys = segment["terms.key"]
            at = int(keys.searchsorted(term))
            if at < len(keys) and keys[at] == term:
                low, high = segment["terms.indptr"][at : at + 2]
                found.append((start, segment["terms.rows"][low:high], segment["terms.tf"][low:high]))
        return found

    def df(self, term: np.uint64) -> int:
        """Live items that hold the term."""
        found = self._dfs.get(int(term))
        if found is None:
            found = sum(self._count_live(start, rows) for start, rows, _ in self.term(term))
            if len(self._dfs) >= _KEPT_DFS:
                self._dfs.clear()
            self._dfs[int(term)] = found
        return found

    @cached_property
    def _dfs(self) -> dict[int, int]:
        """By term: the items that hold it. Counted when first asked for: with rows left out all postings are read."""
        return {}

    def short_df(self, term: np.uint32) -> int:
        """Live items that hold the term of that short id."""
        count = 0
        first = np.uint64(term) << np.uint64(32)
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            keys, indptr = segment["terms.key"], segment["terms.indptr"]
            low, high = keys.searchsorted(first), keys.searchsorted(first | np.uint64(0xFFFFFFFF), "right")
            count += self._count_live(start, segment["terms.rows"][indptr[low] : indptr[high]])
        return count

    def _count_live(self, start: int, rows: U32) -> int:
        """Return how many rows of postings, of the segment that begins there, are live."""
        if self._whole[start]:
            return len(rows)
        return int(np.count_nonzero(lives(self.alive, start + rows.astype(np.int64))))

    @cached_property
    def _whole(self) -> dict[int, bool]:
        """By first row of a segment: whether none of its rows is deleted."""
        ends = np.append(self._starts, self.rows)[1:]
        return {
            start: bool(self.alive[start:end].all())
            for start, end in zip(self._starts.tolist(), ends.tolist(), strict=True)
        }

    def postings(self, term: np.uint64) -> tuple[U32, F32]:
        """(rows uint32[p] ascending, term frequencies float32[p]) of one term, deleted rows left out."""
        found = self.term(term)
        if not found:
            return np.empty(0, np.uint32), np.empty(0, np.float32)
        row = np.concatenate([rows + np.uint32(start) for start, rows, _ in found])
        tf = np.concatenate([tfs for _, _, tfs in found]).astype(np.float32)
        if self.live == self.rows:
            return row, tf
        keep = lives(self.alive, row)
        return row[keep], tf[keep]

    @cached_property
    def live(self) -> int:
        """Items that are not deleted."""
        return int(self.alive.sum())

    @cached_property
    def mean_length(self) -> float:
        """Mean terms an item, at least one."""
        return max(1.0, float(self.columns.length[self.alive].mean())) if self.live else 1.0

    @cached_property
    def mean_window_length(self) -> float:
        """Mean terms of a live item and the two before and after it, at least one."""
        length = self.columns.length
        total = 5 * float(length.sum(where=self.alive, dtype=np.float64))  # each row counts in five windows,
        for end, towards in ((self.columns.previous, self.columns.next), (self.columns.next, self.columns.previous)):
            last = np.flatnonzero((end < 0) & self.alive)  # but at the ends of a session in three, and next to them
            inner = towards[last]  # in four
            total -= float(2 * length[last].sum(dtype=np.float64) + length[inner[inner >= 0]].sum(dtype=np.float64))
        return max(1.0, total / self.live) if self.live else 1.0

    def occurrences(self, rows: I64, terms: U64, pairs: I64) -> tuple[F32, F32]:
        """How often terms occur in rows float32[t, n], and pairs of them, int64[2, p] of their positions, one right
        behind the other float32[p, n].
        """
        count = np.empty((len(terms), len(rows)), np.float32)
        follows = np.empty((pairs.shape[1], len(rows)), np.float32)
        for segment, here, local in self._split(rows):
            found = occurrences(segment, local, terms, pairs)
            if len(local) == len(rows):
                return found
            count[:, here], follows[:, here] = found
        return count, follows

    def order_of(self, rows: npt.NDArray[Any]) -> tuple[I64, U32]:
        """(position in `rows` int64[m], short term ids uint32[m]): the terms of each row in reading order."""
        return self._listed(rows, "order.indptr", "order.term", np.uint32)

    def _listed(self, rows: npt.NDArray[Any], indptr: str, values: str, dtype: Any) -> tuple[I64, npt.NDArray[Any]]:
        """(position in `rows` int64[m], value[m]): the list of each row, from two arrays of its segment."""
        at: list[I64] = []
        found: list[npt.NDArray[Any]] = []
        for segment, here, local in self._split(rows):
            lists, flat = flat_index(segment[indptr], local)
            at.append(here.repeat(lists[1:] - lists[:-1]))
            found.append(segment[values].take(flat))
        return _joined(at, np.int64), _joined(found, dtype)

    def cues(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """uint8[len(rows)]: the bits of `helix.text.cues`."""
        out = np.zeros(len(rows), np.uint8)
        for segment, here, local in self._split(rows):
            out[here] = segment["cues"][local]
        return out

    def titled(self, keys: U64) -> tuple[I64, I64]:
        """(position in `keys` int64[m], row int64[m]) of the live documents with a title of that key."""
        at: list[I64] = []
        rows: list[I64] = []
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            known = segment["titles.key"]
            owner, flat = owners_of(known.searchsorted(keys), known.searchsorted(keys, "right"))
            at.append(owner)
            rows.append(start + segment["titles.row"][flat].astype(np.int64))
        position, row = _joined(at, np.int64), _joined(rows, np.int64)
        keep = self.alive[row]
        return position[keep], row[keep]

    @cached_property
    def some_titles(self) -> npt.NDArray[np.uint8]:
        """Which runs of terms may be titles: see `helix.text.titles.bits`."""
        if base := self._whole_snapshot():
            return base.some_titles
        return bits(_joined([segment["titles.key"] for segment in self._opened], np.uint64))

    # ------------------------------------------------------------ graph

    def entities_of(self, rows: npt.NDArray[Any]) -> tuple[I64, U64]:
        """(position in `rows` int64[m], entity hash uint64[m])."""
        return self._listed(rows, "mentions.indptr", "mentions.entity", np.uint64)

    def rows_of(self, entities: U64) -> tuple[I64, U32]:
        """(position in `entities` int64[m], row uint32[m]), deleted rows left out."""
        at: list[I64] = []
        rows: list[U32] = []
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            keys = segment["mentioned.key"]
            if not len(keys):
                continue
            found = np.minimum(keys.searchsorted(entities), len(keys) - 1)
            hit = (keys[found] == entities).nonzero()[0]
            indptr, flat = flat_index(segment["mentioned.indptr"], found[hit])
            at.append(hit.repeat(indptr[1:] - indptr[:-1]))
            rows.append(segment["mentioned.rows"].take(flat) + np.uint32(start))
        position, row = _joined(at, np.int64), _joined(rows, np.uint32)
        keep = self.alive[row]
        return position[keep], row[keep]

    @cached_property
    def _namings(self) -> list[I32]:
        """By segment: how many live items name each of its entities."""
        counts = []
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            indptr, rows = segment["mentioned.indptr"], segment["mentioned.rows"]
            before = np.zeros(len(rows) + 1, np.int32)
            np.cumsum(self.alive[start : start + segment.rows][rows], out=before[1:])
            counts.append(before[indptr[1:]] - before[indptr[:-1]])
        return counts

    def naming(self, entities: U64) -> I64:
        """int64[len(entities)]: how many live items name each entity."""
        return self.graph.find(entities)[1]

    def names_in(self, rows: npt.NDArray[Any]) -> I64:
        """int64[len(rows)]: how many entities each item names."""
        out = np.zeros(len(rows), np.int64)
        for segment, here, local in self._split(rows):
            indptr = segment["mentions.indptr"]
            out[here] = indptr[local + 1] - indptr[local]
        return out

    @cached_property
    def session_size(self) -> I64:
        """int64[sessions]: live items of each session."""
        return np.bincount(self.columns.session[self.alive], minlength=len(self.sessions))

    @cached_property
    def graph(self) -> Graph:
        """The graph of the live rows, read where a question leads."""
        columns, (one, other, edge) = self.columns, self._fact_joints
        _, _, confidence, row = self.fact_edges
        return Graph(
            self._opened,
            self._starts,
            self._namings,
            columns.previous,
            columns.next,
            columns.session,
            self.alive,
            columns.key,
            self.sessions,
            self.session_size,
            FactEdges(one, other, confidence[edge], row[edge]),
        )

    def links_of(self, rows: npt.NDArray[Any]) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
        """Items that are linked with the given ones, in either direction.

        Returns:
            (position in `rows` int64[m], live row int64[m], position in LINKS uint8[m]).
        """
        at: list[I64] = []
        to: list[I64] = []
        kinds: list[npt.NDArray[np.uint8]] = []
        for segment, here, local in self._split(rows):
            indptr, flat = flat_index(segment["links.indptr"], local)
            if len(flat):
                at.append(here.repeat(indptr[1:] - indptr[:-1]))
                to.append(self.rows_by_key(segment["links.key"][flat]))
                kinds.append(segment["links.kind"][flat])
        keys = self.columns.key[rows]
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            known = segment["linked.key"]
            owner, flat = owners_of(known.searchsorted(keys), known.searchsorted(keys, "right"))
            if len(flat):
                row = start + segment["linked.row"][flat].astype(np.int64)
                at.append(owner)
                to.append(np.where(self.alive[row], row, -1))
                kinds.append(segment["linked.kind"][flat])
        position, row, kind = _joined(at, np.int64), _joined(to, np.int64), _joined(kinds, np.uint8)
        keep = row >= 0
        return position[keep], row[keep], kind[keep]

    # ------------------------------------------------------------ facts

    @cached_property
    def facts(self) -> Facts:
        """The facts of all live items."""
        return facts.join(self._opened, self._starts, self.alive)

    @cached_property
    def fact_field(self) -> FactField:
        """The same facts as something to search: fact i is entry i of `facts`."""
        return FactField(self._opened, self._starts, self.alive)

    def _told(self) -> Iterator[tuple[int, I64, pa.Table]]:
        """Segment by segment: (place of its first live fact in `facts`, its live facts, FACT_TEXT of all its facts)."""
        first = 0
        for start, segment in zip(self._starts.tolist(), self._opened, strict=True):
            kept = np.flatnonzero(self.alive[start + segment.facts["row"].to_numpy().astype(np.int64)])
            if len(kept):
                told = segment.fact_text
                if not len(told):  # a segment of before they were indexed
                    told = read_table(self.root / "segments" / segment.id / "facts.parquet", FACT_TEXT.names)
                yield first, kept, told
            first += len(kept)

    def fact_texts(self, facts: I64) -> list[dict[str, Any]]:
        """What facts of `facts` say: subject, relation, object, qualifier, closes."""
        out: list[dict[str, Any]] = [{}] * len(facts)
        for first, kept, told in self._told():
            here = np.flatnonzero((facts >= first) & (facts < first + len(kept)))
            chosen = told.take(pa.array(kept[facts[here] - first]))
            for place, entry in zip(here.tolist(), chosen.to_pylist(), strict=True):
                out[place] = entry
        return out

    def facts_naming(self, name: str) -> I64:
        """Facts of `facts`, ascending, whose subject or object holds a name as words of it, whatever its case."""
        import pyarrow.compute as pc

        pattern = rf"(^|\W){re.escape(name)}($|\W)"
        found = [np.empty(0, np.int64)]
        for first, kept, told in self._told():
            said = np.zeros(len(told), bool)
            for column in (told["subject"], told["object"]):
                said |= pc.match_substring_regex(column, pattern, ignore_case=True).to_numpy().astype(bool)
            found.append(first + np.flatnonzero(said[kept]))
        return np.concatenate(found)

    def entity_names(self, entities: U64) -> dict[int, tuple[str, str]]:
        """By hash: (kind, name as written) of entities. Read from Parquet: no recall asks for it.

        Raises:
            StoreError: a file is damaged.
        """
        import pyarrow.compute as pc

        found: dict[int, tuple[str, str]] = {}
        wanted = pa.array(entities, pa.uint64())
        for segment in self._opened:
            path = self.root / "segments" / segment.id / "entities.parquet"
            known = read_table(path, ["kind", "name", "hash"])
            known = known.filter(pc.is_in(known["hash"], wanted))
            for entry in known.to_pylist():
                found.setdefault(entry["hash"], (entry["kind"], entry["name"]))
        return found

    @cached_property
    def fact_ends(self) -> I64:
        """int64[facts]: since when each no longer holds, seconds; NO_TIME where it does."""
        return facts.invalid_since(self.facts)

    def facts_holding(self, at: int) -> Bool:
        """bool[facts]: those that hold at a moment, in seconds."""
        holds: Bool = (self.facts.t_valid <= at) & ((self.fact_ends == NO_TIME) | (self.fact_ends > at))
        return holds & ~self.facts.closes

    def superseded(self, at: int) -> I64:
        """Rows, ascending, that say facts of which none holds at a moment, in seconds."""
        rows, first = self._fact_rows
        if not len(rows):
            return rows
        said = ~self.facts.closes & (self.facts.t_valid <= at)
        holds = self.facts_holding(at)
        return rows[np.logical_or.reduceat(said, first) & ~np.logical_or.reduceat(holds, first)]

    @cached_property
    def _fact_rows(self) -> tuple[I64, I64]:
        """(rows that say facts, ascending; the first fact of each): facts lie in the order of their rows."""
        rows, first = np.unique(self.facts.row, return_index=True)
        return rows, first

    def successors(self, rows: I64, at: int) -> tuple[I64, I64]:
        """What superseded items: those that say what holds of the same subject and relation, one object at a time.

        Args:
            rows: int64[n], of which all are superseded.
            at: the moment, in seconds.

        Returns:
            (position in `rows` int64[m], row of a successor int64[m]).
        """
        known, (groups, order) = self.facts, self._by_group
        low, high = (known.row.searchsorted(rows, side) for side in ("left", "right"))
        owner, fact = owners_of(low, high)
        ended = ~known.closes[fact] & known.functional[fact] & (known.t_valid[fact] <= at)
        owner, fact = owner[ended], fact[ended]
        low, high = (groups.searchsorted(known.group[fact], side) for side in ("left", "right"))
        of, place = owners_of(low, high)
        later = order[place]
        holds = (known.t_valid[later] <= at) & ((self.fact_ends[later] == NO_TIME) | (self.fact_ends[later] > at))
        holds &= ~known.closes[later]
        return owner[of[holds]], known.row[later[holds]]

    @cached_property
    def _by_group(self) -> tuple[U64, I64]:
        """(the groups of all facts, ascending, uint64[facts]; the fact of each int64[facts])."""
        order = np.argsort(self.facts.group, kind="stable")
        return self.facts.group[order], order

    def stale(self, rows: npt.NDArray[Any], at: int) -> Bool:
        """bool[len(rows)]: the row says facts, and none of them holds at a moment, in seconds."""
        known, out = self.facts, np.zeros(len(rows), bool)
        some = self._states_facts[rows].nonzero()[0]
        low, high = (known.row.searchsorted(rows[some], side) for side in ("left", "right"))
        owner, fact = owners_of(low, high)
        said = ~known.closes[fact] & (known.t_valid[fact] <= at)
        holds = said & ((self.fact_ends[fact] == NO_TIME) | (self.fact_ends[fact] > at))
        out[some[owner[said]]] = True
        out[some[owner[holds]]] = False
        return out

    @cached_property
    def _states_facts(self) -> Bool:
        """bool[rows]: the row says facts."""
        out = np.zeros(self.rows, bool)
        out[self.facts.row] = True
        return out

    @cached_property
    def fact_edges(self) -> tuple[U64, U64, F32, I64]:
        """Facts that hold, as edges between entities: (subjects uint64[e] sorted, objects uint64[e], confidence
        float32[e], the row that says it int64[e]).
        """
        holds = self.fact_ends == NO_TIME if self._at is None else self.facts_holding(self._at)
        chosen = np.flatnonzero(holds & (self.facts.object_entity != 0))
        chosen = chosen[np.argsort(self.facts.subject_entity[chosen], kind="stable")]
        found = self.facts.take(chosen)
        return found.subject_entity, found.object_entity, found.confidence, found.row

    @cached_property
    def _fact_joints(self) -> tuple[U64, U64, I64]:
        """(entity uint64[2e] sorted, the other one uint64[2e], position in `fact_edges` int64[2e]), surest first."""
        subjects, objects, confidence, _ = self.fact_edges
        one, other = np.concatenate([subjects, objects]), np.concatenate([objects, subjects])
        order = np.lexsort((np.tile(-confidence, 2), one))
        return one[order], other[order], order % max(1, len(subjects))

    # ------------------------------------------------------------ what is shown

    def signatures(self, rows: npt.NDArray[Any]) -> U32:
        """uint32[len(rows), 64]: MinHash signatures."""
        out = np.empty((len(rows), 64), np.uint32)
        for segment, here, local in self._split(rows):
            found = segment["minhash"].take(local, axis=0)
            if len(local) == len(rows):
                return found
            out[here] = found
        return out

    def text(self, rows: npt.NDArray[Any]) -> list[dict[str, Any]]:
        """What is shown of each row: id, text, session, turns, speaker, time, project, path, title, who vouches for it
        and what its salience is made of.
        """
        out: list[dict[str, Any]] = [{}] * len(rows)
        for segment, here, local in self._split(rows):
            for position, entry in zip(here.tolist(), segment.texts(local), strict=True):
                out[position] = entry
        return out

    @cached_property
    def router(self) -> dict[str, npt.NDArray[np.float32]] | None:
        """Arrays of the skip classifier; None where it was not trained."""
        if base := self._whole_snapshot():
            return base.router
        for index in self.manifest.indexes if self.manifest else ():
            if index.kind == "router":
                return read_npz(self.root / "indexes" / index.id / "router" / "router.npz", _ROUTER)
        return None

    def find(self, identity: str) -> int | None:
        """The row of an item id; None if no live item has it."""
        try:
            key = np.array([int(identity, 16)], np.uint64)
        except (ValueError, OverflowError):
            return None
        row = int(self.rows_by_key(key)[0])
        return row if row >= 0 else None

    def _split(self, rows: npt.NDArray[Any]) -> Sequence[tuple[Opened, I64, I64]]:
        """The rows by segment: (segment, positions in `rows`, rows within the segment)."""
        rows = np.asarray(rows, np.int64)
        if len(self._opened) == 1:
            return [(self._opened[0], np.arange(len(rows)), rows)]
        which = np.searchsorted(self._starts, rows, side="right") - 1
        return [
            (self._opened[i], np.flatnonzero(which == i), rows[which == i] - self._starts[i])
            for i in np.unique(which).tolist()
        ]


_FAULTS = (OSError, ValueError, LookupError, TypeError, ArithmeticError, pa.ArrowException)
"""What damaged bytes do to code that reads them: a large file is not compared with its digest when it is opened."""


@contextmanager
def _readable(root: Path, name: str | None) -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        raise StoreError(
            f"the generation {name} of {root} cannot be opened: {type(error).__name__}: {error}",
            "'helix verify' names what is damaged; return to an earlier generation with 'helix rollback'",
        ) from error


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    """One behind the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype)


def owners_of(low: I64, high: I64) -> tuple[I64, I64]:
    """The ranges low[i] to high[i], one behind the other: (i of each element, the element)."""
    size = high - low
    owner = np.arange(len(low)).repeat(size)
    return owner, np.arange(len(owner)) + (low - size.cumsum() + size)[owner]


def _one_hot(kinds: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """float64[types, n]: 1 where the row is of the type."""
    return np.asarray(kinds == np.arange(len(TYPES))[:, None], np.float64)


def _codes(values: npt.NDArray[Any], bound: int) -> I64:
    """The different values, all from 0 and below the bound, ascending: by a table where that is no larger than them."""
    if bound > max(len(values), 1 << 20):
        return np.unique(values).astype(np.int64)
    there = np.zeros(bound, bool)
    there[values] = True
    return np.flatnonzero(there)
