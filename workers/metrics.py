"""What Prometheus can ask the workers for: the tasks of every process, and the state of the ledger.

The processes of a pool, and workers that share a folder, count into the files of PROMETHEUS_MULTIPROC_DIR, which has to
be named before this module is imported; any worker with a port answers for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from helix.errors import HelixError, UsageError
from helix.snapshot.status import status
from workers.app import APART, QUEUES
from workers.dispatch import BROKEN, length

if TYPE_CHECKING:
    from celery import Celery
    from prometheus_client import Metric

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0)

TASKS: Final = Counter("helix_tasks", "Tasks, by what came of them", ["task", "outcome"])
SECONDS: Final = Histogram("helix_task_seconds", "Time of a task", ["task"], buckets=_SECONDS)
ITEMS: Final = Counter("helix_items_enriched", "Items made of documents")
DEEP: Final = Counter("helix_deep_calls", "Requests to the chat endpoint of the tier deep")
DROPPED: Final = Counter(
    "helix_messages_dropped", "What came out of the broker and is no message of ours", ["queue", "why"]
)
LOST: Final = Counter("helix_processes_lost", "Processes that died or were ended amid a task", ["task"])


def serve(app: Celery, root: Path, port: int) -> None:
    """Answer on a port, in a thread of its own.

    Raises:
        UsageError: the port is taken, or not for us.
    """
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_State(app, root))
    try:
        start_http_server(port, registry=registry)
    except OSError as error:
        raise UsageError(
            f"metrics cannot be served on port {port}: {error.strerror}", "give another with --metrics-port"
        ) from None


class _State(Collector):
    """The ledger and the queues, looked up when somebody asks."""

    def __init__(self, app: Celery, root: Path) -> None:
        self.app, self.root = app, root

    def collect(self) -> Iterator[Metric]:
        """See the class."""
        try:
            found = status(self.root)
        except HelixError:
            yield GaugeMetricFamily("helix_store_usable", "Whether the store can be read", 0)
            return
        yield GaugeMetricFamily("helix_store_usable", "Whether the store can be read", 1)
        documents = GaugeMetricFamily("helix_documents", "Documents, by what has become of them", labels=["state"])
        for state in ("accepted", "done", "pending", "dead"):
            documents.add_metric([state], found[state])
        for state in ("running", "failed"):
            documents.add_metric([state], len(found[state]))
        yield documents
        yield GaugeMetricFamily("helix_lag_seconds", "Age of the oldest document that waits", value=found["lag"])
        yield GaugeMetricFamily("helix_generation", "The current generation", value=found["generation"])
        yield GaugeMetricFamily("helix_items", "Live items", value=found["items"])
        yield GaugeMetricFamily("helix_segments", "Segments", value=found["segments"])
        yield GaugeMetricFamily("helix_bytes", "Bytes of the current generation", value=found["bytes"])
        backlog = GaugeMetricFamily("helix_backlog", "Items an enrichment has yet to come to", labels=["enrichment"])
        for name, items in found["backlog"].items():
            backlog.add_metric([name], items)
        yield backlog
        yield from self._queues()

    def _queues(self) -> Iterator[Metric]:
        queues = GaugeMetricFamily("helix_queue_messages", "Messages that wait in the broker", labels=["queue"])
        try:
            with self.app.connection_for_write() as connection:
                for name in (*QUEUES, *APART):
                    queues.add_metric([name], length(connection, name))
        except BROKEN:
            yield GaugeMetricFamily("helix_broker_up", "Whether the broker answers", value=0)
            return
        yield GaugeMetricFamily("helix_broker_up", "Whether the broker answers", value=1)
        yield queues
