"""A canonical order for questions, so that the order of writing changes no score.

Conjuncts, disjuncts and neighbouring quantifiers may stand in any order, and variables may have any
names. A question is a graph of its parts and variables, whose *colours* are refined by those of
their neighbours until nothing changes (Weisfeiler and Leman), first by structure alone, then by
names. Where variables still share a colour, one of them gets its own and the colours are refined
again: of all choices, the one with the least picture is taken. Answer variables come first, of
equals the first of the question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

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
    Term,
    Variable,
    children,
    exists,
    flat,
    map_children,
)
from tacit.query.plans.scopes import factored

_BUDGET = 20_000  # vertices coloured while choices are compared; then parts of a colour are equal

_TARGET = "6 target"
# Plain parts come first, negated ones last.
_KINDS: dict[type, str] = {
    Atom: "0 atom",
    Inequality: "0 inequality",
    Comparison: "0 comparison",
    Exists: "1 exists",
    Or: "2 or",
    And: "3 and",
    Not: "4 not",
}

SlotRanks = tuple[Sequence[int], Sequence[int]]  # of the entities and of the relations of slots


def skeleton(query: Query) -> tuple[Query, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """A query with slots for names, and the names of entities, relations and variables.

    Every occurrence of an entity and every atom's relation has a slot of its own, from left to
    right; every quantifier has a variable of its own, so that no name is bound twice. The names of
    variables begin with those of the targets.

    >>> a, t = Entity("a"), Variable("t")
    >>> shape, *names = skeleton(Query(t, Atom("r", a, t) & Atom("s", t, a)))
    >>> shape, names
    (<?0 : 0(0, ?0) & 1(?0, 1)>, [('a', 'a'), ('r', 's'), ('t',)])
    """
    entities: list[str] = []
    relations: list[str] = []
    variables: list[str] = [target.name for target in query.targets]

    def slot(names: list[str], name: str) -> str:
        names.append(name)
        return str(len(names) - 1)

    def walk(formula: Formula, scope: dict[Variable, Variable]) -> Formula:
        if isinstance(formula, Leaf):
            ends = [
                Entity(slot(entities, e.name)) if isinstance(e, Entity) else scope[e]
                for e in formula.terms
            ]
            if isinstance(formula, Atom):
                return Atom(slot(relations, str(formula.relation)), *ends)
            return formula.with_terms(ends)
        if isinstance(formula, Exists):
            bound = Variable(slot(variables, formula.variable.name))
            return Exists(bound, walk(formula.part, {**scope, formula.variable: bound}))
        return map_children(formula, lambda part: walk(part, scope))

    scope = {target: Variable(str(number)) for number, target in enumerate(query.targets)}
    shape = Query(scope.values(), walk(query.formula, scope))
    return shape, tuple(entities), tuple(relations), tuple(variables)


def canonical(query: Query, names: SlotRanks) -> Query:
    """Puts targets, parts and quantifiers of a query over slots into canonical order."""
    graph = _Graph(names)
    around = [graph.variable(target, _TARGET) for target in query.targets] or [
        graph.vertex(_TARGET)
    ]
    root = graph.add(merged(flattened(query.formula), names[0]))
    for target in around:
        graph.join(target, root, "holds")
    colours = graph.refine(ranks([vertex.kind for vertex in graph.vertices]))
    colours = graph.refine(
        ranks([(c, v.name) for c, v in zip(colours, graph.vertices, strict=True)])
    )
    colours = graph.stable_colours(colours)
    targets = sorted(query.targets, key=lambda target: colours[graph.variables[target]])
    return Query(targets, graph.formula(root, colours))


def ranks(keys: Sequence[Any]) -> list[int]:
    """The rank of each key among the distinct keys, sorted.

    >>> ranks(["b", "a", "b"])
    [1, 0, 1]
    """
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def flattened(formula: Formula) -> Formula:
    """Flattens conjunctions and disjunctions, and moves quantifiers out of conjuncts.

    Every quantifier must have a variable of its own, as those of a skeleton do: then `(exists x .
    f) & g` has the value of `exists x . f & g` under every t-norm, since all of them are monotone.
    """
    formula = map_children(formula, flattened)
    if isinstance(formula, Or):
        return reduce(Formula.__or__, formula.parts)
    if not isinstance(formula, And):
        return formula
    bound, conjuncts = factored(formula)
    return exists(bound, And(tuple(conjuncts)))


def merged(formula: Formula, entities: Sequence[int]) -> Formula:
    """Merges the comparisons of the same values within each conjunction, by the ranks of entities.

    Bounds are intersected, so that a range has one value however it is written.
    """
    formula = map_children(formula, lambda part: merged(part, entities))
    if isinstance(formula, Comparison):
        return _oriented(formula)
    if not isinstance(formula, And):
        return formula
    parts: dict[Hashable, Formula] = {}
    for number, part in enumerate(formula.parts):
        choices: list[tuple[Hashable, Formula]] = [(number, part)]
        if isinstance(part, Comparison):
            choices = [(_values_by_rank(each, entities), each) for each in (part, part.flipped())]
        key, part = next((choice for choice in choices if choice[0] in parts), choices[0])
        same = parts.get(key)
        if isinstance(same, Comparison) and isinstance(part, Comparison):
            part = _oriented(same.joined(part))
        parts[key] = part
    return And(tuple(parts.values())) if len(parts) > 1 else next(iter(parts.values()))


def _values_by_rank(comparison: Comparison, entities: Sequence[int]) -> Hashable:
    """What tells the compared values from others."""
    ends = (entities[int(e.name)] if isinstance(e, Entity) else e for e in comparison.terms)
    return tuple(value.attribute for value in comparison.values), tuple(ends)


def _oriented(comparison: Comparison) -> Comparison:
    """The comparison, or that of the flipped difference, whichever comes first; without a name."""
    comparison = replace(comparison, name="")
    if comparison.right is None:
        return comparison
    return min(comparison, comparison.flipped(), key=_direction)


def _direction(comparison: Comparison) -> tuple[Any, ...]:
    low, high = comparison.interval
    return *(value.attribute for value in comparison.values), -low, -high


def signature(formula: Formula, free: Sequence[Variable] = ()) -> str:
    """Writes a formula as a text that is equal for equal formulas.

    A bound variable is numbered by the quantifiers around its own, one of the `free` variables by
    its place; parts are sorted.
    """

    def text_of(formula: Formula, scope: dict[Variable, int], depth: int) -> str:
        match formula:
            case Comparison():
                is_shown = bool(formula.name)
                formula = _oriented(formula)
                sides = [
                    f"{value.attribute!r}({_placed(value.term, scope)})" for value in formula.values
                ]
                if _is_symmetric(formula):
                    sides.sort()
                return f"C({is_shown},{'-'.join(sides)},{formula.interval})"
            case Atom() | Inequality():
                ends = [_placed(e, scope) for e in formula.terms]
                if isinstance(formula, Inequality):
                    return "!=".join(sorted(ends))
                # a variable relation is the only atom of its query
                relation = repr(formula.relation) if isinstance(formula.relation, str) else "?"
                return f"{relation}({','.join(ends)})"
            case Exists(variable, part):
                return f"E({text_of(part, {**scope, variable: depth}, depth + 1)})"
            case And() | Or():
                parts = (text_of(part, scope, depth) for part in flat(formula, type(formula)))
                return f"{type(formula).__name__}({','.join(sorted(parts))})"
            case Not(part):
                return f"N({text_of(part, scope, depth)})"
        raise TypeError(f"not a formula: {formula!r}")

    return text_of(formula, {variable: -place for place, variable in enumerate(free)}, 1)


@dataclass(eq=False)
class _Vertex:
    """A part of a formula or a variable: its kind, name, and neighbours by role."""

    kind: str
    name: Hashable = ()
    near: list[tuple[str, int]] = field(default_factory=list)


class _Graph:
    def __init__(self, names: SlotRanks) -> None:
        self.entities, self.relations = names
        self.vertices: list[_Vertex] = []
        self.variables: dict[Variable, int] = {}
        self.formulas: dict[int, Formula] = {}
        self.spent = 0

    def vertex(self, kind: str, name: Hashable = ()) -> int:
        self.vertices.append(_Vertex(kind, name))
        return len(self.vertices) - 1

    def variable(self, variable: Variable, kind: str = "5 variable") -> int:
        if variable not in self.variables:
            self.variables[variable] = self.vertex(kind)
        return self.variables[variable]

    def join(self, vertex: int, other: int, role: str) -> None:
        self.vertices[vertex].near.append((role, other))
        self.vertices[other].near.append((f"{role}^-1", vertex))

    def add(self, formula: Formula) -> int:
        """The vertex of a formula and of all inside it; a block of quantifiers is one vertex."""
        kind = _KINDS[type(formula)]
        if isinstance(formula, Leaf):
            ends = [
                self.entities[int(e.name)] if isinstance(e, Entity) else -1 for e in formula.terms
            ]
            kinds = ["e" if isinstance(e, Entity) else "v" for e in formula.terms]
            relation = -1
            roles = ("subject", "object")
            if isinstance(formula, Atom):
                relation = self.relations[int(str(formula.relation))]
            elif isinstance(formula, Comparison):
                attributes = [value.attribute for value in formula.values]
                kinds.append(repr((attributes, formula.interval)))
            if _is_symmetric(formula):  # the sides may change places
                ends.sort()
                kinds.sort()
                roles = ("side", "side")
            vertex = self.vertex(f"{kind} {''.join(kinds)}", (relation, *ends))
            for role, end in zip(roles, formula.terms, strict=False):
                if isinstance(end, Variable):
                    self.join(vertex, self.variable(end), role)
        else:
            vertex = self.vertex(kind)
            block = formula
            while isinstance(block, Exists):
                self.join(vertex, self.variable(block.variable), "binds")
                block = block.part
            for part in [block] if block is not formula else children(formula):
                self.join(vertex, self.add(part), "holds")
        self.formulas[vertex] = formula
        return vertex

    def pictures(self, colours: Sequence[int]) -> list[tuple[Any, ...]]:
        """Each vertex with its colour and those of its neighbours."""
        return [
            (colour, tuple(sorted((role, colours[other]) for role, other in vertex.near)))
            for colour, vertex in zip(colours, self.vertices, strict=True)
        ]

    def refine(self, colours: list[int]) -> list[int]:
        """Refines colours by those of the neighbours until nothing changes, in the same order."""
        while True:
            self.spent += len(colours)
            finer = ranks(self.pictures(colours))
            if max(finer) == max(colours):
                return finer
            colours = finer

    def stable_colours(self, colours: list[int]) -> list[int]:
        """Colours that no two variables share, independent of the order of writing."""
        while True:
            classes = defaultdict[int, list[int]](list)
            for vertex in self.variables.values():
                classes[colours[vertex]].append(vertex)
            tied = [colour for colour, members in classes.items() if len(members) > 1]
            if not tied:
                return colours
            first = min(tied, key=lambda c: (self.vertices[classes[c][0]].kind != _TARGET, c))
            ties = classes[first][: 1 if self.spent > _BUDGET else None]
            choices = [
                self.refine([2 * c + (v != tie) for v, c in enumerate(colours)]) for tie in ties
            ]
            colours = min(choices, key=lambda choice: sorted(self.pictures(choice)))

    def formula(self, vertex: int, colours: Sequence[int]) -> Formula:
        """The formula of a vertex, its parts in the order of their colours."""
        formula = self.formulas[vertex]
        near = sorted(self.vertices[vertex].near, key=lambda edge: colours[edge[1]])
        parts = [self.formula(other, colours) for role, other in near if role == "holds"]
        match formula, parts:
            case Exists(), [part]:
                variables = {other: variable for variable, other in self.variables.items()}
                return exists([variables[other] for role, other in near if role == "binds"], part)
            case And() | Or(), _:
                return type(formula)(tuple(parts))
            case Not(), [part]:
                return Not(part)
            case Leaf(terms=(Entity() as left, Entity() as right)), _ if _is_symmetric(formula):
                ends = sorted((left, right), key=lambda end: self.entities[int(end.name)])
                return formula.with_terms(ends)
        return formula


def _placed(term: Term, scope: Mapping[Variable, int]) -> str:
    """An entity by its name, a variable by its number."""
    return str(scope.get(term, term)) if isinstance(term, Variable) else repr(term.name)


def _is_symmetric(formula: Formula) -> bool:
    """Whether the two sides of a leaf may change places."""
    if not isinstance(formula, Comparison):
        return isinstance(formula, Inequality)
    flipped = formula.flipped()
    return formula.right is not None and _direction(flipped) == _direction(formula)
