"""Metrics of the service, in the format of Prometheus. No label holds an id that a client chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kernelbandits._optional import import_optional
from kernelbandits.service.experiment import LiveExperiment
from kernelbandits.service.learner import Learner

__all__ = ["Metrics"]

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counters of requests and commits, and gauges that are read from the learner."""

    def __init__(self, learner: Learner) -> None:
        self._prometheus: Any = import_optional("prometheus_client", "The metrics of the service", extra="service")
        prometheus = self._prometheus
        self.registry: Any = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "kernelbandits_requests", "Requests answered", ["route", "method", "status"], registry=self.registry
        )
        self._seconds = prometheus.Histogram(
            "kernelbandits_request_seconds", "Time to answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._commits = prometheus.Histogram(
            "kernelbandits_commit_seconds", "Time of a commit with its flush", buckets=SECONDS, registry=self.registry
        )
        self._rows = prometheus.Counter("kernelbandits_rows", "Rows appended to the log", registry=self.registry)
        self._rejected = prometheus.Counter(
            "kernelbandits_rejected", "Requests rejected, by code", ["code"], registry=self.registry
        )
        learner.writer.observe = self._committed
        self.registry.register(_Gauges(learner))

    def _committed(self, seconds: float, n_rows: int) -> None:
        self._commits.observe(seconds)
        self._rows.inc(n_rows)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def rejected(self, code: str) -> None:
        """Count a problem."""
        self._rejected.labels(code).inc()

    @property
    def rejections(self) -> dict[str, int]:
        """Requests rejected since the start, by code."""
        samples = [sample for family in self._rejected.collect() for sample in family.samples]
        return {one.labels["code"]: int(one.value) for one in samples if one.name.endswith("_total")}

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        found: bytes = self._prometheus.generate_latest(self.registry)
        return found


class _Gauges:
    """Values that are read from the learner when they are requested."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        core = import_optional("prometheus_client.core", "The metrics of the service", extra="service")
        self._family: Any = core.GaugeMetricFamily

    def describe(self) -> Iterable[Any]:
        """Nothing: the names are known when they are collected."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield every gauge."""
        learner = self._learner
        store: Any = learner.store
        whole = {
            "ready": (float(learner.is_ready), "Whether decisions can be made"),
            "read_only": (float(learner.state == "read-only"), "Whether nothing can be stored"),
            "clock_alarm": (float(learner.alarm is not None), "Whether the wall clock has jumped"),
            "log_seq": (float(learner.applied_seq), "Last row of the log that was applied"),
            "learn_lag_rows": (float(learner.lag), "Committed rows that are not applied"),
            "learner_queue": (float(learner.n_waiting), "Requests that wait for the learner"),
            "commit_queue": (float(learner.writer.n_outstanding), "Batches that wait for a commit"),
            "store_bytes": (float(store.size()), "Size of the database"),
            "disk_free_bytes": (float(store.free()), "Free bytes of its disk"),
        }
        if learner.last_snapshot_at is not None:
            age = learner.clock.now() - learner.last_snapshot_at
            whole["snapshot_age_seconds"] = (age, "Age of the last snapshot")
        for name, (value, text) in whole.items():
            yield self._gauge(name, text, value)
        by_experiment: dict[str, tuple[str, Callable[[LiveExperiment], float]]] = {
            "open_decisions": ("Decisions whose window is open", lambda one: len(one.entries)),
            "pending": ("Pending decisions that count in widths", lambda one: one.model.pending),
            "skipped_rows": ("Rows that the policy rejected", lambda one: one.model.n_skipped),
            "items": ("Items of the catalog", lambda one: len(one.items)),
        }
        for name, (text, read) in by_experiment.items():
            family = self._family(f"kernelbandits_{name}", text, labels=["experiment"])
            for experiment in list(learner.experiments.values()):
                if experiment.active in experiment.models:
                    family.add_metric([experiment.name], float(read(experiment)))
            yield family

    def _gauge(self, name: str, text: str, value: float) -> Any:
        return self._family(f"kernelbandits_{name}", text, value=value)
