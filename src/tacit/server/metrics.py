"""What the service counts, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """Counts of values by upper bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str = "") -> Iterable[str]:
        """The cumulative counts, in Prometheus' text format."""
        seen, comma = 0, "," if labels else ""
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            seen += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {seen}'
        around = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{around} {self.total:.6f}"
        yield f"{name}_count{around} {seen}"


class Metrics:
    """Requests by route and status, how long they took, batches, and workers that had to be replaced."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.batches = Histogram(SIZES)
        self.restarts = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[route, status] += 1
        self.seconds.setdefault(route, Histogram(SECONDS)).add(seconds)

    def batch(self, size: int) -> None:
        """Count a batch."""
        self.batches.add(size)

    def text(self, queue: int, alive: int) -> str:
        """Everything counted so far, with two gauges that are read when asked."""
        lines = [*_head("tacit_requests_total", "counter", "Requests by route and status.")]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'tacit_requests_total{{route="{route}",status="{status}"}} {count}')
        lines += _head("tacit_request_seconds", "histogram", "How long requests took, by route.")
        for route, histogram in sorted(self.seconds.items()):
            lines += histogram.lines("tacit_request_seconds", f'route="{route}"')
        lines += _head("tacit_batch_size", "histogram", "Questions answered together.")
        lines += self.batches.lines("tacit_batch_size")
        lines += _head("tacit_queue_length", "gauge", "Questions that wait for a worker.")
        lines += [f"tacit_queue_length {queue}", *_head("tacit_workers", "gauge", "Workers that run.")]
        lines += [f"tacit_workers {alive}"]
        lines += _head("tacit_worker_restarts_total", "counter", "Workers replaced because they were slow or died.")
        return "\n".join([*lines, f"tacit_worker_restarts_total {self.restarts}", ""])


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"
