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
from functools import reduce

from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Variable, children, exists, rebuilt
from tacit.query.plans.elimination import factored

_BUDGET = 20_000  # vertices coloured while choices are compared; past that, parts that look alike are taken as equal

_TARGET = "6 target"
# Plain parts come first, negated ones last.
_KINDS: dict[type, str] = {Atom: "0 atom", Exists: "1 exists", Or: "2 or", And: "3 and", Not: "4 not"}

SlotPlaces = tuple[Sequence[int], Sequence[int]]  # of entities and of relations by slot, as places in their own order


def skeleton(query: Query) -> tuple[Query, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """A query with slots for names, and the names: of entities, relations, and variables (the targets first).

    Every occurrence of an entity and every atom's relation has a slot of its own, from left to right; every quantifier
    has a variable of its own, so that no name is bound twice.

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
        if isinstance(formula, Atom):
            ends = (Entity(slot(entities, e.name)) if isinstance(e, Entity) else scope[e] for e in formula.terms)
            return Atom(slot(relations, str(formula.relation)), *ends)
        if isinstance(formula, Exists):
            fresh = Variable(slot(variables, formula.variable.name))
            return Exists(fresh, walk(formula.part, {**scope, formula.variable: fresh}))
        return rebuilt(formula, lambda part: walk(part, scope))

    scope = {target: Variable(str(number)) for number, target in enumerate(query.targets)}
    shape = Query(scope.values(), walk(query.formula, scope))
    return shape, tuple(entities), tuple(relations), tuple(variables)


def canonical(query: Query, names: SlotPlaces) -> Query:
    """A query over numbered slots with targets, parts and quantifiers in the one order that all its writings share."""
    graph = _Graph(names)
    around = [graph.variable(target, _TARGET) for target in query.targets] or [graph.vertex(_TARGET)]
    root = graph.add(merged(query.formula))
    for target in around:
        graph.join(target, root, "holds")
    colours = graph.refined(graph.ranked([vertex.kind for vertex in graph.vertices]))
    colours = graph.refined(graph.ranked(list(zip(colours, [v.name for v in graph.vertices], strict=True))))
    colours = graph.settled(colours)
    targets = sorted(query.targets, key=lambda target: colours[graph.variables[target]])
    return Query(targets, graph.written(root, colours))


def merged(formula: Formula) -> Formula:
    """Conjunctions in conjunctions taken apart, disjunctions in disjunctions too; quantifiers of a conjunct go out.

    Every quantifier must have a variable of its own, as those of a skeleton do: then `(exists x . f) & g` has the value
    of `exists x . f & g` under every t-norm, since all of them are monotone.
    """
    formula = rebuilt(formula, merged)
    if isinstance(formula, Or):
        return reduce(Formula.__or__, formula.parts)
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


class _Graph:
    def __init__(self, names: SlotPlaces) -> None:
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
        if isinstance(formula, Atom):
            ends = [self.entities[int(e.name)] if isinstance(e, Entity) else -1 for e in formula.terms]
            kinds = "".join("e" if isinstance(e, Entity) else "v" for e in formula.terms)
            here = self.vertex(f"{kind} {kinds}", (self.relations[int(str(formula.relation))], *ends))
            for role, end in zip(("subject", "object"), formula.terms, strict=True):
                if isinstance(end, Variable):
                    self.join(here, self.variable(end), role)
        else:
            here, inside = self.vertex(kind), formula
            while isinstance(inside, Exists):
                self.join(here, self.variable(inside.variable), "binds")
                inside = inside.part
            for part in [inside] if isinstance(formula, Exists) else children(formula):
                self.join(here, self.add(part), "holds")
        self.formulas[here] = formula
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

    def written(self, vertex: int, colours: Sequence[int]) -> Formula:
        """The formula of a vertex with everything that may change places in the order of its colours."""
        formula, near = self.formulas[vertex], self.vertices[vertex].near
        parts = sorted((other for role, other in near if role == "holds"), key=colours.__getitem__)
        match formula, [self.written(part, colours) for part in parts]:
            case Exists(), [part]:
                number = {other: variable for variable, other in self.variables.items()}
                bound = sorted((other for role, other in near if role == "binds"), key=colours.__getitem__)
                return exists([number[other] for other in bound], part)
            case And() | Or(), inside:
                return type(formula)(tuple(inside))
            case Not(), [part]:
                return Not(part)
        return formula
