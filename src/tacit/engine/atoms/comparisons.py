"""Log-scores of comparisons: certain where values are known, else as a predictor says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.graph.fact_index import Flags, Floats, Integers, Ints, spread
from tacit.graph.value_index import ValueIndex
from tacit.links.values.predictor import PredictedValue, ValuePredictor
from tacit.query.plans.plan import Difference, Within

_PAIRS = 2**22  # pairs of entities whose values are predicted at once
Scores = NDArray[np.float32]
Ranges = tuple[Ints, Floats, Floats]  # entities in order, and the ends of ranges of each


@dataclass(frozen=True, eq=False)
class Comparisons:
    """The log-scores of comparisons, by known values and perhaps a predictor of missing ones.

    Where entities have known values, a comparison is worth 1 if some of these satisfy it, else 0.
    A missing value is predicted; where one of two is known, it stands for itself. Without a
    predictor, a comparison with a missing value is worth 0.
    """

    known: ValueIndex
    predictor: ValuePredictor | None = None
    device: torch.device | None = None  # the CPU

    def row(self, step: Within) -> Tensor:
        """The value of a comparison for every entity, `[N]`."""
        if step.minus:
            everyone = np.arange(self.known.num_entities)
            return self._logs(self._pairs(_own(step), everyone, everyone))
        known = self.known.known(step.attribute)
        out = self.known.within(step.attribute, step.low, step.high).astype(np.float32)
        if self.predictor is not None and step.low <= step.high:
            attribute = self._id(step.attribute)
            predicted = _numbers(self.predictor.probability(attribute, step.low, step.high))
            out[~known] = predicted[~known]
        return self._logs(out)

    def at(self, step: Within, entities: Tensor) -> Tensor:
        """The value of a comparison for some entities, `[B]`."""
        if not step.minus:
            return self.row(step)[entities]
        ids = entities.cpu().numpy()
        return self._logs(self._pairs(_own(step), ids, ids))

    def pairs(self, step: Difference, sources: Tensor, targets: Tensor) -> Tensor:
        """The value of a comparison of each source with its target, `[B]`."""
        return self._logs(self._pairs(step, sources.cpu().numpy(), targets.cpu().numpy()))

    def rows(self, step: Difference, sources: Tensor) -> Tensor:
        """The value of a comparison of each source with every entity, `[B, N]`."""
        ids = sources.cpu().numpy()
        out = np.zeros((len(ids), self.known.num_entities), dtype=np.float32)
        out[self.known.differing(*step.compared, ids)] = 1.0
        if self.predictor is None or step.low > step.high:
            return self._logs(out)
        known = self.known.known(step.left)[ids]
        missing = ~self.known.known(step.right)
        near = self.known.ranges(step.left, -step.high, -step.low)
        right = self._id(step.right)
        for row in known.nonzero()[0]:
            _, places = spread(*_span(near, ids[row : row + 1]))
            for low, high in zip(near[1][places], near[2][places], strict=True):
                out[row, missing] += _numbers(self.predictor.probability(right, low, high))[missing]
        rows = (~known).nonzero()[0]
        if len(rows):
            out[rows] = self._rows_from_missing(step, ids[rows], missing)
        return self._logs(out)

    def predicted(self, attribute: str, entity: int) -> PredictedValue | None:
        """The predicted value of an entity; None where nothing is predicted."""
        if self.predictor is None:
            return None
        return self.predictor.predicted(self._id(attribute), entity)

    def _rows_from_missing(self, step: Difference, ids: Integers, missing: Flags) -> Scores:
        """The values of a comparison of sources without a known value with every entity."""
        assert self.predictor is not None
        left, right = self._id(step.left), self._id(step.right)
        low, high = step.low, step.high
        predicted = self.predictor.difference(left, right, self._ids(ids), low, high)
        out = _numbers(predicted) * missing
        entities, lows, highs = self.known.ranges(step.right, low, high)
        if len(entities):
            size = max(1, _PAIRS // len(entities))
            for start in range(0, len(ids), size):
                few = ids[start : start + size]
                found = self._within(
                    left,
                    few.repeat(len(entities)),
                    np.tile(lows, len(few)),
                    np.tile(highs, len(few)),
                )
                np.add.at(out[start : start + size].T, entities, found.reshape(len(few), -1).T)
        return out

    def _pairs(self, step: Difference, sources: Integers, targets: Integers) -> Scores:
        """The probability that each pair satisfies a comparison."""
        out = self.known.differ(*step.compared, sources, targets).astype(np.float32)
        if self.predictor is None or step.low > step.high or not len(out):
            return out
        left, right = self._id(step.left), self._id(step.right)
        knows_left = self.known.known(step.left)[sources]
        knows_right = self.known.known(step.right)[targets]
        near = self.known.ranges(step.left, -step.high, -step.low)
        self._add_within(out, knows_left & ~knows_right, near, sources, right, targets)
        near = self.known.ranges(step.right, step.low, step.high)
        self._add_within(out, knows_right & ~knows_left, near, targets, left, sources)
        rows = (~knows_left & ~knows_right).nonzero()[0]
        if len(rows):
            ends = self._ids(sources[rows]), self._ids(targets[rows])
            found = self.predictor.difference_of(left, right, *ends, step.low, step.high)
            out[rows] = _numbers(found)
        return out

    def _add_within(
        self,
        out: Scores,
        mask: Flags,
        near: Ranges,
        known: Integers,
        attribute: int,
        others: Integers,
    ) -> None:
        """Add the probabilities that missing values of `others` are in ranges around known ones."""
        rows = mask.nonzero()[0]
        at, places = spread(*_span(near, known[rows]))
        if len(at):
            found = self._within(attribute, others[rows[at]], near[1][places], near[2][places])
            np.add.at(out, rows[at], found)

    def _within(self, attribute: int, entities: Integers, lows: Floats, highs: Floats) -> Scores:
        """The probability that each entity has a value in a range of its own."""
        assert self.predictor is not None
        low, high = (torch.from_numpy(end.copy()).to(self.device) for end in (lows, highs))
        ids = self._ids(entities)
        return _numbers(self.predictor.probability_of(attribute, ids, low, high))

    def _ids(self, entities: Integers) -> Tensor:
        return torch.from_numpy(entities.copy()).long().to(self.device)

    def _id(self, attribute: str) -> int:
        return self.known.attributes.names.id(attribute)

    def _logs(self, probabilities: Scores) -> Tensor:
        with np.errstate(divide="ignore"):
            logs = np.log(probabilities.clip(0.0, 1.0))
        return torch.from_numpy(logs).to(self.device)


def _own(step: Within) -> Difference:
    """The difference of an entity's own two values."""
    return Difference(step.attribute, step.minus, step.low, step.high)


def _span(ranges: Ranges, entities: Integers) -> tuple[Ints, Ints]:
    """Where the ranges of each entity start and end."""
    starts, ends = (np.searchsorted(ranges[0], each) for each in (entities, entities + 1))
    return starts, ends


def _numbers(tensor: Tensor) -> Scores:
    numbers: Scores = tensor.detach().cpu().float().numpy()
    return numbers
