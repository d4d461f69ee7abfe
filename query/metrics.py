"""The query process's metrics for Prometheus: `/metrics`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from query.stores.many import AnyService, ManyStores
from query.stores.metrics import StoreMetrics, StoresCollector

if TYPE_CHECKING:
    from prometheus_client import Metric

    from query.service import QueryService
    from query.store_gate import StoreGate

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class QueryMetrics:
    """Counts and times of one query process, in its own registry.

    Several processes of one server write to PROMETHEUS_MULTIPROC_DIR; each reports the sum.
    """

    def __init__(self, service: AnyService, gate: StoreGate | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # drops the second series with the start time
        own = CollectorRegistry()
        self._registry = own
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=own)
            GCCollector(registry=own)
        self.recalls = Counter("helix_recalls", "Recalls, by outcome", ["outcome"], registry=own)
        self.seconds = Histogram("helix_recall_seconds", "Time of a recall", buckets=_SECONDS, registry=own)
        self.stages = Histogram("helix_stage_seconds", "Time of a stage", ["stage"], buckets=_SECONDS, registry=own)
        self.degraded = Counter("helix_degraded", "Degraded answers, by the missing part", ["what"], registry=own)
        failures = "Failed looks for a newer generation"
        self.reload_failures = Counter("helix_reload_failures", failures, registry=own)
        self._stores: StoreMetrics | None = None
        if isinstance(service, ManyStores):
            self._stores = StoreMetrics(own)
            self._registry.register(StoresCollector(service, gate))
        else:
            self._registry.register(_StateCollector(service))

    def count_answer(self, answer: dict[str, Any], store: str | None = None) -> None:
        """Count one answer, with its times in milliseconds (`ms`).

        Args:
            store: on a server of many; None: the answer is of several, whose shares are counted.
        """
        if self._stores:
            self._stores.count_answer(answer, store)
        self.recalls.labels("skipped" if answer["skipped"] else "answered").inc()
        for stage, ms in answer["ms"].items():
            if stage == "total":
                self.seconds.observe(ms / 1_000)
            else:
                self.stages.labels(stage).observe(ms / 1_000)
        for what in answer["degraded"]:
            self.degraded.labels(what.partition(":")[0]).inc()

    def count_failure(self, is_refused: bool, store: str | None = None) -> None:
        """Count a recall without an answer: refused for its arguments, or failed."""
        if self._stores and store:
            self._stores.count_failure(store, is_refused)
        self.recalls.labels("refused" if is_refused else "failed").inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _StateCollector(Collector):
    """The state of the served store at each scrape."""

    def __init__(self, service: QueryService) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        is_ready, trouble = self.service.is_ready, bool(self.service.trouble)
        yield GaugeMetricFamily("helix_ready", "Whether a generation is open and answers", float(is_ready))
        yield GaugeMetricFamily("helix_trouble", "Whether a newer generation cannot be opened", float(trouble))
        age = "Seconds since the last look for a newer generation without an error"
        yield GaugeMetricFamily("helix_reload_age_seconds", age, self.service.reload_age)
        if is_ready:
            snapshot = self.service.memory.snapshot
            counts = snapshot.manifest.counts if snapshot.manifest else {"items": 0}
            segments = snapshot.manifest.segments if snapshot.manifest else ()
            yield GaugeMetricFamily("helix_generation", "The answering generation", snapshot.generation)
            yield GaugeMetricFamily("helix_items", "Its live items", counts["items"])
            yield GaugeMetricFamily("helix_segments", "Its segments", len(segments))
