"""The reconciler: what the ledger says is unfinished is sent again, whatever became of its message."""

from __future__ import annotations

from pathlib import Path

from celery import Celery
from kombu import Connection

from helix.encoders import seq2seq
from helix.settings import Settings
from helix.snapshot import ledger
from pipelines.enrich import part_folder, pipeline_fingerprint
from pipelines.expand import waiting_in
from pipelines.ingest import lineage_of


def reconcile(app: Celery, root: Path, settings: Settings, queues: set[str]) -> int:
    """Send every pending document to the queue it waits for; returns how many messages went out.

    A queue that still holds messages is left alone: its documents are on their way. What a worker is busy with may be
    sent a second time; tasks are idempotent, so that costs a look-up.
    """
    encoder = lineage_of(root)
    pending = ledger.pending(root)
    enriched = [
        document
        for document in pending
        if encoder and part_folder(root, document, pipeline_fingerprint(encoder, settings)).is_dir()
    ]
    sent = 0
    with app.connection_for_write() as connection:
        if "enrich" in queues and _length(connection, "enrich") == 0:
            for document in sorted(set(pending) - set(enriched)):
                app.send_task("helix.enrich", args=[document], queue="enrich", connection=connection)
                sent += 1
        # Before the first commit nobody can tell an enriched document by its name: ask once, it is cheap.
        if "commit" in queues and (enriched or (pending and not encoder)) and _length(connection, "commit") == 0:
            app.send_task("helix.commit", queue="commit", connection=connection)
            sent += 1
        expands = "expand" in queues and not isinstance(seq2seq.find(settings.doc2query, settings), str)
        if expands and waiting_in(root) and _length(connection, "expand") == 0:
            app.send_task("helix.expand", queue="expand", connection=connection)
            sent += 1
    return sent


def _length(connection: Connection, queue: str) -> int:
    """Messages waiting in a queue."""
    return int(connection.default_channel.queue_declare(queue, durable=True).message_count)
