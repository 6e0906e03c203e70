"""From a question to its plan, with the fuzzy value of every answer kept exactly.

Only steps that hold for every t-norm, t-conorm and negation are taken: nested conjunctions (or disjunctions) are merged
and reordered, and `exists x . (f(x) & g)` is `(exists x . f(x)) & g`, the same with `|`, where `x` is not free in `g`.
So each variable is maximised over as early as possible, from the leaves towards the target; where a variable meets two
others in a way no single fuzzy set can carry, a `Condition` tries its values one by one.

The structure of a question is a question itself, whose entities, relations and variables are called by their slots:
queries that differ only in names share it, and its plan is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar, cast

from tacit.errors import PlanError
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable, free_variables
from tacit.query.plan import (
    Any,
    At,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Loop,
    Node,
    Plan,
    Prepared,
    Project,
    Relation,
    Row,
    Source,
    Target,
    Union,
)
from tacit.query.safety import check_safe
from tacit.query.skeleton import skeleton

MAX_CUTS = 6  # a condition multiplies the cost of all inside it

_Part = TypeVar("_Part", bound=Edge)


def compile_query(query: Query, safe: bool = True) -> Prepared:
    """The plan of a query, and the names that fill its slots.

    Slots are numbered from left to right through the formula as written, one per occurrence. A question that names its
    target nowhere, or speaks of a variable only under negation, is refused; `safe=False` lets it pass.

    >>> from tacit.query.formula import Atom, Entity, Variable
    >>> compile_query(Query(Variable("c"), Atom("borders", Entity("France"), Variable("c")))).plan.root
    Row(slot=0, edge=Relation(slot=0, flip=False))
    """
    check_safe(query, negation=safe)
    shape, entities, relations, variables = skeleton(query)
    plan = _plan(shape, len(entities), len(relations), len(variables))
    return Prepared(plan, entities, relations, variables, query.text)


@lru_cache(maxsize=4096)
def _plan(shape: Query, num_entities: int, num_relations: int, num_variables: int) -> Plan:
    cuts = range(num_entities, num_entities + MAX_CUTS)
    return Plan(_node(shape.formula, shape.target, cuts), num_entities, num_relations, num_variables)


class _Stuck(Exception):  # noqa: N818 - a signal between two functions below
    """Two outer variables meet inside a quantifier: one of them has to be tried value by value."""


class _Narrowed(Exists):
    """A quantifier in its narrowest place, over parts that all speak of its variable and of at most one other."""

    def __post_init__(self) -> None:
        # A chain of variables nests one of these per step: the limit on what people write is not for them.
        self._keep(self.part.depth, self.part.free - {self.variable})


def _node(formula: Formula, target: Variable, slots: range) -> Node:
    """The fuzzy set over `target` of a formula free in nothing else; `slots` are left for cut variables."""
    match formula:
        case Atom():
            return _atom(formula)
        case And(parts):
            return _intersect([_node(part, target, slots) for part in parts])
        case Or(parts):
            return _union([_node(part, target, slots) for part in parts])
        case Not(part):
            return Complement(_node(part, target, slots))
        case _Narrowed(variable, part):
            return _message(variable, _conjuncts(part), target, slots)
        case Exists():
            return _block(formula, target, slots)
    raise TypeError(f"not a formula: {formula!r}")


def _atom(atom: Atom) -> Node:
    """An atom over the target and entities."""
    relation, subject, object_ = int(atom.relation), atom.subject, atom.object
    if isinstance(subject, Variable):
        if isinstance(object_, Variable):
            return Loop(relation)
        return Row(int(object_.name), Relation(relation, flip=True))
    if isinstance(object_, Variable):
        return Row(int(subject.name), Relation(relation))
    # Rows of the query's own entities are shared by all values of a cut variable, whose slots come later.
    first, second = int(subject.name), int(object_.name)
    return At(Row(min(first, second), Relation(relation, flip=second < first)), max(first, second))


def _edge(formula: Formula, source: Variable, target: Variable, slots: range) -> Edge:
    """A formula over two variables as an edge from one to the other."""
    free = free_variables(formula)
    if source not in free:
        return Target(_node(formula, target, slots))
    if target not in free:
        return Source(_node(formula, source, slots))
    match formula:
        case Atom(relation, subject):
            return Relation(int(relation), flip=subject == target)
        case And(parts):
            return _intersect([_edge(part, source, target, slots) for part in parts])
        case Or(parts):
            return _union([_edge(part, source, target, slots) for part in parts])
        case Not(part):
            return Complement(_edge(part, source, target, slots))
        case Exists():
            variables, factors = _narrow(formula)
            if variables:
                raise _Stuck
            return _intersect([_edge(factor, source, target, slots) for factor in factors])
    raise TypeError(f"not a formula: {formula!r}")


def _message(variable: Variable, factors: Sequence[Formula], target: Variable, slots: range) -> Node:
    """`max_s` over the values of a variable that meets no other, or the target alone."""
    index = int(variable.name)
    own = [f for f in factors if target not in free_variables(f)]
    shared = [f for f in factors if target in free_variables(f)]
    if not shared:
        return Any(index, _intersect([_node(f, variable, slots) for f in own]))
    try:
        edge = _intersect([_edge(f, variable, target, slots) for f in shared])
    except _Stuck:
        return _condition([variable], factors, target, slots)
    return Project(index, _intersect([_node(f, variable, slots) for f in own]), edge)


def _block(formula: Exists, target: Variable, slots: range) -> Node:
    """Quantifiers over a conjunction: messages towards the target, and a condition for every knot that is left."""
    variables, factors = _narrow(formula)
    tied = frozenset(variables)
    own = [f for f in factors if not free_variables(f) & tied]
    knots = []
    for knot in _components(variables, factors):
        inside = [f for f in factors if free_variables(f) & frozenset(knot)]
        if not any(_anchored(variable, inside) for variable in knot):
            # Nothing but what is known of the target can rank the values to try: it goes inside.
            inside += [f for f in own if target in free_variables(f)]
            own = [f for f in own if target not in free_variables(f)]
        knots.append(_condition(knot, inside, target, slots))
    return _intersect([*(_node(f, target, slots) for f in own), *knots])


def _condition(variables: Sequence[Variable], factors: Sequence[Formula], target: Variable, slots: range) -> Node:
    """Tries the values of one of the variables; with it out of the way the rest is smaller, in the end a tree."""
    if not slots:
        raise PlanError(f"the variables form cycles that take more than {MAX_CUTS} nested cuts; ask a simpler question")
    slot, deeper = slots[0], slots[1:]
    cut = min(variables, key=lambda v: (_knotted(v, variables, factors), not _anchored(v, factors)))
    own = [f for f in factors if free_variables(f) == {cut}]
    rest = [_substitute(f, cut, Entity(str(slot))) for f in factors if free_variables(f) != {cut}]
    ranking = [_node(f, cut, slots) for f in own] or _bounds(cut, factors, slots)
    inner = _conjunction(rest)
    for variable in reversed(variables):
        if variable != cut:
            inner = Exists(variable, inner)
    body = [At(_node(f, cut, deeper), slot) for f in own]
    return Condition(int(cut.name), slot, _intersect(ranking), _intersect([*body, _node(inner, target, deeper)]))


def _bounds(cut: Variable, factors: Sequence[Formula], slots: range) -> list[Node]:
    """Upper bounds on a cut variable with no part of its own: what each neighbour's own parts let through."""
    found: list[Node] = []
    pairs = [free_variables(f) - {cut} for f in factors if cut in free_variables(f) and len(free_variables(f)) == 2]
    for (neighbour,) in dict.fromkeys(pairs):
        own = [f for f in factors if free_variables(f) == {neighbour}]
        shared = [f for f in factors if free_variables(f) == {cut, neighbour}]
        if _anchored(neighbour, own):
            with suppress(_Stuck):
                edge = _intersect([_edge(f, neighbour, cut, slots) for f in shared])
                reach = _intersect([_node(f, neighbour, slots) for f in own])
                found.append(Project(int(neighbour.name), reach, edge))
    return found


def _narrow(formula: Formula) -> tuple[list[Variable], list[Formula]]:
    """Moves the quantifiers of a block as far in as they go: the variables that stay, and the factors."""
    variables: list[Variable] = []
    factors = _flatten(formula, variables)
    while variables:
        chosen, least = variables[0], None
        for variable in variables:
            mine = [f for f in factors if variable in free_variables(f)]
            others = frozenset[Variable]().union(*map(free_variables, mine)) - {variable}
            split = len(mine) == 1 and _separable(mine[0], variable)
            rank = (not split and len(others), not _anchored(variable, mine))
            if least is None or rank < least:
                chosen, least = variable, rank
        mine = [f for f in factors if chosen in free_variables(f)]
        if least is not None and least[0] > 1:
            break
        variables.remove(chosen)
        if mine:
            at = factors.index(mine[0])
            factors = [f for f in factors if f not in mine]
            factors.insert(at, _close(chosen, mine))
    return variables, factors


def _close(variable: Variable, mine: Sequence[Formula]) -> Formula:
    """`exists variable` over the factors that speak of it, inside a disjunction where only a part of it does."""
    if len(mine) == 1 and isinstance(mine[0], Or) and _separable(mine[0], variable):
        inside = [p for p in mine[0].parts if variable in free_variables(p)]
        outside = [p for p in mine[0].parts if variable not in free_variables(p)]
        return Or((Exists(variable, Or(tuple(inside)) if len(inside) > 1 else inside[0]), *outside))
    return _Narrowed(variable, _conjunction(mine))


def _separable(factor: Formula, variable: Variable) -> bool:
    return isinstance(factor, Or) and any(variable not in free_variables(part) for part in factor.parts)


def _flatten(formula: Formula, variables: list[Variable]) -> list[Formula]:
    """The factors of nested conjunctions and quantifiers; bound variables are told apart by their numbers."""
    if isinstance(formula, Exists) and not isinstance(formula, _Narrowed):
        variables.append(formula.variable)
        return _flatten(formula.part, variables)
    if isinstance(formula, And):
        return [factor for part in formula.parts for factor in _flatten(part, variables)]
    return [formula]


def _conjuncts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _conjunction(factors: Sequence[Formula]) -> Formula:
    return factors[0] if len(factors) == 1 else And(tuple(factors))


def _anchored(variable: Variable, factors: Iterable[Formula]) -> bool:
    """Whether something other than a negation speaks of the variable alone."""
    return any(free_variables(f) == {variable} and not isinstance(f, Not) for f in factors)


def _components(variables: Sequence[Variable], factors: Sequence[Formula]) -> list[list[Variable]]:
    """The variables in groups that no factor connects."""
    groups: list[set[Variable]] = [{variable} for variable in variables]
    for factor in factors:
        touched = [g for g in groups if g & free_variables(factor)]
        groups = [g for g in groups if g not in touched]
        if touched:
            groups.append(set[Variable]().union(*touched))
    return [[v for v in variables if v in group] for group in groups]


def _knotted(cut: Variable, variables: Sequence[Variable], factors: Sequence[Formula]) -> int:
    """How many of the variables still meet two others once one of them is cut."""
    scopes = [free_variables(f) - {cut} for f in factors]
    left = [v for v in variables if v != cut]
    while True:
        for variable in left:
            mine = [s for s in scopes if variable in s]
            others = frozenset[Variable]().union(*mine) - {variable}
            if len(others) <= 1:
                scopes = [s for s in scopes if variable not in s] + [others]
                left.remove(variable)
                break
        else:
            return len(left)


def _substitute(formula: Formula, variable: Variable, value: Entity) -> Formula:
    """The formula with an entity in place of a variable."""

    def term(old: Term) -> Term:
        return value if old == variable else old

    match formula:
        case Atom(relation, subject, object_):
            return Atom(relation, term(subject), term(object_))
        case And(parts) | Or(parts):
            return type(formula)(tuple(_substitute(part, variable, value) for part in parts))
        case Not(part):
            return Not(_substitute(part, variable, value))
        case Exists(bound, part):
            return type(formula)(bound, _substitute(part, variable, value))
    raise TypeError(f"not a formula: {formula!r}")


def _intersect(parts: Sequence[_Part]) -> _Part:
    return _merged(Intersect, parts) if parts else cast(_Part, Everything())


def _union(parts: Sequence[_Part]) -> _Part:
    return _merged(Union, parts)


def _merged(kind: type[Intersect] | type[Union], parts: Sequence[_Part]) -> _Part:
    """One node over all parts, with nested ones of its kind taken apart; parts over sets make a set again."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    return cast(_Part, flat[0] if len(flat) == 1 else kind(tuple(flat)))
