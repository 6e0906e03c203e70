"""Gradient-boosted regression trees over binned features, in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Floats, Ints

Matrix = NDArray[np.float32]
Bins = NDArray[np.uint8]
BINS = 48  # of present values; bin 0 is for missing ones
_DEPTH = 4
_LEAST = 8  # examples in a leaf
_SHRINKAGE = 4.0  # examples without an effect that each leaf is averaged with


@dataclass(frozen=True)
class Binning:
    """The limits of the bins of each feature, `[F, BINS - 1]`; nothing is above infinite ones."""

    limits: Matrix

    @classmethod
    def of(cls, features: Matrix) -> Binning:
        """Bins of about equally many examples, `[n, F]`; NaN is missing."""
        levels = np.linspace(0, 1, BINS + 1)[1:-1]
        limits = np.full((features.shape[1], BINS - 1), np.inf, dtype=np.float32)
        for feature, column in enumerate(features.T):
            present = column[np.isfinite(column)]
            if len(present):
                risen = np.quantile(present, levels).astype(np.float32)
                distinct = risen[np.diff(risen, prepend=-np.inf) > 0]
                limits[feature, : len(distinct)] = distinct
        return cls(limits)

    def bins(self, features: Matrix) -> Bins:
        """The bin of each feature of each example, `[n, F]`."""
        found = np.zeros(features.shape, dtype=np.uint8)
        for feature, column in enumerate(features.T):
            places = np.searchsorted(self.limits[feature], column, side="left") + 1
            found[:, feature] = np.where(np.isfinite(column), places, 0)
        return found


@dataclass(frozen=True)
class Tree:
    """A complete binary tree of `_DEPTH` levels, and the value of each leaf."""

    features: Ints  # [2 ** _DEPTH - 1]
    bins: Ints  # up to which an example goes left
    values: Floats  # [2 ** _DEPTH]

    def leaves(self, bins: Bins) -> Ints:
        """The leaf of each example."""
        node = np.zeros(len(bins), dtype=np.int64)
        rows = np.arange(len(bins))
        for _ in range(_DEPTH):
            right = bins[rows, self.features[node]] > self.bins[node]
            node = 2 * node + 1 + right
        node -= 2**_DEPTH - 1
        return node


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of trees over binned features."""

    binning: Binning
    trees: tuple[Tree, ...]

    @classmethod
    def fit(
        cls,
        features: Matrix,
        targets: Floats,
        *,
        rounds: int,
        generator: np.random.Generator,
        absolute: bool = True,
        rate: float = 0.08,
        share: float = 0.25,
    ) -> BoostedTrees:
        """Fits trees to the absolute or the squared error, each over a `share` of the features.

        A tree follows the gradient of the loss; its leaves hold medians, or means, of what is left.
        """
        binning = Binning.of(features)
        bins = binning.bins(features)
        varying = np.flatnonzero(bins.min(0) < bins.max(0)) if len(bins) else np.zeros(0, int)
        trees = []
        rest = targets.copy()
        drawn = max(1, min(len(varying), max(8, round(share * len(varying)))))
        for _ in range(rounds if len(varying) else 0):
            columns = np.sort(generator.choice(varying, drawn, replace=False))
            # of Huber's loss: signs alone would not tell large errors from vanishing ones
            limit = np.median(np.abs(rest)) if absolute else np.inf
            gradient = np.clip(rest, -limit, limit)
            tree = _grow(bins, columns, gradient)
            leaves = tree.leaves(bins)
            values = rate * _leaf_values(leaves, rest, absolute)
            trees.append(Tree(tree.features, tree.bins, values))
            rest -= values[leaves]
        return cls(binning, tuple(trees))

    def predict(self, features: Matrix) -> Floats:
        """The sum of the trees for each example."""
        bins = self.binning.bins(features)
        total = np.zeros(len(bins))
        for tree in self.trees:
            total += tree.values[tree.leaves(bins)]
        return total


def _grow(bins: Bins, columns: Ints, gradient: Floats) -> Tree:
    """The splits that reduce the squared error of the gradient most, level by level."""
    width = BINS + 1
    chosen = bins[:, columns] + (np.arange(len(columns)) * width).astype(np.int32)
    repeated = np.repeat(gradient, len(columns))
    node = np.zeros(len(bins), dtype=np.int64)
    rows = np.arange(len(bins))
    features, limits = [], []
    for level in range(_DEPTH):
        shape = 2**level, len(columns), width
        keys = (chosen + (node * len(columns) * width).astype(np.int32)[:, None]).ravel()
        size = int(np.prod(shape))
        sums = np.bincount(keys, repeated, size).reshape(shape).cumsum(2)
        counts = np.bincount(keys, minlength=size).reshape(shape).cumsum(2)
        total, number = sums[..., -1:], counts[..., -1:]
        left = sums**2 / (counts + 1.0)
        right = (total - sums) ** 2 / (number - counts + 1.0)
        allowed = (counts >= _LEAST) & (number - counts >= _LEAST)
        gains = np.where(allowed, left + right - total**2 / (number + 1.0), 0.0)
        gains = gains.reshape(2**level, -1)
        best = gains.argmax(1)
        split = gains[np.arange(2**level), best] > 0
        place = best // width
        # without a gain all go left
        limit = np.where(split, best % width, width)
        features.append(columns[place])
        limits.append(limit)
        node = 2 * node + (bins[rows, columns[place][node]] > limit[node])
    return Tree(np.concatenate(features), np.concatenate(limits), np.zeros(2**_DEPTH))


def _leaf_values(leaves: Ints, rest: Floats, absolute: bool) -> Floats:
    """The median or mean of what is left in each leaf, drawn to 0 where examples are few."""
    order = np.lexsort([rest, leaves])
    counts = np.bincount(leaves, minlength=2**_DEPTH)
    starts = np.cumsum(counts) - counts
    if absolute:
        last = len(rest) - 1
        middles = (starts + (counts - 1) // 2, starts + counts // 2)
        values = sum(rest[order[np.clip(middle, 0, last)]] for middle in middles) / 2
    else:
        values = np.bincount(leaves, rest, 2**_DEPTH) / np.maximum(counts, 1)
    return np.where(counts > 0, values * counts / (counts + _SHRINKAGE), 0.0)
