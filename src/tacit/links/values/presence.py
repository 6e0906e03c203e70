"""Which entities have a value of an attribute at all, by the relations of their facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.graph.fact_index import FactIndex, Floats, Ids, Ints
from tacit.links.values.boosting import Matrix

_MOST_RELATIONS = 400  # the most frequent ones
_MOST_ENTITIES = 20_000  # to learn from
_RIDGE = 3.0
_STEPS = 25


class RelationProfiles:
    """Which directed relations each entity has facts of, as features of a linear model."""

    def __init__(
        self,
        index: FactIndex,
        num_entities: int,
        generator: np.random.Generator,
    ) -> None:
        self.num_entities = num_entities
        heads, relations = index.heads, index.relations
        num_relations = index.num_relations
        frequency = np.bincount(relations, minlength=num_relations)
        frequent = np.argsort(-frequency, kind="stable")[:_MOST_RELATIONS]
        column = np.full(num_relations, -1)
        column[frequent] = np.arange(len(frequent))
        taken = column[relations] >= 0
        self.width = len(frequent)
        self.heads, self.columns = heads[taken], column[relations[taken]]
        self.starts = np.searchsorted(self.heads, np.arange(num_entities + 1))
        order = generator.permutation(num_entities)[:_MOST_ENTITIES]
        self.halves = [np.sort(half) for half in (order[0::2], order[1::2])]
        features = [self.features(half) for half in self.halves]
        self.products = [one.T @ one for one in features]

    def features(self, entities: Ints) -> Matrix:
        """A constant, and whether there is a fact of each relation, `[n, 1 + R]`."""
        counts = self.starts[entities + 1] - self.starts[entities]
        rows = np.repeat(np.arange(len(entities)), counts)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = np.zeros((len(entities), 1 + self.width), dtype=np.float32)
        found[:, 0] = 1.0
        found[rows, 1 + self.columns[np.repeat(self.starts[entities], counts) + places]] = 1.0
        return found

    def presence(self, holders: Ids) -> Matrix:
        """The probability that each entity has a value, where `holders` are known to, `[N]`.

        Entities with unknown values look like those without one: the share of holders that the
        model recognises, each by a model of the other half, says how many it misses.
        """
        has = np.zeros(self.num_entities, dtype=np.float32)
        has[holders] = 1.0
        models = [self._linear(range(2), has), *(self._linear([1 - half], has) for half in (0, 1))]
        scores = np.concatenate(
            [self.features(half) @ models[1 + at] for at, half in enumerate(self.halves)]
        ).astype(float)
        labels = np.concatenate([has[half] for half in self.halves]).astype(float)
        if not 0 < labels.sum() < len(labels):  # all have one, or none
            return np.full(
                self.num_entities, labels.mean() if len(labels) else 0.0, dtype=np.float32
            )
        slope, offset = _logistic(scores, labels)
        recognised = float(_sigmoid(slope * scores + offset)[labels == 1].mean())
        found = np.empty(self.num_entities, dtype=np.float32)
        for start in range(0, self.num_entities, _MOST_ENTITIES):
            block = np.arange(start, min(start + _MOST_ENTITIES, self.num_entities))
            found[block] = _sigmoid(slope * (self.features(block) @ models[0]) + offset)
        presence: Matrix = np.minimum(found / np.float32(recognised), np.float32(1.0))
        return presence

    def _linear(self, halves: Sequence[int], has: Matrix) -> Matrix:
        """The weights of a ridge regression on some halves."""
        product = np.sum([self.products[half] for half in halves], axis=0)
        right = np.sum(
            [self.features(self.halves[half]).T @ has[self.halves[half]] for half in halves], axis=0
        )
        ridge = _RIDGE * np.eye(1 + self.width)
        return np.linalg.solve(product + ridge, right).astype(np.float32)


def _logistic(scores: Floats, labels: Floats) -> tuple[float, float]:
    """The slope and offset by which scores become probabilities, with targets as Platt's."""
    positive = labels.sum()
    negative = len(labels) - positive
    targets = np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
    features = np.stack([scores, np.ones_like(scores)])
    weights = np.array([4.0, np.log(positive / negative) - 4.0 * scores.mean()])
    for _ in range(_STEPS):
        chance = _sigmoid(weights @ features)
        slopes = features * (chance * (1 - chance))
        hessian = slopes @ features.T + 1e-6 * np.eye(2)
        weights = weights - np.clip(
            np.linalg.solve(hessian, features @ (chance - targets)), -4.0, 4.0
        )
    return float(max(weights[0], 0.0)), float(weights[1])


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0)))
