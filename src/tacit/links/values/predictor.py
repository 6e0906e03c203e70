"""The contract of what predicts missing values of attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_ROWS = 64  # sources whose rows are computed at once


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
    its probabilities are 0. Subclasses may compute single entities and pairs faster than here.
    """

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        """The probability that an entity has a value from `low` to `high`, `[N]`."""

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        """The probability that a source's left value less an entity's right one is in a range.

        `P(low <= left(source) - right(entity) <= high)` for the sources `[B]`, `[B, N]`.
        """

    def probability_of(
        self, attribute: int, entities: Tensor, lows: Tensor, highs: Tensor
    ) -> Tensor:
        """The probability that each of some entities has a value in a range of its own, `[M]`."""
        ranges, places = torch.unique(
            torch.stack([lows, highs]), dim=1, return_inverse=True, sorted=True
        )
        out = torch.zeros(len(entities), dtype=torch.float32, device=entities.device)
        for number, (low, high) in enumerate(ranges.t().tolist()):
            rows = (places == number).nonzero()[:, 0]
            out[rows] = self.probability(attribute, low, high)[entities[rows]].to(out)
        return out

    def difference_of(
        self, left: int, right: int, sources: Tensor, targets: Tensor, low: float, high: float
    ) -> Tensor:
        """The probability that the values of each pair of entities differ by a range, `[M]`."""
        parts = [
            self.difference(left, right, few, low, high)[torch.arange(len(few)), ends]
            for few, ends in zip(sources.split(_ROWS), targets.split(_ROWS), strict=True)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, device=sources.device)

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        """The value of one entity; None where an attribute has no prediction."""
