"""Tasks: check the name, call a function of `pipelines`, log. Messages carry a document's name and nothing else."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path

from helix.encoders import seq2seq
from helix.encoders.onnx import Encoder, TokenCounter
from helix.enrich.doc2query import Generator
from helix.errors import UsageError
from helix.settings import load
from helix.snapshot import ledger
from pipelines import retention
from pipelines.commit import commit as run_commit
from pipelines.enrich import enrich_or_bury
from pipelines.expand import expand as run_expand
from pipelines.expand import generator, waiting_in
from pipelines.ingest import lineage_of, open_encoder, tidy
from pipelines.reindex import make_part
from workers.app import app

log = logging.getLogger("helix.workers")

EXPANDED_AT_ONCE = 1_024
"""Items of one task: minutes with a small model, so that a limit on a task's time is never met."""

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
    if not isinstance(seq2seq.find(settings.doc2query, settings), str):
        expand.delay()


@app.task(name="helix.expand")  # type: ignore[untyped-decorator]
def expand() -> None:
    """Ask the expansion model about some of the items that wait, then make room for others on the queue."""
    settings = load()
    root = Path(settings.store)
    model = _generator()
    if model is None or not waiting_in(root):
        return
    done = run_expand(root, model, _encoder(root)[0], settings, limit=EXPANDED_AT_ONCE)
    log.info("generation %d: %d items expanded, %d wait", done.generation, done.items, done.waiting)
    if done.items and done.waiting:
        expand.delay()


@cache
def _generator() -> Generator | None:
    model = generator(load())
    if isinstance(model, str):
        log.warning("nothing is expanded: %s", model)
        return None
    return model


@app.task(name="helix.maintain")  # type: ignore[untyped-decorator]
def maintain() -> None:
    """Merge, index and collect in the background: off the commit queue, so that no commit waits behind a merge."""
    settings = load()
    root = Path(settings.store)
    tidy(root, settings)
    if retention.due(root):
        train.apply_async(queue="maintain")


@app.task(name="helix.train")  # type: ignore[untyped-decorator]
def train() -> None:
    """Fit the retention model anew, where enough was of use since the last time."""
    settings = load()
    root = Path(settings.store)
    if not retention.due(root):
        return
    done = retention.train(root, settings)
    log.info("generation %d: %s", done.generation, done.off or f"retention trained on {done.positives} items of use")


@app.task(name="helix.reindex")  # type: ignore[untyped-decorator]
def reindex(document: str, folder: str, fingerprint: str) -> None:
    """Make one document's part for the lineage a reindex builds."""
    if not _NAME.fullmatch(document):
        raise UsageError(f"{document[:80]!r} is no document name", "names are 64 hex digits")
    settings = load()
    make_part(Path(settings.store), document, Path(folder), fingerprint, settings)
    log.info("%s enriched for the new lineage", document[:12])
