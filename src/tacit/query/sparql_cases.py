"""The solutions of a SPARQL pattern as formulas, one for each way in which they bind variables.

A solution binds some of the variables, and alternatives may bind different ones. So a pattern is read as *cases*: which
variables a solution binds, which of them have one certain value (from `VALUES`), and a formula that holds of exactly
those solutions. A variable with a certain value stands in the formula as itself, until it is closed: then the value
takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tacit.query.elimination import substitute
from tacit.query.formula import Entity, Formula, Variable
from tacit.query.quantify import quantified

Domain = frozenset[Variable]
Fixed = frozenset[tuple[Variable, Entity]]
NONE: Domain = frozenset()


class Case(NamedTuple):
    """The variables that some solutions bind, and the values of those that have one by VALUES."""

    domain: Domain
    fixed: Fixed = frozenset()

    def agrees(self, other: Case) -> bool:
        """Whether no variable has different values in two cases."""
        return len(dict(self.fixed | other.fixed)) == len(self.fixed | other.fixed)


Truth = Formula | bool  # True where nothing need hold
Cases = dict[Case, Truth]
START: Cases = {Case(NONE): True}


def joined(left: Cases, right: Cases) -> Cases:
    """The solutions of both, which agree on what they share."""
    return _merged(
        (Case(a.domain | b.domain, a.fixed | b.fixed), both(f, g))
        for a, f in left.items()
        for b, g in right.items()
        if a.agrees(b)
    )


def united(branches: Iterable[Cases], needed: Domain) -> Cases:
    """The solutions of any, without the variables that nothing else speaks of."""
    return _merged(_kept(case, formula, needed) for branch in branches for case, formula in branch.items())


def some(cases: Cases) -> Truth:
    """That there is a solution."""
    return united([cases], NONE).get(Case(NONE), False)


def _kept(case: Case, formula: Truth, needed: Domain) -> tuple[Case, Truth]:
    fixed = frozenset(pair for pair in case.fixed if pair[0] in needed)
    if isinstance(formula, Formula):
        for variable, value in case.fixed - fixed:
            formula = substitute(formula, variable, value)
        formula = quantified(formula, (case.domain - needed) & formula.free)
    return Case(case.domain & needed, fixed), formula


def _merged(cases: Iterable[tuple[Case, Truth]]) -> Cases:
    """One formula for each case."""
    merged: Cases = {}
    for case, formula in cases:
        merged[case] = either(merged.get(case, False), formula)
    return merged


def both(left: Truth, right: Truth) -> Truth:
    """That two things hold."""
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return left & right


def either(left: Truth, right: Truth) -> Truth:
    """That one of two things holds."""
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return left | right


def not_(formula: Truth) -> Truth:
    """That something does not hold."""
    return not formula if isinstance(formula, bool) else ~formula
