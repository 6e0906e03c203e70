"""One order of writing for every question, so that the order in which people write changes no score.

Conjuncts, disjuncts and neighbouring quantifiers may stand in any order, and variables may have any names. A question
is a graph of its parts and variables; its *colours* are refined until neighbours cannot tell two of them apart
(Weisfeiler and Leman), first by structure alone, then by names. Where variables still look alike, one of them is
singled out and the colours are refined again: of all choices, the one with the least picture is taken. Answer variables
are singled out first, of equals the one that was asked for first: they are what answers tell apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Variable, exists, flat, rebuilt
from tacit.query.plans.elimination import factored

_BUDGET = 20_000  # vertices coloured while choices are compared; past that, parts that look alike are taken as equal

_TARGET = "6 target"
_KINDS: dict[type, str] = {Or: "2 or", And: "3 and", Not: "4 not"}  # plain parts first, negated ones last

SlotPlaces = tuple[Sequence[int], Sequence[int]]  # of entities and of relations by slot, as places in their own order


def canonical(query: Query, names: SlotPlaces) -> Query:
    """A query over numbered slots with targets, parts and quantifiers in the one order that all its writings share."""
    flat = merged(query.formula)
    graph = _Graph(names)
    around = [graph.variable(target, _TARGET) for target in query.targets] or [graph.vertex(_TARGET)]
    root = graph.add(flat, around[0])
    for other in around[1:]:
        graph.join(other, root, "holds")
    colours = graph.refined(graph.ranked([(vertex.kind,) for vertex in graph.vertices]))
    colours = graph.refined(graph.ranked(list(zip(colours, [v.name for v in graph.vertices], strict=True))))
    colours = graph.settled(colours)
    targets = sorted(query.targets, key=lambda target: colours[graph.variables[target]])
    return Query(targets, graph.written(flat, root, colours))


def merged(formula: Formula) -> Formula:
    """Conjunctions in conjunctions taken apart, disjunctions in disjunctions too; quantifiers of a conjunct go out.

    Every quantifier must have a variable of its own, as those of a skeleton do: then `(exists x . f) & g` has the value
    of `exists x . f & g` under every t-norm, since all of them are monotone.
    """
    formula = rebuilt(formula, merged)
    if isinstance(formula, Or):
        return Or(tuple(flat(formula, Or)))
    if not isinstance(formula, And):
        return formula
    bound, conjuncts = factored(formula)
    return exists(bound, And(tuple(conjuncts)))


@dataclass(eq=False)
class _Vertex:
    """A part of a formula, or a variable: its kind, its name, and its neighbours with what they are to it."""

    kind: str
    name: Hashable = ()
    near: list[tuple[str, int]] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)


class _Graph:
    def __init__(self, names: SlotPlaces) -> None:
        self.entities, self.relations = names
        self.vertices: list[_Vertex] = []
        self.variables: dict[Variable, int] = {}
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

    def add(self, formula: Formula, around: int) -> int:
        """The vertex of a formula and of all inside it; a block of quantifiers is one vertex."""
        bound, inside = _block(formula)
        if isinstance(inside, Atom) and not bound:
            relation = self.relations[int(str(inside.relation))]
            ends = [self.entities[int(e.name)] if isinstance(e, Entity) else -1 for e in inside.terms]
            kinds = "".join("e" if isinstance(e, Entity) else "v" for e in inside.terms)
            here = self.vertex(f"0 atom {kinds}", (relation, *ends))
            for role, end in zip(("subject", "object"), inside.terms, strict=True):
                if isinstance(end, Variable):
                    self.join(here, self.variable(end), role)
        elif bound:
            here = self.vertex("1 exists")
            for variable in bound:
                self.join(here, self.variable(variable), "binds")
            self.vertices[here].parts = [self.add(inside, here)]
        else:
            here = self.vertex(_KINDS[type(inside)])
            parts = inside.parts if isinstance(inside, And | Or) else (inside.part,)  # type: ignore[attr-defined]
            self.vertices[here].parts = [self.add(part, here) for part in parts]
        self.join(around, here, "holds")
        return here

    def ranked(self, keys: Sequence[Hashable]) -> list[int]:
        order = {key: i for i, key in enumerate(sorted(set(keys)))}  # type: ignore[type-var]
        return [order[key] for key in keys]

    def pictures(self, colours: Sequence[int]) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
        """Each vertex with its colour and those of its neighbours."""
        near = [tuple(sorted((role, colours[other]) for role, other in vertex.near)) for vertex in self.vertices]
        return list(zip(colours, near, strict=True))

    def refined(self, colours: list[int]) -> list[int]:
        """Colours told apart by those of their neighbours, until nothing changes; their order is kept."""
        while True:
            self.spent += len(colours)
            finer = self.ranked(self.pictures(colours))
            if max(finer) == max(colours):
                return finer
            colours = finer

    def settled(self, colours: list[int]) -> list[int]:
        """Colours under which no two variables are alike, whatever the order in which they came."""
        while True:
            classes: dict[int, list[int]] = {}
            for vertex in self.variables.values():
                classes.setdefault(colours[vertex], []).append(vertex)
            ordered = sorted(classes.items(), key=lambda each: (self.vertices[each[1][0]].kind != _TARGET, each[0]))
            alike = next((members for _, members in ordered if len(members) > 1), None)
            if alike is None:
                return colours
            if self.spent > _BUDGET:
                alike = alike[:1]
            choices = [self.refined([2 * c + (v != chosen) for v, c in enumerate(colours)]) for chosen in alike]
            colours = min(choices, key=lambda choice: sorted(self.pictures(choice)))

    def written(self, formula: Formula, vertex: int, colours: Sequence[int]) -> Formula:
        """The formula with everything that may change places in the order of its colours."""
        bound, inside = _block(formula)
        if bound:
            bound = sorted(bound, key=lambda variable: colours[self.variables[variable]])
            return exists(bound, self.written(inside, self.vertices[vertex].parts[0], colours))
        if isinstance(inside, And | Or):
            pairs = sorted(zip(self.vertices[vertex].parts, inside.parts, strict=True), key=lambda p: colours[p[0]])
            return type(inside)(tuple(self.written(part, at, colours) for at, part in pairs))
        if isinstance(inside, Not):
            return Not(self.written(inside.part, self.vertices[vertex].parts[0], colours))
        return inside


def _block(formula: Formula) -> tuple[list[Variable], Formula]:
    """The variables of the quantifiers a formula starts with, and what they stand before."""
    bound: list[Variable] = []
    while isinstance(formula, Exists):
        bound.append(formula.variable)
        formula = formula.part
    return bound, formula
