"""Exact answers over the facts of a graph, by set operations on its sorted index.

They are the oracle that every other search is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex, Flags, Ids, Integers, Ints, distinct
from tacit.graph.value_index import ValueIndex
from tacit.query.plans import plan as steps
from tacit.query.plans.fold import EVERYWHERE, EvalContext, Fold
from tacit.query.plans.plan import Edge, Plan, Step, conjuncts, has
from tacit.query.plans.sets import AnswerSets, Sets

# queries evaluated at once: enough to be fast, few enough for their sets to stay in memory
BATCH = 512
COPIES = 1 << 15  # sources an edge is followed from, or values of a cut variable, at once
_FACTS = 1 << 23  # facts followed at once
_FIRST = 16  # values of an answer variable whose tuples are counted at first


def answers(
    plan: Plan,
    entities: Ids,
    relations: Ids,
    index: FactIndex,
    num_entities: int,
    values: ValueIndex | None = None,
) -> AnswerSets:
    """The exact answers of queries that share a plan, by facts and known values.

    Entity slots are `[Q, E]`, directed relation slots `[Q, R]`.
    """
    keys = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(entities), BATCH):
        batch = slice(start, start + BATCH)
        slots = entities[batch], relations[batch]
        sets = SetFold(index, num_entities, *slots, values).of(plan.root)
        keys.append(_member_keys(sets) + start * num_entities)
    return AnswerSets.of_keys(np.concatenate(keys), len(entities), num_entities)


def _member_keys(sets: Sets) -> Ints:
    """The sorted keys of all members, with complements written out."""
    if not sets.cofinite.any():
        return sets.keys
    keys = [rows * sets.num_entities + entities for rows, entities in sets.members()]
    return np.sort(np.concatenate([sets.keys[:0], *keys]))


def holds(
    plan: Plan,
    entities: Ids,
    relations: Ids,
    index: FactIndex,
    num_entities: int,
    values: ValueIndex | None = None,
) -> Flags:
    """Whether facts imply formulas that share a plan without answer variable, `[Q]`."""
    return SetFold(index, num_entities, entities, relations, values).of(plan.root).nonempty()


def count_tuples(
    plan: Plan,
    entities: Ids,
    relations: Ids,
    index: FactIndex,
    num_entities: int,
    most: int,
    values: ValueIndex | None = None,
) -> int:
    """How many tuples answer one query with several answer variables, or `most`.

    Its entity slots are `[1, E]`, its relation slots `[1, R]`.
    """
    *outer, last = (*(target.marginal for target in plan.enumerated), plan.root)

    def count(rows: Ids, depth: int, limit: int) -> int:
        total = 0
        start = 0
        size = _FIRST  # one value may lead to as many tuples as are counted
        while start < len(rows) and total < limit:
            few = rows[start : start + size]
            along = relations.repeat(len(few), axis=0)
            if depth < len(outer):
                step = replace(plan, root=outer[depth], enumerated=())
                found = answers(step, few, along, index, num_entities, values)
                filled = np.concatenate([few[found.rows], found.ids[:, None]], axis=1)
                total += count(filled, depth + 1, limit - total)
            else:
                total += SetFold(index, num_entities, few, along, values).of(last).size
            start += size
            size = min(BATCH, 2 * size)
        return total

    return min(most, count(entities, 0, most))


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of many edges at once: entity `entities[i]` of query `rows[i]`."""

    rows: Ints
    entities: Integers


Context = EvalContext[Ends]


@dataclass(frozen=True, eq=False)
class SetFold(Fold[Ends, Sets]):
    """Evaluates queries that share a plan as sets, one per query or per source of an edge."""

    index: FactIndex  # of the facts
    num_entities: int
    entities: Integers  # [Q, E]
    relations: Integers  # [Q, R]
    values: ValueIndex | None = None  # known ones
    cache: dict[Step, Sets] = field(default_factory=dict)

    def of(self, step: Step, place: Context = EVERYWHERE) -> Sets:
        """Evaluates a step; the set of a step without a source is computed once."""
        if place.source is not None:
            return super().of(step, place)
        if step not in self.cache:
            self.cache[step] = super().of(step, EVERYWHERE)
        if place.target is None:
            return self.cache[step]
        holds = self.cache[step].contains(place.target.rows, place.target.entities)
        return Sets.all_where(holds, self.num_entities)

    def entity(self, slot: int) -> Ends:
        """The entities of a slot, one a query."""
        return Ends(np.arange(len(self.entities)), self.entities[:, slot])

    def relation(self, step: steps.Relation, place: Context) -> Sets:
        """The entities that facts lead to from each source."""
        source = place.start
        relations = self.relations[source.rows, step.slot] ^ step.flip
        at, tails = self.index.neighbours(source.entities, relations)
        return Sets.finite(at * self.num_entities + tails, len(source.rows), self.num_entities)

    def project(self, step: steps.Project, place: Context) -> Sets:
        """The entities an edge leads to from a set."""
        source = self.of(step.source)
        edge = step.edge
        if isinstance(edge, steps.Relation):
            return self.hop(source, edge)
        union = Sets.none(len(self.entities), self.num_entities)
        at_once = COPIES
        if has(edge, steps.Difference):  # each source may lead to most values
            at_once = max(1, _FACTS // max(1, len(self.known.attributes)))
        for rows, sources in self.bounded(source, edge).members(at_once):
            targets = self.of(edge, EvalContext(Ends(rows, sources)))
            union |= targets.union_by(rows, len(self.entities))
        return union

    def hop(self, source: Sets, edge: steps.Relation) -> Sets:
        """The entities that facts of a relation lead to from a set."""
        union = Sets.none(len(self.entities), self.num_entities)
        for rows, sources in self.bounded(source, edge).members():
            relations = self.relations[rows, edge.slot] ^ edge.flip
            for portion in _portions(self.index, sources, relations):
                at, tails = self.index.neighbours(sources[portion], relations[portion])
                keys = rows[portion][at] * self.num_entities + tails
                keys = distinct(keys, len(self.entities) * self.num_entities)
                union |= Sets.finite(keys, len(self.entities), self.num_entities)
        return union

    def unequal(self, step: steps.Unequal, place: Context) -> Sets:
        """All entities but each source."""
        source = place.start
        keys = np.arange(len(source.rows)) * self.num_entities + source.entities
        return ~Sets.finite(keys, len(source.rows), self.num_entities)

    def within(self, step: steps.Within, place: Context) -> Sets:
        """The entities with a known value in the range."""
        size = len(self.entities)
        everyone = np.arange(self.num_entities)
        if step.minus:
            ends = step.attribute, step.minus, step.low, step.high
            mask = self.known.differ(*ends, everyone, everyone)
        else:
            mask = self.known.within(step.attribute, step.low, step.high)
        keys = np.arange(size)[:, None] * self.num_entities + np.flatnonzero(mask)
        return Sets.finite(keys.ravel(), size, self.num_entities)

    def difference(self, step: steps.Difference, place: Context) -> Sets:
        """The entities with a known value that differs from one of each source as it should."""
        sources = place.start
        at, entities = self.known.differing(*step.compared, sources.entities)
        keys = distinct(at * self.num_entities + entities, len(sources.rows) * self.num_entities)
        return Sets.finite(keys, len(sources.rows), self.num_entities)

    def intersect(self, step: steps.Intersect[Step], place: Context) -> Sets:
        """The intersection; differences only select among what other parts hold, where they can."""
        differences = [part for part in step.parts if isinstance(part, steps.Difference)]
        others = [self.of(part, place) for part in step.parts if part not in differences]
        if not others or not differences or place.source is None:
            return self.all([*others, *(self.of(part, place) for part in differences)])
        found = self.all(others)
        for part in differences:
            if found.cofinite.any():
                return self.all([found, *(self.of(each, place) for each in differences)])
            rows, targets = np.divmod(found.keys, self.num_entities)
            pairs = place.source.entities[rows], targets
            mask = self.known.differ(*part.compared, *pairs)
            found = Sets(found.keys[mask], found.cofinite, self.num_entities)
        return found

    @property
    def known(self) -> ValueIndex:
        """The known values; an error where none were given."""
        if self.values is None:
            raise PlanError("the question compares values of attributes, and none are at hand here")
        return self.values

    def loop(self, step: steps.Loop, place: Context) -> Sets:
        """The entities that a relation leads back to themselves."""
        relations = self.relations[:, step.relation]
        rows, loops = self.index.loops.neighbours(relations, np.zeros_like(relations))
        keys = rows * self.num_entities + loops
        return Sets.finite(keys, len(relations), self.num_entities)

    def best(self, step: steps.Best, place: Context) -> Sets:
        """Everything, where the set holds anything."""
        return Sets.all_where(self.of(step.part).nonempty(), self.num_entities)

    def cutset(self, step: steps.Cutset, place: Context) -> Sets:
        """The union of the body over candidates for a cut variable.

        Each candidate fills the slot in a copy of its query.
        """
        union = Sets.none(len(self.entities), self.num_entities)
        for rows, values in self.of(step.candidates).members(COPIES):
            copies = self.copies(step, rows, values).of(step.body)
            union |= copies.union_by(rows, len(self.entities))
        return union

    def copies(self, step: steps.Cutset, rows: Ints, values: Ints) -> SetFold:
        """Copies of some queries with a value each in the slot of a cut variable."""
        width = self.entities.shape[1]
        entities = np.zeros((len(rows), max(step.slot + 1, width)), dtype=np.int64)
        entities[:, :width] = self.entities[rows]
        entities[:, step.slot] = values
        return SetFold(self.index, self.num_entities, entities, self.relations[rows], self.values)

    def target(self, step: steps.Target, place: Context) -> Sets:
        """A whole set, for every source."""
        return self.of(step.part).take(place.start.rows)

    def everything(self, step: Step, place: Context) -> Sets:
        """All entities, for every query or source."""
        size = len(self.entities) if place.source is None else len(place.source.rows)
        return Sets.all_where(np.ones(size, dtype=bool), self.num_entities)

    def all(self, parts: Sequence[Sets]) -> Sets:
        """The intersection; complements come last, as a difference from something finite."""
        return reduce(Sets.__and__, sorted(parts, key=lambda part: bool(part.cofinite.any())))

    def any(self, parts: Sequence[Sets]) -> Sets:
        return reduce(Sets.__or__, parts)

    def negation(self, part: Sets) -> Sets:
        return ~part

    def bounded(self, source: Sets, edge: Edge) -> Sets:
        """Restricts a complement to the sources of some atom or comparison in the edge."""
        kinds = steps.Relation, steps.Difference
        required = sorted((part for part in conjuncts(edge) if isinstance(part, kinds)), key=_last)
        if not required or not source.cofinite.any():
            return source
        rows = np.flatnonzero(source.cofinite)
        if isinstance(part := required[0], steps.Relation):
            ids = self.relations[rows, part.slot] ^ part.flip
            at, heads = self.index.sources.neighbours(ids, np.zeros_like(rows))
        else:
            known = np.flatnonzero(self.known.known(part.left)).astype(np.int32)
            at, heads = np.divmod(np.arange(len(rows) * len(known)), max(1, len(known)))
            heads = known[heads]
        keys = rows[at] * self.num_entities + heads
        return source & Sets(keys, ~source.cofinite, self.num_entities)


def _last(edge: Edge) -> bool:
    """Orders edges: atoms first, which lead from fewer entities."""
    return not isinstance(edge, steps.Relation)


def _portions(index: FactIndex, heads: Integers, relations: Integers) -> Iterator[slice]:
    """Slices of pairs with about as many tails as fit in memory at once."""
    if len(heads) * index.most_tails <= _FACTS:
        yield slice(None)
        return
    ends = np.cumsum(index.counts(heads, relations))
    cuts = np.searchsorted(ends, np.arange(_FACTS, ends[-1] if len(ends) else 0, _FACTS)) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(heads)]):
        yield slice(start, end)
