"""Publishing accepted documents in this process while a watch continues."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from helix.cli.terminal import format_count
from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import HelixError, StoreError
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from pipelines.ingest.commit import Committed, commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.watch import QUIET, SETTLE, SLICE
from pipelines.maintain.compact import compact
from pipelines.maintain.forget import tidy

MERGE: Final = 16
"""Commits before their segments are merged during work: each segment costs a commit and a recall milliseconds."""

_NAME_CHARS: Final = 48  # of a file that a log line names

log = logging.getLogger("helix.watch")


def _name_sources(sources: Sequence[str]) -> str:
    """Return the file of a batch, with its folder, or the number of files and the last one."""
    names = ["/".join(Path(source).parts[-2:]) for source in dict.fromkeys(sources)]
    last = names[-1] if len(names[-1]) <= _NAME_CHARS else f"…{names[-1][1 - _NAME_CHARS :]}"
    return last if len(names) == 1 else f"{len(names):,} files ({last}, …)"


class Publisher:
    """Enriches and publishes accepted documents, newest first, in slices of time. For one thread."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root, self.settings = root, settings
        self.waiting: list[str] = inbox.list_pending(root)[::-1]  # the last is the next
        self._encoder: tuple[Encoder, TokenCounter] | None = None
        self._made = False
        self._worked = time.monotonic()
        self._untidy = True
        self._added = 0  # segments since the last merge
        self._came: dict[str, float] = {}  # when each waiting document was accepted, monotonic
        self._sources: dict[str, str] = {}  # of enriched documents that are not published yet
        self._upkeep: threading.Thread | None = None

    def add(self, documents: Sequence[str]) -> None:
        """Add documents that were just accepted, in order: they are enriched first."""
        self.waiting += reversed(documents)
        self._came.update(dict.fromkeys(documents, time.monotonic()))

    def step(self, busy: bool = False) -> bool:
        """Work for a slice of time; return whether there was work. Published items are recallable on return."""
        if not self.waiting and not self._made:
            self._tidy(busy)
            return False
        began = time.monotonic()
        while self.waiting and time.monotonic() - began < SLICE:
            self._made |= self._enrich(self.waiting.pop())
        if self._made:
            try:
                done = commit(self.root, self._open()[0], self.settings)
            except StoreError as error:  # the parts are durable, and the next step publishes them
                log.error("not published yet: %s", error)
                time.sleep(SETTLE)
                return True
            self._log_published(done)
            self._added += 1
            if self._added >= MERGE:
                self._start_upkeep(compact)
        self._made = False
        self._worked, self._untidy = time.monotonic(), True
        return True

    def _enrich(self, document: str) -> bool:
        encoder, counter = self._open()
        tried = try_enrich(self.root, document, encoder, counter, self.settings)
        if tried.dead:
            log.error("a document is given up: 'helix status' says why", extra={"document": document})
        if tried.part is None:
            self._came.pop(document, None)
            return False
        self._sources[document] = tried.part.path
        return True

    def _log_published(self, done: Committed) -> None:
        """Log what became searchable: how many items, of which files, and how long after it was accepted."""
        came = [self._came.pop(document) for document in done.documents if document in self._came]
        sources = [self._sources.pop(document) for document in done.documents if document in self._sources]
        after = f" {time.monotonic() - min(came):.1f} s after they were read" if came else ""
        of = f" of {_name_sources(sources)}" if sources else ""
        waiting = {"waiting": len(self.waiting)} if self.waiting else {}
        are = "is" if done.added == 1 else "are"
        text = f"{format_count(done.added, 'new item')}{of} {are} searchable{after}"
        log.info("%s", text, extra={"generation": done.generation, **waiting})

    def open(self) -> None:
        """Load the encoder now, so that the first document does not wait for it.

        Raises:
            EncoderError: none is available.
        """
        self._open()

    def _open(self) -> tuple[Encoder, TokenCounter]:
        if self._encoder is None:
            encoder = open_encoder(self.root, self.settings)
            self._encoder = encoder, TokenCounter(encoder.folder, encoder.tokenizer)
        return self._encoder

    def _tidy(self, busy: bool) -> None:
        """Tidy up once after a quiet period."""
        if not busy and self._untidy and time.monotonic() - self._worked >= QUIET and self._start_upkeep(tidy):
            self._untidy = False

    def _start_upkeep(self, work: Callable[[Path, Settings], object]) -> bool:
        """Start upkeep in a background thread; return False while an earlier one runs."""
        if self._upkeep is not None and self._upkeep.is_alive():
            return False
        self._added = 0
        self._upkeep = threading.Thread(target=self._run_upkeep, args=(work,), name="helix-tidy", daemon=True)
        self._upkeep.start()
        return True

    def _run_upkeep(self, work: Callable[[Path, Settings], object]) -> None:
        try:
            work(self.root, self.settings)
        except (HelixError, OSError) as error:
            log.warning("tidying up failed: %s", error)

    def close(self) -> None:
        """Wait for running upkeep."""
        if self._upkeep is not None:
            self._upkeep.join()
