"""Values of questions by definition, and of plans by the table in `query/plans/plan.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any as Whatever

import numpy as np
from numpy.typing import NDArray

from formulas import ENTITIES
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
)
from tacit.query.plans import plan as p

Values = NDArray[np.float64]
Binary = Callable[[Values, Values], Values]

LOGICS: dict[str, tuple[Binary, Binary]] = {
    "godel": (np.minimum, np.maximum),
    "product": (lambda x, y: x * y, lambda x, y: x + y - x * y),
    "lukasiewicz": (lambda x, y: np.maximum(x + y - 1, 0), lambda x, y: np.minimum(x + y, 1)),
}
NEGATIONS: dict[str, Callable[[Values], Values]] = {
    "standard": lambda x: 1 - x,
    "cosine": lambda x: (1 + np.cos(np.pi * x)) / 2,
}


class BruteForce:
    """The value of a formula by definition, over every assignment of its variables."""

    def __init__(self, tables: dict[str, Values], logic: str, negation: str) -> None:
        self.tables = tables
        self.size = len(next(iter(tables.values())))
        (self.norm, self.conorm), self.negate = LOGICS[logic], NEGATIONS[negation]

    def value(self, formula: Formula, where: dict[Variable, int]) -> Values:
        match formula:
            case Atom(relation, subject, object_):
                ends = [
                    ENTITIES.index(e.name) if isinstance(e, Entity) else where[e]
                    for e in (subject, object_)
                ]
                return self.tables[relation][ends[0], ends[1]]
            case Inequality(left, right):
                ends = [
                    ENTITIES.index(e.name) if isinstance(e, Entity) else where[e]
                    for e in (left, right)
                ]
                return np.float64(ends[0] != ends[1])
            case And(parts):
                return reduce(self.norm, [self.value(part, where) for part in parts])
            case Or(parts):
                return reduce(self.conorm, [self.value(part, where) for part in parts])
            case Not(part):
                return self.negate(self.value(part, where))
            case Exists(variable, part):
                return np.max([self.value(part, {**where, variable: e}) for e in range(self.size)])
        raise AssertionError(formula)

    def tuples(self, query: Query) -> dict[tuple[int, ...], float]:
        """The value of every assignment of entities to the answer variables."""
        every = product(range(self.size), repeat=len(query.targets))
        return {
            ids: float(self.value(query.formula, dict(zip(query.targets, ids, strict=True))))
            for ids in every
        }

    def answers(self, query: Query) -> Values:
        return np.array([self.value(query.formula, {query.target: e}) for e in range(self.size)])


class Interpreter:
    """The value of a plan by its table; sets are vectors, edges are matrices."""

    def __init__(self, tables: dict[str, Values], logic: str, negation: str) -> None:
        self.tables = tables
        self.size = len(next(iter(tables.values())))
        (self.norm, self.conorm), self.negate = LOGICS[logic], NEGATIONS[negation]

    def answers(self, prepared: p.CompiledQuery) -> Values:
        self.relations = [self.tables[name] for name in prepared.relations]
        slots = [ENTITIES.index(name) for name in prepared.entities]
        return self.of(prepared.plan.root, slots)

    def of(self, node: Whatever, slots: list[int]) -> Values:
        """`[N]` for a set, `[N, N]` for an edge."""
        match node:
            case p.Relation(slot, flip):
                return self.relations[slot].T if flip else self.relations[slot]
            case p.Unequal():
                return 1.0 - np.eye(self.size)
            case p.Source(part):
                return np.repeat(self.of(part, slots)[:, None], self.size, axis=1)
            case p.Target(part):
                return np.repeat(self.of(part, slots)[None, :], self.size, axis=0)
            case p.Row(slot, edge):
                return self.of(edge, slots)[slots[slot]]
            case p.Project(_, source, edge):
                return self.norm(self.of(source, slots)[:, None], self.of(edge, slots)).max(axis=0)
            case p.Loop(relation):
                return np.diagonal(self.relations[relation])
            case p.Everything():
                return np.ones(self.size)
            case p.Intersect(parts):
                return reduce(self.norm, [self.of(part, slots) for part in parts])
            case p.Union(parts):
                return reduce(self.conorm, [self.of(part, slots) for part in parts])
            case p.Complement(part):
                return self.negate(self.of(part, slots))
            case p.At(part, slot):
                return np.full(self.size, self.of(part, slots)[slots[slot]])
            case p.Best(_, part):
                return np.full(self.size, self.of(part, slots).max())
            case p.Cutset(_, slot, candidates, body):
                assert slot == len(slots), "cut variables count on after the slots in scope"
                values = np.array([self.of(body, [*slots, e]) for e in range(self.size)])
                assert (values.max(axis=1) <= self.of(candidates, slots) + 1e-12).all(), (
                    "candidates bound the body"
                )
                return values.max(axis=0)
        raise AssertionError(node)
