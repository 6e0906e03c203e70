"""Random values of attributes, a predictor of odd probabilities, comparisons by definition."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.quantities import Quantity
from tacit.graph.value_index import ValueIndex
from tacit.links.values.predictor import PredictedValue, ValuePredictor

ATTRIBUTES = ("size", "age")
LEVELS = 5  # few distinct values, so that many of them tie
Range = tuple[float, float]


def share(*parts: object) -> float:
    """A number from 0 to 1 that anything decides, alike in every process."""
    text = repr(tuple(float(part) + 0.0 if isinstance(part, float) else part for part in parts))
    (number,) = struct.unpack("<Q", hashlib.blake2b(text.encode(), digest_size=8).digest())
    return float(number) / 2**64


class OddPredictor(ValuePredictor):
    """Probabilities that follow no distribution: other ones for each entity, pair and range."""

    def __init__(self, size: int) -> None:
        self.size = size

    def one(self, attribute: int, entity: int, low: float, high: float) -> float:
        return share("one", attribute, entity, low, high) / 2

    def two(self, left: int, right: int, s: int, t: int, low: float, high: float) -> float:
        """The same however a difference is turned around."""
        return share(*min((left, s, right, t, low, high), (right, t, left, s, -high, -low)))

    def probability(self, attribute: int, low: float, high: float) -> Tensor:
        return torch.tensor([self.one(attribute, e, low, high) for e in range(self.size)])

    def difference(self, left: int, right: int, sources: Tensor, low: float, high: float) -> Tensor:
        rows = [
            [self.two(left, right, s, t, low, high) for t in range(self.size)]
            for s in sources.tolist()
        ]
        return torch.tensor(rows).view(len(rows), self.size)

    def predicted(self, attribute: int, entity: int, level: float = 0.8) -> PredictedValue | None:
        median = share("median", attribute, entity) * LEVELS
        return PredictedValue(median, median - 1, median + 1, level, 0.75)


class Numbers:
    """Known values of a few entities, some with several, and perhaps predicted ones."""

    def __init__(self, size: int, seed: int, predicts: bool = True, most: int = 2) -> None:
        random = np.random.default_rng(seed)
        self.size = size
        self.values: dict[str, list[list[float]]] = {
            name: [
                sorted(
                    {float(random.integers(LEVELS)) for _ in range(random.integers(0, most + 1))}
                )
                for _ in range(size)
            ]
            for name in ATTRIBUTES
        }
        self.attributes = Attributes.of(
            [Attribute(name) for name in ATTRIBUTES],
            [
                (entity, number, Quantity(value), 0)
                for number, name in enumerate(ATTRIBUTES)
                for entity, values in enumerate(self.values[name])
                for value in values
            ],
        )
        self.index = ValueIndex(self.attributes, ("train",), size)
        self.predictor = OddPredictor(size) if predicts else None

    def compared(self, ends: Sequence[tuple[str, int]], low: float, high: float) -> float:
        """The value of a comparison of one value, or of the first less the second."""
        known = [self.values[name][entity] for name, entity in ends]
        ids = [ATTRIBUTES.index(name) for name, _ in ends]
        entities = [entity for _, entity in ends]
        others = known[1] if len(ends) > 1 else [0.0]
        differences = [x - y for x in known[0] for y in others]
        if all(known):
            return float(any(low <= difference <= high for difference in differences))
        if self.predictor is None or low > high:
            return 0.0
        if not any(known):
            if len(ends) == 1:
                return self.predictor.one(ids[0], entities[0], low, high)
            return self.predictor.two(ids[0], ids[1], *entities, low, high)
        # the missing value lies in one of some ranges around the known ones
        if known[0]:
            ranges, missing = [(x - high, x - low) for x in known[0]], 1
        else:
            ranges, missing = [(y + low, y + high) for y in known[1]], 0
        parts = (
            self.predictor.one(ids[missing], entities[missing], *each) for each in _joined(ranges)
        )
        return min(1.0, sum(parts))


def _joined(ranges: Sequence[Range]) -> list[Range]:
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined
