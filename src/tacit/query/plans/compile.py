"""From a question to its plan, with the fuzzy value of every answer kept exactly.

Only steps that hold for every t-norm, t-conorm and negation are taken: nested conjunctions (or disjunctions) are merged
and reordered, and quantifiers narrowed. So each variable is maximised over as early as possible, from the leaves
towards the target; where a variable meets two others in a way no single fuzzy set can carry, a `Condition` tries its
values one by one.

The structure of a question is a question itself, whose entities, relations and variables are called by their slots:
queries that differ only in names share it, and its plan is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

from tacit.errors import PlanError
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Variable, atoms, exists, parts_of
from tacit.query.plans import plan as steps
from tacit.query.plans.canonical import canonical, skeleton
from tacit.query.plans.elimination import Narrowed, anchored, components, conjunction, knotted, narrow, substitute
from tacit.query.plans.plan import Edge, Held, Node, NodeOrEdge, Plan, Prepared, has
from tacit.query.plans.safety import check_safe
from tacit.query.plans.traits import sets_in, sets_of

MAX_CUTS = 6  # a condition multiplies the cost of all inside it
_USUAL = (256, 2**11), (256, 2**15)  # candidates of so many entities, by which costs are compared
_SAVING = 8  # how many times less a plan must cost to be preferred to one that cuts what something narrows
_TRIES = 64  # ways to cut that are compared for one that costs less


def compile_query(query: Query, safe: bool = True) -> Prepared:
    """The plan of a query, and the names that fill its slots.

    However a question is written, it is compiled from its canonical form, so that no score depends on the order of
    writing. A question that names its target nowhere, or leaves a variable to negation, is refused; `safe=False` lets
    it pass.

    >>> from tacit.query.formula import Atom, Entity, Variable
    >>> compile_query(Query(Variable("c"), Atom("borders", Entity("France"), Variable("c")))).plan.root
    Row(slot=0, edge=Relation(slot=0, flip=False))
    """
    if query.kind == "relations":
        return _of_relation(query)
    check_safe(query, negation=safe)
    shape, *names = skeleton(query)
    plan, orders = _ordered(shape, _places(names[0]), _places(names[1]))
    entities, relations, variables = (tuple(old[i] for i in order) for old, order in zip(names, orders, strict=True))
    return Prepared(plan, entities, relations, variables, query.text)


def _of_relation(query: Query) -> Prepared:
    """The plan of whether an atom holds, with its relation slot open for every relation."""
    (atom,) = atoms(query.formula)
    prepared = compile_query(Query((), Atom("", atom.subject, atom.object), text=query.text))
    return replace(prepared, relations=(), variables=(query.target.name,))


def compile_template(query: Query) -> Prepared:
    """The plan of a query whose slots are numbered from left to right as written, one per occurrence."""
    check_safe(query, negation=False)
    shape, entities, relations, variables = skeleton(query)
    plan = _plan(shape, tuple(range(len(shape.targets))), len(variables))
    return Prepared(plan, entities, relations, variables, query.text)


@lru_cache(maxsize=4096)
def _ordered(
    shape: Query, entities: tuple[int, ...], relations: tuple[int, ...]
) -> tuple[Plan, tuple[tuple[int, ...], ...]]:
    """The plan of a structure in its canonical order, and the slots and variables of before in that order."""
    asked = shape.targets
    shape, *orders = skeleton(canonical(shape, (entities, relations)))
    targets = tuple(orders[2].index(target.name) for target in asked)
    plan = _plan(shape, targets, len(orders[2]))
    return plan, tuple(tuple(map(int, order)) for order in orders)


def _places(names: tuple[str, ...]) -> tuple[int, ...]:
    """Where each name stands among them: all that their order depends on, and the same for most questions of a kind."""
    order = {name: place for place, name in enumerate(sorted(set(names)))}
    return tuple([order[name] for name in names])


@lru_cache(maxsize=4096)
def _plan(shape: Query, targets: tuple[int, ...], num_variables: int) -> Plan:
    """The plan of a structure; where other cuts take far less, with those."""
    plan = _plan_by(1, shape, targets, num_variables)
    if not plan.has(steps.Condition) and not any(has(held.ranking, steps.Condition) for held in plan.held):
        return plan
    instead = _plan_by(_TRIES, shape, targets, num_variables)
    saved = all(_SAVING * sets_in(instead, *usual) < sets_in(plan, *usual) for usual in _USUAL)
    return instead if saved else plan


def _plan_by(tries: int, shape: Query, targets: tuple[int, ...], num_variables: int) -> Plan:
    """The plan of a structure: of several answer variables all but one are held, those that something narrows first."""
    ends = [atom.terms for atom in atoms(shape.formula)]
    num_entities = sum(isinstance(end, Entity) for pair in ends for end in pair)
    open_, held, said = list(shape.targets) or [_NOBODY], list[Held](), list[Node]()
    # Cuts come after all that is held: what is said of a value is valued beside the values held after it, too.
    first = num_entities + len(open_) - 1
    slots = _Slots(range(first, first + MAX_CUTS), tries)
    variables, factors = narrow(shape.formula)
    while len(open_) > 1:
        cut = min(open_, key=lambda v: not anchored(v, factors))
        open_.remove(cut)
        slot = num_entities + len(held)
        own = [f for f in factors if f.free <= {cut}]
        marginal = _node(exists([*open_, *variables][::-1], conjunction(factors)), cut, slots)
        bound = [_node(f, cut, slots) for f in own]
        held.append(Held(int(cut.name), slot, _intersect([*said, marginal]), _intersect([*said, *bound])))
        # A value is worth in a tuple what the bound says of it: the same atoms, read the same way.
        said += [steps.At(part, slot) for part in bound]
        rest = [substitute(f, cut, Entity(str(slot))) for f in factors if f not in own]
        variables, factors = narrow(exists(variables[::-1], conjunction(rest))) if rest else ([], [])
    formula = exists(variables[::-1], conjunction(factors)) if held and factors else shape.formula
    root = _node(formula, open_[0], slots) if factors else steps.Everything()
    return Plan(_intersect([*said, root]), num_entities, len(ends), num_variables, targets, tuple(held))


class _Slots(NamedTuple):
    """The slots that are left for cut variables, and how many ways to cut may be compared by what they cost."""

    left: range
    tries: int


_NOBODY = Variable("nobody")  # asked for where a formula holds or not, whoever it is


class _Stuck(Exception):  # noqa: N818 - a signal between two functions below
    """Two outer variables meet inside a quantifier: one of them has to be tried value by value."""


def _node(formula: Formula, target: Variable, slots: _Slots) -> Node:
    """The fuzzy set over `target` of a formula free in nothing else; `slots` are left for cut variables."""
    match formula:
        case Atom():
            return _atom(formula)
        case Narrowed(variable, part):
            return _message(variable, parts_of(part, And), target, slots)
        case Exists():
            return _block(formula, target, slots)
    return _joined(formula, lambda part: _node(part, target, slots))


def _atom(atom: Atom) -> Node:
    """An atom over the target and entities."""
    relation, subject, object_ = int(str(atom.relation)), atom.subject, atom.object
    if isinstance(subject, Variable):
        if isinstance(object_, Variable):
            return steps.Loop(relation)
        return steps.Row(int(object_.name), steps.Relation(relation, flip=True))
    if isinstance(object_, Variable):
        return steps.Row(int(subject.name), steps.Relation(relation))
    # Rows of the query's own entities are shared by all values of a cut variable, whose slots come later.
    first, second = int(subject.name), int(object_.name)
    return steps.At(steps.Row(min(first, second), steps.Relation(relation, flip=second < first)), max(first, second))


def _edge(formula: Formula, source: Variable, target: Variable, slots: _Slots) -> Edge:
    """A formula over two variables as an edge from one to the other."""
    free = formula.free
    if source not in free:
        return steps.Target(_node(formula, target, slots))
    if target not in free:
        return steps.Source(_node(formula, source, slots))
    match formula:
        case Atom(relation, subject):
            return steps.Relation(int(str(relation)), flip=subject == target)
        case Exists():
            variables, factors = narrow(formula)
            if variables:
                raise _Stuck
            return _intersect([_edge(factor, source, target, slots) for factor in factors])
    return _joined(formula, lambda part: _edge(part, source, target, slots))


def _joined(formula: Formula, step: Callable[[Formula], NodeOrEdge]) -> NodeOrEdge:
    """A conjunction, disjunction or negation, of parts that are a step each."""
    match formula:
        case And(parts):
            return _intersect([step(part) for part in parts])
        case Or(parts):
            return _merged(steps.Union, [step(part) for part in parts])
        case Not(part):
            return steps.Complement(step(part))
    raise TypeError(f"not a formula: {formula!r}")


def _message(variable: Variable, factors: Sequence[Formula], target: Variable, slots: _Slots) -> Node:
    """`max_s` over the values of a variable that meets no other, or the target alone."""
    index = int(variable.name)
    own = [f for f in factors if target not in f.free]
    shared = [f for f in factors if target in f.free]
    if not shared:
        return steps.Best(index, _intersect([_node(f, variable, slots) for f in own]))
    try:
        edge = _intersect([_edge(f, variable, target, slots) for f in shared])
    except _Stuck:
        return _condition([variable], factors, target, slots)
    return steps.Project(index, _intersect([_node(f, variable, slots) for f in own]), edge)


def _block(formula: Exists, target: Variable, slots: _Slots) -> Node:
    """Quantifiers over a conjunction: messages towards the target, and a condition for every knot that is left."""
    variables, factors = narrow(formula)
    tied = frozenset(variables)
    own = [f for f in factors if not f.free & tied]
    knots = []
    for knot in components(variables, factors):
        inside = [f for f in factors if f.free & frozenset(knot)]
        if not any(anchored(variable, inside) for variable in knot):
            # Nothing but what is known of the target can rank the values to try: it goes inside.
            inside += [f for f in own if target in f.free]
            own = [f for f in own if target not in f.free]
        knots.append(_condition(knot, inside, target, slots))
    return _intersect([*(_node(f, target, slots) for f in own), *knots])


def _condition(variables: Sequence[Variable], factors: Sequence[Formula], target: Variable, slots: _Slots) -> Node:
    """Tries the values of one of the variables; with it out of the way the rest is smaller, in the end a tree."""
    if not slots.left:
        raise PlanError(f"the variables form cycles that take more than {MAX_CUTS} nested cuts; ask a simpler question")
    ranks = {v: (knotted(v, variables, factors), not anchored(v, factors)) for v in variables}
    cut = min(variables, key=ranks.__getitem__)
    alike = [v for v in variables if v != cut and ranks[v][0] == ranks[cut][0]]  # they leave as little
    cuts = [*((v, variables, factors) for v in (cut, *alike)), *_lifted(variables, factors)]
    usual, *others = cuts[: slots.tries]
    share = slots._replace(tries=slots.tries // (1 + len(others)))
    choices = [_cut(*usual, target, share)]
    for each in others:
        with suppress(PlanError):  # which takes too many more cuts
            choices.append(_cut(*each, target, share))
    return min(choices, key=lambda step: sets_of(step, *_USUAL[0])) if others else choices[0]


def _lifted(
    variables: Sequence[Variable], factors: Sequence[Formula]
) -> Iterator[tuple[Variable, list[Variable], list[Formula]]]:
    """Variables bound in a disjunction, to be cut instead: `(exists x . f) | g` is `exists x . (f | g)`."""
    for place, factor in enumerate(factors):
        parts = factor.parts if isinstance(factor, Or) else ()
        for part in parts:
            if isinstance(part, Exists) and part.variable not in variables:
                lifted = Or((*parts_of(part.part, Or), *(other for other in parts if other is not part)))
                yield part.variable, [*variables, part.variable], [*factors[:place], lifted, *factors[place + 1 :]]


def _cut(
    cut: Variable, variables: Sequence[Variable], factors: Sequence[Formula], target: Variable, slots: _Slots
) -> steps.Condition:
    """Tries the values of one of the variables."""
    slot, deeper = slots.left[0], slots._replace(left=slots.left[1:])
    own = [f for f in factors if f.free == {cut}]
    rest = [substitute(f, cut, Entity(str(slot))) for f in factors if f.free != {cut}]
    ranking = [_node(f, cut, slots) for f in own] or _neighbours(cut, factors, slots)
    inner = exists([variable for variable in variables if variable != cut], conjunction(rest))
    body: list[Node] = [steps.At(_node(f, cut, deeper), slot) for f in own]
    body.append(_node(inner, target, deeper))
    return steps.Condition(int(cut.name), slot, _intersect(ranking), _intersect(body), bounded=bool(own or not ranking))


def _neighbours(cut: Variable, factors: Sequence[Formula], slots: _Slots) -> list[Node]:
    """What to try first of a cut variable with no part of its own: what each neighbour's own parts let through.

    They bound nothing: here an atom is read from the neighbour, in the body from the value that is tried.
    """
    ranking: list[Node] = []
    pairs = [f.free - {cut} for f in factors if cut in f.free and len(f.free) == 2]
    for (neighbour,) in dict.fromkeys(pairs):
        own = [f for f in factors if f.free == {neighbour}]
        shared = [f for f in factors if f.free == {cut, neighbour}]
        if anchored(neighbour, own):
            with suppress(_Stuck):
                edge = _intersect([_edge(f, neighbour, cut, slots) for f in shared])
                reach = _intersect([_node(f, neighbour, slots) for f in own])
                ranking.append(steps.Project(int(neighbour.name), reach, edge))
    return ranking


def _intersect(parts: Sequence[NodeOrEdge]) -> NodeOrEdge:
    return _merged(steps.Intersect, parts) if parts else steps.Everything()


def _merged(kind: type[steps.Intersect[Any]] | type[steps.Union[Any]], parts: Sequence[NodeOrEdge]) -> NodeOrEdge:
    """One node over all parts, with nested ones of its kind taken apart; parts over sets make a set again."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    return cast(NodeOrEdge, flat[0] if len(flat) == 1 else kind(tuple(flat)))
