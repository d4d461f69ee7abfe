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
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from billiard.exceptions import SoftTimeLimitExceeded
from celery import current_task

from helix.errors import HelixError, InputRefused, StoreBusy, UsageError
from helix.snapshot.digests import FINGERPRINT, ORDER, check_name
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.store_names import check_store_name
from pipelines.ingest import orders
from pipelines.ingest.commit import commit as run_commit
from pipelines.ingest.enrich import FAULTS, try_enrich
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.forget import tidy
from pipelines.maintain.reindex import make_part
from pipelines.maintain.touch import touch as run_touch
from pipelines.passes import doc2query, sparse, tokens
from pipelines.training import retention
from workers import metrics, models, replication
from workers.app import app
from workers.dispatch import BROKER_ERRORS, Sender, end_request, request_task
from workers.place import StoreGone, read_place, store_exists
from workers.queues import split_arguments

log = logging.getLogger("helix.workers")

EXPAND_ITEMS: Final = 1_024
"""Items of one `expand`: minutes with a small model, well below the time limit."""

COMMIT_ITEMS: Final = 4_096
"""Items of one commit, or one document: about a second, so that fresh turns do not wait for an import."""

BUSY_WAIT: Final = 0.1
"""Seconds for which a commit of a store among many waits for that store's other writer."""

MAX_GATHER: Final = 0.5
"""Seconds, at most, that a commit waits for more parts."""


def _register_task(function: Callable[..., str | None]) -> Any:
    """Register a task under its function's name. The function may return an outcome other than `done`."""
    name = function.__name__
    task = f"helix.{name}"

    @functools.wraps(function)
    def run(*arguments: str) -> None:
        names, store = split_arguments(task, arguments)
        about = {"task": name, **({"document": names[0][:64]} if names else {}), **({"store": store} if store else {})}
        outcome, began = "failed", time.monotonic()
        try:
            if store and not names:
                end_request(app, task, check_store_name(store), _read_queue())
            outcome = function(*arguments) or "done"
        except StoreGone:
            outcome = "gone"
            log.info("its store does not exist", extra=about)
        except InputRefused as error:
            log.warning("postponed: %s", type(error).__name__, extra=about)
        except Exception as error:  # noqa: BLE001 — logged without its message, which may quote a document
            if store and not isinstance(error, UsageError) and not store_exists(store):
                outcome = "gone"
                log.info("its store was deleted meanwhile", extra=about)
            else:
                log.error("failed: %s", error if isinstance(error, HelixError) else _locate(error), extra=about)
        finally:
            metrics.TASKS.labels(name, outcome).inc()
            metrics.SECONDS.labels(name).observe(time.monotonic() - began)

    return app.task(name=task, max_retries=0)(run)


def _read_queue() -> str:
    """Return the queue of the running task; empty if it was called without a message."""
    about = current_task.request.delivery_info if current_task else None
    return str((about or {}).get("routing_key", ""))


def _locate(error: BaseException) -> str:
    """Return the class and place of an error, without its message, which may quote a document."""
    frames = traceback.extract_tb(error.__traceback__)
    number = f" {error.errno}" if isinstance(error, OSError) and error.errno else ""
    return f"{type(error).__name__}{number} in {Path(frames[-1].filename).name}:{frames[-1].lineno}"


@_register_task
def accept(order: str, store: str = "") -> None:
    """Accept the files of an order, and queue their documents."""
    settings, root = read_place(store)
    with attempts.claim_document(root, check_name(order, ORDER)) as claimed:
        if claimed is None:
            return
        if why := claimed.record.explain_end():
            orders.fail(root, order, why)
            claimed.clear()
            log.error("order given up: %s", why, extra={"order": order})
            return
        sender = Sender(app, root, store)

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
def enrich(document: str, store: str = "") -> str | None:
    """Make one document's part, then request a commit."""
    settings, root = read_place(store)
    about = {"document": check_name(document), **({"store": store} if store else {})}
    if not replication.receive(root, settings, document):
        return "nothing"
    if not inbox.is_pending(root, document):
        log.info("finished already", extra=about)
        return "nothing"
    try:
        encoder, counter = models.open_encoder(root)
        fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, settings)
        if part_folder(root, document, fingerprint).is_dir():
            replication.hand_in(root, settings, document, fingerprint)  # the share may have lost it
            _request_commit(store)
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
        _request_commit(store)
        return None
    if attempt.error:  # may quote the document, so only the ledger has it
        log.error("given up" if attempt.dead else "failed, and tried again", extra=about)
        return "dead" if attempt.dead else "failed"
    log.info("another process works on it", extra=about)
    return "nothing"


def _request_commit(store: str) -> None:
    """Request a commit; of a store among many in the running task's queue, so that no import delays a fresh turn."""
    request_task(app, "helix.commit", store, "bulk" if store and _read_queue() == "bulk" else "commit")


@_register_task
def commit(store: str = "") -> str | None:
    """Publish waiting parts. Commits of a store run one at a time; one without parts costs nothing."""
    settings, root = read_place(store)
    encoder, _ = models.open_encoder(root)
    if store:
        settings = replace(settings, lock_wait=BUSY_WAIT)
    else:
        _gather_parts()
    began = time.monotonic()
    replication.collect(root, settings, pipeline_fingerprint(encoder.spec.fingerprint, settings))
    try:
        done = run_commit(root, encoder, settings, limit=COMMIT_ITEMS)
    except StoreBusy:
        if not store:
            raise
        _request_commit(store)  # later: meanwhile this process serves other stores
        return "busy"
    _last_commit.append((time.monotonic(), time.monotonic() - began))
    about = {"generation": done.generation, **({"store": store} if store else {})}
    for document in done.documents:
        log.info("committed", extra={"document": document, **about})
    if done.left:
        _request_commit(store)
    if not done.documents:
        return None
    replication.publish(root, settings)
    log.info("published", extra={**about, "items": done.added, "left": done.left})
    request_task(app, "helix.maintain", store)
    if doc2query.has_model(settings):
        request_task(app, "helix.expand", store)
    return None


_last_commit: Final[deque[tuple[float, float]]] = deque(maxlen=1)
"""End and duration of this process's last commit, in seconds."""


def _gather_parts() -> None:
    """Wait twice as long as the last commit took, so that enrichment gets the cores and one commit has more parts.

    A commit after a pause does not wait.
    """
    for ended, took in _last_commit:
        time.sleep(max(0.0, min(2 * took, MAX_GATHER) - (time.monotonic() - ended)))


@_register_task
def expand(store: str = "") -> None:
    """Let the models add to some of the waiting items; the rest follows in the next task."""
    settings, root = read_place(store)
    has_more = False
    if (weigher := models.open_document_encoder()) and sparse.count_waiting(root, settings):
        encoded = sparse.encode(root, weigher, settings, limit=EXPAND_ITEMS)
        counts = {"generation": encoded.generation, "items": encoded.items, "left": encoded.waiting}
        log.info("weighed", extra=counts)
        has_more = bool(encoded.items and encoded.waiting)
    embedder = models.open_token_encoder(root)
    if embedder and tokens.count_waiting(root, settings):
        kept = tokens.keep_tokens(root, embedder, settings, limit=EXPAND_ITEMS)
        counts = {"generation": kept.generation, "items": kept.items, "left": kept.waiting}
        log.info("kept token vectors", extra=counts)
        has_more |= bool(kept.items and kept.waiting)
    if (model := models.open_generator()) and doc2query.count_waiting(root):
        done = doc2query.expand(root, model, models.open_encoder(root)[0], settings, limit=EXPAND_ITEMS)
        log.info("expanded", extra={"generation": done.generation, "items": done.items, "left": done.waiting})
        has_more |= bool(done.items and done.waiting)
    if has_more:
        request_task(app, "helix.expand", store)


@_register_task
def maintain(store: str = "") -> None:
    """Merge, index and collect garbage, on a queue of its own, so that no commit waits for a merge."""
    settings, root = read_place(store)
    if inbox.load_current(root)[0] is None:
        return
    tidy(root, settings)
    orders.sweep(root)
    if retention.is_due(root):
        request_task(app, "helix.train", store)


@_register_task
def touch(store: str = "") -> None:
    """Apply feedback."""
    settings, root = read_place(store)
    if inbox.load_current(root)[0] is None:
        return
    done = run_touch(root, settings)
    if done.events:
        log.info("touched", extra={"generation": done.generation, "items": done.items})


@_register_task
def train(store: str = "") -> None:
    """Fit the retention model again, if there is enough new feedback."""
    settings, root = read_place(store)
    if not retention.is_due(root):
        return
    done = retention.train(root, settings)
    log.info("trained", extra={"generation": done.generation, "examples": done.positives, "off": done.off})


@_register_task
def deep(job: str) -> str | None:
    """Call the language model for one deep recall."""
    settings, root = read_place("")
    from pipelines.passes.deep_job import run  # here: only workers of `deep` need it

    done = run(root, check_name(job, ORDER), lambda: models.open_newest(root), settings)
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


@_register_task
def reindex(document: str, encoder: str, store: str = "") -> str | None:
    """Make one document's part for the new lineage of a reindex.

    Args:
        encoder: fingerprint of an encoder that `helix reindex` has put into the store.
    """
    settings, root = read_place(store)
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
