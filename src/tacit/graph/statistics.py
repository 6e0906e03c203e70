"""What there is to know about a graph before training on it, and which of its relations repeat one another."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import paired
from tacit.graph.graph import SPLITS, Graph, Triples
from tacit.graph.values import ValueRelation, values

LOOKED_AT = 100_000  # facts by which one relation is taken to be symmetric
ENOUGH = 0.8  # of the facts of each relation, as Toutanova and Chen (2015) counted the redundancy of FB15k
PERCENTILES = (0, 25, 50, 75, 90, 99, 100)


@dataclass(frozen=True)
class RelationStatistics:
    """One relation: its facts in each split, and how many tails a head has, and heads a tail."""

    name: str
    facts: dict[str, int]
    heads: int
    tails: int
    tails_per_head: float
    heads_per_tail: float
    symmetry: float  # share of the facts that hold the other way round too
    repeats: tuple[str, ...]  # relations with nearly the same facts, inverses under their inverse label
    symmetric: bool  # whether nearly all facts hold both ways


@dataclass(frozen=True)
class Statistics:
    """The counts of a graph; degrees count the facts of an entity, all splits and both directions."""

    name: str
    num_entities: int
    num_relations: int
    facts: dict[str, int]
    evaluable: dict[str, int]  # facts whose entities and relation all occur in train
    degrees: dict[str, float]
    hubs: tuple[tuple[str, int], ...]
    relations: tuple[RelationStatistics, ...]  # the most frequent first
    values: tuple[ValueRelation, ...]  # the relations that have numbers or dates for entities
    notes: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, hubs: int = 10) -> Statistics:
        """The statistics of a graph, with its largest hubs."""
        facts = graph.facts()
        degrees = np.bincount(facts[:, [0, 2]].ravel(), minlength=graph.num_entities)
        spread = np.percentile(degrees, PERCENTILES) if len(degrees) else np.zeros(len(PERCENTILES))
        largest = np.argsort(-degrees, kind="stable")[:hubs].tolist()
        return cls(
            graph.name,
            graph.num_entities,
            graph.num_relations // 2,
            {split: len(graph.split(split)) for split in SPLITS},
            {split: len(graph.evaluable(split)) for split in SPLITS},
            {f"p{p}": float(value) for p, value in zip(PERCENTILES, spread, strict=True)},
            tuple((graph.entities[i], int(degrees[i])) for i in largest if degrees[i]),
            _relations(graph),
            values(graph),
            graph.notes,
        )

    def to_json(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers."""
        return asdict(self)


def _relations(graph: Graph) -> tuple[RelationStatistics, ...]:
    counts = {split: np.bincount(graph.split(split)[:, 1], minlength=graph.num_relations) for split in SPLITS}
    total = np.sum(list(counts.values()), axis=0)
    index = graph.index()
    keys = np.bincount(index.relations, minlength=graph.num_relations)  # distinct heads of each directed relation
    both = symmetry(graph, graph.facts())
    repeats: dict[int, list[str]] = {}
    for relation, other in redundancies(graph):
        if relation != other & ~1:
            repeats.setdefault(relation, []).append(graph.relations[other])
            repeats.setdefault(other & ~1, []).append(graph.relations[relation ^ (other & 1)])
    order = sorted(range(0, graph.num_relations, 2), key=lambda r: (-total[r], r))
    return tuple(
        RelationStatistics(
            graph.relations[r],
            {split: int(counts[split][r]) for split in SPLITS},
            int(keys[r]),
            int(keys[r + 1]),
            float(total[r] / max(keys[r], 1)),
            float(total[r] / max(keys[r + 1], 1)),
            float(both[r]),
            tuple(dict.fromkeys(repeats.get(r, ()))),
            bool(both[r] >= ENOUGH),
        )
        for r in order
    )


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
