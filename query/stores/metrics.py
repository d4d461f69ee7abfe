"""The metrics of each store on a server of many, and of the open stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client import Metric

    from query.store_gate import StoreGate
    from query.stores.many import ManyStores


class StoreMetrics:
    """Counts of recalls by store. A store without a recall has no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ["store", "outcome"]
        self.recalls = Counter("helix_store_recalls", "Recalls, by store and outcome", names, registry=registry)
        about = "Seconds of its answered recalls"
        self.seconds = Counter("helix_store_recall_seconds", about, ["store"], registry=registry)

    def count_answer(self, answer: dict[str, Any], store: str | None) -> None:
        """Count one answer; of several stores each one's share."""
        shares = {store: answer["ms"]["total"]} if store else {}
        shares |= {name: share["ms"] for name, share in answer.get("stores", {}).items()}
        for name, ms in shares.items():
            self.recalls.labels(name, "skipped" if answer["skipped"] else "answered").inc()
            self.seconds.labels(name).inc(ms / 1_000)

    def count_failure(self, store: str, is_refused: bool) -> None:
        """Count a recall without an answer."""
        self.recalls.labels(store, "refused" if is_refused else "failed").inc()


class StoresCollector(Collector):
    """The state of the open stores at each scrape."""

    def __init__(self, service: ManyStores, gate: StoreGate | None) -> None:
        self.service = service
        self.gate = gate

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        count, size, released, closed = self.service.count_open()
        yield GaugeMetricFamily("helix_ready", "Whether recalls are answered", 1.0)
        yield GaugeMetricFamily("helix_trouble", "Whether a store cannot be opened", float(bool(self.service.trouble)))
        yield GaugeMetricFamily("helix_stores_open", "Open stores", count)
        yield GaugeMetricFamily("helix_stores_bytes", "Memory that the open stores may take", size)
        yield GaugeMetricFamily("helix_stores_bytes_limit", "Its bound", self.service.memory_bound)
        yield CounterMetricFamily("helix_stores_opened", "Stores opened, again after a close too", self.service.opened)
        about = "Seconds of opening stores"
        yield CounterMetricFamily("helix_stores_open_seconds", about, self.service.open_seconds)
        about = "Open stores that gave back their mapped pages for others"
        yield CounterMetricFamily("helix_stores_released", about, released)
        yield CounterMetricFamily("helix_stores_closed", "Stores closed for others", closed)
        refused = CounterMetricFamily(
            "helix_store_refused", "Requests above a store's limit", labels=["store", "limit"]
        )
        for (store, limit), number in (self.gate.refused if self.gate else {}).items():
            refused.add_metric([store, limit], number)
        yield refused
