"""The scopes of variables: narrows quantifiers and refuses unsafe questions.

Narrowing keeps every fuzzy value: `exists x . (f(x) & g)` is `(exists x . f(x)) & g`, and the same
with `|`, where `x` is not free in `g`. A conjunction under quantifiers is a list of *factors*; a
variable whose factors contain at most one other is closed over them. Free variables are quantified
in their narrowest scope, too.

A question is *safe* if each of its variables is bound, and occurs in an atom that must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tacit.errors import PlanError
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
    exists,
    leaves,
    map_children,
    parts_of,
    walk,
)


def quantified(formula: Formula, variables: frozenset[Variable]) -> Formula:
    """Binds some free variables by `exists`, each in the narrowest scope of its atoms.

    >>> t, v = Variable("t"), Variable("v")
    >>> quantified(Atom("r", Entity("a"), t) & ~Atom("q", v, t), frozenset({v}))
    <r(a, ?t) & !(exists ?v . q(?v, ?t))>
    """
    if not variables:
        return formula
    if isinstance(formula, Not | Exists):
        return map_children(formula, lambda part: quantified(part, variables))
    outer = variables
    if isinstance(formula, And | Or):
        # A variable of a single part goes inside it; one that several share is bound around them.
        outer = frozenset(v for v in variables if sum(v in part.free for part in formula.parts) > 1)
        inner = variables - outer
        formula = map_children(formula, lambda part: quantified(part, inner & part.free))
    order: list[Entity | Variable | str] = [term for leaf in leaves(formula) for term in leaf.terms]
    order += [leaf.relation for leaf in leaves(formula) if isinstance(leaf, Atom)]
    return exists(sorted(outer, key=order.index), formula)


class Narrowed(Exists):
    """A quantifier in its narrowest scope: each part has its variable and at most one other."""

    def __post_init__(self) -> None:
        # A chain of variables nests one of these per step, which must not count as depth.
        self._set(self.part.depth, self.part.free - {self.variable})


def narrow(formula: Formula) -> tuple[list[Variable], list[Formula]]:
    """Moves the quantifiers of a block inwards; returns the other variables and the factors."""
    variables, factors = factored(formula)
    while variables:
        ranks = {variable: _rank(variable, factors) for variable in variables}
        first = min(ranks, key=ranks.__getitem__)
        if ranks[first][0] > 1:
            break
        variables.remove(first)
        touching = [f for f in factors if first in f.free]
        if touching:
            at = factors.index(touching[0])
            factors = [f for f in factors if f not in touching]
            factors.insert(at, _close(first, touching))
    return variables, factors


def _rank(variable: Variable, factors: Sequence[Formula]) -> tuple[int, bool]:
    """How many variables one meets, and whether it is unanchored: the lowest goes first."""
    touching = [f for f in factors if variable in f.free]
    adjacent = _adjacent(variable, [f.free for f in touching])
    number = 0 if _split(touching, variable) else len(adjacent)
    return number, not anchored(variable, touching)


def _adjacent(variable: Variable, scopes: Iterable[frozenset[Variable]]) -> frozenset[Variable]:
    """The variables that share a scope with one."""
    return frozenset[Variable]().union(*(s for s in scopes if variable in s)) - {variable}


def _close(variable: Variable, factors: Sequence[Formula]) -> Formula:
    """`exists variable` over its factors, inside a disjunction where only a part has it."""
    outside = _split(factors, variable)
    if outside:
        inside = [p for p in parts_of(factors[0], Or) if variable in p.free]
        return Or((Exists(variable, Or(tuple(inside)) if len(inside) > 1 else inside[0]), *outside))
    return Narrowed(variable, conjunction(factors))


def _split(factors: Sequence[Formula], variable: Variable) -> list[Formula]:
    """The parts of a single disjunction that do not contain a variable."""
    parts = parts_of(factors[0], Or) if len(factors) == 1 else ()
    return [part for part in parts if variable not in part.free]


def factored(formula: Formula) -> tuple[list[Variable], list[Formula]]:
    """The variables and factors of nested quantifiers and conjunctions.

    Every quantifier must have a variable of its own.
    """
    if isinstance(formula, Exists) and not isinstance(formula, Narrowed):
        variables, factors = factored(formula.part)
        return [formula.variable, *variables], factors
    if isinstance(formula, And):
        inside = [factored(part) for part in formula.parts]
        return [v for variables, _ in inside for v in variables], [
            f for _, factors in inside for f in factors
        ]
    return [], [formula]


def conjunction(factors: Sequence[Formula]) -> Formula:
    """All factors as one formula."""
    return factors[0] if len(factors) == 1 else And(tuple(factors))


def anchored(variable: Variable, factors: Iterable[Formula]) -> bool:
    """Whether a factor that is no negation, inequality or comparison restricts a variable alone."""
    return any(
        f.free == {variable} and not isinstance(f, Not | Inequality | Comparison) for f in factors
    )


def components(variables: Sequence[Variable], factors: Sequence[Formula]) -> list[list[Variable]]:
    """Groups the variables that factors connect."""
    groups: list[set[Variable]] = [{variable} for variable in variables]
    for factor in factors:
        touched = [g for g in groups if g & factor.free]
        groups = [g for g in groups if g not in touched]
        if touched:
            groups.append(set[Variable]().union(*touched))
    return [[v for v in variables if v in group] for group in groups]


def residual_cycles(
    cut: Variable, variables: Sequence[Variable], factors: Sequence[Formula]
) -> int:
    """The number of variables that still meet two others once one of them is cut."""
    scopes = [f.free - {cut} for f in factors]
    remaining = [v for v in variables if v != cut]
    while leaf := next((v for v in remaining if len(_adjacent(v, scopes)) <= 1), None):
        scopes = [s for s in scopes if leaf not in s] + [_adjacent(leaf, scopes)]
        remaining.remove(leaf)
    return len(remaining)


def substitute(formula: Formula, variable: Variable, value: Entity) -> Formula:
    """The formula with an entity in place of a variable."""
    if isinstance(formula, Leaf):
        return formula.with_terms([value if term == variable else term for term in formula.terms])
    if isinstance(formula, Exists) and formula.variable == variable:
        return formula
    return map_children(formula, lambda part: substitute(part, variable, value))


_Quantifier = Callable[[Iterable[bool]], bool]  # `all` alternatives, or `any` of them


def check_safe(query: Query, negation: bool = True) -> None:
    """Refuses unbound variables and, where `negation`, those that only a negation mentions."""
    unbound = sorted(map(str, query.formula.free.difference(query.targets)))
    if unbound:
        are = "are" if len(unbound) > 1 else "is"
        raise PlanError(
            f"{', '.join(unbound)} {are} neither asked for nor bound; "
            f"write 'exists {unbound[0]} . ...'"
        )
    if not negation:
        return
    for target in query.targets:
        if target not in query.formula.free:
            raise PlanError(
                f"the target {target} occurs nowhere in the formula; ask about it in an atom"
            )
        if not _asserted(target, query.formula, bound=False):
            raise PlanError(_unsafe_reason(target, query.formula))
    for part in walk(query.formula):
        if (
            isinstance(part, Exists)
            and part.variable in part.part.free
            and not _asserted(part.variable, part.part, bound=True)
        ):
            raise PlanError(_unsafe_reason(part.variable, part.part))


def _unsafe_reason(variable: Variable, formula: Formula) -> str:
    if _asserted(variable, formula, bound=True, quantifier=any):
        return (
            f"one alternative of an 'or' leaves {variable} open, so that every entity would fit "
            f"it; add an atom about {variable} that is not negated to each alternative"
        )
    unequal = any(
        isinstance(leaf, Inequality) and variable in leaf.free for leaf in leaves(formula)
    )
    return (
        f"{variable} occurs only under negation{' or in an inequality' * unequal}, which says what "
        f"it is not and never what it is; add an atom about {variable} that is not negated"
    )


def _asserted(
    variable: Variable,
    formula: Formula,
    bound: bool,
    positive: bool = True,
    quantifier: _Quantifier = all,
) -> bool:
    """Whether a formula, or its negation, implies an atom with a variable.

    By default all alternatives must imply one: an alternative without the target admits every
    entity. For a `bound` variable, alternatives without it do not count.
    """
    if variable not in formula.free or isinstance(formula, Inequality):
        return False
    match formula:
        case Not(part):
            return _asserted(variable, part, bound, not positive, quantifier)
        case Exists(_, part):
            return _asserted(variable, part, bound, positive, quantifier)
        case And(parts) | Or(parts):
            joint = any if isinstance(formula, And) == positive else quantifier
            return joint(
                _asserted(variable, part, bound, positive, quantifier)
                for part in parts
                if not bound or variable in part.free
            )
    return positive
