"""The tasks of the queues. Each checks its arguments, calls `pipelines`, and logs. Messages carry names, never text.

No exception leaves a task: the ledger records the failure and its next attempt. Celery's own report could quote a
document.
"""

from __future__ import annotations

import functools
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from billiard.exceptions import SoftTimeLimitExceeded

from helix.encoders.dense import Encoder
from helix.encoders.rerank import LateEncoder
from helix.encoders.sparse import DocumentEncoder
from helix.encoders.token_counter import TokenCounter
from helix.enrich.doc2query import Generator
from helix.errors import EncoderError, HelixError, InputRefused
from helix.settings import Settings, load
from helix.snapshot.digests import FINGERPRINT, ORDER, check_name
from helix.snapshot.ledger import attempts, inbox
from pipelines.ingest import orders
from pipelines.ingest.commit import commit as run_commit
from pipelines.ingest.enrich import FAULTS, try_enrich
from pipelines.ingest.lineage import open_encoder, read_encoder_fingerprint
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.forget import tidy
from pipelines.maintain.reindex import make_part
from pipelines.maintain.touch import touch as run_touch
from pipelines.passes import doc2query, sparse, tokens
from pipelines.training import retention
from workers import metrics, replication
from workers.app import app
from workers.dispatch import BROKER_ERRORS, Sender, request_task

if TYPE_CHECKING:
    from helix.sdk.memory import Memory

log = logging.getLogger("helix.workers")

EXPAND_ITEMS: Final = 1_024
"""Items of one `expand`: minutes with a small model, well below the time limit."""

COMMIT_ITEMS: Final = 4_096
"""Items of one commit, or one document: about a second, so that fresh turns do not wait for an import."""

MAX_GATHER: Final = 0.5
"""Seconds, at most, that a commit waits for more parts."""


def _register_task(function: Callable[..., str | None]) -> Any:
    """Register a task under its function's name. The function may return an outcome other than `done`."""

    @functools.wraps(function)
    def run(*arguments: Any) -> None:
        name = function.__name__
        about = {"task": name, **({"document": str(arguments[0])[:64]} if arguments else {})}
        outcome, began = "failed", time.monotonic()
        try:
            outcome = function(*arguments) or "done"
        except InputRefused as error:
            log.warning("postponed: %s", type(error).__name__, extra=about)
        except HelixError as error:
            log.error("failed: %s", error, extra=about)
        except Exception as error:  # noqa: BLE001 — logged without its message
            log.error("failed: %s", _locate(error), extra=about)
        finally:
            metrics.TASKS.labels(name, outcome).inc()
            metrics.SECONDS.labels(name).observe(time.monotonic() - began)

    return app.task(name=f"helix.{function.__name__}", max_retries=0)(run)


def _locate(error: BaseException) -> str:
    """Return the class and place of an error, without its message, which may quote a document."""
    frames = traceback.extract_tb(error.__traceback__)
    number = f" {error.errno}" if isinstance(error, OSError) and error.errno else ""
    return f"{type(error).__name__}{number} in {Path(frames[-1].filename).name}:{frames[-1].lineno}"


def _read_place() -> tuple[Settings, Path]:
    settings = load()
    return settings, Path(settings.store)


def _open_encoder(root: Path) -> tuple[Encoder, TokenCounter]:
    """Load the encoder with the first task of a process; the parent process needs none."""
    return _load_encoder(root, read_encoder_fingerprint(root))


@cache
def _load_encoder(root: Path, lineage: str | None) -> tuple[Encoder, TokenCounter]:
    encoder = open_encoder(root, load())
    return encoder, TokenCounter(encoder.folder, encoder.tokenizer)


@_register_task
def accept(order: str) -> None:
    """Accept the files of an order, and queue their documents."""
    settings, root = _read_place()
    with attempts.claim_document(root, check_name(order, ORDER)) as claimed:
        if claimed is None:
            return
        if why := claimed.record.explain_end():
            orders.fail(root, order, why)
            claimed.clear()
            log.error("order given up: %s", why, extra={"order": order})
            return
        sender = Sender(app, root)

        def deliver(accepted: Sequence[str]) -> None:
            documents = replication.hand_over(root, settings, accepted)
            for document in documents:
                log.info("accepted", extra={"document": document, "order": order})
            try:
                sender.send(documents)
            except BROKER_ERRORS:
                log.warning("the broker cannot be reached: accepted documents are sent later")

        done = orders.carry_out(root, order, settings, deliver)
        claimed.clear()
    counts = {"accepted": done.accepted, "duplicates": done.duplicates, "refused": len(done.refused)}
    log.info("order carried out", extra={"order": order, **counts})


@_register_task
def enrich(document: str) -> str | None:
    """Make one document's part, then request a commit."""
    settings, root = _read_place()
    about = {"document": check_name(document)}
    if not replication.receive(root, settings, document):
        return "nothing"
    if not inbox.is_pending(root, document):
        log.info("finished already", extra=about)
        return "nothing"
    try:
        encoder, counter = _open_encoder(root)
        fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, settings)
        if part_folder(root, document, fingerprint).is_dir():
            replication.hand_in(root, settings, document, fingerprint)  # the share may have lost it
            request_task(app, "helix.commit")
            return "nothing"
        attempt = try_enrich(root, document, encoder, counter, settings, attempts.MAX_FAILURES)
    except SoftTimeLimitExceeded:
        reason = f"it takes longer than HELIX_TASK_TIME_LIMIT ({settings.task_time_limit} s) allows"
        dead = attempts.record_failure(root, document, reason, settings.retry_wait)
        log.error("out of time", extra={**about, "dead": dead})
        replication.hand_in(root, settings, document, "")
        return "dead" if dead else "failed"
    if attempt.part or attempt.dead:
        replication.hand_in(root, settings, document, fingerprint)
    if attempt.part:
        log.info("enriched", extra={**about, "items": attempt.part.items, "turns": attempt.part.turns})
        metrics.ITEMS.inc(attempt.part.items)
        request_task(app, "helix.commit")
        return None
    if attempt.error:  # may quote the document, so only the ledger has it
        log.error("given up" if attempt.dead else "failed, and tried again", extra=about)
        return "dead" if attempt.dead else "failed"
    log.info("another process works on it", extra=about)
    return "nothing"


@_register_task
def commit() -> None:
    """Publish waiting parts. Commits run one at a time; one without parts costs nothing."""
    settings, root = _read_place()
    encoder, _ = _open_encoder(root)
    _gather_parts()
    began = time.monotonic()
    replication.collect(root, settings, pipeline_fingerprint(encoder.spec.fingerprint, settings))
    done = run_commit(root, encoder, settings, limit=COMMIT_ITEMS)
    _last_commit.append((time.monotonic(), time.monotonic() - began))
    for document in done.documents:
        log.info("committed", extra={"document": document, "generation": done.generation})
    if done.left:
        request_task(app, "helix.commit")
    if not done.documents:
        return
    replication.publish(root, settings)
    log.info("published", extra={"generation": done.generation, "items": done.added, "left": done.left})
    request_task(app, "helix.maintain")
    if doc2query.has_model(settings):
        request_task(app, "helix.expand")


_last_commit: Final[deque[tuple[float, float]]] = deque(maxlen=1)
"""End and duration of this process's last commit, in seconds."""


def _gather_parts() -> None:
    """Wait twice as long as the last commit took, so that enrichment gets the cores and one commit has more parts.

    A commit after a pause does not wait.
    """
    for ended, took in _last_commit:
        time.sleep(max(0.0, min(2 * took, MAX_GATHER) - (time.monotonic() - ended)))


@_register_task
def expand() -> None:
    """Let the models add to some of the waiting items; the rest follows in the next task."""
    settings, root = _read_place()
    has_more = False
    if (weigher := _open_document_encoder()) and sparse.count_waiting(root, settings):
        encoded = sparse.encode(root, weigher, settings, limit=EXPAND_ITEMS)
        counts = {"generation": encoded.generation, "items": encoded.items, "left": encoded.waiting}
        log.info("weighed", extra=counts)
        has_more = bool(encoded.items and encoded.waiting)
    embedder = _open_token_encoder(root, read_encoder_fingerprint(root))
    if embedder and tokens.count_waiting(root, settings):
        kept = tokens.keep_tokens(root, embedder, settings, limit=EXPAND_ITEMS)
        counts = {"generation": kept.generation, "items": kept.items, "left": kept.waiting}
        log.info("kept token vectors", extra=counts)
        has_more |= bool(kept.items and kept.waiting)
    if (model := _open_generator()) and doc2query.count_waiting(root):
        done = doc2query.expand(root, model, _open_encoder(root)[0], settings, limit=EXPAND_ITEMS)
        log.info("expanded", extra={"generation": done.generation, "items": done.items, "left": done.waiting})
        has_more |= bool(done.items and done.waiting)
    if has_more:
        request_task(app, "helix.expand")


@cache
def _open_generator() -> Generator | None:
    model = doc2query.open_generator(load())
    if isinstance(model, str):
        log.warning("no questions are written: %s", model)
        return None
    return model


@cache
def _open_document_encoder() -> DocumentEncoder | None:
    """Open the sparse encoder, or log its error; doc2query runs without it."""
    settings = load()
    try:
        model = sparse.open_document_encoder(settings)
    except EncoderError as error:
        model = str(error)
    if isinstance(model, str):
        if settings.sparse_encoder:
            log.warning("no sparse weights are computed: %s", model)
        return None
    return model


@cache
def _open_token_encoder(root: Path, lineage: str | None) -> LateEncoder | None:
    """Open the encoder of token vectors, or log its error; the other passes run without it.

    Args:
        lineage: fingerprint of the store's encoder; another one opens another encoder.
    """
    settings = load()
    try:
        model = tokens.open_token_encoder(root, settings)
    except EncoderError as error:
        model = str(error)
    if isinstance(model, str):
        if settings.token_vectors == "on":
            log.warning("no token vectors are kept: %s", model)
        return None
    return model


@_register_task
def maintain() -> None:
    """Merge, index and collect garbage, on a queue of its own, so that no commit waits for a merge."""
    settings, root = _read_place()
    if inbox.load_current(root)[0] is None:
        return
    tidy(root, settings)
    orders.sweep(root)
    if retention.is_due(root):
        request_task(app, "helix.train")


@_register_task
def touch() -> None:
    """Apply feedback."""
    settings, root = _read_place()
    if inbox.load_current(root)[0] is None:
        return
    done = run_touch(root, settings)
    if done.events:
        log.info("touched", extra={"generation": done.generation, "items": done.items})


@_register_task
def train() -> None:
    """Fit the retention model again, if there is enough new feedback."""
    settings, root = _read_place()
    if not retention.is_due(root):
        return
    done = retention.train(root, settings)
    log.info("trained", extra={"generation": done.generation, "examples": done.positives, "off": done.off})


@_register_task
def deep(job: str) -> str | None:
    """Call the language model for one deep recall."""
    settings, root = _read_place()
    from pipelines.passes.deep_job import run  # here: only workers of `deep` need it

    done = run(root, check_name(job, ORDER), lambda: _open_newest(root), settings)
    if done is None:
        return "nothing"
    about = {"job": job}
    if done.replies is None:
        log.warning("a deep recall fell back: %s", done.failed, extra=about)
        return "fell back"
    metrics.DEEP.inc(done.replies.calls)
    counts = {"calls": done.replies.calls, "seconds": done.replies.seconds, "cached": done.replies.cached}
    log.info("asked a language model", extra={**about, **counts})
    return None


def _open_newest(root: Path) -> Memory:
    """Return the newest generation; the first task of a process opens the store."""
    memory = _open_memory(root)
    memory.refresh()
    return memory


@cache
def _open_memory(root: Path) -> Memory:
    from helix.sdk.memory import Memory

    return Memory(root, load())


@_register_task
def reindex(document: str, encoder: str) -> str | None:
    """Make one document's part for the new lineage of a reindex.

    Args:
        encoder: fingerprint of an encoder that `helix reindex` has put into the store.
    """
    settings, root = _read_place()
    about = {"document": check_name(document)}
    folder = root / "encoders" / check_name(encoder, FINGERPRINT)
    if not folder.is_dir() or not inbox.is_done(root, document):
        log.warning("there is nothing to reindex", extra=about)
        return "nothing"
    with attempts.claim_document(root, f"{document}-{pipeline_fingerprint(encoder, settings)}") as claimed:
        if claimed is None or claimed.record.explain_end():  # `helix reindex` sees the record, and ends
            return "nothing"
        try:
            make_part(root, document, folder, encoder, settings)
        except FAULTS as error:
            attempts.add_failure(root, document, claimed, _locate(error), 0.0, float("inf"))
            log.error("failed, and tried again", extra=about)
            return "failed"
        claimed.clear()
    log.info("enriched for the new lineage", extra=about)
    return None
