"""The contract of what predicts missing values of attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class PredictedValue:
    """A predicted value: its median, the interval of a level, and what says that there is one.

    Values are those of `tacit.graph.quantities`: dates in days, durations in seconds.
    """

    median: float
    low: float
    high: float
    level: float  # the share of true values that lie in the interval
    presence: float  # the probability that the entity has a value at all


class ValuePredictor(Protocol):
    """Predicts the values of attributes of every entity, known ones not excluded.

    Attributes are ids of `Graph.attributes`. An attribute with too few values has no prediction:
    its probabilities are 0.
    """

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        """The probability that an entity has a value from `low` to `high`, `[N]`."""

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        """The probability that a source's left value less an entity's right one is in a range.

        `P(low <= left(source) - right(entity) <= high)` for the sources `[B]`, `[B, N]`.
        """

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        """The value of one entity; None where an attribute has no prediction."""
