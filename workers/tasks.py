"""Tasks: check the name, call a function of `pipelines`, log. Messages carry a document's name and nothing else."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path

from helix.encoders.onnx import Encoder, TokenCounter
from helix.errors import UsageError
from helix.settings import load
from helix.snapshot import ledger
from pipelines.commit import commit as run_commit
from pipelines.enrich import enrich_or_bury
from pipelines.ingest import lineage_of, open_encoder, tidy
from pipelines.reindex import make_part
from workers.app import app

log = logging.getLogger("helix.workers")

_NAME = re.compile(r"[0-9a-f]{64}")


def _encoder(root: Path) -> tuple[Encoder, TokenCounter]:
    """Loaded with the first task of a process, not before: a parent that forks or spawns needs none."""
    return _loaded(root, lineage_of(root))


@cache
def _loaded(root: Path, lineage: str | None) -> tuple[Encoder, TokenCounter]:
    encoder = open_encoder(root, load())
    return encoder, TokenCounter(encoder.folder)


@app.task(name="helix.enrich")  # type: ignore[untyped-decorator]
def enrich(document: str) -> None:
    """Make one document's part, then ask for a commit."""
    if not _NAME.fullmatch(document):
        raise UsageError(f"{document[:80]!r} is no document name", "names are 64 hex digits")
    settings = load()
    root = Path(settings.store)
    if not ledger.is_pending(root, document):
        log.info("%s is finished already", document[:12])
        return
    encoder, counter = _encoder(root)
    part, error = enrich_or_bury(root, document, encoder, counter, settings)
    if part is None:
        log.error("%s is given up: %s", document[:12], error)
        return
    log.info("%s enriched: %d items", document[:12], part.items)
    commit.delay()


@app.task(name="helix.commit")  # type: ignore[untyped-decorator]
def commit() -> None:
    """Publish every part that waits. One at a time; a commit that finds nothing to do costs nothing."""
    settings = load()
    root = Path(settings.store)
    encoder, _ = _encoder(root)
    done = run_commit(root, encoder, settings)
    log.info("generation %d: %d documents, %d items", done.generation, len(done.documents), done.added)
    maintain.delay()


@app.task(name="helix.maintain")  # type: ignore[untyped-decorator]
def maintain() -> None:
    """Merge, index and collect in the background: off the commit queue, so that no commit waits behind a merge."""
    settings = load()
    tidy(Path(settings.store), settings)


@app.task(name="helix.reindex")  # type: ignore[untyped-decorator]
def reindex(document: str, folder: str, fingerprint: str) -> None:
    """Make one document's part for the lineage a reindex builds."""
    if not _NAME.fullmatch(document):
        raise UsageError(f"{document[:80]!r} is no document name", "names are 64 hex digits")
    settings = load()
    make_part(Path(settings.store), document, Path(folder), fingerprint, settings)
    log.info("%s enriched for the new lineage", document[:12])
