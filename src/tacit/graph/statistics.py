"""What there is to know about a graph before training on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacit.graph.graph import SPLITS, Graph
from tacit.graph.redundancy import ENOUGH, redundancies, symmetry
from tacit.graph.values import ValueRelation, values

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
