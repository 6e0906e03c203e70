"""Compiles a question to a plan that keeps the fuzzy value of every answer exactly.

Only steps that hold for every t-norm, t-conorm and negation are taken: nested conjunctions (or
disjunctions) are merged and reordered, and quantifiers narrowed. So each variable is maximised over
as early as possible, from the leaves towards the target; where a variable meets two others in a way
no single fuzzy set can carry, a `Cutset` tries its values one by one.

The structure of a question is a question itself, whose entities, relations and variables are called
by their slots: queries that differ only in names share it, and its plan is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

from tacit.errors import PlanError
from tacit.query.comparison import Comparison
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
    Term,
    Variable,
    atoms,
    exists,
    leaves,
    parts_of,
)
from tacit.query.plans import plan as steps
from tacit.query.plans.canonical import canonical, ranks, skeleton
from tacit.query.plans.plan import (
    CompiledQuery,
    Edge,
    EnumeratedTarget,
    Node,
    NodeOrEdge,
    Plan,
    has,
)
from tacit.query.plans.scopes import (
    Narrowed,
    anchored,
    check_safe,
    components,
    conjunction,
    narrow,
    residual_cycles,
    substitute,
)
from tacit.query.plans.traits import sets_in, sets_of

MAX_CUTS = 6  # a condition multiplies the cost of all inside it
_SIZES = (256, 2**11), (256, 2**15)  # pairs of k and N, by which costs are compared
_SAVING = 8  # how many times less a plan must cost to be preferred to one that cuts by anchors
_TRIES = 64  # cuts that are compared


def compile_query(query: Query, safe: bool = True) -> CompiledQuery:
    """Compiles a query to its plan and the names that fill its slots.

    However a question is written, it is compiled from its canonical form, so that no score depends
    on the order of writing. A question that names its target nowhere, or leaves a variable to
    negation, is refused; `safe=False` lets it pass.

    >>> from tacit.query.formula import Atom, Entity, Variable
    >>> c = Variable("c")
    >>> compile_query(Query(c, Atom("borders", Entity("France"), c))).plan.root
    Row(slot=0, edge=Relation(slot=0, flip=False))
    """
    if query.kind == "relations":
        return _of_relation(query)
    check_safe(query, negation=safe)
    shape, *names = skeleton(query)
    # The order depends on the ranks of names alone, which most questions of a kind share.
    plan, orders = _ordered(shape, tuple(ranks(names[0])), tuple(ranks(names[1])))
    entities, relations, variables = (
        tuple(old[i] for i in order) for old, order in zip(names, orders, strict=True)
    )
    return CompiledQuery(plan, entities, relations, variables, query.text)


def _of_relation(query: Query) -> CompiledQuery:
    """The plan of an atom whose relation is asked for, its relation slot left open."""
    (atom,) = atoms(query.formula)
    compiled = compile_query(Query((), Atom("", *atom.terms), text=query.text))
    return replace(compiled, relations=(), variables=(query.target.name,))


def compile_template(query: Query) -> CompiledQuery:
    """The plan of a query with one slot per occurrence, numbered from left to right."""
    check_safe(query, negation=False)
    shape, entities, relations, variables = skeleton(query)
    plan = _plan(shape, tuple(range(len(shape.targets))), len(variables))
    return CompiledQuery(plan, entities, relations, variables, query.text)


@lru_cache(maxsize=4096)
def _ordered(
    shape: Query, entities: tuple[int, ...], relations: tuple[int, ...]
) -> tuple[Plan, tuple[tuple[int, ...], ...]]:
    """The plan of a structure in canonical order, and its former slots in that order."""
    original = shape.targets
    shape, *orders = skeleton(canonical(shape, (entities, relations)))
    targets = tuple(orders[2].index(target.name) for target in original)
    plan = _plan(shape, targets, len(orders[2]))
    return plan, tuple(tuple(map(int, order)) for order in orders)


@lru_cache(maxsize=4096)
def _plan(shape: Query, targets: tuple[int, ...], num_variables: int) -> Plan:
    """The plan of a structure, with other cuts where those cost far less."""
    plan = _plan_by(1, shape, targets, num_variables)
    if not any(has(root, steps.Cutset) for root in plan.roots):
        return plan
    alternative = _plan_by(_TRIES, shape, targets, num_variables)
    cheaper = all(_SAVING * sets_in(alternative, *size) < sets_in(plan, *size) for size in _SIZES)
    return alternative if cheaper else plan


def _plan_by(tries: int, shape: Query, targets: tuple[int, ...], num_variables: int) -> Plan:
    """The plan of a structure, comparing at most `tries` cuts.

    All answer variables but the last are enumerated, anchored ones first.
    """
    num_relations = sum(1 for _ in atoms(shape.formula))
    num_entities = sum(isinstance(end, Entity) for f in leaves(shape.formula) for end in f.terms)
    open_targets = list(shape.targets) or [Variable("nobody")]
    enumerated = list[EnumeratedTarget]()
    bounds = list[Node]()
    # Cut slots come after all enumerated ones, beside which a bound is evaluated, too.
    first = num_entities + len(open_targets) - 1
    slots = _Slots(range(first, first + MAX_CUTS), tries)
    variables, factors = narrow(shape.formula)
    while len(open_targets) > 1:
        cut = min(open_targets, key=lambda v: not anchored(v, factors))
        open_targets.remove(cut)
        slot = num_entities + len(enumerated)
        marginal = _node(
            exists([*open_targets, *variables][::-1], conjunction(factors)), cut, slots
        )
        bound = [_node(f, cut, slots) for f in factors if f.free <= {cut}]
        enumerated.append(
            EnumeratedTarget(
                int(cut.name), slot, _intersect([*bounds, marginal]), _intersect([*bounds, *bound])
            )
        )
        # In a tuple a value has the score of its bound: the same atoms, read the same way.
        bounds += [steps.At(part, slot) for part in bound]
        others = [substitute(f, cut, Entity(str(slot))) for f in factors if not f.free <= {cut}]
        variables, factors = (
            narrow(exists(variables[::-1], conjunction(others))) if others else ([], [])
        )
    formula = shape.formula
    if enumerated and factors:
        formula = exists(variables[::-1], conjunction(factors))
    root = _node(formula, open_targets[0], slots) if factors else steps.Everything()
    return Plan(
        _intersect([*bounds, root]),
        num_entities,
        num_relations,
        num_variables,
        targets,
        tuple(enumerated),
    )


class _Slots(NamedTuple):
    """The free slots for cut variables, and the number of cuts that may be compared."""

    free: range
    tries: int


class _NeedsCut(Exception):  # noqa: N818
    """Two outer variables meet inside a quantifier, so that one of them must be cut."""


def _node(formula: Formula, target: Variable, slots: _Slots) -> Node:
    """Compiles a formula whose only free variable is `target` to a fuzzy set."""
    match formula:
        case Atom():
            return _atom(formula)
        case Inequality():
            return _inequality(formula)
        case Comparison():
            return _comparison(formula)
        case Narrowed(variable, part):
            return _message(variable, parts_of(part, And), target, slots)
        case Exists():
            return _block(formula, target, slots)
    return _compound(formula, lambda part: _node(part, target, slots))


def _atom(atom: Atom) -> Node:
    """An atom over the target and entities."""
    relation = int(str(atom.relation))
    slots = [int(term.name) for term in atom.terms if isinstance(term, Entity)]
    match slots:
        case []:
            return steps.Loop(relation)
        case [slot]:
            return steps.Row(slot, steps.Relation(relation, flip=atom.subject in atom.free))
    # All values of a cut variable, whose slots are later, share the rows of the query's entities.
    first, second = sorted(slots)
    row = steps.Row(first, steps.Relation(relation, flip=slots != [first, second]))
    return steps.At(row, second)


def _inequality(formula: Inequality) -> Node:
    """An inequality between the target and an entity, or between two entities."""
    first, *second = sorted(int(term.name) for term in formula.terms if isinstance(term, Entity))
    others = steps.Row(first, steps.Unequal())
    return steps.At(others, *second) if second else others


def _comparison(formula: Comparison) -> Node:
    """A comparison of values of the target and entities."""
    slots = sorted(int(term.name) for term in formula.terms if isinstance(term, Entity))
    if formula.right is None or not slots:
        minus = formula.right.attribute if formula.right else ""
        own = steps.Within(formula.left.attribute, *formula.interval, minus)
        return steps.At(own, *slots) if slots else own
    first, *second = slots
    row = steps.Row(first, _difference(formula, Entity(str(first))))
    return steps.At(row, *second) if second else row


def _difference(formula: Comparison, source: Term) -> steps.Difference:
    """The edge from one of the two terms to the other."""
    oriented = formula if formula.left.term == source else formula.flipped()
    left, right = (value.attribute for value in oriented.values)
    return steps.Difference(left, right, *oriented.interval)


def _edge(formula: Formula, source: Variable, target: Variable, slots: _Slots) -> Edge:
    """Compiles a formula over two variables to an edge from one to the other."""
    free = formula.free
    if source not in free:
        return steps.Target(_node(formula, target, slots))
    if target not in free:
        return steps.Source(_node(formula, source, slots))
    match formula:
        case Atom(relation, subject):
            return steps.Relation(int(str(relation)), flip=subject == target)
        case Inequality():
            return steps.Unequal()
        case Comparison():
            return _difference(formula, source)
        case Exists():
            variables, factors = narrow(formula)
            if variables:
                raise _NeedsCut
            return _intersect([_edge(factor, source, target, slots) for factor in factors])
    return _compound(formula, lambda part: _edge(part, source, target, slots))


def _compound(formula: Formula, step: Callable[[Formula], NodeOrEdge]) -> NodeOrEdge:
    """Compiles the parts of a conjunction, disjunction or negation and joins them."""
    match formula:
        case And(parts):
            return _intersect([step(part) for part in parts])
        case Or(parts):
            return _flatten(steps.Union, [step(part) for part in parts])
        case Not(part):
            return steps.Complement(step(part))
    raise TypeError(f"not a formula: {formula!r}")


def _message(
    variable: Variable, factors: Sequence[Formula], target: Variable, slots: _Slots
) -> Node:
    """`max_s` over the values of a variable that meets the target alone, or nothing else."""
    index = int(variable.name)
    own = [f for f in factors if target not in f.free]
    links = [f for f in factors if target in f.free]
    try:
        edges = [_edge(f, variable, target, slots) for f in links]
    except _NeedsCut:
        return _cutset([variable], factors, target, slots)
    source = _intersect([_node(f, variable, slots) for f in own])
    return steps.Project(index, source, _intersect(edges)) if edges else steps.Best(index, source)


def _block(formula: Exists, target: Variable, slots: _Slots) -> Node:
    """Compiles quantifiers over a conjunction: messages, and a cutset for every cycle."""
    variables, factors = narrow(formula)
    own = [f for f in factors if f.free.isdisjoint(variables)]
    cutsets = list[Node]()
    for component in components(variables, factors):
        inside = [f for f in factors if not f.free.isdisjoint(component)]
        if not any(anchored(variable, inside) for variable in component):
            # Only factors of the target can rank the values to try, so they go inside.
            inside += [f for f in own if target in f.free]
            own = [f for f in own if target not in f.free]
        cutsets.append(_cutset(component, inside, target, slots))
    return _intersect([*(_node(f, target, slots) for f in own), *cutsets])


def _cutset(
    variables: Sequence[Variable], factors: Sequence[Formula], target: Variable, slots: _Slots
) -> Node:
    """Cuts one of the variables, which leaves a smaller problem, and in the end a tree."""
    if not slots.free:
        raise PlanError(
            f"the variables form cycles, and more than {MAX_CUTS} of them would have to be tried "
            "inside one another; ask the question in parts"
        )
    cycles = {v: residual_cycles(v, variables, factors) for v in variables}
    fewest = min(cycles.values())
    ties = [v for v in variables if cycles[v] == fewest]
    cut = min(ties, key=lambda v: not anchored(v, factors))
    ties.remove(cut)
    cuts = [*((v, variables, factors) for v in (cut, *ties)), *_lifted(variables, factors)]
    first, *others = cuts[: slots.tries]
    slots = slots._replace(tries=slots.tries // (1 + len(others)))
    choices = [_cut(*first, target, slots)]
    for other in others:
        with suppress(PlanError):  # which takes too many more cuts
            choices.append(_cut(*other, target, slots))
    return min(choices, key=lambda step: sets_of(step, *_SIZES[0])) if others else choices[0]


def _lifted(
    variables: Sequence[Variable], factors: Sequence[Formula]
) -> Iterator[tuple[Variable, list[Variable], list[Formula]]]:
    """Yields variables bound in a disjunction, lifted so that they can be cut.

    `(exists x . f) | g` is `exists x . (f | g)`.
    """
    for i, factor in enumerate(factors):
        parts = factor.parts if isinstance(factor, Or) else ()
        for part in parts:
            if isinstance(part, Exists) and part.variable not in variables:
                lifted = Or(
                    (*parts_of(part.part, Or), *(each for each in parts if each is not part))
                )
                changed = [*factors[:i], lifted, *factors[i + 1 :]]
                yield part.variable, [*variables, part.variable], changed


def _cut(
    cut: Variable,
    variables: Sequence[Variable],
    factors: Sequence[Formula],
    target: Variable,
    slots: _Slots,
) -> steps.Cutset:
    """Compiles a cutset that tries the values of one of the variables."""
    slot = slots.free[0]
    body_slots = slots._replace(free=slots.free[1:])
    own = [f for f in factors if f.free == {cut}]
    others = [substitute(f, cut, Entity(str(slot))) for f in factors if f.free != {cut}]
    ranking = [_node(f, cut, slots) for f in own] or _neighbours(cut, factors, slots)
    inner = exists([v for v in variables if v != cut], conjunction(others))
    body: list[Node] = [steps.At(_node(f, cut, body_slots), slot) for f in own]
    body.append(_node(inner, target, body_slots))
    return steps.Cutset(
        int(cut.name), slot, _intersect(ranking), _intersect(body), bounded=bool(own or not ranking)
    )


def _neighbours(cut: Variable, factors: Sequence[Formula], slots: _Slots) -> list[Node]:
    """Ranks a cut variable that has no part of its own by the parts of its neighbours.

    They bound nothing: here an atom is read from the neighbour, in the body from the value that is
    tried.
    """
    ranking = list[Node]()
    pairs = [f.free - {cut} for f in factors if cut in f.free and len(f.free) == 2]
    for (neighbour,) in dict.fromkeys(pairs):
        own = [f for f in factors if f.free == {neighbour}]
        links = [f for f in factors if f.free == {cut, neighbour}]
        if anchored(neighbour, own) and any(isinstance(f, Atom | Not | Or | Exists) for f in links):
            with suppress(_NeedsCut):
                edge = _intersect([_edge(f, neighbour, cut, slots) for f in links])
                source = _intersect([_node(f, neighbour, slots) for f in own])
                ranking.append(steps.Project(int(neighbour.name), source, edge))
    return ranking


def _intersect(parts: Sequence[NodeOrEdge]) -> NodeOrEdge:
    return _flatten(steps.Intersect, parts) if parts else steps.Everything()


def _flatten(
    kind: type[steps.Intersect[Any]] | type[steps.Union[Any]], parts: Sequence[NodeOrEdge]
) -> NodeOrEdge:
    """One node over all parts, nested ones of its kind flattened."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    return cast(NodeOrEdge, flat[0] if len(flat) == 1 else kind(tuple(flat)))
