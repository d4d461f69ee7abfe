"""Reindexing: builds a whole new lineage, with another encoder or pipeline, while the old one serves.

Every accepted document is enriched again, in parallel. The parts are committed to a chain of generations of its own,
whose pointer is NEXT. That chain is the progress: a killed run continues from it. Once NEXT holds every document of
CURRENT, one replacement of CURRENT swaps the lineages; the old generation stays for rollback. A lineage never mixes
two encoders.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.index.dense import FLOAT, fit_prefix
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import map_forgotten_keys
from helix.types import U64
from helix.util.failpoints import failpoint
from helix.util.priority import lower_priority
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import enrich
from pipelines.ingest.lineage import open_lineage
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.compact import Progress, compact, ignore_progress
from pipelines.maintain.deletion_steps import drop_rows
from pipelines.maintain.rollback import CONTENT
from pipelines.passes.carry import carry_to_lineage


def make_parts(
    root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
) -> None:
    """Enrich documents in HELIX_THREADS processes, by default one a core.

    Args:
        made: called with the number of parts made so far.
    """
    jobs = min(len(documents), settings.threads or os.cpu_count() or 1)
    if jobs <= 1:
        for i, document in enumerate(documents):
            enrich(root, document, encoder, _make_counter(encoder), settings)
            made(i + 1)
        return
    folder, fingerprint = encoder.folder, encoder.spec.fingerprint
    single = replace(settings, threads=1)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start_process) as pool:
        try:
            with _delay_interrupts():  # a process that is still starting is not among the active children
                tasks = [pool.submit(make_part, root, document, folder, fingerprint, single) for document in documents]
            for i, task in enumerate(tasks):
                task.result()
                made(i + 1)
        except BrokenProcessPool:
            raise StoreError(
                f"a process that enriched documents of {root} was killed",
                "check whether memory ran out; nothing was swapped, and the next run continues from here",
            ) from None
        except KeyboardInterrupt:  # the terminal sends it to this process alone
            for child in active_children():
                child.kill()
            raise


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # no other thread is interrupted
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        signal.raise_signal(held[0])


def _start_process() -> None:
    """Lower a pool process's priority, and end it when its parent dies for any reason."""
    os.setsid()
    lower_priority()
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def make_part(root: Path, document: str, folder: Path, fingerprint: str, settings: Settings) -> None:
    """Enrich one document in this process; return at once where its part is present."""
    if part_folder(root, document, pipeline_fingerprint(fingerprint, settings)).is_dir():
        return
    encoder = _load_encoder(folder, fingerprint, settings.threads)
    enrich(root, document, encoder, _make_counter(encoder), settings)


@cache
def _load_encoder(folder: Path, fingerprint: str, threads: int) -> Encoder:
    return Encoder(folder, threads, fingerprint)


@cache
def _make_counter(encoder: Encoder) -> TokenCounter:
    return TokenCounter(encoder.folder, encoder.tokenizer)


BATCH: Final = 256
"""Documents that are enriched before they are committed to NEXT."""

Say = Callable[[str], None]
Work = Callable[[Path, Sequence[str], Encoder, Settings, Callable[[int], None]], None]
"""Makes the parts of documents, reports how many are made, and returns when all are."""


@dataclass(frozen=True, slots=True)
class Reindexed:
    """The outcome of a reindex. `swapped` is false where the store was up to date."""

    generation: int
    encoder: str
    documents: int
    items: int
    swapped: bool


def reindex(
    root: Path,
    settings: Settings,
    encoder: str = "",
    *,
    work: Work = make_parts,
    say: Say | None = None,
    progress: Progress = ignore_progress,
) -> Reindexed:
    """Build the new lineage, or continue a started one, and swap.

    Args:
        encoder: name of a registered encoder or a folder; empty keeps the lineage's, for a changed pipeline.
        work: makes the parts; by default processes of this machine.

    Raises:
        UsageError: no such storage level, or none for the encoder's vectors.
        StoreError: a document's envelope is missing, or the store cannot be written.
        EncoderError: the encoder is not available.
    """
    name, manifest = inbox.load_current(root)
    if manifest is None or name is None:
        raise StoreError(f"nothing was published to {root} yet", "ingest something first")
    model = _open_encoder(root, manifest, encoder, settings)
    fit_prefix(settings.vectors.removesuffix(FLOAT), model.spec.dim)
    target = pipeline_fingerprint(model.spec.fingerprint, settings)
    started = _load_next(root)
    if started is not None and (started.lineage.pipeline != target or _share_segments(started, manifest)):
        abandon(root)  # another reindex superseded it, or its run was killed after the swap
        started = None
    if manifest.lineage.pipeline == target and started is None:
        return Reindexed(manifest.generation, model.spec.name, 0, manifest.counts["items"], False)
    _require_envelopes(root, manifest)
    done, unmade = 0, set[str]()
    while True:
        _revive_published(root, settings)
        while missing := _list_missing(root):
            if done and (other := _find_swapped(root, target)):
                return Reindexed(other.generation, model.spec.name, done, other.counts["items"], False)
            if say:
                say(f"{len(missing)} documents to go")
            committed, unmade = _build_batch(root, missing, unmade, target, model, settings, work, progress)
            done += committed
        drop_rows(root, _read_forgotten(root), settings, "NEXT")
        compact(root, settings, say, pointer="NEXT", progress=progress)
        carry_to_lineage(root, settings)
        failpoint("reindex.compacted")
        if swapped := swap(root, settings):
            for path in (root / "tries").glob(f"*-{target}"):
                path.unlink(missing_ok=True)
            return Reindexed(swapped.generation, model.spec.name, done, swapped.counts["items"], True)


def _build_batch(
    root: Path,
    missing: Sequence[str],
    before: set[str],
    target: str,
    model: Encoder,
    settings: Settings,
    work: Work,
    progress: Progress,
) -> tuple[int, set[str]]:
    """Enrich and commit a batch; return the number of committed documents, and those without a part.

    Args:
        before: documents that got no part in the previous batch.

    Raises:
        StoreError: a document got no part twice.
    """
    total = len(inbox.list_done(root, inbox.load_current(root)[1]))
    present = total - len(missing)
    progress("reindex", present, total)
    # A present part waits for the document it continues.
    todo = [one for one in missing if not part_folder(root, one, target).is_dir()][:BATCH]
    if todo:
        work(root, todo, model, settings, lambda made: progress("reindex", present + made, total))
    failpoint("reindex.parts")
    committed = len(commit(root, model, settings, "NEXT").documents)
    failpoint("reindex.committed")
    left = set(_list_missing(root))
    made = {one for one in left if part_folder(root, one, target).is_dir()} if committed else set()
    unmade = left & {*todo, *missing[:BATCH]} - made
    if before & unmade:  # once is no failure: a deletion removes the parts it meets
        raise StoreError(
            f"{len(unmade)} documents cannot be enriched, {sorted(unmade)[0][:12]}… among them",
            "see the messages above; nothing was swapped, and the next run continues from here",
        )
    return committed, unmade


def _open_encoder(root: Path, manifest: Manifest, wanted: str, settings: Settings) -> Encoder:
    if not wanted or wanted == manifest.lineage.name:
        return open_lineage(root, manifest.lineage, settings)
    weights = choose_encoder(replace(settings, encoder=wanted))
    return Encoder(cache_encoder(weights, Path(settings.cache)), settings.threads)


def _require_envelopes(root: Path, manifest: Manifest) -> None:
    gone = sorted(inbox.list_done(root, manifest) - set(inbox.list_accepted(root)))
    if gone or (manifest.counts["items"] and not manifest.counts["documents"]):
        raise StoreError(
            f"{len(gone) or 'all'} documents of {root} have no envelope in its inbox: it is a copy that only serves",
            "reindex the store they were ingested into, then push and pull",
        )


def _load_next(root: Path) -> Manifest | None:
    name = manifests.read_current(root, "NEXT")
    return manifests.load(root, name) if name else None


def _share_segments(one: Manifest, other: Manifest) -> bool:
    return bool({segment.id for segment in one.segments} & {segment.id for segment in other.segments})


def _find_swapped(root: Path, target: str) -> Manifest | None:
    """Return the current generation if another process has swapped in the same lineage."""
    _, now = inbox.load_current(root)
    return now if now and now.lineage.pipeline == target and not (root / "NEXT").exists() else None


def _revive_published(root: Path, settings: Settings) -> None:
    """Revive published documents that a rollback, killed half-way, had set aside."""
    with writer.acquire_lock(root, settings.lock_wait):
        for document in inbox.list_done(root, inbox.load_current(root)[1]) & inbox.list_dead(root).keys():
            inbox.revive_document(root, document)


def _read_forgotten(root: Path, pointer: str = "CURRENT") -> U64:
    name = manifests.read_current(root, pointer)
    return map_forgotten_keys(root, manifests.load(root, name) if name else None)


def _list_missing(root: Path) -> list[str]:
    """List the published documents that NEXT lacks, oldest first; pending ones do not count."""
    published = inbox.list_done(root, inbox.load_current(root)[1])
    waiting = inbox.list_waiting(root, inbox.list_done(root, _load_next(root)))
    return [document for document in waiting if document in published]


def abandon(root: Path) -> None:
    """Give up the lineage being built; `gc` removes its files."""
    (root / "NEXT").unlink(missing_ok=True)
    paths.sync_folder(root)


def swap(root: Path, settings: Settings) -> Manifest | None:
    """Make NEXT current if it holds all documents and forgotten keys of CURRENT; return None if it does not."""
    with writer.acquire_lock(root, settings.lock_wait, "NEXT"), writer.acquire_lock(root, settings.lock_wait) as held:
        name, now = inbox.load_current(root)
        next_name = manifests.read_current(root, "NEXT")
        if now is None or name is None or not inbox.list_accepted(root):
            raise StoreError(f"the documents of {root} are gone", "restore the store from a backup")
        if next_name is None:  # another process swapped it in, or a rollback gave it up
            return None
        built = manifests.load(root, next_name, write=True)
        if inbox.list_done(root, now) - inbox.list_done(root, built):
            return None
        if not np.isin(_read_forgotten(root), _read_forgotten(root, "NEXT")).all():
            return None
        # Access counts and watermarks stay those of CURRENT.
        new = writer.build_next(held, name, now, **{field: getattr(built, field) for field in CONTENT})
        failpoint("reindex.swap")
        writer.publish_generation(held, new)
        failpoint("reindex.swapped")
        abandon(root)
        return new
