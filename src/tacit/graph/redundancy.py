"""Relations that repeat one another: the same pairs of entities under another name, or the other way round."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import paired
from tacit.graph.graph import Graph, Triples

LOOKED_AT = 100_000  # facts by which one relation is taken to be symmetric
ENOUGH = 0.8  # of the facts of each relation, as Toutanova and Chen (2015) counted the redundancy of FB15k


def redundancies(graph: Graph) -> dict[tuple[int, int], float]:
    """The pairs of relations of which each has nearly all of the other's facts, and the smaller share that one has.

    The first relation of a pair is forward, and the other odd where it holds the other way round: a relation that is
    its own inverse, a symmetric one, is among them as `(2i, 2i + 1)`.
    """
    triples = graph.triples()
    triples = triples[triples[:, 0] != triples[:, 2]]
    keys = triples[:, 0].astype(np.int64) * graph.num_entities + triples[:, 2]
    size = max(graph.num_relations, 1)
    pairs, relations = np.divmod(np.unique(paired(keys, triples[:, 1], size)), size)
    sizes = np.bincount(relations, minlength=graph.num_relations)
    shared: Counter[tuple[int, int]] = Counter()
    # Rows of one entity pair lie side by side: compare each with the next, then the one after it, until none is left.
    at, step = np.arange(len(pairs)), 1
    while len(at):
        at = at[at + step < len(pairs)]
        at = at[pairs[at] == pairs[at + step]]
        both, counts = np.unique(relations[at] * size + relations[at + step], return_counts=True)
        for key, count in zip(both.tolist(), counts.tolist(), strict=True):
            shared[divmod(key, size)] += count
        step += 1
    overlaps = {pair: count / int(sizes[list(pair)].max()) for pair, count in shared.items()}
    return {pair: overlaps[pair] for pair in sorted(overlaps) if pair[0] % 2 == 0 and overlaps[pair] >= ENOUGH}


def symmetry(graph: Graph, facts: Triples) -> NDArray[np.float64]:
    """For each relation id, the share of some facts between two entities that hold the other way round too.

    A relation is symmetric where that is at least `ENOUGH`.

    >>> graph = Graph.of([("France", "borders", "Spain"), ("Spain", "borders", "France"), ("Paris", "in", "France")])
    >>> symmetry(graph, graph.train)[[0, 2]]
    array([1., 0.])
    """
    facts = facts[facts[:, 0] != facts[:, 2]]
    mirrored = graph.index().contains(facts[:, 2], facts[:, 1], facts[:, 0])
    hits = np.bincount(facts[:, 1], weights=mirrored, minlength=graph.num_relations)
    share: NDArray[np.float64] = hits / np.maximum(np.bincount(facts[:, 1], minlength=graph.num_relations), 1)
    return share


def is_symmetric(graph: Graph, relation: int) -> bool:
    """Whether nearly all facts of a relation hold both ways; of very many facts, some that lie evenly are looked at."""
    facts = graph.facts_by(relation)
    sample = facts[:: 1 + len(facts) // LOOKED_AT]
    return bool(symmetry(graph, sample)[relation & ~1] >= ENOUGH)
