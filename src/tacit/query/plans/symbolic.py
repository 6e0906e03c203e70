"""Exact answers over the facts of a graph, by set operations on its sorted index: the oracle of everything after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import FactIndex, Ints, distinct
from tacit.graph.graph import Graph
from tacit.query.plans import plan as steps
from tacit.query.plans.fold import EVERYWHERE, Fold, Place
from tacit.query.plans.plan import Edge, Plan, Step, conjuncts
from tacit.query.plans.sets import Flags, Sets
from tacit.query.sampling.betae_structures import Ids
from tacit.query.sampling.queries import AnswerSets, QuerySet

GRAPHS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "train": ((), ("train",)),
    "valid": (("train",), ("train", "valid")),
    "test": (("train", "valid"), ("train", "valid", "test")),
}  # the splits that easy answers follow from, and those that all answers follow from
BATCH = 512  # queries evaluated at once: enough to be fast, few enough for their sets to stay in memory
COPIES = 1 << 15  # sources an edge is followed from, or values of a cut variable, at once
_FACTS = 1 << 23  # facts followed at once


def with_answers(queries: QuerySet, graph: Graph, split: str) -> QuerySet:
    """The same queries with the easy and hard answers they have as queries of a split."""
    easy, hard = easy_and_hard(queries.shape.plan, queries.entities, queries.relations, graph, split)
    return replace(queries, easy=easy, hard=hard)


def easy_and_hard(plan: Plan, entities: Ids, relations: Ids, graph: Graph, split: str) -> tuple[AnswerSets, AnswerSets]:
    """The answers on the smaller graph of a split, and those that only the larger one gives.

    With negation an answer on the smaller graph may be none on the larger; it stays easy, as in BetaE's files.
    """
    smaller, larger = GRAPHS[split]
    every = answers(plan, entities, relations, graph.index(*larger), graph.num_entities)
    if not smaller:
        return AnswerSets.none(len(every)), every
    easy = answers(plan, entities, relations, graph.index(*smaller), graph.num_entities)
    return easy, every.minus(easy)


def answers(plan: Plan, entities: Ids, relations: Ids, index: FactIndex, num_entities: int) -> AnswerSets:
    """The exact answers of queries that share a plan: entity slots `[Q, E]`, directed relation slots `[Q, R]`."""
    keys = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(entities), BATCH):
        batch = slice(start, start + BATCH)
        sets = SetFold(index, num_entities, entities[batch], relations[batch]).of(plan.root)
        keys.append(sets.listed() + start * num_entities)
    return AnswerSets.of_keys(np.concatenate(keys), len(entities), num_entities)


def holds(plan: Plan, entities: Ids, relations: Ids, index: FactIndex, num_entities: int) -> Flags:
    """Whether facts imply formulas that share a plan without answer variable, `[Q]`."""
    return SetFold(index, num_entities, entities, relations).of(plan.root).nonempty()


def count_tuples(plan: Plan, entities: Ids, relations: Ids, index: FactIndex, num_entities: int) -> int:
    """How many tuples of entities answer one query, `[1, E]` and `[1, R]`, whose plan holds answer variables."""
    for step in (*(held.marginal for held in plan.held), plan.root):
        repeated = relations.repeat(len(entities), axis=0)
        sets = answers(replace(plan, root=step, held=()), entities, repeated, index, num_entities)
        entities = np.concatenate([entities[sets.rows], sets.ids[:, None]], axis=1)
    return len(entities)


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of many edges at once: entity `entities[i]` of query `rows[i]`."""

    rows: Ints
    entities: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class SetFold(Fold[Ends, Sets]):
    """Queries that share a plan, valued as sets: one per query, or one per source where an edge is followed."""

    index: FactIndex  # of the facts
    num_entities: int
    entities: NDArray[np.integer]  # [Q, E]
    relations: NDArray[np.integer]  # [Q, R]
    known: dict[Step, Sets] = field(default_factory=dict)

    def of(self, step: Step, place: Place[Ends] = EVERYWHERE) -> Sets:
        """The value of a step; that of a whole set is found once however often it occurs."""
        if place.source is not None:
            return super().of(step, place)
        if step not in self.known:
            self.known[step] = super().of(step, EVERYWHERE)
        if place.target is None:
            return self.known[step]
        held = self.known[step].contains(place.target.rows, place.target.entities)
        return Sets.all_where(held, self.num_entities)

    def entity(self, slot: int) -> Ends:
        """The entities of a slot, one a query."""
        return Ends(self._every, self.entities[:, slot])

    def relation(self, step: steps.Relation, place: Place[Ends]) -> Sets:
        """The entities that known facts lead to from each source."""
        source = place.start
        at, tails = self.index.neighbours(source.entities, self._directed(step, source.rows))
        return Sets.finite(at * self.num_entities + tails, len(source.rows), self.num_entities)

    def project(self, step: steps.Project, place: Place[Ends]) -> Sets:
        """The entities an edge leads to from a set."""
        source, edge = self.of(step.source), step.edge
        if isinstance(edge, steps.Relation):
            return self.followed(source, edge)
        reached = self._nothing
        for rows, sources in self.bounded(source, edge).members(COPIES):
            reached = reached | self.of(edge, Place(Ends(rows, sources))).union_by(rows, len(self.entities))
        return reached

    def followed(self, source: Sets, edge: steps.Relation) -> Sets:
        """The entities that facts of a relation lead to from a set."""
        reached = self._nothing
        for rows, sources in self.bounded(source, edge).members():
            for portion in self._portions(sources, self._directed(edge, rows)):
                at, tails = self.index.neighbours(sources[portion], self._directed(edge, rows[portion]))
                keys = rows[portion][at] * self.num_entities + tails
                keys = distinct(keys, len(self.entities) * self.num_entities)
                reached = reached | Sets.finite(keys, len(self.entities), self.num_entities)
        return reached

    def loop(self, step: steps.Loop, place: Place[Ends]) -> Sets:
        """The entities that a relation leads back to themselves."""
        at, loops = self.index.loops.neighbours(self.relations[:, step.relation], np.zeros_like(self._every))
        return self._finite(self._every[at], loops)

    def best(self, step: steps.Best, place: Place[Ends]) -> Sets:
        """Everything, where the set holds anything."""
        return Sets.all_where(self.of(step.part).nonempty(), self.num_entities)

    def condition(self, step: steps.Condition, place: Place[Ends]) -> Sets:
        """The union of the body over candidates for a cut variable, each filling the slot in a copy of its query."""
        reached = self._nothing
        for rows, values in self.of(step.candidates).members(COPIES):
            reached = reached | self.copies(step, rows, values).of(step.body).union_by(rows, len(self.entities))
        return reached

    def copies(self, step: steps.Condition, rows: Ints, values: Ints) -> SetFold:
        """Copies of some queries with a value each in the slot of a cut variable."""
        width = self.entities.shape[1]
        entities = np.zeros((len(rows), max(step.slot + 1, width)), dtype=np.int64)
        entities[:, :width] = self.entities[rows]
        entities[:, step.slot] = values
        return SetFold(self.index, self.num_entities, entities, self.relations[rows])

    def target(self, step: steps.Target, place: Place[Ends]) -> Sets:
        """A set as a whole, for every source."""
        return self.of(step.part).take(place.start.rows)

    def everything(self, step: Step, place: Place[Ends]) -> Sets:
        """All entities, for every query or source."""
        size = len(self.entities) if place.source is None else len(place.source.rows)
        return Sets.all_where(np.ones(size, dtype=bool), self.num_entities)

    def all(self, parts: Sequence[Sets], place: Place[Ends]) -> Sets:
        """The intersection; complements last, since taking them from something finite is a difference."""
        return reduce(Sets.__and__, sorted(parts, key=lambda part: bool(part.cofinite.any())))

    def any(self, parts: Sequence[Sets], place: Place[Ends]) -> Sets:
        return reduce(Sets.__or__, parts)

    def negation(self, step: steps.Complement[Step], part: Sets, place: Place[Ends]) -> Sets:
        return ~part

    @property
    def _nothing(self) -> Sets:
        return Sets.finite(np.empty(0, dtype=np.int64), len(self.entities), self.num_entities)

    @property
    def _every(self) -> Ints:
        return np.arange(len(self.entities))

    def _finite(self, rows: Ints, entities: NDArray[np.integer]) -> Sets:
        keys = rows * self.num_entities + entities
        return Sets.finite(keys, len(self.entities), self.num_entities)

    def _directed(self, relation: steps.Relation, rows: Ints) -> NDArray[np.integer]:
        ids: NDArray[np.integer] = self.relations[rows, relation.slot] ^ relation.flip
        return ids

    def _portions(self, heads: Ints, relations: NDArray[np.integer]) -> Iterator[slice]:
        """Slices of pairs with about as many tails as are good to have in memory at once."""
        if len(heads) * self.index.most_tails <= _FACTS:
            yield slice(None)
            return
        ends = np.cumsum(self.index.counts(heads, relations))
        cuts = np.searchsorted(ends, np.arange(_FACTS, ends[-1] if len(ends) else 0, _FACTS)) + 1
        for start, end in pairwise([0, *cuts.tolist(), len(heads)]):
            yield slice(start, end)

    def bounded(self, source: Sets, edge: Edge) -> Sets:
        """The source, where it is a complement, without what some relation that the edge needs does not leave."""
        relation = next((part for part in conjuncts(edge) if isinstance(part, steps.Relation)), None)
        if relation is None or not source.cofinite.any():
            return source
        rows = np.flatnonzero(source.cofinite)
        ids = self._directed(relation, rows)
        at, heads = self.index.sources.neighbours(ids, np.zeros_like(rows))
        bound = replace(self._finite(rows[at], heads), cofinite=~source.cofinite)
        return source & bound
