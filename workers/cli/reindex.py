"""`helix reindex`: build a new lineage, on this machine or by the workers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count
from helix.settings import Settings, load
from helix.snapshot.store_names import name_store
from pipelines.cli.ingest import progress_bar

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder

_POLL: Final = 0.5  # seconds


def reindex(argv: Sequence[str]) -> int:
    """Build a new lineage in the background, and swap when it is complete."""
    new = build_parser(
        "reindex",
        reindex.__doc__ or "",
        "  helix reindex --encoder bge-small-en-v1.5 --store memory\n"
        "  HELIX_ITEM_WORDS=100 helix reindex\n\n"
        "A stopped run continues at the next call. With HELIX_REDIS_URL the workers of 'bulk' do the work.",
    )
    new.add_argument("--encoder", default="", metavar="NAME", help="of 'helix models', or a folder (the present one)")
    options = new.parse_args(argv)
    from dataclasses import asdict

    from helix.util.priority import lower_priority
    from pipelines.maintain.compact import ignore_progress
    from pipelines.maintain.forget import resume
    from pipelines.maintain.reindex import make_parts
    from pipelines.maintain.reindex import reindex as run

    settings = load()
    root = resolve_store(options, settings).absolute()

    def print_line(line: str) -> None:
        print(line, file=sys.stderr)

    resume(root, settings, print_line)
    # With a share, workers on other machines do not see the parts in this store. A fleet for many stores takes the
    # imports of each in turn, and a reindex would fill its queue.
    is_alone = not settings.share and not name_store(settings.stores, root)
    work = make_parts_by_workers if settings.redis_url and is_alone else make_parts
    lower_priority()
    with progress_bar(not options.json) as progress:
        say = None if progress else print_line
        done = run(root, settings, options.encoder, work=work, say=say, progress=progress or ignore_progress)
    if options.json:
        print_json(asdict(done))
    elif done.swapped:
        items = format_count(done.items, "item")
        print(f"generation {done.generation}: {items} by {done.encoder}; 'helix rollback' returns to the old")
    else:
        print(f"nothing to do: the store already has {done.encoder} and this pipeline")
    return 0


def make_parts_by_workers(
    root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
) -> None:
    """Send one message a document to the workers, and wait until every part exists.

    A message names the encoder by its fingerprint, under which the store holds it. Lost messages are sent again.

    Raises:
        StoreError: the broker cannot be reached, no worker makes parts, or a document kills every worker.
    """
    from helix.errors import StoreError
    from helix.snapshot.ledger import attempts
    from pipelines.ingest.part import part_folder, pipeline_fingerprint

    fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, settings)
    left, resend, progressed = set(documents), 0.0, time.monotonic()
    while left:
        if time.monotonic() >= resend:
            _send(root, sorted(left), encoder)
            resend = time.monotonic() + settings.reconcile_interval
        time.sleep(_POLL)
        before = len(left)
        left = {document for document in left if not part_folder(root, document, fingerprint).is_dir()}
        if len(left) < before:
            progressed = time.monotonic()
            made(len(documents) - len(left))
        for name, record in attempts.list_records(root).items():
            document = name.removesuffix(f"-{fingerprint}")
            if document in left and document != name and record.explain_end():
                (root / "tries" / name).unlink(missing_ok=True)  # so that the next run tries again
                raise StoreError(
                    f"document {document[:12]}… cannot be enriched: {record.explain_end()}",
                    "the store is unchanged, and the next run continues from here",
                )
        if time.monotonic() - progressed > settings.task_time_limit:
            raise StoreError(
                f"no worker has made any of {len(left)} documents for {settings.task_time_limit} s",
                "run 'helix worker --queues bulk' with the same settings, or unset HELIX_REDIS_URL to work here",
            )


def _send(root: Path, documents: Sequence[str], encoder: Encoder) -> None:
    """Send a message for each document, unless the queue ignore_progress holds some."""
    from helix.errors import StoreError
    from workers.app import app
    from workers.dispatch import BROKER_ERRORS, count_messages

    try:
        with app.connection_for_write() as connection:
            if count_messages(connection, "bulk"):
                return
            _store_encoder(root, encoder)
            for document in documents:
                arguments = [document, encoder.spec.fingerprint]
                app.send_task("helix.reindex", args=arguments, queue="bulk", connection=connection)
    except BROKER_ERRORS as error:
        raise StoreError(
            f"the broker cannot be reached: {error}",
            "start it, or unset HELIX_REDIS_URL to work here; the next run continues from here",
        ) from None


def _store_encoder(root: Path, encoder: Encoder) -> None:
    """Copy an encoder into the store with a new time: `gc` removes old encoders that no generation names."""
    from helix.snapshot.writer import copy_encoder

    copy_encoder(root, encoder.folder, encoder.spec.fingerprint)  # only for a store of its own: see `reindex`
    os.utime(root / "encoders" / encoder.spec.fingerprint)
