"""Embedded ingest: accept, enrich and publish in this process, without a broker, by the functions that workers call.

A large ingest publishes early: the newest sessions first, then in batches that grow, so that a first recall has
something to find after seconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import HelixError
from helix.settings import Settings
from helix.snapshot.ledger import attempts, inbox
from pipelines.embedded.state import IngestState, Observe
from pipelines.ingest.accept_all import (
    AcceptedFile,
    IngestReport,
    InputFile,
    accept_each,
    list_files,
    note_outside,
    prepare_ingest,
)
from pipelines.ingest.commit import Committed, commit
from pipelines.ingest.enrich import EnrichAttempt, try_enrich
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.source import AcceptOptions
from pipelines.maintain.forget import resume, tidy

COMMIT_ITEMS: Final = 20_000
"""Items after which a large import commits, which bounds its memory."""

FIRST_ITEMS: Final = 300
"""Items of the first commit of an ingest that publishes early: two seconds of embedding."""

GROWTH: Final = 4
"""The next commit has so many times the items of the one before, up to COMMIT_ITEMS: few segments, early answers."""

FIRST_BYTES: Final = 4 << 20
"""Bytes that are accepted before the first commit; the rest is accepted after it, all at once."""

FIRST_WORK: Final = 256 << 10
"""Bytes of the documents of the first commit: the smallest of the accepted ones, since a long one alone takes
many seconds."""

WORKERS: Final = min(os.cpu_count() or 1, 4)
"""Documents that are enriched at a time, each with one thread of the encoder: the rest of the work holds Python's lock
for a fifth of the time."""

_BUSY: Final = 0.05
"""Seconds between attempts while another process enriches a document."""

log = logging.getLogger("helix.pipelines")


def ingest(
    root: Path,
    inputs: Sequence[str | Path | InputFile],
    settings: Settings,
    *,
    project: str | None = None,
    format: str = "auto",
    acl: Sequence[str] = (),
    remember: bool = False,
    early: bool = False,
    workers: int = WORKERS,
    observe: Observe | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestReport:
    """Ingest every file of the given paths and publish new generations.

    Documents of earlier runs that were killed, or left to an absent broker, are published too.

    Args:
        remember: accept forgotten items again; otherwise they stay out.
        early: publish the newest sessions first and the rest in growing batches, instead of all at once at the end.
        workers: documents that are enriched at a time.

    Raises:
        UsageError: no such format, or no such storage level.
        StoreError: the store cannot be written or read.
        EncoderError: no encoder is available.
    """
    report = IngestReport()
    if remember:
        resume(root, settings)  # unfinished deletions come first
    prepare_ingest(root, settings, format)
    files = list_files(inputs, note_outside(report), newest=early)
    options = AcceptOptions(project, format, tuple(acl), seconds=1.0 if early else float("inf"), remember=remember)
    run = IngestRun(root, settings, report, early, observe, say, workers)
    run.accept(files, accept_each(root, files, settings, report, options, newest=early))
    run.finish()
    return report


def finish(
    root: Path,
    settings: Settings,
    report: IngestReport,
    *,
    observe: Observe | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """Enrich and publish every pending document, then tidy up; recall finds the new items first."""
    IngestRun(root, settings, report, False, observe, say).finish()


class IngestRun:
    """One run of the embedded ingest; `state` shows how far it is."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        report: IngestReport,
        early: bool,
        observe: Observe | None,
        say: Callable[[str], None] | None,
        workers: int = WORKERS,
    ) -> None:
        self.root, self.settings, self.report, self._workers = root, settings, report, workers
        self.state = IngestState()
        self._observe, self._say = observe, say
        self._waiting: deque[str] = deque()  # accepted documents in the order of enriching
        self._sizes: dict[str, int] = {}  # of every document of this run, in bytes
        self._early = early
        self._opening = threading.Lock()
        self._stopped = threading.Event()
        self._encoder: tuple[Encoder, TokenCounter] | None = None
        self._batch = FIRST_ITEMS if early else COMMIT_ITEMS
        self._parts = 0  # that no commit began to publish
        self._items = 0  # of these
        self._publishing: Future[Committed] | None = None

    def accept(self, files: Sequence[InputFile], accepted: Iterable[AcceptedFile]) -> None:
        """Accept all files; publish the first items before the rest is accepted, if the ingest publishes early."""
        state = self.state
        state.files_total, state.unread = len(files), sum(file.size for file in files)
        for file, documents, done in accepted:
            self._add(documents)
            state.files += done
            state.unread -= file.size if done else 0
            self._show("accept")
            if self._early and not state.documents and state.waiting >= FIRST_BYTES:
                self._publish_first()

    def _publish_first(self) -> None:
        """Publish the smallest of the newest documents, at least one."""
        newest = list(self._waiting)
        smallest = sorted(newest, key=self._sizes.__getitem__)
        total = list(accumulate(self._sizes[document] for document in smallest))
        first = smallest[: max(1, bisect_right(total, FIRST_WORK))]
        self._waiting = deque(first)
        self._enrich()
        self._publish()
        self._waiting = deque(document for document in newest if document not in set(first))

    def _add(self, documents: Iterable[str]) -> None:
        """Add documents to those that wait."""
        for document in documents:
            self._waiting.append(document)
            self._sizes[document] = self._measure(document)
            self.state.documents_total += 1
            self.state.waiting += self._sizes[document]

    def _measure(self, document: str) -> int:
        """Return the bytes of an envelope; 0 for one that was removed."""
        try:
            return (self.root / "inbox" / document).stat().st_size
        except OSError:
            return 0

    def finish(self) -> None:
        """Enrich and publish every pending document, then tidy up."""
        earlier = [document for document in inbox.list_pending(self.root) if document not in self._sizes]
        self._add(reversed(earlier) if self._early else earlier)
        if self._early and not self.state.documents and self.state.waiting > FIRST_WORK:
            self._publish_first()
        if self._waiting or self._parts:
            self._enrich()
            self._publish()
            try:
                tidy(self.root, self.settings)
            except (HelixError, OSError) as error:  # the items are published; the next run tidies up
                log.warning("published, but tidying up failed: %s", error)
        _, manifest = inbox.load_current(self.root)
        self.report.snapshot = manifest.generation if manifest else 0

    def _enrich(self) -> None:
        """Enrich the waiting documents, and publish in batches meanwhile."""
        suspects = set(attempts.list_records(self.root))  # a process died over one of them, so each runs alone
        running: dict[Future[EnrichAttempt], str] = {}
        with (
            ThreadPoolExecutor(self._workers, "enrich") as pool,
            ThreadPoolExecutor(1, "publish") as publisher,
            self._stop_on_error(),
        ):
            while self._waiting or running:
                while self._waiting and self._may_start(suspects, [*running.values()]):
                    document = self._waiting.popleft()
                    running[pool.submit(self._enrich_document, document)] = document
                began = time.perf_counter()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._note_enriched(running.pop(future), future.result(), time.perf_counter() - began)
                    began = time.perf_counter()
                self._note_published(wait=False)
                if self._items >= self._batch:
                    self._start_publishing(publisher)
            self._note_published()

    @contextmanager
    def _stop_on_error(self) -> Iterator[None]:
        """End the documents that are being enriched at an error or Ctrl-C; they wait for the next run."""
        try:
            yield
        except BaseException:
            self._stopped.set()
            raise

    def _check_stopped(self, embedded: int) -> None:
        """Raise InterruptedError if the run ends; for `Encoder.passages`, after some passages are embedded."""
        if self._stopped.is_set():
            raise InterruptedError("the ingest was stopped")

    def _may_start(self, suspects: Collection[str], running: Sequence[str]) -> bool:
        """Return whether the next document may be enriched along with those that are."""
        if self._waiting[0] in suspects or (running and running[0] in suspects):
            return not running
        return len(running) < self._workers

    def _enrich_document(self, document: str) -> EnrichAttempt:
        """Enrich a document, or wait for the process that does."""
        encoder, counter = self._open_encoder()
        arguments = (self.root, document, encoder, counter, self.settings)
        while not (tried := try_enrich(*arguments, progress=self._check_stopped)).part and not tried.error:
            time.sleep(_BUSY)
        return tried

    def _note_enriched(self, document: str, tried: EnrichAttempt, seconds: float) -> None:
        """Add the outcome of a document to the report and the state."""
        state = self.state
        if tried.part is None:
            self.report.dead += tried.dead
            self.report.refuse(_read_path(self.root, document), tried.error)
        else:
            self.report.add_part(tried.part)
            self._parts += 1
            self._items += tried.part.items
            state.items += tried.part.items
        size = self._sizes[document]
        state.documents += 1
        state.waiting, state.enriched = state.waiting - size, state.enriched + size
        state.seconds += seconds
        self._show("enrich")

    def _open_encoder(self) -> tuple[Encoder, TokenCounter]:
        with self._opening:
            if self._encoder is None:
                one = replace(self.settings, threads=self.settings.threads or (1 if self._workers > 1 else 0))
                encoder = open_encoder(self.root, one, self._say)
                self._encoder = encoder, TokenCounter(encoder.folder, encoder.tokenizer)
            return self._encoder

    def _publish(self) -> None:
        """Publish the enriched documents; recall finds their items on return."""
        with ThreadPoolExecutor(1, "publish") as publisher:
            self._start_publishing(publisher)
            self._note_published()

    def _start_publishing(self, publisher: ThreadPoolExecutor) -> None:
        """Begin to publish the enriched documents, after the commit that runs."""
        self._note_published()
        encoder, _ = self._open_encoder()
        self._publishing = publisher.submit(commit, self.root, encoder, self.settings)
        self._parts = self._items = 0
        self._batch = min(GROWTH * self._batch, COMMIT_ITEMS)

    def _note_published(self, wait: bool = True) -> None:
        """Add the outcome of the commit that runs, if any; recall finds its items. Without `wait`, only if it ended."""
        if self._publishing is None or not (wait or self._publishing.done()):
            return
        began = time.perf_counter()
        done = self._publishing.result()
        self._publishing = None
        self.report.items += done.added
        self.report.stay_out += done.forgotten
        self.state.searchable += done.added
        self.state.seconds += time.perf_counter() - began
        self._show("publish")

    def _show(self, step: str) -> None:
        if self._observe:
            self.state.step = step
            self._observe(self.state)


def _read_path(root: Path, document: str) -> str:
    try:
        return inbox.read_envelope(root, document).path
    except HelixError:
        return str(root / "inbox" / document)
