"""The hardness of an answer: the fewest missing links needed to find it.

With `m(s, r, t)` 0 where the fact is observed, 1 where it is missing (true, but not observed) and
infinite where it is false, an answer costs the least sum of `m` over the atoms that make it true: a
(min, +) reading of its plan.

=========================== =======================================================================
`and`                       the sum
`or`, `exists`              the least
`not`                       0 where what it denies is false by all facts, infinite where it is true
=========================== =======================================================================

So only atoms outside negations count, each time they are used. For queries of the 14 shapes every
hard answer costs at least 1; where a negation stands inside another, a hard answer may cost 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

import numpy as np

from tacit.errors import DataError
from tacit.graph.fact_index import FactIndex, Flags, Ints
from tacit.graph.graph import Graph, no_triples
from tacit.query.plans import symbolic
from tacit.query.plans.fold import EVERYWHERE, EvalContext, Fold
from tacit.query.plans.plan import (
    Best,
    Complement,
    Cutset,
    Loop,
    Project,
    Relation,
    Step,
    Target,
    Union,
    asserted_children,
)
from tacit.query.plans.sets import Sets
from tacit.query.plans.symbolic import Context, Ends, SetFold
from tacit.query.sampling.queries import GRAPHS, QuerySet

Levels = tuple[Sets, ...]  # level `c`: the entities that cost `c` missing links


def missing_links(
    queries: QuerySet, graph: Graph, split: str = "test", observed: Sequence[str] | None = None
) -> Ints:
    """The fewest links to predict for each hard answer, in the order of `queries.hard`.

    `observed` names the splits whose facts are known, by default all before the split.
    """
    smaller, larger = GRAPHS[split]
    if observed is None:
        observed = smaller
    indexes = [
        _index(graph, [name for name in larger if (name in observed) == is_observed])
        for is_observed in (True, False)
    ]
    costs = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(queries), symbolic.BATCH):
        part = queries[start : start + symbolic.BATCH]
        folds = (
            SetFold(index, graph.num_entities, part.entities, part.relations) for index in indexes
        )
        levels = CostFold(tuple(folds)).of(part.shape.plan.root)
        cost = np.full(len(part.hard.ids), -1)
        for links, level in enumerate(levels):
            cost[level.contains(part.hard.rows, part.hard.ids)] = links
        costs.append(cost)
    missing = np.concatenate(costs)
    if unexplained := int((missing < 0).sum()):
        raise DataError(
            f"{unexplained:,} of the {len(missing):,} hard answers of the {queries.name} queries "
            f"do not follow from the {'+'.join(larger)} facts of {graph.name}, so nobody can tell "
            "what they are missing; give the graph that the queries were made of, with all its "
            "splits"
        )
    return missing


def most_links(step: Step) -> int:
    """The largest number of links that an answer can be missing.

    >>> from tacit.query.sampling.shapes import SHAPES
    >>> [most_links(SHAPES[name].plan.root) for name in ("1p", "2u", "up", "3p", "3in")]
    [1, 1, 2, 3, 2]
    """
    match step:
        case Relation() | Loop():
            return 1
        case Complement():
            return 0
        case Union(parts):
            return max(map(most_links, parts))
    return sum(map(most_links, asserted_children(step)))


def _index(graph: Graph, splits: Sequence[str]) -> FactIndex:
    return graph.index(*splits) if splits else FactIndex(no_triples(), graph.num_relations)


@dataclass(frozen=True, eq=False)
class CostFold(Fold[Ends, Levels]):
    """Evaluates queries that share a plan to the cost of each entity.

    The sets of each cost come from observed and from missing facts.
    """

    folds: tuple[SetFold, ...]  # over the observed facts, over the missing ones
    cache: dict[Step, Levels] = field(default_factory=dict)

    def of(self, step: Step, place: Context = EVERYWHERE) -> Levels:
        """Evaluates a step; the value of a whole set is computed once."""
        if place.source is not None:
            return super().of(step, place)
        if step not in self.cache:
            self.cache[step] = super().of(step, EVERYWHERE)
        if place.target is None:
            return self.cache[step]
        rows = place.target.rows
        entities = place.target.entities
        return tuple(self._where(level.contains(rows, entities)) for level in self.cache[step])

    def entity(self, slot: int) -> Ends:
        """The entities of a slot, one per query."""
        return self.folds[0].entity(slot)

    def relation(self, step: Relation | Loop, place: Context) -> Levels:
        """Entities by observed facts at cost 0, and by missing facts at cost 1."""
        return _least(enumerate(fold.of(step, place) for fold in self.folds))

    loop = relation

    def project(self, step: Project, place: Context) -> Levels:
        """The least sum of the costs of the source and the edge."""
        priced = list[tuple[int, Sets]]()
        for cost, source in enumerate(self.of(step.source)):
            if isinstance(step.edge, Relation):
                hops = (fold.hop(source, step.edge) for fold in self.folds)
                priced += enumerate(hops, cost)
                continue
            priced.append((cost, self._nothing))
            bounds = (fold.bounded(source, step.edge) for fold in self.folds)
            for rows, sources in reduce(Sets.__or__, bounds).members(symbolic.COPIES):
                edge = self.of(step.edge, EvalContext(Ends(rows, sources)))
                priced += enumerate(self._union_by(edge, rows), cost)
        return _least(priced)

    def best(self, step: Best, place: Context) -> Levels:
        """The least cost of a member, for every entity."""
        return _least(enumerate(self._where(level.nonempty()) for level in self.of(step.part)))

    def cutset(self, step: Cutset, place: Context) -> Levels:
        """The least cost of the body over the values of a cut variable.

        The candidates add no cost of their own.
        """
        priced = [(0, self._nothing)]
        for rows, values in _union(self.of(step.candidates)).members(symbolic.COPIES):
            copies = CostFold(tuple(fold.copies(step, rows, values) for fold in self.folds))
            priced += enumerate(self._union_by(copies.of(step.body), rows))
        return _least(priced)

    def target(self, step: Target, place: Context) -> Levels:
        """A whole set, for every source."""
        return tuple(level.take(place.start.rows) for level in self.of(step.part))

    def everything(self, step: Step, place: Context) -> Levels:
        """All entities, at cost 0."""
        return (self.folds[0].of(step, place),)

    unequal = everything

    def all(self, parts: Sequence[Levels]) -> Levels:
        """The sum of the costs of the parts."""
        return reduce(_sum, parts)

    def any(self, parts: Sequence[Levels]) -> Levels:
        """The least cost of the parts."""
        return _least(chain.from_iterable(map(enumerate, parts)))

    def negation(self, part: Levels) -> Levels:
        """Entities for which the part is false by all facts, at cost 0."""
        return (~_union(part),)

    @property
    def _nothing(self) -> Sets:
        return self._where(np.zeros(len(self.folds[0].entities), dtype=bool))

    def _where(self, mask: Flags) -> Sets:
        return Sets.all_where(mask, self.folds[0].num_entities)

    def _union_by(self, levels: Levels, rows: Ints) -> Iterator[Sets]:
        return (level.union_by(rows, len(self.folds[0].entities)) for level in levels)


def _least(priced: Iterable[tuple[int, Sets]]) -> Levels:
    """Merges sets per cost, without entities of lower cost or empty levels at the end.

    The costs are all of 0, 1, … up to some number.
    """
    together: dict[int, Sets] = {}
    for cost, sets in priced:
        together[cost] = together[cost] | sets if cost in together else sets
    cheaper = together[0]
    levels = [cheaper]
    for cost in range(1, len(together)):
        levels.append(together[cost] & ~cheaper)
        cheaper = cheaper | together[cost]
    while len(levels) > 1 and not levels[-1].nonempty().any():
        levels.pop()
    return tuple(levels)


def _sum(first: Levels, second: Levels) -> Levels:
    return _least((a + b, x & y) for a, x in enumerate(first) for b, y in enumerate(second))


def _union(levels: Levels) -> Sets:
    """The union of all levels."""
    return reduce(Sets.__or__, levels)
