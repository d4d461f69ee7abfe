"""Reindexing: a whole new lineage, with another encoder or another pipeline, built beside the one that serves.

Every accepted document is enriched again, in parallel; the parts are committed to a chain of generations of its own,
whose pointer is NEXT. That chain is the progress: a run that was killed goes on where it stood. The old lineage serves
and takes in new documents meanwhile. When NEXT holds every document CURRENT holds, and only then, one replacement of
CURRENT swaps them; the old generation stays for rollback. Two encoders never meet in one lineage.
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
from functools import cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

import numpy as np
import numpy.typing as npt

from helix.encoders.dense import Encoder, TokenCounter
from helix.encoders.dense_export import cached
from helix.encoders.registry import choose
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.index.dense import FLOAT, fitting
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import forgotten_keys
from helix.util.failpoints import failpoint
from helix.util.priority import lower_priority
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import enrich, part_folder, pipeline_fingerprint
from pipelines.maintain.compact import Progress, compact, still
from pipelines.maintain.forget import leave_out
from pipelines.passes.base import carry

BATCH = 256  # documents enriched before they are committed to NEXT

Say = Callable[[str], None]
Work = Callable[[Path, Sequence[str], Encoder, Settings, Callable[[int], None]], None]
"""Makes the parts of documents, and says how many are there by now; returns when all are."""


@dataclass(frozen=True, slots=True)
class Reindexed:
    """`swapped` is false where the store already was what was asked for."""

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
    work: Work | None = None,
    say: Say | None = None,
    progress: Progress = still,
) -> Reindexed:
    """Build the new lineage, or go on building it, and swap.

    Args:
        encoder: name of a registered encoder or a folder; empty keeps the lineage's, for a changed pipeline.
        work: who makes the parts; processes of this machine where not given.
        progress: called with (what is done, how far, of how many).

    Raises:
        UsageError: no such storage tier, or none for the encoder's vectors.
        StoreError: a document's envelope is missing, or the store cannot be written.
        EncoderError: the encoder is not in reach.
    """
    name, manifest = ledger.current(root)
    if manifest is None or name is None:
        raise StoreError(f"nothing was published to {root} yet", "ingest something first")
    model = _encoder(root, manifest, encoder, settings)
    fitting(settings.vectors.removesuffix(FLOAT), model.spec.dim)
    target = pipeline_fingerprint(model.spec.fingerprint, settings)
    started = _next(root)
    if started is not None and (started.lineage.pipeline != target or _shared(started, manifest)):
        abandon(root)  # half a lineage that nobody asks for any more, or what a run left that was killed after its swap
        started = None
    if manifest.lineage.pipeline == target and started is None:
        return Reindexed(manifest.generation, model.spec.name, 0, manifest.counts["items"], False)
    _check(root, manifest)
    done = 0
    unmade: set[str] = set()
    while True:
        _revive(root, settings)
        while missing := _missing(root):
            if done and (other := _swapped(root, target)):
                return Reindexed(other.generation, model.spec.name, done, other.counts["items"], False)
            if say:
                say(f"{len(missing)} documents to go")
            total = len(ledger.done(root, ledger.current(root)[1]))
            there = total - len(missing)
            progress("reindex", there, total)
            # One whose part is there waits for another that it goes on from.
            todo = [one for one in missing if not part_folder(root, one, target).is_dir()][:BATCH]
            if todo:
                (work or make_parts)(root, todo, model, settings, partial(_tell, progress, there, total))
            failpoint("reindex.parts")
            committed = len(commit(root, model, settings, "NEXT").documents)
            done += committed
            failpoint("reindex.committed")
            left = set(_missing(root))
            made = {one for one in left if part_folder(root, one, target).is_dir()} if committed else set()
            before, unmade = unmade, left & {*todo, *missing[:BATCH]} - made
            if before & unmade:  # once is no failure: a deletion takes the parts it meets away
                raise StoreError(
                    f"{len(unmade)} documents cannot be enriched, {sorted(unmade)[0][:12]}… among them",
                    "see the messages above; nothing was swapped, and the next run goes on from here",
                )
        leave_out(root, _forgotten(root), settings, "NEXT")
        compact(root, settings, say, pointer="NEXT", progress=progress)
        carry(root, settings)
        failpoint("reindex.compacted")
        if swapped := swap(root, settings):
            for path in (root / "tries").glob(f"*-{target}"):
                path.unlink(missing_ok=True)
            return Reindexed(swapped.generation, model.spec.name, done, swapped.counts["items"], True)


def _tell(progress: Progress, there: int, total: int, made: int) -> None:
    progress("reindex", there + made, total)


def _encoder(root: Path, manifest: Manifest, wanted: str, settings: Settings) -> Encoder:
    if not wanted or wanted == manifest.lineage.name:
        lineage = manifest.lineage
        return Encoder(root / "encoders" / lineage.encoder, settings.threads, lineage.encoder)
    return Encoder(cached(choose(replace(settings, encoder=wanted)), Path(settings.cache)), settings.threads)


def _check(root: Path, manifest: Manifest) -> None:
    gone = sorted(ledger.done(root, manifest) - set(ledger.accepted(root)))
    if gone or (manifest.counts["items"] and not manifest.counts["documents"]):
        raise StoreError(
            f"{len(gone) or 'all'} documents of {root} have no envelope in its inbox: it is a copy that only serves",
            "reindex the store they were ingested into, then push and pull",
        )


def _next(root: Path) -> Manifest | None:
    name = manifests.current_name(root, "NEXT")
    return manifests.load(root, name) if name else None


def _shared(one: Manifest, other: Manifest) -> bool:
    return bool({segment.id for segment in one.segments} & {segment.id for segment in other.segments})


def _swapped(root: Path, target: str) -> Manifest | None:
    """The current generation, if another process has swapped in what this one was building."""
    _, now = ledger.current(root)
    return now if now and now.lineage.pipeline == target and not (root / "NEXT").exists() else None


def _revive(root: Path, settings: Settings) -> None:
    """What is published is not dead: a rollback that was killed half-way had set it aside."""
    with writer.lock(root, settings.lock_wait):
        for document in ledger.done(root, ledger.current(root)[1]) & ledger.dead(root).keys():
            ledger.revive(root, document)


def _forgotten(root: Path, pointer: str = "CURRENT") -> npt.NDArray[np.uint64]:
    """Keys that must never come back."""
    name = manifests.current_name(root, pointer)
    return forgotten_keys(root, manifests.load(root, name) if name else None)


def _missing(root: Path) -> list[str]:
    """Published documents that NEXT does not hold yet, oldest first. One nobody has read yet stops none."""
    published = ledger.done(root, ledger.current(root)[1])
    return [document for document in ledger.waiting(root, ledger.done(root, _next(root))) if document in published]


def abandon(root: Path) -> None:
    """Give up the lineage that is being built; `gc` removes its files."""
    (root / "NEXT").unlink(missing_ok=True)
    paths.sync_folder(root)


def swap(root: Path, settings: Settings) -> Manifest | None:
    """Make NEXT current, if it holds every document CURRENT holds, and leaves out what CURRENT leaves out; None if
    CURRENT has moved on.
    """
    with writer.lock(root, settings.lock_wait, "NEXT"), writer.lock(root, settings.lock_wait) as held:
        name, now = ledger.current(root)
        next_name = manifests.current_name(root, "NEXT")
        if now is None or name is None or not ledger.accepted(root):
            raise StoreError(f"the documents of {root} are gone", "restore the store from a backup")
        if next_name is None:  # swapped in by another process, or given up by a rollback
            return None
        built = manifests.load(root, next_name, write=True)
        if ledger.done(root, now) - ledger.done(root, built):
            return None
        if not np.isin(_forgotten(root), _forgotten(root, "NEXT")).all():
            return None
        new = writer.following(held, name, now, **_content(built))
        failpoint("reindex.swap")
        writer.publish(held, new)
        failpoint("reindex.swapped")
        abandon(root)
        return new


def _content(built: Manifest) -> dict[str, object]:
    """What the new lineage brings; access counts, watermarks and what is forgotten stay."""
    names = ("lineage", "segments", "deletes", "indexes", "documents", "encoder", "coverage", "counts")
    return {name: getattr(built, name) for name in names}


# ---------------------------------------------------------------- parallel work on one machine


def make_parts(
    root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
) -> None:
    """Enrich documents in HELIX_THREADS processes, or as many as there are cores."""
    jobs = min(len(documents), settings.threads or os.cpu_count() or 1)
    if jobs <= 1:
        for i, document in enumerate(documents):
            enrich(root, document, encoder, _counter(encoder.folder), settings)
            made(i + 1)
        return
    folder, fingerprint = encoder.folder, encoder.spec.fingerprint
    single = replace(settings, threads=1)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin) as pool:
        try:
            with _uninterrupted():  # half begun, a process is not among those that are ended
                tasks = [pool.submit(make_part, root, document, folder, fingerprint, single) for document in documents]
            for i, task in enumerate(tasks):
                task.result()
                made(i + 1)
        except BrokenProcessPool:
            raise StoreError(
                f"a process that enriched documents of {root} was killed",
                "look whether memory ran out; nothing was swapped, and the next run goes on from here",
            ) from None
        except KeyboardInterrupt:  # which the terminal tells this process alone
            for child in active_children():
                child.kill()
            raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # no other is interrupted
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


def _begin() -> None:
    """A process of the pool stands behind all others, and does not outlive the one that made it, however that dies."""
    os.setsid()
    lower_priority()
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def make_part(root: Path, document: str, folder: Path, fingerprint: str, settings: Settings) -> None:
    """Enrich one document, in a process of its own or in a worker."""
    if part_folder(root, document, pipeline_fingerprint(fingerprint, settings)).is_dir():
        return
    encoder = _loaded(folder, fingerprint, settings.threads)
    enrich(root, document, encoder, _counter(folder), settings)


@cache
def _loaded(folder: Path, fingerprint: str, threads: int) -> Encoder:
    return Encoder(folder, threads, fingerprint)


@cache
def _counter(folder: Path) -> TokenCounter:
    return TokenCounter(folder)
