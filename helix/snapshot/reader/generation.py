"""The open files of one generation: all that its views have in common."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import EstimatedCounter, TokenCounter
from helix.errors import EncoderError, EngineError, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import check_below
from helix.snapshot.index import changes
from helix.snapshot.index.changes import ChangeIndex
from helix.snapshot.index.dense import DenseIndex, open_dense
from helix.snapshot.index.doc2query import KIND, QueryIndex, QueryPart, open_queries
from helix.snapshot.index.flat import FlatIndex, Gpu, build_flat
from helix.snapshot.index.sparse import ENCODER, SparseIndex, find_encoder, open_sparse, select_usable
from helix.snapshot.index.tokens import TokenIndex, TokenVectors, open_tokens
from helix.snapshot.index.tokens import select_usable as select_tokens
from helix.snapshot.ledger.access_events import load_access
from helix.snapshot.manifest import Index, Manifest, Segment
from helix.snapshot.npz import read_npz
from helix.snapshot.partial import list_absent
from helix.snapshot.pins import pin_generation, release_pin
from helix.snapshot.reader.entity_names import EntityNames, read_entities
from helix.snapshot.segment.columns import list_acl
from helix.snapshot.segment.open import OpenSegment, check_files, map_deleted_rows, open_segment
from helix.types import F32, I64, Bool
from helix.util.threads import WorkStarter, defer_work, start_in_background

if TYPE_CHECKING:
    from helix.encoders.sparse import QueryEncoder
    from helix.engines.base import Engine

_ROUTER: Final = {
    "weights": (np.float32, 1),
    "bias": (np.float32, 0),
    "threshold": (np.float32, 0),
    "prompt_weights": (np.float32, 1),
    "prompt_bias": (np.float32, 0),
    "background": (np.float32, 1),
}
"""The arrays of router.npz: dtype and dimensions."""

_LATER: Final = ("prompt_weights", "prompt_bias", "background")
"""Those that earlier releases did not write."""

_ATTEMPTS: Final = 5  # to open, while CURRENT moves on and old files are deleted

_FAULTS: Final = (OSError, ValueError, LookupError, TypeError, ArithmeticError, pa.ArrowException)
"""Errors that damaged bytes cause in code that reads them: a large file's digest is not checked on opening."""

RowIndex = TypeVar("RowIndex", QueryIndex, SparseIndex, TokenIndex)


class LoadedModels(NamedTuple):
    """A lineage's encoder, and its token counter."""

    encoder: Encoder
    counter: TokenCounter | EstimatedCounter


class Generation:
    """One generation's files, mapped and pinned. Nothing here depends on which rows are live.

    Args:
        name: of its manifest; None: an empty store.
        threads: threads of an encoder; 1 also keeps a question in its own thread.
        before: an open generation; segments that both share are reused.
        gpu: searches the dense leg; None: the CPU does.
        engine: finds the candidates of the dense leg, whose indexes are then not opened; None: the indexes do.

    Raises:
        StoreError: the store is missing, damaged or of a newer format; names the file.
        UsageError: the vectors do not fit the GPU.
    """

    def __init__(
        self,
        root: Path,
        name: str | None,
        threads: int,
        before: Generation | None,
        gpu: Gpu | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.root, self.name, self.threads, self.gpu, self.engine = root, name, threads, gpu, engine
        self._is_exported = False
        claim = pin_generation(root, name) if name else None
        unpin = weakref.finalize(self, release_pin, *claim) if claim else None
        try:
            with convert_faults(root, name):
                self._open(before if before and before.root == root else None)
        except BaseException:
            if unpin:
                unpin()
            raise

    def _open(self, before: Generation | None) -> None:
        root = self.root
        self.manifest: Manifest | None = manifests.load(root, self.name) if self.name else None
        self.absent = list_absent(root, self.name)
        before = None if before and before.absent else before  # its substitutes are not those files
        shared = {segment.id: segment for segment in before.segments} if before else {}
        if self.manifest:
            known = set(before.manifest.files()) if before and before.manifest else set()
            # Encoders are checked on first use: without one the other legs still answer.
            sparse = find_encoder(self.manifest.indexes)
            unchecked = {*known, *self.manifest.encoder, *(sparse.files if sparse else ()), *self.manifest.documents}
            if self.engine:
                unchecked.update(*(index.files for index in self.manifest.indexes if index.kind == "dense"))
            needed = (file for file in self.manifest.files() if file.path not in self.absent)
            check_files(root, [file for file in needed if file not in unchecked])
        self.segments: list[OpenSegment] = [
            shared.get(segment.id) or open_segment(root, segment, dim=self.dim, absent=self.absent)
            for segment in self._list_segments()
        ]
        ends = np.cumsum([0, *(segment.rows for segment in self.segments)], dtype=np.int64)
        self.starts: I64 = ends[:-1]
        self.rows = int(ends[-1])
        reading = self._begin_dense(before.dense if before and shared else {})
        self.access = load_access(root, self.manifest.access) if self.manifest and self.manifest.access else None
        self.undeleted = self._find_undeleted()
        self.acl_rows, self.acl_names = list_acl([segment.columns for segment in self.segments])
        self.restricted: Bool = np.bincount(self.acl_rows, minlength=self.rows).astype(bool)
        self.dense: dict[str, DenseIndex] = {segment: index() for segment, index in reading.items()}
        self.flat: dict[str, FlatIndex] = self._build_flat(before.flat if before and before.gpu is self.gpu else {})

    def _build_flat(self, before: dict[str, FlatIndex]) -> dict[str, FlatIndex]:
        """Copy the vectors of new segments to the GPU; nothing without one."""
        if self.gpu is None or self.absent:
            return {}
        return {
            segment.id: before.get(segment.id) or build_flat(self.gpu, segment["vectors.i8"], segment["vectors.scale"])
            for segment in self.segments
        }

    @property
    def has_arrived(self) -> bool:
        """True once files that were absent when the generation was opened are here."""
        return bool(self.absent) and not list_absent(self.root, self.name)

    @property
    def dim(self) -> int:
        """Dimensions of a vector; 0 for an empty store."""
        return self.manifest.lineage.dim if self.manifest else 0

    @property
    def encoder_name(self) -> str:
        """Name of the lineage's encoder, without the `@DIMS` of a cut one; empty for an empty store."""
        return self.manifest.lineage.name.partition("@")[0] if self.manifest else ""

    @property
    def indexes(self) -> tuple[Index, ...]:
        """The manifest's indexes whose files are here."""
        found = self.manifest.indexes if self.manifest else ()
        if not self.absent:
            return found
        return tuple(index for index in found if not any(file.path in self.absent for file in index.files))

    def find_gap(self) -> str:
        """Return how the engine's export differs from this generation; empty where it is of this one.

        Raises:
            EngineError: it cannot be used, or its vectors are of no export, or of another encoder.
        """
        if self.engine is None or self.manifest is None or self._is_exported:
            return ""
        state, place = self.engine.read_state(), self.engine.place
        if state is None:
            raise EngineError(f"{place} holds no complete export", "run 'helix export --to'")
        if (state.encoder, state.dim) != (self.manifest.lineage.encoder, self.dim):
            raise EngineError(f"{place} holds vectors of another encoder", "export again with --force")
        self._is_exported = state.generation == self.name
        number = self.manifest.generation
        return "" if self._is_exported else f"{place} holds generation {state.number}, and this is {number}"

    @property
    def start_work(self) -> WorkStarter:
        """Start work that a question needs later: in a second thread, or with one thread when it is needed."""
        return defer_work if self.threads == 1 else start_in_background

    def _list_segments(self) -> tuple[Segment, ...]:
        return self.manifest.segments if self.manifest else ()

    def _find_undeleted(self) -> Bool:
        undeleted = np.ones(self.rows, bool)
        for deletes in self.manifest.deletes if self.manifest else ():
            rows = map_deleted_rows(self.root, deletes, self._open_segment(deletes.segment).rows)
            undeleted[self.start_of(deletes.segment) + rows.astype(np.int64)] = False
        return undeleted

    def _begin_dense(self, before: dict[str, DenseIndex]) -> dict[str, Callable[[], DenseIndex]]:
        """Start to read each segment's dense index; a large one takes as long as opening everything else."""
        reading: dict[str, Callable[[], DenseIndex]] = {}
        for index in () if self.engine else self.indexes:
            if index.kind == "dense":
                segment = index.covers[0]
                if segment in before:
                    reading[segment] = partial(before.__getitem__, segment)
                else:
                    path = self.root / "indexes" / index.id / "dense" / "ivf.faiss"
                    shape = self._open_segment(segment)["vectors.i8"].shape
                    reading[segment] = self.start_work(open_dense, path, index.params, shape)
        return reading

    def _open_segment(self, identity: str) -> OpenSegment:
        return next(segment for segment in self.segments if segment.id == identity)

    def start_of(self, segment: str) -> int:
        """Return a segment's first row."""
        return int(self.starts[[opened.id for opened in self.segments].index(segment)])

    def _open_rows(self, index: Index, opened: RowIndex) -> tuple[int, RowIndex]:
        """Return the first row of an index's segment, and the index, whose rows are checked."""
        segment = self._open_segment(index.covers[0])
        check_below(self.root / "indexes" / index.id / index.kind / "rows.npy", opened.rows, segment.rows)
        return self.start_of(segment.id), opened

    @cached_property
    def queries(self) -> list[QueryPart]:
        """The open doc2query indexes."""
        return [
            QueryPart(*self._open_rows(index, open_queries(self.root, index)))
            for index in self.indexes
            if index.kind == KIND
        ]

    @cached_property
    def impacts(self) -> list[tuple[int, SparseIndex]]:
        """The open learned-sparse indexes, each with its segment's first row."""
        return [self._open_rows(index, open_sparse(self.root, index)) for index in select_usable(self.indexes)]

    @cached_property
    def changes(self) -> list[ChangeIndex]:
        """The open indexes of changes."""
        return [changes.open_changes(self.root, index) for index in changes.select_usable(self.indexes)]

    @cached_property
    def entities(self) -> EntityNames:
        """The names of all entities, hidden ones too."""
        return read_entities(self.root, self.segments)

    @cached_property
    def tokens(self) -> TokenVectors | None:
        """The kept token vectors, which are opened by the first question that needs them; None without any."""
        own = select_tokens(self.indexes)
        opened = [self._open_rows(index, open_tokens(self.root, index)) for index in own]
        return TokenVectors(own[-1].params, opened) if own else None

    # ------------------------------------------------------------ models

    @cached_property
    def encoder(self) -> Encoder:
        """The lineage's query encoder.

        Raises:
            EncoderError: its files are missing, or not the ones the lineage was built with.
        """
        if self.manifest is None:
            raise EncoderError("the store is empty", "ingest something first")
        if self.absent:
            what = f"generation {self.manifest.generation} is still arriving: its vectors and {len(self.absent)} files"
            raise EncoderError(f"{what} in all are not here yet", "ask again later; words alone answer until then")
        fingerprint = self.manifest.lineage.encoder
        # One thread: a question is short, and waking a second thread costs more than it saves.
        return Encoder(self.root / "encoders" / fingerprint, self.threads or 1, fingerprint)

    @cached_property
    def sparse_encoder(self) -> QueryEncoder:
        """The learned-sparse query encoder.

        Raises:
            EncoderError: the store has none, or its files are missing or damaged.
        """
        from helix.encoders.sparse import open_query  # rarely needed

        index = find_encoder(self.indexes)
        if index is None:
            raise EncoderError("the store has no sparse encoder", "set HELIX_SPARSE_ENCODER and run 'helix expand'")
        # One thread: the dense leg uses the other core.
        return open_query(self.root / "indexes" / index.id / ENCODER, self.threads or 1)

    @cached_property
    def counter(self) -> TokenCounter | EstimatedCounter:
        """Count tokens as the encoder does, or estimate them where the encoder is not available."""
        try:
            return TokenCounter(self.encoder.folder, self.encoder.tokenizer)
        except EncoderError:
            return EstimatedCounter()

    @cached_property
    def router(self) -> dict[str, F32] | None:
        """The arrays of the router's classifiers; None where they were not trained."""
        for index in self.indexes:
            if index.kind == "router":
                return read_npz(self.root / "indexes" / index.id / "router" / "router.npz", _ROUTER, _LATER)
        return None

    def adopt(self, before: Generation) -> None:
        """Reuse the encoders that an earlier generation has loaded, where they are the same."""
        if before.absent:  # it estimates tokens
            return
        sparse = find_encoder(self.indexes)
        if sparse and sparse == find_encoder(before.indexes) and "sparse_encoder" in vars(before):
            vars(self)["sparse_encoder"] = before.sparse_encoder
        self.share_models(before.list_models())

    def list_models(self) -> dict[str, LoadedModels]:
        """Return the loaded encoder and its token counter by the encoder's fingerprint; empty before they are."""
        loaded = vars(self)
        if self.manifest is None or self.absent or "encoder" not in loaded or "counter" not in loaded:
            return {}
        return {self.manifest.lineage.encoder: LoadedModels(loaded["encoder"], loaded["counter"])}

    def share_models(self, models: Mapping[str, LoadedModels]) -> None:
        """Use a loaded encoder of this lineage, of any store: equal fingerprints are equal files."""
        found = models.get(self.manifest.lineage.encoder) if self.manifest and not self.absent else None
        if found is not None:
            vars(self).update(found._asdict())


def open_generation(
    root: Path,
    name: str | None,
    threads: int,
    before: Generation | None,
    gpu: Gpu | None = None,
    engine: Engine | None = None,
) -> Generation:
    """Open a generation; without a name, the one that CURRENT names.

    Raises:
        StoreError: the store is missing, damaged or of a newer format; names the file.
    """
    for _ in range(_ATTEMPTS):
        chosen = name or manifests.read_current(root)
        try:
            return Generation(root, chosen, threads, before, gpu, engine)
        except StoreError:
            # Its files were removed after CURRENT was read and before the pin was seen: CURRENT names another by now.
            if name is not None or manifests.read_current(root) == chosen:
                raise
    raise StoreError(f"the generations of {root} change faster than they can be opened", "try again")


@contextmanager
def convert_faults(root: Path, name: str | None) -> Iterator[None]:
    """Turn the errors that damaged bytes cause into a StoreError."""
    try:
        yield
    except _FAULTS as error:
        raise StoreError(
            f"the generation {name} of {root} cannot be opened: {type(error).__name__}: {error}",
            "'helix verify' names what is damaged; return to an earlier generation with 'helix rollback'",
        ) from error
