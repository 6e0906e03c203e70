"""The model of one attribute in one scale: its values, and by how much they may be missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.graph.fact_index import Floats, Ints
from tacit.links.values.boosting import BoostedTrees, Matrix
from tacit.links.values.walk_model import WalkModel
from tacit.links.values.walks import ValueWalks, WalkRows

FOLDS = 5
_EXAMPLES_PER_ROUND = 8
_ROUNDS = 20, 120  # of boosting, at least and at most


@dataclass(frozen=True)
class LocationModel:
    """The weighted mean of what the walks find, corrected by trees."""

    walks: WalkModel
    trees: BoostedTrees

    def predict(self, rows: WalkRows, entities: Ints) -> tuple[Floats, Matrix]:
        """The values of rising entities, `[n]`, and the features that they were made of."""
        estimates = self.walks.estimates(rows, entities)
        features = self.walks.features(estimates)
        located = estimates.means + self.trees.predict(features)
        return np.clip(located, self.walks.low, self.walks.high), features


@dataclass(frozen=True)
class SpreadModel:
    """The size of the error to expect, by trees over its logarithm."""

    trees: BoostedTrees
    level: float

    def predict(self, features: Matrix) -> Floats:
        """The spreads, `[n]`."""
        return np.exp(self.level + self.trees.predict(features))


@dataclass(frozen=True)
class Examples:
    """Entities with values to learn one attribute from."""

    walks: ValueWalks
    known: Ints  # rising
    rows: WalkRows  # of the known ones
    generator: np.random.Generator

    @property
    def targets(self) -> Floats:
        """The values, `[n]`."""
        return self.walks.own[self.known]

    @property
    def rounds(self) -> int:
        """How many trees to fit."""
        return int(np.clip(len(self.known) // _EXAMPLES_PER_ROUND, *_ROUNDS))

    def folds(self) -> Ints:
        """The fold of each example."""
        return self.generator.permutation(len(self.known)) % FOLDS

    def fit_location(self, part: Ints) -> LocationModel:
        """A model of some of the examples."""
        own = np.full(self.walks.num_entities, np.nan)
        own[self.known[part]] = self.targets[part]
        model = WalkModel.fit(self.rows, own, self.walks.target, self.walks.base)
        estimates = model.estimates(self.rows, self.known)
        rest = (self.targets - estimates.means)[part]
        features = model.features(estimates)[part]
        trees = BoostedTrees.fit(features, rest, rounds=self.rounds, generator=self.generator)
        return LocationModel(model, trees)

    def fit_spread(self, features: Matrix, errors: Floats) -> SpreadModel:
        """A model of the size of held-out errors."""
        least = 0.05 * np.abs(errors).mean() + 1e-9 * (1 + np.abs(self.targets).mean())
        sizes = np.log(np.abs(errors) + least)
        level = float(sizes.mean())
        trees = BoostedTrees.fit(
            features,
            sizes - level,
            rounds=self.rounds // 2,
            generator=self.generator,
            absolute=False,
            share=0.3,
        )
        return SpreadModel(trees, level)

    def held_out(self, features: Matrix) -> tuple[Floats, Floats]:
        """Values and spreads of each example by models of the other folds."""
        values, spreads = np.empty(len(self.known)), np.empty(len(self.known))
        folds = self.folds()
        for fold in range(FOLDS):
            out = folds == fold
            values[out] = self.fit_location(np.flatnonzero(~out)).predict(self.rows, self.known)[0][
                out
            ]
        errors = self.targets - values
        for fold in range(FOLDS):
            out = folds == fold
            spreads[out] = self.fit_spread(features[~out], errors[~out]).predict(features[out])
        return values, spreads


@dataclass(frozen=True)
class ValueModel:
    """What predicts an attribute, and how it erred on values that it did not learn from."""

    location: LocationModel
    spread: SpreadModel
    known: Ints  # what it learned from
    held_out: Floats  # what models without each of them say

    errors: Floats  # held-out ones in units of their spreads
    medians: Floats  # held-out ones
    true: Floats  # what they should be

    @classmethod
    def fit(cls, examples: Examples, later: Ints, later_values: Floats) -> ValueModel:
        """Fits a model, and measures it on the examples held out in turn and on later values."""
        location = examples.fit_location(np.arange(len(examples.known)))
        _, features = location.predict(examples.rows, examples.known)
        values, spreads = examples.held_out(features)
        spread = examples.fit_spread(features, examples.targets - values)
        rows = examples.walks.rows(later)
        later_located, later_features = location.predict(rows, later)
        located = np.concatenate([values, later_located])
        widths = np.concatenate([spreads, spread.predict(later_features)])
        true = np.concatenate([examples.targets, later_values])
        errors = (true - located) / widths
        medians = located + widths * np.median(errors)
        medians = np.clip(medians, location.walks.low, location.walks.high)
        return cls(location, spread, examples.known, values, errors, medians, true)

    def predict(self, rows: WalkRows, entities: Ints) -> tuple[Floats, Floats]:
        """The values and spreads of rising entities."""
        values, features = self.location.predict(rows, entities)
        return values, self.spread.predict(features)
