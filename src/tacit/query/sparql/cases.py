"""The solutions of a SPARQL pattern as formulas, one per set of bound variables.

A solution binds some of the variables, and alternatives may bind different ones. So a pattern is
read as *cases*: which variables a solution binds, which of them have one certain value (from
`VALUES`), and a formula that holds of exactly those solutions. A variable with a certain value
stands in the formula as itself, until it is closed: then the value takes its place, and several
values are alternatives.
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
    """The variables that some solutions bind, and the values that VALUES gives them."""

    domain: Domain
    fixed: Fixed = frozenset()

    def agrees(self, other: Case) -> bool:
        """Whether no variable has different values in two cases."""
        return len(dict(self.fixed | other.fixed)) == len(self.fixed | other.fixed)


Truth = Formula | bool  # True where nothing need hold
Cases = dict[Case, Truth]
START: Cases = {Case(NONE): True}


def joined(left: Cases, right: Cases) -> Cases:
    """The join of two patterns' solutions, which agree on shared variables."""
    return _merged(
        (Case(a.domain | b.domain, a.fixed | b.fixed), both(f, g))
        for a, f in left.items()
        for b, g in right.items()
        if a.agrees(b)
    )


def united(branches: Iterable[Cases], needed: Domain) -> Cases:
    """The union of solutions, with variables that nothing else mentions projected out."""
    # of cases that differ in values that go
    rows: dict[tuple[Case, Truth, Domain], list[Fixed]] = {}
    for case, formula in (pair for branch in branches for pair in branch.items()):
        fixed = frozenset(pair for pair in case.fixed if pair[0] in needed)
        rows.setdefault((Case(case.domain & needed, fixed), formula, case.domain), []).append(
            case.fixed - fixed
        )
    closed = []
    for (case, formula, domain), gone in rows.items():
        if isinstance(formula, Formula):
            formula = _one_of(formula, gone)
            formula = quantified(formula, (domain - needed) & formula.free)
        closed.append((case, formula))
    return _merged(closed)


def some(cases: Cases) -> Truth:
    """The formula that some solution exists."""
    return united([cases], NONE).get(Case(NONE), False)


def _one_of(formula: Formula, rows: list[Fixed]) -> Formula:
    """The disjunction of a formula over rows of values, kept as small as possible."""
    variables = {variable for row in rows for variable, _ in row}
    if isinstance(formula, And):
        spoken = [part for part in formula.parts if part.free & variables]
        if 0 < len(spoken) < len(formula.parts):
            others = [part for part in formula.parts if not part.free & variables]
            return And((*others, _one_of(conjunction(spoken), rows)))
    parts = [reduce(lambda part, pair: substitute(part, *pair), row, formula) for row in rows]
    return reduce(Formula.__or__, dict.fromkeys(parts))


def _merged(cases: Iterable[tuple[Case, Truth]]) -> Cases:
    """Merges formulas by case."""
    merged: Cases = {}
    for case, formula in cases:
        merged[case] = either(merged.get(case, False), formula)
    return merged


def both(left: Truth, right: Truth) -> Truth:
    """The conjunction of two formulas or truth values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is True else left if right is True else False
    return conjunction(list(dict.fromkeys((left & right).parts)))  # what is said twice is said


def either(left: Truth, right: Truth) -> Truth:
    """The disjunction of two formulas or truth values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return right if left is False else left if right is False else True
    return reduce(Formula.__or__, dict.fromkeys((left | right).parts))


def not_(formula: Truth) -> Truth:
    """The negation of a formula or truth value."""
    return not formula if isinstance(formula, bool) else ~formula
