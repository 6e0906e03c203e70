"""Log lines, which no client can forge, and metrics for Prometheus."""

from __future__ import annotations

import logging
import sys
from logging.handlers import WatchedFileHandler

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.errors import SettingsError

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
RUN = ("run",)


class LogLines(logging.Formatter):
    """One line a record; a traceback follows it, indented."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, with control characters written out."""
        return escape_control_chars(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """The traceback, each line of it indented."""
        lines = super().formatException(ei).split("\n")  # type: ignore[arg-type]
        return "\n".join(f"    {escape_control_chars(line)}" for line in lines)


def write_log_lines() -> None:
    """Write warnings and errors of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def access_log(place: str | None) -> logging.Logger | None:
    """The log of requests, appended to a file, or to standard error for `-`.

    A file that is moved away is created again.
    """
    if place is None:
        return None
    try:
        handler = (
            logging.StreamHandler(sys.stderr)
            if place == "-"
            else WatchedFileHandler(place, encoding="utf-8")
        )
    except OSError as error:
        raise SettingsError(
            f"access_log is '{place}', which cannot be written ({error.strerror})", "access_log"
        ) from None
    log = logging.Logger("tacit.access")  # of its own: two services in one process write apart
    log.addHandler(handler)
    return log


class Metrics:
    """Requests by route, status and duration; batches, queue and workers of each run."""

    def __init__(self) -> None:
        # local, since workers need the log lines alone
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        # A registry of its own: two services in one process count apart.
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tacit_requests",
            "Requests by route and status.",
            ("route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "tacit_request_seconds",
            "How long requests took, by route.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batches = Histogram(
            "tacit_batch_size",
            "Questions answered together.",
            RUN,
            buckets=SIZES,
            registry=self.registry,
        )
        self.queue = Gauge(
            "tacit_queue_length", "Questions that wait for a worker.", RUN, registry=self.registry
        )
        self.workers = Gauge("tacit_workers", "Workers that run.", RUN, registry=self.registry)
        self.restarts = Counter(
            "tacit_worker_restarts",
            "Workers replaced because they were slow, left alone or died.",
            RUN,
            registry=self.registry,
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
