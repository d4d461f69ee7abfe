"""What Prometheus can ask the query process for: `/metrics`."""

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

if TYPE_CHECKING:
    from prometheus_client import Metric

    from query.service import Service

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counts and times of one query process, in a registry of its own; of several processes of one server, the sum of
    what each wrote down (PROMETHEUS_MULTIPROC_DIR), whichever is asked.
    """

    def __init__(self, service: Service) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each, which says when the process began
        self.registry = CollectorRegistry()
        self._told = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            self._told = CollectorRegistry()
            MultiProcessCollector(self._told)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.recalls = Counter("helix_recalls", "Recalls, by what came of them", ["outcome"], registry=self.registry)
        self.seconds = Histogram("helix_recall_seconds", "Time of a recall", buckets=_SECONDS, registry=self.registry)
        self.stages = Histogram(
            "helix_stage_seconds", "Time of a stage", ["stage"], buckets=_SECONDS, registry=self.registry
        )
        self.degraded = Counter(
            "helix_degraded", "Answers without something, by what it was", ["what"], registry=self.registry
        )
        self.reload_failures = Counter(
            "helix_reload_failures", "Looks for a newer generation that failed", registry=self.registry
        )
        self._told.register(_State(service))

    def recalled(self, found: dict[str, Any]) -> None:
        """Count one answer, and its times in milliseconds (`ms`)."""
        self.recalls.labels("skipped" if found["skipped"] else "answered").inc()
        for stage, ms in found["ms"].items():
            if stage == "total":
                self.seconds.observe(ms / 1_000)
            else:
                self.stages.labels(stage).observe(ms / 1_000)
        for what in found["degraded"]:
            self.degraded.labels(what.partition(":")[0]).inc()

    def failed(self, refused: bool) -> None:
        """Count a recall without an answer: refused for what it asked, or failed."""
        self.recalls.labels("refused" if refused else "failed").inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._told)


class _State(Collector):
    """What the process serves, looked up when it is asked for."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        """See the class."""
        ready, trouble = self.service.ready, bool(self.service.trouble)
        yield GaugeMetricFamily("helix_ready", "Whether a generation is open and answers", float(ready))
        yield GaugeMetricFamily("helix_trouble", "Whether a newer generation cannot be opened", float(trouble))
        unlooked = "Seconds since a look for a newer generation found all well"
        yield GaugeMetricFamily("helix_reload_age_seconds", unlooked, self.service.unlooked)
        if ready:
            snapshot = self.service.memory.snapshot
            counts = snapshot.manifest.counts if snapshot.manifest else {"items": 0}
            segments = snapshot.manifest.segments if snapshot.manifest else ()
            yield GaugeMetricFamily("helix_generation", "The generation that answers", snapshot.generation)
            yield GaugeMetricFamily("helix_items", "Live items in it", counts["items"])
            yield GaugeMetricFamily("helix_segments", "Segments in it", len(segments))
