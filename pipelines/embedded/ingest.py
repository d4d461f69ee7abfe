"""Embedded ingest: accept, enrich and publish in this process, without a broker, by the functions that workers call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import HelixError
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from pipelines.ingest.accept_all import IngestReport, Progress, accept_all
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.lineage import open_encoder
from pipelines.maintain.forget import resume, tidy

COMMIT_ITEMS: Final = 20_000
"""Items after which a large import commits, which bounds its memory."""

_BUSY: Final = 0.05
"""Seconds between attempts while another process enriches a document."""

log = logging.getLogger("helix.pipelines")


def ingest(
    root: Path,
    inputs: Sequence[str | Path],
    settings: Settings,
    *,
    project: str | None = None,
    format: str = "auto",
    acl: Sequence[str] = (),
    remember: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestReport:
    """Ingest every file of the given paths and publish a new generation.

    Documents of earlier runs that were killed, or left to an absent broker, are published too.

    Args:
        remember: accept forgotten items again; otherwise they stay out.

    Raises:
        UsageError: no such format, or no such storage level.
        StoreError: the store cannot be written or read.
        EncoderError: no encoder is available.
    """
    report = IngestReport()
    if remember:
        resume(root, settings)  # unfinished deletions come first
    options: dict[str, Any] = {"project": project, "format": format, "acl": acl, "remember": remember}
    accept_all(root, inputs, settings, report, **options, progress=progress)
    finish(root, settings, report, progress=progress, say=say)
    return report


def finish(
    root: Path,
    settings: Settings,
    report: IngestReport,
    *,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """Enrich and publish every pending document, then tidy up; recall finds the new items first."""
    pending = inbox.list_pending(root)
    if pending:
        encoder = open_encoder(root, settings, say)
        counter = TokenCounter(encoder.folder, encoder.tokenizer)
        waiting = 0
        for i, document in enumerate(pending):
            waiting += _enrich(root, document, encoder, counter, settings, report)
            if progress:
                progress("enrich", i + 1, len(pending))
            if waiting >= COMMIT_ITEMS:
                _publish(root, encoder, settings, report)
                waiting = 0
        _publish(root, encoder, settings, report)
        if progress:
            progress("publish", 1, 1)
        try:
            tidy(root, settings)
        except (HelixError, OSError) as error:  # the items are published; the next run tidies up
            log.warning("published, but tidying up failed: %s", error)
    _, manifest = inbox.load_current(root)
    report.snapshot = manifest.generation if manifest else 0


def _publish(root: Path, encoder: Encoder, settings: Settings, report: IngestReport) -> None:
    done = commit(root, encoder, settings)
    report.items += done.added
    report.stay_out += done.forgotten


def _enrich(
    root: Path, document: str, encoder: Encoder, counter: TokenCounter, settings: Settings, report: IngestReport
) -> int:
    """Enrich a document, or wait for the process that does; return its number of items."""
    while not (tried := try_enrich(root, document, encoder, counter, settings)).part and not tried.error:
        time.sleep(_BUSY)
    if tried.part is None:
        report.dead += tried.dead
        report.refuse(_read_path(root, document), tried.error)
        return 0
    report.add_part(tried.part)
    return tried.part.items


def _read_path(root: Path, document: str) -> str:
    try:
        return inbox.read_envelope(root, document).path
    except HelixError:
        return str(root / "inbox" / document)
