"""Prometheus metrics of the workers: tasks of all processes, the ledger and the queues.

Pool processes and workers that share a folder count in the files of PROMETHEUS_MULTIPROC_DIR. The variable must be set
before this module is imported. Any worker with a port answers for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from helix.errors import HelixError, UsageError
from helix.settings import load
from helix.snapshot.fleet_status import StoreSummary, summarise_stores
from helix.snapshot.status import read_status
from workers.dispatch import BROKER_ERRORS, count_messages
from workers.queues import ALL_QUEUES

if TYPE_CHECKING:
    from celery import Celery
    from prometheus_client import Metric

_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0)  # seconds

TASKS: Final = Counter("helix_tasks", "Tasks, by outcome", ["task", "outcome"])
SECONDS: Final = Histogram("helix_task_seconds", "Time of a task", ["task"], buckets=_BUCKETS)
ITEMS: Final = Counter("helix_items_enriched", "Items of enriched documents")
DEEP: Final = Counter("helix_deep_calls", "Requests to the endpoints of the deep tier")
DROPPED: Final = Counter("helix_messages_dropped", "Invalid messages", ["queue", "why"])
LOST: Final = Counter("helix_processes_lost", "Pool processes that died during a task", ["task"])


MAX_LABELLED: Final = 1_000
"""Stores with metrics of their own, by name; the others count in the totals only. Prometheus holds each label value."""

SUMMARISED: Final = 15.0
"""Seconds for which the summaries of many stores are used again: reading 1,000 ledgers takes seconds."""


def serve(app: Celery, root: Path, port: int) -> None:
    """Serve metrics on a port, in a thread.

    Args:
        root: the store, or the folder of stores if the settings name one.

    Raises:
        UsageError: the port cannot be bound.
    """
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_FleetCollector(app, root) if load().stores else _StoreCollector(app, root))
    try:
        start_http_server(port, registry=registry)
    except OSError as error:
        text = f"metrics cannot be served on port {port}: {error.strerror}"
        raise UsageError(text, "give another with --metrics-port") from None


class _StoreCollector(Collector):
    """The state of the ledger and the queues, read at each scrape."""

    def __init__(self, app: Celery, root: Path) -> None:
        self.app, self.root = app, root

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of the store and the broker."""
        try:
            state = read_status(self.root)
        except HelixError:
            yield GaugeMetricFamily("helix_store_usable", "Whether the store can be read", 0)
            return
        yield GaugeMetricFamily("helix_store_usable", "Whether the store can be read", 1)
        documents = GaugeMetricFamily("helix_documents", "Documents, by state", labels=["state"])
        for name in ("accepted", "done", "pending", "dead", "running", "failed"):
            documents.add_metric([name], state[name] if isinstance(state[name], int) else len(state[name]))
        yield documents
        yield GaugeMetricFamily("helix_lag_seconds", "Age of the oldest pending document", value=state["lag"])
        yield GaugeMetricFamily("helix_generation", "The current generation", value=state["generation"])
        yield GaugeMetricFamily("helix_items", "Live items", value=state["items"])
        yield GaugeMetricFamily("helix_segments", "Segments", value=state["segments"])
        yield GaugeMetricFamily("helix_bytes", "Bytes of the current generation", value=state["bytes"])
        backlog = GaugeMetricFamily("helix_backlog", "Items that an enrichment lacks", labels=["enrichment"])
        for name, items in state["backlog"].items():
            backlog.add_metric([name], items)
        yield backlog
        yield from _collect_queues(self.app)


class _FleetCollector(Collector):
    """The state of every store of a folder, and of the queues."""

    def __init__(self, app: Celery, stores: Path) -> None:
        self.app, self.stores = app, stores
        self._read, self._found = float("-inf"), list[StoreSummary]()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of the stores and the broker."""
        if time.monotonic() - self._read > SUMMARISED:
            self._found, self._read = list(summarise_stores(self.stores)), time.monotonic()
        yield GaugeMetricFamily("helix_stores", "Stores", len(self._found))
        usable = sum(not one.error for one in self._found)
        yield GaugeMetricFamily("helix_stores_usable", "Stores that can be read", usable)
        states = {"waiting": "waiting", "running": "running", "failed": "retrying", "dead": "dead"}
        totals = GaugeMetricFamily("helix_documents", "Documents, by state", labels=["state"])
        each = GaugeMetricFamily(
            "helix_store_documents", f"The same of each store, up to {MAX_LABELLED:,}", labels=["store", "state"]
        )
        for state, field in states.items():
            totals.add_metric([state], sum(getattr(one, field) for one in self._found))
            for one in self._found[:MAX_LABELLED]:
                each.add_metric([one.store, state], getattr(one, field))
        yield totals
        yield each
        lag = max((one.lag for one in self._found), default=0.0)
        yield GaugeMetricFamily("helix_lag_seconds", "Age of the oldest pending document", lag)
        lags = GaugeMetricFamily("helix_store_lag_seconds", "The same of each store", labels=["store"])
        items = GaugeMetricFamily("helix_store_items", "Live items of each store", labels=["store"])
        for one in self._found[:MAX_LABELLED]:
            lags.add_metric([one.store], one.lag)
            items.add_metric([one.store], one.items)
        yield lags
        yield items
        yield from _collect_queues(self.app)


def _collect_queues(app: Celery) -> Iterator[Metric]:
    queues = GaugeMetricFamily("helix_queue_messages", "Messages that wait in the broker", labels=["queue"])
    try:
        with app.connection_for_write() as connection:
            for name in ALL_QUEUES:
                queues.add_metric([name], count_messages(connection, name))
    except BROKER_ERRORS:
        yield GaugeMetricFamily("helix_broker_up", "Whether the broker answers", value=0)
        return
    yield GaugeMetricFamily("helix_broker_up", "Whether the broker answers", value=1)
    yield queues
