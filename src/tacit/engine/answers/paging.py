"""Which of the answers to a question are listed: a page of those that score well enough."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.engine.logic import ZERO
from tacit.errors import SettingsError


class Span(NamedTuple):
    """The places of the answers to list, `start` to `stop`, among those with a log-score of at least `floor`."""

    start: int
    stop: int
    floor: float


@dataclass(frozen=True)
class Page:
    """The `top` answers from `offset` on, or all of them, of those that score at least `min_score`."""

    top: int | None = 10
    offset: int = 0
    min_score: float = 0.0

    def __post_init__(self) -> None:
        if self.top is not None:
            check_number("top", self.top, 1)
        check_number("offset", self.offset, 0)
        given = self.min_score
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0.0 <= given <= 1.0:
            raise SettingsError(f"min_score must be a number from 0 to 1, not {given!r}", "min_score")

    def of(self, limit: int | None = None, offset: int = 0, min_score: float = 0.0) -> Span:
        """The page of a question that has a LIMIT and OFFSET itself: it is a page of what these leave.

        >>> Page(top=3, offset=1).of(limit=2, offset=10)
        Span(start=11, stop=12, floor=-inf)
        """
        start = offset + self.offset
        ends = (sys.maxsize if self.top is None else start + self.top, sys.maxsize if limit is None else offset + limit)
        return Span(start, min(ends), lowest(max(self.min_score, min_score)))


def lowest(score: float) -> float:
    """The lowest log-score, of those that 32 bits hold, whose score is not below this one."""
    if score <= 0.0:
        return ZERO
    half = (score - math.nextafter(score, 0.0)) / 2.0  # what rounding makes up for
    log = np.float32(math.log(score) - half / score)
    return float(log if math.exp(log) >= score else np.nextafter(log, np.float32(1)))


def check_number(name: str, number: int, least: int) -> None:
    """Refuse what is no whole number, or too low a one."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise SettingsError(f"{name} must be a whole number, not {number!r}", name)
    if number < least:
        raise SettingsError(f"{name} must be at least {least}, not {number}", name)
