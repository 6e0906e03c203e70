"""Metrics of the service for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
RUN = ("run",)


class Metrics:
    """Requests by route, status and duration; batches, queue and workers of each run."""

    def __init__(self) -> None:
        # A registry of its own: two services in one process count apart.
        self.registry = all_ = CollectorRegistry()
        self.requests = Counter(
            "tacit_requests", "Requests by route and status.", ("route", "status"), registry=all_
        )
        self.seconds = Histogram(
            "tacit_request_seconds",
            "How long requests took, by route.",
            ("route",),
            buckets=SECONDS,
            registry=all_,
        )
        self.batches = Histogram(
            "tacit_batch_size", "Questions answered together.", RUN, buckets=SIZES, registry=all_
        )
        self.queue = Gauge(
            "tacit_queue_length", "Questions that wait for a worker.", RUN, registry=all_
        )
        self.workers = Gauge("tacit_workers", "Workers that run.", RUN, registry=all_)
        self.restarts = Counter(
            "tacit_worker_restarts",
            "Workers replaced because they were slow, left alone or died.",
            RUN,
            registry=all_,
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
