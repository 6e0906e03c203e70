"""The solutions of a SPARQL pattern as formulas, one for each way in which they bind variables.

A solution binds some of the variables, and alternatives may bind different ones. So a pattern is read as *cases*: which
variables a solution binds, which of them have one certain value (from `VALUES`), and a formula that holds of exactly
those solutions. A variable with a certain value stands in the formula as itself, until it is closed: then the value
takes its place, and several values are alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from tacit.query.formula import And, Entity, Formula, Variable
from tacit.query.plans.elimination import conjunction, quantified, substitute

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
    rows: dict[tuple[Case, Truth, Domain], list[Fixed]] = {}  # of cases that differ in values that go
    for case, formula in (pair for branch in branches for pair in branch.items()):
        kept = frozenset(pair for pair in case.fixed if pair[0] in needed)
        rows.setdefault((Case(case.domain & needed, kept), formula, case.domain), []).append(case.fixed - kept)
    closed = []
    for (case, formula, domain), gone in rows.items():
        if isinstance(formula, Formula):
            formula = _one_of(formula, gone)
            formula = quantified(formula, (domain - needed) & formula.free)
        closed.append((case, formula))
    return _merged(closed)


def some(cases: Cases) -> Truth:
    """That there is a solution."""
    return united([cases], NONE).get(Case(NONE), False)


def _one_of(formula: Formula, rows: list[Fixed]) -> Formula:
    """That a formula holds of the values of some row: alternatives, of no more than the parts that speak of them."""
    variables = {variable for row in rows for variable, _ in row}
    if isinstance(formula, And):
        spoken = [part for part in formula.parts if part.free & variables]
        if 0 < len(spoken) < len(formula.parts):
            others = [part for part in formula.parts if not part.free & variables]
            return And((*others, _one_of(conjunction(spoken), rows)))
    parts = [reduce(lambda part, pair: substitute(part, *pair), row, formula) for row in rows]
    return reduce(Formula.__or__, dict.fromkeys(parts))


def _merged(cases: Iterable[tuple[Case, Truth]]) -> Cases:
    """One formula for each case."""
    merged: Cases = {}
    for case, formula in cases:
        merged[case] = either(merged.get(case, False), formula)
    return merged


def both(left: Truth, right: Truth) -> Truth:
    """That two things hold."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is True else left if right is True else False
    return conjunction(list(dict.fromkeys((left & right).parts)))  # what is said twice is said


def either(left: Truth, right: Truth) -> Truth:
    """That one of two things holds."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is False else left if right is False else True
    return reduce(Formula.__or__, dict.fromkeys((left | right).parts))


def not_(formula: Truth) -> Truth:
    """That something does not hold."""
    return not formula if isinstance(formula, bool) else ~formula
