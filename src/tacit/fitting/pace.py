"""How fast a training goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_GLIMPSE = 3.0  # seconds of steps to judge the rest by


class Pace:
    """How fast steps go. The first of them, which warms up, does not count."""

    def __init__(self) -> None:
        self.steps = self.examples = 0
        self.began: float | None = None
        self.estimated = False

    def count(self, examples: int) -> None:
        """Count a step."""
        if self.began is None:
            self.began = time.monotonic()
        else:
            self.steps, self.examples = self.steps + 1, self.examples + examples

    @property
    def rate(self) -> float | None:
        """Examples a second."""
        return None if self.began is None or not self.steps else self.examples / self._elapsed

    def estimate(self, steps: int) -> float:
        """The seconds that so many more steps will take, told once, as soon as it can be known; otherwise 0."""
        if self.estimated or not self.steps or self._elapsed < _GLIMPSE:
            return 0.0
        self.estimated = True
        return self._elapsed / self.steps * steps

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is no step."""
        before = time.monotonic()
        yield
        if self.began is not None:
            self.began += time.monotonic() - before

    @property
    def _elapsed(self) -> float:
        return max(1e-9, time.monotonic() - (self.began or 0.0))
