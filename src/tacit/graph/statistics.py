"""Statistics of a graph before training: sizes, redundant relations, and values.

Values are numbers and dates that stand where entities are expected: a link predictor sees a name in
each, and no size.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tacit.graph.fact_index import Floats, distinct, paired
from tacit.graph.graph import SPLITS, Graph, Triples, facts_by
from tacit.graph.value_statistics import AttributeStatistics, attribute_statistics

_SAMPLED = 100_000  # facts of a relation that are tested for symmetry
# share of the facts of relations that repeat each other, by Toutanova and Chen (2015) for FB15k
_REDUNDANT = 0.8
PERCENTILES = (0, 25, 50, 75, 90, 99, 100)

ADVICE = (
    "A link predictor learns nothing from the size of a number or date that is an entity. Name "
    "such relations by `attributes`, leave the facts out, or replace values by ranges that many "
    "facts share (1980s, 10-20)."
)
KINDS = ("numbers", "dates")
_FACTS_PER_VALUE = 10  # mean facts of a value that make it as informative as another entity
_MOSTLY = 0.5  # share of a relation's facts that end in values
_EXAMPLES = 3
_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)?(?:\.\d*)?(?:[eE][+-]?\d+)?%?")
_TIME = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:\d{2})?"
_DATE = re.compile(
    rf"-?\d{{4,}}-\d{{2}}(?:-\d{{2}}{_TIME})?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{4}/\d{1,2}/\d{1,2}"
)
_LITERAL = re.compile(r'"(.*)"(?:\^\^(.*))?', re.DOTALL)
# datatypes of XML Schema
_DATED = re.compile(r".*\b(?:date|dateTime|dateTimeStamp|gYear|gYearMonth)>?")


@dataclass(frozen=True)
class RelationStatistics:
    """A relation's facts per split, and its mean tails per head and heads per tail."""

    name: str
    facts: dict[str, int] = field(hash=False)
    heads: int
    tails: int
    tails_per_head: float
    heads_per_tail: float
    symmetry: float  # share of the facts that hold the other way round too
    # relations with nearly the same facts, inverses under their inverse label
    repeats: tuple[str, ...]
    symmetric: bool  # whether nearly all facts hold both ways


@dataclass(frozen=True)
class ValueRelation:
    """A relation most of whose facts begin or end in numbers or dates."""

    relation: str
    end: str  # head or tail
    kind: str
    facts: int
    distinct: int
    examples: tuple[str, ...]
    shared: bool  # whether a value has facts enough to be an entity like any other


@dataclass(frozen=True)
class Statistics:
    """The counts of a graph; the degree of an entity counts all splits and both directions."""

    name: str
    num_entities: int
    num_relations: int
    facts: dict[str, int] = field(hash=False)
    # facts whose entities and relation all occur in train
    evaluable: dict[str, int] = field(hash=False)
    degrees: dict[str, float] = field(hash=False)
    hubs: tuple[tuple[str, int], ...]
    relations: tuple[RelationStatistics, ...]  # the most frequent first
    values: tuple[ValueRelation, ...]  # the relations with numbers or dates as entities
    attributes: tuple[AttributeStatistics, ...]
    statements: int  # about facts
    dated: int  # of these, the statements that say when a fact holds
    sources: tuple[tuple[str, int], ...]  # with their statements, the most frequent first
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
            attribute_statistics(graph),
            len(graph.qualifiers),
            int(graph.qualifiers.dated.sum()),
            graph.qualifiers.source_counts(),
            graph.notes,
        )

    def to_json(self) -> dict[str, Any]:
        """The statistics as plain dicts, lists and numbers."""
        return asdict(self)


def _relations(graph: Graph) -> tuple[RelationStatistics, ...]:
    """The statistics of all relations, the most frequent first."""
    counts = {
        split: np.bincount(graph.split(split)[:, 1], minlength=graph.num_relations)
        for split in SPLITS
    }
    total = np.sum(list(counts.values()), axis=0)
    index = graph.index()
    # distinct heads of each directed relation
    keys = np.bincount(index.relations, minlength=graph.num_relations)
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
            bool(both[r] >= _REDUNDANT),
        )
        for r in order
    )


def redundancies(graph: Graph) -> dict[tuple[int, int], float]:
    """The pairs of relations that nearly repeat each other, with the smaller overlap.

    The first relation of a pair is forward; the other is an inverse, with an odd id, if it repeats
    the first in the other direction. A symmetric relation is the pair `(2i, 2i + 1)`.
    """
    triples = graph.triples()
    triples = triples[triples[:, 0] != triples[:, 2]]
    keys = triples[:, 0].astype(np.int64) * graph.num_entities + triples[:, 2]
    size = max(graph.num_relations, 1)
    pairs, relations = np.divmod(distinct(paired(keys, triples[:, 1], size)), size)
    sizes = np.bincount(relations, minlength=graph.num_relations)
    overlap_sizes: Counter[tuple[int, int]] = Counter()
    # Rows of one entity pair are adjacent: compare each with the next, then the one after it.
    at = np.arange(len(pairs))
    step = 1
    while len(at):
        at = at[at + step < len(pairs)]
        at = at[pairs[at] == pairs[at + step]]
        both, counts = np.unique(relations[at] * size + relations[at + step], return_counts=True)
        for key, count in zip(both.tolist(), counts.tolist(), strict=True):
            overlap_sizes[divmod(key, size)] += count
        step += 1
    return {
        pair: overlap
        for pair, count in sorted(overlap_sizes.items())
        if pair[0] % 2 == 0 and (overlap := count / int(sizes[list(pair)].max())) >= _REDUNDANT
    }


def symmetry(graph: Graph, facts: Triples) -> Floats:
    """For each relation id, the share of its facts that hold in both directions.

    >>> borders = [("France", "borders", "Spain"), ("Spain", "borders", "France")]
    >>> graph = Graph.of([*borders, ("Paris", "in", "France")])
    >>> symmetry(graph, graph.train)[[0, 2]]
    array([1., 0.])
    """
    facts = facts[facts[:, 0] != facts[:, 2]]
    mirrored = graph.index().contains(facts[:, 2], facts[:, 1], facts[:, 0])
    hits = np.bincount(facts[:, 1], weights=mirrored, minlength=graph.num_relations)
    share: Floats = hits / np.maximum(np.bincount(facts[:, 1], minlength=graph.num_relations), 1)
    return share


def is_symmetric(graph: Graph, relation: int) -> bool:
    """Whether nearly all facts of a relation, or of a sample, hold in both directions."""
    facts = facts_by(graph, relation)
    sample = facts[:: 1 + len(facts) // _SAMPLED]
    return bool(symmetry(graph, sample)[relation & ~1] >= _REDUNDANT)


def values(graph: Graph) -> tuple[ValueRelation, ...]:
    """The relations that have numbers or dates as entities, the most frequent first.

    A number is an identifier if the other end of its fact is one too, or if it has facts as the
    other end.
    """
    kinds = np.fromiter((_kind(label) for label in graph.entities), np.int8, graph.num_entities)
    facts = graph.facts()
    if not kinds.any():
        return ()
    total = np.bincount(facts[:, 1], minlength=graph.num_relations)
    valued_relations = []
    for end, near, far in (("tail", 2, 0), ("head", 0, 2)):
        own = np.zeros(graph.num_entities, dtype=bool)
        own[facts[:, far]] = True
        for number, kind in enumerate(KINDS, start=1):
            valued = facts[
                (kinds[facts[:, near]] == number)
                & (kinds[facts[:, far]] == 0)
                & ~own[facts[:, near]]
            ]
            counts = np.bincount(valued[:, 1], minlength=graph.num_relations)
            for relation in np.flatnonzero((counts > 0) & (counts >= _MOSTLY * total)):
                ids = valued[valued[:, 1] == relation][:, near].tolist()
                different = list(dict.fromkeys(ids))
                examples = tuple(graph.entities[i] for i in different[:_EXAMPLES])
                sizes = len(ids), len(different)
                shared = sizes[0] >= _FACTS_PER_VALUE * sizes[1]
                valued_relations.append(
                    ValueRelation(graph.relations[relation], end, kind, *sizes, examples, shared)
                )
    return tuple(sorted(valued_relations, key=lambda values: -values.facts))


def _kind(label: str) -> int:
    """1 for a number, 2 for a date, 0 for anything else.

    >>> [_kind(label) for label in ("1984", "-3.5e2", "2024-05-01", '"1984"^^xsd:gYear')]
    [1, 1, 2, 2]
    >>> [_kind(label) for label in ("Boeing 747", '"7"@en')]
    [0, 0]
    """
    literal = _LITERAL.fullmatch(label) if label[:1] == '"' else None
    text, datatype = (literal[1], literal[2] or "") if literal else (label, "")
    if _DATE.fullmatch(text) or _DATED.fullmatch(datatype):
        return 2
    return int(any(map(str.isdecimal, text[:3])) and _NUMBER.fullmatch(text) is not None)
