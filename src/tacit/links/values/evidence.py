"""What carried a prediction: the known values it was made of, with their shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.graph.fact_index import Integers
from tacit.graph.graph import Graph
from tacit.links.values.fitted_values import FittedValues
from tacit.links.values.fitting import training_columns
from tacit.links.values.walks import ValueWalks, Walk


@dataclass(frozen=True)
class WalkEvidence:
    """Known values that a walk leads to, and their share of the weight in a prediction."""

    walk: Walk
    ends: tuple[int, ...]  # entities with such a value, a few of them
    number: int  # of all of them
    share: float


def find_evidence(
    graph: Graph, values: FittedValues, attribute: int, entity: int, most: int, examples: int
) -> list[WalkEvidence]:
    """The walks with the largest shares in a prediction, the largest first.

    Shares are those in the weighted mean, which trees correct. No walk may lead to a value.
    """
    fitted = values.fitted[attribute]
    if fitted is None:
        return []
    columns = training_columns(graph, attribute, fitted.distribution.logarithmic)
    index = graph.index("train")
    walks = ValueWalks(index, graph.num_entities, columns, attribute, around=entity)
    here = np.array([entity])
    shares = fitted.walks.estimates(walks.rows(here), here).weights[0]
    found = []
    for column in np.argsort(-shares, kind="stable")[:most].tolist():
        if shares[column] > 0:
            walk = walks.walk(int(fitted.walks.codes[column]))
            ends = _ends(graph, walk, entity)
            few = tuple(ends[:examples].tolist())
            found.append(WalkEvidence(walk, few, len(ends), float(shares[column])))
    return found


def _ends(graph: Graph, walk: Walk, entity: int) -> Integers:
    """The entities with a training value that a walk leads to, other than where it starts."""
    index = graph.index("train")
    ends: Integers = np.array([entity])
    for relation in walk.relations:
        ends = np.unique(index.neighbours(ends, np.full(len(ends), relation))[1])
        if len(walk.relations) == 1 or relation != walk.relations[0]:
            ends = ends[ends != entity]
    holders, _ = graph.attributes.column(walk.attribute, "train")
    return np.intersect1d(ends[ends != entity] if walk.relations else ends, holders)
