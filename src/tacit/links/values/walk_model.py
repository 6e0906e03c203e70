"""Estimates of a value, one for each walk that finds something, and their weighted mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.graph.fact_index import Floats, Ints
from tacit.links.values.boosting import Matrix
from tacit.links.values.walks import WalkRows

MOST_WALKS = 200
_LEAST_EXAMPLES = 8  # entities with a value from which a walk must start
_STEEPEST = 1.2  # slope of a walk that reads the target itself
_RIDGE = 5.0  # examples that a slope is drawn to its prior by
_POWER = 6  # of an estimate's error, by which it loses weight
_COARSE = 0.35  # of logarithms of errors
_BEST = 6  # estimates that are features of their own


@dataclass(frozen=True)
class Estimates:
    """What the walks say of some entities."""

    values: Floats  # [n, P], NaN where a walk finds nothing
    errors: Floats  # [n, P], inf there
    weights: Floats  # [n, P], 0 there
    means: Floats  # [n]


@dataclass(frozen=True)
class WalkModel:
    """The walks that tell most of an attribute, each with a line from what it finds to the value.

    The mean weighs an estimate by its error on the training values and by how much the values that
    it is the mean of differ.
    """

    codes: Ints  # [P], rising
    slopes: Floats
    intercepts: Floats
    errors: Floats  # mean absolute ones
    median: float
    low: float
    high: float

    @classmethod
    def fit(cls, rows: WalkRows, targets: Floats, target: int, base: int) -> WalkModel:
        """Fits a line to each walk, and selects walks by how much of the error they take away.

        `targets` has the value of every entity, NaN where it is not to be learned from.
        """
        known = np.flatnonzero(np.isfinite(targets[rows.entities]))
        present = targets[np.isfinite(targets)]
        median = float(np.median(present))
        around = float(np.abs(present - median).mean())
        walks, x = rows.walks[known], rows.means[known]
        y = targets[rows.entities[known]] - median
        codes, firsts = np.unique(walks, return_index=True)
        if not len(codes):
            none = np.zeros(0)
            return cls(codes, none, none, none, median, present.min(), present.max())
        counts = np.diff(np.append(firsts, len(walks)))
        of = np.repeat(np.arange(len(codes)), counts)

        def sums(column: Floats) -> Floats:
            return np.asarray(np.add.reduceat(column, firsts))

        mean_x, mean_y = sums(x) / counts, sums(y) / counts
        across = sums((x - mean_x[of]) ** 2)
        along = sums((x - mean_x[of]) * (y - mean_y[of]))
        same = codes // base**2 == target
        ridge = _RIDGE * across / counts + 1e-12
        slopes = (along + ridge * same) / (across + ridge)
        # a mean that leaves its own entity out falls as that entity's value rises
        slopes = np.where(same, np.clip(slopes, 0.0, _STEEPEST), slopes)
        intercepts = mean_y - slopes * mean_x
        errors = sums(np.abs(y - intercepts[of] - slopes[of] * x))
        gains = sums(np.abs(y)) - errors - 2 * around
        errors = (errors + 2 * around) / (counts + 2) * (1 + 2 / np.sqrt(counts))
        useful = np.flatnonzero((counts >= _LEAST_EXAMPLES) & (gains > 0) & (slopes != 0))
        best = np.sort(useful[np.argsort(-gains[useful], kind="stable")[:MOST_WALKS]])
        return cls(
            codes[best],
            slopes[best],
            intercepts[best] + median,
            np.maximum(errors[best], 1e-9 * (1 + around)),
            median,
            float(present.min()),
            float(present.max()),
        )

    def estimates(self, rows: WalkRows, entities: Ints) -> Estimates:
        """The estimates for some rising entities, from what the walks find from them."""
        values = np.full((len(entities), len(self.codes)), np.nan)
        errors = np.full_like(values, np.inf)
        if len(self.codes) and len(rows):
            column = np.minimum(np.searchsorted(self.codes, rows.walks), len(self.codes) - 1)
            row = np.minimum(np.searchsorted(entities, rows.entities), len(entities) - 1)
            found = (self.codes[column] == rows.walks) & (entities[row] == rows.entities)
            column, row = column[found], row[found]
            estimate = self.intercepts[column] + self.slopes[column] * rows.means[found]
            values[row, column] = np.clip(estimate, self.low, self.high)
            variance = self.errors[column] ** 2
            variance += (self.slopes[column] * rows.spreads[found]) ** 2 / 2
            errors[row, column] = np.sqrt(variance)
        least = errors.min(1, keepdims=True, initial=np.inf)
        weights = (np.where(np.isfinite(least), least, 1.0) / errors) ** _POWER
        total = weights.sum(1, keepdims=True)
        weights /= np.where(total > 0, total, 1.0)
        means = np.where(total[:, 0] > 0, (weights * np.nan_to_num(values)).sum(1), self.median)
        return Estimates(values, errors, weights, means)

    def features(self, estimates: Estimates) -> Matrix:
        """Features `[n, F]`: the mean, the best estimates beside it, their errors, and all.

        They are rounded to half of their error: exact means that leave an entity out tell its value
        to who knows the mean of all.
        """
        values, means = estimates.values, estimates.means[:, None]
        best = np.argsort(estimates.errors, axis=1, kind="stable")[:, :_BEST]
        errors = np.take_along_axis(estimates.errors, best, 1)
        beside = np.take_along_axis(values, best, 1) - means
        missing = np.isnan(values)
        apart = np.where(missing, 0.0, np.abs(values - means)) * estimates.weights
        number = (~missing).sum(1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            columns = (
                _rounded(means, self.errors.min(initial=np.inf) / 2),
                np.log2(1 + number).round(),
                _rounded(np.log(apart.sum(1, keepdims=True)), _COARSE),
                _rounded(beside, errors / 2),
                _rounded(np.log(errors), _COARSE),
                _rounded(values, self.errors / 2),
            )
        found = np.concatenate(columns, axis=1).astype(np.float32)
        found[~np.isfinite(found)] = np.nan
        return found


def _rounded(values: Floats, step: Any) -> Floats:
    """Values to the nearest multiple of a step."""
    rounded: Floats = np.round(values / step) * step
    return rounded
