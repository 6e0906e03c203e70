"""What was learned of the attributes of a graph: the predictor of their missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tacit.graph.attributes import Attributes
from tacit.graph.fact_index import Floats
from tacit.links.values.distribution import ValueDistribution, differing
from tacit.links.values.predictor import PredictedValue, ValuePredictor
from tacit.links.values.walk_model import WalkModel

_PAIRS = 2**18  # pairs of entities compared at a time


@dataclass(frozen=True)
class FittedAttribute:
    """The distribution of an attribute, and the walks that carry its predictions."""

    distribution: ValueDistribution
    walks: WalkModel
    # the mean absolute held-out error in the scales that were tried
    held_out: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FittedValues(ValuePredictor):
    """Predicts the missing values of the attributes of one graph."""

    attributes: Attributes
    fitted: Sequence[FittedAttribute | None]  # None where values are too few
    num_entities: int

    def distribution(self, attribute: int) -> ValueDistribution | None:
        """The distribution of an attribute, or None."""
        fitted = self.fitted[attribute]
        return None if fitted is None else fitted.distribution

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        """The probability that an entity has a value from `low` to `high`, `[N]`."""
        found = self.distribution(attribute)
        if found is None or not low <= high:
            return torch.zeros(self.num_entities)
        return _tensor(found.within(slice(None), low, high))

    def probability_of(
        self, attribute: int, entities: Tensor, lows: Tensor, highs: Tensor
    ) -> Tensor:
        """The probability that each of some entities has a value in a range of its own, `[M]`."""
        found = self.distribution(attribute)
        if found is None:
            return torch.zeros(len(entities), device=entities.device)
        low, high = (np.asarray(each.cpu(), dtype=float) for each in (lows, highs))
        chances = found.within(entities.cpu().numpy(), low, high)
        return _tensor(np.where(low <= high, chances, 0.0)).to(entities.device)

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        """The probability that a source's left value less an entity's right one is in a range.

        `P(low <= left(source) - right(entity) <= high)` for the sources `[B]`, `[B, N]`.
        """
        everyone = torch.arange(self.num_entities, device=sources.device)
        rows = [
            self.difference_of(left, right, source.expand_as(everyone), everyone, low, high)
            for source in sources
        ]
        return torch.stack(rows) if rows else torch.zeros(0, self.num_entities)

    def difference_of(
        self, left: int, right: int, sources: Tensor, targets: Tensor, low: float, high: float
    ) -> Tensor:
        """The probability that the values of each pair of entities differ by a range, `[M]`."""
        one, other = self.distribution(left), self.distribution(right)
        if one is None or other is None or not low <= high:
            return torch.zeros(len(sources), device=sources.device)
        starts, ends = sources.cpu().numpy(), targets.cpu().numpy()
        parts = [
            differing(one, other, starts[at : at + _PAIRS], ends[at : at + _PAIRS], low, high)
            for at in range(0, len(starts), _PAIRS)
        ]
        found = np.concatenate([np.empty(0), *parts])
        if left == right:  # a value does not differ from itself
            same = starts == ends
            found[same] = one.presence[starts[same]] * (low <= 0 <= high)
        return _tensor(found).to(sources.device)

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        """The value of one entity; None where an attribute has no prediction."""
        found = self.distribution(attribute)
        if found is None:
            return None
        chances = (1 - level) / 2, 0.5, (1 + level) / 2
        low, median, high = found.quantiles(entity, chances).tolist()
        return PredictedValue(median, low, high, level, float(found.presence[entity]))


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))
