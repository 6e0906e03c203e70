"""The distribution of one attribute's value at every entity, from held-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.graph.fact_index import Floats
from tacit.links.values.boosting import Matrix

KNOTS = 513  # of the distribution of errors, at most
_LARGEST = 709.0  # logarithm of a number
_LEVELS = 24  # equally probable values that stand for a distribution in a difference


def to_scale(values: Any, logarithmic: bool) -> Floats:
    """Values as they are learned: themselves, or the logarithm of their size with their sign."""
    plain: Floats = np.asarray(values, dtype=float)
    scaled: Floats = np.sign(plain) * np.log1p(np.abs(plain))
    return scaled if logarithmic else plain


def from_scale(values: Any, logarithmic: bool) -> Floats:
    """The values that `to_scale` made."""
    scaled: Floats = np.asarray(values, dtype=float)
    if not logarithmic:
        return scaled
    plain: Floats = np.sign(scaled) * np.expm1(np.minimum(np.abs(scaled), _LARGEST))
    return plain


@dataclass(frozen=True)
class Errors:
    """Held-out errors in units of their predicted spread, as knots of their distribution.

    Of `n` errors the `i`th in order has the probability `i / (n + 1)`, as in conformal prediction;
    beyond the first and the last it falls off exponentially.
    """

    knots: Floats  # rising
    chances: Floats  # of an error up to each knot, between 0 and 1

    @classmethod
    def of(cls, errors: Floats) -> Errors:
        """The distribution of some errors."""
        places = np.unique(np.linspace(1, len(errors), min(KNOTS, len(errors))).round())
        knots = np.sort(errors)[places.astype(int) - 1]
        return cls(knots, places / (len(errors) + 1))

    def chance(self, errors: Floats) -> Floats:
        """The probability of an error up to each of some."""
        scale = max(float(np.abs(self.knots).mean()), 1e-9)
        order = np.argsort(errors, axis=None)  # in order, they are found several times faster
        ordered = np.ravel(errors)[order]
        found = np.interp(ordered, self.knots, self.chances)
        below = np.searchsorted(ordered, self.knots[0])
        above = np.searchsorted(ordered, self.knots[-1], "right")
        found[:below] *= np.exp((ordered[:below] - self.knots[0]) / scale)
        rest = 1.0 - self.chances[-1]
        found[above:] = 1.0 - rest * np.exp((self.knots[-1] - ordered[above:]) / scale)
        chances = np.empty(len(order))
        chances[order] = found
        return chances.reshape(np.shape(errors))

    def quantile(self, chances: Any) -> Floats:
        """The errors of some probabilities, no further out than any that was seen."""
        errors: Floats = np.interp(chances, self.chances, self.knots)
        return errors


@dataclass(frozen=True)
class ValueDistribution:
    """Where the value of an attribute lies at every entity: a location, a spread and errors."""

    locations: Matrix  # [N], in the scale that was learned in
    spreads: Matrix  # [N]
    presence: Matrix  # [N], probabilities of a value
    errors: Errors
    logarithmic: bool
    whole: bool  # all values are whole numbers
    least: float  # no value is below: 0 where none is negative

    def within(self, entities: Any, low: Any, high: Any) -> Floats:
        """The probability that each entity has a value from `low` to `high`."""
        if self.whole:  # a whole number stands for all that are rounded to it
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        low = np.where(np.asarray(low) <= self.least, -np.inf, low)
        share = self._up_to(entities, high) - self._up_to(entities, low)
        possible = np.asarray(high) >= self.least
        chances: Floats = self.presence[entities] * np.where(possible, np.maximum(share, 0.0), 0.0)
        return chances

    def _up_to(self, entities: Any, values: Any) -> Floats:
        if np.ndim(values) == 0 and np.isinf(values):  # most ranges have one end
            return np.asarray(values > 0, dtype=float)
        with np.errstate(invalid="ignore"):
            errors = to_scale(values, self.logarithmic) - self.locations[entities]
        return self.errors.chance(errors / self.spreads[entities])

    def quantiles(self, entities: Any, chances: Sequence[float] | Floats) -> Floats:
        """The values of some probabilities, if there is one, `[..., Q]`."""
        at = self.errors.quantile(np.asarray(chances))
        locations = np.asarray(self.locations[entities], dtype=float)[..., None]
        spreads = np.asarray(self.spreads[entities], dtype=float)[..., None]
        found = from_scale(locations + spreads * at, self.logarithmic)
        return np.maximum(found, self.least)

    def relative_widths(self, entities: Any, level: float) -> Floats:
        """The widths of intervals beside that of the values of all entities, in its scale."""
        low, high = self.errors.quantile([(1 - level) / 2, (1 + level) / 2])
        usual = np.subtract(*np.quantile(self.locations, [0.9, 0.1]))
        widths: Floats = (high - low) * self.spreads[entities] / max(float(usual), 1e-9)
        return widths

    def levels(self, entities: Any) -> Floats:
        """Equally probable values of each entity, `[..., Q]`."""
        return self.quantiles(entities, (np.arange(_LEVELS) + 0.5) / _LEVELS)


def differing(
    left: ValueDistribution,
    right: ValueDistribution,
    sources: Any,
    targets: Any,
    low: float,
    high: float,
) -> Floats:
    """The probability that two values are there and differ by a range, for broadcastable ids.

    Both are taken as independent. Either is replaced by equally probable values in turn, and the
    mean of both is the same however the difference is turned around.
    """
    ends = right.levels(targets)
    starts = left.levels(sources)
    one = left.within(np.asarray(sources)[..., None], ends + low, ends + high).mean(-1)
    two = right.within(np.asarray(targets)[..., None], starts - high, starts - low).mean(-1)
    chances: Floats = (one * right.presence[targets] + two * left.presence[sources]) / 2
    return chances
