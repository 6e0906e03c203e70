"""Exact answers over the facts of a graph, by set operations on its sorted index: the oracle of everything after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.graph.graph import Graph
from tacit.graph.index import Index, Ints, distinct
from tacit.query.compile import compile_query
from tacit.query.formula import Query
from tacit.query.plan import (
    Any,
    At,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Is,
    Loop,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Source,
    Target,
    Union,
)
from tacit.query.queries import Answers, QuerySet
from tacit.query.sets import Sets
from tacit.query.tuples import Ids

GRAPHS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "train": ((), ("train",)),
    "valid": (("train",), ("train", "valid")),
    "test": (("train", "valid"), ("train", "valid", "test")),
}  # the parts that easy answers follow from, and those that all answers follow from
_BATCH = 512  # queries evaluated at once: enough to be fast, few enough for their sets to stay in memory
_COPIES = 1 << 15  # sources an edge is followed from, or values of a cut variable, at once
_FACTS = 1 << 23  # facts followed at once


def symbolic_answers(query: Query, graph: Graph, *parts: str) -> Ids:
    """The entities that answer one query over some parts of a graph (all of them by default).

    >>> from tacit.query.formula import Atom, Entity, Variable
    >>> graph = Graph.of([("France", "borders", "Spain"), ("France", "borders", "Italy")])
    >>> question = Query(Variable("c"), Atom("borders", Entity("France"), Variable("c")))
    >>> [graph.entities[i] for i in symbolic_answers(question, graph)]
    ['Spain', 'Italy']
    """
    prepared = compile_query(query)
    entities = np.array([[graph.entities.id(name) for name in prepared.entities]], dtype=np.int32)
    relations = np.array([[graph.relations.id(name) for name in prepared.relations]], dtype=np.int32)
    return answers(prepared.plan, entities, relations, graph.index(*parts), graph.num_entities)[0]


def with_answers(queries: QuerySet, graph: Graph, split: str) -> QuerySet:
    """The same queries with the easy and hard answers they have as queries of a split."""
    easy, hard = easy_and_hard(queries.shape.plan, queries.entities, queries.relations, graph, split)
    return replace(queries, easy=easy, hard=hard)


def easy_and_hard(plan: Plan, entities: Ids, relations: Ids, graph: Graph, split: str) -> tuple[Answers, Answers]:
    """The answers on the smaller graph of a split, and those that only the larger one gives.

    With negation an answer on the smaller graph may be none on the larger; it stays easy, as in BetaE's files.
    """
    smaller, larger = GRAPHS[split]
    every = answers(plan, entities, relations, graph.index(*larger), graph.num_entities)
    if not smaller:
        return Answers.none(len(every)), every
    easy = answers(plan, entities, relations, graph.index(*smaller), graph.num_entities)
    return easy, every.minus(easy)


def answers(plan: Plan, entities: Ids, relations: Ids, index: Index, num_entities: int) -> Answers:
    """The exact answers of queries that share a plan: entity slots `[Q, E]`, directed relation slots `[Q, R]`."""
    facts = _Facts(index, num_entities)
    keys = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(entities), _BATCH):
        some = slice(start, start + _BATCH)
        sets = _Batch(facts, entities[some], relations[some]).sets(plan.root)
        keys.append(sets.listed() + start * num_entities)
    return Answers.of_keys(np.concatenate(keys), len(entities), num_entities)


class _Facts:
    """The index, and two smaller ones made of it when a plan asks for them."""

    def __init__(self, index: Index, num_entities: int) -> None:
        self.index, self.num_entities = index, num_entities

    @cached_property
    def most_tails(self) -> int:
        """The largest number of tails of a (head, relation)."""
        return int(np.diff(self.index.offsets).max(initial=0))

    @cached_property
    def loops(self) -> Index:
        """`(relation, 0) -> entities` with an edge to themselves."""
        heads = np.repeat(self.index.keys, np.diff(self.index.offsets))
        at = np.flatnonzero(heads // self.index.num_relations == self.index.all_tails)
        return self._by_relation(heads[at])

    @cached_property
    def sources(self) -> Index:
        """`(relation, 0) -> entities` the relation leads from."""
        return self._by_relation(self.index.keys)

    def _by_relation(self, keys: Ints) -> Index:
        heads, relations = np.divmod(keys, self.index.num_relations)
        return Index(np.stack([relations, np.zeros_like(heads), heads], axis=1), num_relations=1)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Queries that share a plan, evaluated node by node."""

    facts: _Facts
    entities: NDArray[np.integer]  # [Q, E]
    relations: NDArray[np.integer]  # [Q, R]
    known: dict[Node, Sets] = field(default_factory=dict)

    def sets(self, node: Node) -> Sets:
        """The value of a node: a set per query, found once however often it occurs."""
        if node not in self.known:
            self.known[node] = self._sets(node)
        return self.known[node]

    def _sets(self, node: Node) -> Sets:
        match node:
            case Row(slot, edge):
                return self._edge(edge, self._every, self.entities[:, slot])
            case Project(_, source, edge):
                return self._project(self.sets(source), edge)
            case Loop(relation):
                return self._listed(self.facts.loops, relation, self._every)
            case Everything():
                return Sets.all_where(np.ones(len(self.entities), dtype=bool), self.facts.num_entities)
            case Is(slot):
                return self._finite(self._every, self.entities[:, slot])
            case Intersect(parts):
                return reduce(Sets.__and__, _finite_first(self.sets(part) for part in parts))  # type: ignore[arg-type]
            case Union(parts):
                return reduce(Sets.__or__, [self.sets(part) for part in parts])  # type: ignore[arg-type]
            case Complement(part):
                return ~self.sets(part)  # type: ignore[arg-type]
            case At(part, slot):
                held = self.sets(part).contains(self._every, self.entities[:, slot])
                return Sets.all_where(held, self.facts.num_entities)
            case Any(_, part):
                return Sets.all_where(self.sets(part).nonempty(), self.facts.num_entities)
            case Condition(_, slot, candidates, body):
                return self._condition(slot, self.sets(candidates), body)

    @property
    def _every(self) -> Ints:
        return np.arange(len(self.entities))

    def _finite(self, rows: Ints, entities: NDArray[np.integer]) -> Sets:
        keys = rows * self.facts.num_entities + entities
        return Sets.finite(keys, len(self.entities), self.facts.num_entities)

    def _listed(self, index: Index, slot: int, rows: Ints) -> Sets:
        """What an index by relation lists, for some of the queries."""
        at, found = index.neighbours(self.relations[rows, slot], np.zeros_like(rows))
        return self._finite(rows[at], found)

    def _directed(self, relation: Relation, rows: Ints) -> NDArray[np.integer]:
        ids: NDArray[np.integer] = self.relations[rows, relation.slot] ^ relation.flip
        return ids

    def _project(self, source: Sets, edge: Edge) -> Sets:
        """The entities an edge leads to from a set."""
        source = self._bounded(source, edge)
        reached = Sets.finite(np.empty(0, dtype=np.int64), len(self.entities), self.facts.num_entities)
        if isinstance(edge, Relation):
            for rows, sources in source.members():
                for some in self._portions(sources, self._directed(edge, rows)):
                    at, tails = self.facts.index.neighbours(sources[some], self._directed(edge, rows[some]))
                    keys = rows[some][at] * self.facts.num_entities + tails
                    keys = distinct(keys, len(self.entities) * self.facts.num_entities)
                    reached = reached | Sets.finite(keys, len(self.entities), self.facts.num_entities)
        else:
            for rows, sources in source.members(_COPIES):
                reached = reached | self._edge(edge, rows, sources).union_by(rows, len(self.entities))
        return reached

    def _portions(self, heads: Ints, relations: NDArray[np.integer]) -> Iterator[slice]:
        """Slices of pairs with about as many tails as are good to have in memory at once."""
        index = self.facts.index
        if len(heads) * self.facts.most_tails <= _FACTS:
            yield slice(None)
            return
        ends = np.cumsum(index.counts(heads, relations))
        cuts = np.searchsorted(ends, np.arange(_FACTS, ends[-1] if len(ends) else 0, _FACTS)) + 1
        for start, end in pairwise([0, *cuts.tolist(), len(heads)]):
            yield slice(start, end)

    def _bounded(self, source: Sets, edge: Edge) -> Sets:
        """The source without entities that an edge certainly does not leave, where it is a complement."""
        relation = _needed(edge)
        if relation is None or not source.cofinite.any():
            return source
        rows = np.flatnonzero(source.cofinite)
        ids = self._directed(relation, rows)
        at, heads = self.facts.sources.neighbours(ids, np.zeros_like(rows))
        bound = replace(self._finite(rows[at], heads), cofinite=~source.cofinite)
        return source & bound

    def _edge(self, edge: Edge, rows: Ints, sources: NDArray[np.integer]) -> Sets:
        """Where an edge leads: set `i` belongs to query `rows[i]` and starts at `sources[i]`."""
        match edge:
            case Relation():
                at, tails = self.facts.index.neighbours(sources, self._directed(edge, rows))
                return Sets.finite(at * self.facts.num_entities + tails, len(rows), self.facts.num_entities)
            case Source(part):
                return Sets.all_where(self.sets(part).contains(rows, sources), self.facts.num_entities)
            case Target(part):
                return self.sets(part).take(rows)
            case Intersect(parts):
                return reduce(Sets.__and__, _finite_first(self._edge(part, rows, sources) for part in parts))
            case Union(parts):
                return reduce(Sets.__or__, [self._edge(part, rows, sources) for part in parts])
            case Complement(part):
                return ~self._edge(part, rows, sources)
            case _:
                return self.sets(edge).take(rows)

    def _condition(self, slot: int, candidates: Sets, body: Node) -> Sets:
        """The union of the body over candidates for a cut variable, each filling the slot in a copy of its query."""
        reached = Sets.finite(np.empty(0, dtype=np.int64), len(self.entities), self.facts.num_entities)
        for rows, values in candidates.members(_COPIES):
            entities = np.zeros((len(rows), max(slot + 1, self.entities.shape[1])), dtype=np.int64)
            entities[:, : self.entities.shape[1]] = self.entities[rows]
            entities[:, slot] = values
            copies = _Batch(self.facts, entities, self.relations[rows])
            reached = reached | copies.sets(body).union_by(rows, len(self.entities))
        return reached


def _needed(edge: Edge) -> Relation | None:
    """A relation without which an edge does not hold, where it is plain to see."""
    if isinstance(edge, Relation):
        return edge
    parts = edge.parts if isinstance(edge, Intersect) else ()
    return next((part for part in parts if isinstance(part, Relation)), None)


def _finite_first(sets: Iterable[Sets]) -> list[Sets]:
    """Complements last: taking them from something finite is a difference."""
    return sorted(sets, key=lambda one: bool(one.cofinite.any()))
