"""Tasks: check the name, call a function of `pipelines`, log. Messages carry names, never text.

None lets an exception out: what went wrong is in the ledger, which has it tried again, and what Celery would log of it
could quote a document.
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

from helix.encoders.dense import Encoder, TokenCounter
from helix.encoders.sparse import DocumentEncoder
from helix.enrich.doc2query import Generator
from helix.errors import EncoderError, HelixError, InputRefused
from helix.settings import load
from helix.snapshot.digests import FINGERPRINT, ORDER, check_name
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest import deferred as orders
from pipelines.ingest.commit import commit as run_commit
from pipelines.ingest.enrich import FAULTS, part_folder, pipeline_fingerprint, try_enrich
from pipelines.ingest.ingest import lineage_of, open_encoder, tidy
from pipelines.maintain.reindex import make_part
from pipelines.maintain.touch import touch as run_touch
from pipelines.passes import sparse as impacts
from pipelines.passes.doc2query import expand as run_expand
from pipelines.passes.doc2query import generator, is_wanted, waiting_in
from pipelines.training import retention
from workers import metrics
from workers import replication as fleet
from workers.app import app
from workers.dispatch import BROKEN, Sender, ask

if TYPE_CHECKING:
    from helix.sdk.memory import Memory

log = logging.getLogger("helix.workers")

EXPANDED_AT_ONCE: Final = 1_024
"""Items of one task: minutes with a small model, so that a limit on a task's time is never met."""

COMMITTED_AT_ONCE: Final = 4_096
"""Items of one commit, or one document: about a second, so that a fresh turn never waits for a large import."""


def _task(function: Callable[..., str | None]) -> Any:
    """Register a task under its function's name. It says what came of it, where that is more than `done`."""

    @functools.wraps(function)
    def told(*arguments: Any) -> None:
        name = function.__name__
        about = {"task": name, **({"document": str(arguments[0])[:64]} if arguments else {})}
        outcome, began = "failed", time.monotonic()
        try:
            outcome = function(*arguments) or "done"
        except InputRefused as error:
            log.warning("put off: %s", type(error).__name__, extra=about)
        except HelixError as error:
            log.error("failed: %s", error, extra=about)
        except Exception as error:  # noqa: BLE001  said without the words of the exception
            log.error("failed: %s", _place_of(error), extra=about)
        finally:
            metrics.TASKS.labels(name, outcome).inc()
            metrics.SECONDS.labels(name).observe(time.monotonic() - began)

    return app.task(name=f"helix.{function.__name__}", max_retries=0)(told)


def _place_of(error: BaseException) -> str:
    """What was raised and where, without what it says: that may quote a document."""
    frames = traceback.extract_tb(error.__traceback__)
    number = f" {error.errno}" if isinstance(error, OSError) and error.errno else ""
    return f"{type(error).__name__}{number} in {Path(frames[-1].filename).name}:{frames[-1].lineno}"


def _encoder(root: Path) -> tuple[Encoder, TokenCounter]:
    """Loaded with the first task of a process, not before: a parent that forks or spawns needs none."""
    return _loaded(root, lineage_of(root))


@cache
def _loaded(root: Path, lineage: str | None) -> tuple[Encoder, TokenCounter]:
    encoder = open_encoder(root, load())
    return encoder, TokenCounter(encoder.folder)


@_task
def accept(order: str) -> None:
    """Carry an order out: read what it names into the inbox, and send it on."""
    settings = load()
    root = Path(settings.store)
    with tries.claim(root, check_name(order, ORDER)) as claimed:
        if claimed is None:
            return
        if why := claimed.record.over():
            orders.fail(root, order, why)
            claimed.clear()
            log.error("order given up: %s", why, extra={"order": order})
            return
        sender = Sender(app, root)

        def deliver(accepted: Sequence[str]) -> None:
            documents = fleet.hand_over(root, settings, accepted)
            for document in documents:
                log.info("accepted", extra={"document": document, "order": order})
            try:
                sender.send(documents)
            except BROKEN:
                log.warning("the broker is out of reach: what was accepted is sent later")

        done = orders.carry_out(root, order, settings, deliver)
        claimed.clear()
    counts = {"accepted": done.accepted, "duplicates": done.duplicates, "refused": len(done.refused)}
    log.info("order carried out", extra={"order": order, **counts})


@_task
def enrich(document: str) -> str | None:
    """Make one document's part, then ask for a commit."""
    settings = load()
    root = Path(settings.store)
    about = {"document": check_name(document)}
    if not fleet.receive(root, settings, document):
        return "nothing"
    if not ledger.is_pending(root, document):
        log.info("finished already", extra=about)
        return "nothing"
    try:
        encoder, counter = _encoder(root)
        made_by = pipeline_fingerprint(encoder.spec.fingerprint, settings)
        if part_folder(root, document, made_by).is_dir():
            fleet.hand_in(root, settings, document, made_by)  # again: the share may have lost it
            ask(app, "helix.commit")
            return "nothing"
        tried = try_enrich(root, document, encoder, counter, settings, tries.STRIKES)
    except SoftTimeLimitExceeded:
        said = f"it takes longer than HELIX_TASK_TIME_LIMIT ({settings.task_time_limit} s) allows"
        dead = tries.strike(root, document, said, settings.retry_wait)
        log.error("out of time", extra={**about, "dead": dead})
        fleet.hand_in(root, settings, document, "")
        return "dead" if dead else "failed"
    if tried.part or tried.dead:
        fleet.hand_in(root, settings, document, made_by)
    if tried.part:
        log.info("enriched", extra={**about, "items": tried.part.items, "turns": tried.part.turns})
        metrics.ITEMS.inc(tried.part.items)
        ask(app, "helix.commit")
        return None
    if tried.error:  # which may quote it: dead/ has it, and `helix status`
        log.error("given up" if tried.dead else "failed, and tried again", extra=about)
        return "dead" if tried.dead else "failed"
    log.info("another process is at it", extra=about)
    return "nothing"


@_task
def commit() -> None:
    """Publish parts that wait. One at a time; a commit that finds nothing to do costs nothing."""
    settings = load()
    root = Path(settings.store)
    encoder, _ = _encoder(root)
    _gather()
    began = time.monotonic()
    fleet.collect(root, settings, pipeline_fingerprint(encoder.spec.fingerprint, settings))
    done = run_commit(root, encoder, settings, limit=COMMITTED_AT_ONCE)
    _committed.append((time.monotonic(), time.monotonic() - began))
    for document in done.documents:
        log.info("committed", extra={"document": document, "generation": done.generation})
    if done.left:
        ask(app, "helix.commit")
    if not done.documents:
        return
    fleet.publish(root, settings)
    log.info("published", extra={"generation": done.generation, "items": done.added, "left": done.left})
    ask(app, "helix.maintain")
    if is_wanted(settings):
        ask(app, "helix.expand")


_committed: Final[deque[tuple[float, float]]] = deque(maxlen=1)
"""When the last commit of this process ended, and how long it took."""

GATHERED: Final = 0.5
"""Seconds for which parts are gathered at most while one commit follows the other."""


def _gather() -> None:
    """Leave the cores to those who make parts for twice as long as the last commit took, and publish more at once.

    Where nothing was published just before, nothing is waited for.
    """
    for ended, took in _committed:
        time.sleep(max(0.0, min(2 * took, GATHERED) - (time.monotonic() - ended)))


@_task
def expand() -> None:
    """Have the models add to some of the items that wait, then make room for others on the queue."""
    settings = load()
    root = Path(settings.store)
    more = False
    if (weighs := _document_encoder()) and impacts.waiting_in(root, settings):
        gave = impacts.encode(root, weighs, settings, limit=EXPANDED_AT_ONCE)
        log.info("weighed", extra={"generation": gave.generation, "items": gave.items, "left": gave.waiting})
        more = bool(gave.items and gave.waiting)
    if (model := _generator()) and waiting_in(root):
        done = run_expand(root, model, _encoder(root)[0], settings, limit=EXPANDED_AT_ONCE)
        log.info("expanded", extra={"generation": done.generation, "items": done.items, "left": done.waiting})
        more |= bool(done.items and done.waiting)
    if more:
        ask(app, "helix.expand")


@cache
def _generator() -> Generator | None:
    model = generator(load())
    if isinstance(model, str):
        log.warning("no questions are written: %s", model)
        return None
    return model


@cache
def _document_encoder() -> DocumentEncoder | None:
    """What cannot be used keeps nobody from asking the other model."""
    settings = load()
    try:
        model = impacts.document_encoder(settings)
    except EncoderError as error:
        model = str(error)
    if isinstance(model, str):
        if settings.sparse_encoder:
            log.warning("nothing is weighed: %s", model)
        return None
    return model


@_task
def maintain() -> None:
    """Merge, index and collect in the background: off the commit queue, so that no commit waits behind a merge."""
    settings = load()
    root = Path(settings.store)
    if ledger.current(root)[0] is None:
        return
    tidy(root, settings)
    orders.sweep(root)
    if retention.due(root):
        ask(app, "helix.train")


@_task
def touch() -> None:
    """Fold in what was said to be of use."""
    settings = load()
    root = Path(settings.store)
    if ledger.current(root)[0] is None:
        return
    done = run_touch(root, settings)
    if done.events:
        log.info("touched", extra={"generation": done.generation, "items": done.items})


@_task
def train() -> None:
    """Fit the retention model anew, where enough was of use since the last time."""
    settings = load()
    root = Path(settings.store)
    if not retention.due(root):
        return
    done = retention.train(root, settings)
    log.info("trained", extra={"generation": done.generation, "examples": done.positives, "off": done.off})


@_task
def deep(job: str) -> str | None:
    """Ask a language model about one question of the tier deep."""
    settings = load()
    root = Path(settings.store)
    from pipelines.passes.deep_job import run  # here: what asks a model is of no use to any other worker

    done = run(root, check_name(job, ORDER), lambda: _memory(root), settings)
    if done is None:
        return "nothing"
    about = {"job": job}
    if done.replies is None:
        log.warning("a deep recall fell back: %s", done.failed, extra=about)
        return "fell back"
    metrics.DEEP.inc(done.replies.calls)
    told = {"calls": done.replies.calls, "seconds": done.replies.seconds, "cached": done.replies.cached}
    log.info("asked a language model", extra={**about, **told})
    return None


def _memory(root: Path) -> Memory:
    """The newest generation; opened with the first task of a process."""
    memory = _opened(root)
    memory.refresh()
    return memory


@cache
def _opened(root: Path) -> Memory:
    from helix.sdk.memory import Memory

    return Memory(root, load())


@_task
def reindex(document: str, encoder: str) -> str | None:
    """Make one document's part for the lineage a reindex builds.

    Args:
        encoder: the fingerprint of one that whoever reindexes has put into the store.
    """
    settings = load()
    root = Path(settings.store)
    about = {"document": check_name(document)}
    folder = root / "encoders" / check_name(encoder, FINGERPRINT)
    if not folder.is_dir() or not ledger.is_done(root, document):
        log.warning("there is nothing to reindex", extra=about)
        return "nothing"
    with tries.claim(root, f"{document}-{pipeline_fingerprint(encoder, settings)}") as claimed:
        if claimed is None or claimed.record.over():  # which ends the reindex that asked for it
            return "nothing"
        try:
            make_part(root, document, folder, encoder, settings)
        except FAULTS as error:
            tries.struck(root, document, claimed, _place_of(error), 0.0, float("inf"))
            log.error("failed, and tried again", extra=about)
            return "failed"
        claimed.clear()
    log.info("enriched for the new lineage", extra=about)
    return None
