"""Values of questions by definition, and of plans by the table in `query/plans/plan.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any as Whatever

import numpy as np
from numpy.typing import NDArray

from formulas import ENTITIES
from odd_values import Numbers
from tacit.query.comparison import Comparison
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Leaf,
    Not,
    Or,
    Query,
    Variable,
    map_children,
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
    """The value of a formula by definition, over every assignment of its variables.

    The comparisons of the same values within a conjunction are one.
    """

    def __init__(
        self, tables: dict[str, Values], logic: str, negation: str, numbers: Numbers | None = None
    ) -> None:
        self.tables = tables
        self.numbers = numbers
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
            case Comparison(left, right):
                values = (left,) if right is None else (left, right)
                places = [
                    (
                        v.attribute,
                        ENTITIES.index(v.term.name)
                        if isinstance(v.term, Entity)
                        else where[v.term],
                    )
                    for v in values
                ]
                assert self.numbers is not None
                return np.float64(self.numbers.compared(places, *formula.interval))
            case And(parts) if self.numbers is not None:
                return self.conjunction(formula, where)
            case And(parts):
                return reduce(self.norm, [self.value(part, where) for part in parts])
            case Or(parts):
                return reduce(self.conorm, [self.value(part, where) for part in parts])
            case Not(part):
                return self.negate(self.value(part, where))
            case Exists(variable, part):
                return np.max([self.value(part, {**where, variable: e}) for e in range(self.size)])
        raise AssertionError(formula)

    def conjunction(self, formula: And, where: dict[Variable, int]) -> Values:
        """The value of a conjunction, inner quantifiers moved out and ranges intersected."""
        variables: list[Variable] = []
        parts: list[Formula] = []

        def flatten(part: Formula, names: dict[Variable, Variable]) -> None:
            if isinstance(part, And):
                for each in part.parts:
                    flatten(each, names)
            elif isinstance(part, Exists):
                fresh = Variable(f"{part.variable.name}_{len(variables)}_{len(where)}")
                variables.append(fresh)
                flatten(part.part, {**names, part.variable: fresh})
            else:
                parts.append(renamed(part, names))

        flatten(formula, {})
        ranges: dict[Whatever, tuple[float, float]] = {}
        others = []
        for part in parts:
            if not isinstance(part, Comparison):
                others.append(part)
                continue
            low, high = part.interval
            if (key := part.values) not in ranges and (key := part.values[::-1]) in ranges:
                low, high = -high, -low
            elif key not in ranges:
                key = part.values
            least, most = ranges.get(key, (-np.inf, np.inf))
            ranges[key] = max(low, least), min(high, most)
        best = np.float64(0.0)
        for chosen in product(range(self.size), repeat=len(variables)):
            scope = {**where, **dict(zip(variables, chosen, strict=True))}
            values = [self.value(part, scope) for part in others]
            for key, ends in ranges.items():
                places = [
                    (
                        v.attribute,
                        ENTITIES.index(v.term.name)
                        if isinstance(v.term, Entity)
                        else scope[v.term],
                    )
                    for v in key
                ]
                assert self.numbers is not None
                values.append(np.float64(self.numbers.compared(places, *ends)))
            best = np.maximum(best, reduce(self.norm, values))
        return best

    def tuples(self, query: Query) -> dict[tuple[int, ...], float]:
        """The value of every assignment of entities to the answer variables."""
        every = product(range(self.size), repeat=len(query.targets))
        return {
            ids: float(self.value(query.formula, dict(zip(query.targets, ids, strict=True))))
            for ids in every
        }

    def answers(self, query: Query) -> Values:
        return np.array([self.value(query.formula, {query.target: e}) for e in range(self.size)])


def renamed(formula: Formula, names: dict[Variable, Variable]) -> Formula:
    """A formula with other names of free variables."""
    match formula:
        case Exists(variable, part):
            inner = {name: new for name, new in names.items() if name != variable}
            return Exists(variable, renamed(part, inner))
        case Leaf():
            return formula.with_terms(
                [
                    names.get(term, term) if isinstance(term, Variable) else term
                    for term in formula.terms
                ]
            )
    return map_children(formula, lambda part: renamed(part, names))


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
