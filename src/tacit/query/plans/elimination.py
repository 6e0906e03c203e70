"""Moves quantifiers to their narrowest scope, by steps that keep every fuzzy value.

`exists x . (f(x) & g)` is `(exists x . f(x)) & g`, and the same with `|`, where `x` is not free in
`g`. A conjunction under quantifiers is a list of *factors*; a variable whose factors contain at
most one other is closed over them. Free variables are quantified in their narrowest scope, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Variable,
    exists,
    leaves,
    rebuilt,
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
        return rebuilt(formula, lambda part: quantified(part, variables))
    shared = variables
    if isinstance(formula, And | Or):
        # A variable of a single part goes inside it; one that several share is bound around them.
        shared = frozenset(
            v for v in variables if sum(v in part.free for part in formula.parts) > 1
        )
        inner = [quantified(part, (variables - shared) & part.free) for part in formula.parts]
        formula = type(formula)(tuple(inner))
    order: list[Entity | Variable | str] = [term for leaf in leaves(formula) for term in leaf.terms]
    order += [leaf.relation for leaf in leaves(formula) if isinstance(leaf, Atom)]
    return exists(sorted(shared, key=order.index), formula)


class Narrowed(Exists):
    """A quantifier in its narrowest scope.

    All its parts contain its variable and at most one other.
    """

    def __post_init__(self) -> None:
        # A chain of variables nests one of these per step, which must not count as depth.
        self._keep(self.part.depth, self.part.free - {self.variable})


def narrow(formula: Formula) -> tuple[list[Variable], list[Formula]]:
    """Moves the quantifiers of a block inwards; returns the variables left and the factors."""
    variables, factors = factored(formula)
    while variables:
        ranks = {variable: _rank(variable, factors) for variable in variables}
        chosen = min(variables, key=ranks.__getitem__)
        if ranks[chosen][0] > 1:
            break
        variables.remove(chosen)
        mine = [f for f in factors if chosen in f.free]
        if mine:
            at = factors.index(mine[0])
            factors = [f for f in factors if f not in mine]
            factors.insert(at, _close(chosen, mine))
    return variables, factors


def _rank(variable: Variable, factors: Sequence[Formula]) -> tuple[int, bool]:
    """How many variables one meets, and whether it is unanchored: the lowest goes first."""
    mine = [f for f in factors if variable in f.free]
    others = frozenset[Variable]().union(*(f.free for f in mine)) - {variable}
    split = len(mine) == 1 and _separable(mine[0], variable)
    return 0 if split else len(others), not anchored(variable, mine)


def _close(variable: Variable, mine: Sequence[Formula]) -> Formula:
    """`exists variable` over its factors, inside a disjunction where only a part has it."""
    if len(mine) == 1 and isinstance(mine[0], Or) and _separable(mine[0], variable):
        inside = [p for p in mine[0].parts if variable in p.free]
        outside = [p for p in mine[0].parts if variable not in p.free]
        return Or((Exists(variable, Or(tuple(inside)) if len(inside) > 1 else inside[0]), *outside))
    return Narrowed(variable, conjunction(mine))


def _separable(factor: Formula, variable: Variable) -> bool:
    return isinstance(factor, Or) and any(variable not in part.free for part in factor.parts)


def factored(formula: Formula) -> tuple[list[Variable], list[Formula]]:
    """The variables and factors of nested quantifiers and conjunctions.

    Variables are told apart by their numbers.
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
    """Whether a factor that is no negation or inequality restricts a variable alone."""
    return any(f.free == {variable} and not isinstance(f, Not | Inequality) for f in factors)


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
    """How many variables still meet two others once one of them is cut."""
    scopes = [f.free - {cut} for f in factors]
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


def substitute(formula: Formula, variable: Variable, value: Entity) -> Formula:
    """The formula with an entity in place of a variable."""
    if isinstance(formula, Atom):
        return Atom(
            formula.relation, *(value if term == variable else term for term in formula.terms)
        )
    if isinstance(formula, Inequality):
        return Inequality(*(value if term == variable else term for term in formula.terms))
    if isinstance(formula, Exists) and formula.variable == variable:
        return formula
    return rebuilt(formula, lambda part: substitute(part, variable, value))
